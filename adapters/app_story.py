"""What an application on a cluster went through, counted as it happens: an observer of the loop with bounded memory.

It answers what one asks of a simulation: how long each target took to be reached, what it cost in pods and calls, how many
pods were for nothing, and how long which limit held pods back. A pod is *wasted* if it was created and its executor never
registered; a pod still on its way at the end is not counted as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from podtide.adapters.history import History
from podtide.domain import pod_commands as pc
from podtide.domain.commands import Command, Decommission, Kill, RequestTotal, Step
from podtide.domain.engine import AnyStimulus, State
from podtide.domain.pod_stimuli import Outcome, RegisterExecutor
from podtide.domain.reasons import Cause, Held, Phase, Threw
from podtide.domain.units import Millis

GOALS_MAX: Final = 1_000
"""Targets whose reaching is told one by one; of more only the totals."""

MOMENTS_MAX: Final = 400
"""Moments that are kept, half of them from the beginning and half from the end."""

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
"""The API calls that commands are."""


@dataclass
class Goal:
    """A target that was raised, and when it was reached."""

    at: Millis
    profile: int
    before: int
    target: int
    reached: Millis | None = None
    given_up: bool = False


@dataclass
class Hold:
    """A bound in force on a profile: since when, and how many pods it holds back."""

    since: Millis
    missing: int


@dataclass
class Moment:
    """Something to tell: ``what`` is a record of a decision, a report or an end."""

    at: Millis
    what: dict[str, Any]


@dataclass
class Story:
    """Watches the steps of an application; ``document`` says what it was. ``start``: when it began."""

    start: Millis
    goals: list[Goal] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    failed_calls: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    held_ms: Counter[tuple[str, int]] = field(default_factory=Counter)
    held_pod_ms: Counter[tuple[str, int]] = field(default_factory=Counter)
    exit_code: int | None = None

    def __post_init__(self) -> None:
        self.history = History(self.start)
        self.moments: list[Moment] = []
        self.late: list[Moment] = []
        self.moments_total = 0
        self._now = self.start
        self._values: tuple[int, int, int, int] = (0, 0, 0, 0)
        self._targets: dict[int, int] = {}
        self._open: dict[int, Goal] = {}
        self._holds: dict[tuple[str, int], Hold] = {}
        self._asked: dict[int, Command] = {}
        self._created: set[str] = set()
        self._running_ms = 0
        self._waiting_ms = 0

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[State, Command]) -> None:
        """See one step."""
        self._pass(now)
        for stimulus in stimuli:
            if isinstance(stimulus, Outcome):
                self._answered(stimulus)
            elif isinstance(stimulus, RegisterExecutor):
                self.counts["registered"] += str(stimulus.executor) in self._created
                self._created.discard(str(stimulus.executor))
        self._decided(now, taken.commands)
        for report in taken.reports:
            if isinstance(report, Held):
                self._held(report)
            elif isinstance(report, Threw):
                self.counts["rounds_threw"] += 1
                self._tell(now, {"threw": report.what, "machine": report.machine})
        self._look(now, taken.state)

    def finish(self, now: Millis) -> None:
        """The story is over."""
        self._pass(now)
        for key, hold in self._holds.items():
            self._count_hold(key, hold, now)
        self._holds = {}

    def document(self) -> dict[str, Any]:
        """The summary as plain data: counts, seconds and milliseconds since the epoch, as docs/formats.md says."""
        seconds = (self._now - self.start) / 1000
        return {
            "seconds": seconds,
            "targets": [
                {
                    "at_ms": goal.at,
                    "profile": goal.profile,
                    "before": goal.before,
                    "target": goal.target,
                    "reached_ms": goal.reached,
                    "seconds": None if goal.reached is None else (goal.reached - goal.at) / 1000,
                    "replaced": goal.given_up,
                }
                for goal in self.goals
            ],
            "pods": {
                "created": self.counts["created"],
                "creations_failed": self.counts["creations_failed"],
                "registered": self.counts["registered"],
                "removed": self.counts["removed"],
                "wasted": self.counts["wasted"],
                "retired": self.counts["retired"],
                "timed_out": self.counts["timed_out"],
                "running_seconds": self._running_ms / 1000,
                "waiting_seconds": self._waiting_ms / 1000,
            },
            "removals": {cause[8:]: n for cause, n in sorted(self.counts.items()) if cause.startswith("removal ")},
            "calls": dict(sorted(self.calls.items())),
            "calls_failed": dict(sorted(self.failed_calls.items())),
            "held": [
                {
                    "bound": bound,
                    "profile": profile,
                    "seconds": self.held_ms[bound, profile] / 1000,
                    "pod_seconds": self.held_pod_ms[bound, profile] / 1000,
                }
                for bound, profile in sorted(self.held_ms, key=lambda key: (-self.held_pod_ms[key], key))
            ],
            "rounds_threw": self.counts["rounds_threw"],
            "exit_code": self.exit_code,
            "series": self.history.document(),
        }

    def _pass(self, now: Millis) -> None:
        if now > self._now:
            self.history.hold(self._now, now, self._values)
            self._running_ms += self._values[3] * (now - self._now)
            self._waiting_ms += (self._values[2] - self._values[3]) * (now - self._now)
            self._now = now

    def _answered(self, outcome: Outcome) -> None:
        command = self._asked.pop(outcome.serial, None)
        if command is None:
            return
        if outcome.failure is not None:
            self.failed_calls[f"{VERBS[type(command)]} {outcome.failure.status or 'lost'}"] += 1
        if isinstance(command, pc.CreatePod):
            self.counts["creations_failed" if outcome.failure is not None else "created"] += 1
            if outcome.failure is None:
                self._created.add(str(command.executor))

    def _decided(self, now: Millis, commands: Sequence[Command]) -> None:
        created: list[pc.CreatePod] = []
        for command in commands:
            verb = VERBS.get(type(command))
            if verb is not None:
                self.calls[verb] += 1
                self._asked[command.serial] = command  # type: ignore[union-attr]
            match command:
                case pc.CreatePod():
                    created.append(command)
                case pc.DeletePods(why=why, executors=executors) if executors is not None:
                    if why.cause is Cause.ABOVE_TARGET:
                        self.counts["retired"] += len(executors)
                    elif why.cause is Cause.CREATION_TIMEOUT:
                        self.counts["timed_out"] += len(executors)
                    self._lost(map(str, executors))
                    self._tell(now, {"delete": [str(e) for e in executors], "why": why.cause.value})
                case pc.RemoveExecutor():
                    self.counts["removed"] += 1
                    self.counts[f"removal {command.why.cause.value}"] += 1
                    self._lost([str(command.executor)])
                    self._tell(now, {"removed": [str(command.executor)], "why": command.why.cause.value})
                case pc.StopApplication():
                    self.exit_code = command.exit_code
                    self._tell(now, {"exit": command.exit_code, "why": command.why.cause.value})
                case RequestTotal() if command.changes:
                    self._tell(
                        now,
                        {
                            "targets": [[c.profile, c.before, c.after] for c in command.changes],
                            "why": command.why.cause.value,
                        },
                    )
                case Kill() | Decommission():
                    self._tell(now, {"let go": list(command.executors), "why": command.departures[0].why.cause.value})
                case _:
                    pass
        if created:
            facts = dict(created[0].why.facts)
            ids = [int(command.executor) for command in created]
            self._tell(now, {"create": [ids[0], ids[-1], len(ids)], "facts": facts})

    def _lost(self, executors: Any) -> None:
        for executor in executors:
            if executor in self._created:
                self._created.discard(executor)
                self.counts["wasted"] += 1

    def _held(self, report: Held) -> None:
        key = (report.bound.value, report.profile)
        missing = report.facts.get("missing")
        hold = self._holds.pop(key, None)
        if hold is not None:
            self._count_hold(key, hold, report.at)
        if report.phase is not Phase.ENDED and isinstance(missing, int):
            self._holds[key] = Hold(report.at, missing)
            if report.phase is Phase.BEGAN:
                self._tell(
                    report.at, {"held": report.bound.value, "profile": report.profile, "facts": dict(report.facts)}
                )

    def _count_hold(self, key: tuple[str, int], hold: Hold, until: Millis) -> None:
        self.held_ms[key] += until - hold.since
        self.held_pod_ms[key] += (until - hold.since) * hold.missing

    def _look(self, now: Millis, state: State) -> None:
        """Read where the application stands. Costs its profiles."""
        side = state.kubernetes
        if side is None or side.allocator is None:
            return
        targets = side.allocator.targets
        draft = side.allocator.fleet.draft()
        counted = running = target_sum = 0
        for profile, target in targets.items():
            census = draft.census(profile, alone=len(targets) <= 1)
            counted += census.counted
            running += census.running
            target_sum += target
            before = self._targets.get(profile, 0)
            if target != before:
                self._targets[profile] = target
                self._aim(now, profile, before, target)
            goal = self._open.get(profile)
            if goal is not None and census.running >= goal.target:
                goal.reached = now
                del self._open[profile]
        self._values = (target_sum, target_sum, counted, running)

    def _aim(self, now: Millis, profile: int, before: int, target: int) -> None:
        open_goal = self._open.pop(profile, None)
        if open_goal is not None:
            open_goal.given_up = True
        if target > before:
            goal = Goal(now, profile, before, target)
            self._open[profile] = goal
            self.counts["goals"] += 1
            if len(self.goals) < GOALS_MAX:
                self.goals.append(goal)

    def _tell(self, at: Millis, what: dict[str, Any]) -> None:
        self.moments_total += 1
        if len(self.moments) < MOMENTS_MAX // 2:
            self.moments.append(Moment(at, what))
            return
        self.late.append(Moment(at, what))
        if len(self.late) > MOMENTS_MAX:
            del self.late[: MOMENTS_MAX // 2]

