"""The smallest application: it asks for containers, beats, launches what it is given, and writes down what it hears."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.yarn import cluster as worlds
from podtide.domain.fakes.yarn.cluster import ClusterCommand, ClusterStimulus, YarnCluster
from podtide.domain.fakes.yarn.description import Manager, Master, Nodes, Queue, YarnDescription, YarnExecutors
from podtide.domain.fakes.yarn.rows import ContainerStage
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.container_requests import Layout, Span
from podtide.domain.protocol.containers import Completion, Container, ContainerId, NodeReport, Resource
from podtide.domain.protocol.executor_commands import AnswerRegistration
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.protocol.reasons import Cause, Why

WHY = Why(Cause.BELOW_TARGET)
S = 1_000
SIZE = Resource(2_048, 1)
T = TypeVar("T", bound=ClusterStimulus)


def plain(*rows: Nodes, queue: Queue | None = None, **settings: Any) -> YarnDescription:
    """A cluster without chance: calls take 20 ms, launches 50, files and processes a second each."""
    sections: dict[str, Any] = {
        "manager": Manager(latency=Constant(20)),
        "executors": YarnExecutors(
            launch=Constant(50), localize=Constant(1_000), localized=Constant(100), start=Constant(1_000),
            drain=Constant(3_000), exit=Constant(300),
        ),
        "master": Master(Constant(0), back=Constant(10_000)),
    }  # fmt: skip
    for name in tuple(settings):
        for section, record in sections.items():
            if hasattr(record, name):
                sections[section] = replace(record, **{name: settings.pop(name)})
                break
    return YarnDescription(rows or (Nodes("worker", 4, 8_192, 8),), queue=queue or Queue(), **sections, **settings)


class App:
    """An application master and its driver. ``launches``: what it is given is used; ``accepts``: executors may register."""

    def __init__(
        self, description: YarnDescription, seed: int = 1, *, launches: bool = True, accepts: bool | None = True,
        beats: Millis | None = 1_000,
    ) -> None:  # fmt: skip
        self.world: YarnCluster = worlds.begin(description, seed, 0)
        self.heard: list[ClusterStimulus] = []
        self.launches, self.accepts, self.beats = launches, accepts, beats
        self.now: Millis = 0
        self.serial = 0
        self.executors = 0
        self.made: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.until(0)

    def ask(self, command: ClusterCommand) -> None:
        """Ask for something now."""
        self.world = worlds.apply(self.world, command, self.now)

    def request(
        self,
        count: int,
        profile: int = 0,
        *,
        layout: Layout | None = None,
        size: Resource = SIZE,
        label: str | None = None,
    ) -> None:
        """Put requests into the table: those of a layout, and ``count`` anywhere."""
        first = self.made.get(profile, 0) + 1
        command = ym.RequestContainers(self.now, ProfileId(profile), first, layout, count, size, label, WHY)
        self.made[profile] = first - 1 + command.count
        self.open.setdefault(profile, []).extend(range(first, first + command.count))
        self.ask(command)

    def cancel(self, first: int, last: int, profile: int = 0) -> None:
        """Take requests out."""
        self.open[profile] = [one for one in self.open[profile] if not first <= one <= last]
        self.ask(ym.CancelRequests(self.now, ProfileId(profile), (Span(first, last),), WHY))

    def release(self, *containers: str) -> None:
        """Give containers back."""
        self.ask(ym.ReleaseContainers(self.now, tuple(map(ContainerId, containers)), WHY))

    def exclude(self, *added: str, removed: tuple[str, ...] = ()) -> None:
        """Say which hosts not to use."""
        self.ask(ym.UpdateExclusions(self.now, added, removed, WHY))

    def call(self) -> int:
        """Speak to the resource manager."""
        self.serial += 1
        self.ask(ym.CallResourceManager(self.now, self.serial, WHY))
        return self.serial

    def until(self, end: Millis) -> App:
        """Live on up to and including ``end``, beating."""
        while True:
            at = min(worlds.due(self.world), self.next_beat())
            if at > end or at == NEVER:
                break
            self.now = max(self.now, at)
            self.world, heard = worlds.advance(self.world, self.now)
            self.heard.extend(heard)
            for one in heard:
                self.hear(one)
            if self.beats is not None and self.now % self.beats == 0 and self.now >= self.next_beat():
                self.last = self.now
                self.call()
        self.now = max(self.now, end)
        self.world, _ = worlds.advance(self.world, self.now)
        return self

    last: Millis = 0

    def next_beat(self) -> Millis:
        return NEVER if self.beats is None else self.last + self.beats

    def hear(self, one: ClusterStimulus) -> None:
        if isinstance(one, ym.ResourcesAnswered) and self.launches:
            for container in one.allocated:
                self.use(container)
        elif isinstance(one, RegisterExecutor) and self.accepts is not None:
            self.ask(AnswerRegistration(self.now, one.executor, self.accepts, WHY))
        elif isinstance(one, ym.MasterRegistered):
            self.made, self.open = {}, {}

    def use(self, container: Container) -> ExecutorId | None:
        """Take the oldest request for it, or give it back."""
        waiting = self.open.get(container.profile)
        if not waiting:
            self.release(container.id)
            return None
        match = ym.Match(container.id, waiting.pop(0), "*")
        self.ask(ym.TakeRequests(self.now, container.profile, (match,), WHY))
        return self.launch(container)

    def launch(self, container: Container) -> ExecutorId:
        """Start the next executor in a container."""
        self.executors += 1
        executor = ExecutorId(str(self.executors))
        host, profile = container.host, container.profile
        self.ask(ym.LaunchExecutor(self.now, executor, container.id, host, profile, 1_024, 1, WHY))
        return executor

    # what was heard

    def all(self, kind: type[T]) -> list[T]:
        return [one for one in self.heard if isinstance(one, kind)]

    def given(self) -> list[Container]:
        return [one for answer in self.all(ym.ResourcesAnswered) for one in answer.allocated]

    def completed(self) -> list[Completion]:
        return [one for answer in self.all(ym.ResourcesAnswered) for one in answer.completed]

    def reports(self) -> list[NodeReport]:
        return [one for answer in self.all(ym.ResourcesAnswered) for one in answer.updated]

    def registered(self) -> list[str]:
        return [one.executor for one in self.all(RegisterExecutor)]

    def gone(self) -> list[str]:
        return [one.address for one in self.all(ExecutorDisconnected)]

    def refused(self) -> list[ym.ResourcesRefused]:
        return self.all(ym.ResourcesRefused)

    def failed_launches(self) -> list[ym.LaunchEnded]:
        return [one for one in self.all(ym.LaunchEnded) if one.failure is not None]

    def tally(self, name: str) -> int:
        return worlds.tally(self.world).get(name, 0)

    def stages(self) -> dict[ContainerStage, int]:
        """How many containers are in which stage."""
        stages: dict[ContainerStage, int] = {}
        for (_, stage), count in worlds.census(self.world).stages.items():
            stages[stage] = stages.get(stage, 0) + count
        return stages

    def story(self) -> bytes:
        """All that was heard, as bytes."""
        return "\n".join(map(repr, self.heard)).encode()


def layout(*wishes: tuple[str, str, int]) -> Layout:
    """Hosts with their racks and how many requests name them, the most wanted first; the first is in all of them."""
    hosts, racks, shares = zip(*wishes, strict=True)
    lengths: list[int] = []
    ends: list[int] = []
    for place in range(len(shares), 0, -1):
        if not ends or shares[place - 1] > ends[-1]:
            lengths.append(place)
            ends.append(shares[place - 1])
    return Layout(hosts, racks, tuple(lengths), tuple(ends))
