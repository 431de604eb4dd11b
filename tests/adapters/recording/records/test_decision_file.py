"""Files of decisions: whole or not at all, readable or refused by line; and comparing with one."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.recording.records import decision_file
from podtide.adapters.recording.records.decision_file import DecisionFileError, DecisionReader, DecisionWriter
from podtide.adapters.recording.records.expectation import ABSENT, Departing, Expectation, departures
from podtide.adapters.recording.records.jsonl import encoded

Record = dict[str, Any]


def decision(at: int, **more: Any) -> Record:
    return {
        "at_ms": at,
        "command": "requestTotalExecutors",
        "targets": {"0": at},
        "cause": "backlog",
        "facts": {"need": at},
        **more,
    }


def hold(phase: str) -> Record:
    return {
        "at_ms": 0,
        "report": "held",
        "phase": phase,
        "bound": "maximum",
        "profile": 0,
        "ids": [],
        "facts": {"need": 9},
    }


def written(path: Path, *records: Record) -> Path:
    with DecisionWriter(str(path)) as writer:
        for record in records:
            writer.put(record)
        writer.commit()
    return path


def read(path: Path) -> list[Record]:
    with DecisionReader(str(path)) as reader:
        return [record for _, record in reader.decisions()]


def test_modes_are_the_users(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        fresh = written(tmp_path / "fresh")
        (tmp_path / "old").touch(mode=0o600)
        old = written(tmp_path / "old")
    finally:
        os.umask(mask)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (fresh, old)] == [0o640, 0o600]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    written(tmp_path / "link", decision(1))
    assert (tmp_path / "link").is_symlink()
    assert read(tmp_path / "target") == [decision(1)]


def test_a_device_is_written_to_not_replaced() -> None:
    written(Path("/dev/null"), decision(1))
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_folder_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "where"):
        with pytest.raises(DecisionFileError, match="cannot be written"):
            DecisionWriter(str(path))


def test_blank_lines_are_passed_over_and_lines_counted(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_bytes(b"\n" + encoded(decision(1)) + b"  \n" + encoded(decision(2)).strip())
    with DecisionReader(str(path)) as reader:
        assert [line for line, _ in reader.decisions()] == [2, 4]


@pytest.mark.parametrize("header", [{"podtide": 1, "kind": "decisions", "app": "x"}])
def test_a_header_of_this_version_is_passed_over(tmp_path: Path, header: Record) -> None:
    path = tmp_path / "d"
    path.write_text(json.dumps(header) + "\n" + json.dumps(decision(1)) + "\n")
    assert read(path) == [decision(1)]
    path.write_text(json.dumps({**header, "podtide": 2}))
    with pytest.raises(DecisionFileError, match="d:1: version 2 of the format; 1 is understood"):
        read(path)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("7", "an object was expected"),
        ('{"at_ms": "1", "command": "x"}', "at_ms is missing or no whole number"),
        ('{"at_ms": true, "command": "x"}', "at_ms is missing or no whole number"),
        ('{"at_ms": 1}', "command is missing"),
        ('{"at_ms": 1, "command": "x", "ids": {}}', "ids is no list"),
        ('{"at_ms": 1, "command": "x", "facts": []}', "facts is no object"),
        ('{"at_ms": 1, "command": "x", "changes": [1]}', "changes holds something that is no change"),
        ('{"decisions": []}', "a whole document"),
        ("\x00", "no JSON"),
    ],
)
def test_damage_is_named_by_line(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "d"
    path.write_text(json.dumps(decision(1)) + "\n" + line + "\n")
    with pytest.raises(DecisionFileError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}:2: {why}")


def test_an_endless_line_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_file, "LINE_MAX", 1000)
    path = tmp_path / "d"
    path.write_text("x" * 5000)
    with pytest.raises(DecisionFileError, match=":1: the line is longer than 1,000 bytes"):
        read(path)


def test_lines_are_ascii_whatever_the_names() -> None:
    record = decision(1, ids=["\x1b\x7f\x9b\u202e\U0001f600", "2"])
    assert all(0x20 <= sign < 0x7F for sign in encoded(record)[:-1])
    assert json.loads(encoded(record)) == record


# -------------------------------------------------------------------------------------------------- comparing


def compared(path: Path, *decided: Record) -> Expectation:
    with DecisionReader(str(path)) as reader:
        expectation = Expectation(reader)
        for record in decided:
            expectation.take(record)
        expectation.finish()
    return expectation


decided = st.lists(st.integers(0, 3).map(decision), max_size=8)


@given(decided, decided)
def test_the_first_difference_is_where_the_lists_part(
    tmp_path_factory: Any, one: list[Record], other: list[Record]
) -> None:
    path = written(tmp_path_factory.getbasetemp() / "parting", *one)
    found = compared(path, *other)
    shared = next(
        (n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )
    assert found.compared == shared
    if one == other:
        assert found.difference is None
        return
    assert found.difference is not None
    assert found.difference.expected == (one[shared] if shared < len(one) else None)
    assert found.difference.decided == (other[shared] if shared < len(other) else None)
    assert found.difference.before == other[max(0, shared - 5) : shared]
    assert found.difference.next_decided == other[shared + 1 : shared + 4]
    assert json.loads(json.dumps(found.document()))["agrees"] is False


def test_bounds_that_held_belong_to_the_story(tmp_path: Path) -> None:
    path = written(tmp_path / "d", decision(1), decision(2))
    found = compared(path, decision(1), hold("began"), decision(3))
    assert found.difference is not None
    assert found.difference.holds == [hold("began")]
    found = compared(path, decision(1), hold("began"), hold("ended"), decision(3))
    assert found.difference is not None
    assert found.difference.holds == []


@pytest.mark.parametrize(
    ("expected", "parted"),
    [
        (decision(1), []),
        ({"at_ms": 1, "command": "requestTotalExecutors"}, []),
        (decision(1, facts={}), []),
        (decision(1, facts={"need": 2}), [Departing("facts.need", 2, 1)]),
        (decision(1, facts={"slots": 2}), [Departing("facts.slots", 2, ABSENT)]),
        (decision(1, targets={}), [Departing("targets.0", ABSENT, 1)]),
        (decision(1, targets={"0": 1, "1": 5}), [Departing("targets.1", 5, ABSENT)]),
        (decision(1, cause="idle"), [Departing("cause", "idle", "backlog")]),
        (decision(1, ids=["1"]), [Departing("ids", ["1"], ABSENT)]),
    ],
)
def test_an_expectation_asks_for_what_it_names(expected: Record, parted: list[Departing]) -> None:
    assert departures(expected, decision(1)) == parted
