"""Prices as a user gives them: on the command line, or in a small file.

On the command line ``core-hour=0.04,gb-hour=0.005,spot-share=0.7,spot-discount=0.65,currency=EUR``; a file holds the same
keys in YAML or JSON (which is YAML). Every key may be left out but one of the two prices. ``driver``, ``node-*`` and
``yarn-*`` say what is paid for besides executors (docs/how-to/prices.md). What cannot be meant is refused with its key, what
was expected and, in a file, the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from podtide.adapters.files.bounded_file import FileNotUsable, text_of
from podtide.adapters.files.values import FileReader, Text, UnreadableValue, refuse, unknown
from podtide.adapters.files.yaml_reader import Mapping, YamlError, parse
from podtide.adapters.text.safe import display, escaped
from podtide.domain.jvm.values import parse_int, parse_size
from podtide.domain.whatif.bill.rules import BillRules, ContainerRounding, NodeShape, ResourceCalculator
from podtide.domain.whatif.prices import Prices, problems

SIZE_MAX: Final = 64 * 1024
"""Bytes of a price file; it has few keys."""


class PriceError(Exception):
    """Prices that cannot be used; one line that names the key and what was expected."""


def _number(text: str) -> float:
    value = float(text)  # ValueError
    if "_" in text or not math.isfinite(value):
        raise ValueError(text)
    return value


_NUMBER: Final = Text("a number such as 0.04", _number, str)


def _switch(text: str) -> bool:
    return {"yes": True, "true": True, "no": False, "false": False}[text.strip().lower()]


def _read(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser whose every refusal is a ValueError."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except KeyError:
            raise ValueError(text) from None

    return parsed


def _mib(text: str) -> int:
    return parse_size(text, "m")


_TEXT: Final = Text("a text such as EUR", str, str)
_SWITCH: Final = Text("yes or no", _read(_switch), str)
_MEMORY: Final = Text("memory such as 64g", _mib, str)
_COUNT: Final = Text("a whole number such as 1024", parse_int, str)
_CALCULATOR: Final = Text("default or dominant", ResourceCalculator, str)
_KEYS: Final[dict[str, tuple[str, Text]]] = {
    "core-hour": ("core_hour", _NUMBER),
    "gb-hour": ("gb_hour", _NUMBER),
    "spot-share": ("spot_share", _NUMBER),
    "spot-discount": ("spot_discount", _NUMBER),
    "currency": ("currency", _TEXT),
    "driver": ("driver", _SWITCH),
    "node-cores": ("cores", _COUNT),
    "node-memory": ("memory_mib", _MEMORY),
    "node-reserved-cores": ("reserved_cores", _NUMBER),
    "node-reserved-memory": ("reserved_mib", _MEMORY),
    "yarn-minimum-allocation-mb": ("minimum_mib", _COUNT),
    "yarn-increment-allocation-mb": ("increment_mib", _COUNT),
    "yarn-minimum-allocation-vcores": ("minimum_cores", _COUNT),
    "yarn-increment-allocation-vcores": ("increment_cores", _COUNT),
    "yarn-resource-calculator": ("calculator", _CALCULATOR),
}
_NODE: Final = frozenset(field for key, (field, _) in _KEYS.items() if key.startswith("node-"))
_CONTAINERS: Final = frozenset(field for key, (field, _) in _KEYS.items() if key.startswith("yarn-"))


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
    return _checked(_made(values), lambda _key: "--price")


def _made(values: dict[str, Any]) -> Prices:
    """The prices of values by field."""
    node = {field: values.pop(field) for field in _NODE & values.keys()}
    containers = {field: values.pop(field) for field in _CONTAINERS & values.keys()}
    rules = BillRules(
        driver=values.pop("driver", False),
        node=NodeShape(**{"cores": 0, "memory_mib": 0, **node}) if node else None,
        containers=ContainerRounding(**containers) if containers else None,
    )
    return Prices(**values, rules=rules)


def read(path: Path) -> Prices:
    """The prices of a file. Raises PriceError."""
    name = display(str(path))
    try:
        text = text_of(path, "a price file", SIZE_MAX, "cannot be read: {why}; expected a file, or core-hour=0.04")
    except FileNotUsable as fault:
        raise PriceError(fault.of(name)) from None
    reader = FileReader()
    try:
        values = _values(text, name, reader)
    except (YamlError, UnreadableValue) as fault:
        key = f"{fault.key}: " if isinstance(fault, UnreadableValue) else ""
        raise PriceError(f"{name}:{fault.line}: {key}{escaped(fault.why)}") from None

    def where(key: str) -> str:
        return f"{name}:{reader.lines[key]}" if key in reader.lines else name

    return _checked(_made(values), where)


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
