"""The journal: whatever is torn off or damaged, what is whole is kept, and appending goes on behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from podtide.adapters.fleet.journal import Journal, JournalError, digest, key_of
from podtide.adapters.fleet.rows import Row, Stamp, Status


def row(number: int, name: str = "job") -> Row:
    return Row(log=f"log-{number}", status=Status.OK, app_name=name, runtime_s=number / 7, ledger={"running": 1.5})


def written(table: Path, rows: int) -> bytes:
    with Journal(str(table), fresh=True) as journal:
        for number in range(rows):
            journal.append(f"key-{number}", "limits", row(number))
    return Path(f"{table}.partial").read_bytes()


def test_what_was_appended_is_read_again_and_found_by_its_place(tmp_path: Path) -> None:
    with Journal(str(tmp_path / "t.csv")) as journal:
        places = [journal.append(f"key-{n}", "limits", row(n, "=ünï\n")) for n in range(5)]
        kept = list(journal.records())
        assert [(one.at, one.size) for one in kept] == places
        assert [one.row for one in kept] == [row(n, "=ünï\n") for n in range(5)]
        assert journal.row_at(*places[3]) == row(3, "=ünï\n")
        assert journal.damaged == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_cut_anywhere_what_is_whole_is_kept_and_appending_goes_on(tmp_path: Path, data: st.DataObject) -> None:
    table = tmp_path / "t.csv"
    whole = written(table, 6)
    cut = data.draw(st.integers(1, len(whole)))
    garbage = data.draw(st.binary(max_size=40))
    Path(f"{table}.partial").write_bytes(whole[:cut] + garbage)
    complete = whole[:cut].count(b"\n")
    with Journal(str(table)) as journal:
        kept = [one.row for one in journal.records()]
        assert kept[:complete] == [row(number) for number in range(complete)]
        assert len(kept) <= complete + 1  # the garbage may be the very newline that was cut off
        at, size = journal.append("more", "limits", row(99))
        assert journal.row_at(at, size) == row(99)
        assert [one.row for one in journal.records()] == [*kept, row(99)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(at=st.integers(0, 10_000), sign=st.integers(0, 255))
def test_damage_in_between_costs_only_what_it_touches(tmp_path: Path, at: int, sign: int) -> None:
    table = tmp_path / "t.csv"
    whole = bytearray(written(table, 6))
    whole[at % len(whole)] = sign
    Path(f"{table}.partial").write_bytes(whole)
    with Journal(str(table)) as journal:
        kept = [one.row.log for one in journal.records()]
    assert set(kept) <= {f"log-{n}" for n in range(6)}
    assert len(kept) >= 4  # a newline that is damaged takes two


def test_a_key_knows_the_log_and_the_question() -> None:
    stamp = Stamp(10, 20, "tag")
    others = [
        key_of("b", stamp, "q"), key_of("a", Stamp(11, 20, "tag"), "q"), key_of("a", Stamp(10, 21, "tag"), "q"),
        key_of("a", Stamp(10, 20, "other"), "q"), key_of("a", stamp, "p"),
    ]  # fmt: skip
    assert key_of("a", stamp, "q") not in others
    assert len(set(others)) == len(others)
    assert key_of("a", stamp, "q") == key_of("a", stamp, "q")
    assert re.fullmatch("[0-9a-f]{32}", digest("\udcff"))


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with Journal(str(tmp_path / "t.csv")) as journal:
        journal.append("key", "limits", row(1))
        with pytest.raises(JournalError, match="another run is writing it"):
            Journal(str(tmp_path / "t.csv"))
    with Journal(str(tmp_path / "t.csv")) as journal:
        assert len(list(journal.records())) == 1


def test_an_empty_journal_leaves_nothing_behind(tmp_path: Path) -> None:
    with Journal(str(tmp_path / "t.csv")):
        pass
    with Journal(str(tmp_path / "t.csv")) as journal:
        journal.append("key", "limits", row(1))
        journal.remove()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"nowhere/t\.csv\.partial: cannot be opened: No such file or directory"):
        Journal(str(tmp_path / "nowhere" / "t.csv"))
