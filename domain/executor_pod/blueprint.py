"""A manifest with holes: what differs between the pods of a profile, as values in a tree, filled in for each pod.

Everything but a few texts is the same for all executors of a profile. A blueprint is the tree of plain values that a
manifest is, with a ``Hole`` wherever a text depends on the executor: a hole is an object, never a mark inside a text, so
nothing that a conf contains can be taken for one. ``Blueprint.fill`` copies the branches that lead to holes and shares all
others between the pods that it makes: what it returns is to be read, not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from podtide.domain.protocol.cluster_config import ClaimTemplate, claim_name

EXECUTOR_MARK: Final = "{{EXECUTOR_ID}}"
APPLICATION_MARK: Final = "{{APP_ID}}"
HOSTNAME_CHARS_MAX: Final = 63

_LEADING: Final = re.compile(r"^[^A-Za-z0-9_]+")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_PRIVATE: Final = range(0xE000, 0xF900)


class Filling(NamedTuple):
    """One executor: its id, and the claims that its volumes mount, in their order (none: those of its own)."""

    executor: str
    claims: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class JoinedText:
    """Texts with the executor's id between them."""

    parts: tuple[str, ...]

    def at(self, filling: Filling) -> str:
        """The text for this executor."""
        return filling.executor.join(self.parts)


@dataclass(frozen=True, slots=True)
class Hostname:
    """The pod's host name: the end of its name, made fit. ``lower``: in small letters (Deployments)."""

    prefix: str
    lower: bool

    def at(self, filling: Filling) -> str:
        """The text for this executor."""
        name = pod_name(self.prefix, filling.executor)[-HOSTNAME_CHARS_MAX:]
        host = _UNFIT.sub("_", _LEADING.sub("", name))
        return host.lower() if self.lower else host


@dataclass(frozen=True, slots=True)
class ClaimHole:
    """The claim that the ``place``-th of the volumes that mount claims has."""

    place: int
    template: ClaimTemplate
    prefix: str

    def at(self, filling: Filling) -> str:
        """The text for this executor."""
        if filling.claims:
            return filling.claims[self.place]
        return claim_name(self.template, self.prefix, filling.executor)


Hole: TypeAlias = JoinedText | Hostname | ClaimHole
"""A text that depends on the executor."""

Text: TypeAlias = str | Hole


def pod_name(prefix: str, executor: str) -> str:
    """The name of an executor's pod."""
    return f"{prefix}-exec-{executor}"


def substituted(text: str, app_id: str) -> Text:
    """Utils.substituteAppNExecIds."""
    return joined(text.replace(APPLICATION_MARK, app_id), EXECUTOR_MARK)


def joined(text: str, mark: str) -> Text:
    """The text with the executor's id wherever ``mark`` stands in it."""
    parts = tuple(text.split(mark))
    return text if len(parts) == 1 else JoinedText(parts)


def command_words(text: str) -> tuple[Text, ...]:
    """Utils.splitCommandString of a text with the executor's id substituted: words as a shell would split them.

    Quotes group and vanish; a backslash escapes inside double quotes alone and is a letter elsewhere. The id is part of a
    word whatever it is.
    """
    # The mark becomes one letter that occurs nowhere else: quotes inside it would otherwise make a mark of what was none.
    hole = next(chr(code) for code in _PRIVATE if chr(code) not in text)
    return tuple(joined(word, hole) for word in _split(text.replace(EXECUTOR_MARK, hole)))


def _split(text: str) -> list[str]:
    words: list[str] = []
    word: list[str] = []
    inside = False
    quote = ""
    signs = iter(text)
    for sign in signs:
        if quote:
            if sign == quote:
                quote = ""
            elif quote == '"' and sign == "\\":
                word.append(next(signs, ""))
            else:
                word.append(sign)
        elif sign in "\"'":
            inside, quote = True, sign
        elif sign not in " \r\n\t":
            inside = True
            word.append(sign)
        elif inside:
            words.append("".join(word))
            word.clear()
            inside = False
    if inside or quote:
        words.append("".join(word))
    return words


Fill: TypeAlias = Callable[[Filling], Any]


class Blueprint:
    """A tree of dicts, lists, texts, numbers and holes."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree: Final = tree
        self._fill: Final = _planned(tree)

    def fill(self, filling: Filling) -> dict[str, Any]:
        """The manifest of this executor; parts of it are shared with other manifests."""
        made: dict[str, Any] = self.tree if self._fill is None else self._fill(filling)
        return made


def _planned(node: Any) -> Fill | None:
    """How to fill a branch; None for one without holes."""
    if isinstance(node, dict):
        entries = [(key, plan) for key, child in node.items() if (plan := _planned(child)) is not None]
        return _of_dict(node, entries) if entries else None
    if isinstance(node, list):
        items = [(place, plan) for place, child in enumerate(node) if (plan := _planned(child)) is not None]
        return _of_list(node, items) if items else None
    return node.at if isinstance(node, Hole) else None


def _of_dict(node: dict[str, Any], entries: list[tuple[str, Fill]]) -> Fill:
    def fill(filling: Filling) -> dict[str, Any]:
        copy = node.copy()
        for key, plan in entries:
            copy[key] = plan(filling)
        return copy

    return fill


def _of_list(node: list[Any], items: list[tuple[int, Fill]]) -> Fill:
    def fill(filling: Filling) -> list[Any]:
        copy = node.copy()
        for place, plan in items:
            copy[place] = plan(filling)
        return copy

    return fill
