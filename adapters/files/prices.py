"""Prices as a user gives them: on the command line, or in a small file.

On the command line ``core-hour=0.04,gb-hour=0.005,spot-share=0.7,spot-discount=0.65,currency=EUR``; a file holds the same
keys in YAML or JSON (which is YAML). Every key may be left out but one of the two prices. What cannot be meant is refused
with its key, what was expected and, in a file, the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from podtide.adapters.files.values import FileReader, Text, UnreadableValue, refuse, unknown
from podtide.adapters.files.yaml_reader import Mapping, YamlError, parse
from podtide.adapters.text.safe import cause, display, escaped
from podtide.domain.whatif.prices import Prices, problems

SIZE_MAX: Final = 64 * 1024
"""Bytes of a price file; it has five keys."""


class PriceError(Exception):
    """Prices that cannot be used; one line that names the key and what was expected."""


def _number(text: str) -> float:
    value = float(text)  # ValueError
    if "_" in text or not math.isfinite(value):
        raise ValueError(text)
    return value


_NUMBER: Final = Text("a number such as 0.04", _number, str)
_TEXT: Final = Text("a text such as EUR", str, str)
_KEYS: Final[dict[str, tuple[str, Text]]] = {
    "core-hour": ("core_hour", _NUMBER),
    "gb-hour": ("gb_hour", _NUMBER),
    "spot-share": ("spot_share", _NUMBER),
    "spot-discount": ("spot_discount", _NUMBER),
    "currency": ("currency", _TEXT),
}


def prices_of(text: str) -> Prices:
    """What ``--price`` says: pairs where it has an equals sign, else a file. Raises PriceError."""
    return from_pairs(text) if "=" in text and not Path(text).is_file() else read(Path(text))


def from_pairs(text: str) -> Prices:
    """The prices of ``key=value,key=value``. Raises PriceError."""
    values: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (side.strip() for side in part.partition("="))
        if not equals or not key:
            raise PriceError(f"--price: {escaped(part, 60)!r}: expected key=value, such as core-hour=0.04")
        name, codec = _known(key, lambda: "--price")
        if name in values:
            raise PriceError(f"--price: {key}: expected once")
        try:
            values[name] = codec.parse(value)
        except ValueError:
            raise PriceError(f"--price: {key} = {escaped(value, 60)!r}: expected {codec.expected}") from None
    return _checked(Prices(**values), lambda _key: "--price")


def read(path: Path) -> Prices:
    """The prices of a file. Raises PriceError."""
    name = display(str(path))
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except (OSError, ValueError) as fault:
        raise PriceError(f"{name}: cannot be read: {cause(fault)}; expected a file, or core-hour=0.04") from None
    if len(data) > SIZE_MAX:
        raise PriceError(f"{name}: too long for a price file: more than {SIZE_MAX} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise PriceError(f"{name}:{line}: expected UTF-8 text") from None
    reader = FileReader()
    try:
        values = _values(text, name, reader)
    except (YamlError, UnreadableValue) as fault:
        key = f"{fault.key}: " if isinstance(fault, UnreadableValue) else ""
        raise PriceError(f"{name}:{fault.line}: {key}{escaped(fault.why)}") from None

    def where(key: str) -> str:
        return f"{name}:{reader.lines[key]}" if key in reader.lines else name

    return _checked(Prices(**values), where)


def _values(text: str, name: str, reader: FileReader) -> dict[str, Any]:
    node = parse(text)
    if node is None:
        raise PriceError(f"{name}: it is empty: expected prices such as core-hour: 0.04")
    if not isinstance(node, Mapping):
        raise refuse(node, "", "keys such as core-hour: 0.04")
    values: dict[str, Any] = {}
    for key, (line, item) in node.items.items():
        field, codec = _known(key, lambda line=line: f"{name}:{line}")  # type: ignore[misc]
        reader.enter(item, key.replace("_", "-"), line)
        values[field] = codec.read(item, key, reader)
    return values


def _known(key: str, where: Callable[[], str]) -> tuple[str, Text]:
    """A key's field and codec; underscores do for hyphens, as they stand in the JSON document."""
    found = _KEYS.get(key.replace("_", "-"))
    if found is None:
        raise PriceError(f"{where()}: {escaped(key, 60)}: {unknown(key, list(_KEYS))}")
    return found


def _checked(prices: Prices, where: Callable[[str], str]) -> Prices:
    for key, expected in problems(prices):
        raise PriceError(f"{where(key)}: {key}: expected {expected}")
    return prices
