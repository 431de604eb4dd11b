"""Is what is decided now what a recording says was decided? Step by step, as values, to the first difference.

Every step's records (commands, then reports) are compared in order with those that were recorded. Equal values are not made
into records at all, so that a faithful recording costs little more than reading it. The first step that differs becomes a
``Divergence`` with its story: what entered the step, what was recorded and what is decided, which keys differ, what was
held back at that moment and what the steps before decided. Nothing is compared after it.

Two things are no difference. Remarks - what only Spark's log says - are compared if the recording has any: whether they are
reported is the recorder's choice, not a decision. And of a step whose decisions a cut may have taken nobody can say what
they were: it is not compared.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podtide.adapters.recording.codec import decided_record
from podtide.adapters.recording.reader import RecordedStep
from podtide.adapters.recording.records.codec import Plain
from podtide.adapters.recording.records.expectation import ABSENT, Departing
from podtide.domain.base.units import Millis
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.reasons import Held, Phase, Remark

STEPS_BEFORE: Final = 5
"""Steps before a divergence that decided something and belong to its story."""

RECORDS_KEPT: Final = 12
"""Records of one step that are kept for the story."""

HOLDS_MAX: Final = 1_000
"""Bounds in force that are remembered."""

CALLS_MAX: Final = 100_000
"""Calls under way that are remembered."""

DEPARTURES_MAX: Final = 200


@dataclass
class Hold:
    """A bound in force: since when, and the last report of it."""

    since: Millis
    record: Plain


class HoldBook:
    """The bounds in force, by bound and profile, as reports begin, change and end them.

    Bounds that single executors are under (cached data, shuffle data) are counted by bound and profile: ``executors``.
    """

    def __init__(self) -> None:
        self.holds: dict[tuple[str, int], Hold] = {}
        self.executors: dict[tuple[str, int], int] = {}
        self._of: dict[str, tuple[str, int]] = {}

    def take(self, report: Held) -> None:
        """Take note of a report."""
        key = (report.bound.value, report.profile)
        if report.executors:
            self._each(key, report)
        elif report.phase is Phase.ENDED:
            self.holds.pop(key, None)
        else:
            known = self.holds.get(key)
            if known is not None or len(self.holds) < HOLDS_MAX:
                self.holds[key] = Hold(report.at if known is None else known.since, decided_record(report))

    def document(self) -> list[Plain]:
        """The bounds in force as plain data, the oldest first."""
        held = sorted(self.holds.values(), key=lambda hold: hold.since)
        listed: list[Plain] = [
            {
                "bound": hold.record["bound"],
                "profile": hold.record["profile"],
                "since_ms": hold.since,
                "facts": hold.record["facts"],
            }
            for hold in held
        ]
        listed.extend(
            {"bound": bound, "profile": profile, "executors": number}
            for (bound, profile), number in sorted(self.executors.items())
        )
        return listed

    def _each(self, key: tuple[str, int], report: Held) -> None:
        for executor in report.executors:
            old = self._of.pop(executor, None)
            if old is not None:
                self.executors[old] -= 1
                if not self.executors[old]:
                    del self.executors[old]
            if report.phase is not Phase.ENDED:
                self._of[executor] = key
                self.executors[key] = self.executors.get(key, 0) + 1


@dataclass
class Divergence:
    """The first step that differs. ``recorded`` and ``decided``: its records from the first that is different on.

    ``agreed``: records of the step before that one, which are equal. ``calls``: by serial, those whose outcomes entered it.
    """

    step: RecordedStep
    number: int
    agreed: int
    recorded: list[Plain]
    decided: list[Plain]
    departing: list[Departing]
    before: list[tuple[Millis, list[Plain]]]
    held: list[Plain]
    calls: dict[int, Command]

    def document(self) -> Plain:
        """The divergence as plain data."""
        return {
            "line": self.step.line,
            "step": self.number,
            "at_ms": self.step.at,
            "stimuli": [type(stimulus).__name__ for stimulus in self.step.stimuli[:DEPARTURES_MAX]],
            "agreed": self.agreed,
            "recorded": self.recorded,
            "decided": self.decided,
            "differs": [{"path": d.path, "recorded": d.expected, "decided": d.decided} for d in self.departing],
            "held": self.held,
            "before": [record for _, records in self.before for record in records],
        }


class Agreement:
    """Compares the steps of a recording with what is decided now; ``divergence`` is set by the first that differs."""

    def __init__(self) -> None:
        self.steps = 0
        self.decisions = 0
        self.uncompared = 0
        self.divergence: Divergence | None = None
        self.remarks: bool | None = None
        self._before: deque[tuple[Millis, list[Plain]]] = deque(maxlen=STEPS_BEFORE)
        self._holds = HoldBook()
        self._calls: OrderedDict[int, Command] = OrderedDict()

    def take(self, step: RecordedStep, commands: Sequence[Command], reports: Sequence[Report]) -> bool:
        """Compare one step. Whether it is as recorded; after a divergence nothing is, and nothing is noted."""
        if self.divergence is not None:
            return False
        if not step.complete:
            self.uncompared += 1
            return True
        reports = self._of_interest(step, reports)
        if tuple(commands) != step.commands or tuple(reports) != step.reports:
            recorded, decided = list(step.decided), [decided_record(item) for item in (*commands, *reports)]
            if recorded != decided:
                self._differs(step, recorded, decided)
                return False
        self.steps += 1
        self.decisions += len(step.decided)
        self._follow(step)
        for report in reports:
            if isinstance(report, Held):
                self._holds.take(report)
        if step.decided:
            self._before.append((step.at, list(step.decided[:RECORDS_KEPT])))
        return True

    def document(self) -> Plain:
        """The outcome as plain data."""
        return {
            "agrees": self.divergence is None,
            "steps": self.steps,
            "decisions": self.decisions,
            "uncompared_steps": self.uncompared,
            "divergence": None if self.divergence is None else self.divergence.document(),
        }

    def _of_interest(self, step: RecordedStep, reports: Sequence[Report]) -> Sequence[Report]:
        """The reports to compare: remarks only if the recording has them, as its first step with any tells."""
        if self.remarks is None:
            if any(isinstance(report, Remark) for report in step.reports):
                self.remarks = True
            elif any(isinstance(report, Remark) for report in reports):
                self.remarks = False
        if self.remarks:
            return reports
        return [report for report in reports if not isinstance(report, Remark)]

    def _follow(self, step: RecordedStep) -> None:
        """Keep the calls that are under way, for the story of a divergence."""
        for stimulus in step.stimuli:
            if isinstance(stimulus, Outcome):
                self._calls.pop(stimulus.serial, None)
        for command in step.commands:
            serial = getattr(command, "serial", None)
            if serial is not None and not isinstance(command, RequestTotal | Kill | Decommission):
                self._calls[serial] = command
                if len(self._calls) > CALLS_MAX:
                    self._calls.popitem(last=False)

    def _differs(self, step: RecordedStep, recorded: list[Plain], decided: list[Plain]) -> None:
        outcomes = [stimulus for stimulus in step.stimuli if isinstance(stimulus, Outcome)]
        agreed = 0
        for one, other in zip(recorded, decided, strict=False):
            if one != other:
                break
            agreed += 1
        left, right = recorded[agreed:], decided[agreed:]
        departing = departures(left[0], right[0]) if left and right else []
        self.divergence = Divergence(
            step,
            self.steps + 1,
            agreed,
            left[:RECORDS_KEPT],
            right[:RECORDS_KEPT],
            departing[:DEPARTURES_MAX],
            list(self._before),
            self._holds.document(),
            {one.serial: self._calls[one.serial] for one in outcomes if one.serial in self._calls},
        )


def departures(recorded: Any, decided: Any, path: str = "") -> list[Departing]:
    """Where two records differ, by the path of each value, in the order of the recorded one's keys."""
    if isinstance(recorded, Mapping) and isinstance(decided, Mapping):
        found: list[Departing] = []
        for key in dict.fromkeys((*recorded, *decided)):
            before, after = recorded.get(key, ABSENT), decided.get(key, ABSENT)
            if before != after:
                found += departures(before, after, f"{path}.{key}" if path else str(key))
        return found
    if isinstance(recorded, list) and isinstance(decided, list) and len(recorded) == len(decided):
        found = []
        for place, (before, after) in enumerate(zip(recorded, decided, strict=True)):
            if before != after:
                found += departures(before, after, f"{path}[{place}]")
            if len(found) > DEPARTURES_MAX:
                break
        return found
    return [Departing(path, recorded, decided)]
