"""Whatever happens to the scheduler backend: its news are its state, everybody is answered, nothing is deleted early."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, strategies as st

from podtide.domain.backend import scheduler_backend as backend
from podtide.domain.backend.state import BackendPhase, BackendState
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.backend_messages import (
    ActiveChanged,
    BackendCommand,
    BackendInput,
    Decommissioned,
    Excluded,
    HeartbeatTimedOut,
    Killed,
    KnownChanged,
    LossReported,
    Requested,
    RequestMore,
    RequestTotals,
    StartAllocator,
    StopAllocator,
    TargetsForwarded,
)
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.executor_commands import ExitReason, RemoveExecutor
from podtide.domain.protocol.executor_stimuli import (
    DecommissionExecutorsOnHost,
    DecommissionRequested,
    ExecutorBusy,
    ExecutorDisconnected,
    ExecutorExiting,
    KillExecutorsOnHost,
    KillRequested,
    RegisterExecutor,
    Starting,
    Stopping,
    Wake,
)
from podtide.domain.protocol.pod_commands import CreateConfigMap, DeletePods
from podtide.domain.protocol.pod_stimuli import CallFailure, GenerateExecutorId, Outcome

IDS = st.sampled_from([ExecutorId(e) for e in ("1", "2", "3", "4", "x")])
SOME = st.lists(IDS, max_size=4).map(tuple)
ADDRESSES = st.sampled_from(["", "a:1", "b:1"])
PROFILES = st.sampled_from([ProfileId(0), ProfileId(1)])
COUNTS = st.integers(-1, 5)
REASONS = st.sampled_from(
    [ExitReason("ExecutorExited", "gone", 1, True), ExitReason("ExecutorExited", "OOM", 137, True)]
)

ANSWERED = KillRequested | DecommissionRequested | RequestTotals | RequestMore


FLAG = st.booleans()
NOW = st.just(0)
ASKS = st.just(0)
TARGETS = st.lists(st.tuples(PROFILES, COUNTS), max_size=2).map(tuple)
INPUTS: st.SearchStrategy[BackendInput] = st.one_of(
    st.builds(RegisterExecutor, NOW, IDS, PROFILES, st.just("h"), ADDRESSES),
    st.builds(KillRequested, NOW, SOME, FLAG, FLAG, FLAG, ASKS),
    st.builds(DecommissionRequested, NOW, SOME, st.just("bye"), st.none(), FLAG, FLAG, ASKS),
    st.builds(LossReported, NOW, IDS, REASONS),
    st.builds(ExecutorDisconnected, NOW, ADDRESSES),
    st.builds(ExecutorExiting, NOW, IDS, st.just("Finished decommissioning")),
    st.builds(HeartbeatTimedOut, NOW, IDS, st.just(180_000), st.just(120_000)),
    st.builds(KillExecutorsOnHost, NOW, st.just("h")),
    st.builds(DecommissionExecutorsOnHost, NOW, st.just("h")),
    st.builds(GenerateExecutorId, NOW, st.just("pod"), ADDRESSES),
    st.builds(ExecutorBusy, NOW, SOME, FLAG),
    st.builds(Excluded, NOW, SOME, SOME),
    st.builds(RequestTotals, NOW, TARGETS, ASKS),
    st.builds(RequestMore, NOW, COUNTS, ASKS),
    st.sampled_from([Wake(0), Starting(0), Stopping(0)]),
)


def _timed(gaps: list[tuple[Millis, BackendInput]]) -> list[tuple[Millis, BackendInput]]:
    """Inputs with their times; the serial of a question is its place."""
    now, story = 0, []
    for serial, (gap, item) in enumerate(gaps):
        now += gap
        timed = item._replace(at=now)
        story.append((now, timed._replace(serial=serial) if isinstance(timed, ANSWERED) else timed))
    return story


STORIES = st.lists(st.tuples(st.sampled_from([0, 0, 1, 999, 5_000, 40_000]), INPUTS), max_size=20).map(_timed)


CONFIGS = st.builds(
    BackendConfig,
    allocator=st.sampled_from(["direct", "statefulset", "deployment"]),
    grace_ms=st.sampled_from([0, 5_000, 60_000]),
    decommission_label=st.sampled_from([None, "decom"]),
    deletion_cost=st.sampled_from([None, 7]),
    unknown_decommissions_max=st.sampled_from([0, 1, 25]),
    force_kill_timeout_ms=st.sampled_from([None, 1_000]),
    delete_on_termination=st.booleans(),
    config_map=st.booleans(),
    remarks=st.booleans(),
)
AWAITED = (StartAllocator, StopAllocator, CreateConfigMap)


class World:
    """Plays a story: answers every call that is waited for, at once, as the story's luck will have it."""

    def __init__(self, config: BackendConfig, luck: list[bool]) -> None:
        self.config, self.luck = config, luck
        self.state: BackendState = backend.begin(config, 0)
        self.said: list[tuple[Millis, BackendCommand]] = []

    def hear(self, now: Millis, *items: BackendInput) -> None:
        step = backend.manage(self.state, items, self.config, now)
        self.state = step.state
        for command in step.commands:
            self.said.append((now, command))
            if isinstance(command, AWAITED) or (isinstance(command, TargetsForwarded) and command.awaited):
                lucky = self.luck.pop() if self.luck else True
                self.hear(now, Outcome(now, command.serial, None if lucky else CallFailure(500, "oops")))

    def play(self, story: list[tuple[Millis, BackendInput]]) -> None:
        for now, item in story:
            while (due := backend.due(self.state, self.config)) < now:
                self.hear(due, Wake(due))
            self.hear(now, item)


