"""Variants as the command line writes them.

``--set KEY=VALUE`` (repeated: all of them make the one variant "set"), ``--variant NAME:KEY=VALUE,KEY=VALUE`` and
``--static N`` (each makes one). ``KEY=`` unsets a key of the log's config. A comma inside a value of ``--variant`` is
written ``\\,``, a backslash before a comma ``\\\\``; any other backslash stands for itself.

Besides Spark's keys there are a few of podtide's own, so that a variant can be all of it at once: ``static=8`` (so many
executors and no dynamic allocation), ``fault.spot-rate=0.5/h`` (interruptions of one executor), ``fault.slow-start=30s``
(every start takes longer) and ``fault.quota=20`` (the cluster gives no more executors). ``--spot-rate``, ``--slow-start``
and ``--quota`` are the same over the log's own config: the variant "faults".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from podtide.adapters.files.values import duration
from podtide.adapters.text.safe import escaped
from podtide.domain.rerun.plan import AS_RECORDED, AS_SIMULATED, EXECUTORS_MAX, NO_FAULTS, Faults, Variant

SET: Final = "set"
FAULTS: Final = "faults"
STATIC_KEY: Final = "static"
SPOT_KEY: Final = "fault.spot-rate"
SLOW_KEY: Final = "fault.slow-start"
QUOTA_KEY: Final = "fault.quota"

VARIANTS_MAX: Final = 200
NAME_CHARS_MAX: Final = 80
QUOTA_MAX: Final = 1_000_000
SPOT_MAX: Final = 3_600.0
"""Interruptions of an executor an hour: one a second."""

_RATE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(?:/(h|d))?")
_COMMA: Final = re.compile(r"(?<!\\)(\\*),")
_COUNT: Final = re.compile(r"[0-9]{1,7}")


class VariantError(ValueError):
    """An option that cannot be understood; one line that names it and what was expected."""


@dataclass(frozen=True, slots=True)
class VariantWishes:
    """The options, as they were written. ``everywhere``: changes that go under every variant, such as another master."""

    sets: Sequence[str] = ()
    variants: Sequence[str] = ()
    statics: Sequence[int] = ()
    spot_rate: str | None = None
    slow_start: str | None = None
    quota: str | None = None
    everywhere: dict[str, str | None] = field(default_factory=dict)


def variants_of(wishes: VariantWishes) -> tuple[Variant, ...]:
    """The variants in the order: set, the named ones, static counts, faults. Raises VariantError."""
    found: list[Variant] = []
    if wishes.sets:
        found.append(_variant(SET, wishes.sets, "--set"))
    found.extend(_named(text) for text in wishes.variants)
    found.extend(_variant(f"static {count}", [f"{STATIC_KEY}={count}"], "--static") for count in wishes.statics)
    given = ((SPOT_KEY, wishes.spot_rate), (SLOW_KEY, wishes.slow_start), (QUOTA_KEY, wishes.quota))
    faults = [f"{key}={value}" for key, value in given if value is not None]
    if faults:
        found.append(_variant(FAULTS, faults, "the faults"))
    names: set[str] = set()
    for variant in found:
        if variant.name in names:
            raise VariantError(f"two variants are called {escaped(variant.name)!r}: expected names that differ")
        names.add(variant.name)
    if len(found) > VARIANTS_MAX:
        raise VariantError(f"{len(found):,} variants: expected at most {VARIANTS_MAX}")
    if wishes.everywhere:
        found = [replace(one, changes={**wishes.everywhere, **one.changes}) for one in found]
    return tuple(found)


def spot_rate(text: str) -> float:
    """Interruptions an hour of ``0.5``, ``0.5/h`` or ``3/d``. Raises VariantError."""
    match = _RATE.fullmatch(text.strip())
    rate = math.inf if match is None else float(match[1]) / (24 if match[2] == "d" else 1)
    if rate > SPOT_MAX:
        raise VariantError(f"{escaped(text, 60)!r}: expected interruptions an hour, such as 0.5/h, or 3/d")
    return rate


def _named(text: str) -> Variant:
    name, colon, rest = text.partition(":")
    name = name.strip()
    if not colon or not name or "=" in name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        shape = "NAME:KEY=VALUE,KEY=VALUE, such as wide:spark.dynamicAllocation.maxExecutors=40"
        raise VariantError(f"--variant {escaped(text, 100)!r}: expected {shape}")
    if name in (AS_RECORDED, AS_SIMULATED):
        raise VariantError(f"--variant: {name!r} is what the log's own config is called: expected another name")
    return _variant(name, split(rest), f"--variant {escaped(name)}")


def split(text: str) -> list[str]:
    r"""Parts between commas. Before a comma, ``\\`` is a backslash and ``\`` makes the comma part of the value."""
    parts, part, last = [], "", 0
    for found in _COMMA.finditer(text):
        slashes = len(found[1])
        part += text[last : found.start()] + "\\" * (slashes // 2)
        last = found.end()
        if slashes % 2:
            part += ","
        else:
            parts.append(part)
            part = ""
    parts.append(part + text[last:])
    return [one.strip() for one in parts if one.strip()]


def _variant(name: str, pairs: Sequence[str], option: str) -> Variant:
    changes: dict[str, str | None] = {}
    static: int | None = None
    faults = NO_FAULTS
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            hint = " (a comma in a value is written \\,)" if option.startswith("--variant") else ""
            raise VariantError(f"{option}: {escaped(pair, 100)!r}: expected KEY=VALUE, or KEY= to unset it{hint}")
        if key in changes:
            raise VariantError(f"{option}: {escaped(key, 100)}: expected once")
        if key == STATIC_KEY:
            static = _count(f"{option}: {key}", value, 1, EXECUTORS_MAX)
        elif key.startswith("fault."):
            faults = _fault(faults, option, key, value)
        else:
            changes[key] = value or None
    if not changes and static is None and faults == NO_FAULTS:
        raise VariantError(f"{option}: it changes nothing: expected KEY=VALUE")
    return Variant(name, changes, static, faults)


def _fault(faults: Faults, option: str, key: str, value: str) -> Faults:
    where = f"{option}: {key}"
    match key:
        case "fault.spot-rate":
            try:
                return replace(faults, spot_per_hour=spot_rate(value))
            except VariantError as wrong:
                raise VariantError(f"{where} = {wrong}") from None
        case "fault.slow-start":
            try:
                return replace(faults, start_extra_ms=duration(value.strip()))
            except ValueError:
                raise VariantError(f"{where} = {escaped(value, 60)!r}: expected a duration such as 30s") from None
        case "fault.quota":
            return replace(faults, quota=_count(where, value, 0, QUOTA_MAX))
        case _:
            known = f"{SPOT_KEY}, {SLOW_KEY} or {QUOTA_KEY}"
            raise VariantError(f"{option}: {escaped(key, 100)}: expected {known}")


def _count(where: str, value: str, least: int, most: int) -> int:
    if _COUNT.fullmatch(value.strip()) is None or not least <= int(value) <= most:
        raise VariantError(f"{where} = {escaped(value, 60)!r}: expected a whole number from {least} to {most:,}")
    return int(value)
