"""A small cluster and the YARN allocator beside it, to play a story on: the fake that the allocator's tests share.

``NegotiationPlay`` holds the allocator's state and speaks for the driver, the resource manager and the launcher. A heartbeat
is a beat and its answer; launches end at once, unless the play is told to keep them (``launching=False``). Where the
configuration says that launches are awaited, each ends before the rest of the answer is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.cluster_config import NegotiationConfig
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.containers import (
    DECOMMISSIONING,
    Completion,
    Container,
    ContainerId,
    ContainerSpec,
    NodeReport,
    Resource,
)
from podtide.domain.protocol.reasons import Threw
from podtide.domain.yarn import allocator as yarn
from podtide.domain.yarn.allocator_state import NegotiationCommand, YarnState

SPEC = ContainerSpec(Resource(2_432, 5), 2_048, 5, 5)
"""What Spark's own suite uses: five cores, 2048 MB of heap, five tasks at once."""

CONFIG = NegotiationConfig(executors_initial=0, containers=SPEC, launches_awaited=True)


C = TypeVar("C")
Group = tuple[int, tuple[str, ...] | None]
"""Equal requests: how many, and their hosts (None: anywhere)."""


@dataclass
class NegotiationPlay:
    """The allocator in a story; all that it said is in ``said`` and ``reports``."""

    config: NegotiationConfig = CONFIG
    now: Millis = 0
    launching: bool = True
    last_id: int = 0
    said: list[NegotiationCommand] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    containers: int = 0
    state: YarnState = field(init=False)

    def __post_init__(self) -> None:
        step = yarn.begin(self.config, self.now, last_id=self.last_id)
        self.state = step.state
        self.said.extend(step.commands)
        self.reports.extend(step.reports)

    def take(self, *items: ym.YarnInput) -> list[NegotiationCommand]:
        """Something comes in, and launches end; what the allocator said."""
        step = yarn.negotiate(self.state, items, self.config, self.now)
        self.state = step.state
        said = list(step.commands)
        self.said.extend(step.commands)
        self.reports.extend(step.reports)
        if self.launching:
            for command in step.commands:
                if isinstance(command, ym.LaunchExecutor):
                    said += self.take(ym.LaunchEnded(self.now, command.executor))
        return said

    # the driver

    def profiles(self, *numbers: int) -> None:
        """Profiles whose containers differ: profile n has n cores and 1000 n MiB more than the default."""
        specs = tuple(
            (
                ProfileId(number),
                ContainerSpec(Resource(2_432 + 1_000 * number, 5 + number), 2_048 + 1_000 * number, 5, 5),
            )
            for number in numbers
        )
        self.take(ym.ProfilesDefined(self.now, specs))

    def want(
        self,
        targets: int | Mapping[int, int],
        hosts: Mapping[str, int] | None = None,
        tasks: int = 0,
        excluded: Iterable[str] = (),
    ) -> bool:
        """Targets, with hints for the default profile; whether one changed."""
        by_profile = {0: targets} if isinstance(targets, int) else targets
        default = ProfileId(0)
        wanted = ym.ContainersWanted(
            self.now,
            tuple((ProfileId(profile), count) for profile, count in by_profile.items()),
            {default: tasks},
            {default: hosts or {}},
            tuple(excluded),
        )
        return only(self.take(wanted), ym.TargetsTaken)[-1].changed

    def kill(self, *executors: str) -> list[NegotiationCommand]:
        return self.take(ym.KillExecutors(self.now, tuple(map(ExecutorId, executors))))

    def ask_loss(self, *executors: str) -> list[NegotiationCommand]:
        return self.take(ym.LossReasonsAsked(self.now, tuple(map(ExecutorId, executors))))

    # the resource manager

    def on(self, host: str, profile: int = 0, memory: int | None = None) -> Container:
        """A new container; its memory is the profile's unless told otherwise."""
        self.containers += 1
        spec = self.state.specs.get(ProfileId(profile), SPEC)
        resource = spec.resource if memory is None else spec.resource._replace(memory_mib=memory)
        return Container(ContainerId(f"c{self.containers}"), host, ProfileId(profile), resource)

    def beat(self) -> list[NegotiationCommand]:
        """The reporter thread calls."""
        return self.take(ym.Beat(self.now))

    def answer(
        self,
        *allocated: Container,
        completed: Iterable[Completion] = (),
        decommissioning: Iterable[str] = (),
        nodes: int = 10,
    ) -> list[NegotiationCommand]:
        """The resource manager answers."""
        updated = tuple(NodeReport(host, DECOMMISSIONING) for host in decommissioning)
        return self.take(
            ym.ResourcesAnswered(self.now, self.state.serial, allocated, tuple(completed), updated, nodes)
        )  # fmt: skip

    def refuse(self, what: str = "org.apache.hadoop.yarn.exceptions.YarnException: no") -> list[NegotiationCommand]:
        return self.take(ym.ResourcesRefused(self.now, self.state.serial, what))

    def heartbeat(self, *hosts: str | Container, completed: Iterable[Completion] = ()) -> list[NegotiationCommand]:
        """A beat, and an answer with containers on these hosts."""
        said = self.beat()
        given = [self.on(one) if isinstance(one, str) else one for one in hosts]
        return said + self.answer(*given, completed=completed)

    def handle(self, *allocated: Container, completed: Iterable[Completion] = ()) -> list[NegotiationCommand]:
        """The two handlers alone, without a heartbeat."""
        return self.take(ym.ContainersGiven(self.now, allocated, tuple(completed)))

    def launched(self, executor: str, failure: str | None = None, *, fatal: bool = False) -> list[NegotiationCommand]:
        return self.take(ym.LaunchEnded(self.now, ExecutorId(executor), failure, fatal))

    # what there is

    def pending(self, profile: int = 0) -> int:
        table = self.state.rows.requests.get(ProfileId(profile))
        return 0 if table is None else table.waiting

    def running(self, profile: int = 0) -> list[str]:
        return sorted(self.state.rows.running_by_profile().get(ProfileId(profile), ()), key=int)

    def starting(self, profile: int = 0) -> int:
        return self.state.rows.starting.get(ProfileId(profile), 0)

    def hosts(self, profile: int = 0) -> dict[str, list[str]]:
        """Containers by host."""
        there: Mapping[str, Iterable[str]] = self.state.rows.containers_by_host().get(ProfileId(profile), {})
        return {host: sorted(containers) for host, containers in sorted(there.items())}

    @property
    def failed(self) -> int:
        return self.state.health.failures_at(self.config.exclusion, self.now)

    @property
    def excluded(self) -> list[str]:
        return sorted(self.state.health.sent)

    @property
    def threw(self) -> list[str]:
        return [report.what for report in self.reports if isinstance(report, Threw)]


