"""What a configuration key is: its type, its default in each Spark release, its checks.

A ``Key`` mirrors one ConfigEntry of Spark 4.3.0. Its ``KeyType`` reads the text and knows Spark's name for the
type (it is part of Spark's error message) and a name for people; its checks hold Spark's texts for refusing a
value. Defaults are kept as Spark prints them (``ConfigEntry.defaultValueString``) and read like any other text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

from podtide.domain.conf.spark_versions import OLDEST, Release
from podtide.domain.jvm import values as java

Value: TypeAlias = bool | int | float | Decimal | str | tuple[str, ...]
"""What a key's text reads as. Times and sizes are whole numbers in the key's unit."""

REGEX_CHARS_MAX: Final = 10_000


class Use(Enum):
    """What a key is for, seen from executor allocation."""

    DECIDES = "decides"
    SHAPES = "shapes the pod"
    TESTS = "tests"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class KeyType:
    """How a text becomes a value: ``parse`` raises ValueError, ``spell`` is Spark's way to write the value back."""

    name: str
    spark_name: str
    expected: str
    parse: Callable[[str], Value]
    spell: Callable[[Any], str] = str
    unit: str = ""


def _time(name: str, spark_unit: str, unit: str, example: str) -> KeyType:
    return KeyType(
        name,
        f"time in {spark_unit}",
        f"a whole number with a time suffix (us, ms, s, m, min, h, d; {unit} without), such as {example}",
        lambda text: java.parse_time(text, unit),
        lambda value: f"{java.convert_time(value, unit, 'ms')}ms",
        unit,
    )


def _size(name: str, spark_unit: str, unit: str, example: str) -> KeyType:
    return KeyType(
        name,
        f"bytes in {spark_unit}",
        f"a whole number with a size suffix (b, k, m, g, t, p; {unit} without), such as {example}",
        lambda text: java.parse_bytes(text, unit),
        lambda value: f"{value * java.BYTE_UNITS[unit]}b",
        unit,
    )


def _regex(text: str) -> str:
    """The text of a regular expression. Java's dialect is not Python's: only what both refuse is refused."""
    if len(text) > REGEX_CHARS_MAX:
        raise ValueError(text)
    if _unbalanced(text):
        raise ValueError(text)
    return text


def _unbalanced(pattern: str) -> bool:
    """Groups and brackets that do not close, a dangling quantifier or backslash: refused by Java as well."""
    depth, bracket, at = 0, False, 0
    begins = True  # an alternative: nothing is there yet that could be repeated
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            if at + 1 == len(pattern):
                return True
            if pattern[at + 1] == "Q":  # quoted up to \E or the end
                end = pattern.find("\\E", at + 2)
                at = len(pattern) if end < 0 else end
            at += 2
            begins = False
            continue
        if bracket:
            bracket = sign != "]"
        elif sign == "[":
            bracket = True
            at += pattern.startswith("^", at + 1)
        elif sign == "(":
            depth += 1
            at += pattern.startswith("?", at + 1)
        elif sign == ")":
            depth -= 1
            if depth < 0:
                return True
        elif sign in "*+?" and begins:
            return True
        begins = sign in "(|" and not bracket
        at += 1
    return bracket or depth != 0


def _list(text: str) -> tuple[str, ...]:
    return tuple(item for item in map(java.trim, text.split(",")) if item)


BOOLEAN: Final = KeyType(
    "boolean", "boolean", "true or false", java.parse_boolean, lambda value: "true" if value else "false"
)
INT: Final = KeyType("int", "int", "a whole number of 32 bits", lambda text: java.parse_int(java.trim(text)))
DOUBLE: Final = KeyType("double", "double", "a number", java.parse_double, java.double_text)
DECIMAL: Final = KeyType(
    "decimal", "decimal", "a decimal number", lambda text: java.parse_decimal(java.trim(text)), java.decimal_text
)
STRING: Final = KeyType("string", "string", "text", lambda text: text)
ENUM: Final = KeyType("enum", "enum", "one of a few names", lambda text: java.trim(text).upper())
LIST: Final = KeyType("list", "string", "texts separated by commas", _list, ",".join)
REGEX: Final = KeyType("regex", "regex", "a regular expression", _regex)
MILLIS: Final = _time("time:ms", "MILLISECONDS", "ms", "1500ms or 2s")
SECONDS: Final = _time("time:s", "SECONDS", "s", "60s or 2m")
MINUTES: Final = _time("time:min", "MINUTES", "min", "5min or 1h")
BYTES: Final = _size("bytes:B", "BYTE", "b", "512m or 2g")
MIB: Final = _size("bytes:MiB", "MiB", "m", "512m or 2g")


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on the value and Spark's text for refusing it (ConfigEntry.checkValue)."""

    holds: Callable[[Any], bool]
    text: str


@dataclass(frozen=True, slots=True)
class Key:
    """One ConfigEntry: where its text comes from, how it is read, what it must fulfil, what it is for.

    ``defaults``: the default from each release on, oldest first; None means unset. ``since``: the release that
    brought the key. ``fallback``: the key whose value and rules apply when this one is unset. ``alternatives``:
    other names that Spark reads in its place, each with the release that stopped doing so, if any did.
    ``options``: the only texts allowed, in Spark's order; ``upper``: the text is put in upper case before.
    """

    name: str
    type: KeyType
    defaults: tuple[tuple[Release, str | None], ...]
    since: Release
    use: Use
    meaning: str
    checks: tuple[Check, ...] = ()
    options: tuple[str, ...] = ()
    upper: bool = False
    fallback: str | None = None
    alternatives: tuple[tuple[str, Release | None], ...] = ()
    internal: bool = False

    def default(self, release: Release) -> str | None:
        """The default text in a release; None when the key is unset by default."""
        text: str | None = None
        for since, default in self.defaults:
            if release >= since:
                text = default
        return text

    def known_to(self, release: Release) -> bool:
        """Whether Spark of that release has the key."""
        return release >= self.since


def key(
    name: str,
    key_type: KeyType,
    default: str | Mapping[str, str | None] | None,
    since: str,
    use: Use,
    meaning: str,
    *checks: Check,
    options: tuple[str, ...] = (),
    upper: bool = False,
    fallback: str | None = None,
    alternatives: Mapping[str, str | None] | None = None,
    internal: bool = False,
) -> Key:
    """A row of the table. ``default`` by release where it moved: {"2.4": "5", "4.0": "10"}."""
    moves = default if isinstance(default, Mapping) else {"2.4": default}
    return Key(
        name,
        key_type,
        tuple((OLDEST if text == "2.4" else release(text), value) for text, value in moves.items()),
        release(since),
        use,
        meaning,
        checks,
        options,
        upper,
        fallback,
        tuple((old, release(until) if until else None) for old, until in (alternatives or {}).items()),
        internal,
    )


def release(text: str) -> Release:
    """ "3.1.3" or "4.0" as a release."""
    major, minor, *patch = map(int, text.split("."))
    return (major, minor, patch[0] if patch else 0)


def no_less(least: float, text: str) -> Check:
    """The value is at least ``least``; NaN is not."""
    return Check(lambda value: value >= least, text)


def more_than(bound: float, text: str) -> Check:
    """The value exceeds ``bound``; NaN does not."""
    return Check(lambda value: value > bound, text)


_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")


def dns_subdomain(text: str, chars_max: int) -> bool:
    """Whether ``text`` is a DNS-1123 subdomain of at most ``chars_max`` characters."""
    return len(text) <= chars_max and _DNS_SUBDOMAIN.fullmatch(text) is not None
