"""``podtide replay`` of a recording, as its user meets it."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, SPARK_POLICIES, split_evenly
from podtide.entrypoints.cli import podtide
from podtide.entrypoints.replay.command import replay
from tests.support.project import PROJECT
from tests.support.recordings import (
    APP,
    CONF,
    T0,
    calm,
    first_decided,
    lines,
    record,
    rewritten,
    scaled,
    stormy,
    wanted,
)
from tests.support.schemas import validate

DEMO = next((PROJECT / "demo").glob("eventlog_v2_*"))
PROGRAM = [sys.executable, "-c", "from podtide.entrypoints.cli import main; main()"]
PLAIN: dict[str, str | None] = {"COLUMNS": "100", "FORCE_COLOR": None, "NO_COLOR": None, "TERM": "dumb"}
BATCH = ("--conf", "spark.kubernetes.allocation.batch.size=2")


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def asked(*arguments: str | Path, columns: int = 100) -> Answer:
    runner = CliRunner(env={**PLAIN, "COLUMNS": str(columns)})
    result = runner.invoke(replay, [str(one) for one in arguments], standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        complaint = io.StringIO()
        result.exception.show(complaint)
        return Answer(result.exception.exit_code, result.stdout, result.stderr + complaint.getvalue())
    assert result.exception is None, result.exception
    return Answer(result.return_value, result.stdout, result.stderr)


def program(arguments: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / ".typing"), "COLUMNS": "100", **options.pop("env", {})}
    return subprocess.Popen([*PROGRAM, "replay", *map(str, arguments)], env=environment, **options)


def ran(*arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None) -> Answer:
    pipe = subprocess.PIPE
    with program(arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=env or {}) as process:
        out, err = process.communicate(stdin, timeout=120)
    return Answer(process.returncode, out.decode(), err.decode())


def words(answer: Answer) -> str:
    return " ".join(answer.out.split())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    makers: dict[str, Callable[[Path], Path]] = {"calm": calm, "stormy": stormy, "scaled": scaled}
    return {name: make(folder / f"{name}.jsonl") for name, make in makers.items()}


@pytest.fixture
def recording(made: dict[str, Path], tmp_path: Path) -> Path:
    """A recording of one's own to spoil."""
    return Path(shutil.copy(made["calm"], tmp_path / "r.jsonl"))


# ------------------------------------------------------------------------------------------------------- what is shown


def test_a_recording_is_known_by_itself_and_told_like_a_log(made: dict[str, Path]) -> None:
    answer = asked(made["calm"])
    assert (answer.code, answer.err) == (0, "")
    for told in (
        f"Recording of {APP}",
        "of a fake cluster, seed 1",
        "2023-11-14 22:13:20 UTC",
        "kubernetes.allocation.batch.size 5",
        "target 0 → 12",
        "+ 12 pods (1 to 12)",
        "by allocation.batch.size",
        "target 12 → 15",
        "set from outside",
    ):
        assert told in words(answer), told


def test_what_went_wrong_is_told_with_its_reasons(made: dict[str, Path]) -> None:
    told = words(asked(made["stormy"]))
    assert "creations failed: 429" in told or "creation failed: 429" in told
    assert "exit code 137" in told
    assert "pod failed" in told
    assert "target 20 → 5" in told


def test_dynamic_allocation_is_told_in_its_own_words(made: dict[str, Path]) -> None:
    told = words(asked(made["scaled"]))
    assert "backlog" in told
    assert "held at 4 by maxExecutors" in told
    assert "kill 1, 2, 3, 4 idle" in told
    assert "(timeout 10 s)" in told


def test_all_shows_every_decision(made: dict[str, Path]) -> None:
    told = asked(made["calm"], "--all").out
    assert told.count("create pod ") == 15
    assert "accept executor 15" in told


