"""What may stand in a cluster file: for each kind of value how it is read, written and asked for.

A ``Codec`` reads a node into a value and writes the value back as text or as a mapping; what it cannot read it refuses
with what was expected. ``Record`` is the codec of a dataclass: its keys, each with a codec of its own. A key that is
not given keeps its default, and one that has its default is not written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, Protocol

from podtide.adapters.files.yaml_reader import Mapping, Node, Scalar, Sequence, Walk, quoted
from podtide.domain.base.randomness import DELAY_MAX, Constant, Delay, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.base.units import Millis

Written = str | dict[str, "Written"] | list["Written"]
"""What a value is written as: a scalar's YAML text, a mapping or a sequence."""

NOTHING: Final = "null"


class Unreadable(Exception):
    """A value that is not what was expected: its line, the path of its key, and what was expected there."""

    def __init__(self, line: int, key: str, why: str) -> None:
        super().__init__(f"line {line}: {key}: {why}")
        self.line = line
        self.key = key
        self.why = why


class Reader:
    """Where the reading is: it counts what it looks at and remembers which key stands on which line."""

    def __init__(self) -> None:
        self._walk = Walk()
        self.lines: dict[str, int] = {}

    def enter(self, node: Node, path: str, line: int | None = None) -> None:
        """Look at a node. Raises YamlError where a file leads around in circles."""
        self._walk.visit(node, path.count(".") + path.count("["))
        self.lines[path] = node.line if line is None else line


class Codec(Protocol):
    """Reads and writes one kind of value."""

    def read(self, node: Node, path: str, reader: Reader) -> Any:
        """The value of a node. Raises Unreadable."""
        ...

    def write(self, value: Any) -> Written:
        """The value as it stands in a file."""
        ...


def refuse(node: Node, path: str, expected: str) -> Unreadable:
    """A node that is not what was expected there."""
    match node:
        case Scalar():
            got = f"got {node.text[:60]!r}" if node.text else "got nothing"
        case Mapping():
            got = "got a mapping"
        case Sequence():
            got = "got a list"
    return Unreadable(node.line, path or "the file", f"expected {expected}, {got}")


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar that ``parse`` understands (it raises ValueError for others) and ``show`` writes."""

    expected: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str]

    def read(self, node: Node, path: str, reader: Reader) -> Any:  # noqa: ARG002 - all codecs are asked alike
        """The value of a scalar."""
        if not isinstance(node, Scalar) or node.null:
            raise refuse(node, path, self.expected)
        try:
            return self.parse(node.text)
        except (ValueError, ArithmeticError):
            raise refuse(node, path, self.expected) from None

    def write(self, value: Any) -> Written:
        """The scalar."""
        return self.show(value)


@dataclass(frozen=True, slots=True)
class Maybe:
    """A value or nothing (null)."""

    codec: Codec

    def read(self, node: Node, path: str, reader: Reader) -> Any:
        """The value, None for null."""
        return None if isinstance(node, Scalar) and node.null else self.codec.read(node, path, reader)

    def write(self, value: Any) -> Written:
        """The value, null for None."""
        return NOTHING if value is None else self.codec.write(value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; a single value may stand for a list of one where values are scalars."""

    codec: Codec
    expected: str

    def read(self, node: Node, path: str, reader: Reader) -> tuple[Any, ...]:
        """The values, in order."""
        if isinstance(node, Scalar) and not node.null and isinstance(self.codec, Text):
            return (self.codec.read(node, path, reader),)
        if not isinstance(node, Sequence):
            raise refuse(node, path, self.expected)
        values = []
        for place, item in enumerate(node.items):
            where = f"{path}[{place}]"
            reader.enter(item, where)
            values.append(self.codec.read(item, where, reader))
        return tuple(values)

    def write(self, value: Iterable[Any]) -> Written:
        """The list."""
        return [self.codec.write(item) for item in value]


