"""What may stand in a file of a user: for each kind of value how it is read, written and asked for.

A ``ValueCodec`` reads a node into a value and writes the value back as text or as a mapping; what it cannot read it refuses
with what was expected. ``RecordCodec`` is the codec of a dataclass: its keys, each with a codec of its own. A key that is
not given keeps its default, and one that has its default is not written. ``record`` derives a record from its
dataclass: keys are called like the fields (``retry_after_ms`` is ``retry-after``), and the kind of a value follows from
the field's unit and type.

``understood`` reads the text of a file, within bounds, and turns whatever is wrong with it into a ``FileError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence as SequenceOf
from dataclasses import MISSING, dataclass, fields as fields_of
from enum import Enum
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Final, NewType, Protocol, TypeVar, get_args, get_type_hints

from podtide.adapters.files import bounded_file, values
from podtide.adapters.files.values import FileReader, Text, UnreadableValue
from podtide.adapters.files.yaml_reader import SIZE_MAX, Mapping, Node, Scalar, Sequence, YamlError, parse
from podtide.adapters.files.yaml_writer import NOTHING, Written
from podtide.domain.base.randomness import Constant, Delay, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.base.units import Millis

T = TypeVar("T")


class ValueCodec(Protocol):
    """Reads and writes one kind of value."""

    def read(self, node: Node, path: str, reader: FileReader) -> Any:
        """The value of a node. Raises Unreadable."""
        ...

    def write(self, value: Any) -> Written:
        """The value as it stands in a file."""
        ...


@dataclass(frozen=True, slots=True)
class Maybe:
    """A value or nothing (null)."""

    codec: ValueCodec

    def read(self, node: Node, path: str, reader: FileReader) -> Any:
        """The value, None for null."""
        return None if isinstance(node, Scalar) and node.null else self.codec.read(node, path, reader)

    def write(self, value: Any) -> Written:
        """The value, null for None."""
        return NOTHING if value is None else self.codec.write(value)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; a single value may stand for a list of one where values are scalars."""

    codec: ValueCodec
    expected: str

    def read(self, node: Node, path: str, reader: FileReader) -> tuple[Any, ...]:
        """The values, in order."""
        if isinstance(node, Scalar) and not node.null and isinstance(self.codec, Text):
            return (self.codec.read(node, path, reader),)
        if not isinstance(node, Sequence):
            raise values.refuse(node, path, self.expected)
        items = []
        for place, item in enumerate(node.items):
            where = f"{path}[{place}]"
            reader.enter(item, where)
            items.append(self.codec.read(item, where, reader))
        return tuple(items)

    def write(self, value: Iterable[Any]) -> Written:
        """The list."""
        return [self.codec.write(item) for item in value]


@dataclass(frozen=True, slots=True)
class PairsOf:
    """A mapping from scalars to values, kept as pairs: in order, or ``by_key``."""

    keys: Text
    values: ValueCodec
    expected: str
    by_key: bool = False

    def read(self, node: Node, path: str, reader: FileReader) -> tuple[tuple[Any, Any], ...]:
        """The pairs."""
        if not isinstance(node, Mapping):
            raise values.refuse(node, path, self.expected)
        pairs: list[tuple[Any, Any]] = []
        for text, (line, value) in node.items.items():
            where = f"{path}.{text}"
            reader.enter(value, where, line)
            key = self.keys.read(Scalar(line, text, True), where, reader)
            if any(key == other for other, _ in pairs):
                raise UnreadableValue(line, where, "the same key twice")
            pairs.append((key, self.values.read(value, where, reader)))
        return tuple(sorted(pairs) if self.by_key else pairs)

    def write(self, value: Iterable[tuple[Any, Any]]) -> Written:
        """The mapping."""
        return {self.keys.show(key): self.values.write(one) for key, one in value}


@dataclass(frozen=True, slots=True)
class FileKey:
    """A key of a record: its name in the file, the attribute it fills, and whether it has to be there."""

    name: str
    attribute: str
    codec: ValueCodec
    required: bool = False


