"""What memory would have sufficed: Spark's arithmetic of the memory manager, and what speaks for and against a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.recorded.application import Application, Leave
from podtide.domain.recorded.memory import MemoryEvidence, Peaks, StageMemory
from podtide.domain.rerun.plan import ExecutorShape
from podtide.domain.whatif.memory import Losses, MemoryFinding, MemoryRisk, memory_finding
from tests.support import whatif_play as play

MIB = 1 << 20
GIB = 1024 * MIB
OFTEN = {"spark.executor.metrics.pollingInterval": "1s"}
TREE = Peaks(heap=800 * MIB, non_heap=90 * MIB, jvm_resident=1_000 * MIB, python_resident=600 * MIB)


def stage(**more: Any) -> StageMemory:
    """Eight tasks of ten seconds each, all of them polled."""
    peaks = Peaks(heap=800 * MIB)
    return StageMemory(0, tasks=8, polled=8, run_ms=80_000, polled_ms=80_000, peaks=peaks)._replace(**more)


def spilled(need: int, **more: Any) -> StageMemory:
    """All of the tasks spilled; each needed as much."""
    fields: dict[str, Any] = {
        "peak": 100 * MIB,
        "spill_need": need,
        "need_sum": 8 * need,
        "spilling": 8,
        "memory_spilled": 8 * need,
    }
    return stage(**(fields | more))


def found(*stages: StageMemory, app: Application | None = None, conf: Mapping[str, str] | None = None) -> MemoryFinding:
    settings = {**play.YARN, **(conf or {})}
    given = replace(app or play.application(settings), memory=MemoryEvidence(stages))
    made = memory_finding(given, from_mapping(settings, "log"), ExecutorShape(2, 2, 4_505))
    assert made is not None
    return made


def test_a_spill_is_answered_with_a_heap_in_which_all_slots_find_their_need() -> None:
    made = found(spilled(2 * GIB), stage())
    # (4 GiB - 300 MiB) * 0.6; two tasks of 2 GiB, and SPILL_MARGIN
    assert made.pool_mib == pytest.approx(2_277.6)
    heap = int(made.changes["spark.executor.memory"].removesuffix("m"))
    assert (heap - 300) * 0.6 >= 2 * 2_048 * 1.4 > (heap - 300 - 512) * 0.6
    assert (made.risk, made.enough_cores, made.memory_spilled) == (MemoryRisk.MODERATE, None, 16 * GIB)
    assert made.total_after_mib == heap + heap // 10
    [one] = made.stages
    assert (one.partitions, one.uneven, one.run_share) == (3, False, 0.5)


def test_one_core_less_may_be_enough() -> None:
    made = found(spilled(GIB))
    assert made.enough_cores == 1


def test_memory_is_no_answer_beyond_four_times_the_heap() -> None:
    made = found(spilled(28 * GIB))
    assert (dict(made.changes), made.risk) == ({}, None)
    assert made.stages[0].partitions == 36
    assert made.stages[0].heap_mib is not None
    assert made.stages[0].heap_mib > 4 * 4_096


def test_partitions_do_not_help_where_one_task_stands_out() -> None:
    made = found(spilled(2 * GIB, need_sum=3 * GIB))
    assert (made.stages[0].uneven, made.stages[0].partitions) == (True, None)


def test_what_python_workers_spill_is_no_matter_of_the_heap() -> None:
    made = found(spilled(GIB, peak=0, spill_need=0))
    assert (made.stages[0].in_python, made.stages[0].heap_mib, dict(made.changes)) == (True, None, {})


def test_storage_takes_its_part_of_the_pool() -> None:
    plain = found(spilled(GIB)).stages[0].heap_mib
    cached = found(spilled(GIB), stage(peaks=Peaks(heap=3 * GIB, storage=GIB))).stages[0].heap_mib
    assert plain is not None
    assert cached is not None
    assert cached - plain == pytest.approx(1_024 / 0.6, abs=256)


def test_with_memory_off_the_heap_it_is_that_which_grows() -> None:
    off = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1g"}
    made = found(spilled(GIB), conf=off)
    assert dict(made.changes) == {"spark.memory.offHeap.size": "2880m"}
    assert made.total_after_mib - made.total_mib == 2_880 - 1_024


@pytest.mark.parametrize(
    ("stages", "conf", "changes", "risk"),
    [
        ([stage()], OFTEN, {"spark.executor.memory": "896m"}, MemoryRisk.LOW),
        ([stage()], {}, {"spark.executor.memory": "1088m"}, MemoryRisk.MODERATE),
        ([stage(peaks=Peaks(heap=3_900 * MIB))], OFTEN, {}, None),
        ([stage(polled_ms=39_000)], OFTEN, {}, None),
        ([stage(gc_ms=9_000)], OFTEN, {}, None),
        ([stage(peak=GIB)], OFTEN, {}, None),
        ([stage(failed=1)], OFTEN, {"spark.executor.memory": "6144m"}, MemoryRisk.HIGH),
    ],
    ids=["polled", "at heartbeats", "in use", "hardly polled", "collecting", "execution needs it", "out of memory"],
)
def test_less_is_recommended_only_where_it_was_measured(
    stages: list[StageMemory], conf: dict[str, str], changes: dict[str, str], risk: MemoryRisk | None
) -> None:
    made = found(*stages, conf=conf)
    assert (dict(made.changes), made.risk) == (changes, risk)


def test_the_overhead_is_what_the_processes_hold_beyond_the_heap() -> None:
    made = found(stage(peaks=TREE), conf=OFTEN)
    # 200 of the JVM and 600 of Python, and a tenth more
    assert (made.overhead_needed_mib, made.changes["spark.executor.memoryOverhead"]) == (896, "896m")
    own = found(
        stage(peaks=TREE), conf=OFTEN | {"spark.executor.pyspark.memory": "512m", "spark.yarn.isPython": "true"}
    )
    assert own.overhead_needed_mib == 384  # 512 of Python's 600 have a share of their own


@pytest.mark.parametrize(
    ("reason", "losses"),
    [
        ("Container from a bad node: container_1 on host: h. Exit status: 52. Diagnostics: none", Losses(heap=1)),
        ("The executor with id 1 exited with exit code 52(JVM OOM).", Losses(heap=1)),
        ("Command exited with code 137", Losses(killed=1)),
        ("The executor with id 1 exited with exit code 137(SIGKILL, possible container OOM).", Losses(killed=1)),
        ("Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5 GB used.", Losses(container=1)),
        ("Container killed by YARN for exceeding memory limits. 5.5 GB of 5 GB used.", Losses(container=1)),
        ("container status: OOMKilled exit code 137", Losses(container=1)),
        ("Remote RPC client disassociated", Losses()),
        ("Container killed on request. Exit code is 143", Losses()),
    ],
)
def test_what_ended_for_want_of_memory_is_told_by_the_reason(reason: str, losses: Losses) -> None:
    app = play.application(play.YARN)
    first, *others = app.executors
    lost = replace(first, removed_ms=first.added_ms + 5_000, leave=Leave.LOST, reason=reason)
    made = found(stage(), app=replace(app, executors=(lost, *others)), conf=OFTEN)
    assert made.losses == losses
    if losses.container:
        assert made.changes == {"spark.executor.memoryOverhead": "832m"}
    elif losses.any:
        assert "spark.executor.memory" not in made.changes or losses.heap


def test_where_an_executor_is_a_node_its_memory_is_no_setting() -> None:
    made = found(spilled(2 * GIB), conf={"spark.databricks.clusterUsageTags.clusterId": "1"})
    assert (made.of_node, dict(made.changes), made.stages[0].partitions) == (True, {}, 3)


def test_without_any_evidence_there_is_no_finding() -> None:
    settings = from_mapping(play.YARN, "log")
    silent = replace(play.application(play.YARN), memory=MemoryEvidence((StageMemory(0, tasks=8, run_ms=100),)))
    assert memory_finding(silent, settings, ExecutorShape(2, 2, 4_505)) is None
    local = from_mapping({"spark.master": "local[2]"}, "log")
    inside = replace(silent, memory=MemoryEvidence((spilled(GIB),)))
    assert memory_finding(inside, local, ExecutorShape(2, 2, 4_505)) is None