@given(story=STORIES, config=CONFIGS, luck=st.lists(st.booleans(), max_size=10))
def test_what_it_says_is_what_it_knows(
    story: list[tuple[Millis, BackendInput]], config: BackendConfig, luck: list[bool]
) -> None:
    world = World(config, luck)
    active: set[ExecutorId] = set()
    known: set[ExecutorId] = set()
    for moment in story:
        world.play([moment])
        for _, command in world.said:
            if isinstance(command, ActiveChanged):
                assert active.isdisjoint(command.active)
                assert active.issuperset(command.inactive)
                active = (active | set(command.active)) - set(command.inactive)
            elif isinstance(command, KnownChanged):
                assert known.issuperset(command.removed)
                known = (known | {executor for executor, _, _ in command.added}) - set(command.removed)
        world.said.clear()
        registry = world.state.registry
        assert known == set(registry.executors)
        assert active == {executor for executor in known if world.state.is_active(executor)}
        for book in (registry.killed, registry.lost, registry.leaving):
            assert known.issuperset(book)
        assert known.issuperset(registry.addresses.values())


@given(story=STORIES, config=CONFIGS, luck=st.lists(st.booleans(), max_size=10))
def test_everybody_is_answered_once(
    story: list[tuple[Millis, BackendInput]], config: BackendConfig, luck: list[bool]
) -> None:
    world = World(config, luck)
    world.play(story)
    asked = Counter(item.serial for _, item in story if isinstance(item, ANSWERED))
    answers = Counter(c.serial for _, c in world.said if isinstance(c, Killed | Decommissioned | Requested))
    assert answers == asked
    assert world.state.waiting is None
    assert not world.state.later


@given(story=STORIES, config=CONFIGS, luck=st.lists(st.booleans(), max_size=10))
def test_nothing_is_deleted_before_its_grace_period_is_over(
    story: list[tuple[Millis, BackendInput]], config: BackendConfig, luck: list[bool]
) -> None:
    world = World(config, luck)
    world.play(story)
    told: list[tuple[Millis, ExecutorId]] = [(at, c.executor) for at, c in world.said if isinstance(c, RemoveExecutor)]
    for at, command in world.said:
        if isinstance(command, DeletePods):
            for executor in command.executors or ():
                assert (at - config.grace_ms, executor) in told


@given(story=STORIES, config=CONFIGS)
def test_timers_come_to_an_end(story: list[tuple[Millis, BackendInput]], config: BackendConfig) -> None:
    world = World(config, [])
    world.play(story)
    for _ in range(2 * len(story) + 2):
        due = backend.due(world.state, config)
        if due == NEVER:
            break
        world.hear(due, Wake(due))
        assert backend.due(world.state, config) >= due
    assert backend.due(world.state, config) == NEVER
    assert not world.state.graces
    if any(isinstance(item, Stopping) for _, item in story):
        assert world.state.phase is BackendPhase.STOPPED


@given(story=STORIES, config=CONFIGS, cut=st.integers(0, 25))
def test_a_fork_changes_nothing(story: list[tuple[Millis, BackendInput]], config: BackendConfig, cut: int) -> None:
    world = World(config, [])
    world.play(story[:cut])
    before = world.state
    first = World(config, [])
    first.state = before
    first.play(story[cut:])
    again = World(config, [])
    again.state = before
    again.play(story[cut:])
    assert first.said == again.said
    assert first.state == again.state


@given(story=STORIES, config=CONFIGS)
def test_a_batch_is_its_inputs_one_by_one(story: list[tuple[Millis, BackendInput]], config: BackendConfig) -> None:
    items = [item for _, item in story]
    one_by_one = backend.begin(config, 0)
    commands: list[BackendCommand] = []
    for item in items:
        step = backend.manage(one_by_one, (item,), config, 100_000)
        one_by_one = step.state
        commands.extend(step.commands)
    batch = backend.manage(backend.begin(config, 0), items, config, 100_000)
    assert batch.state == one_by_one
    assert list(batch.commands) == commands


@given(story=STORIES, config=CONFIGS, luck=st.lists(st.booleans(), max_size=10))
def test_remarks_change_nothing_else(
    story: list[tuple[Millis, BackendInput]], config: BackendConfig, luck: list[bool]
) -> None:
    said = []
    for remarks in (False, True):
        world = World(replace(config, remarks=remarks), list(luck))
        world.play(story)
        said.append(world.said)
    assert said[0] == said[1]
