r"""SparkConf as a value: settings from several sources, each remembering its own, read with Spark's rules.

A ``SparkConf`` holds texts by key, each with its origin (the event log, a line of a properties file, --conf), and
the Spark version whose defaults fill the gaps. ``layered`` puts one source over another; the last one wins.

``read`` is ConfigEntry.readFrom: the key's own text, or one under another name that Spark still accepts, or the
default, or the value of the key that this one falls back to; references ``${spark.other.key}`` in it are replaced,
again and again; then it is converted and checked by the key's row (``conf.entries``). A failure is a ``ConfError``: key,
value, origin, what was expected, and what Spark would have thrown, to the letter. Nothing fails unless it is read,
as in Spark; ``check`` reads everything that is set and collects all failures.

Two things differ from the JVM on purpose. ``${env:X}`` and ``${system:x}`` stay as they are: this reads no
environment, and that of the driver is not here. And references that expand without bound are refused.

An empty text is a value, not an unset key: ``--conf spark.executor.cores=`` is an int that cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from pyrsistent import PMap, pmap
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.entry_types import ENUM, Key, Value
from podtide.domain.conf.spark_versions import DEFAULT_VERSION, SparkVersion
from podtide.domain.jvm.exceptions import SparkFault, illegal
from podtide.domain.jvm.hash_order import bucket_order, map_order, product_hash
from podtide.domain.jvm.values import string_hash

SPARK_ILLEGAL_ARGUMENT: Final = "org.apache.spark.SparkIllegalArgumentException"

EXPANDED_CHARS_MAX: Final = 65_536
REFERENCES_MAX: Final = 1_000
REFERENCE_DEPTH_MAX: Final = 100

COMMAND_LINE: Final = "--conf"
EVENT_LOG: Final = "event log"

_BLANK: Final = re.compile(r"\s", re.ASCII)


class Setting(NamedTuple):
    """A text and where it was set."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class ConfError:
    """A setting that cannot be used: ``value`` as it was written. ``raised``: what Spark throws for it, if it does."""

    key: str
    value: str
    origin: str
    expected: str
    raised: SparkFault | None = None

    def __str__(self) -> str:
        return f"{self.key} = {self.value!r} ({self.origin}): expected {self.expected}"


class Reading(NamedTuple):
    """A key's value: None when unset without default; ``text`` before conversion, references replaced."""

    value: Value | None
    text: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class SparkConf:
    """Settings by key, and the Spark version whose defaults apply to the rest."""

    settings: PMap[str, Setting]
    version: SparkVersion = DEFAULT_VERSION

    def setting(self, name: str) -> Setting | None:
        """SparkConf.getOption: the text under the key or under another name of it, references not replaced."""
        found = self.settings.get(name)
        if found is not None or name not in KEYS:
            return found
        for old, until in KEYS[name].alternatives:
            if (until is None or self.version.release < until) and old in self.settings:
                text, origin = self.settings[old]
                return Setting(text, f"{origin}, as {old}")
        return None

    def raw(self, name: str) -> str | None:
        """The text of ``setting``; None when unset."""
        setting = self.setting(name)
        return None if setting is None else setting.value

    @property
    def master(self) -> str:
        """The master URL, as it was set; "" when nobody recorded one."""
        return self.raw("spark.master") or ""

    @property
    def is_local(self) -> bool:
        """Whether the driver is the only executor."""
        return self.master == "local" or self.master.startswith("local[")

    def refused(self, name: str, expected: str, raised: SparkFault | None = None) -> ConfError:
        """What is wrong with a setting, or with its absence."""
        setting = self.setting(name) or Setting("", "unset")
        return ConfError(name, setting.value, setting.origin, expected, raised)

    def with_prefix(self, prefix: str) -> tuple[tuple[str, Setting], ...]:
        """Keys that begin so, without the prefix, in alphabetical order."""
        return tuple(
            (name[len(prefix) :], self.settings[name]) for name in sorted(self.settings) if name.startswith(prefix)
        )

    def walked(self, names: Iterable[str]) -> list[str]:
        """These keys in the order of SparkConf.getAll, a mutable HashSet of all pairs of the conf."""
        pairs = ((name, self.settings[name].value) for name in names)
        codes = [(product_hash("Tuple2", map(string_hash, pair)), pair[0]) for pair in pairs]
        return bucket_order(codes, len(self.settings))

    def family(self, prefix: str, fits: Callable[[str], bool] = lambda _: True) -> dict[str, Setting]:
        """KubernetesUtils.parsePrefixedKeyValuePairs: what begins with the prefix, without it, in the map's order.

        ``fits``: which names are put into the map.
        """
        names = self.walked([name for name in sorted(self.settings) if name.startswith(prefix)])
        kept = [rest for name in names if fits(rest := name.removeprefix(prefix))]
        return {name: self.settings[prefix + name] for name in map_order(kept)}

    def at(self, version: SparkVersion) -> SparkConf:
        """The same settings with the defaults of another version."""
        return replace(self, version=version)


