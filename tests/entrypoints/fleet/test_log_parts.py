"""A log that came in parts is one row, whichever way it is given, and never one that is ok where a part is missing."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from podtide.entrypoints.cli import podtide
from tests.support.whatif_log import START, write_log

NAMES = ("eventlog-2026-11-23--09-00.gz", "eventlog-2026-11-23--10-00.gz", "eventlog")
OF_THE_FILE = {"log", "seconds", "log_bytes", "log_modified", "log_etag"}


def parts_of(log: Path, context: int = 7) -> list[str]:
    """A log as Databricks writes it: in three parts, each of which begins with its number."""
    lines = [line for line in log.read_text().splitlines() if "SparkListenerLogStart" not in line]
    third = len(lines) // 3
    parts = []
    for number, chunk in enumerate((lines[:third], lines[third : 2 * third], lines[2 * third :])):
        head = {
            "Event": "DBCEventLoggingListenerMetadata", "Spark Version": "4.3.0", "Timestamp": START + number * 3_600_000,
            "Rollover Number": number, "SparkContext Id": context,
        }  # fmt: skip
        parts.append("\n".join([json.dumps(head), *chunk]) + "\n")
    return parts


def deliver(folder: Path, parts: Sequence[str | None], names: Sequence[str] = NAMES) -> Path:
    folder.mkdir(parents=True)
    for name, part in zip(names, parts, strict=True):
        if part is not None:
            data = part.encode()
            (folder / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return folder


def fleet(out: Path, *given: Path | str) -> list[dict[str, str]]:
    answer = CliRunner().invoke(podtide, ["fleet", *map(str, given), "--out", str(out), "--jobs", "1"])
    assert answer.exit_code == 0, answer.output
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("whole") / "log")


def test_parts_in_one_folder_are_one_application_in_order(tmp_path: Path, whole: Path) -> None:
    deliver(tmp_path / "logs" / "delivered", parts_of(whole))
    (tmp_path / "logs" / "one").write_bytes(whole.read_bytes())
    delivered, one = fleet(tmp_path / "out.csv", tmp_path / "logs")
    assert (Path(delivered["log"]).name, delivered["status"], one["status"]) == ("delivered", "ok", "ok")
    differing = {name for name in one if one[name] != delivered[name]}
    assert {"log", "log_bytes"} <= differing <= OF_THE_FILE


def test_who_gives_a_part_means_the_whole(tmp_path: Path, whole: Path) -> None:
    folder = deliver(tmp_path / "logs", parts_of(whole))
    given = [folder / name for name in NAMES]
    listed = tmp_path / "list"
    listed.write_text("".join(f"{path}\n" for path in given))
    for arguments in (given, [f"{folder}/eventlog*"], ["--from", listed]):
        (row,) = fleet(tmp_path / "out.csv", *arguments)
        assert (row["log"], row["status"]) == (str(folder), "ok")


def test_what_lacks_a_part_is_never_ok(tmp_path: Path, whole: Path) -> None:
    first, second, third = parts_of(whole)
    logs = tmp_path / "logs"
    deliver(logs / "1 no start", [None, second, third])
    deliver(logs / "2 no middle", [first, None, third])
    deliver(logs / "3 swapped", [second, first, third])
    deliver(logs / "4 another's", [first, parts_of(whole, context=8)[1], third])
    deliver(logs / "5 renamed", [second, third], ["b", "c"])
    bare = [part.partition("\n")[2] for part in (second, third)]  # as split(1) leaves it
    deliver(logs / "6 split", bare, ["xab", "xac"])
    rows = fleet(tmp_path / "out.csv", logs)
    told = [(row["log"].removeprefix(f"{logs}/"), row["status"]) for row in rows]
    assert told == [
        ("1 no start", "refused"), ("2 no middle", "refused"), ("3 swapped", "refused"), ("4 another's", "refused"),
        ("5 renamed/b", "refused"), ("5 renamed/c", "refused"), ("6 split/xab", "refused"), ("6 split/xac", "refused"),
    ]  # fmt: skip
    late = "the log begins in the middle of its application"
    assert [row["reason"].startswith(late) for row in rows] == [True, False, True, False, True, True, True, True]
    assert [row["reason"].partition(":")[0] for row in (rows[1], rows[3])] == [
        "parts of the log are missing or out of order in one place",
        "parts of the log are missing or out of order in 2 places",
    ]
    assert not any(row["billed_seconds"] or row["saving_core_hours"] for row in rows)


def test_a_replay_says_first_that_the_beginning_is_missing(tmp_path: Path, whole: Path) -> None:
    folder = deliver(tmp_path / "logs", parts_of(whole))
    complete = json.loads(CliRunner().invoke(podtide, ["replay", str(folder), "--json"]).stdout)
    assert [Path(name).name for name in complete["log"]["files"]] == list(NAMES)
    assert (complete["app"]["tasks"], complete["app"]["spark_version"]) == (40, "4.3.0")
    assert not complete["events"]["faults"]
    assert not any("begins in the middle" in note for note in complete["notes"])
    part = json.loads(CliRunner().invoke(podtide, ["replay", str(folder / "eventlog"), "--json"]).stdout)
    assert part["notes"][0].startswith("The log begins in the middle of its application")
    answer = CliRunner().invoke(podtide, ["whatif", str(folder / "eventlog"), "--static", "1"])
    assert answer.exit_code == 5
    assert "begins in the middle of its application" in " ".join(answer.output.split())
