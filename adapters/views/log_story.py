"""The story of a run, of one of its executors or of a moment, from an event log: sentences, and the decisions beside them.

A recording knows more (calls, pods, states: ``views.explain``). An event log knows when executors came and went and why
Spark removed them, what tasks ran, and, by its replay, what was decided when and for which reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from podtide.adapters.text.format import count, ids, lasting, moment
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.replay_document import ReplayDocument, TimelineEntry, sentences
from podtide.adapters.views.whatif.figures import at as at_words, executor_seconds, largest, percent, took
from podtide.domain.base.units import Millis
from podtide.domain.comparison.account import RunAccount
from podtide.domain.recorded.application import Application, Leave, RecordedExecutor

AROUND: Final = 5
"""Decisions before a moment, and after it, that are told."""

CAUSES_TOLD: Final = 4


class Explanation(Struct, frozen=True, kw_only=True):
    """``about``: the run, an executor or a moment, in words. ``story``: of a recording, everything as plain data."""

    about: str
    sentences: tuple[str, ...]
    events: tuple[TimelineEntry, ...] = ()
    story: dict[str, object] = {}


class NotInLog(LookupError):
    """The log has no such executor, or does not reach to that moment; one printable line."""


def run_story(document: ReplayDocument, timeline: Sequence[TimelineEntry], account: RunAccount) -> Explanation:
    """The whole run: what held it back, where its bill went, what its tasks waited for."""
    lines = [*sentences(document), *bill_sentences(account)]
    return Explanation(about="the run", sentences=tuple(lines), events=tuple(timeline))


def bill_sentences(account: RunAccount) -> list[str]:
    """Where the executor-seconds went, and what tasks waited for."""
    lines = []
    if account.billed_ms > 0:
        parts = largest({cause.value: float(ms) for cause, ms in account.bill.items()})[:CAUSES_TOLD]
        named = ", ".join(f"{percent(ms / account.billed_ms)} {cause}" for cause, ms in parts)
        lines.append(f"The bill is {executor_seconds(account.billed_ms / 1000)}, from request to end: {named}.")
    waits = largest({limit.value: float(ms) for limit, ms in account.waiting_ms.items()})[:CAUSES_TOLD]
    if waits:
        named = ", ".join(f"{took(ms / 1000)} {limit}" for limit, ms in waits)
        lines.append(f"Tasks waited for executors, by what kept these away: {named}.")
    return lines


def executor_story(
    application: Application, timeline: Sequence[TimelineEntry], executor: str, start: Millis
) -> Explanation:
    """One executor. ``start``: of the replay. Raises NotInLog."""
    found = next((one for one in application.executors if one.executor == executor), None)
    if found is None:
        known = ids([one.executor for one in application.executors])
        raise NotInLog(f"the log names no executor {escaped(executor, 60)}; it names {known or 'none'}")
    events = tuple(one for one in timeline if executor in one.executors)
    return Explanation(about=f"executor {escaped(executor, 60)}", sentences=tuple(_lived(found, start)), events=events)


def _lived(one: RecordedExecutor, start: Millis) -> list[str]:
    def when(at: Millis) -> str:
        return f"{at_words((at - start) / 1000)} after the start ({moment(at)})"

    wait = ""
    if one.requested_ms is not None:
        wait = f" It had been asked for {lasting(max(0, one.added_ms - one.requested_ms))} before."
    lines = [
        f"It registered {when(one.added_ms)} on host {escaped(one.host, 80)} with {count(one.cores, 'core')}.{wait}"
    ]
    if one.tasks:
        busy = f"{count(one.tasks, 'task')}, {lasting(one.busy_ms)} of task time"
        first = (
            ""
            if one.first_task_ms is None
            else f", the first one {lasting(max(0, one.first_task_ms - one.added_ms))} later"
        )
        lines.append(f"It ran {busy}{first}.")
    else:
        lines.append("It ran no task.")
    if one.removed_ms is None:
        lines.append("It was there when the log ended.")
        return lines
    how = "The application let it go" if one.leave is Leave.RELEASED else "It was lost"
    reason = f"; Spark's reason: {escaped(one.reason.strip().rstrip('.'), 300)}" if one.reason else ""
    idle = ""
    if one.last_task_ms is not None and one.removed_ms > one.last_task_ms:
        idle = f", {lasting(one.removed_ms - one.last_task_ms)} after its last task"
    lines.append(f"{how} {when(one.removed_ms)}{idle}{reason}.")
    return lines


def moment_story(
    application: Application, timeline: Sequence[TimelineEntry], at: Millis, first: Millis, last: Millis
) -> Explanation:
    """How things stood at a moment. ``first`` to ``last``: what the log covers, as ``at`` in milliseconds since 1970. Raises
    NotInLog."""
    if not first <= at <= last:
        raise NotInLog(f"{moment(at)} is not in the log; it goes from {moment(first)} to {moment(last)}")
    at_s = (at - first) / 1000
    before = [one for one in timeline if one.at_s <= at_s]
    after = [one for one in timeline if one.at_s > at_s]
    targets: dict[int, int] = {}
    for one in before:
        if one.after is not None:
            targets[one.profile] = one.after
    there = [
        one.executor
        for one in application.executors
        if one.added_ms <= at and (one.removed_ms is None or one.removed_ms > at)
    ]
    waiting = sum(
        1 for one in application.executors if one.requested_ms is not None and one.requested_ms <= at < one.added_ms
    )
    named = f": {ids(there)}" if there else ""
    lines = [f"{at_words(at_s)} after the start: the target was {_targets(targets)}."]
    lines.append(
        f"{count(len(there), 'executor')} registered{named}; {count(waiting, 'executor')} asked for and not there yet."
    )
    running = [one for one in application.stages if one.submitted_ms <= at < one.completed_ms]
    if running:
        stages = ", ".join(f"{one.stage} ({escaped(one.name, 60)})" for one in running[:AROUND])
        lines.append(f"{count(len(running), 'stage')} under way: {stages}.")
    else:
        lines.append("No stage was under way.")
    if after:
        lines.append(f"The next decision came {took(after[0].at_s - at_s)} later: {after[0].what}.")
    events = (*before[-AROUND:], *after[:AROUND])
    return Explanation(about=f"the moment {moment(at)}", sentences=tuple(lines), events=events)


def _targets(targets: Mapping[int, int]) -> str:
    if len(targets) <= 1:
        return f"{sum(targets.values()):,}"
    return ", ".join(f"{target:,} of profile {profile}" for profile, target in sorted(targets.items()))
