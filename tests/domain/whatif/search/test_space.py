"""Points of a space as configs: what they change, which make none, and the space that an application gets by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.conf.scaling_config import ENABLED, INITIAL, INSTANCES, MAX, MIN, TRACKING
from podtide.domain.conf.spark_conf import EVENT_LOG, SparkConf, from_mapping
from podtide.domain.conf.spark_versions import DEFAULT_VERSION, parse_version
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.memory import MemoryEvidence, Peaks, StageMemory
from podtide.domain.whatif.search.defaults import (
    BATCH,
    HEARTBEAT,
    IDLE,
    Footing,
    always,
    count_ladder,
    default_space,
    footing,
)
from podtide.domain.whatif.search.space import (
    AS_RAN,
    CORES,
    MEMORY,
    MEMORY_KEYS,
    Axis,
    Candidate,
    Space,
    alone,
    at_most,
    candidate,
    in_order,
    named,
    neighbours,
    places,
    refusal,
    same,
    without,
)
from tests.support.search_play import application

DYNAMIC = {ENABLED: "true"}


def conf_of(application: Application) -> SparkConf:
    return from_mapping(application.properties, EVENT_LOG, parse_version(application.spark_version))


def conf(**more: str) -> SparkConf:
    return from_mapping({**DYNAMIC, **{key.replace("__", "."): text for key, text in more.items()}}, "test")


def made(settings: dict[str, str], *axes: Axis, always: tuple[tuple[str, str | None], ...] = ()) -> list[Candidate]:
    space = Space((from_mapping({**DYNAMIC, **settings}, "test"),), axes, always=always)
    return [one for place in places(space) if (one := candidate(space, place)) is not None]


def test_what_is_so_anyway_is_no_change() -> None:
    one, other = made({MAX: "8"}, Axis(MAX, ("8", "12")), Axis(IDLE, ("60s",)))
    assert one == AS_RAN
    assert dict(other.changes) == {MAX: "12"}


def test_a_value_is_the_same_however_it_is_written() -> None:
    assert same(conf(), IDLE, "1min")
    assert same(conf(), INSTANCES, None)
    assert not same(conf(), IDLE, "61s")


@pytest.mark.parametrize(
    ("settings", "axes", "names"),
    [
        ({}, [Axis(MIN, ("4",)), Axis(MAX, ("2", "4"))], ["maxExecutors 4, minExecutors 4"]),
        ({}, [Axis(MIN, ("2",)), Axis(INITIAL, ("1", "3"))], ["minExecutors 2, initialExecutors 3"]),
        ({}, [Axis(MAX, ("2",)), Axis(INITIAL, ("1", "3"))], ["maxExecutors 2, initialExecutors 1"]),
        ({INSTANCES: "6"}, [Axis(MAX, ("4", "8"))], ["maxExecutors 8"]),
        ({MIN: "5"}, [Axis(MAX, ("4", "8"))], ["maxExecutors 8"]),
    ],
)
def test_a_config_that_spark_refuses_is_none(settings: dict[str, str], axes: list[Axis], names: list[str]) -> None:
    assert [one.name for one in made(settings, *axes)] == names


def test_an_executor_of_another_shape_keeps_its_memory_per_core_and_the_cores_in_all() -> None:
    settings = {CORES: "2", MEMORY: "4g", "spark.executor.memoryOverhead": "500m"}
    (one,) = made(settings, Axis(CORES, ("4",)), Axis(MAX, ("5",), per_core=True))
    assert dict(one.changes) == {CORES: "4", MAX: "3", MEMORY: "8192m", "spark.executor.memoryOverhead": "1000m"}
    assert without(one, CORES).changes == ((MAX, "3"),)


def test_memory_that_the_space_has_values_for_is_left_to_it() -> None:
    one, other = made({CORES: "2"}, Axis(CORES, ("4",)), Axis(MEMORY, ("1g", "3g")))
    assert dict(one.changes) == {CORES: "4"}
    assert dict(other.changes) == {CORES: "4", MEMORY: "3g"}


def test_dynamic_allocation_is_switched_on_where_it_was_off() -> None:
    assert always([from_mapping({INSTANCES: "4"}, "test")]) == ((ENABLED, "true"), (INSTANCES, None))
    assert always([from_mapping(DYNAMIC, "test")]) == ()
    assert dict(always([conf_of(application(version="3.1.1"))])) == {ENABLED: "true", TRACKING: "true"}


def test_neighbours_are_one_step_away() -> None:
    space = Space((conf(),), (Axis(MAX, ("1", "2", "3")), Axis(MIN, ("0", "1"))))
    assert list(neighbours(space, (0, 1))) == [(1, 1), (0, 0)]
    assert list(neighbours(space, (1, 0))) == [(0, 0), (2, 0), (1, 1)]


def test_values_are_in_order_of_size_and_each_once() -> None:
    assert in_order(IDLE, ["2m", "10s", "120s", None]) == (None, "10s", "2m")
    assert in_order("spark.scheduler.mode", ["FIFO", "FAIR", "FIFO"]) == ("FIFO", "FAIR")


def test_names_say_what_matters_first() -> None:
    assert (
        named([(MIN, "2"), (MAX, "8"), ("spark.speculation", "true")])
        == "maxExecutors 8, minExecutors 2, speculation true"
    )
    assert named([(CORES, "4"), (MEMORY, "8192m")]) == "executor.cores 4"
    assert named([(MEMORY, "2g")]) == "executor.memory 2g"
    assert named([(ENABLED, "true")]) == "dynamicAllocation.enabled true"


def test_a_value_that_cannot_be_read_is_refused_with_what_was_expected() -> None:
    assert refusal(MAX, "12", DEFAULT_VERSION) is None
    assert refusal(MAX, "many", DEFAULT_VERSION) == "a whole number of 32 bits"
    assert "knows" in (refusal("spark.dynamicAllocation.maxExecutor", "1", DEFAULT_VERSION) or "")


def axes_of(*applications: Application) -> dict[str, tuple[str | None, ...]]:
    space = default_space([footing(one, conf_of(one)) for one in applications])
    return {axis.key: axis.values for axis in space.axes}


def test_the_space_of_an_application_follows_what_it_shows() -> None:
    axes = axes_of(application({**DYNAMIC, MAX: "8", MIN: "1"}, tasks=40, executors=4, runtime_s=600))
    assert axes[MAX] == ("1", "2", "3", "4", "6", "8", "12", "16")
    assert axes[MIN][:2] == ("0", "1")
    assert "60s" in axes[IDLE]
    assert "4" in axes[INITIAL]
    assert CORES not in axes  # nobody says how many cores an executor has
    assert BATCH not in axes


def test_counts_never_exceed_what_the_tasks_could_keep_busy() -> None:
    axes = axes_of(application({**DYNAMIC, MAX: "500"}, tasks=6, executors=4, runtime_s=600))
    assert axes[MAX][-1] == "6"


def test_on_kubernetes_shape_and_batches_are_tried() -> None:
    settings = {**DYNAMIC, "spark.master": "k8s://https://example", CORES: "2"}
    axes = axes_of(application(settings, tasks=400, executors=30, cores=2, runtime_s=600))
    assert axes[CORES] == ("1", "2", "4")
    assert axes[BATCH] == ("5", "10", "20", "50", "100", "200")


def test_on_yarn_the_heartbeat_is_tried() -> None:
    settings = {**DYNAMIC, "spark.master": "yarn", CORES: "2"}
    axes = axes_of(application(settings, tasks=400, executors=30, cores=2, runtime_s=600))
    assert axes[HEARTBEAT] == ("1s", "3s")
    assert BATCH not in axes
    own = axes_of(application({**settings, HEARTBEAT: "500"}, tasks=400, executors=30, cores=2, runtime_s=600))
    assert own[HEARTBEAT] == ("500", "1s", "3s")
    assert HEARTBEAT not in axes_of(application(DYNAMIC, tasks=400, executors=30, runtime_s=600))


def test_shapes_that_differ_between_the_runs_are_left_alone() -> None:
    settings = {**DYNAMIC, "spark.master": "yarn"}
    runs = [application({**settings, CORES: cores}, tasks=40, executors=4) for cores in ("1", "2")]
    assert CORES in axes_of(runs[0])
    assert CORES not in axes_of(*runs)


def test_static_counts_stand_around_the_peak() -> None:
    one = application(DYNAMIC, tasks=40, executors=4)
    assert default_space([footing(one, conf_of(one))]).statics == (1, 2, 3, 4, 6, 8)


def test_what_every_run_had_is_part_of_its_space() -> None:
    one = application({**DYNAMIC, IDLE: "7s", MAX: "9"}, tasks=40, executors=4, runtime_s=600)
    axes = axes_of(one)
    assert "7s" in axes[IDLE]
    assert "9" in axes[MAX]


MIB = 1 << 20
AMPLE = StageMemory(0, 40, 40, 90_000, 90_000, peaks=Peaks(heap=800 * MIB))
SPILLING = StageMemory(0, 40, spilling=40, memory_spilled=900 * MIB, run_ms=90_000, peak=MIB, spill_need=24 * MIB)


def sized(*stages: StageMemory, priced: bool = True) -> dict[str, tuple[str | None, ...]]:
    """The axes of an executor's size, for a log with such evidence for each of its runs."""
    settings = {**DYNAMIC, "spark.master": "yarn", CORES: "2", MEMORY: "4g"}
    runs = [replace(application(settings, tasks=40), memory=MemoryEvidence((stage,))) for stage in stages]
    space = default_space([footing(one, conf_of(one)) for one in runs], priced=priced)
    return {axis.key: axis.values for axis in space.axes if axis.key in (CORES, *MEMORY_KEYS)}