@dataclass(frozen=True, slots=True)
class PairsOf:
    """A mapping from scalars to values, kept in order as pairs."""

    keys: Text
    values: Codec
    expected: str

    def read(self, node: Node, path: str, reader: Reader) -> tuple[tuple[Any, Any], ...]:
        """The pairs, in order."""
        if not isinstance(node, Mapping):
            raise refuse(node, path, self.expected)
        pairs: list[tuple[Any, Any]] = []
        for text, (line, value) in node.items.items():
            where = f"{path}.{text}"
            reader.enter(value, where, line)
            key = self.keys.read(Scalar(line, text, True), where, reader)
            if any(key == other for other, _ in pairs):
                raise Unreadable(line, where, "the same key twice")
            pairs.append((key, self.values.read(value, where, reader)))
        return tuple(pairs)

    def write(self, value: Iterable[tuple[Any, Any]]) -> Written:
        """The mapping."""
        return {self.keys.show(key): self.values.write(one) for key, one in value}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a record: its name in the file, the attribute it fills, and whether it has to be there."""

    name: str
    attribute: str
    codec: Codec
    required: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys, read into a dataclass. ``base`` has the defaults of the keys that are not required."""

    make: Callable[..., Any]
    keys: tuple[Key, ...]
    base: Any
    expected: str

    def read(self, node: Node, path: str, reader: Reader) -> Any:
        """The dataclass."""
        return self.make(**self.fields(node, path, reader))

    def fields(self, node: Node, path: str, reader: Reader, required: bool = True) -> dict[str, Any]:
        """The attributes that the mapping gives."""
        if isinstance(node, Scalar) and node.null:
            node = Mapping(node.line)
        if not isinstance(node, Mapping):
            raise refuse(node, path, self.expected)
        known = {key.name: key for key in self.keys}
        fields = {}
        for name, (line, value) in node.items.items():
            where = f"{path}.{name}" if path else name
            reader.enter(value, where, line)
            key = known.get(name)
            if key is None:
                raise Unreadable(line, where, unknown(name, list(known)))
            fields[key.attribute] = key.codec.read(value, where, reader)
        missing = [key.name for key in self.keys if key.required and key.attribute not in fields]
        if missing and required:
            raise Unreadable(node.line, path or "the file", f"expected the key {missing[0]} ({self.expected})")
        return fields

    def write(self, value: Any) -> Written:
        """What differs from the defaults, as a mapping."""
        return self.differing(value, self.base)

    def differing(self, value: Any, base: Any) -> dict[str, Written]:
        """What differs from ``base``."""
        found: dict[str, Written] = {}
        for key in self.keys:
            mine = getattr(value, key.attribute)
            theirs = getattr(base, key.attribute, None)
            if (key.required and base is self.base) or mine != theirs:
                codec = key.codec
                if isinstance(codec, Record) and theirs is not None and codec.base is not None:
                    found[key.name] = codec.differing(mine, codec.base)
                else:
                    found[key.name] = codec.write(mine)
        return found


def unknown(name: str, known: list[str]) -> str:
    """What to say of a key that is none, with the one that was meant perhaps."""
    close = get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"unknown key; expected one of {', '.join(known)}{hint}"


# numbers


_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"[0-9]{1,19}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?")
_DURATION: Final = re.compile(r"(?:[0-9]{1,15}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d))+")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MEMORY: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)(Ki|Mi|Gi|Ti|k|M|G|T)?")
_BYTES: Final = {
    None: 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
}  # fmt: skip
_CPU: Final = re.compile(r"([0-9]{1,9})m|([0-9]{1,6}(?:\.[0-9]{1,3})?)")