def test_json_is_one_object_with_the_promised_keys(made: dict[str, Path]) -> None:
    answer = asked(made["stormy"], "--json")
    assert answer.code == 0
    told = json.loads(answer.out)
    assert told["kind"] == "replay of a recording"
    assert told["app"] == {"id": APP, "first_ms": T0, "last_ms": told["app"]["last_ms"]}
    assert told["recording"]["source"] == "fake"
    assert told["recording"]["cut"] is None
    assert told["check"]["agrees"] is True
    assert told["conf"]["spark.kubernetes.allocation.batch.size"] == {"value": "5", "origin": "recording"}
    commands = [one for line in lines(made["stormy"]) for one in line.get("decided", ()) if "command" in one]
    assert told["decisions"] == commands
    for one in (*told["decisions"], *told["reports"]):
        validate(one, "record")


def test_decisions_go_to_a_file_and_are_expected_of_the_next_run(made: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    assert asked(made["calm"], "--decisions", path).code == 0
    decided = [json.loads(line) for line in path.read_text().splitlines()]
    assert decided == json.loads(asked(made["calm"], "--json").out)["decisions"]
    assert asked(made["calm"], "--decisions", "-").out == path.read_text()
    assert words(asked(made["calm"], "--expect", path)).startswith(f"As expected: {len(decided)} decisions")
    answer = asked(made["calm"], "--expect", path, *BATCH)
    assert answer.code == 1
    assert "Not as expected" in answer.out


def test_sparks_log_is_written_from_a_recording_without_remarks(made: dict[str, Path]) -> None:
    said = asked(made["calm"], "--spark-log", "-").out
    assert "ExecutorPodsAllocator: Going to request 5 executors from Kubernetes for ResourceProfile Id: 0" in said
    assert said.splitlines()[0].startswith("23/11/14 22:13:20 INFO ")


# --------------------------------------------------------------------------------------------------------------- check


@pytest.mark.parametrize("name", ["calm", "stormy", "scaled"])
def test_a_faithful_recording_agrees(made: dict[str, Path], name: str) -> None:
    listed = lines(made[name])
    decided = sum(len(line.get("decided", ())) for line in listed)
    steps = sum("stimuli" in line for line in listed)
    answer = asked(made[name], "--check")
    assert (answer.code, answer.err) == (0, "")
    assert words(answer) == f"Agrees: {decided:,} decisions in {steps:,} steps, each as recorded in {made[name]}."


def test_remarks_are_compared_where_they_were_recorded(tmp_path: Path) -> None:
    path = record(tmp_path / "remarked.jsonl", wanted((0, 6)), remarks=True, seconds=20)
    assert asked(path, "--check").code == 0

    def silence(listed: list[Any]) -> None:
        place, _ = next(
            (place, one)
            for place, line in enumerate(listed)
            for one in line.get("decided", ())
            if one.get("topic") == "going to request"
        )
        listed[place]["decided"] = [one for one in listed[place]["decided"] if one.get("report") != "remark"]

    assert asked(path, "--check").code == 0
    answer = asked(rewritten(path, silence), "--check")
    assert answer.code == 1


@pytest.mark.parametrize("name", ["calm", "stormy", "scaled"])
def test_compressed_agrees_too(made: dict[str, Path], name: str, tmp_path: Path) -> None:
    makers = {"calm": calm, "stormy": stormy, "scaled": scaled}
    assert asked(makers[name](tmp_path / "r.jsonl.zst"), "--check").code == 0


def test_fixes_and_switches_are_replayed_as_recorded(tmp_path: Path) -> None:
    path = record(tmp_path / "fixed.jsonl", wanted((0, 6)), policies=FIXED_POLICIES, seconds=20)
    assert asked(path, "--check").code == 0
    answer = asked(path, "--check", "--fix", "none")
    assert "policy back_off: off" in words(answer)


def test_a_tampered_decision_diverges_at_its_step(recording: Path) -> None:
    place, one = first_decided(lines(recording), "createPod")

    def tamper(listed: list[Any]) -> None:
        listed[place]["decided"][1]["executor"] = 77
        listed[place]["decided"][1]["facts"]["target"] = 13

    answer = asked(rewritten(recording, tamper), "--check")
    assert answer.code == 1
    told = words(answer)
    assert one["executor"] == 1
    for part in (
        "Diverges: after 1 decision",
        f"{recording}:{place} is decided otherwise",  # lines count from 1, and the stimuli stand one line before
        "What led up to it",
        "What entered the step",
        "create the config map succeeded",
        "The first 1 decision of the step agree",
        "create pod 77",
        "create pod 2",
        "executor recorded 77, decided 2",
        "facts.target recorded 13, decided 12",
    ):
        assert part in told, part


def test_what_was_held_at_the_divergence_is_told(recording: Path) -> None:
    def tamper(listed: list[Any]) -> None:
        places = [
            place
            for place, line in enumerate(listed)
            for one in line.get("decided", ())
            if one.get("command") == "createPod" and one["executor"] == 6
        ]
        listed[places[0]]["decided"][0]["profile"] = 3

    told = words(asked(rewritten(recording, tamper), "--check"))
    assert "What was held at that time" in told
    assert "7 by pods asked for and not seen yet since 0:00." in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda decided: decided.pop(), "Recorded nothing more"),
        (lambda decided: decided.append(decided[0]), "Decided now nothing more"),
        (lambda decided: decided.reverse(), "recorded 5, decided 1"),
    ],
    ids=["one missing", "one more", "another order"],
)
def test_decisions_are_compared_in_number_and_order(recording: Path, change: Any, told: str) -> None:
    place, _ = first_decided(lines(recording), "createPod")
    answer = asked(rewritten(recording, lambda listed: change(listed[place]["decided"])), "--check")
    assert answer.code == 1
    assert told in words(answer)


