"""An application without a driver: what its pods and its targets say in place of one.

Where a number, a schedule or a line on standard input says how many executors are wanted, no driver process takes
executors in and none lets them go. But the machines that create pods count on both: an executor that never registers
is deleted as one that timed out, and executors above a lowered target are let go by the driver, not by the allocator.
So:

- A pod whose Spark container runs is the evidence that its executor is there: it registers, once. A pod that still
  waits for an executor id (StatefulSets, Deployments) asks for one.
- A profile with more registered executors than its target has a surplus, which is killed by force: the newest first, for
  they have the least to lose. Nobody is asked to go twice.
- Executors that are on their way out count no longer: killed or turned away, told to decommission, their pod being
  deleted, their container at its end. They are not surplus again, nor replaced here: that is the allocator's to do.

The tables hold live pods only: an executor is forgotten when its pod ends, is being deleted or is missing in a full
list. Pods whose profile nobody can read are the default profile's. Without a target for a profile nothing of it is
killed.

A step costs the pods and targets that it is about, a full list its length. Nothing in Spark does this: it stands for
the driver endpoint and for whoever called killExecutors.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.tables import Members, Table, Tables
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId, java_order
from podtide.domain.base.versioned import Versioned
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_commands import AnswerRegistration, DecommissionExecutors, RemoveExecutor
from podtide.domain.protocol.executor_stimuli import KillRequested, RegisterExecutor, TargetsSet
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId, Outcome, PodsReplaced, PodStimulus, PodsUpdated
from podtide.domain.protocol.pods import (
    EXECUTOR_LABEL,
    PROFILE_LABEL,
    RUNNING,
    SPARK_CONTAINER,
    TERMINATED,
    UNNAMED_EXECUTOR,
    ContainerState,
    PodManifest,
)
from podtide.domain.protocol.stimuli import Stimulus

HeadlessInput: TypeAlias = Stimulus | PodStimulus | Command
"""Whatever comes by; what does not matter here is passed over."""

HeadlessStimulus: TypeAlias = RegisterExecutor | KillRequested | GenerateExecutorId
"""What the engine is shown because of it."""

_ENDED: Final = frozenset({"succeeded", "failed"})
_PROFILE_MAX: Final = 2**31 - 1
_NUMBER_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class HeadlessConfig:
    """``spark_container``: the container whose running says that an executor runs."""

    spark_container: str = SPARK_CONTAINER


class Executor(NamedTuple):
    """An executor whose pod is there. ``leaving``: it was asked to go, or refused."""

    profile: ProfileId
    leaving: bool = False


Rank: TypeAlias = tuple[int, bytes]
"""By age: executor ids are given out in order; what is no number is older than all."""


def _rank(executor: ExecutorId) -> Rank:
    digits = executor.isascii() and executor.isdigit() and len(executor) <= _NUMBER_DIGITS
    return (int(executor) if digits else -1, java_order(executor))


class HeadlessTables(Tables):
    """The inside of a HeadlessState. ``unnamed``: the pods that asked for an id.

    ``staying``: by profile, who is not leaving, the oldest first; derived.
    """

    def __init__(self) -> None:
        self.executors: Table[ExecutorId, Executor] = Table()
        self.targets: Table[ProfileId, int] = Table()
        self.unnamed: Members[str] = Members()
        super().__init__()

    def recount(self) -> None:
        """Derive anew who stays."""
        self.staying: dict[ProfileId, list[tuple[Rank, ExecutorId]]] = {}
        for executor, one in self.executors.items():
            if not one.leaving:
                self.staying.setdefault(one.profile, []).append((_rank(executor), executor))
        for ranked in self.staying.values():
            ranked.sort()


class HeadlessState(Versioned[HeadlessTables]):
    """What is known at a moment; an older state still answers as before."""

    __slots__ = ()

    def registered(self, profile: ProfileId) -> int:
        """Executors of the profile that run and stay."""
        return len(self._tables.staying.get(profile, ()))

    def executors(self) -> Mapping[ExecutorId, Executor]:
        """The executors that are known, by id. Costs a copy."""
        return dict(self._tables.executors)

    def targets(self) -> Mapping[ProfileId, int]:
        """The targets, by profile. Costs a copy."""
        return dict(self._tables.targets)

    def unnamed(self) -> frozenset[str]:
        """The pods that asked for an executor id."""
        return frozenset(self._tables.unnamed)


def begin() -> HeadlessState:
    """No pod was seen, nothing is wanted."""
    return HeadlessState(HeadlessTables())


def drive(
    state: HeadlessState, snapshots: Sequence[HeadlessInput], config: HeadlessConfig, now: Millis
) -> Step[HeadlessState, HeadlessStimulus]:
    """Take what came, in order; registrations come as pods are seen, kills at the end, when all of it is known."""
    with state.step() as tables:
        turn = _Turn(tables, config, now)
        for item in snapshots:
            turn.take(item)
        turn.kill_surplus()
        if tables.undo_log:
            state = state.hand_over(HeadlessState(tables))
        return Step(state, tuple(turn.stimuli))


class _Turn:
    """One step under way."""

    def __init__(self, tables: HeadlessTables, config: HeadlessConfig, now: Millis) -> None:
        self.tables, self.config, self.now = tables, config, now
        self.stimuli: list[HeadlessStimulus] = []
        self.touched: dict[ProfileId, None] = {}

    def take(self, item: HeadlessInput) -> None:
        match item:
            case PodsUpdated(_, pods):
                self._see(pods)
            case Outcome():
                self._see(item.pods)
            case PodsReplaced(_, pods):
                self._replace(pods)
            case TargetsSet(_, targets):
                for profile, target in targets:
                    if self.tables.targets.get(profile) != target:
                        self.tables.targets.put(profile, target)
                    self.touched[profile] = None
            case KillRequested():
                self._leave(item.executors)
            case RemoveExecutor():
                self._leave((item.executor,))
            case DecommissionExecutors():
                self._leave(item.executors)
            case AnswerRegistration() if not item.accepted:
                self._leave((item.executor,))
            case _:
                pass  # nothing of it says who is there or who is wanted

    def kill_surplus(self) -> None:
        """Kill what is too much."""
        for profile in sorted(self.touched):
            target = self.tables.targets.get(profile)
            staying = self.tables.staying.get(profile, [])
            if target is not None and len(staying) > target:
                surplus = tuple(executor for _, executor in reversed(staying[target:]))
                self.stimuli.append(KillRequested(self.now, surplus, adjust_target=False, force=True))
                self._leave(surplus)

    def _see(self, pods: Sequence[PodManifest]) -> None:
        for pod in pods:
            executor = pod.labels.get(EXECUTOR_LABEL)
            if executor is None or executor == "":
                continue
            if executor == UNNAMED_EXECUTOR:
                self._name(pod)
                continue
            self.tables.unnamed.discard(pod.name)
            self._look(ExecutorId(executor), pod)

    def _look(self, executor: ExecutorId, pod: PodManifest) -> None:
        if self._over(pod):
            self._forget(executor)
        elif executor not in self.tables.executors and self._runs(pod):
            profile = labelled_profile(pod)
            self._put(executor, Executor(profile))
            self.stimuli.append(RegisterExecutor(self.now, executor, profile, pod.node or ""))

    def _name(self, pod: PodManifest) -> None:
        if self._over(pod):
            self.tables.unnamed.discard(pod.name)
        elif pod.name not in self.tables.unnamed and self._runs(pod):
            self.tables.unnamed.add(pod.name)
            self.stimuli.append(GenerateExecutorId(self.now, pod.name))

    def _replace(self, pods: Sequence[PodManifest]) -> None:
        there = {pod.labels.get(EXECUTOR_LABEL) for pod in pods}
        for executor in [executor for executor in self.tables.executors if executor not in there]:
            self._forget(executor)
        names = {pod.name for pod in pods}
        for name in [name for name in self.tables.unnamed if name not in names]:
            self.tables.unnamed.discard(name)
        self._see(pods)

    # what a manifest says

    def _spark_state(self, pod: PodManifest) -> ContainerState | None:
        """The state of Spark's container; of the only one where a template gave it another name."""
        named = [one for one in pod.containers if one.name == self.config.spark_container]
        if not named and len(pod.containers) == 1:
            named = list(pod.containers)
        return named[0].state if named else None

    def _runs(self, pod: PodManifest) -> bool:
        state = self._spark_state(pod)
        return pod.deleted_at is None and state is not None and state.kind == RUNNING

    def _over(self, pod: PodManifest) -> bool:
        if pod.deleted_at is not None or (pod.phase or "").lower() in _ENDED:
            return True
        state = self._spark_state(pod)
        return state is not None and state.kind == TERMINATED

    # who is there

    def _leave(self, executors: Sequence[ExecutorId]) -> None:
        for executor in executors:
            one = self.tables.executors.get(executor)
            if one is not None and not one.leaving:
                self._put(executor, one._replace(leaving=True))

    def _forget(self, executor: ExecutorId) -> None:
        if executor in self.tables.executors:
            self._put(executor, None)

    def _put(self, executor: ExecutorId, one: Executor | None) -> None:
        old = self.tables.executors.get(executor)
        if old is not None and not old.leaving:
            staying = self.tables.staying[old.profile]
            del staying[bisect_left(staying, (_rank(executor), executor))]
        if one is None:
            self.tables.executors.drop(executor)
            return
        self.tables.executors.put(executor, one)
        if not one.leaving:
            insort(self.tables.staying.setdefault(one.profile, []), (_rank(executor), executor))
            self.touched[one.profile] = None


def labelled_profile(pod: PodManifest) -> ProfileId:
    """The resource profile by the pod's label; the default one where nobody can read it."""
    text = pod.labels.get(PROFILE_LABEL, "")
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _PROFILE_MAX:
        return ProfileId(int(text))
    return DEFAULT_PROFILE
