"""Whatever happens to an application on YARN: nothing raises, one round at a time, everybody is answered in the end."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from podtide.domain import engine
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol import yarn_messages
from podtide.domain.protocol.application import Command, EngineConfig
from podtide.domain.protocol.cluster_config import (
    BackendConfig,
    ExclusionConfig,
    NegotiationConfig,
    ReporterConfig,
    YarnConfig,
)
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.containers import Completion, Container, ContainerId, Resource
from podtide.domain.protocol.executor_stimuli import (
    DecommissionRequested,
    ExecutorDisconnected,
    ExecutorExiting,
    KillExecutorsOnHost,
    KillRequested,
    RegisterExecutor,
    Starting,
    Stopping,
    TargetsSet,
    Wake,
)
from podtide.domain.protocol.stimuli import TasksMoved
from podtide.domain.yarn.reporter import ReporterStage
from tests.properties.pod_happenings import POD_STIMULI, YARN_STIMULI, anything_once

ids = st.integers(1, 6).map(lambda number: ExecutorId(str(number)))
profiles = st.sampled_from([ProfileId(0), ProfileId(0), ProfileId(1)])
hosts = st.sampled_from(["h1", "h2", "h3"])
containers = st.builds(
    Container, st.integers(1, 9).map(lambda number: ContainerId(f"c{number}")), hosts, profiles,
    st.sampled_from([Resource(1_408, 1), Resource(4_096, 2), Resource(1, 1)]),
)  # fmt: skip
completions = st.builds(
    Completion,
    st.integers(1, 9).map(lambda number: ContainerId(f"c{number}")),
    st.sampled_from([0, 1, 143, -100, -102]),
)
serials = st.integers(1, 4)
likely: st.SearchStrategy[Any] = st.one_of(
    st.builds(yarn_messages.MasterRegistered, st.just(0)),
    st.builds(
        yarn_messages.ResourcesAnswered, st.just(0), serials, st.lists(containers, max_size=3).map(tuple),
        st.lists(completions, max_size=2).map(tuple), nodes=st.sampled_from([0, 3, 10]),
    ),
    st.builds(yarn_messages.ResourcesRefused, st.just(0), serials, st.just("java.io.IOException: x"), st.booleans()),
    st.builds(yarn_messages.LaunchEnded, st.just(0), ids, st.sampled_from([None, None, "java.io.IOException: x"])),
    st.builds(RegisterExecutor, st.just(0), ids, profiles, hosts, ids.map(lambda one: f"a{one}")),
    st.builds(ExecutorDisconnected, st.just(0), ids.map(lambda one: f"a{one}")),
    st.builds(ExecutorExiting, st.just(0), ids, st.just("Finished decommissioning")),
    st.builds(KillExecutorsOnHost, st.just(0), st.sampled_from(["h1", "h2"])),
    st.builds(KillRequested, st.just(0), st.lists(ids, max_size=3).map(tuple), st.booleans(), st.booleans(), st.booleans()),
    st.builds(DecommissionRequested, st.just(0), st.lists(ids, max_size=2).map(tuple), adjust_target=st.booleans()),
    st.builds(TargetsSet, st.just(0), st.lists(st.tuples(profiles, st.integers(-1, 5)), max_size=2).map(tuple)),
    st.builds(Wake, st.just(0)),
)  # fmt: skip
strange: st.SearchStrategy[Any] = st.one_of(
    [
        anything_once(kind)
        for kind in (*POD_STIMULI, *YARN_STIMULI)
        if kind.__name__ not in ("KnownExecutors", "CreationFailed")
    ]
)
happenings = st.lists(st.one_of(likely, likely, likely, strange), max_size=14)
configs = st.builds(
    lambda dynamic, awaited, enabled, heartbeat, decommission: EngineConfig(
        ScalingConfig(executors_initial=2, shuffle_tracking=False),
        dynamic=dynamic,
        yarn=YarnConfig(
            NegotiationConfig(
                failures_max=4, launches_awaited=awaited, decommission=decommission, remarks=True,
                exclusion=ExclusionConfig(enabled=enabled, failures_per_node_max=0),
            ),
            ReporterConfig(heartbeat, min(heartbeat, 200), remarks=True),
            BackendConfig(force_kill_timeout_ms=1_000, unknown_decommissions_max=3, remarks=True),
        ),
    ),
    st.booleans(), st.booleans(), st.booleans(), st.sampled_from([0, 100, 3_000]), st.booleans(),
)  # fmt: skip


def run(config: EngineConfig, items: list[Any], gaps: list[int]) -> tuple[engine.EngineState, list[Command], Millis]:
    step = engine.launch(config, 0)
    state, said, now = step.state, list(step.commands), 0
    for item, gap in zip(items, gaps, strict=False):
        now += gap
        before = state
        step = engine.advance(before, (item._replace(at=now),), config, now)
        again = engine.advance(before, (item._replace(at=now),), config, now)
        assert (step.state.yarn, step.commands, step.reports) == (again.state.yarn, again.commands, again.reports)
        state = step.state
        said += step.commands
    return state, said, now


gap_lists = st.lists(st.sampled_from([0, 0, 1, 200, 3_000, 130_000]), min_size=14, max_size=14)


@given(configs, happenings, gap_lists)
def test_nothing_raises_and_the_books_agree(config: EngineConfig, items: list[Any], gaps: list[int]) -> None:
    state, said, _ = run(config, items, gaps)
    side = state.yarn
    assert side is not None
    backend = side.backend
    by_host = {one for executors in backend.registry.by_host.values() for one in executors}
    assert by_host == set(backend.registry.executors)
    assert {host for host, executors in backend.registry.by_host.items() if not executors} == set()
    assert not any(isinstance(one, yarn_messages.Beat) for one in said)
    serials_called = [one.serial for one in said if isinstance(one, yarn_messages.CallResourceManager)]
    assert serials_called == sorted(set(serials_called)), "no serial twice, whoever is the master"
    ends = [place for place, one in enumerate(said) if isinstance(one, yarn_messages.EndApplication)]
    masters = sum(isinstance(item, yarn_messages.MasterRegistered) for item in items)
    assert len(ends) <= masters
    if side.reporter.stage is ReporterStage.BEATING:
        assert side.allocator.waiting is not None or side.allocator.rest is not None or side.held


@given(configs, happenings, gap_lists)
def test_everybody_is_answered_when_the_resource_manager_is(
    config: EngineConfig, items: list[Any], gaps: list[int]
) -> None:
    state, _, now = run(config, items, gaps)
    for _ in range(200):
        side = state.yarn
        assert side is not None
        if side.allocator.rest is not None:
            executor = next(iter(side.allocator.rows.launches))
            state = engine.advance(state, (yarn_messages.LaunchEnded(now, executor),), config, now).state
        elif side.allocator.waiting is not None and (side.held or side.backend.asks):
            answer = yarn_messages.ResourcesAnswered(now, side.allocator.waiting, nodes=10)
            state = engine.advance(state, (answer,), config, now).state
        else:
            break
    side = state.yarn
    assert side is not None
    assert not side.held
    assert not side.backend.asks
    if config.dynamic:
        assert state.scaling.awaiting is None


@given(configs, happenings)
def test_many_at_once_are_as_one_by_one(config: EngineConfig, items: list[Any]) -> None:
    timed = [item._replace(at=5) for item in items if not isinstance(item, TasksMoved)]
    begun = engine.launch(config, 0).state
    batch = engine.advance(begun, timed, config, 5)
    state = begun
    commands: list[Command] = []
    for item in timed:
        step = engine.advance(state, (item,), config, 5)
        state, commands = step.state, [*commands, *step.commands]
    assert list(batch.commands) == commands
    assert batch.state.yarn == state.yarn


@given(configs, happenings, gap_lists)
def test_after_the_end_nobody_beats(config: EngineConfig, items: list[Any], gaps: list[int]) -> None:
    state, _, now = run(config, items, gaps)
    step = engine.advance(state, (Starting(now), Stopping(now)), config, now)
    for _ in range(20):
        side = step.state.yarn
        assert side is not None
        if side.allocator.rest is not None:
            word: Any = yarn_messages.LaunchEnded(now, next(iter(side.allocator.rows.launches)))
        elif side.allocator.waiting is not None:
            word = yarn_messages.ResourcesAnswered(now, side.allocator.waiting, nodes=10)
        else:
            break
        step = engine.advance(step.state, (word,), config, now)
    side = step.state.yarn
    assert side is not None
    assert side.reporter.stage in (ReporterStage.OVER, ReporterStage.ABSENT)
    assert not any(isinstance(one, yarn_messages.CallResourceManager) for one in engine.advance(
        step.state, (Wake(now + 10_000), TargetsSet(now + 10_000, ((ProfileId(0), 9),))), config, now + 10_000
    ).commands)  # fmt: skip
