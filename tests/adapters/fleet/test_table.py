"""The table as CSV and Parquet, and the summary over it."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import msgspec
import pytest

from podtide.adapters.fleet.rows import COLUMNS, FleetRow, RowStatus, shortened
from podtide.adapters.fleet.summary import OTHERS, REASONS_MAX, FleetSummary
from podtide.adapters.fleet.table import GROUP_ROWS, TableError, check_table, open_table
from podtide.domain.rerun.ledger.causes import Limit, SpendCause

OK = FleetRow(
    log="a", status=RowStatus.OK, app_id="app-1", app_name="=HYPERLINK(1)", started_ms=1_700_000_000_123, tasks_started=7,
    runtime_s=1.5, billed_seconds=20.0, core_hours=0.5,
    ledger={SpendCause.RUNNING.value: 12.0, SpendCause.STARTING.value: 8.0}, waited_s=0.0, error_runtime=-0.25,
    best="static 4", best_static=4, saving_core_hours=0.1, log_bytes=9,
    best_conf={"spark.x": None, "spark.ü": "="},
)  # fmt: skip
BAD = FleetRow(log="b", status=RowStatus.REFUSED, reason="why\nnot")


def test_there_is_a_column_for_every_cause_and_limit() -> None:
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)
    assert sum(name.startswith("ledger_") for name in names) == len(SpendCause)
    assert sum(name.startswith("wait_") for name in names) == len(Limit)
    assert {"ledger_kept_by_minimum_s", "ledger_over_requested_s", "wait_batch_size_and_delay_s", "waste_s"} <= set(
        names
    )


def test_csv(tmp_path: Path) -> None:
    with open_table(str(tmp_path / "t.csv")) as table:
        table.put(OK)
        table.put(BAD)
        assert not (tmp_path / "t.csv").exists()
        table.commit()
    with (tmp_path / "t.csv").open(newline="") as file:
        ok, bad = csv.DictReader(file)
    assert (ok["app_name"], ok["started"], ok["error_runtime"]) == (
        "'=HYPERLINK(1)",
        "2023-11-14T22:13:20.123Z",
        "-0.25",
    )
    assert (ok["ledger_running_s"], ok["ledger_leaving_s"], ok["waste_s"], ok["wait_maximum_s"]) == (
        "12.0",
        "0.0",
        "8.0",
        "0.0",
    )
    assert ok["best_conf"] == '{"spark.x":null,"spark.ü":"="}'
    assert (bad["status"], bad["reason"], bad["ledger_running_s"], bad["tasks_started"]) == (
        "refused",
        "why\\nnot",
        "",
        "",
    )


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet is NOT tested: it needs pyarrow")
    rows = GROUP_ROWS + 3
    with open_table(str(tmp_path / "t.parquet")) as table:
        for number in range(rows):
            table.put(msgspec.structs.replace(OK if number % 2 else BAD, tasks_started=number))
        table.commit()
    file = parquet.ParquetFile(tmp_path / "t.parquet")
    assert (file.metadata.num_rows, file.metadata.num_row_groups) == (rows, 2)
    read = file.read().to_pylist()
    assert [row["tasks_started"] for row in read] == list(range(rows))
    assert (read[1]["app_name"], read[1]["ledger_starting_s"], read[0]["ledger_starting_s"]) == (
        "=HYPERLINK(1)",
        8.0,
        None,
    )
    assert read[1]["started"].isoformat() == "2023-11-14T22:13:20.123000+00:00"


def test_what_is_not_committed_leaves_the_old_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("old")
    with open_table(str(tmp_path / "t.csv")) as table:
        table.put(OK)
    assert (tmp_path / "t.csv").read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t.txt", "a file that ends in .csv or .parquet was expected"),
        ("t", "a file that ends in .csv or .parquet was expected"),
        ("none/t.csv", "cannot be written: No such file or directory"),
        ("folder.csv", "is no file"),
    ],
)
def test_what_cannot_be_a_table(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match=words):
        check_table(str(tmp_path / name))


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="there is no /dev/full here")
def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").symlink_to("/dev/full")
    with open_table(str(tmp_path / "t.csv")) as table, pytest.raises(TableError, match="No space left on device"):
        for _ in range(100):
            table.put(OK)
        table.commit()


def test_long_texts_keep_both_ends() -> None:
    assert shortened("x" * 300) == "x" * 300
    assert len(shortened("a" * 500 + "z")) <= 300
    assert shortened("a" * 500 + "z").endswith("z")


def test_reasons_are_counted_without_their_numbers_and_bounded() -> None:
    with FleetSummary() as summary:
        for number in range(50):
            summary.add(FleetRow(log="x", status=RowStatus.REFUSED, reason=f"off by +{number}% in 1,{number:03} s"))
        for number in range(REASONS_MAX + 500):
            word = "".join(chr(97 + int(sign)) for sign in str(number))
            summary.add(FleetRow(log="x", status=RowStatus.FAILED, reason=f"word {word}"))
        first, *_, last = summary.reasons(REASONS_MAX + 10)
        assert first == {"status": "failed", "reason": OTHERS, "logs": 501}
        assert last["logs"] == 1
        assert {"status": "refused", "reason": "off by +0% in 1,000 s", "logs": 50} in summary.reasons()
