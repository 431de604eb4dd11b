"""Event logs as a sensor: the clock, inferred shuffles, old shapes, lines that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.sensor import EventLogSensor, LogStrict, NotEventLog
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.protocol.stimuli import (
    BlockUpdated,
    ExecutorAdded,
    ExecutorRemoved,
    JobStage,
    JobStart,
    RddBlock,
    ShuffleRegistered,
    ShuffleUnneeded,
    StageSubmitted,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TaskStart,
)
from tests.support import event_log_lines as log
from tests.support.event_log_lines import START, line


def read(
    folder: Path, lines: list[str], *, end: str = "\n", strict: bool = False
) -> tuple[EventLogSensor, list[Stimulus]]:
    sensor = EventLogSensor(open_log(log.written(folder, lines, end=end)), strict=strict)
    sensor.prologue()
    return sensor, [stimulus for batch in sensor.batches() for stimulus in batch]


def test_the_clock_is_the_running_maximum(tmp_path: Path) -> None:
    lines = [*log.begun(), log.executor("1", 5_000), log.executor("2", 3_000), log.submitted(0, 1, 6_000)]
    _, stimuli = read(tmp_path, lines)
    assert [s.at - START for s in stimuli] == [5_000, 5_000, 6_000]


def test_an_executor_lives_by_its_own_word_even_if_it_is_heard_of_late(tmp_path: Path) -> None:
    lines = [*log.begun(), log.executor("1", 5_000), log.executor("2", 3_000), log.gone("2", 10_000)]
    sensor, _ = read(tmp_path, lines)
    assert sensor.fleet.added == 2
    assert sensor.fleet.removed == 1
    assert sensor.fleet.executor_ms(START + 10_000) == 5_000 + 7_000


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("Success", TaskOutcome.SUCCESS),
        ("TaskKilled", TaskOutcome.KILLED),
        ("Resubmitted", TaskOutcome.FAILED),
        ("ExecutorLostFailure", TaskOutcome.FAILED),
        ("NobodyKnowsThisOne", TaskOutcome.FAILED),
    ],
)
def test_how_a_task_ended(tmp_path: Path, reason: str, outcome: TaskOutcome) -> None:
    _, stimuli = read(tmp_path, [*log.begun(), log.task(0, 3, "1", 10), log.task(0, 3, "1", 10, 50, reason)])
    assert stimuli == [
        TaskStart(START + 10, 0, 0, 3, ExecutorId("1"), False),
        TaskEnd(START + 50, 0, 0, 3, ExecutorId("1"), False, outcome),
    ]


def test_an_exchange_of_adaptive_execution_is_registered_before_its_first_task_ends(tmp_path: Path) -> None:
    """Every exchange is a job of its own; the later job lists it under another stage id, as skipped."""
    mapping = log.stage(0, 2, 1, rdd=7)
    lines = [
        *log.begun(),
        log.job(0, 1, mapping, execution=3),
        log.task(0, 0, "1", 2, 5, kind="ShuffleMapTask"),
        log.task(0, 1, "1", 2, 6, kind="ShuffleMapTask"),
        log.job_end(0, 7),
        log.job(1, 8, {**mapping, "Stage ID": 1}, log.stage(2, 1, 8, parents=(1,), rdd=9), execution=3),
        log.task(2, 0, "1", 9, 10, kind="ResultTask"),
        log.job_end(1, 11),
        log.execution_end(3, 12),
    ]
    sensor, stimuli = read(tmp_path, lines)
    ends = [TaskEnd(START + at, 0, 0, at - 5, ExecutorId("1"), False, TaskOutcome.SUCCESS) for at in (5, 6)]
    assert stimuli[1:4] == [ShuffleRegistered(START + 5, 0, 0, 7), *ends]
    assert JobStart(START + 8, 1, (JobStage(1, 7), JobStage(2, None))) in stimuli
    assert stimuli[-1] == ShuffleUnneeded(START + 12, 7)
    assert [type(one) for one in stimuli].count(ShuffleUnneeded) == 1
    assert sensor.seen.map_stages == 2


def test_a_stage_that_is_a_parent_writes_a_shuffle_known_by_its_rdd(tmp_path: Path) -> None:
    mapping = log.stage(0, 4, 1, rdd=7)
    lines = [
        *log.begun(),
        log.job(0, 1, mapping, log.stage(1, 2, 1, parents=(0,), rdd=9)),
        log.job_end(0, 2),
        log.job(1, 3, {**mapping, "Stage ID": 5}, log.stage(6, 2, 3, parents=(5,), rdd=11)),
    ]
    _, stimuli = read(tmp_path, lines)
    starts = [s for s in stimuli if isinstance(s, JobStart)]
    assert starts[0].stages == (JobStage(0, 7), JobStage(1, None))
    assert starts[1].stages == (JobStage(5, 7), JobStage(6, None))
    assert [s for s in stimuli if isinstance(s, ShuffleUnneeded)] == [ShuffleUnneeded(START + 2, 7)]


def persisting(stage: int, rdd: int) -> str:
    info = log.stage(stage, 1, 1, rdd=rdd)
    level = {"Use Disk": True, "Use Memory": True, "Replication": 1}
    return line("StageSubmitted", Stage_Info={**info, "RDD Info": [{"RDD ID": rdd, "Storage Level": level}]})


def block_update(name: str, block: str) -> str:
    level = {"Use Disk": False, "Use Memory": True, "Replication": 1}
    info = {"Block Manager ID": {"Executor ID": name}, "Block ID": block, "Storage Level": level}
    return line("BlockUpdated", Block_Updated_Info=info)


def test_a_task_of_a_persisted_rdd_stores_its_partition_before_it_ends(tmp_path: Path) -> None:
    lines = [*log.begun(), persisting(0, 7), log.task(0, 3, "1", 2), log.task(0, 3, "1", 2, 5)]
    sensor, stimuli = read(tmp_path, lines)
    assert stimuli[2] == BlockUpdated(START + 5, ExecutorId("1"), RddBlock(7, 3), True, False)
    assert isinstance(stimuli[3], TaskEnd)
    assert sensor.seen.persisted_rdds


def test_block_updates_that_are_logged_are_all_there_is(tmp_path: Path) -> None:
    logged = block_update("1", "rdd_7_0")
    lines = [*log.begun(), logged, persisting(0, 7), log.task(0, 3, "1", 2), log.task(0, 3, "1", 2, 5)]
    _, stimuli = read(tmp_path, lines)
    assert [one.block for one in stimuli if isinstance(one, BlockUpdated)] == [RddBlock(7, 0)]


@pytest.mark.parametrize("kept", [False, True])
def test_a_task_without_an_end_ends_with_its_stage_unless_told_otherwise(tmp_path: Path, *, kept: bool) -> None:
    lines = [*log.begun(), log.job(0, 1, log.stage(0, 2, 1)), log.task(0, 1, "1", 2), log.completed(0, 2, 9)]
    sensor = EventLogSensor(open_log(log.written(tmp_path, lines)), keep_unended=kept)
    sensor.prologue()
    ends = [one for batch in sensor.batches() for one in batch if isinstance(one, TaskEnd)]
    assert ends == [TaskEnd(START + 9, 0, 0, 1, ExecutorId("1"))] * (not kept)
    assert sensor.seen.missing_ends == (not kept)


def test_block_managers_stand_for_executors_before_spark_13(tmp_path: Path) -> None:
    def manager(event: str, name: str, at: int) -> str:
        return line(f"BlockManager{event}", Block_Manager_ID={"Executor ID": name, "Host": "h"}, Timestamp=START + at)

    lines = [
        manager("Added", "<driver>", 1),
        manager("Added", "0", 2),
        log.task(0, 0, "0", 5),
        manager("Removed", "0", 9),
    ]
    sensor, stimuli = read(tmp_path, lines)
    assert [type(s) for s in stimuli] == [ExecutorAdded, TaskStart, ExecutorRemoved]
    assert sensor.fleet.added == 1


def test_old_lines_lack_fields_and_take_sparks_own_defaults(tmp_path: Path) -> None:
    old = {"Stage ID": 0, "Number of Tasks": 3}
    _, stimuli = read(tmp_path, [*log.begun("1.4.0"), line("StageSubmitted", Stage_Info=old)])
    assert stimuli == [StageSubmitted(START, 0, 0, 3, DEFAULT_PROFILE, None)]


def test_unknown_events_are_skipped_however_many_kinds_there_are(tmp_path: Path) -> None:
    strange = [json.dumps({"Event": f"org.example.Event{n % 150}", "x": n}) for n in range(400)]
    sensor, stimuli = read(tmp_path, [*log.begun(), *strange, log.submitted(0, 1, 5)])
    assert sensor.counts.read == 404
    assert sensor.counts.skipped == 400
    assert len(stimuli) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"Event":"SparkListenerTaskStart","Stage ID":', "truncated"),
        ("not json at all", "JSON"),
        ('{"no event": 1}', "Event"),
        ("[1, 2]", "object"),
        ('{"Event":"SparkListenerTaskStart","Stage ID":1}', "Task Info"),
        ('{"Event":"SparkListenerJobEnd","Job ID":99999999999}', "2147483647"),
        ('{"Event":"SparkListenerJobEnd","Job ID":1e999}', "range"),
        ('{"Event":"SparkListenerJobEnd","Job ID":1,"Completion Time":9223372036854775807}', "9223372036854"),
        ('{"Event":"X","deep":' + "[" * 100_000 + "]" * 100_000 + "}", "deep"),
        ('{"Event":"SparkListenerLogStart","Spark Version":"\\ud800"}', ""),
        ('{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task Info":' + '{"a":' * 200_000, ""),
        ('{"Event":"SparkListenerExecutorAdded","Timestamp":' + "9" * 400 + ',"Executor ID":"1"}', ""),
        ('{"Event":"SparkListenerStageSubmitted","Stage Info":{"Stage ID":1,"Number of Tasks":-5}}', ""),
        ('{"Event":"SparkListenerJobEnd","Job ID":"\\u001b[2J"}', ""),
    ],
)
def test_a_line_that_cannot_be_used_is_counted_and_named_and_the_rest_goes_on(
    tmp_path: Path, text: str, why: str
) -> None:
    sensor, stimuli = read(tmp_path, [*log.begun(), text, log.submitted(0, 1, 5)])
    assert sensor.counts.malformed == 1
    assert sensor.counts.first_malformed[0].line == 4
    assert why in sensor.counts.first_malformed[0].why
    assert sensor.counts.first_malformed[0].why.isprintable()
    assert len(stimuli) == 1


def test_strict_stops_at_the_first_such_line(tmp_path: Path) -> None:
    with pytest.raises(LogStrict, match="log:4: "):
        read(tmp_path, [*log.begun(), "{", log.submitted(0, 1, 5)], strict=True)


def test_a_whole_last_line_without_its_newline_is_used(tmp_path: Path) -> None:
    sensor, stimuli = read(tmp_path, [*log.begun(), log.submitted(0, 1, 5)], end="")
    assert sensor.counts.cut == 0
    assert len(stimuli) == 1


@pytest.mark.parametrize("text", ["hello\n" * 500, '{"a": 1}\n' * 3])
def test_text_without_events_is_no_event_log(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text)
    sensor = EventLogSensor(open_log(str(tmp_path / "log")))
    with pytest.raises(NotEventLog):
        sensor.prologue()
        list(sensor.batches())