def ready(*hosts: str, target: int | None = None, config: NegotiationConfig = CONFIG) -> NegotiationPlay:
    """Executors run in containers on these hosts; the target is met, or what it is said to be."""
    play = NegotiationPlay(config)
    play.want(len(hosts) if target is None else target)
    play.heartbeat(*hosts)
    return play


def only(said: Iterable[NegotiationCommand], kind: type[C] | Callable[..., C]) -> list[C]:
    """The commands of one kind."""
    return [command for command in said if isinstance(command, kind)]  # type: ignore[arg-type]


def ended(*containers: str, status: int = 1, diagnostics: str = "") -> tuple[Completion, ...]:
    """Containers are over."""
    return tuple(Completion(ContainerId(container), status, diagnostics) for container in containers)


def requested(said: Iterable[NegotiationCommand]) -> list[Group]:
    """What was asked for: localized requests by their hosts, then those without."""
    groups: list[Group] = []
    for command in only(said, ym.RequestContainers):
        if command.layout is not None:
            groups += [(count, hosts) for count, hosts, _ in command.layout.groups()]
        if command.anywhere:
            groups.append((command.anywhere, None))
    return groups


def cancelled(said: Iterable[NegotiationCommand]) -> list[int]:
    """The numbers of the requests that were cancelled, in that order."""
    spans = (span for command in only(said, ym.CancelRequests) for span in command.spans)
    return [number for span in spans for number in range(span.first, span.last + 1)]


def matched(said: Iterable[NegotiationCommand]) -> list[tuple[str, int, str]]:
    """Which container took which request, and where it was listed."""
    return [tuple(match) for command in only(said, ym.TakeRequests) for match in command.matches]  # type: ignore[misc]


def launched(said: Iterable[NegotiationCommand]) -> list[tuple[str, str]]:
    """Executors and their containers."""
    return [(command.executor, command.container) for command in only(said, ym.LaunchExecutor)]


def released(said: Iterable[NegotiationCommand]) -> list[str]:
    return [container for command in only(said, ym.ReleaseContainers) for container in command.containers]


def told(said: Iterable[NegotiationCommand]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What the resource manager was told of nodes: those not to use any more, and those to use again."""
    return [(command.added, command.removed) for command in only(said, ym.UpdateExclusions)]
