"""Decisions of a run in words, gathered where there are too many to show one by one.

A chart has room for so many marks and a table for so many rows. Decisions that fall close together share a mark, which says
how many they are and tells the first of them; a table keeps those that moved the most executors, in order of time, and the
caller says how many were left out. The words are those of a replay (``wording``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from podtide.adapters.text.format import count, ids, joined
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.timeline.reasons import why_killed, why_lowered, why_raised
from podtide.adapters.views.whatif.figures import at, executors, signed
from podtide.adapters.views.whatif.model import DecisionEntry

_TIMES: Final = re.compile(r"(\d[dhm]) (\d+[hms])\b")
"""Times of a replay's words, which are written as one word beside figures (``views.whatif.figures.took``)."""

MARKS: Final = 100
"""Marks beside a chart."""

SHOWN: Final = 4
"""Decisions that one mark shows."""


class Words(NamedTuple):
    """A decision in words."""

    at_s: float
    what: str
    why: str
    moved: int


class Mark(NamedTuple):
    """Decisions that fall together. ``kind``: up, down or even (what the targets came to), or release."""

    at_s: float
    kind: str
    text: str


def words_of(decision: DecisionEntry) -> Words:
    """What was decided and why."""
    words = _words(decision)
    return words._replace(what=_TIMES.sub(r"\1\2", words.what), why=_TIMES.sub(r"\1\2", words.why))


def _words(decision: DecisionEntry) -> Words:
    facts = decision.facts
    of = f"profile {decision.profile}" if decision.profile else ""
    if decision.kind == "release":
        gone = decision.executors
        what = f"let go {executors(len(gone))}: {ids(gone)}"
        why = why_killed(escaped(decision.cause, 80), _settled(facts, decision.at_s), round(decision.at_s * 1000))
        return Words(decision.at_s, what, joined([why, of]), decision.moved)
    before, after = decision.before, decision.after
    if decision.kind != "target":
        return Words(decision.at_s, escaped(decision.kind, 40), joined([escaped(decision.cause, 80), of]), 0)
    rose = after >= before
    parts = (
        why_raised(decision.cause, facts, before, after, {})
        if rose
        else why_lowered(decision.cause, facts, before, after, 1, 0)
    )
    return Words(decision.at_s, f"target {before:,} → {after:,}", joined([*parts, of]), decision.moved)


def marks(decisions: Sequence[DecisionEntry], span: float, most: int = MARKS) -> list[Mark]:
    """The decisions as marks along a time axis of ``span`` seconds, those about targets apart from those to let go."""
    if span <= 0:
        return []
    groups: dict[tuple[int, bool], list[DecisionEntry]] = {}
    for one in decisions:
        place = min(most - 1, max(0, int(most * one.at_s / span)))
        groups.setdefault((place, one.kind == "release"), []).append(one)
    return [_mark(group) for _, group in sorted(groups.items())]


def kept(decisions: Sequence[DecisionEntry], most: int) -> list[DecisionEntry]:
    """Those that moved the most executors, in order of time."""
    if len(decisions) <= most:
        return sorted(decisions, key=lambda one: one.at_s)
    ranked = sorted(decisions, key=lambda one: (-abs(one.moved), one.at_s))[:most]
    return sorted(ranked, key=lambda one: one.at_s)


def _mark(group: Sequence[DecisionEntry]) -> Mark:
    ordered = sorted(group, key=lambda one: one.at_s)
    first, kind = ordered[0], _kind(ordered)
    if len(ordered) == 1:
        only = words_of(first)
        return Mark(first.at_s, kind, f"{at(first.at_s)}  {only.what}\n{only.why}")
    lines = [f"{at(first.at_s)} to {at(ordered[-1].at_s)}: {count(len(ordered), 'decision')}, {_net(ordered)}"]
    for one in ordered[:SHOWN]:
        words = words_of(one)
        lines.append(f"{at(one.at_s)}  {words.what} · {words.why}")
    if len(ordered) > SHOWN:
        lines.append(f"and {len(ordered) - SHOWN:,} more")
    return Mark(first.at_s, kind, "\n".join(lines))


def _net(decisions: Sequence[DecisionEntry]) -> str:
    if decisions[0].kind == "release":
        return f"{executors(sum(len(one.executors) for one in decisions))} let go"
    return f"target {signed(sum(one.moved for one in decisions))}"


def _kind(decisions: Sequence[DecisionEntry]) -> str:
    if decisions[0].kind == "release":
        return "release"
    net = sum(one.moved for one in decisions)
    return "up" if net > 0 else "down" if net < 0 else "even"


def _settled(facts: Mapping[str, Any], at_s: float) -> dict[str, Any]:
    """The facts of a removal; a start of idleness counted from another origin than the run's says nothing here."""
    since = facts.get("idle_since_ms")
    known = isinstance(since, int) and 0 <= since <= round(at_s * 1000)
    return {key: value for key, value in facts.items() if key != "idle_since_ms" or known}
