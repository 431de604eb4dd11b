"""The smallest driver: it asks for pods, answers executors that register, and writes down what it hears."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster
from podtide.domain.fakes.kubernetes.description import (
    STAGES,
    Api,
    Description,
    Executors,
    Fault,
    Life,
    NodeGroup,
    PodStage,
    Watch,
)
from podtide.domain.protocol import executor_stimuli as es, pod_stimuli as ps
from podtide.domain.protocol.executor_commands import AnswerRegistration
from podtide.domain.protocol.pod_commands import AssignExecutorId, CreatePod, PodCommand
from podtide.domain.protocol.pods import PodManifest, PodNumber
from podtide.domain.protocol.reasons import Cause, Why

WHY = Why(Cause.BELOW_TARGET)
S = 1_000
T = TypeVar("T", bound=ps.PodStimulus)

PACE: dict[str, Millis] = {
    "schedule": 10, "pull": 5_000, "pulled": 100, "start": 200, "register": 1_000, "exit": 300, "drain": 2_000,
    "terminate": 500, "refused": 100, "give-up": 1_000,
}  # fmt: skip
"""A life without chance: every stage takes the same time always."""

PLAIN_STAGES = tuple(replace(s, delay=Constant(PACE.get(s.name, s.delay.quantile(0.5)))) for s in STAGES)


def plain(
    *stages: PodStage, without: Iterable[str] = (), groups: tuple[NodeGroup, ...] | None = None, api: Api | None = None,
    watch: Watch | None = None, calm_ms: Millis | None = None, **executors: Any,
) -> Description:  # fmt: skip
    """A cluster without chance: calls take 20 ms, the watch 10 ms; what is given is added or replaces stages."""
    names = {s.name for s in stages} | set(without)
    kept = tuple(s for s in PLAIN_STAGES if s.name not in names)
    return Description(
        groups=groups if groups is not None else (NodeGroup("worker", 3),),
        executors=Executors(stages=kept + stages, **executors),
        api=api if api is not None else quick(),
        watch=watch if watch is not None else Watch(delay=Constant(10)),
        controllers=Constant(50),
        calm_ms=calm_ms,
    )


def quick(*faults: Fault, **settings: Any) -> Api:
    """An API whose calls take 20 ms."""
    return Api(latency=Constant(20), faults=faults, **settings)


def stage(name: str, source: Life, next_: Life, ms: Millis = 0, **settings: Any) -> PodStage:
    """A stage of constant length."""
    return PodStage(name, source, next_, Constant(ms), **settings)


class Driver:
    """A world and what was heard of it. ``accept``: whether executors that register are taken (None: no answer).
    ``names_given``: whether pods that ask for an executor id get one."""

    def __init__(
        self,
        description: Description,
        seed: int = 1,
        accept: bool | None = True,
        names_given: bool = True,
        **begin: Any,
    ) -> None:
        self.world: KubernetesCluster = worlds.begin(description, seed, 0, **begin)
        self.heard: list[ps.PodStimulus] = []
        self.observed: list[ps.PodStimulus | PodCommand] = []
        self.accept = accept
        self.names_given = names_given
        self.names = 0
        self.serial = 0
        self.now: Millis = 0

    def ask(self, command: PodCommand) -> None:
        """Ask for something now."""
        self.observed.append(command)
        self.world = worlds.apply(self.world, command, self.now)

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    def create(self, *numbers: int, profile: int = 0, claims: tuple[str, ...] = ()) -> None:
        """Ask for executor pods."""
        for number in numbers:
            serial = self.next_serial()
            self.ask(CreatePod(self.now, serial, PodNumber(number), ProfileId(profile), WHY, claims))

    def until(self, end: Millis) -> Driver:
        """Live on up to and including ``end``."""
        while (at := worlds.due(self.world)) <= end:
            self.now = max(self.now, at)
            self.world, heard = worlds.advance(self.world, self.now)
            self.heard.extend(heard)
            self.observed.extend(heard)
            for one in heard:
                self._answer(one)
        self.now = max(self.now, end)
        self.world, _ = worlds.advance(self.world, self.now)
        return self

    def to_the_end(self) -> Driver:
        """Live on until nothing lies ahead, at most for a week."""
        while worlds.due(self.world) != NEVER and self.now < 7 * 86_400 * S:
            self.until(worlds.due(self.world))
        return self

    def _answer(self, one: ps.PodStimulus) -> None:
        if isinstance(one, es.RegisterExecutor) and self.accept is not None:
            self.ask(AnswerRegistration(self.now, one.executor, self.accept, WHY))
        elif isinstance(one, ps.GenerateExecutorId) and self.names_given:
            self.names += 1
            name = ExecutorId(str(self.names))
            self.ask(AssignExecutorId(self.now, self.next_serial(), one.pod, name, WHY))

    # what was heard

    def all(self, kind: type[T]) -> list[T]:
        return [one for one in self.heard if isinstance(one, kind)]

    def outcome(self, serial: int) -> ps.Outcome:
        (found,) = [one for one in self.all(ps.Outcome) if one.serial == serial]
        return found

    def failures(self) -> list[int | None]:
        return [one.failure.status for one in self.all(ps.Outcome) if one.failure is not None]

    def shown(self, name: str | None = None) -> list[tuple[Millis, PodManifest]]:
        """The pods that the watch showed, with the time."""
        pairs = [(u.at, pod) for u in self.all(ps.PodsUpdated) for pod in u.pods]
        return [(at, pod) for at, pod in pairs if name is None or pod.name == name]

    def lists(self) -> list[ps.PodsReplaced]:
        return self.all(ps.PodsReplaced)

    def tally(self, name: str) -> int:
        return worlds.tally(self.world).get(name, 0)

    def lives(self) -> dict[Life, int]:
        """How many pods are in which state."""
        lives: dict[Life, int] = {}
        for (_, life), count in worlds.census(self.world).lives.items():
            lives[life] = lives.get(life, 0) + count
        return lives

    def story(self) -> bytes:
        """All that was heard, as bytes."""
        return "\n".join(map(repr, self.heard)).encode()


def outline(manifest: PodManifest) -> tuple[str | None, bool, bool, str | None]:
    """The part of a manifest that changes: phase, on a node, being deleted, container's state."""
    state = manifest.containers[0].state if manifest.containers else None
    kind = state.kind if state is not None else None
    return manifest.phase, manifest.node is not None, manifest.deleted_at is not None, kind
