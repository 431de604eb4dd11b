"""Richer shapes of event logs: what the reading is told, and that nothing richer ever costs an event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.eventlog.application import SHAPES, ApplicationLog
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.domain.base.units import Millis
from podtide.domain.protocol.stimuli import Stimulus
from podtide.domain.recorded.job_dependencies import JobTraits
from podtide.domain.recorded.reading import LogReading
from podtide.domain.recorded.stages import LoggedStage
from tests.support import event_log_lines as log
from tests.support.event_log_lines import START


class Told(LogReading):
    """Remembers what it was told of jobs, stages and executors, besides what a Reading does with it."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs_told: list[tuple[int, list[LoggedStage], JobTraits, list[int]]] = []
        self.stages_told: list[LoggedStage] = []
        self.executors_told: list[tuple[str, Millis, str, int, int, Millis | None]] = []

    def job_started(self, job: int, at: Millis, stages: Any, traits: JobTraits, ids: Any = ()) -> None:
        self.jobs_told.append((job, list(stages), traits, list(ids)))
        super().job_started(job, at, stages, traits, ids)

    def stage_submitted(self, seen: LoggedStage, at: Millis) -> None:
        self.stages_told.append(seen)
        super().stage_submitted(seen, at)

    def executor_added(
        self, executor: str, at: Millis, host: str, cores: int, profile: int, requested: Millis | None
    ) -> None:
        self.executors_told.append((executor, at - START, host, cores, profile, requested))
        super().executor_added(executor, at, host, cores, profile, requested)


def read(folder: Path, lines: list[str]) -> tuple[Told, EventLogSensor, list[Stimulus]]:
    told = Told()
    with open_log(log.written(folder, lines)) as source:
        sensor = EventLogSensor(source, shapes=SHAPES, observer=ApplicationLog(told))
        sensor.prologue()
        stimuli = [stimulus for batch in sensor.batches() for stimulus in batch]
    return told, sensor, stimuli


def plainly(folder: Path, lines: list[str]) -> list[Stimulus]:
    with open_log(log.written(folder, lines, name="plain")) as source:
        sensor = EventLogSensor(source)
        sensor.prologue()
        return [stimulus for batch in sensor.batches() for stimulus in batch]


def ended(*, metrics: Any = None, **info: Any) -> str:
    """A TaskEnd of stage 0 on executor 1, from 10 to 50."""
    event = json.loads(log.task(0, 0, "1", 10, 50))
    event["Task Info"].update(info)
    event["Task Type"] = "ShuffleMapTask"
    if metrics is not None:
        event["Task Metrics"] = metrics
    return json.dumps(event)


METRICS = {
    "Executor Run Time": 30,
    "JVM GC Time": 4,
    "Memory Bytes Spilled": 5,
    "Disk Bytes Spilled": 6,
    "Shuffle Read Metrics": {"Remote Bytes Read": 7, "Local Bytes Read": 8},
    "Shuffle Write Metrics": {"Shuffle Bytes Written": 9},
    "Input Metrics": {"Data Read Method": "Hadoop", "Bytes Read": 10},
}


def begun() -> list[str]:
    return [*log.begun(), log.executor("1", 1), log.submitted(0, 3, 5), log.task(0, 0, "1", 10)]


def test_metrics_of_a_task(tmp_path: Path) -> None:
    told, _, _ = read(tmp_path, [*begun(), ended(metrics=METRICS, **{"Partition ID": 0})])
    work = told.works[0]
    assert (work.run_ms, work.gc_ms) == (30, 4)
    assert (work.shuffle_read_bytes, work.shuffle_write_bytes, work.read_bytes) == (15, 9, 10)
    assert (work.maps, told.partitioned, list(work.body)) == (True, True, [40])


@pytest.mark.parametrize("metrics", [None, {}, {"Executor Run Time": 30}, {"Shuffle Read Metrics": None}])
def test_metrics_may_be_missing(tmp_path: Path, metrics: Any) -> None:
    told, sensor, _ = read(tmp_path, [*begun(), ended(metrics=metrics)])
    assert list(told.works[0].body) == [40]
    assert sensor.counts.malformed == 0


