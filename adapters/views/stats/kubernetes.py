"""What an application on a cluster went through, counted as it happens: an observer of the loop with bounded memory.

It answers what one asks of a simulation or a recording: how long each target took to be reached, what it cost in pods and
calls, how many pods were for nothing, and how long which limit held pods back. All of it is seen from the driver:

- a pod is *created* when its creation was answered well; under a StatefulSet or Deployment, where Kubernetes makes the pods,
  when it is given an executor id;
- an executor is there from the moment its registration is accepted until the driver removes it; a target is *reached* when
  so many executors are there;
- a pod is *wasted* if it was created and is gone without its executor ever registering; pods still on their way at the end
  are not. So created = registered + wasted + on the way, but for executors whose creation was never answered.

How far a pod has come is what the driver was shown of it: no node, a node, its container running. What it was not shown
(a watch that is broken) has not happened yet. What every platform counts - targets, bounds, time - is in
``views.stats.base``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from podtide.adapters.views.stats.base import StatsBase
from podtide.adapters.views.stats.waits import Wait
from podtide.domain.base.units import Millis
from podtide.domain.engine import EngineState
from podtide.domain.kubernetes.allocator.state import AllocatorState
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import EXECUTOR_LABEL, PROFILE_LABEL, UNNAMED_EXECUTOR, PodManifest, PodNumber
from podtide.domain.protocol.reasons import Cause

CALLS_MAX: Final = 100_000
"""Calls under way whose outcomes are waited for; of more only the calls count."""

LOST: Final = "lost"
"""How a call ended that nobody answered."""

VANISHED: Final = "vanished"
"""Why a pod was wasted that is in no list any more, though no report says how it ended."""

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

_ASKING: Final = (pc.CreatePod, pc.CreateClaim, pc.ListClaims, pc.CreateSet, pc.ScaleSet)
"""Calls without whose answer the allocators do not go on."""


class KubernetesStats(StatsBase):
    """Watches the steps of an application; ``document`` says what it was. ``start``: when it began."""

    def __init__(self, start: Millis) -> None:
        super().__init__(start)
        self._calls: dict[int, Command] = {}
        self._side: KubernetesState | None = None
        self._looked_at: AllocatorState | None = None
        self._asking = 0  # calls under way of the allocators
        self._refused: set[int] = set()  # profiles whose last creation failed
        self._counted: dict[int, int] = {}  # pods that the allocator counts, by profile
        self._named: set[str] = set()  # pods that were given an executor id

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """See one step. Costs what it says, and the profiles."""
        self._pass(now)
        for stimulus in stimuli:
            match stimulus:
                case Outcome():
                    self._answered(stimulus)
                    self._shown(stimulus.pods)
                case PodsUpdated(pods=pods) | PodsReplaced(pods=pods):
                    self._shown(pods)
                case _:
                    pass
        side = taken.state.kubernetes
        assert side is not None, "these statistics are of an application on Kubernetes"
        self._side = side
        for command in taken.commands:
            self._command(now, command, side)
        self._reported(taken.reports)
        self._look(now, side)

    def finish(self, now: Millis) -> None:
        """The application has ended."""
        super().finish(now)
        if self._side is not None:
            self._lose(_forgotten(self._side, self._coming), VANISHED)

    def document(self) -> dict[str, Any]:
        """The summary as plain data: counts, seconds and milliseconds since the epoch, as docs/reference/formats.md says."""
        counts = self.counts
        return {
            **self._began(),
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
            **self._ended(),
            "series": self.history.document(),
        }

    # ------------------------------------------------------------------------------------------------- pods and calls

    def _shown(self, pods: Iterable[PodManifest]) -> None:
        """What the driver is shown of pods: how far those have come that have not registered."""
        for pod in pods:
            name = pod.labels.get(EXECUTOR_LABEL, "")
            gone = pod.deleted_at is not None or pod.phase in {"Failed", "Succeeded"}
            if name == UNNAMED_EXECUTOR:  # of a StatefulSet or Deployment: its executor id comes later
                name, profile = pod.name, pod.labels.get(PROFILE_LABEL, "")
                if not gone and name not in self._underway and name not in self._named and profile.isdecimal():
                    self._underway.begin(name, int(profile[:9]), Wait.NODE)
            if gone:
                self._underway.end(name)
            else:
                placed = Wait.NODE if pod.node is None else Wait.CONTAINER
                self._underway.reach(name, Wait.PROCESS if pod.phase == "Running" else placed)

    def _answered(self, outcome: Outcome) -> None:
        command = self._calls.pop(outcome.serial, None)
        if command is None:
            return
        self._asking -= isinstance(command, _ASKING)
        if outcome.failure is not None:
            status = LOST if outcome.failure.status is None else outcome.failure.status
            self.failed_calls[f"{VERBS[type(command)]} {status}"] += 1
            if isinstance(command, pc.CreatePod | pc.CreateSet | pc.ScaleSet):
                self._refused.add(command.profile)
        if isinstance(command, pc.CreatePod):
            executor = str(command.executor)
            if outcome.failure is not None:
                self.counts["creations_failed"] += 1
                self._underway.end(executor)
                return
            self._refused.discard(command.profile)
            self._underway.reach(executor, Wait.UNSEEN)
            self.counts["created"] += 1
            if executor not in self._there:  # its answer may have been faster than the API's
                self._coming.add(executor)

    def _command(self, now: Millis, command: Command, side: KubernetesState) -> None:
        verb = VERBS.get(type(command))
        if verb is not None:
            self.calls[verb] += 1
            if len(self._calls) < CALLS_MAX:
                self._calls[command.serial] = command  # type: ignore[union-attr]  # every call has one
                self._asking += isinstance(command, _ASKING)
        match command:
            case ec.AnswerRegistration(accepted=True):
                self._joined(command.executor, side.backend.registry)
            case pc.CreatePod():
                self._underway.begin(str(command.executor), command.profile, Wait.API_CALL)
            case pc.AssignExecutorId():
                self.counts["created"] += 1
                self._coming.add(str(command.executor))
                self._named.add(command.pod)
                self._underway.rename(command.pod, str(command.executor))
            case pc.CreateSet() | pc.ScaleSet():
                self._aim(now, command.profile, command.replicas)
                self._refused.discard(command.profile)
            case pc.DeletePods(executors=executors) if executors is not None:
                if command.why.cause is Cause.ABOVE_TARGET:
                    self.counts["excess"] += len(executors)
                elif command.why.cause is Cause.CREATION_TIMEOUT:
                    self.counts["timed_out"] += len(executors)
                self._lose(map(str, executors), command.why.cause.value)
            case pc.DeletePod():
                self._lose((str(command.executor),), command.why.cause.value)
            case ec.RemoveExecutor():
                self._left(str(command.executor), command.why.cause.value)
            case ec.StopApplication():
                self.exit_code = command.exit_code
            case _:
                pass

    # ----------------------------------------------------------------------------------------------------- over time

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
            index = side.allocator.fleet
            for profile, target in targets.items():
                self._counted[profile] = index.census(profile, alone=len(targets) <= 1).counted
                counted += self._counted[profile]
                if target != self._targets.get(profile, 0):
                    self._aim(now, profile, target)
        self._stand(now, counted)

    def _unasked(self, profile: int, target: int) -> str:
        bound = self._bound_on(profile)
        if bound is not None:
            return bound
        if self._asking:
            return Wait.API_CALL.value
        if profile in self._refused:
            return Wait.REFUSED.value
        # As many pods as the target has, and not as many executors on their way: some are gone, and not noticed yet.
        lost = self._counted.get(profile, 0) >= target
        return Wait.LOST.value if lost else Wait.ROUND.value


def _forgotten(side: KubernetesState, executors: Iterable[str]) -> list[str]:
    """Those of the executors of whose pods nothing is known any more, and nothing expected."""
    if side.allocator is None:
        return []
    expected = {number for number, _ in side.allocator.fleet.created()}
    numbers = {executor: PodNumber(int(executor)) for executor in executors}
    return [executor for executor, n in numbers.items() if n not in side.store.view and n not in expected]
