"""The YARN allocator under whatever may happen: driver, resource manager and launcher played by hypothesis.

Beside the allocator a model keeps what its commands say: the AM client's table as single numbers, the launches under way,
the containers that were given back or that ended. After every step the allocator's books must agree with it and with each
other. Every step is decided twice, and again at the end, from the older state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.cluster_config import ExclusionConfig, NegotiationConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.containers import Completion, Container, ContainerId, ContainerSpec, NodeReport, Resource
from podtide.domain.protocol.executor_commands import RemoveExecutor
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.yarn_messages import (
    Beat,
    CallResourceManager,
    CancelRequests,
    ContainersGiven,
    ContainersWanted,
    KillExecutors,
    LaunchEnded,
    LaunchExecutor,
    LossReasonsAsked,
    MasterEnding,
    ProfilesDefined,
    ReleaseContainers,
    RequestContainers,
    ResourcesAnswered,
    ResourcesRefused,
    TakeRequests,
    TargetsTaken,
    TellLossReason,
    UpdateExclusions,
    YarnInput,
)
from podtide.domain.yarn import allocator as yarn
from podtide.domain.yarn.allocator_state import NegotiationCommand, YarnState

HOSTS = ("h1", "h2", "h3", "h4")
RACKS = {"h1": "/a", "h2": "/a", "h3": "/b"}
PROFILES = (0, 1, 2)
UNKNOWN_PROFILE = 9
STATUSES = (0, 1, 137, -1, -100, -102, -103, -104, -108)

hosts = st.sampled_from(HOSTS)
counts = st.dictionaries(st.sampled_from(PROFILES), st.integers(0, 9), min_size=1, max_size=3)
tasks_by_profile = st.fixed_dictionaries({profile: st.integers(0, 20) for profile in PROFILES})
hints: st.SearchStrategy[dict[int, dict[str, int]]] = st.just({}) | st.dictionaries(
    st.sampled_from(PROFILES), st.dictionaries(hosts, st.integers(0, 8), min_size=1, max_size=3), min_size=2
)
places = st.lists(st.integers(0, 30), max_size=4)


@dataclass
class Heard:
    """What the commands say, kept as plainly as possible."""

    requests: dict[ProfileId, set[int]] = field(default_factory=dict)
    ever_requested: Counter[ProfileId] = field(default_factory=Counter)
    launches: dict[ExecutorId, ContainerId] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    given_back: set[ContainerId] = field(default_factory=set)
    excluded: set[str] = field(default_factory=set)
    removed: set[ExecutorId] = field(default_factory=set)

    def hear(self, command: NegotiationCommand) -> None:
        match command:
            case RequestContainers():
                assert command.first == self.ever_requested[command.profile] + 1
                assert command.count > 0
                self.ever_requested[command.profile] += command.count
                numbers = range(command.first, command.first + command.count)
                self.requests.setdefault(command.profile, set()).update(numbers)
            case CancelRequests():
                for span in command.spans:
                    self._gone(command.profile, *range(span.first, span.last + 1))
            case TakeRequests():
                self._gone(command.profile, *(match.request for match in command.matches))
            case LaunchExecutor():
                self.ids.append(int(command.executor))
                assert command.executor not in self.launches
                assert command.container not in self.launches.values()
                self.launches[command.executor] = command.container
            case ReleaseContainers():
                assert len(set(command.containers)) == len(command.containers)
                assert not self.given_back.intersection(command.containers)
                self.given_back.update(command.containers)
            case UpdateExclusions():
                assert not self.excluded.intersection(command.added)
                assert self.excluded.issuperset(command.removed)
                self.excluded = self.excluded - set(command.removed) | set(command.added)
            case RemoveExecutor():
                assert command.executor not in self.removed
                assert command.executor in self.launches
                self.removed.add(command.executor)
            case _:
                pass

    def _gone(self, profile: ProfileId, *numbers: int) -> None:
        waiting = self.requests[profile]
        assert len(set(numbers)) == len(numbers)
        assert waiting.issuperset(numbers)
        waiting.difference_update(numbers)


def spec_of(profile: int) -> ContainerSpec:
    return ContainerSpec(Resource(1_000 + 100 * profile, 1), 800, 1, 1 + profile)


class Negotiations(RuleBasedStateMachine):
    """One application's life."""

    @initialize(
        initial=st.integers(0, 3),
        awaited=st.booleans(),
        exclusion=st.sampled_from(
            [
                ExclusionConfig(),
                ExclusionConfig(frozenset({"h4"}), enabled=True, failures_per_node_max=0, timeout_ms=50),
            ]
        ),
        decommission=st.booleans(),
        last_id=st.integers(0, 5),
    )
    def start(self, initial: int, awaited: bool, exclusion: ExclusionConfig, decommission: bool, last_id: int) -> None:
        self.config = NegotiationConfig(
            executors_initial=initial,
            containers=spec_of(0),
            exclusion=exclusion,
            decommission=decommission,
            racks=RACKS,
            launches_awaited=awaited,
            remarks=True,
        )
        self.now: Millis = 0
        self.heard = Heard()
        self.kept: list[tuple[YarnState, tuple[YarnInput, ...], Millis, Step[YarnState, NegotiationCommand]]] = []
        self.containers = 0
        self.all: list[ContainerId] = []
        self.ended: set[ContainerId] = set()
        self.failed_launches: set[ContainerId] = set()
        self.asked: Counter[ExecutorId] = Counter()
        self.told: Counter[ExecutorId] = Counter()
        self.taken = 0
        self.wanted = 0
        first = yarn.begin(self.config, 0, last_id=last_id)
        assert first == yarn.begin(self.config, 0, last_id=last_id)
        self.state = first.state
        for command in first.commands:
            self.heard.hear(command)
        specs = tuple((ProfileId(profile), spec_of(profile)) for profile in PROFILES)
        self.take(ProfilesDefined(0, specs))

    # ------------------------------------------------------------------------------------------------ one step

    def take(self, *items: YarnInput) -> None:
        before = self.state
        step = yarn.negotiate(before, items, self.config, self.now)
        self.kept.append((before, items, self.now, step))
        assert yarn.negotiate(before, items, self.config, self.now) == step
        self.state = step.state
        for command in step.commands:
            self.heard.hear(command)
            if isinstance(command, TargetsTaken):
                self.taken += 1
            elif isinstance(command, TellLossReason):
                self.told[command.executor] += 1
        if step.commands and isinstance(step.commands[-1], CallResourceManager):
            self.nothing_too_much_is_asked_for(step)

    def nothing_too_much_is_asked_for(self, step: Step[YarnState, NegotiationCommand]) -> None:
        """As a heartbeat begins, what waits, starts and runs is the target, or what starts and runs alone."""
        state = step.state
        for profile, target in state.targets.items():
            alive = len(state.rows.running_by_profile()[profile]) + state.rows.starting[profile]
            assert state.rows.requests[profile].waiting == max(0, target - alive)
        for command in step.commands:
            if isinstance(command, RequestContainers):
                assert command.why.cause is Cause.BELOW_TARGET
                assert command.why.facts["missing"] > 0  # type: ignore[operator]

    def container(self, host: str, profile: int, memory: int) -> Container:
        self.containers += 1
        container = ContainerId(f"c{self.containers}")
        self.all.append(container)
        resource = Resource(1_000 + 100 * profile + memory, 1)
        return Container(container, host, ProfileId(profile), resource)

    def known(self, chosen: list[int]) -> list[ContainerId]:
        """Some containers: by even numbers those of executors, by odd ones any that there ever were."""
        alive = sorted(self.state.rows.executor_of) or self.all
        pools = [self.all if place % 2 else alive for place in chosen]
        return [pool[place // 2 % len(pool)] for pool, place in zip(pools, chosen, strict=True) if pool]

    def executors(self, chosen: list[int]) -> tuple[ExecutorId, ...]:
        """Some executors, in the same way."""
        alive = sorted(self.state.rows.container_of) or [ExecutorId("1")]
        return tuple(ExecutorId(str(place)) if place % 2 else alive[place // 2 % len(alive)] for place in chosen)

    # ------------------------------------------------------------------------------------------------- the driver

    @rule(wanted=counts | st.just({}), tasks=tasks_by_profile, wished=hints, excluded=st.frozensets(hosts, max_size=2))
    def want(
        self,
        wanted: dict[int, int],
        tasks: dict[int, int],
        wished: dict[int, dict[str, int]],
        excluded: frozenset[str],
    ) -> None:
        self.wanted += 1
        self.take(
            ContainersWanted(
                self.now,
                tuple((ProfileId(profile), count) for profile, count in wanted.items()),
                {ProfileId(profile): count for profile, count in tasks.items()},
                {ProfileId(profile): there for profile, there in wished.items()},
                tuple(excluded),
                self.wanted,
            )
        )

    @rule(chosen=places)
    def kill(self, chosen: list[int]) -> None:
        self.take(KillExecutors(self.now, self.executors(chosen)))

    @rule(chosen=places)
    def ask_why(self, chosen: list[int]) -> None:
        executors = self.executors(chosen)
        self.asked.update(executors)
        self.take(LossReasonsAsked(self.now, executors))

    # --------------------------------------------------------------------------------------- the resource manager

    @rule()
    def beat(self) -> None:
        self.take(Beat(self.now))

    @precondition(lambda self: self.state.waiting is not None)
    @rule(
        given=st.lists(st.tuples(hosts, st.sampled_from(PROFILES), st.sampled_from([0, 0, 0, 500])), max_size=6),
        ending=places,
        status=st.sampled_from(STATUSES),
        going=st.lists(hosts, max_size=2),
        nodes=st.integers(0, 4),
    )
    def answer(
        self, given: list[tuple[str, int, int]], ending: list[int], status: int, going: list[str], nodes: int
    ) -> None:
        self._answer(given, ending, status, going, nodes)

    @precondition(lambda self: self.state.waiting is not None)
    @rule(
        given=st.lists(
            st.tuples(hosts, st.sampled_from([*PROFILES, UNKNOWN_PROFILE]), st.sampled_from([0, -1])), max_size=4
        ),
        ending=places,
    )
    def answer_badly(self, given: list[tuple[str, int, int]], ending: list[int]) -> None:
        """Containers that are too small, or of no profile: what stands behind them in the answer is lost."""
        self._answer(given, ending, 1, [], 4)

    def _answer(
        self, given: list[tuple[str, int, int]], ending: list[int], status: int, going: list[str], nodes: int
    ) -> None:
        assert self.state.waiting is not None
        completed = [Completion(one, status, "told") for one in self.known(ending)]
        self.ended.update(one.container for one in completed)
        self.take(
            ResourcesAnswered(
                self.now,
                self.state.waiting,
                tuple(self.container(*one) for one in given),
                (*completed, Completion(ContainerId("nobody's"), status)),
                tuple(NodeReport(host, "DECOMMISSIONING") for host in going),
                nodes,
            )
        )

    @rule(most=st.integers(1, 9), where=st.lists(hosts, min_size=1, max_size=4), ending=places)
    def heartbeat(self, most: int, where: list[str], ending: list[int]) -> None:
        """What mostly happens: a beat, containers for what waits, and launches that end well."""
        if self.state.rest is not None:
            return
        if self.state.waiting is None:
            self.beat()
        wanted = [int(profile) for profile, table in sorted(self.state.rows.requests.items()) for _ in table.numbers()][
            :most
        ]
        given = [(where[number % len(where)], profile, 0) for number, profile in enumerate(wanted)]
        self._answer(given, ending, 1, [], 4)
        while self.state.rows.launches and self.state.waiting is None:
            self.take(LaunchEnded(self.now, min(self.state.rows.launches, key=int)))

    @precondition(lambda self: self.state.waiting is not None)
    @rule(fatal=st.booleans())
    def refuse(self, fatal: bool) -> None:
        assert self.state.waiting is not None
        self.take(ResourcesRefused(self.now, self.state.waiting, "java.io.IOException: no", fatal))

    @rule(given=st.lists(st.tuples(hosts, st.sampled_from(PROFILES), st.just(0)), max_size=3), ending=places)
    def hand_over(self, given: list[tuple[str, int, int]], ending: list[int]) -> None:
        """Containers without a heartbeat before them."""
        completed = tuple(Completion(one, 1) for one in self.known(ending))
        self.ended.update(one.container for one in completed)
        self.take(ContainersGiven(self.now, tuple(self.container(*one) for one in given), completed))

    # ----------------------------------------------------------------------------------------------- the launcher

    @precondition(lambda self: self.state.rows.launches)
    @rule(
        place=st.integers(0, 10),
        failure=st.sampled_from([None, None, None, "java.io.IOException: no"]),
        fatal=st.booleans(),
    )
    def end_launch(self, place: int, failure: str | None, fatal: bool) -> None:
        executors = sorted(self.state.rows.launches, key=int)
        executor = executors[place % len(executors)]
        if failure is not None:
            self.failed_launches.add(self.state.rows.launches[executor].container)
        self.take(LaunchEnded(self.now, executor, failure, fatal and failure is not None))

    # ------------------------------------------------------------------------------------------------------ time

    @rule(later=st.integers(0, 60))
    def pass_time(self, later: int) -> None:
        self.now += later

    @rule(serial=st.integers(-1, 2), executor=st.integers(100, 102))
    def stray(self, serial: int, executor: int) -> None:
        """What belongs to nothing is not heard."""
        if serial == self.state.waiting:
            return
        before = self.state
        for item in (
            ResourcesAnswered(
                self.now, serial, (Container(ContainerId("stray"), "h1", ProfileId(0), Resource(9_999, 9)),)
            ),
            ResourcesRefused(self.now, serial, "no"),
        ):
            assert yarn.negotiate(before, (item,), self.config, self.now) == Step(before, (), ())
        self.take(LaunchEnded(self.now, ExecutorId(str(executor))))

    @rule()
    def end(self) -> None:
        self.take(MasterEnding(self.now))

    # ------------------------------------------------------------------------------------------------ what must be

    @invariant()
    def the_books_agree(self) -> None:
        state = self.state
        assert set(state.rows.host_of) == set(state.rows.executor_of)
        assert {container: executor for executor, container in state.rows.container_of.items()} == {
            container: executor for container, (executor, _) in state.rows.executor_of.items()
        }
        for profile, there in state.rows.containers_by_host().items():
            flat = {container: host for host, containers in there.items() for container in containers}
            assert all(containers for containers in there.values())
            assert flat == {
                container: host
                for container, host in state.rows.host_of.items()
                if state.rows.executor_of[container][1] == profile
            }
        for profile, running in state.rows.running_by_profile().items():
            assert set(running) == {
                executor
                for container, (executor, owner) in state.rows.executor_of.items()
                if owner == profile and container not in state.rows.released
            }
        starting = Counter(launch.profile for launch in state.rows.launches.values())
        assert {profile: count for profile, count in state.rows.starting.items() if count} == dict(starting)
        assert set(state.rows.launching) <= {launch.container for launch in state.rows.launches.values()}

    @invariant()
    def the_table_is_the_clients(self) -> None:
        for profile, table in self.state.rows.requests.items():
            numbers = list(table.numbers())
            assert set(numbers) == self.heard.requests.get(profile, set())
            assert numbers == sorted(numbers)
            assert (table.waiting, table.made) == (len(numbers), self.heard.ever_requested[profile])

    @invariant()
    def a_container_is_in_one_place(self) -> None:
        state = self.state
        starting = set(state.rows.launching)
        alive = {container for container in state.rows.executor_of if container not in state.rows.released}
        back = set(state.rows.released)
        waiting = set() if state.rest is None else {container.id for container in state.rest.containers}
        assert sum(map(len, (starting, alive, back, waiting))) == len(starting | alive | back | waiting)
        assert back <= self.heard.given_back
        over = self.ended | self.failed_launches
        assert set(self.heard.launches.values()) - over <= starting | alive | back
        assert self.heard.given_back - over <= back

    @invariant()
    def ids_are_new(self) -> None:
        ids = self.heard.ids
        assert ids == sorted(set(ids))
        assert not ids or ids[-1] <= self.state.last_id

    @invariant()
    def one_launch_at_a_time_is_awaited(self) -> None:
        if self.state.rest is not None:
            assert len(self.state.rows.launches) == 1
        elif self.config.launches_awaited:
            assert not self.state.rows.launches

    @invariant()
    def who_asks_is_told(self) -> None:
        """Once at most, later if the executor lives; targets are answered in any case."""
        assert all(self.told[executor] <= self.asked[executor] for executor in self.told)
        later = sum(isinstance(item, ContainersWanted) for item in self.state.later)
        assert self.taken + later == self.wanted
        if not self.state.later:
            open_questions = Counter(dict(self.state.rows.loss_asked))
            assert self.told + open_questions == +self.asked

    @invariant()
    def exclusions_are_what_was_told(self) -> None:
        assert self.heard.excluded == self.state.health.sent

    def teardown(self) -> None:
        """Older states answer as before, in any order."""
        for before, items, now, step in reversed(getattr(self, "kept", [])):
            assert yarn.negotiate(before, items, self.config, now) == step


TestNegotiations = Negotiations.TestCase
TestNegotiations.settings = settings(stateful_step_count=30)