@pytest.mark.parametrize(
    "line",
    [
        ended(metrics={"Executor Run Time": "soon"}),
        ended(metrics=[1, 2]),
        ended(**{"Partition ID": "first"}),
    ],
)
def test_a_line_that_fits_the_plain_shape_alone_is_an_event_that_says_less(tmp_path: Path, line: str) -> None:
    told, sensor, stimuli = read(tmp_path, [*begun(), line])
    assert (sensor.counts.malformed, list(told.works[0].body)) == (0, [40])
    assert stimuli == plainly(tmp_path, [*begun(), line])


@pytest.mark.parametrize(
    "line",
    [
        log.line("JobStart", Job_ID=1, Submission_Time=START, Stage_Infos=[], Properties=7),
        log.line("JobEnd", Job_ID=1, Completion_Time=START, Job_Result="well"),
        log.line("ExecutorAdded", Timestamp=START, Executor_ID="2", Executor_Info={"Host": 5}),
        log.line("BlockManagerAdded", Timestamp=START, Block_Manager_ID={"Executor ID": "2", "Host": 5}),
        log.line("StageSubmitted", Stage_Info={**log.stage(4, 1, 9), "Stage Name": 9}),
        log.line("StageCompleted", Stage_Info={**log.stage(0, 3, 9), "Failure Reason": 9}),
    ],
)
def test_odd_details_never_cost_an_event(tmp_path: Path, line: str) -> None:
    _, sensor, stimuli = read(tmp_path, [*begun(), line])
    assert sensor.counts.malformed == 0
    assert stimuli == plainly(tmp_path, [*begun(), line])


def test_properties_of_a_job(tmp_path: Path) -> None:
    properties = {
        "spark.scheduler.pool": "a",
        "spark.jobGroup.id": "g",
        "spark.sql.execution.id": "8",
        "spark.sql.execution.root.id": "7",
        "spark.job.description": "what it is",
        "callSite.short": "count at X.scala:1",
        "whatever": "else",
    }
    job = json.loads(log.job(0, 4, log.stage(0, 3, 5, rdd=6)))
    told, _, _ = read(tmp_path, [*begun(), json.dumps({**job, "Properties": properties})])
    [(number, stages, traits, _)] = told.jobs_told
    assert (number, stages[0].stage, stages[0].rdd) == (0, 0, 6)
    assert traits == JobTraits("a", "g", 7, None, None, "what it is")


@pytest.mark.parametrize(
    ("properties", "traits"),
    [
        ({"spark.sql.execution.id": "8"}, JobTraits(execution=8)),
        ({"spark.sql.execution.id": "eight"}, JobTraits()),
        ({"spark.sql.execution.id": "9" * 400}, JobTraits()),
        ({"sql.streaming.queryId": "q", "streaming.sql.batchId": "3"}, JobTraits(stream="q", batch="3")),
        ({"spark.streaming.internal.batchTime": "1000"}, JobTraits(stream="DStreams", batch="1000")),
        ({"callSite.short": "count at X.scala:1"}, JobTraits(description="count at X.scala:1")),
        (None, JobTraits()),
    ],
)
def test_where_a_job_came_from(tmp_path: Path, properties: Any, traits: JobTraits) -> None:
    job = json.loads(log.job(0, 4, log.stage(0, 3, 5)))
    told, _, _ = read(tmp_path, [*begun(), json.dumps({**job, "Properties": properties})])
    assert told.jobs_told[0][2] == traits


def test_jobs_of_old_logs_list_ids_alone(tmp_path: Path) -> None:
    told, _, _ = read(
        tmp_path, [*log.begun(), log.line("JobStart", Job_ID=0, Stage_IDs=[2, 1]), log.submitted(1, 1, 5)]
    )
    assert told.jobs_told[0][3] == [2, 1]
    assert told.works[1].job == 0


def test_details_of_a_stage_and_an_executor(tmp_path: Path) -> None:
    rdds = [
        {"RDD ID": 4, "Barrier": True, "Storage Level": {"Use Disk": True, "Use Memory": True, "Replication": 1}},
        {"RDD ID": 3, "Storage Level": {"Use Disk": False, "Use Memory": False, "Replication": 1}},
    ]
    info = {**log.stage(0, 3, 5, parents=(9,)), "RDD Info": rdds, "Stage Name": "n", "Resource Profile Id": 2}
    executor = {"Host": "h", "Total Cores": 3, "Resource Profile Id": 2, "Request Time": START + 1}
    lines = [
        *log.begun(),
        log.line("ExecutorAdded", Timestamp=START + 7, Executor_ID="1", Executor_Info=executor),
        log.line("StageSubmitted", Stage_Info=info),
    ]
    told, _, _ = read(tmp_path, lines)
    assert told.stages_told == [LoggedStage(0, 0, 3, "n", 2, (9,), 4, (4,), True, None)]
    assert told.executors_told == [("1", 7, "h", 3, 2, START + 1)]


