"""One tick when nothing changes, with few and with many executors, against Spark's schedule().

And one look of HeartbeatReceiver, with few and with many executors.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from podtide.domain import (
    DEFAULT_PROFILE,
    Answer,
    ExecutorAdded,
    ExecutorId,
    ProfileRules,
    ScalingConfig,
    StageSubmitted,
    State,
    TaskStart,
    Tick,
    start,
    step,
)
from podtide.domain.backend import heartbeat_receiver as receiver
from podtide.domain.backend.heartbeat_receiver import HeartbeatState
from podtide.domain.protocol.cluster_config import HeartbeatConfig
from podtide.domain.protocol.executor_stimuli import Heartbeat, Wake

SLOTS = 4


def _fleet(executors: int, kind: str) -> tuple[State, ScalingConfig, int]:
    """A settled application: all executors run a task, or all are idle and held by the minimum."""
    idle = kind == "floor"
    config = ScalingConfig(
        executors_min=executors if idle else 0, idle_timeout_ms=5_000, profile_rules=ProfileRules(SLOTS)
    )
    state = start(config, 0).state
    ids = [ExecutorId(str(i)) for i in range(executors)]
    stage = StageSubmitted(0, 0, 0, SLOTS * executors + SLOTS, DEFAULT_PROFILE)
    added = [ExecutorAdded(0, executor, DEFAULT_PROFILE) for executor in ids]
    tasks = [] if idle else [TaskStart(0, 0, 0, i, executor) for i, executor in enumerate(ids)]
    state = step(state, [stage, *added, *tasks], config, 0).state
    now = 10_000
    for now in range(10_000, 20_000, 100):
        state, commands, _ = step(state, Tick(now), config, now)
        while commands:
            state, commands, _ = step(state, Answer(now, commands[0].serial), config, now)
    return state, config, now


@pytest.mark.parametrize("kind", ["busy", "floor"])
@pytest.mark.parametrize("executors", [10, 10_000])
def test_a_tick_when_nothing_changes(
    benchmark: BenchmarkFixture,
    executors: int,
    kind: str,
    spark_ticks: dict[tuple[str, int], float],
    compared: Callable[[str, str, str, str], None],
) -> None:
    state, config, now = _fleet(executors, kind)
    result = benchmark(lambda: step(state, Tick(now + 100), config, now + 100))
    assert result.commands == ()
    if benchmark.stats is None:
        pytest.skip("benchmarks are switched off")
    ours, theirs = benchmark.stats.stats.median * 1000, spark_ticks[{"floor": "idle"}.get(kind, kind), executors]
    name = f"tick, {executors} executors {'running a task' if kind == 'busy' else 'idle, held by the minimum'}"
    compared(name, f"{ours:.4f} ms", f"Spark: {theirs:.4f} ms", f"{theirs / ours:.2f} x")


def _listening(executors: int) -> tuple[HeartbeatState, HeartbeatConfig, int]:
    """Executors that were last heard from in the order of their ids, spread over the last minute; then a look is due.

    At it the first one expires, and nobody else.
    """
    config = HeartbeatConfig(every_beat=True)
    state = receiver.begin(0)
    ids = [ExecutorId(str(i)) for i in range(executors)]
    state = receiver.listen(state, [ExecutorAdded(0, one, DEFAULT_PROFILE) for one in ids], config, 0).state
    for place, one in enumerate(ids[1:]):
        at = 60_000 + place * 60_000 // executors
        state = receiver.listen(state, [Heartbeat(at, one)], config, at).state
    return state, config, 180_000


_ONE_LOOK: dict[int, float] = {}


@pytest.mark.parametrize("executors", [100, 10_000])
def test_a_look_at_which_one_executor_expires(
    benchmark: BenchmarkFixture, executors: int, compared: Callable[[str, str, str, str], None]
) -> None:
    state, config, now = _listening(executors)
    result = benchmark(lambda: receiver.listen(state, (Wake(now),), config, now))
    assert [command.executor for command in result.commands] == ["0"]
    if benchmark.stats is None:
        pytest.skip("benchmarks are switched off")
    _ONE_LOOK[executors] = benchmark.stats.stats.min * 1e6
    if len(_ONE_LOOK) == 2:
        few, many = _ONE_LOOK[100], _ONE_LOOK[10_000]
        compared(
            "one of 10,000 executors expires", f"{many:.1f} us", f"one of 100: {few:.1f} us", f"{many / few:.2f} x"
        )
        assert many < 3 * few, "a look costs what expires"
