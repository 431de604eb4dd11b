"""ExecutorRollPlugin: Spark's own scenarios (R1 to R7), choices of the real class, the timer."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import NEVER, ExecutorId, Millis
from podtide.domain.conf.entries_kubernetes import ROLL_POLICIES
from podtide.domain.kubernetes.roll_plugin import (
    NOTHING,
    Roll,
    RollState,
    RollStimulus,
    choose,
    float32,
    float_of_long,
    roll,
    start,
)
from podtide.domain.protocol.cluster_config import RollConfig
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, Stopping, Wake
from podtide.domain.protocol.pod_stimuli import ExecutorsSummarized, ExecutorSummary
from podtide.domain.protocol.reasons import Cause, Remark, Threw

CHOICES = json.loads((Path(__file__).parent / "roll_choices.json").read_text())


def executor(
    identity: str, added_at: Millis = 0, gc: int = 0, duration: int = 0, tasks: int = 0, failed: int = 0
) -> ExecutorSummary:
    return ExecutorSummary(ExecutorId(identity), added_at, tasks, failed, duration, gc)


DRIVER = executor("driver", 0, 10, 10, 1)
LIST = (
    DRIVER,
    executor("1", 1_000, 20, 100, 1),
    executor("2", 0, 20, 100, 1),
    executor("3", 2_000, 40, 100, 1),
    executor("4", 3_000, 20, 400, 4),
    executor("5", 3_000, 20, 100, 1, 5),
    executor("6", 3_000, 20, 300, 2),
    executor("7", 3_000),
    executor("8", 3_000, 30, 280, 2, 4),
    executor("10", 3_000, 30, 280, 2, 4),
)


def chosen(executors: tuple[ExecutorSummary, ...], policy: str, tasks_min: int = 0) -> str | None:
    found = choose(executors, RollConfig(60_000, policy, tasks_min))
    return found.executor if found else None


@pytest.mark.parametrize("policy", [p for p in ROLL_POLICIES if p != "OUTLIER_NO_FALLBACK"])
def test_r2_the_only_one_goes(policy: str) -> None:
    assert chosen((DRIVER, LIST[1]), policy) == "1"


@pytest.mark.parametrize(
    ("policy", "goes"),
    [
        ("ID", "1"),
        ("ADD_TIME", "2"),
        ("TOTAL_GC_TIME", "3"),
        ("TOTAL_DURATION", "4"),
        ("FAILED_TASKS", "5"),
        ("AVERAGE_DURATION", "6"),
    ],
)
def test_r4_each_policy_has_its_number(policy: str, goes: str) -> None:
    assert chosen(LIST, policy) == goes


@pytest.mark.parametrize("policy", ["OUTLIER", "OUTLIER_NO_FALLBACK"])
@pytest.mark.parametrize(
    ("outlier", "by"),
    [
        (executor("9999", 0, 0, 300, 1), "AVERAGE_DURATION"),
        (executor("9999", 0, 0, 1_000, 1_000), "TOTAL_DURATION"),
        (executor("9999", 0, 1_000, 0, 0), "TOTAL_GC_TIME"),
    ],
)
def test_r6_an_outlier_goes(policy: str, outlier: ExecutorSummary, by: str) -> None:
    found = choose((*LIST, outlier), RollConfig(60_000, policy))
    assert found is not None
    assert found.executor == "9999"
    assert found.facts["outlier"] == by


def test_executors_without_tasks_have_no_average_to_stand_out_by() -> None:
    idle = tuple(executor(str(n), failed=0 if n else 9) for n in range(6))
    found = choose(idle, RollConfig(60_000, "OUTLIER"))
    assert found is not None
    assert (found.executor, found.facts["outlier"]) == ("0", "FAILED_TASKS")


def test_r7_no_outlier_and_no_fallback() -> None:
    assert chosen(LIST, "OUTLIER_NO_FALLBACK") is None


@pytest.mark.parametrize("row", CHOICES, ids=range(len(CHOICES)))
def test_chooses_as_spark_does(row: dict[str, Any]) -> None:
    """Recorded answers of the real ExecutorRollDriverPlugin.choose, for every policy."""
    executors = tuple(ExecutorSummary(*fields) for fields in row["list"])
    for policy, answer in row["got"].items():
        try:
            found = chosen(executors, policy, row["min"])
        except ValueError as problem:
            found = f'!java.lang.NumberFormatException: For input string: "{problem}"'
        assert found == answer, policy


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_are_rounded_once(number: int) -> None:
    rounded = float_of_long(number)
    assert struct.unpack("f", struct.pack("f", rounded))[0] == rounded
    above, below = (math.nextafter(rounded, way) for way in (math.inf, -math.inf))
    # Nothing a 32-bit float can say is nearer; neighbours of a float are 2**29 doubles away.
    step = (above - rounded) * 2**29, (rounded - below) * 2**29
    assert all(abs(number - int(rounded)) * 2 <= width or abs(number) < 2**24 for width in step)


@pytest.mark.parametrize(("value", "rounded"), [(1e39, math.inf), (-1e39, -math.inf), (0.1, 0.10000000149011612)])
def test_floats_are_javas(value: float, rounded: float) -> None:
    assert float32(value) == rounded


# ------------------------------------------------------------------------------------------------------------- the timer

CONFIG = RollConfig(60_000, "ID", remarks=True)


def summary(at: Millis, *executors: ExecutorSummary) -> ExecutorsSummarized:
    return ExecutorsSummarized(at, executors or LIST)


def play(stimuli: list[RollStimulus], config: RollConfig = CONFIG) -> tuple[list[tuple[int, str]], RollState]:
    state = start(config, 0)
    rolls = []
    for stimulus in stimuli:
        step = roll(state, (stimulus,), config, stimulus.at)
        state = step.state
        rolls += [(command.at, str(command.executor)) for command in step.commands]
    return rolls, state


@pytest.mark.parametrize(
    ("stimuli", "rolls", "next_due"),
    [
        ([Wake(59_999), summary(59_999)], [], 60_000),
        ([summary(60_000)], [(60_000, "1")], 120_000),
        ([summary(60_000), summary(60_000), Wake(60_000)], [(60_000, "1")], 120_000),
        ([summary(10), Wake(60_000)], [(60_000, "1")], 120_000),  # the last one since the run before
        ([summary(60_000), Wake(120_000)], [(60_000, "1")], NEVER),  # used once: the second run waits
        ([Wake(60_000), Wake(61_000)], [], NEVER),
        ([Wake(60_000), summary(60_250)], [(60_250, "1")], 120_000),  # late, but the beat stays
        ([summary(250_000)], [(250_000, "1")], 300_000),  # one run for those that were missed
        ([Stopping(1), summary(60_000)], [], NEVER),
    ],
)
def test_when_it_rolls(stimuli: list[RollStimulus], rolls: list[tuple[int, str]], next_due: Millis) -> None:
    done, state = play(stimuli)
    assert done == rolls
    assert state.timer.due == next_due


def test_it_asks_for_a_summary_from_the_due_time_on() -> None:
    state = start(CONFIG, 1_000)
    assert [state.timer.wants(now) for now in (60_999, 61_000, 90_000)] == [False, True, True]
    waiting = roll(state, (Wake(61_000),), CONFIG, 61_000).state
    assert waiting.timer.wants(61_001)
    assert not roll(waiting, (summary(61_002),), CONFIG, 61_002).state.timer.wants(61_003)


def test_what_it_asks_the_backend_for() -> None:
    step = roll(start(CONFIG, 0), (summary(60_000),), CONFIG, 60_000)
    (command,) = step.commands
    assert isinstance(command, Roll)
    assert command.request == DecommissionRequested(60_000, (ExecutorId("1"),), "Rolling via ID at 60000")
    assert command.why.cause is Cause.ROLLING
    assert dict(command.why.facts) == {"policy": "ID", "candidates": 9}


def test_it_says_when_there_is_nothing_to_roll() -> None:
    step = roll(start(CONFIG, 0), (summary(60_000, DRIVER),), CONFIG, 60_000)
    assert step.reports == (Remark(60_000, "ExecutorRollDriverPlugin", NOTHING),)
    silent = RollConfig(60_000, "ID")
    assert roll(start(silent, 0), (summary(60_000, DRIVER),), silent, 60_000).reports == ()


def test_an_id_that_is_no_number_ends_the_run_but_not_the_timer() -> None:
    step = roll(start(CONFIG, 0), (summary(60_000, executor("x"), executor("2")),), CONFIG, 60_000)
    assert step.commands == ()
    what = 'java.lang.NumberFormatException: For input string: "x"'
    assert step.reports == (Threw(60_000, "ExecutorRollDriverPlugin", what),)
    assert step.state.timer.due == 120_000