@dataclass(frozen=True, slots=True)
class RecordCodec:
    """A mapping with known keys, read into a dataclass. ``base`` has the defaults of the keys that are not required."""

    make: Callable[..., Any]
    keys: tuple[FileKey, ...]
    base: Any
    expected: str

    def read(self, node: Node, path: str, reader: FileReader) -> Any:
        """The dataclass."""
        return self.make(**self.fields(node, path, reader))

    def fields(self, node: Node, path: str, reader: FileReader, required: bool = True) -> dict[str, Any]:
        """The attributes that the mapping gives."""
        if isinstance(node, Scalar) and node.null:
            node = Mapping(node.line)
        if not isinstance(node, Mapping):
            raise values.refuse(node, path, self.expected)
        known = {key.name: key for key in self.keys}
        fields = {}
        for name, (line, value) in node.items.items():
            where = f"{path}.{name}" if path else name
            reader.enter(value, where, line)
            key = known.get(name)
            if key is None:
                raise UnreadableValue(line, where, values.unknown(name, list(known)))
            fields[key.attribute] = key.codec.read(value, where, reader)
        missing = [key.name for key in self.keys if key.required and key.attribute not in fields]
        if missing and required:
            raise UnreadableValue(node.line, path or "the file", f"expected the key {missing[0]} ({self.expected})")
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
                if isinstance(codec, RecordCodec) and theirs is not None and codec.base is not None:
                    found[key.name] = codec.differing(mine, codec.base)
                else:
                    found[key.name] = codec.write(mine)
        return found


# delays

_DELAYS: Final[dict[frozenset[str], Callable[[dict[str, Millis]], Delay]]] = {
    frozenset({"from", "to"}): lambda d: Uniform(d["from"], d["to"]),
    frozenset({"mean"}): lambda d: Exponential(d["mean"]),
    frozenset({"median", "p90"}): lambda d: LogNormal(d["median"], d["p90"]),
}
_QUANTILES: Final = PairsOf(
    Text("a percent from 0 to 100", values.number, values.show_number),
    values.DURATION,
    "durations by percent, as {0: 1s, 50: 3s, 100: 9s}",
)


class DelayCodec:
    """A distribution of durations."""

    expected: Final = (
        "a duration, {from: 1s, to: 5s}, {mean: 10s}, {median: 2s, p90: 6s} or {quantiles: {0: 1s, 50: 2s, 100: 9s}}"
    )

    def read(self, node: Node, path: str, reader: FileReader) -> Any:
        """The distribution."""
        if isinstance(node, Scalar) and not node.null:
            return Constant(values.DURATION.read(node, path, reader))
        if not isinstance(node, Mapping):
            raise values.refuse(node, path, self.expected)
        if list(node.items) == ["quantiles"]:
            line, points = node.items["quantiles"]
            reader.enter(points, f"{path}.quantiles", line)
            return Quantiles(tuple(sorted(_QUANTILES.read(points, f"{path}.quantiles", reader))))
        make = _DELAYS.get(frozenset(node.items))
        if make is None:
            raise UnreadableValue(node.line, path, f"expected {self.expected}, got {{{', '.join(node.items)}}}")
        parts = {}
        for name, (line, value) in node.items.items():
            reader.enter(value, f"{path}.{name}", line)
            parts[name] = values.DURATION.read(value, f"{path}.{name}", reader)
        return make(parts)

    def write(self, value: Any) -> Written:
        """The distribution as it stands in a file."""
        match value:
            case Constant(ms):
                return values.show_duration(ms)
            case Uniform(low, high):
                return {"from": values.show_duration(low), "to": values.show_duration(high)}
            case Exponential(mean):
                return {"mean": values.show_duration(mean)}
            case LogNormal(median, p90):
                return {"median": values.show_duration(median), "p90": values.show_duration(p90)}
            case Quantiles(points):
                return {"quantiles": _QUANTILES.write(points)}
            case _:
                raise AssertionError(f"no delay: {value!r}")