def from_mapping(settings: Mapping[str, str], origin: str, version: SparkVersion = DEFAULT_VERSION) -> SparkConf:
    """A conf of texts that were all set in one place."""
    return SparkConf(pmap({name: Setting(text, origin) for name, text in settings.items()}), version)


def from_arguments(
    pairs: Iterable[str], origin: str = COMMAND_LINE, version: SparkVersion = DEFAULT_VERSION
) -> Result[SparkConf, tuple[ConfError, ...]]:
    """A conf of ``key=value`` texts as spark-submit takes them with --conf: split at the first "=", not trimmed."""
    settings: dict[str, str] = {}
    errors = []
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if separator and name:
            settings[name] = text
        else:
            raised = SparkFault("org.apache.spark.SparkException", f"Spark config without '=': {pair}")
            expected = "key=value, such as spark.dynamicAllocation.maxExecutors=40"
            errors.append(ConfError(name, text if separator else "", origin, expected, None if separator else raised))
    return Failure(tuple(errors)) if errors else Success(from_mapping(settings, origin, version))


def layered(*confs: SparkConf) -> SparkConf:
    """One conf of several, the later over the earlier; the version is that of the first. At least one is needed."""
    first, *others = confs
    settings = first.settings
    for conf in others:
        settings = settings.update(conf.settings)
    return replace(first, settings=settings)


def read(conf: SparkConf, name: str) -> Result[Reading, ConfError]:
    """The value of a key of the table (``conf.entries.KEYS``; KeyError for any other), as ConfigEntry.readFrom does."""
    row = KEYS[name]
    found = conf.setting(name)
    if found is not None:
        return _converted(conf, row, found)
    if row.fallback is not None:
        lent = read(conf, row.fallback)
        if not is_successful(lent):
            return lent
        reading = lent.unwrap()
        return Success(reading._replace(origin=f"value of {row.fallback} ({reading.origin})"))
    origin = f"default of Spark {conf.version.name}"
    default = row.default(conf.version.release)
    if default is None:
        return Success(Reading(None, None, origin))
    return _converted(conf, row, Setting(default, origin))


def expanded(conf: SparkConf, name: str) -> Result[str | None, ConfError]:
    """The text of an entry that the table lacks, its references replaced; None when unset."""
    setting = conf.setting(name)
    try:
        return Success(None if setting is None else _Expansion(conf).expand(setting.value, (), 0))
    except _UnboundedReference as problem:
        return Failure(conf.refused(name, str(problem), problem.raised))


def check(conf: SparkConf) -> tuple[ConfError, ...]:
    """Every setting of the table that Spark could not read, in alphabetical order of the keys."""
    readings = (read(conf, name) for name in sorted(KEYS) if conf.setting(name) is not None)
    return tuple(reading.failure() for reading in readings if not is_successful(reading))


def unresolved(text: str) -> tuple[str, ...]:
    """The references in a text that only the driver's environment could resolve: env:..., system:..."""
    return tuple(reference for _, _, reference in _references(text) if reference.startswith(("env:", "system:")))