@pytest.mark.parametrize(
    ("name", "exchanged", "scanned"),
    [("ShuffledRowRDD", True, False), ("FileScanRDD", False, True), ("Other", False, False)],
)
def test_where_the_rows_of_a_stage_come_from(tmp_path: Path, name: str, exchanged: bool, scanned: bool) -> None:
    info = {**log.stage(0, 0, 5), "RDD Info": [{"RDD ID": 4, "Name": name}]}
    told, _, _ = read(tmp_path, [*log.begun(), log.line("StageSubmitted", Stage_Info=info)])
    (seen,) = told.stages_told
    assert (seen.exchanged, seen.scanned) == (exchanged, scanned)


@pytest.mark.parametrize(
    ("own", "below", "indeterminate"),
    [
        ({"DeterministicLevel": "INDETERMINATE"}, {}, True),
        ({"DeterministicLevel": "INDETERMINATE", "Scope": '{"id":"4","name":"repartition"}'}, {}, True),
        ({"DeterministicLevel": "INDETERMINATE", "Scope": '{"id":"spark_plan_4","name":"Exchange"}'}, {}, False),
        ({"DeterministicLevel": "UNORDERED"}, {"DeterministicLevel": "INDETERMINATE"}, False),
        ({}, {}, False),
    ],
)
def test_stages_that_may_come_out_otherwise(
    tmp_path: Path, own: dict[str, str], below: dict[str, str], indeterminate: bool
) -> None:
    info = {**log.stage(0, 0, 5), "RDD Info": [{"RDD ID": 4, **own}, {"RDD ID": 3, **below}]}
    told, _, _ = read(tmp_path, [*log.begun(), log.line("StageSubmitted", Stage_Info=info)])
    (seen,) = told.stages_told
    assert seen.indeterminate == indeterminate


def test_executions_begin_and_end(tmp_path: Path) -> None:
    name = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
    lines = [
        *begun(),
        json.dumps({"Event": f"{name}Start", "executionId": 3, "time": START + 10, "physicalPlanDescription": "x"}),
        json.dumps({"Event": f"{name}Start", "executionId": 4, "rootExecutionId": 3, "time": START + 20}),
        json.dumps({"Event": f"{name}End", "executionId": 3, "time": START + 90}),
        json.dumps({"Event": f"{name}End", "executionId": "three", "time": START + 90}),
        json.dumps({"Event": f"{name}End", "executionId": "three", "time": START + 90}),
    ]
    told, sensor, stimuli = read(tmp_path, lines)
    assert told._executions == {3: (START + 10, START + 90)}
    assert sensor.counts.malformed == 0
    assert stimuli == plainly(tmp_path, lines)


def test_the_rest_of_what_is_told(tmp_path: Path) -> None:
    lines = [
        *log.begun(),
        log.line("EnvironmentUpdate", Spark_Properties={"spark.executor.cores": "4", "spark.task.cpus": "2"}),
        log.line("BlockManagerAdded", Timestamp=START + 3, Block_Manager_ID={"Executor ID": "driver", "Host": "d"}),
        log.line("ResourceProfileAdded", **{
            "Resource_Profile_Id": 1, "Executor_Resource_Requests": {},
            "Task_Resource_Requests": {"cpus": {"Resource Name": "cpus", "Amount": 3.0}},
        }),
        log.line("UnpersistRDD", RDD_ID=5),
        log.executor("1", 10), log.gone("1", 20, "Executor killed by driver."),
        log.line("ApplicationEnd", Timestamp=START + 30),
    ]  # fmt: skip
    told, _, _ = read(tmp_path, lines)
    assert (told.driver_ready_ms, told.times.ended, told.fleet.task_cpus) == (START + 3, START + 30, 2.0)
    assert (told.fleet.profile_cpus, list(told.profiles)) == ({1: 3.0}, [1])
    assert told.unpersists == [(START + 3, 5)]
    assert (told.fleet.lives[0].removed, told.fleet.lives[0].reason) == (START + 20, "Executor killed by driver.")


