"""What an application on a cluster went through, counted as it happens: an observer of the loop with bounded memory.

It answers what one asks of a simulation or a recording: how long each target took to be reached, what it cost in pods and
calls, how many pods were for nothing, and how long which limit held pods back. All of it is seen from the driver:

- a pod is *created* when its creation was answered well; under a StatefulSet or Deployment, where Kubernetes makes the pods,
  when it is given an executor id;
- an executor is there from the moment its registration is accepted until the driver removes it; a target is *reached* when
  so many executors are there;
- a pod is *wasted* if it was created and is gone without its executor ever registering; pods still on their way at the end
  are not. So created = registered + wasted + on the way, but for executors whose creation was never answered.

Bounds hold pods back (``missing``) or keep executors that could have gone (``executors``); each is summed as time, and as
time multiplied by how many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podtide.adapters.history import History
from podtide.domain import pod_commands as pc
from podtide.domain.allocator_state import AllocatorState
from podtide.domain.commands import Command, Step
from podtide.domain.engine import AnyStimulus, State
from podtide.domain.kubernetes_side import KubernetesState
from podtide.domain.pod_stimuli import Outcome
from podtide.domain.pods import PodNumber
from podtide.domain.reasons import Bound, Cause, Held, Phase, Threw
from podtide.domain.units import ExecutorId, Millis

GOALS_MAX: Final = 1_000
"""Targets whose reaching is told one by one; of more only the number."""

RAMP_MS: Final[Millis] = 5_000
"""Raises so soon after each other are one: dynamic allocation goes up step by step."""

CALLS_MAX: Final = 100_000
"""Calls under way whose outcomes are waited for; of more only the calls count."""

LOST: Final = "lost"
"""How a call ended that nobody answered."""

VANISHED: Final = "vanished"
"""Why a pod was wasted that is in no list any more, though nobody said what became of it."""

VERBS: Final[dict[type, str]] = {
    pc.CreatePod: "create pods",
    pc.CreateClaim: "create persistentvolumeclaims",
    pc.CreateSet: "create sets",
    pc.CreateConfigMap: "create configmaps",
    pc.DeletePods: "delete pods",
    pc.DeletePod: "delete pods",
    pc.DeleteSet: "delete sets",
    pc.DeleteOwned: "delete others",
    pc.ListClaims: "list persistentvolumeclaims",
    pc.ListPods: "list pods",
    pc.GetDriverPod: "get pods",
    pc.MarkInactive: "patch pods",
    pc.MarkPods: "patch pods",
    pc.ScaleSet: "scale sets",
    pc.ResizePod: "patch pods",
    pc.ResizeClaim: "patch persistentvolumeclaims",
    pc.AssignExecutorId: "patch pods",
}
"""The API calls that commands are. A command for several pods counts as one, though the client makes several of it."""

_SIZES: Final = {
    Bound.MAXIMUM: ("need", "maximum"),
    Bound.RATIO: ("need_without_ratio", "need"),
    Bound.BATCH_SIZE: ("missing", "batch"),
    Bound.PENDING_LIMIT: ("missing", "batch"),
    Bound.PENDING_LIMIT_PROFILE: ("missing", "batch"),
    Bound.BACK_OFF: ("missing", "batch"),
}
"""How many pods a bound holds back: the first of these facts less the second. Of the others it is ``missing``."""

_KEEPS: Final = ("executors", "above_target", "excess")
"""Facts that say how many executors, or pods, a bound keeps that could have gone."""


@dataclass
class Goal:
    """A target that was raised, in ``steps`` from ``at`` to ``raised``, and when it was reached.

    ``most``: the most executors that were there meanwhile. ``replaced``: it was changed before it was reached.
    """

    at: Millis
    profile: int
    before: int
    target: int
    raised: Millis
    steps: int = 1
    most: int = 0
    reached: Millis | None = None
    replaced: bool = False


@dataclass
class Hold:
    """A bound in force on a profile: since when, how many it holds, and whether it keeps executors or holds pods back."""

    since: Millis
    number: int
    keeps: bool


class Story:
    """Watches the steps of an application; ``document`` says what it was. ``start``: when it began."""

    def __init__(self, start: Millis) -> None:
        self.start = start
        self.history = History(start)
        self.goals: list[Goal] = []
        self.counts: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.failed_calls: Counter[str] = Counter()
        self.removals: Counter[str] = Counter()
        self.wastes: Counter[str] = Counter()
        self.exit_code: int | None = None
        self._now = start
        self._values: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._targets: dict[int, int] = {}
        self._open: dict[int, Goal] = {}
        self._holds: dict[tuple[str, int], Hold] = {}
        self._keepers: dict[str, tuple[str, int]] = {}  # the bound that keeps an executor, where it is the executor's
        self._held_ms: Counter[tuple[str, int, bool]] = Counter()
        self._held_times: Counter[tuple[str, int, bool]] = Counter()
        self._asked: dict[int, Command] = {}
        self._coming: set[str] = set()  # executors whose pods are created and who have not registered
        self._there: dict[str, int] = {}  # registered executors, and their profiles
        self._there_of: Counter[int] = Counter()
        self._side: KubernetesState | None = None
        self._looked_at: AllocatorState | None = None
        self._executor_ms = 0
        self._waiting_ms = 0

    @property
    def above_target(self) -> int:
        """Executors that are there beyond the targets."""
        return sum(max(0, there - self._targets.get(profile, 0)) for profile, there in self._there_of.items())

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[State, Command]) -> None:
        """See one step. Costs what it says, and the profiles."""
        self._pass(now)
        for stimulus in stimuli:
            if isinstance(stimulus, Outcome):
                self._answered(stimulus)
        side = taken.state.kubernetes
        assert side is not None, "a story is of an application on a cluster"
        self._side = side
        for command in taken.commands:
            self._command(now, command, side)
        for report in taken.reports:
            if isinstance(report, Held):
                self._held(report)
            elif isinstance(report, Threw):
                self.counts["threw"] += 1
        self._look(now, side)

    def finish(self, now: Millis) -> None:
        """The story is over."""
        self._pass(now)
        for key, hold in self._holds.items():
            self._count_hold(key, hold, now)
        self._holds = {}
        if self._side is not None:
            self._lose(_forgotten(self._side, self._coming), VANISHED)

    def document(self) -> dict[str, Any]:
        """The summary as plain data: counts, seconds and milliseconds since the epoch, as docs/formats.md says."""
        counts = self.counts
        return {
            "seconds": (self._now - self.start) / 1000,
            "targets": [
                {
                    "at_ms": goal.at,
                    "profile": goal.profile,
                    "before": goal.before,
                    "target": goal.target,
                    "steps": goal.steps,
                    "raised_ms": goal.raised,
                    "most": goal.most,
                    "reached_ms": goal.reached,
                    "seconds": None if goal.reached is None else (goal.reached - goal.at) / 1000,
                    "replaced": goal.replaced,
                }
                for goal in self.goals
            ],
            "targets_left_out": counts["goals"] - len(self.goals),
            "pods": {
                "created": counts["created"],
                "creations_failed": counts["creations_failed"],
                "registered": counts["registered"],
                "removed": sum(self.removals.values()),
                "wasted": sum(self.wastes.values()),
                "on_the_way": len(self._coming),
                "excess": counts["excess"],
                "timed_out": counts["timed_out"],
                "executor_seconds": self._executor_ms / 1000,
                "waiting_seconds": self._waiting_ms / 1000,
            },
            "removals": dict(sorted(self.removals.items())),
            "wasted_by": dict(sorted(self.wastes.items())),
            "calls": dict(sorted(self.calls.items())),
            "calls_failed": dict(sorted(self.failed_calls.items())),
            "held": self._bounds(keeps=False),
            "kept": self._bounds(keeps=True),
            "rounds_threw": counts["threw"],
            "exit_code": self.exit_code,
            "series": self.history.document(),
        }

    def _bounds(self, *, keeps: bool) -> list[dict[str, Any]]:
        """The bounds of one sort, the heaviest first."""
        what = "executor_seconds" if keeps else "pod_seconds"
        found = [key for key in self._held_ms if key[2] is keeps]
        return [
            {
                "bound": key[0],
                "profile": key[1],
                "seconds": self._held_ms[key] / 1000,
                what: self._held_times[key] / 1000,
            }
            for key in sorted(found, key=lambda key: (-self._held_times[key], -self._held_ms[key], key))
        ]

    # ------------------------------------------------------------------------------------------------- pods and calls

    def _answered(self, outcome: Outcome) -> None:
        command = self._asked.pop(outcome.serial, None)
        if command is None:
            return
        if outcome.failure is not None:
            status = LOST if outcome.failure.status is None else outcome.failure.status
            self.failed_calls[f"{VERBS[type(command)]} {status}"] += 1
        if isinstance(command, pc.CreatePod):
            if outcome.failure is not None:
                self.counts["creations_failed"] += 1
                return
            self.counts["created"] += 1
            executor = str(command.executor)
            if executor not in self._there:  # its answer may have been faster than the API's
                self._coming.add(executor)

    def _command(self, now: Millis, command: Command, side: KubernetesState) -> None:
        verb = VERBS.get(type(command))
        if verb is not None:
            self.calls[verb] += 1
            if len(self._asked) < CALLS_MAX:
                self._asked[command.serial] = command  # type: ignore[union-attr]  # every call has one
        match command:
            case pc.AnswerRegistration(accepted=True):
                self._joined(command.executor, side)
            case pc.AssignExecutorId():
                self.counts["created"] += 1
                self._coming.add(str(command.executor))
            case pc.CreateSet() | pc.ScaleSet():
                self._aim(now, command.profile, command.replicas)
            case pc.DeletePods(executors=executors) if executors is not None:
                if command.why.cause is Cause.ABOVE_TARGET:
                    self.counts["excess"] += len(executors)
                elif command.why.cause is Cause.CREATION_TIMEOUT:
                    self.counts["timed_out"] += len(executors)
                self._lose(map(str, executors), command.why.cause.value)
            case pc.DeletePod():
                self._lose((str(command.executor),), command.why.cause.value)
            case pc.RemoveExecutor():
                self._left(str(command.executor), command.why.cause.value)
            case pc.StopApplication():
                self.exit_code = command.exit_code
            case _:
                pass

    def _joined(self, executor: ExecutorId, side: KubernetesState) -> None:
        known = side.backend.registry.executors.get(executor)
        if executor in self._there or known is None:  # None: it is gone again in this very step
            return
        self.counts["registered"] += 1
        self._coming.discard(executor)
        self._there[executor] = known.profile
        self._there_of[known.profile] += 1

    def _left(self, executor: str, cause: str) -> None:
        """The driver removes an executor; of its pod nothing is expected any more."""
        profile = self._there.pop(executor, None)
        if profile is not None:
            self._there_of[profile] -= 1
            self.removals[cause] += 1
        self._lose((executor,), cause)

    def _lose(self, executors: Iterable[str], cause: str) -> None:
        """These pods go, or are gone; those whose executors never registered were for nothing."""
        for executor in executors:
            if executor in self._coming:
                self._coming.discard(executor)
                self.wastes[cause] += 1

    # --------------------------------------------------------------------------------------------------------- bounds

    def _held(self, report: Held) -> None:
        if report.executors:
            for executor in report.executors:
                self._keep(executor, report)
            return
        key = (report.bound.value, report.profile)
        hold = self._holds.pop(key, None)
        if hold is not None:
            self._count_hold(key, hold, report.at)
        if report.phase is not Phase.ENDED:
            self._holds[key] = Hold(report.at, *hold_size(report))

    def _keep(self, executor: str, report: Held) -> None:
        """A bound of single executors: each is kept by one of them at a time."""
        before = self._keepers.pop(executor, None)
        if before is not None:
            self._shift(before, report.at, -1)
        if report.phase is not Phase.ENDED:
            key = self._keepers[executor] = (report.bound.value, report.profile)
            self._shift(key, report.at, 1)

    def _shift(self, key: tuple[str, int], at: Millis, by: int) -> None:
        hold = self._holds.pop(key, None)
        if hold is not None:
            self._count_hold(key, hold, at)
        number = by if hold is None else hold.number + by
        if number > 0:
            self._holds[key] = Hold(at, number, keeps=True)

    def _count_hold(self, key: tuple[str, int], hold: Hold, until: Millis) -> None:
        self._held_ms[*key, hold.keeps] += until - hold.since
        self._held_times[*key, hold.keeps] += (until - hold.since) * hold.number

    # ----------------------------------------------------------------------------------------------------- over time

    def _pass(self, now: Millis) -> None:
        if now > self._now:
            self.history.hold(self._now, now, self._values)
            _, _, counted, there = self._values
            self._executor_ms += there * (now - self._now)
            self._waiting_ms += (counted - there) * (now - self._now)
            self._now = now

    def _look(self, now: Millis, side: KubernetesState) -> None:
        """Read where the application stands."""
        there = len(self._there)
        if side.allocator is not None and side.allocator is self._looked_at and there == self._values[3]:
            return  # most steps only show pods, which waits for the next round
        self._looked_at = side.allocator
        if side.allocator is None:  # Kubernetes makes the pods: as many as were asked for, sooner or later
            counted = sum(max(self._targets[p], self._there_of[p]) for p in self._targets)
        else:
            counted = 0
            targets = side.allocator.targets
            draft = side.allocator.fleet.draft()
            for profile, target in targets.items():
                counted += draft.census(profile, alone=len(targets) <= 1).counted
                if target != self._targets.get(profile, 0):
                    self._aim(now, profile, target)
        for aimed in tuple(self._open):
            goal = self._open[aimed]
            goal.most = max(goal.most, self._there_of[aimed])
            if self._there_of[aimed] >= goal.target:
                goal.reached = now
                del self._open[aimed]
        wanted = sum(self._targets.values())
        self._values = (wanted, wanted, max(counted, there), there)

    def _aim(self, now: Millis, profile: int, target: int) -> None:
        before = self._targets.get(profile, 0)
        self._targets[profile] = target
        if target == before:
            return
        goal = self._open.get(profile)
        if goal is not None and target > before and now - goal.raised <= RAMP_MS:  # one ramp is one goal
            goal.target, goal.raised, goal.steps = target, now, goal.steps + 1
            return
        if goal is not None:
            goal.replaced = True
            del self._open[profile]
        if target > before:
            goal = self._open[profile] = Goal(now, profile, before, target, now)
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


def _forgotten(side: KubernetesState, executors: Iterable[str]) -> list[str]:
    """Those of the executors of whose pods nothing is known any more, and nothing expected."""
    if side.allocator is None:
        return []
    expected = {number for number, _ in side.allocator.fleet.created()}
    numbers = {executor: PodNumber(int(executor)) for executor in executors}
    return [executor for executor, n in numbers.items() if n not in side.store.view and n not in expected]