def test_less_memory_is_tried_where_every_log_carries_it() -> None:
    more = AMPLE._replace(peaks=Peaks(heap=1_600 * MIB))
    assert sized(AMPLE) == {MEMORY: ("1088m", "4g")}
    assert sized(AMPLE, more) == {MEMORY: ("2112m", "4g")}
    assert sized(AMPLE, StageMemory(0)) == {CORES: ("1", "2", "4")}
    assert sized(AMPLE, priced=False) == {CORES: ("1", "2", "4")}


def test_the_shape_is_left_alone_where_tasks_were_short_of_memory() -> None:
    assert sized(SPILLING) == {}
    assert sized(AMPLE, SPILLING) == {}


def test_each_setting_by_itself_the_axes_in_turn() -> None:
    space = Space(
        (from_mapping(DYNAMIC | {MAX: "8"}, EVENT_LOG),), (Axis(MAX, ("4", "8", "16", "32")), Axis(IDLE, ("10s",)))
    )
    assert [one.changes for one in alone(space, 3)] == [
        ((MAX, "4"),),
        ((IDLE, "10s"),),
        ((MAX, "16"),),
        ((MAX, "32"),),
    ]


@pytest.mark.parametrize(
    ("need", "peak", "counts"),
    [
        (1, 4, (1,)),
        (64, 8, (1, 2, 4, 8, 16, 32, 64)),
        (100, 9, (1, 2, 5, 9, 10, 22, 46, 100)),
        (9_999, 2, (1, 2, 3, 6, 10, 18, 32)),
    ],
)
def test_counts_of_a_curve(need: int, peak: int, counts: tuple[int, ...]) -> None:
    assert count_ladder(Footing(from_mapping(DYNAMIC, EVENT_LOG), need, peak, 1.0, 60_000, True), 7) == counts


def test_a_maximum_takes_the_minimum_and_the_first_target_down_with_it() -> None:
    ran = DYNAMIC | {MAX: "40", MIN: "5", INITIAL: "20"}
    space = Space((from_mapping(ran, EVENT_LOG),), (Axis(MAX, ("3", "10", "30")),))
    changes = [dict(one.changes) for one in alone(space, 3)]
    assert changes == [{MAX: "3", MIN: "3", INITIAL: "3"}, {MAX: "10", INITIAL: "10"}, {MAX: "30"}]
    assert at_most(space, 40) == AS_RAN