def _converted(conf: SparkConf, row: Key, setting: Setting) -> Result[Reading, ConfError]:
    """Replace references, convert, check. Spark's errors name the key that lent its rules, if one did."""
    written, origin = setting
    # An alternative name is part of the origin; the error names what the user wrote.
    name = origin.rpartition(", as ")[2] if ", as " in origin and row.alternatives else row.name
    ruling = KEYS[row.fallback] if row.fallback is not None else row

    def refused(expected: str, raised: SparkFault | None) -> Result[Reading, ConfError]:
        return Failure(ConfError(name, written, origin, expected, raised))

    try:
        text = _Expansion(conf).expand(written, (), 0)
    except _UnboundedReference as problem:
        return refused(str(problem), problem.raised)
    try:
        value = row.type.parse(text)
    except ValueError:
        return refused(row.type.expected, _fault("TYPE_MISMATCH", ruling, text, _type_text(row)))
    if row.upper and isinstance(value, str):
        value = value.upper()
    if row.options and value not in row.options:
        shown = text if row.type is ENUM else str(value)
        options = ", ".join(row.options)
        return refused(
            f"one of {options}",
            _fault("OUT_OF_RANGE_OF_OPTIONS", ruling, shown, f"It should be one of '{options}'."),
        )
    for condition in ruling.checks:
        if not condition.holds(value):
            return refused(
                condition.text.rstrip("."), _fault("REQUIREMENT", ruling, row.type.spell(value), condition.text)
            )
    return Success(Reading(value, text, origin))


def _type_text(row: Key) -> str:
    if row.type is ENUM:
        return f"It should be one of '{', '.join(row.options)}'."
    return f"It should be a/an '{row.type.spark_name}' value."


def _fault(problem: str, row: Key, text: str, demand: str) -> SparkFault:
    return SparkFault(
        SPARK_ILLEGAL_ARGUMENT,
        f"[INVALID_CONF_VALUE.{problem}] The value '{text}' in the config \"{row.name}\" is invalid. {demand} "
        "SQLSTATE: 22022",
    )


class _UnboundedReference(Exception):
    """References that lead back to themselves, or expand beyond all bounds."""

    def __init__(self, message: str, raised: SparkFault | None = None) -> None:
        super().__init__(message)
        self.raised = raised


class _Expansion:
    """ConfigReader.substitute for one text: ``${spark.key}`` becomes that key's text, expanded in turn.

    A key that is not set lends its default; an unknown reference stays as it is.
    """

    def __init__(self, conf: SparkConf) -> None:
        self.conf = conf
        self.references = 0
        self.chars = 0

    def expand(self, text: str, used: tuple[str, ...], depth: int) -> str:
        if "${" not in text:
            return text
        self.chars += len(text)
        if self.chars > EXPANDED_CHARS_MAX or depth > REFERENCE_DEPTH_MAX:
            raise _UnboundedReference("references that expand to a text of reasonable size")
        parts = []
        last = 0
        for start, end, reference in _references(text):
            self.references += 1
            if self.references > REFERENCES_MAX:
                raise _UnboundedReference(f"at most {REFERENCES_MAX} references")
            if reference in used:
                message = f"requirement failed: Circular reference in {text}: {reference}"
                expected = f"references that do not lead back to themselves ({reference} does)"
                raise _UnboundedReference(expected, illegal(message))
            lent = self._lent(reference)
            parts.append(text[last:start])
            parts.append(text[start:end] if lent is None else self.expand(lent, (*used, reference), depth + 1))
            last = end
        parts.append(text[last:])
        expanded = "".join(parts)
        if len(expanded) > EXPANDED_CHARS_MAX:
            raise _UnboundedReference("references that expand to a text of reasonable size")
        return expanded

    def _lent(self, reference: str) -> str | None:
        """The text behind a reference without prefix; only Spark's own keys can be referred to."""
        name: str | None = reference
        while name is not None:
            if name.startswith("spark.") and (found := self.conf.setting(name)) is not None:
                return found.value
            row = KEYS.get(name)
            if row is None:
                return None
            if row.fallback is None:
                return row.default(self.conf.version.release)
            name = row.fallback
        return None


def _references(text: str) -> Iterable[tuple[int, int, str]]:
    """Start, end and inside of every ``${...}`` without blanks in it, left to right; linear in the text."""
    start = text.find("${")
    close = blank = -1
    while start >= 0:
        inside = start + 2
        if close <= inside:
            close = text.find("}", inside + 1)
            if close < 0:
                return
        if blank < inside:
            found = _BLANK.search(text, inside)
            blank = found.start() if found else len(text)
        if blank < close:
            start = text.find("${", inside)
            continue
        yield start, close + 1, text[inside:close]
        start = text.find("${", close + 1)