DELAY: Final = DelayCodec()


# records of dataclasses

_UNITS: Final[dict[str, ValueCodec]] = {"_ms": values.DURATION, "_mib": values.MEMORY, "_millis": values.CPU}
_KINDS: Final[dict[Any, ValueCodec]] = {int: values.INTEGER, float: values.NUMBER, bool: values.FLAG, str: values.NAME}
"""The codecs of types; ``record`` adds the dataclasses."""


def record(
    kind: type,
    expected: str,
    keys: str = "",
    *,
    optional: str = "",
    make: Callable[..., Any] | None = None,
    **codecs: ValueCodec,
) -> RecordCodec:
    """The codec of a dataclass, which from now on is the codec of all fields of that type.

    ``keys``: the fields in order, ``key=field`` where the two have different names; all fields where it is left out.
    ``optional``: a field without a default that need not be there. ``make``: instead of the dataclass.
    ``codecs``: the codecs of fields whose type does not say enough, such as lists.
    """
    hints = get_type_hints(kind)
    fields = {field.name: field for field in fields_of(kind)}
    defaults = SimpleNamespace()
    for field in fields.values():
        if field.default is not MISSING:
            setattr(defaults, field.name, field.default)
        elif field.default_factory is not MISSING:
            setattr(defaults, field.name, field.default_factory())
    found = []
    for word in keys.split() or fields:
        name, _, attribute = word.rpartition("=")
        unit = next((unit for unit in _UNITS if attribute.endswith(unit)), "")
        codec = codecs.get(attribute) or _codec_of(hints[attribute], unit)
        required = not hasattr(defaults, attribute) and attribute != optional
        found.append(FileKey(name or attribute.removesuffix(unit).replace("_", "-"), attribute, codec, required))
    codec = RecordCodec(make or kind, tuple(found), defaults, expected)
    if make is None:
        _KINDS[kind] = codec
    return codec


def _codec_of(hint: Any, unit: str) -> ValueCodec:
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    if isinstance(hint, UnionType) and NoneType in get_args(hint):
        rest = [option for option in get_args(hint) if option is not NoneType]
        return Maybe(_codec_of(Delay if len(rest) > 1 else rest[0], unit))
    if hint == Delay:
        return DELAY
    if unit:
        return _UNITS[unit]
    return values.choice(hint) if isinstance(hint, type) and issubclass(hint, Enum) else _KINDS[hint]


# files


class FileError(Exception):
    """A file that cannot be used: which file, which line, which key, and what was expected."""

    def __init__(self, name: str, line: int | None, why: str) -> None:
        super().__init__(f"{name}: {why}" if line is None else f"{name}:{line}: {why}")
        self.line = line


def text_of(path: Path, what: str) -> str:
    """The text of a file, within bounds; ``what`` it should be is for the messages. Raises FileError."""
    try:
        return bounded_file.text_of(path, what, SIZE_MAX)
    except bounded_file.FileNotUsable as fault:
        raise FileError(str(path), fault.line, fault.why) from None


def understood(
    text: str,
    name: str,
    read: Callable[[Node | None, FileReader], T],
    problems: Callable[[T], SequenceOf[tuple[str, str]]],
) -> T:
    """What a text describes. ``problems``: what cannot be in it, by the path of a key. Raises FileError."""
    reader = FileReader()
    try:
        value = read(parse(text), reader)
    except (YamlError, UnreadableValue) as fault:
        key = f"{fault.key}: " if isinstance(fault, UnreadableValue) else ""
        raise FileError(name, fault.line, f"{key}{fault.why}") from None
    if found := problems(value):
        raise FileError(name, reader.line(found[0][0]), first_of(found))
    return value


def first_of(found: SequenceOf[tuple[str, str]]) -> str:
    """The first of the problems, and how many more there are."""
    where, expected = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{where}: expected {expected}{more}"
