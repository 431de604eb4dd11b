"""Replays, put together: what is decided over a log, which config is in force, and real logs from everywhere."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.sensor import EventLogSensor
from podtide.domain.conf.spark_conf import COMMAND_LINE, SparkConf, from_mapping
from podtide.entrypoints.cli import podtide
from podtide.entrypoints.common import event_loop
from podtide.entrypoints.common.log_config import NothingToReplay
from podtide.entrypoints.replay.run import Replay
from tests.support import event_log_lines as log
from tests.support.project import DEMO, PROJECT
from tests.support.schemas import validate

PUBLIC = PROJECT.parent / "shared" / "data" / "public"

Records = list[dict[str, Any]]


def replay(path: str, overrides: tuple[SparkConf, ...] = (), **more: Any) -> tuple[dict[str, Any], Records]:
    records: Records = []
    with open_log(path) as source:
        document = Replay(EventLogSensor(source), records.append, overrides, **more).run()
    return document, records


def changed(**conf: str) -> tuple[SparkConf, ...]:
    return (from_mapping({f"spark.dynamicAllocation.{k}": v for k, v in conf.items()}, COMMAND_LINE),)


def commands(records: Records, call: str) -> Records:
    return [r for r in records if r.get("command") == call]


def bursts() -> list[str]:
    """Ten tasks on two executors, then nothing for two minutes, then one task on the executor that stayed."""
    lines = [*log.begun(maxExecutors="4"), log.submitted(0, 10, 1_000)]
    lines += [log.executor("1", 3_000), log.executor("2", 3_000)]
    for index in range(10):
        lines.append(log.task(0, index, str(1 + index % 2), 3_000 + 100 * index))
    for index in range(10):
        lines.append(log.task(0, index, str(1 + index % 2), 3_000, 5_000 + 100 * index))
    lines += [log.completed(0, 10, 6_000), log.submitted(1, 1, 120_000), log.task(1, 0, "2", 120_000)]
    return [*lines, log.task(1, 0, "2", 120_000, 121_000), log.completed(1, 1, 121_000)]


def test_the_ramp_and_what_held_it(tmp_path: Path) -> None:
    _, records = replay(log.written(tmp_path, bursts()))
    asked = commands(records, "requestTotalExecutors")
    targets = [(r["at_ms"] - log.START, r["targets"]["0"], r["cause"], r["facts"].get("bound")) for r in asked]
    assert targets[:3] == [
        (0, 0, "initial", None),
        (2_000, 1, "backlog", "ramp"),
        (3_000, 4, "sustained backlog", "maximum"),  # two executors are there: max(1, 2) + 2
    ]
    assert {cause for _, _, cause, _ in targets[3:7]} == {"lowered need"}


def test_a_kill_that_the_log_disproves_is_taken_back(tmp_path: Path) -> None:
    document, records = replay(log.written(tmp_path, bursts()))
    assert document["replayed"]["kills_proposed"] == 2
    assert document["replayed"]["kills_disproved"] == 1
    assert document["replayed"]["kills_unconfirmed"] == 1
    assert [r["ids"] for r in records if r.get("report") == "kill disproved"] == [["2"]]


def test_a_log_with_an_unusable_conf_is_replayed_without_it_and_says_so(tmp_path: Path) -> None:
    lines = bursts()
    lines[1] = lines[1].replace('"4"', '"four"')
    document, _ = replay(log.written(tmp_path, lines))
    assert any("maxExecutors" in note for note in document["notes"])
    assert document["replayed"]["peak_target"] > 0


@pytest.mark.parametrize(
    ("version", "tracking"), [("3.1.2", "false"), ("3.3.0-amzn-0", "false"), ("3.5.1", "true"), ("4.3.0", "true")]
)
def test_defaults_follow_the_version_of_the_log(tmp_path: Path, version: str, tracking: str) -> None:
    lines = [*log.begun(version, maxExecutors="4"), *bursts()[3:]]
    document, _ = replay(log.written(tmp_path, lines))
    assert document["conf"]["spark.dynamicAllocation.shuffleTracking.enabled"]["value"] == tracking
    assert document["behaviour"] == "4.3.0"


def test_an_application_without_dynamic_allocation_is_recognised(tmp_path: Path) -> None:
    lines = [
        line.replace('"spark.dynamicAllocation.enabled": "true"', '"spark.databricks.x": "y"') for line in bursts()
    ]
    document, _ = replay(log.written(tmp_path, lines))
    assert document["dynamic_allocation"] is False
    assert document["platform"] == "Databricks"


def test_the_document_is_as_documented() -> None:
    printed = CliRunner().invoke(podtide, ["replay", str(DEMO), "--json"], standalone_mode=False)
    document = json.loads(printed.stdout_bytes)
    validate(document, "replay")
    for record in (*document["decisions"], *document["reports"]):
        validate(record, "record")


def test_the_demo_reaches_what_its_driver_reached() -> None:
    document, _ = replay(str(DEMO))
    assert document["replayed"]["peak_target"] == document["actual"]["peak"] == 5
    assert document["actual"]["added"] == 13
    assert document["replayed"]["bounds"] is not None


def test_a_schedule_that_throws_for_ever_does_not_take_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "SILENT_TICKS_MAX", 2_000)
    lines = [
        *log.begun(),
        log.submitted(0, 2_000_000_000, 1),
        log.submitted(1, 5, 2).replace('"Submission Time"', '"Resource Profile Id": 9, "Submission Time"'),
    ]
    lines.append(log.executor("1", 1_000_000_000_000))
    document, records = replay(log.written(tmp_path, lines))
    assert any("not followed" in limit for limit in document["limits"])
    assert any(r.get("report") == "schedule threw" for r in records)


def _public() -> Iterator[Any]:
    if not PUBLIC.is_dir():
        yield pytest.param(None, id="none", marks=pytest.mark.skip("other people's logs are not beside the project"))
        return
    with (PUBLIC / "index.tsv").open(encoding="utf-8") as index:
        for row in csv.DictReader(index, delimiter="\t"):
            yield pytest.param(row, id=row["file"])


@pytest.mark.parametrize("row", list(_public()))
def test_other_peoples_logs_replay(row: dict[str, str]) -> None:
    tasks, executors = int(row["tasks"] or 0), int(row["execs_added"] or 0)
    try:
        document, records = replay(str(PUBLIC / row["file"]))
    except (NothingToReplay, LogError):
        assert not (tasks and executors)
        return
    assert document["actual"]["removed"] == int(row["execs_removed"] or 0)
    if executors:
        assert document["actual"]["added"] == executors
        assert document["actual"]["peak"] == int(row["peak_execs"])
    assert document["events"]["malformed"] == ("bad_lines=1" in row["notes"])
    assert records
    assert [one for one in document["stalls"] if one["blocked"]] == [], "a healthy log raises no alarm"
