"""Single values in files that users write: numbers, durations, amounts of memory, texts; and what is said of wrong ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final

from podtide.adapters.files.yaml_reader import Mapping, Node, NodeWalk, Scalar, Sequence
from podtide.adapters.files.yaml_writer import Written, quoted
from podtide.domain.base.randomness import DELAY_MAX
from podtide.domain.base.units import Millis


class UnreadableValue(Exception):
    """A value that is not what was expected: its line, the path of its key, and what was expected there."""

    def __init__(self, line: int, key: str, why: str) -> None:
        super().__init__(f"line {line}: {key}: {why}")
        self.line = line
        self.key = key
        self.why = why


class FileReader:
    """Where the reading is: it counts what it looks at and remembers which key stands on which line."""

    def __init__(self) -> None:
        self._walk = NodeWalk()
        self.lines: dict[str, int] = {}

    def enter(self, node: Node, path: str, line: int | None = None) -> None:
        """Look at a node. Raises YamlError where a file leads around in circles."""
        self._walk.visit(node, path.count(".") + path.count("["))
        self.lines[path] = node.line if line is None else line

    def line(self, path: str) -> int | None:
        """The line of a key, or of the nearest one around it that stands in the file."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return None


def refuse(node: Node, path: str, expected: str) -> UnreadableValue:
    """A node that is not what was expected there."""
    match node:
        case Scalar():
            got = f"got {node.text[:60]!r}" if node.text else "got nothing"
        case Mapping():
            got = "got a mapping"
        case Sequence():
            got = "got a list"
    return UnreadableValue(node.line, path or "the file", f"expected {expected}, {got}")


def unknown(name: str, known: list[str]) -> str:
    """What to say of a key that is none, with the one that was meant perhaps."""
    close = get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"unknown key; expected one of {', '.join(known)}{hint}"


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar that ``parse`` understands (it raises ValueError for others) and ``show`` writes."""

    expected: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str]

    def read(self, node: Node, path: str, reader: FileReader) -> Any:  # noqa: ARG002 - all codecs are asked alike
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


def number(text: str) -> float:
    """A number, 0 or more. Raises ValueError."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    value = float(text)
    if value == float("inf"):
        raise ValueError(text)
    return value


def show_number(value: float) -> str:
    """A number as it is written, a whole one without its point."""
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
NUMBER: Final = Text("a number, 0 or more", number, show_number)
DURATION: Final = Text("a duration of at most ten years, such as 250ms, 30s, 1h30m or 2d", duration, show_duration)
MEMORY: Final = Text("an amount of memory, such as 1408Mi or 8Gi", _memory, _show_memory)
CPU: Final = Text("processors, such as 2 or 500m", _cpu, _show_cpu)
FLAG: Final = Text("true or false", _flag, lambda value: "true" if value else "false")
NAME: Final = Text("a text", str, quoted)
