"""A resource profile in YAML: what an application would build with ResourceProfileBuilder, for trying its pods out.

id: 1
executor:
  cores: 4
  memory: 8g             # also memoryOverhead, offHeap, pyspark.memory: sizes as in a conf, MiB without a unit
  gpu: {amount: 1, vendor: nvidia.com}
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from podtide.adapters.files.yaml_reader import SIZE_MAX, Mapping, Node, Scalar, YamlError, parse
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import ProfileId
from podtide.domain.jvm.values import INT_MAX, LONG_MAX, parse_int, parse_long, parse_size
from podtide.domain.protocol.resource_profiles import CORES, ResourceProfile

MEMORY: Final = ("memory", "memoryOverhead", "offHeap", "pyspark.memory")


class ProfileFileError(Exception):
    """A profile that cannot be used: which file, which line, what was expected."""


class ProfileFile(NamedTuple):
    """A profile, and the vendors of its custom resources."""

    profile: ResourceProfile
    vendors: dict[str, str]


def read_profile(path: str | Path) -> ProfileFile:
    """Read a profile. Raises ProfileFileError."""
    name = escaped(str(path))
    try:
        with Path(path).open("rb") as stream:
            text = stream.read(SIZE_MAX + 1).decode("utf-8")
    except OSError as problem:
        raise ProfileFileError(f"{name}: cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise ProfileFileError(f"{name}: not UTF-8") from None
    try:
        return _profile(parse(text))
    except YamlError as problem:
        raise ProfileFileError(f"{name}:{problem.line}: {escaped(problem.why)}") from None


def _profile(root: Node | None) -> ProfileFile:
    if not isinstance(root, Mapping):
        raise YamlError(1, "expected a resource profile: a mapping with id and executor")
    for key, (line, _) in root.items.items():
        if key not in ("id", "executor"):
            raise YamlError(line, f"{key}: expected id or executor")
    identifier = 1
    if "id" in root.items:
        identifier = _amount(root.items["id"][1], "id", INT_MAX)
    listed = root.items.get("executor", (root.line, Mapping(root.line)))[1]
    if not isinstance(listed, Mapping):
        raise YamlError(listed.line, "executor: expected a mapping of resources")
    amounts: list[tuple[str, int]] = []
    vendors: dict[str, str] = {}
    for name, (line, node) in listed.items.items():
        if isinstance(node, Mapping):
            amount, vendor = _custom(node, name, line)
            amounts.append((name, amount))
            if vendor:
                vendors[name] = vendor
        elif name in MEMORY:
            amounts.append((name, _memory(node, name)))
        else:
            amounts.append((name, _amount(node, name, INT_MAX if name == CORES else LONG_MAX)))
    return ProfileFile(ResourceProfile(ProfileId(identifier), tuple(amounts)), vendors)


def _custom(node: Mapping, name: str, line: int) -> tuple[int, str]:
    for key, (at, _) in node.items.items():
        if key not in ("amount", "vendor"):
            raise YamlError(at, f"executor.{name}.{key}: expected amount or vendor")
    if "amount" not in node.items:
        raise YamlError(line, f"executor.{name}: expected an amount")
    vendor = node.items.get("vendor", (line, Scalar(line, "", plain=True)))[1]
    if not isinstance(vendor, Scalar):
        raise YamlError(vendor.line, f"executor.{name}.vendor: expected a name such as nvidia.com")
    return _amount(node.items["amount"][1], f"{name}.amount", LONG_MAX), vendor.text


def _amount(node: Node, name: str, most: int) -> int:
    try:
        number = (parse_int if most == INT_MAX else parse_long)(node.text if isinstance(node, Scalar) else "")
    except ValueError:
        number = 0
    if number < 1:
        raise YamlError(node.line, f"{name}: expected a whole number above 0")
    return number


def _memory(node: Node, name: str) -> int:
    try:
        return parse_size(node.text if isinstance(node, Scalar) else "", "m")
    except ValueError:
        raise YamlError(node.line, f"executor.{name}: expected a size such as 8g") from None
