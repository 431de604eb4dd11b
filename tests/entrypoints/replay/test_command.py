"""``podtide replay`` as its user meets it: in this process by click's runner, and as a program of its own."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import commands
from tests.support.commands import Answer
from tests.support.project import PROJECT
from tests.support.schemas import validate
from tests.support.whatif_log import START, write_log

asked = partial(commands.answer, "replay")
ran = partial(commands.ran, "replay")
document = partial(commands.document, "replay")

T0 = 1_700_000_000_000


Event = dict[str, Any]


# ------------------------------------------------------------------------------------------------- a log by hand


def start(name: str = "made by hand", version: str = "3.5.1", **properties: str) -> list[Event]:
    conf = {f"spark.dynamicAllocation.{key}": value for key, value in {"enabled": "true", **properties}.items()}
    return [
        {"Event": "SparkListenerLogStart", "Spark Version": version},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.master": "yarn", **conf}},
        {"Event": "SparkListenerApplicationStart", "App Name": name, "App ID": "app-7", "Timestamp": T0},
    ]


def stage(number: int, tasks: int, at: int) -> list[Event]:
    info = {"Stage ID": number, "Stage Attempt ID": 0, "Number of Tasks": tasks, "Submission Time": T0 + at}
    return [
        {"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": T0 + at, "Stage Infos": [info]},
        {"Event": "SparkListenerStageSubmitted", "Stage Info": info},
    ]


def done(number: int, tasks: int, at: int) -> list[Event]:
    info = {"Stage ID": number, "Stage Attempt ID": 0, "Number of Tasks": tasks, "Completion Time": T0 + at}
    return [
        {"Event": "SparkListenerStageCompleted", "Stage Info": info},
        {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": T0 + at},
    ]


def executor(identity: str, at: int) -> Event:
    info = {"Host": "h", "Total Cores": 1}
    return {"Event": "SparkListenerExecutorAdded", "Timestamp": T0 + at, "Executor ID": identity, "Executor Info": info}


def removed(identity: str, at: int) -> Event:
    return {
        "Event": "SparkListenerExecutorRemoved",
        "Timestamp": T0 + at,
        "Executor ID": identity,
        "Removed Reason": "",
    }


def task(kind: str, number: int, index: int, identity: str, at: int) -> Event:
    info = {"Index": index, "Executor ID": identity, "Launch Time": T0 + at, "Finish Time": T0 + at}
    return {
        "Event": f"SparkListenerTask{kind}",
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Task Info": info,
        "Task End Reason": {"Reason": "Success"},
    }


def small(**properties: str) -> list[Event]:
    """Four tasks for two executors; then nothing, until one is removed and the other works again."""
    return [
        *start(**{"maxExecutors": "3", "executorIdleTimeout": "5s", **properties}),
        *stage(0, 4, 1_000),
        executor("1", 4_000),
        executor("2", 5_000),
        task("Start", 0, 0, "1", 4_100),
        task("Start", 0, 1, "2", 5_100),
        task("End", 0, 0, "1", 6_000),
        task("Start", 0, 2, "1", 6_000),
        task("End", 0, 1, "2", 7_000),
        task("Start", 0, 3, "2", 7_000),
        task("End", 0, 2, "1", 8_000),
        task("End", 0, 3, "2", 9_000),
        *done(0, 4, 9_000),
        removed("1", 15_000),
        *stage(1, 1, 20_000),
        task("Start", 1, 0, "2", 20_100),
        task("End", 1, 0, "2", 21_000),
        *done(1, 1, 21_000),
        {"Event": "SparkListenerApplicationEnd", "Timestamp": T0 + 30_000},
    ]


def lines(events: Iterable[Event]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app-7"
    path.write_text(lines(small()))
    return path


# ------------------------------------------------------------------------------------------------ two ways to ask


def decisions(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# ------------------------------------------------------------------------------------------------------- answers


def test_json_is_one_object_with_the_promised_keys(log: Path) -> None:
    told = document(log)
    assert {"app", "events", "conf", "decisions", "reports", "actual", "replayed", "notes", "limits", "series"} <= set(
        told
    )
    assert {"read": 25, "skipped": 0, "malformed": 0}.items() <= told["events"].items()
    assert {"added": 2, "removed": 1, "peak": 2, "executor_seconds": 36.0}.items() <= told["actual"].items()
    assert told["replayed"]["peak_target"] == 3
    assert told["app"]["id"] == "app-7"
    assert told["conf"]["spark.dynamicAllocation.maxExecutors"] == {"value": "3", "origin": "event log"}
    assert len(told["decisions"]) == told["replayed"]["decisions"]
    for record in (*told["decisions"], *told["reports"]):
        validate(record, "record")


def test_a_second_process_tells_the_same(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = document(log)
    monkeypatch.setattr("podtide.adapters.eventlog.decoder_process.WORTH_BYTES", 0)
    assert document(log) == alone
    log.write_text("hello\n" * 1000)
    assert (asked(log).code, asked(log, "--strict").code) == (3, 3)


def test_standard_input_folder_and_zip_are_logs_too(tmp_path: Path) -> None:
    text = lines(small()).encode()
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as zipped:
        zipped.writestr("app-7", text)
    folder = tmp_path / "eventlog_v2_app-7"
    folder.mkdir()
    (folder / "events_1_app-7").write_bytes(text)
    peaks = [document(path)["replayed"] for path in (tmp_path / "logs.zip", folder)]
    peaks.append(json.loads(ran("-", "--json", stdin=text).out)["replayed"])
    assert peaks[0] == peaks[1] == peaks[2]


# ------------------------------------------------------------------------------------------------- configuration


def test_conf_goes_over_the_file_goes_over_the_log(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "my.conf"
    file.write_text("spark.dynamicAllocation.maxExecutors 2\nspark.dynamicAllocation.minExecutors=1\nother 1\n")
    given = ("--properties-file", file, "--conf", "spark.dynamicAllocation.maxExecutors=1")
    conf = document(log, *given)["conf"]
    assert conf["spark.dynamicAllocation.maxExecutors"] == {"value": "1", "origin": "--conf"}
    assert conf["spark.dynamicAllocation.minExecutors"] == {"value": "1", "origin": "file my.conf:2"}
    assert document(log, *given[:2])["replayed"]["peak_target"] == 2
    shown = asked(log, *given).out
    assert "--conf" in shown
    assert "file my.conf" in shown
    assert "does not begin with spark. and is ignored" in shown


def test_defaults_follow_the_version_that_is_asked_for(log: Path) -> None:
    key = "spark.dynamicAllocation.shuffleTracking.enabled"
    conf = [document(log, "--spark-version", version)["conf"][key]["origin"] for version in ("3.4", "4.0")]
    assert conf == ["default of Spark 3.4", "default of Spark 4.0"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--conf", "nonsense"], "expected key=value"),
        (
            ["--conf", "spark.dynamicAllocation.minExecutors=many"],
            "spark.dynamicAllocation.minExecutors = 'many' (--conf)",
        ),
        (["--conf", "spark.dynamicAllocation.maxExecutors=0"], "expected 1 or more"),
        (["--spark-version", "banana"], "--spark-version banana: a version such as"),
        (["--properties-file", "/nowhere/my.conf"], "/nowhere/my.conf: no such file"),
        (["--decisions", "/nowhere/d.jsonl"], "/nowhere/d.jsonl: cannot be written: No such file or directory"),
        (["--json", "--decisions", "-"], "choose one"),
        (["--json", "--all"], "--all belongs to the report"),
    ],
)
def test_usage_and_configuration_are_refused_with_2(log: Path, arguments: list[str], told: str) -> None:
    answer = asked(log, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err


def test_every_error_of_a_configuration_has_a_line(log: Path) -> None:
    answer = asked(
        log, "--conf", "spark.dynamicAllocation.minExecutors=x", "--conf", "spark.dynamicAllocation.maxExecutors=y"
    )
    assert answer.err.count("podtide: ") == len(answer.err.splitlines()) == 2


# ------------------------------------------------------------------------------------- files of decisions


def test_decisions_are_the_records_of_the_json(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    assert asked(log, "--decisions", path).code == 0
    assert decisions(path) == document(log)["decisions"]
    streamed = asked(log, "--decisions", "-")
    assert [json.loads(line) for line in streamed.out.splitlines()] == decisions(path)


def test_what_was_decided_is_as_expected(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    asked(log, "--decisions", path)
    answer = asked(log, "--expect", path)
    assert answer.code == 0
    assert answer.words.startswith(f"As expected: {len(decisions(path))} decisions, each as in")
    told = document(log, "--expect", path)["expectation"]
    assert (told["agrees"], told["compared"]) == (True, len(decisions(path)))


def test_the_first_difference_is_told_with_its_story(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    asked(log, "--decisions", path)
    answer = asked(log, "--conf", "spark.dynamicAllocation.maxExecutors=2", "--expect", path)
    assert answer.code == 1
    for told in (
        "Not as expected: after 2 decisions",
        "d.jsonl:3 expects another decision",
        "It is 0:03.0 after the start, 2023-11-14 22:13:23 UTC.",
        "What led up to it",
        "target 0 → 1",
        "target 1 → 3",
        "target 1 → 2",
        "targets.0 ",
        "expected 3, decided 2",
        "facts.after ",
    ):
        assert "".join(told.split()) in "".join(answer.out.split())  # a long path wraps


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda kept: kept[:-1], "ends, and another decision came"),
        (lambda kept: [*kept, {**kept[-1], "at_ms": kept[-1]["at_ms"] + 1}], "expects a decision that did not come"),
        (lambda kept: kept[1:], "expects another decision"),
    ],
    ids=["one missing", "one more", "the first missing"],
)
def test_decisions_too_few_or_too_many_differ(log: Path, tmp_path: Path, edit: Any, told: str) -> None:
    path = tmp_path / "d.jsonl"
    asked(log, "--decisions", path)
    path.write_text("".join(json.dumps(one) + "\n" for one in edit(decisions(path))))
    answer = asked(log, "--expect", path)
    assert answer.code == 1
    assert told in answer.words


def test_with_json_the_story_goes_to_standard_error(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("")
    answer = asked(log, "--expect", path, "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["expectation"]["agrees"] is False
    assert "Not as expected" in answer.err


def test_a_file_can_be_compared_with_and_replaced_in_one_run(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"at_ms": 1, "command": "killExecutors"}\n')
    assert asked(log, "--expect", path, "--decisions", path, "--overwrite").code == 1
    assert decisions(path) == document(log)["decisions"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"at_ms": 1}\n', ":1: command is missing"),
        ("{\n", ":1: no JSON"),
        ("[1]\n", ":1: an object was expected"),
        ('{"podtide": 1, "decisions": []}\n', ":1: a whole document"),
        (None, ": cannot be read: No such file"),
    ],
)
def test_a_damaged_expectation_is_named_with_its_line(log: Path, tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "d.jsonl"
    if text is not None:
        path.write_text(text)
    answer = asked(log, "--expect", path)
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith(f"podtide: {path}{told}")


def test_damage_further_on_is_found_when_it_is_reached(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    asked(log, "--decisions", path)
    kept = path.read_text().splitlines()
    path.write_text("\n".join([*kept[:3], kept[3][:20], *kept[4:]]))
    answer = asked(log, "--expect", path)
    assert answer.code == 3
    assert f"{path}:4: no JSON" in answer.err


# ------------------------------------------------------------------------------------------------- broken logs


def test_malformed_lines_are_counted_and_named(tmp_path: Path) -> None:
    events = small()
    path = tmp_path / "app-7"
    bad = ['{"Event": "SparkListenerTaskEnd", "Stage ID": 99999999999999999999}', "{not json"]
    path.write_text(lines(events[:5]) + "\n".join(bad) + "\n" + lines(events[5:]))
    told = document(path)
    assert told["events"]["malformed"] == 2
    assert [line["line"] for line in told["events"]["malformed_lines"]] == [6, 7]
    assert told["decisions"] == document(tmp_path / "app-7")["decisions"]
    assert "app-7:6:" in "".join(asked(path).out.split())  # a long path wraps
    strict = asked(path, "--strict")
    assert (strict.code, strict.out) == (3, "")
    assert ":6: " in strict.err


def test_a_log_cut_in_its_last_line_is_used_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "app-7.inprogress"
    path.write_text(lines(small())[:-40])
    told = document(path)
    assert (told["events"]["cut"], told["events"]["malformed"]) == (1, 0)
    shown = asked(path).words
    assert "in progress, cut off at its end" in shown
    assert "the last line ends in the middle" in shown


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty; an event log was expected"),
        ("hello\n", "no Spark event in it"),
        ("hello\n" * 1000, "not an event log"),
        ('{"Event": "SparkListenerLogStart", "Spark Version": "3.5.1"}\n', "nothing to decide upon"),
        ("\x7fELF", "\\x7fELF"),
    ],
    ids=["empty", "text", "much text", "nothing happened", "binary"],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "some\x1b[31mfile"
    path.write_text(content)
    answer = asked(path)
    assert (answer.code, answer.out) == (3, "")
    assert len(answer.err.splitlines()) == 1
    assert "\x1b" not in answer.err
    assert told in answer.err or "no Spark event" in answer.err


def test_nothing_there_and_a_folder_without_events(tmp_path: Path) -> None:
    assert asked(tmp_path / "nowhere").err == f"podtide: {tmp_path}/nowhere: there is no such file or folder\n"
    answer = asked(tmp_path)
    assert answer.code == 3
    assert "no event log lies here" in answer.err


def test_a_refused_log_leaves_no_file_of_decisions(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("hello\n" * 10)
    kept = tmp_path / "d.jsonl"
    kept.write_text("as it was")
    assert asked(tmp_path / "log", "--decisions", kept, "--overwrite").code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.jsonl", "log"]
    assert kept.read_text() == "as it was"


HOSTILE = "\x1b[31m[bold]x[/bold]\x07\u202eevil\u0000\nsecond line\U0001f600\u0301"


def test_names_are_text_and_no_markup(tmp_path: Path) -> None:
    events = small()
    events[:3] = start(name=HOSTILE, version="3.5\x1b[2J", maxExecutors="3", executorIdleTimeout="5s")
    path = tmp_path / "app-7"
    path.write_text(lines(events))
    assert "[bold]x[/bold]" in asked(path).out
    assert document(path)["app"]["name"] == HOSTILE


def test_a_name_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "app-7"
    path.write_text(lines([*start(name="n" * 1_000_000), *small()[3:]]))
    assert len(asked(path).out) < 20_000


# -------------------------------------------------------------------------------------------------- real logs


PUBLIC = PROJECT.parent / "shared" / "data" / "public"


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the collection of public event logs is not beside the project")
def test_real_logs_are_told_within_the_width() -> None:
    replayed = 0
    for path in sorted(PUBLIC.glob("*/*"))[::9]:
        answer = asked(path) if path.is_file() else Answer(3, "", "")
        assert answer.code in (0, 3)
        assert max(map(len, answer.out.splitlines()), default=0) <= 100
        replayed += answer.code == 0
    assert replayed >= 3


def test_a_log_that_another_process_reads_gives_the_same_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path / "app.inprogress")
    alone = document(path)
    monkeypatch.setattr("podtide.adapters.eventlog.decoder_process.WORTH_BYTES", 1)
    together = document(path)
    assert together == alone
    assert (together["app"]["ended_ms"], together["log"]["in_progress"]) == (START + 24_000, True)


def test_what_nobody_decided_is_one_line_and_the_scale_is_of_what_there_was(tmp_path: Path) -> None:
    """Two executors where dynamic allocation would have asked for three, and let both go."""
    (tmp_path / "log").write_text(lines(small(enabled="false")))
    given = asked(tmp_path / "log")
    assert "3 kills would have been proposed; nobody decided any: dynamic allocation was off" in given.words
    assert "kill 1, 2, 2" not in given.out
    assert "target, replayed (up to 3, beyond the scale)" in given.words
    (tmp_path / "log").write_text(lines(small()))
    assert "kill 1, 2, 2" in asked(tmp_path / "log").out


def test_a_log_that_is_cut_off_says_so_before_all_else(tmp_path: Path) -> None:
    whole = gzip.compress(write_log(tmp_path / "whole").read_bytes(), mtime=0)
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) * 3 // 4])
    notes = document(tmp_path / "cut.gz")["notes"]
    assert notes[0].startswith("The log is cut off (")
    said = commands.answer("whatif", tmp_path / "cut.gz", "--seeds", "1").out
    assert said.index("! The log is incomplete") < said.index("What happened")
