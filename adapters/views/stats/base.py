"""The counters of an application, whatever its executors run in: targets, bounds, time.

A target is a goal from the moment it is raised until so many executors are there, or until it is changed. Bounds hold
pods or containers back (``missing``) or keep executors that could have gone (``executors``); each is summed as time, and
as time multiplied by how many. Every moment of a goal has one cause (``views.stats.waits``), so that they sum to its
time. ``views.stats.kubernetes`` (pods) and ``views.stats.yarn`` (containers) add what their side says and does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from podtide.adapters.views.stats.series import History
from podtide.adapters.views.stats.waits import ASKING_BOUNDS, Underway
from podtide.domain.backend.registry import Registry
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.reasons import Bound, Held, Phase, Threw

GOALS_MAX: Final = 1_000
"""Targets whose reaching is told one by one; of more only the number."""

RAMP_MS: Final[Millis] = 5_000
"""Raises so soon after each other are one: dynamic allocation goes up step by step."""

_SIZES: Final = {
    Bound.MAXIMUM: ("need", "maximum"),
    Bound.RATIO: ("need_without_ratio", "need"),
    Bound.BATCH_SIZE: ("missing", "batch"),
    Bound.PENDING_LIMIT: ("missing", "batch"),
    Bound.PENDING_LIMIT_PROFILE: ("missing", "batch"),
    Bound.BACK_OFF: ("missing", "batch"),
    Bound.RESOURCE_MANAGER: ("pending", ""),
}
"""How much a bound holds back: the first of these facts less the second. Of the others it is ``missing``."""

_KEEPS: Final = ("executors", "above_target", "excess")
"""Facts that say how many executors, or pods, a bound keeps that could have gone."""


@dataclass
class Goal:
    """A target that was raised, in ``steps`` from ``at_ms`` to ``raised_ms``, and when it was reached, after ``seconds``.

    ``most``: the most executors that were there meanwhile. ``replaced``: it was changed before it was reached. ``waits``:
    its milliseconds by cause.
    """

    at_ms: Millis
    profile: int
    before: int
    target: int
    steps: int
    raised_ms: Millis
    most: int = 0
    reached_ms: Millis | None = None
    seconds: float | None = None
    replaced: bool = False
    waits: Counter[str] = field(default_factory=Counter)

    def document(self) -> dict[str, Any]:
        """The goal as plain data; its causes the longest first, in seconds that sum to its time."""
        waits = sorted(self.waits.items(), key=lambda item: (-item[1], item[0]))
        return {
            "at_ms": self.at_ms, "profile": self.profile, "before": self.before, "target": self.target,
            "steps": self.steps, "raised_ms": self.raised_ms, "most": self.most, "reached_ms": self.reached_ms,
            "duration_s": self.seconds, "replaced": self.replaced,
            "waited": [{"for": cause, "duration_s": ms / 1000} for cause, ms in waits],
        }  # fmt: skip


HoldKey: TypeAlias = tuple[str, int]
"""A bound by its name, and the profile on which it is in force."""


class HoldInForce(NamedTuple):
    """A bound in force ``since``, since ``at`` as it is: how many it holds, and whether it keeps executors or holds pods
    back."""

    since: Millis
    at: Millis
    number: int
    keeps: bool


class HoldTable:
    """The bounds in force. Of bounds of single executors, one at a time keeps an executor."""

    def __init__(self) -> None:
        self.holds: dict[HoldKey, HoldInForce] = {}
        self._keepers: dict[str, HoldKey] = {}

    def take(self, report: Held) -> list[tuple[HoldKey, HoldInForce]]:
        """Take note of a report; returns the bounds that change, as they were before."""
        key, ends = (report.bound.value, report.profile), report.phase is Phase.ENDED
        if not report.executors:
            return self._set(key, report.at, None if ends else hold_size(report))
        changed = []
        for executor in report.executors:
            before = self._keepers.pop(executor, None)
            if before is not None:
                changed += self._shift(before, report.at, -1)
            if not ends:
                self._keepers[executor] = key
                changed += self._shift(key, report.at, 1)
        return changed

    def _shift(self, key: HoldKey, at: Millis, by: int) -> list[tuple[HoldKey, HoldInForce]]:
        hold = self.holds.get(key)
        number = by if hold is None else hold.number + by
        return self._set(key, at, (number, True) if number > 0 else None)

    def _set(self, key: HoldKey, at: Millis, size: tuple[int, bool] | None) -> list[tuple[HoldKey, HoldInForce]]:
        """``size``: how many it holds, and whether it keeps executors; None: it holds no longer."""
        before = self.holds.pop(key, None)
        if size is not None:
            self.holds[key] = HoldInForce(at if before is None else before.since, at, *size)
        return [] if before is None else [(key, before)]


class StatsBase(ABC):
    """The counters of an application that begins at ``start``. ``unit``: what executors run in, in the names of sums."""

    unit: ClassVar[str] = "pod"

    def __init__(self, start: Millis) -> None:
        self.start = start
        self.history = History(start)
        self.goals: list[Goal] = []
        self.counts: Counter[str] = Counter()
        self.removals: Counter[str] = Counter()
        self.wastes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.failed_calls: Counter[str] = Counter()
        self.exit_code: int | None = None
        self._now = start
        self._values: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._targets: dict[int, int] = {}
        self._open: dict[int, Goal] = {}
        self._holds = HoldTable()
        self._held_ms: Counter[tuple[str, int, bool]] = Counter()
        self._held_times: Counter[tuple[str, int, bool]] = Counter()
        self._coming: set[str] = set()  # executors under way, who have not registered
        self._underway = Underway()
        self._there: dict[str, int] = {}  # registered executors, and their profiles
        self._there_of: Counter[int] = Counter()
        self._executor_ms = 0
        self._waiting_ms = 0

    @property
    def above_target(self) -> int:
        """Executors that are there beyond the targets."""
        return sum(max(0, there - self._targets.get(profile, 0)) for profile, there in self._there_of.items())

    def _began(self) -> dict[str, Any]:
        """What a document begins with: how long it was, and the targets that were raised."""
        return {
            "duration_s": (self._now - self.start) / 1000,
            "targets": [goal.document() for goal in self.goals],
            "targets_left_out": self.counts["goals"] - len(self.goals),
        }

    def _ended(self) -> dict[str, Any]:
        """What a document says after that: causes, calls, what held back and what kept, and the end."""
        return {
            "removals": dict(sorted(self.removals.items())),
            "wasted_by": dict(sorted(self.wastes.items())),
            "calls": dict(sorted(self.calls.items())),
            "calls_failed": {name: number for name, number in sorted(self.failed_calls.items()) if number},
            "held": self._bounds(keeps=False),
            "kept": self._bounds(keeps=True),
            "rounds_threw": self.counts["threw"],
            "exit_code": self.exit_code,
        }

    def finish(self, now: Millis) -> None:
        """The application has ended: bounds still in force held until now."""
        self._pass(now)
        for key, hold in self._holds.holds.items():
            self._count_hold(key, hold, now)
        self._holds = HoldTable()

    def _reported(self, reports: Iterable[Report]) -> None:
        """What a step reports: bounds, and rounds that threw."""
        for report in reports:
            if isinstance(report, Held):
                for key, hold in self._holds.take(report):
                    self._count_hold(key, hold, report.at)
            elif isinstance(report, Threw):
                self.counts["threw"] += 1

    def _bounds(self, *, keeps: bool) -> list[dict[str, Any]]:
        """The bounds of one sort, the heaviest first."""
        what = "executor_seconds" if keeps else f"{self.unit}_seconds"
        found = [key for key in self._held_ms if key[2] is keeps]
        return [
            {
                "bound": key[0],
                "profile": key[1],
                "duration_s": self._held_ms[key] / 1000,
                what: self._held_times[key] / 1000,
            }
            for key in sorted(found, key=lambda key: (-self._held_times[key], -self._held_ms[key], key))
        ]

    # ------------------------------------------------------------------------------------------------------- executors

    def _joined(self, executor: ExecutorId, registry: Registry) -> None:
        """An executor's registration was accepted; it may be gone again in this very step."""
        known = registry.executors.get(executor)
        if known is None or executor in self._there:
            return
        self.counts["registered"] += 1
        self._coming.discard(executor)
        self._underway.end(executor)
        self._there[executor] = known.profile
        self._there_of[known.profile] += 1

    def _left(self, executor: str, cause: str) -> None:
        """The driver removes an executor; of what it ran in nothing is expected any more."""
        profile = self._there.pop(executor, None)
        if profile is not None:
            self._there_of[profile] -= 1
            self.removals[cause] += 1
        self._lose((executor,), cause)

    def _lose(self, executors: Iterable[str], cause: str) -> None:
        """These go, or are gone; those whose executors never registered were for nothing."""
        for executor in executors:
            self._underway.end(executor)
            if executor in self._coming:
                self._coming.discard(executor)
                self.wastes[cause] += 1

    # --------------------------------------------------------------------------------------------------------- bounds

    def _count_hold(self, key: HoldKey, hold: HoldInForce, until: Millis) -> None:
        self._held_ms[*key, hold.keeps] += until - hold.at
        self._held_times[*key, hold.keeps] += (until - hold.at) * hold.number

    # ----------------------------------------------------------------------------------------------------- over time

    def _cause(self, profile: int, target: int) -> str:
        """What a target that is not reached waits for at this moment."""
        behind = self._underway.behind(profile, target - self._there_of[profile])
        return self._unasked(profile, target) if behind is None else behind.value

    @abstractmethod
    def _unasked(self, profile: int, target: int) -> str:
        """Why not all executors of a target were asked for."""

    def _bound_on(self, profile: int) -> str | None:
        """The bound that keeps most of a profile's executors from being asked for; None where there is none."""
        found = [
            (hold.number, bound)
            for (bound, of), hold in self._holds.holds.items()
            if of == profile and bound in ASKING_BOUNDS and not hold.keeps
        ]
        return max(found)[1] if found else None

    def _pass(self, now: Millis) -> None:
        if now > self._now:
            self.history.hold(self._now, now, self._values)
            _, _, counted, there = self._values
            self._executor_ms += there * (now - self._now)
            self._waiting_ms += (counted - there) * (now - self._now)
            for profile, goal in self._open.items():
                goal.waits[self._cause(profile, goal.target)] += now - self._now
            self._now = now

    def _stand(self, now: Millis, counted: int) -> None:
        """What is there at this moment; ``counted``: executors, and what is on the way to become one."""
        there = len(self._there)
        for aimed in tuple(self._open):
            goal = self._open[aimed]
            goal.most = max(goal.most, self._there_of[aimed])
            if self._there_of[aimed] >= goal.target:
                goal.reached_ms, goal.seconds = now, (now - goal.at_ms) / 1000
                del self._open[aimed]
        wanted = sum(self._targets.values())
        self._values = (wanted, wanted, max(counted, there), there)

    def _aim(self, now: Millis, profile: int, target: int) -> None:
        before = self._targets.get(profile, 0)
        self._targets[profile] = target
        if target == before:
            return
        goal = self._open.get(profile)
        if goal is not None and target > before and now - goal.raised_ms <= RAMP_MS:  # one ramp is one goal
            goal.target, goal.raised_ms, goal.steps = target, now, goal.steps + 1
            return
        if goal is not None:
            goal.replaced = True
            del self._open[profile]
        if target > before:
            goal = self._open[profile] = Goal(now, profile, before, target, 1, now)
            self.counts["goals"] += 1
            if len(self.goals) < GOALS_MAX:
                self.goals.append(goal)


def hold_size(report: Held) -> tuple[int, bool]:
    """How many a bound holds, and whether it keeps executors rather than hold pods back."""
    facts = report.facts
    more, less = _SIZES.get(report.bound, ("missing", ""))
    number = facts.get(more)
    if isinstance(number, int):
        taken = facts.get(less, 0)
        return max(0, number - (taken if isinstance(taken, int) else 0)), False
    kept = next((value for key in _KEEPS if isinstance(value := facts.get(key), int)), None)
    if kept is None:
        return 0, False
    young = facts.get("young")  # of the pods above the target, those that this bound keeps
    return min(kept, young) if isinstance(young, int) else kept, True