def test_another_conf_diverges_and_is_told(made: dict[str, Path]) -> None:
    answer = asked(made["calm"], "--check", *BATCH)
    assert answer.code == 1
    assert "Not as recorded on purpose: spark.kubernetes.allocation.batch.size=2." in words(answer)
    same = asked(made["calm"], "--check", "--conf", "spark.kubernetes.allocation.batch.size=5")
    assert same.code == 0
    assert "on purpose" not in same.out


def test_the_check_is_told_as_json(recording: Path) -> None:
    told = json.loads(asked(recording, "--check", "--json").out)
    assert (told["kind"], told["check"]["agrees"], told["check"]["divergence"]) == ("check of a recording", True, None)
    answer = asked(recording, "--check", "--json", *BATCH)
    assert answer.code == 1
    story = json.loads(answer.out)["check"]["divergence"]
    assert story["agreed"] == 2
    assert [one["executor"] for one in story["recorded"]] == [3, 4, 5]
    assert story["decided"] == []


def test_a_policy_of_ones_own_is_given_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def mine(consumers, slots):\n    return [1] * len(consumers)\n"
    (tmp_path / "podtide_test_policy.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import podtide_test_policy  # type: ignore[import-not-found]  # noqa: PLC0415 - it was just written

    policies = SPARK_POLICIES.__class__(split=podtide_test_policy.mine)
    path = record(tmp_path / "own.jsonl", wanted((0, 3)), policies=policies, seconds=20)
    unknown = asked(path, "--check")
    assert unknown.code == 2
    assert "the policy podtide_test_policy:mine (split) is not known here" in unknown.err
    given = asked(path, "--check", "--policy", "split=podtide_test_policy:mine")
    assert (given.code, "on purpose" in given.out) == (0, False)
    spark = asked(path, "--check", "--policy", "split=spark")
    assert spark.code == 1
    assert f"policy split: {split_evenly.__name__}, recorded podtide_test_policy:mine" in words(spark)


# ------------------------------------------------------------------------------------------------- under another conf


def test_another_conf_is_replayed_on_and_what_differs_is_told(made: dict[str, Path]) -> None:
    answer = asked(made["calm"], *BATCH)
    assert answer.code == 0
    told = words(answer)
    assert "--conf kubernetes.allocation.batch.size 2" in told
    assert "Not as recorded, because it was asked for: spark.kubernetes.allocation.batch.size=2." in told
    assert "it is decided otherwise than recorded, after" in told
    document = json.loads(asked(made["calm"], *BATCH, "--json").out)
    assert document["changed"] == ["spark.kubernetes.allocation.batch.size=2"]
    created = [one["executor"] for one in document["decisions"] if one["command"] == "createPod"]
    # Pods that were seen count, whoever asked for them; the recorded answers came to the calls that were made later.
    assert created == list(range(1, len(created) + 1))
    assert 5 < len(created) < 15


def test_more_than_was_recorded_goes_on_too(made: dict[str, Path]) -> None:
    document = json.loads(asked(made["calm"], "--json", "--conf", "spark.kubernetes.allocation.batch.size=20").out)
    created = [one["executor"] for one in document["decisions"] if one["command"] == "createPod"]
    assert created[:12] == list(range(1, 13))
    assert document["check"]["divergence"]["agreed"] == 5
    assert {one["at_ms"] for one in document["decisions"] if one.get("executor") in range(1, 13)} >= {
        document["check"]["divergence"]["at_ms"]
    }


def test_values_that_spark_would_not_show_are_not_shown(made: dict[str, Path]) -> None:
    answer = asked(made["calm"], "--check", "--conf", "spark.my.password=hunter2")
    assert "hunter2" not in answer.out
    assert "spark.my.password=" in answer.out


# ----------------------------------------------------------------------------------------------------- cut and damaged


def test_a_cut_recording_is_checked_up_to_its_last_whole_step(recording: Path) -> None:
    data = recording.read_bytes()
    header = data.index(b"\n") + 1
    first = data.index(b"\n", header) + 1
    for size in sorted({first, first + 1, len(data) // 2, len(data) - 2, *range(first, len(data), len(data) // 23)}):
        recording.write_bytes(data[:size])
        answer = asked(recording, "--check")
        assert answer.code == 0, (size, answer)
        assert words(answer).startswith("Agrees: ")
        assert "up to its last whole step: the recording is cut off" in words(answer)
    recording.write_bytes(data[: len(data) // 2])
    assert "The recording is cut off" in words(asked(recording))


@pytest.mark.parametrize(
    ("keep", "code", "told"),
    [(40, 3, ":1: cut off in its first line"), (None, 3, "no step is recorded"), (0, 3, "")],
    ids=["in the header", "after the header", "before it"],
)
def test_what_is_cut_too_early_cannot_be_read(recording: Path, keep: int | None, code: int, told: str) -> None:
    data = recording.read_bytes()
    recording.write_bytes(data[: data.index(b"\n") + 1 if keep is None else keep])
    answer = asked(recording, "--check")
    assert answer.code == code
    assert told in answer.err


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda listed: listed.__delitem__(-2), ": the end of "),
        (lambda listed: listed[5].update(stimuli=[{"stimulus": "Nonsense"}]), ":6: no line of a recording"),
        (lambda listed: listed[3].update(at_ms=1), ":4: at_ms is 1 after"),
        (lambda listed: listed[1].update(stimuli=[{"stimulus": "Wake"}]), ":2: the first step does not start"),
        (
            lambda listed: listed[3].update(stimuli=[{"stimulus": "CreationFailed", "executor": 1}]),
            ":4: CreationFailed is told by one machine to another",
        ),
    ],
    ids=["lines missing", "unknown stimulus", "time falls", "no start", "a word between machines"],
)
def test_damage_is_refused_with_file_and_line(recording: Path, change: Any, told: str) -> None:
    answer = asked(rewritten(recording, change), "--check")
    assert answer.code == 3
    assert str(recording) in answer.err
    assert told in answer.err


def test_names_of_a_stranger_steer_no_terminal(recording: Path) -> None:
    evil = "\x1b[31mexec\n\x07"

    def change(listed: list[Any]) -> None:
        listed[0]["app_id"] = evil
        listed[0]["conf"]["spark.executor.instances\x1b]0;"] = evil
        listed[2]["decided"] = []
        del listed[2]

    answer = asked(rewritten(recording, change), "--check")
    assert answer.code == 1
    assert "\x1b" not in answer.out + answer.err
    assert "\x1b" not in asked(recording).out


# ------------------------------------------------------------------------------------------------------------ the usage


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--strict"], "--strict belongs to event logs"),
        (["--no-bounds"], "--no-bounds belongs to event logs"),
        (["--check", "--all"], "--check ends at the first difference"),
        (["--check", "--expect", "x"], "choose one"),
        (["--fix", "SPARK-1"], "--fix SPARK-1: expected all, none or one of"),
        (["--policy", "banana=spark"], "expected CHOICE=spark or CHOICE=MODULE:NAME"),
        (["--policy", "split=nowhere"], "nowhere is no MODULE:NAME"),
        (["--policy", "split=nowhere_at_all:x"], "No module named"),
        (["--policy", "split=math:pi"], "math:pi cannot be called"),
        (["--conf", "spark.kubernetes.allocation.batch.size=0"], "spark.kubernetes.allocation.batch.size"),
        (["--conf", "nonsense"], "expected key=value"),
    ],
)
def test_usage_and_configuration_are_refused_with_2(recording: Path, arguments: list[str], told: str) -> None:
    answer = asked(recording, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err


@pytest.mark.parametrize("arguments", [["--fix", "all"], ["--policy", "split=spark"]])
def test_what_belongs_to_recordings_is_refused_for_logs(arguments: list[str]) -> None:
    answer = asked(DEMO, *arguments)
    assert answer.code == 2
    assert f"{arguments[0]} belongs to recordings" in answer.err


def test_a_check_of_what_is_no_recording_says_so() -> None:
    answer = asked(next(DEMO.glob("events_1_*")), "--check")
    assert answer.code == 3
    assert "no header" in answer.err


def test_standard_input_is_a_recording_too(made: dict[str, Path]) -> None:
    data = made["calm"].read_bytes()
    assert ran("-", "--check", stdin=data).out.startswith("Agrees: ")
    by_name, by_pipe = json.loads(ran(made["calm"], "--json").out), json.loads(ran("-", "--json", stdin=data).out)
    assert by_pipe["recording"].pop("name") == "-"
    del by_name["recording"]["name"]
    assert by_pipe == by_name


def test_the_program_says_what_the_function_says(made: dict[str, Path]) -> None:
    by_program, by_function = ran(made["stormy"]), asked(made["stormy"])
    assert (by_program.code, by_program.err) == (0, "")
    assert by_program.out == by_function.out
    assert "\x1b" not in by_program.out


@pytest.mark.parametrize("width", [20, 40, 64, 100, 200])
def test_no_line_is_wider_than_the_terminal(made: dict[str, Path], width: int) -> None:
    shown = [asked(made["stormy"], *arguments, columns=width).out for arguments in ([], ["--check", *BATCH])]
    assert max(len(line) for out in shown for line in out.splitlines()) <= width


def test_a_terminal_without_unicode_gets_ascii(made: dict[str, Path]) -> None:
    answer = ran(made["calm"], env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (answer.code, answer.out.isascii()) == (0, True)
    assert "target 0 -> 12" in answer.out


@pytest.mark.parametrize("arguments", [["--json"], ["--all"], ["--decisions", "-"]])
def test_a_reader_that_goes_away_is_no_fault(made: dict[str, Path], arguments: list[str]) -> None:
    pipe = subprocess.PIPE
    with program([made["stormy"], *arguments], stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_ctrl_c_leaves_nothing_behind(made: dict[str, Path], tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    out = tmp_path / "d.jsonl"
    with program(["-", "--decisions", out], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.write(made["calm"].read_bytes()[:20_000])
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".d.jsonl.*")) and time.monotonic() < deadline:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_option() -> None:
    shown = CliRunner().invoke(podtide, ["replay", "--help"]).output
    assert all(option in shown for option in ("--check", "--fix", "--policy"))
    assert CONF["spark.app.id"] == APP
