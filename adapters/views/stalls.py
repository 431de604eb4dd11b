"""Stalls in words: since when nothing moves, why, by which numbers, and what to do. From the plain data of a stall
(``adapters.recording.run_stalls.stall_document``), for the pages of a replay and the lines of a live run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podtide.adapters.recording.run_stalls import stall_document
from podtide.adapters.text.format import clock, count, lasting
from podtide.adapters.text.page import Page
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.stalls.stalls import Stall

SHOWN: Final = 10
"""Stalls that a page shows; the alarms first, then the longest."""

NAMES_SHOWN: Final = 5

_WORDS: Final[Mapping[str, str]] = {
    "waiting_tasks": "waiting tasks: {}",
    "running_tasks": "running tasks: {}",
    "executors": "executors: {}",
    "target": "target: {}",
    "maximum": "maximum: {}",
    "free_executors": "free executors: {}",
    "unschedulable_task_sets": "unschedulable task sets: {}",
    "pending_tasks": "pending tasks as Spark counts them: {}",
    "hidden_tasks": "too low by: {}",
    "died": "died since the last success: {}",
    "reason": "the last one: {}",
    "ghosts": "executors that count and are not there: {}",
    "pods": "pods on no node: {}",
    "pods_placed": "pods on a node whose executor did not register: {}",
    "refusals": "refused pods: {}",
    "message": "the last answer: {}",
}
"""A fact in words. What is not listed is for machines alone."""

_UNBOUNDED: Final = 2**31 - 1


def stall_words(stall: Mapping[str, Any]) -> str:
    """The evidence of a stall on one line."""
    facts = stall["facts"]
    parts = [
        words.format(f"{facts[name]:,}" if isinstance(facts[name], int) else escaped(str(facts[name]), 200))
        for name, words in _WORDS.items()
        if name in facts and not (name == "maximum" and facts[name] == _UNBOUNDED)
    ]
    if facts.get("certain") == 0:
        parts.append("a guess: a log does not show them")
    for name, label in (("executors", "named"), ("stage_attempts", "stage attempts")):
        if stall[name]:
            some = ", ".join(escaped(one, 80) for one in stall[name][:NAMES_SHOWN])
            parts.append(f"{label}: {some}" + (", ..." if len(stall[name]) > NAMES_SHOWN else ""))
    return " · ".join(parts)


def stall_line(stall: Stall, now: Millis) -> str:
    """A stall that lasts, for how long, and its evidence, on one line."""
    what = "nothing moves" if stall.blocked else "tasks wait"
    profile = "" if stall.profile == DEFAULT_PROFILE else f" of profile {stall.profile}"
    lead = f"{what}{profile} for {lasting(max(0, now - stall.since))}: {stall.cause.value}"
    return f"{lead} · {stall_words(stall_document(stall))}"


def show_stalls(page: Page, stalls: Sequence[Mapping[str, Any]], start: Millis, end: Millis, left_out: int) -> None:
    """The section of a replay; nothing where there was no stall. ``end``: of the log, for those that last."""
    if not stalls:
        return
    page.title("Stalls", "tasks waited and nothing moved")
    order = sorted(stalls, key=lambda one: (not one["blocked"], one["began_ms"] - (one["ended_ms"] or end)))
    for one in sorted(order[:SHOWN], key=lambda one: one["began_ms"]):
        until = one["ended_ms"]
        span = lasting((end if until is None else until) - one["began_ms"])
        when = f"{clock(one['began_ms'] - start)}, for {span}{', to the end' if until is None else ''}"
        name = one["cause"] if one["blocked"] else f"limit: {one['cause']}"
        page.bullet("!" if one["blocked"] else "·", f"{name} at {when}", "bad" if one["blocked"] else "held")
        page.bullet(" ", stall_words(one), "")
        page.bullet(" ", f"{one['meaning']} {one['advice']}", "dim")
    if (more := len(stalls) + left_out - SHOWN) > 0:
        page.bullet("·", f"and {count(more, 'shorter one')} (all of them: --json)", "dim")
