"""YAML as plain nodes that know their line, within bounds: what a file may cost is settled before it is understood.

Only what describes data is taken: mappings, sequences and scalars of one document, anchors and aliases among them. A
tag that would make anything else is refused. Scalars stay the text that they are; what they mean is for the reader who knows
what is expected there, so that ``no`` can be a name and ``1:30`` is no number of seconds by accident. The file's size,
the depth of its nesting and the number of its nodes are bounded; aliases make no copies here, so a reader of the nodes
counts with ``NodeWalk``, and a file that refers to itself ends at the depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import yaml

SIZE_MAX: Final = 256 * 1024
DEPTH_MAX: Final = 16
NODES_MAX: Final = 50_000

_PLAIN_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""The scalars that say that there is nothing."""


class YamlError(Exception):
    """A text that cannot be taken: which line (from 1), and why."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


@dataclass(slots=True)
class Scalar:
    """A text. ``plain``: it stands there without quotes."""

    line: int
    text: str
    plain: bool

    @property
    def null(self) -> bool:
        """Whether it says that there is nothing."""
        return self.plain and self.text in NULLS


@dataclass(slots=True)
class Mapping:
    """Keys in order; each is a text that occurs once."""

    line: int
    items: dict[str, tuple[int, Node]] = field(default_factory=dict)


@dataclass(slots=True)
class Sequence:
    """Nodes in order."""

    line: int
    items: list[Node] = field(default_factory=list)


Node = Scalar | Mapping | Sequence


def parse(text: str) -> Node | None:
    """The one document of a text; None where there is none. Raises YamlError."""
    if len(text) > SIZE_MAX:
        raise YamlError(1, f"too long: {len(text)} characters, {SIZE_MAX} are allowed")
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        why = ", ".join(part for part in (fault.context, fault.problem) if part)
        raise YamlError(mark.line + 1 if mark is not None else 1, f"not YAML: {why}") from None
    except yaml.reader.ReaderError as fault:
        line = text.count("\n", 0, fault.position) + 1
        raise YamlError(
            line, f"not YAML: a character that is not allowed (U+{ord(text[fault.position]):04X})"
        ) from None
    return builder.root


class _Builder:
    """Puts nodes together from events, without recursion."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self._open: list[tuple[Node, str | None, int]] = []  # the key of a mapping that waits for its value, its line
        self._anchors: dict[str, Node] = {}
        self._count = 0

    def take(self, event: yaml.Event) -> None:
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise YamlError(line, "a second document; one is allowed")
        if isinstance(event, yaml.AliasEvent):
            aliased = self._anchors.get(event.anchor or "")
            if aliased is None:
                raise YamlError(line, f"the alias *{event.anchor} refers to nothing before it")
            self._place(aliased, line)
        elif isinstance(event, yaml.ScalarEvent):
            self._check_tag(event.tag, line)
            self._keep(Scalar(line, event.value, event.style is None), event.anchor, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._check_tag(event.tag, line)
            mapping = isinstance(event, yaml.MappingStartEvent)
            node: Node = Mapping(line) if mapping else Sequence(line)
            self._keep(node, event.anchor, line)
            self._open.append((node, None, line))
            if len(self._open) > DEPTH_MAX:
                raise YamlError(line, f"nested more than {DEPTH_MAX} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()

    def _check_tag(self, tag: str | None, line: int) -> None:
        if tag is not None and tag != "!" and tag not in _PLAIN_TAGS:
            raise YamlError(line, f"the tag {tag} is not allowed")

    def _keep(self, node: Node, anchor: str | None, line: int) -> None:
        self._count += 1
        if self._count > NODES_MAX:
            raise YamlError(line, f"more than {NODES_MAX} values")
        self._place(node, line)
        if anchor is not None:
            self._anchors[anchor] = node

    def _place(self, node: Node, line: int) -> None:
        if not self._open:
            self.root = node
            return
        parent, key, key_line = self._open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif isinstance(parent, Mapping):
            if key is None:
                if not isinstance(node, Scalar):
                    raise YamlError(line, "a key that is no text")
                if node.text in parent.items:
                    raise YamlError(line, f"the key {node.text} is there twice")
                self._open[-1] = (parent, node.text, line)
            else:
                parent.items[key] = (key_line, node)
                self._open[-1] = (parent, None, line)


class NodeWalk:
    """Counts the nodes that are looked at, so that aliases cannot make a small file large."""

    def __init__(self) -> None:
        self._seen = 0

    def visit(self, node: Node, depth: int) -> None:
        """Count a node at this depth. Raises YamlError where it is too much."""
        self._seen += 1
        if self._seen > NODES_MAX or depth > DEPTH_MAX:
            raise YamlError(node.line, "aliases make it too large")
