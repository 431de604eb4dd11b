"""The world of a replay: executors come and go as the log says, whatever is decided.

A request is always acknowledged and never followed: what came is in the log. A kill is acknowledged too, as the
backend would have, and is from then on a *proposal*: the log confirms it when the executor is removed, and
disproves it when the executor is seen to start another task. A disproved kill is taken back (the executor lives
on and counts again); one that the log never mentions stays a proposal.

``LogWorld`` plays that world for one lane. In the lane of the other bound it also cleans shuffles as soon as nobody
needs them, which is the earliest that Spark's ContextCleaner could.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from podtide.adapters.recording.records.decisions import report_record, scaling_record
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, ScalingCommand
from podtide.domain.protocol.stimuli import (
    Answer,
    ExecutorRemoved,
    KillDisproved,
    ShuffleCleaned,
    ShuffleUnneeded,
    Stimulus,
    TaskStart,
)

Sink = Callable[[dict[str, Any]], None]
"""Takes decision and report records as they come."""


@dataclass
class LaneTally:
    """What a lane decided, counted."""

    decisions: int = 0
    peak_target: int = 0
    peak_target_ms: Millis | None = None
    target_changes: int = 0
    kills_proposed: int = 0
    kills_confirmed: int = 0
    kills_disproved: int = 0
    threw: int = 0
    by_cause: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)


class LogWorld:
    """One lane's world; ``cleans``: whether shuffles are cleaned as soon as nobody needs them."""

    def __init__(self, sink: Sink, *, cleans: bool = False) -> None:
        self.tally = LaneTally()
        self.target = 0
        self.proposed: dict[ExecutorId, Millis] = {}
        self._sink = sink
        self._cleans = cleans

    def cleaning(self, sink: Sink) -> LogWorld:
        """A world that has seen the same so far, goes on by itself, and cleans shuffles."""
        twin = LogWorld(sink, cleans=True)
        tally = self.tally
        twin.tally = LaneTally(**{**vars(tally), "by_cause": Counter(tally.by_cause), "held": Counter(tally.held)})
        twin.target = self.target
        twin.proposed = dict(self.proposed)
        return twin

    def watch(self, batch: Sequence[Stimulus]) -> Sequence[Stimulus]:
        """The batch, with disproved kills and cleaned shuffles put in where they follow."""
        proposed, cleans = self.proposed, self._cleans
        if not proposed and not cleans:
            return batch
        seen: list[Stimulus] = []
        changed = False
        for event in batch:
            if type(event) is TaskStart:
                if event[4] in proposed:
                    seen.append(self._disproved(event[4], event[0]))
                    changed = True
            elif isinstance(event, ExecutorRemoved):
                if proposed.pop(event.executor, None) is not None:
                    self.tally.kills_confirmed += 1
            elif cleans and isinstance(event, ShuffleUnneeded):
                seen.append(ShuffleCleaned(event.at, event.shuffle))
                changed = True
                continue
            seen.append(event)
        return seen if changed else batch

    def _disproved(self, executor: ExecutorId, at: Millis) -> KillDisproved:
        del self.proposed[executor]
        self.tally.kills_disproved += 1
        self._sink({"at_ms": at, "report": "kill disproved", "ids": [executor]})
        return KillDisproved(at, (executor,))

    def apply(self, command: ScalingCommand, now: Millis) -> Sequence[Stimulus]:
        """Record the command and grant it."""
        tally = self.tally
        tally.decisions += 1
        tally.by_cause[_cause_of(command)] += 1
        self._sink(scaling_record(command))
        match command:
            case RequestTotal():
                tally.target_changes += len(command.changes)
                self.target = sum(command.targets.values())
                if self.target > tally.peak_target or tally.peak_target_ms is None:
                    tally.peak_target, tally.peak_target_ms = self.target, command.at
                return (Answer(now, command.serial),)
            case Kill() | Decommission():
                tally.kills_proposed += len(command.departures)
                for departure in command.departures:
                    self.proposed[departure.executor] = command.at
                return (Answer(now, command.serial, command.executors),)

    def report(self, report: Report) -> None:
        """Record the report."""
        record = report_record(report)
        if record["report"] != "held":
            self.tally.threw += 1
        elif record["phase"] == "began":
            self.tally.held[record["bound"]] += 1
        self._sink(record)


def _cause_of(command: ScalingCommand) -> str:
    if isinstance(command, RequestTotal):
        return command.why.cause.value
    return command.departures[0].why.cause.value


class Meter:
    """Integrals over the replay: how long executors idled, and how long the backlog waited for them."""

    def __init__(self, start: Millis) -> None:
        self.last = start
        self.idle_ms: Millis = 0
        self.backlog_ms: Millis = 0
        self.short_ms: Millis = 0
        self.peak_need = 0

    def observe(self, now: Millis, need: int, executors: int, busy: int, *, waiting: bool) -> None:
        """Account the time since the last call to the values that held until ``now``."""
        span = now - self.last
        self.last = now
        if need > self.peak_need:
            self.peak_need = need
        self.idle_ms += span * (executors - busy)
        if waiting:
            self.backlog_ms += span
            if need > executors:
                self.short_ms += span
