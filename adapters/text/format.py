"""Times, counts and reasons in words, for people who read a replay in a terminal.

One wording for one thing, wherever it is shown. Reasons put the numbers first that decided: how many were asked
for, how long the tasks had waited, how many of them, what they needed, and what cut the answer. Everything here is
plain text of one line; nothing in it comes from a log but numbers and executor ids, and those are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis

IDS_SHOWN: Final = 6
"""Executor ids that are named one by one in a row; the rest is counted."""

ID_SHOWN_MAX: Final = 24
"""Characters of one executor id that are shown."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def clock(span_ms: Millis, *, tenths: bool = False) -> str:
    """A time since the start: ``0:04.3``, ``12:05``, ``1:02:03``, ``3d 04:05:06``."""
    if span_ms < 0:
        return f"-{clock(-span_ms, tenths=tenths)}"
    seconds, rest = divmod(span_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    tail = f"{seconds:02}.{rest // 100}" if tenths else f"{seconds:02}"
    if days:
        return f"{days:,}d {hours:02}:{minutes:02}:{tail}"
    return f"{hours}:{minutes:02}:{tail}" if hours else f"{minutes}:{tail}"


def lasting(span_ms: float) -> str:
    """A length of time: ``300 ms``, ``4.3 s``, ``15 s``, ``2m 05s``, ``3h 07m``, ``12d 4h``."""
    span = round(span_ms)
    if span < 1000:
        return f"{span} ms" if span else "0 s"
    if span < 60_000:
        return f"{span / 1000:.1f}".removesuffix(".0") + " s"
    minutes, seconds = divmod(round(span / 1000), 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes:02}m"
    return f"{hours // 24:,}d {hours % 24}h"


def moment(at_ms: Millis) -> str:
    """A moment of the calendar, in UTC: ``2026-11-21 09:44:23 UTC``."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError):  # beyond the year 9999
        return f"{at_ms:,} ms"


def count(number: float, one: str, many: str | None = None) -> str:
    """A number and its noun: ``1 task``, ``1,234 tasks``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(number: float) -> str:
    """Bytes: ``812 B``, ``73.4 kB``, ``2.1 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def ids(executors: Sequence[str], shown_max: int = IDS_SHOWN) -> str:
    """Executor ids, the first few by name: ``4, 1, 2`` or ``1, 10, 11 and 40 more``."""
    named = ", ".join(escaped(executor, ID_SHOWN_MAX) for executor in executors[:shown_max])
    more = len(executors) - shown_max
    return f"{named} and {more:,} more" if more > 0 else named


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


def joined(parts: Iterable[str], separator: str = " · ") -> str:
    """The parts of a reason as one line."""
    return separator.join(part for part in parts if part)


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