@pytest.mark.parametrize(("claimed", "taken"), [(-60_000, -60_000), (10**11, 10**11), (-START - 1, 1_000)])
def test_an_executor_came_when_it_claims_if_it_does(tmp_path: Path, claimed: int, taken: int) -> None:
    lines = [*log.begun(), log.submitted(0, 1, 1_000), log.executor("7", claimed)]
    told, _, _ = read(tmp_path, lines)
    assert told.executors_told[0][:2] == ("7", taken)
    assert told.times.clock == START + 1_000


@pytest.mark.parametrize(
    ("line", "clock"),
    [
        (log.job(3, 2_000), 2_000),
        (log.job(3, -5), 1_000),  # before the application began
        (log.line("JobStart", Job_ID=3), 1_000),
        (log.task(0, 0, "1", 3_000), 3_000),
        (log.task(0, 0, "1", 3_000, 4_000), 4_000),
        (log.completed(0, 1, 5_000), 5_000),
        (log.gone("1", 10**9), 1_000),
        (log.line("ApplicationEnd", Timestamp=START + 9_000), 1_000),
        (log.line("BlockManagerAdded", Timestamp=START + 6_000, Block_Manager_ID={"Executor ID": "driver"}), 6_000),
        (log.line("BlockManagerAdded", Timestamp=START + 6_000, Block_Manager_ID={"Executor ID": "1"}), 1_000),
    ],
)
def test_the_clock_is_what_the_work_claims(tmp_path: Path, line: str, clock: int) -> None:
    told, _, _ = read(tmp_path, [*log.begun(), log.executor("1", 10**10), log.submitted(0, 1, 1_000), line])
    assert told.times.clock == START + clock


def test_what_claims_no_time_happened_with_the_work_around_it(tmp_path: Path) -> None:
    lines = [*log.begun(), log.executor("1", 10**10), log.submitted(0, 1, 1_000), log.line("UnpersistRDD", RDD_ID=5)]
    told, _, _ = read(tmp_path, lines)
    assert told.unpersists == [(START + 1_000, 5)]


def test_memory_is_told_by_tasks_stages_and_block_managers(tmp_path: Path) -> None:
    spilling = METRICS | {"Peak Execution Memory": 100}
    first = json.loads(ended(metrics=spilling))
    first["Task Executor Metrics"] = {"JVMHeapMemory": 700, "OnHeapStorageMemory": 50, "ProcessTreeJVMRSSMemory": 900}
    second = json.loads(ended(metrics={"Peak Execution Memory": 103}))
    second["Task Executor Metrics"] = {"JVMHeapMemory": 0}
    second["Task End Reason"] = {"Reason": "ExceptionFailure", "Class Name": "java.lang.OutOfMemoryError"}
    manager = {
        "Event": "SparkListenerBlockManagerAdded",
        "Block Manager ID": {"Executor ID": "1", "Host": "h", "Port": 1},
        "Maximum Memory": 5_000,
        "Timestamp": START + 2,
        "Maximum Onheap Memory": 4_000,
    }
    stage = {
        "Event": "SparkListenerStageExecutorMetrics",
        "Executor ID": "1",
        "Stage ID": 0,
        "Stage Attempt ID": 0,
        "Executor Metrics": {"JVMHeapMemory": 800, "OnHeapUnifiedMemory": 60},
    }
    drivers = stage | {"Executor ID": "driver", "Executor Metrics": {"JVMHeapMemory": 9_000}}
    lines = [*begun(), *map(json.dumps, (manager, first, second, stage, drivers))]
    told, sensor, _ = read(tmp_path, lines)
    evidence = told.memory.evidence()
    [one] = evidence.stages
    assert (evidence.pool, evidence.spilled, sensor.counts.malformed) == (4_000, 5, 0)
    assert (one.tasks, one.polled, one.run_ms, one.gc_ms, one.failed) == (2, 1, 30, 4, 1)
    assert (one.spilling, one.memory_spilled, one.disk_spilled) == (1, 5, 6)
    assert (one.peak, one.spill_need, one.need, one.need_sum) == (103, 105, 105, 208)
    assert (one.peaks.heap, one.peaks.storage, one.peaks.unified, one.peaks.resident) == (800, 50, 60, 900)
