"""The pod template: a YAML or JSON file, read into the types of the Kubernetes API within bounds.

Spark reads the file (spark.kubernetes.executor.podTemplateFile) with its Kubernetes client, which takes YAML 1.2: ``yes``
and ``0644`` are texts, only ``true`` and ``false`` are switches. It converts where a type is expected and something else
stands - ``value: 8080`` in the environment is a text, ``"8080"`` as a port a number, ``0644`` as a mode an octal one -
drops empty lists and maps, and refuses the rest. So does this; an error names the file, the line and the field. Fields
that the API lacks are kept and remarked upon: a slip of the pen does nothing, silently, on a cluster.

Three things are refused that Spark would carry along to the API server, which refuses them: a document that is no Pod, a
list with nothing in one of its places, and a quantity in two parts. The file has to be on this machine: other file systems
are the driver's business.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from podtide.adapters.files.yaml_reader import SIZE_MAX, Mapping, Node, NodeWalk, Scalar, Sequence, YamlError, parse
from podtide.adapters.kubernetes.executor_pod.template_schema import POD_TYPES
from podtide.adapters.text.safe import escaped
from podtide.domain.jvm.values import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN, double_text

NUMBER_CHARS_MAX: Final = 400
REMARKS_MAX: Final = 20

_INT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|-?\.inf|\.nan")
_OCTAL: Final = re.compile(r"0[oO]?([0-7]+)")
_MODES: Final = ("mode", "defaultMode")
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+")


class PodTemplateError(Exception):
    """A template that cannot be used: which file, which line, what was expected."""

    def __init__(self, name: str, line: int | None, why: str) -> None:
        place = name if line is None else f"{name}:{line}"
        super().__init__(escaped(f"{place}: {why}", 1_000))
        self.line = line


class PodTemplate(NamedTuple):
    """A template as ``PodFacts.template`` takes it, and what is odd about it."""

    tree: dict[str, Any]
    remarks: tuple[str, ...] = ()


def read_template(location: str) -> PodTemplate:
    """Read the template at a path or a file: URL, as the conf names it. Raises PodTemplateError."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file", "local"):
        raise PodTemplateError(location, None, f"a template can be read from a local file only, not by {parts.scheme}:")
    path = Path(unquote(parts.path))
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise PodTemplateError(str(path), None, "not a file")
        with path.open("rb") as stream:
            data = stream.read(SIZE_MAX + 1)
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise PodTemplateError(str(path), None, f"cannot be read: {why}") from None
    if len(data) > SIZE_MAX:
        raise PodTemplateError(str(path), None, f"longer than {SIZE_MAX} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise PodTemplateError(str(path), line, "not UTF-8") from None
    return template_of(text, str(path))


def template_of(text: str, name: str) -> PodTemplate:
    """The template in a text. ``name``: for errors. Raises PodTemplateError."""
    # The client tells the two apart by the first sign; in JSON a number keeps the digits that it was written with.
    json = text.lstrip().startswith("{")
    try:
        root = parse(text.replace("\t", " ") if json else text)
        reader = _Reader(json=json)
        tree = reader.pod(root)
    except YamlError as problem:
        raise PodTemplateError(name, problem.line, problem.why) from None
    return PodTemplate(tree, tuple(f"{name}:{remark}" for remark in reader.remarks))


class _Reader:
    """Turns nodes into values of a type; knows where it is."""

    def __init__(self, *, json: bool) -> None:
        self.remarks: list[str] = []
        self._json = json
        self._walk = NodeWalk()
        self._single: dict[str, Callable[[Any, Scalar, str], Any]] = {
            "text": self._text,
            "int": self._int,
            "long": self._long,
            "flag": self._flag,
            "quantity": self._quantity,
            "port": self._port,
        }

    def pod(self, root: Node | None) -> dict[str, Any]:
        if not isinstance(root, Mapping):
            raise YamlError(1 if root is None else root.line, "expected a Pod: a mapping with kind and spec")
        tree: dict[str, Any] = self._object(root, "Pod", "", 0)
        kind, line = tree.setdefault("kind", "Pod"), self._line(root, "kind")
        if kind != "Pod":
            raise YamlError(line, f"kind: expected Pod, not {kind}")
        spec = tree.get("spec")
        if spec is None:
            raise YamlError(root.line, "spec: expected the pod's spec, with containers (perhaps an empty list)")
        node = root.items["spec"][1]
        assert isinstance(node, Mapping)
        listed = node.items.get("containers", (0, None))[1]
        if not isinstance(listed, Sequence):
            if listed is not None:
                raise YamlError(listed.line, "spec.containers: expected a list of containers, perhaps an empty one")
            spec["containers"] = []
        spec.setdefault("containers", [])
        return {"apiVersion": "v1", **{key: value for key, value in tree.items() if key != "apiVersion"}}

    @staticmethod
    def _line(root: Mapping, key: str) -> int:
        return root.items[key][0] if key in root.items else root.line

    def _object(self, node: Node, kind: str, at: str, depth: int) -> dict[str, Any]:
        self._walk.visit(node, depth)
        if not isinstance(node, Mapping):
            raise YamlError(node.line, f"{at}: expected a mapping ({kind})")
        fields = POD_TYPES[kind]
        made: dict[str, Any] = {}
        for key, (line, child) in node.items.items():
            path = f"{at}.{key}" if at else key
            field = fields.get(key)
            if field is None and (at or key != "status"):
                made[key] = self._any(child, depth + 1)
                if len(self.remarks) < REMARKS_MAX:
                    self.remarks.append(f"{line}: {path} is no field of {kind} that is known here")
            elif field is not None and (value := self._value(child, field, path, depth + 1)) is not None:
                made[key] = value
        return made

    def _value(self, node: Node, kind: str, at: str, depth: int) -> Any:
        """A value of this kind; None for one that is as good as none."""
        if isinstance(node, Scalar) and node.null:
            node = Scalar(node.line, "null", plain=True) if self._scalar(node) is None else node
            if self._scalar(node) is None:
                return None
        if kind.startswith("["):
            return self._list(node, kind[1:-1], at, depth) or None
        if kind.startswith("{"):
            return self._map(node, kind[1:-1], at, depth) or None
        if kind not in self._single:
            return self._object(node, kind, at, depth)
        self._walk.visit(node, depth)
        if not isinstance(node, Scalar):
            raise YamlError(node.line, f"{at}: expected a single value ({kind})")
        return self._single[kind](self._scalar(node), node, at)

    def _list(self, node: Node, kind: str, at: str, depth: int) -> list[Any]:
        self._walk.visit(node, depth)
        if not isinstance(node, Sequence):
            raise YamlError(node.line, f"{at}: expected a list")
        values = []
        for place, child in enumerate(node.items):
            path = f"{at}[{place}]"
            value = self._value(child, kind, path, depth + 1)
            if value is None:
                raise YamlError(child.line, f"{path}: expected a value, not nothing")
            values.append(value)
        return values

    def _map(self, node: Node, kind: str, at: str, depth: int) -> dict[str, Any]:
        self._walk.visit(node, depth)
        if not isinstance(node, Mapping):
            raise YamlError(node.line, f"{at}: expected a mapping")
        return {key: self._value(child, kind, f"{at}.{key}", depth + 1) for key, (_, child) in node.items.items()}

    def _any(self, node: Node, depth: int) -> Any:
        self._walk.visit(node, depth)
        if isinstance(node, Mapping):
            return {key: self._any(child, depth + 1) for key, (_, child) in node.items.items()}
        if isinstance(node, Sequence):
            return [self._any(child, depth + 1) for child in node.items]
        return self._scalar(node)

    # single values

    def _scalar(self, node: Scalar) -> str | int | float | bool | None:
        """What a scalar is in YAML 1.2's JSON schema."""
        text = node.text
        if not node.plain:
            return text
        if text in ("", "null"):
            return None
        if text in ("true", "false"):
            return text == "true"
        if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
            if len(text) > NUMBER_CHARS_MAX:
                raise YamlError(node.line, f"a number of more than {NUMBER_CHARS_MAX} digits")
            return int(text) if _INT.fullmatch(text) else float(text.replace(".inf", "inf").replace(".nan", "nan"))
        return text

    def _text(self, value: Any, node: Scalar, at: str) -> str:
        del at
        if isinstance(value, bool):
            return node.text
        if isinstance(value, float):
            return node.text if self._json else double_text(value)
        return str(value)

    def _int(self, value: Any, node: Scalar, at: str) -> int:
        if isinstance(value, str):
            value = _number(value, octal=at.rpartition(".")[2] in _MODES)
        if type(value) is not int or not INT_MIN <= value <= INT_MAX:
            raise YamlError(node.line, f"{at}: expected a whole number of 32 bits")
        return value

    def _long(self, value: Any, node: Scalar, at: str) -> int | None:
        if isinstance(value, str):
            if not value.strip():
                return None
            value = int(value) if _DECIMAL.fullmatch(value.strip()) and len(value) < NUMBER_CHARS_MAX else None
        elif isinstance(value, float) and abs(value) < LONG_MAX:
            value = int(value)
        if type(value) is not int or not LONG_MIN <= value <= LONG_MAX:
            raise YamlError(node.line, f"{at}: expected a whole number")
        return value

    def _flag(self, value: Any, node: Scalar, at: str) -> bool | None:
        if isinstance(value, str):
            if not value.strip():
                return None
            words = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
            value = words.get(value.strip())
        if type(value) is int:
            value = value != 0
        if not isinstance(value, bool):
            raise YamlError(node.line, f"{at}: expected true or false")
        return value

    def _quantity(self, value: Any, node: Scalar, at: str) -> str:
        text = self._text(value, node, at)
        if not text:
            raise YamlError(node.line, f"{at}: expected a quantity such as 500m or 2Gi")
        return text

    def _port(self, value: Any, node: Scalar, at: str) -> int | str:
        if isinstance(value, str) or (type(value) is int and INT_MIN <= value <= INT_MAX):
            return value
        raise YamlError(node.line, f"{at}: expected a port's number or name")


def _number(text: str, *, octal: bool) -> int | None:
    """A whole number; file modes are octal with a 0 in front."""
    if len(text) > NUMBER_CHARS_MAX:
        return None
    if octal and (found := _OCTAL.fullmatch(text)):
        return int(found[1], 8)
    return int(text) if _DECIMAL.fullmatch(text) else None
