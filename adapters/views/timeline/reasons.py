"""Causes and bounds in words, with their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.adapters.text.format import count, lasting
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis

OUTSIDE: Final = "set from outside"
BACKEND: Final = "set by the scheduler backend"
"""Who moved a target that no decision of dynamic allocation moved."""


def why_raised(cause: str, facts: Mapping[str, Any], before: int, after: int, waits: Mapping[str, Millis]) -> list[str]:
    """Why a target rose, in parts: by how much and why, the demand, what bounded it.

    ``waits``: cause to the timeout that had passed, where it is known.
    """
    wait = waits.get(cause)
    match cause:
        case "initial":
            return [_of_bounds("initial executors", facts)]
        case "new profile":
            return [_of_bounds("initial executors of a new profile", facts)]
        case "minimum":
            return [f"{after - before:+,}: minimum {after:,}", *_tasks(facts), *_needed(facts)]
        case "backlog":
            lead = f"backlog for {lasting(wait)}" if wait else "backlog"
        case "sustained backlog":
            lead = f"backlog {lasting(wait)} more" if wait else "backlog still"
        case _:
            lead = escaped(cause)
    return [f"{after - before:+,}: {lead}", *_tasks(facts), *_needed(facts), *_bounded(facts, before, after)]


def why_ramped(facts: Mapping[str, Any], before: int, after: int, moves: int, span_ms: Millis) -> list[str]:
    """Why a target rose in several steps, in parts; the numbers are those of the last."""
    parts = [f"{after - before:+,}: {moves:,} steps in {lasting(span_ms)} of backlog", *_tasks(facts), *_needed(facts)]
    if facts.get("bound") == "maximum":
        parts.append(f"maximum {after:,}")
    return parts


def why_lowered(
    cause: str, facts: Mapping[str, Any], before: int, after: int, steps: int, span_ms: Millis
) -> list[str]:
    """Why a target fell, in parts; a run of ``steps`` within ``span_ms`` is told as one."""
    if cause in ("initial", "new profile"):
        return why_raised(cause, facts, before, after, {})
    needed = facts.get("need")
    fell = f"need fell to {needed:,}" if isinstance(needed, int) else "need fell"
    lead = f"−{before - after:,}: " + (fell if cause == "lowered need" else escaped(cause))
    if facts.get("bound") == "minimum":
        lead += f", minimum {after:,}"
    parts = [lead]
    if steps > 1:
        parts.append(f"{steps:,} steps" + (f" in {lasting(span_ms)}" if span_ms else ""))
    return [*parts, *_tasks(facts)]


def why_killed(cause: str, facts: Mapping[str, Any], at: Millis) -> str:
    """Why executors were let go: how long they had been idle, and which timeout that passed."""
    kept = {"cached idle": " with cached data", "shuffle idle": " with shuffle data"}.get(cause, "")
    lead = cause if cause not in ("idle", "cached idle", "shuffle idle") else f"idle{kept}"
    since, timeout = facts.get("idle_since_ms"), facts.get("timeout_ms")
    if isinstance(since, int):
        lead = f"idle {lasting(max(0, at - since))}{kept}"
    return f"{lead} (timeout {lasting(timeout)})" if isinstance(timeout, int) else lead


BOUNDS: Final = {
    "maximum": "maxExecutors",
    "minimum": "minExecutors",
    "ratio": "executorAllocationRatio",
    "target": "the target",
    "running task": "running tasks",
    "cached data": "cached data",
    "shuffle data": "shuffle data",
    "unknown profile": "an unknown resource profile",
    "refused kill": "a refused kill",
}
"""Bounds as people name them."""


def holding(bound: str, facts: Mapping[str, Any], peak: int) -> tuple[str, list[str]]:
    """What a bound did in a word or two, and by what, in parts with its numbers. ``peak``: the most it held at once."""
    by = BOUNDS.get(bound, escaped(bound))
    match bound:
        case "maximum":
            return f"held at {_number(facts, 'maximum')}", [f"by {by}", f"need up to {peak:,}"]
        case "ratio":
            return f"held at {_number(facts, 'need')}", [f"by {by}", f"without it {peak:,}"]
        case "minimum":
            return f"kept {peak:,} idle", [f"by {by} {_number(facts, 'minimum')}"]
        case "target":
            return f"kept {peak:,} idle", [f"by {by} {_number(facts, 'target')}: need is not lower"]
        case "running task":
            return f"kept {peak:,} busy", [f"above the target, by {by}"]
        case "refused kill":
            return f"kept {peak:,}", [f"by {by}"]
        case _:
            return f"kept {peak:,} idle", [f"by {by}"]


def peak_of(bound: str, facts: Mapping[str, Any]) -> int:
    """How much a bound holds: the need it cuts, or the executors it keeps."""
    key = {"maximum": "need", "ratio": "need_without_ratio", "running task": "above_target"}.get(bound, "executors")
    value = facts.get(key)
    return value if isinstance(value, int) else 0


def _whole(facts: Mapping[str, Any], key: str) -> int | None:
    """A fact that is a whole number; somebody may have written the record by hand."""
    value = facts.get(key)
    return value if isinstance(value, int) else None


def _tasks(facts: Mapping[str, Any]) -> list[str]:
    """The tasks that wait and run, and what else asks for executors."""
    waiting, running = _whole(facts, "pending_tasks"), _whole(facts, "running_tasks")
    parts = []
    if waiting is not None and running is not None:
        speculative = _whole(facts, "speculative_tasks")
        extra = f", {speculative:,} speculative" if speculative else ""
        parts.append(f"{waiting:,} wait, {running:,} run{extra}")
    if sets := _whole(facts, "unschedulable_task_sets"):
        parts.append(count(sets, "unschedulable task set"))
    return parts


def _needed(facts: Mapping[str, Any]) -> list[str]:
    """How many executors that makes."""
    needed, slots = _whole(facts, "need"), _whole(facts, "tasks_per_executor")
    if needed is None:
        return []
    return [f"need {needed:,}" + (f" ({slots:,} tasks each)" if slots is not None and slots > 1 else "")]


def _bounded(facts: Mapping[str, Any], before: int, after: int) -> list[str]:
    """What kept a raise from going further, and what it was added to where that is not the target."""
    parts = []
    executors, increment = facts.get("executors"), facts.get("increment")
    if isinstance(executors, int) and executors > before:
        parts.append(f"{executors:,} exist already")
    match facts.get("bound"):
        case "ramp" if increment != after - before:
            parts.append(f"ramp +{increment:,}" if isinstance(increment, int) else "ramp")
        case "maximum":
            parts.append(f"maximum {after:,}")
        case "minimum":
            parts.append(f"minimum {after:,}")
        case "ratio":
            parts.append("cut by ratio")
        case _:
            pass
    return parts


def _of_bounds(lead: str, facts: Mapping[str, Any]) -> str:
    minimum = facts.get("minimum")
    return f"{lead} (minimum {minimum:,})" if isinstance(minimum, int) and minimum else lead


def _number(facts: Mapping[str, Any], key: str) -> str:
    value = facts.get(key)
    return f"{value:,}" if isinstance(value, int) else "?"


def one_line(value: object, shown_max: int) -> str:
    """A text of untrusted input on one line: its line breaks are blanks, whatever else cannot be printed is escaped."""
    return escaped(" ".join(str(value)[: 4 * shown_max].split()), shown_max)


def profile_words(profile: int | None) -> list[str]:
    """A profile other than the default one, as a part of a reason."""
    return [f"profile {profile}"] if profile else []
