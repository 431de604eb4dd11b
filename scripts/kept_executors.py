"""Which executors a driver kept for their shuffle data, and when: from its ExecutorMonitor's DEBUG lines and the event log.

The monitor never says that it keeps an executor. It says when a shuffle is known (``Registered new shuffle 3 (from stage
5).``, at the start of its job) and when the ContextCleaner has removed it (``Cleaning up state related to shuffle 3.``). Who
holds a shuffle's data follows from the log: whoever ended a map task of its stage well, or of a stage of a later job that
computes the same RDD (``Reusing shuffle 3 in job 7.`` names no stage). An executor is kept for it from the end
of its idle timeout until it gets a task, leaves, or holds no known shuffle any more.

Of cached data the driver's log says nothing; that a replay keeps or lets go for it shows in the kills.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from podtide.domain.base.units import Millis
from scripts.driver_log import monitor_lines

_REGISTERED: Final = re.compile(r"Registered new shuffle (\d+) \(from stage (\d+)\)\.")
_CLEANED: Final = re.compile(r"Cleaning up state related to shuffle (\d+)\.")

Span = tuple[Millis, Millis]


@dataclass
class _Executor:
    """``shuffles``: what it holds. ``idle_at``: since when it has no task, if so. ``gone``: ends of its tasks may follow."""

    idle_at: Millis | None
    gone: bool = False
    running: int = 0
    shuffles: set[int] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)


class _Keeping:
    """Follows the executors of one application."""

    def __init__(self, idle_ms: Millis) -> None:
        self._idle_ms = idle_ms
        self._shuffle_of: dict[int, int] = {}
        self._rdd_of: dict[int, int] = {}
        self.executors: dict[str, _Executor] = {}

    def said(self, at: Millis, text: str) -> None:
        """A line of the driver's monitor."""
        if hit := _REGISTERED.match(text):
            self._shuffle_of[int(hit[2])] = int(hit[1])
        elif hit := _CLEANED.match(text):
            for one in self.executors.values():
                if int(hit[1]) in one.shuffles:
                    self._settle(one, at)
                    one.shuffles.discard(int(hit[1]))

    def happened(self, at: Millis, event: Mapping[str, Any]) -> None:
        """An event of the log."""
        match event["Event"]:
            case "SparkListenerJobStart":
                for stage in event["Stage Infos"]:
                    self._rdd_of[stage["Stage ID"]] = max(rdd["RDD ID"] for rdd in stage["RDD Info"])
            case "SparkListenerExecutorAdded":
                self.executors.setdefault(event["Executor ID"], _Executor(at))
            case "SparkListenerExecutorRemoved":
                self.left(at, event["Executor ID"])
            case "SparkListenerTaskStart":
                one = self.executors.setdefault(event["Task Info"]["Executor ID"], _Executor(at))
                self._settle(one, at)
                one.running, one.idle_at = one.running + 1, None
            case "SparkListenerTaskEnd" if event["Task End Reason"]["Reason"] != "Resubmitted":
                one = self.executors.setdefault(event["Task Info"]["Executor ID"], _Executor(at))
                if event["Task Type"] == "ShuffleMapTask" and event["Task End Reason"]["Reason"] == "Success":
                    one.shuffles |= self._shuffles_of(event["Stage ID"])
                one.running -= 1
                if one.running <= 0 and not one.gone:
                    one.idle_at = at
            case _:
                pass

    def _shuffles_of(self, stage: int) -> set[int]:
        rdd = self._rdd_of.get(stage)
        return {
            shuffle for known, shuffle in self._shuffle_of.items() if known == stage or self._rdd_of.get(known) == rdd
        }

    def left(self, at: Millis, executor: str) -> None:
        """The driver let an executor go, or it went by itself."""
        if (one := self.executors.get(executor)) is not None:
            self._settle(one, at)
            one.gone, one.idle_at = True, None

    def end(self, at: Millis) -> dict[str, list[Span]]:
        """The application has ended; the spans by executor."""
        for one in self.executors.values():
            self._settle(one, at)
        return {executor: one.spans for executor, one in self.executors.items() if one.spans}

    def _settle(self, one: _Executor, at: Millis) -> None:
        if one.idle_at is None or not one.shuffles:
            return
        begun = max(one.idle_at + self._idle_ms, one.spans[-1][1] if one.spans else 0)
        if at > begun:
            one.spans.append((begun, at))


def kept_by_driver(
    log: Iterable[bytes], driver: Iterable[str], kills: Iterable[tuple[Millis, str]], idle_ms: Millis
) -> dict[str, list[Span]]:
    """The spans of time in which shuffle data kept each executor, by the driver's log. ``kills``: whom it let go when."""
    keeping = _Keeping(idle_ms)
    moments: list[tuple[Millis, int, Any]] = [(at, 0, text) for at, text in monitor_lines(driver)]
    moments += [(at, 2, executor) for at, executor in kills]
    last = 0
    for line in log:
        event = json.loads(line)
        at = _time_of(event)
        if at is not None:
            last = max(last, at)
            moments.append((at, 1, event))
    for at, kind, what in sorted(moments, key=lambda moment: moment[:2]):
        if at <= last:
            (keeping.said, keeping.happened, keeping.left)[kind](at, what)
    return keeping.end(last)


def _time_of(event: Mapping[str, Any]) -> Millis | None:
    info = event.get("Task Info")
    if info is not None:
        return int(info["Finish Time"] or info["Launch Time"])
    at = event.get("Timestamp", event.get("Submission Time"))
    return None if at is None else int(at)


def kept_by_replay(records: Iterable[Mapping[str, Any]], end: Millis) -> dict[str, list[Span]]:
    """The same, by a replay's reports."""
    open_since: dict[str, Millis] = {}
    spans: dict[str, list[Span]] = {}
    for record in records:
        if record.get("report") != "held":
            continue
        begins = record["bound"] == "shuffle data" and record["phase"] != "ended"
        for executor in record["ids"]:
            if begins:
                open_since.setdefault(executor, record["at_ms"])
            elif (begun := open_since.pop(executor, None)) is not None:
                spans.setdefault(executor, []).append((begun, record["at_ms"]))
    for executor, begun in open_since.items():
        spans.setdefault(executor, []).append((begun, end))
    return spans


def seconds(spans: Mapping[str, Iterable[Span]]) -> float:
    """How long, over all executors."""
    return sum(max(0, end - begun) for those in spans.values() for begun, end in those) / 1000


def common(ours: Mapping[str, list[Span]], theirs: Mapping[str, list[Span]]) -> dict[str, list[Span]]:
    """Where both agree."""
    return {
        executor: [
            (max(one[0], other[0]), min(one[1], other[1]))
            for one in those
            for other in theirs.get(executor, ())
            if min(one[1], other[1]) > max(one[0], other[0])
        ]
        for executor, those in ours.items()
    }