def _whole(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    value = float(text)
    if value == float("inf"):
        raise ValueError(text)
    return value


def _show_number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def duration(text: str) -> Millis:
    """Milliseconds of ``250ms``, ``1.5s``, ``1h30m`` or ``0``. Raises ValueError."""
    if text == "0":
        return 0
    if _DURATION.fullmatch(text) is None:
        raise ValueError(text)
    ms = round(sum((Decimal(count) * _UNITS[unit] for count, unit in _PART.findall(text)), Decimal(0)))
    if ms > DELAY_MAX:
        raise ValueError(text)
    return ms


def show_duration(ms: Millis) -> str:
    """The shortest exact way to write a duration with one unit."""
    if ms == 0:
        return "0s"
    for unit in ("d", "h", "m", "s"):
        if ms % _UNITS[unit] == 0:
            return f"{ms // _UNITS[unit]}{unit}"
    return f"{ms}ms"


def _memory(text: str) -> int:
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(text)
    mib = Decimal(match[1]) * _BYTES[match[2]] / 2**20
    return int(mib.to_integral_value(ROUND_CEILING))


def _show_memory(mib: int) -> str:
    return f"{mib // 1024}Gi" if mib % 1024 == 0 and mib else f"{mib}Mi"


def _cpu(text: str) -> int:
    match = _CPU.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) if match[1] is not None else int(Decimal(match[2]) * 1000)


def _show_cpu(millis: int) -> str:
    return str(millis // 1000) if millis % 1000 == 0 else f"{millis}m"


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(text)
    return text == "true"


def choice(kind: type[Enum]) -> Text:
    """One of an enumeration's texts."""
    return Text(f"one of {', '.join(str(member.value) for member in kind)}", kind, lambda member: str(member.value))


INTEGER: Final = Text("a whole number", _whole, str)
NUMBER: Final = Text("a number, 0 or more", _number, _show_number)
DURATION: Final = Text("a duration of at most ten years, such as 250ms, 30s, 1h30m or 2d", duration, show_duration)
MEMORY: Final = Text("an amount of memory, such as 1408Mi or 8Gi", _memory, _show_memory)
CPU: Final = Text("processors, such as 2 or 500m", _cpu, _show_cpu)
FLAG: Final = Text("true or false", _flag, lambda value: "true" if value else "false")
NAME: Final = Text("a text", str, quoted)


# delays

_DELAYS: Final[dict[frozenset[str], Callable[[dict[str, Millis]], Delay]]] = {
    frozenset({"from", "to"}): lambda d: Uniform(d["from"], d["to"]),
    frozenset({"mean"}): lambda d: Exponential(d["mean"]),
    frozenset({"median", "p90"}): lambda d: LogNormal(d["median"], d["p90"]),
}
_QUANTILES: Final = PairsOf(
    Text("a percent from 0 to 100", _number, _show_number),
    DURATION,
    "durations by percent, as {0: 1s, 50: 3s, 100: 9s}",
)


class DelayCodec:
    """A distribution of durations."""

    expected: Final = (
        "a duration, {from: 1s, to: 5s}, {mean: 10s}, {median: 2s, p90: 6s} or {quantiles: {0: 1s, 50: 2s, 100: 9s}}"
    )

    def read(self, node: Node, path: str, reader: Reader) -> Any:
        """The distribution."""
        if isinstance(node, Scalar) and not node.null:
            return Constant(DURATION.read(node, path, reader))
        if not isinstance(node, Mapping):
            raise refuse(node, path, self.expected)
        if list(node.items) == ["quantiles"]:
            line, points = node.items["quantiles"]
            reader.enter(points, f"{path}.quantiles", line)
            return Quantiles(tuple(sorted(_QUANTILES.read(points, f"{path}.quantiles", reader))))
        make = _DELAYS.get(frozenset(node.items))
        if make is None:
            raise Unreadable(node.line, path, f"expected {self.expected}, got {{{', '.join(node.items)}}}")
        values = {}
        for name, (line, value) in node.items.items():
            reader.enter(value, f"{path}.{name}", line)
            values[name] = DURATION.read(value, f"{path}.{name}", reader)
        return make(values)

    def write(self, value: Any) -> Written:
        """The distribution as it stands in a file."""
        match value:
            case Constant(ms):
                return show_duration(ms)
            case Uniform(low, high):
                return {"from": show_duration(low), "to": show_duration(high)}
            case Exponential(mean):
                return {"mean": show_duration(mean)}
            case LogNormal(median, p90):
                return {"median": show_duration(median), "p90": show_duration(p90)}
            case Quantiles(points):
                return {"quantiles": _QUANTILES.write(points)}
            case _:
                raise AssertionError(f"no delay: {value!r}")


DELAY: Final = DelayCodec()
