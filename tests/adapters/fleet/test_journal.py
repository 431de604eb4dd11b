"""The journal: whatever is torn off, what is whole is kept, and the run goes on; the list of logs is in order."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from podtide.adapters.fleet.discovery import FoundLog
from podtide.adapters.fleet.journal import Journal, JournalError
from podtide.adapters.fleet.rows import FleetRow, RowStatus, Stamp
from tests.support.project import PROJECT

KILLED = """
import os, signal, sys
from podtide.adapters.fleet.journal import Journal
from podtide.adapters.fleet.rows import FleetRow, RowStatus
journal = Journal(sys.argv[1])
for number in range(6):
    journal.keep(f"key-{number}", "limits", FleetRow(log=f"log-{number}", status=RowStatus.OK))
os.kill(os.getpid(), signal.SIGKILL)
"""


def row(number: int, name: str = "job", status: RowStatus = RowStatus.OK) -> FleetRow:
    return FleetRow(log=f"log-{number}", status=status, app_name=name, runtime_s=number / 7, ledger={"running": 1.5})


def with_logs(table: Path, logs: int, *, fresh: bool = False) -> Journal:
    journal = Journal(str(table), fresh=fresh)
    for number in range(logs):
        journal.add(0, FoundLog(f"log-{number}", Stamp(1), True), f"key-{number}")
    return journal


def kept(table: Path, logs: int = 10) -> list[str]:
    with with_logs(table, logs) as journal:
        journal.reuse("limits")
        return [one.log for one in journal.rows()]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of six rows whose process was killed."""
    table = tmp_path_factory.mktemp("killed") / "t.csv"
    subprocess.run([sys.executable, "-c", KILLED, table], env={"PYTHONPATH": str(PROJECT / ".typing")}, check=False)
    return table


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_cut_anywhere_what_is_whole_is_kept_and_the_run_goes_on(
    tmp_path: Path, killed: Path, data: st.DataObject
) -> None:
    table = tmp_path / "t.csv"
    shutil.copy(f"{killed}.partial", f"{table}.partial")
    whole = Path(f"{killed}.partial-wal").read_bytes()
    cut = data.draw(st.integers(1, len(whole)))
    Path(f"{table}.partial-wal").write_bytes(whole[:cut] + data.draw(st.binary(max_size=40)))
    rows = kept(table)
    assert rows == [f"log-{number}" for number in range(len(rows))]
    assert len(rows) == 6 or cut < len(whole)
    with Journal(str(table)) as journal:
        journal.keep("key-9", "limits", row(9))
    assert kept(table) == [*rows, "log-9"]


@pytest.mark.parametrize("fresh", [False, True])
def test_one_run_at_a_time(tmp_path: Path, fresh: bool) -> None:
    with Journal(str(tmp_path / "t.csv")) as journal:
        journal.keep("key-0", "limits", row(0))
        with pytest.raises(JournalError, match="another run is writing it"):
            Journal(str(tmp_path / "t.csv"), fresh=fresh)
    assert kept(tmp_path / "t.csv") == ["log-0"]


def test_an_empty_journal_leaves_nothing_behind(tmp_path: Path) -> None:
    with Journal(str(tmp_path / "t.csv")):
        pass
    with Journal(str(tmp_path / "t.csv")) as journal:
        journal.keep("key", "limits", row(1))
        journal.remove()
    assert not list(tmp_path.iterdir())


def test_a_journal_of_the_old_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv.partial").write_text('0f1e2d3c {"key":"k","limits":"l","row":{"log":"a","status":"ok"}}\n')
    with pytest.raises(JournalError, match=r"t\.csv\.partial: is damaged, or of an older podtide; --fresh starts over"):
        Journal(str(tmp_path / "t.csv"))
    with with_logs(tmp_path / "t.csv", 1, fresh=True) as journal:
        journal.keep("key-0", "limits", row(0))
    assert kept(tmp_path / "t.csv") == ["log-0"]


def test_a_journal_that_is_damaged_is_refused_in_one_line(tmp_path: Path) -> None:
    with with_logs(tmp_path / "t.csv", 1) as journal:
        journal.keep("key-0", "limits", row(0))
    path = tmp_path / "t.csv.partial"
    path.write_bytes(path.read_bytes()[:4096] + b"\x07" * 4096)
    with pytest.raises(JournalError, match=r"^[^\n]*t\.csv\.partial: [^\n]*$"):
        kept(tmp_path / "t.csv")


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.csv.partial") as base:
        base.execute("CREATE TABLE rows (x)")
    base.close()
    with pytest.raises(JournalError, match=r"t\.csv\.partial: cannot be read: no such column"):
        kept(tmp_path / "t.csv")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"nowhere/t\.csv\.partial: cannot be opened: No such file or directory"):
        Journal(str(tmp_path / "nowhere" / "t.csv"))
