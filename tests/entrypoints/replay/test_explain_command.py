"""``podtide explain`` as its user meets it."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from podtide.entrypoints.common.output import Misused
from podtide.entrypoints.replay.story import moment_of
from tests.support import commands
from tests.support.recordings import APP, T0, first_decided, lines, rewritten

asked = partial(commands.answer, "explain")
document = partial(commands.document, "explain")


def words(*arguments: str | Path) -> str:
    answer = asked(*arguments)
    assert (answer.code, answer.err) == (0, "")
    return answer.words


# --------------------------------------------------------------------------------------------------------- an executor


def test_an_executor_is_told_from_its_request_to_its_registration(made: dict[str, Path]) -> None:
    told = words(made["calm"], "--executor", "7")
    for part in (
        f"Executor 7 {APP}",
        "asked for below target · counted 5 · missing 7 · target 12 · profile 0",
        "the 2nd of 5 (6 to 10)",
        "2 more were missing",
        "batch cut by allocation.batch.size",
        "for target 12 set at 0:00.0, 1 s before · set from outside",
        "createPod succeeded after",
        "allocator: asked for and not seen: counts as newly created",
        "seen PodPending phase Pending",
        "seen PodRunning phase Running",
        "registers from 10.0.0.",
        "accept executor 7",
        "backend: registered, active",
        "still, when the recording ends",
    ):
        assert part in told, part


def test_waiting_is_told_with_what_a_snapshot_cannot_say(made: dict[str, Path]) -> None:
    told = words(made["calm"], "--executor", "1")
    assert "asked for, the call is under way" in told
    assert "a snapshot does not say what it waits for: images, volumes or the start of its containers" in told
    stages = document(made["calm"], "--executor", "1")["story"]["stages"]
    assert [stage["stage"] for stage in stages][-3:] == ["pending on a node", "running, not registered", "registered"]
    for before, after in pairwise(stages):
        assert before["since_ms"] + before["lasted_ms"] == after["since_ms"]
    assert [stage["over"] for stage in stages] == [True] * (len(stages) - 1) + [False]


def test_a_crash_is_told_by_its_exit_code_and_the_rule_that_deleted_it(made: dict[str, Path]) -> None:
    _, gone = first_decided(lines(made["stormy"]), "removeExecutor")
    told = words(made["stormy"], "--executor", gone["executor"])
    for part in (
        "seen PodFailed",
        "ended with exit code 137 (OOMKilled)",
        f"delete pod exec-exec-{gone['executor']}",
        f"executor {gone['executor']} is gone ExecutorExited, exit code 137",
        "pod failed",
        "lifecycle: its removal is remembered, counted as a failure",
        "no longer listed",
        "allocator: nothing is known of it any more",
    ):
        assert part in told, part


def test_a_refused_creation_is_told(made: dict[str, Path]) -> None:
    listed = lines(made["stormy"])
    refused = {one["serial"] for line in listed for one in line.get("stimuli", ()) if one.get("failure")}
    executor = next(
        one["executor"]
        for line in listed
        for one in line.get("decided", ())
        if one.get("command") == "createPod" and one["serial"] in refused
    )
    told = words(made["stormy"], "--executor", str(executor))
    assert "createPod failed 429" in told
    assert "never created" in told


def test_an_idle_executor_is_told_with_its_kill(made: dict[str, Path]) -> None:
    told = words(made["scaled"], "--executor", "1")
    for part in (
        "killed idle",
        "(timeout 10 s) · with 3 others",
        "ExecutorKilled: Executor killed by driver.",
        "backlog",
    ):
        assert part in told, part
    stages = [stage["stage"] for stage in document(made["scaled"], "--executor", "1")["story"]["stages"]]
    assert stages[-4:-1] == ["registered", "told to go", "over, its pod still there"]
    assert stages[-1] == "gone"


def test_the_entries_are_in_order_and_name_their_lines(made: dict[str, Path]) -> None:
    told = document(made["stormy"], "--executor", "2")
    entries = told["story"]["entries"]
    assert entries[0]["what"] == "asked for"
    assert [entry["at_ms"] for entry in entries] == sorted(entry["at_ms"] for entry in entries)
    listed = lines(made["stormy"])
    for entry in entries:
        assert "stimuli" in listed[entry["line"] - 1]
        assert listed[entry["line"] - 1]["at_ms"] == entry["at_ms"]
    assert told["books_told"] is True
    assert told["app"]["first_ms"] == T0


@pytest.mark.parametrize("identity", ["99", "driver", "\x1b[31m", "0"])
def test_an_executor_that_is_not_there_is_refused(made: dict[str, Path], identity: str) -> None:
    answer = asked(made["calm"], "--executor", identity)
    assert (answer.code, answer.out) == (2, "")
    assert "nothing is recorded of an executor" in answer.err
    assert "it created executors 1 to 15" in answer.err
    assert "\x1b" not in answer.err


# ------------------------------------------------------------------------------------------------------------ a moment


def test_a_moment_is_told_with_all_that_stood_then(made: dict[str, Path]) -> None:
    told = words(made["calm"], "--at", "+0.9")
    for part in (
        "At 0:00.9, 2023-11-14 22:13:20 UTC",
        "profile target counted running pending known pending created known created 0 12 5",
        "executors none registered",
        "What was held, and by what",
        "7 by pods asked for and not seen yet since 0:00.",
        "next timer at 0:01.0",
        "The last decisions 0:00.0 create the config map started 0:00.0 ▲ create pod 1",
        "The next decisions 0:01.0 ▲ create pod 6 7 missing: target 12, 5 counted",
    ):
        assert part in told, part


def test_calls_under_way_are_told(made: dict[str, Path]) -> None:
    place, _ = first_decided(lines(made["calm"]), "createPod")
    at = lines(made["calm"])[place]["at_ms"]
    told = document(made["calm"], "--at", str(at))["moment"]
    assert [(call["call"], call["calls"], call["since_ms"]) for call in told["calls"]] == [("CreatePod", 5, at)]
    assert told["round"]["asked"] == 5
    assert "5 CreatePod, the oldest since" in words(made["calm"], "--at", str(at))


def test_the_moment_is_that_of_the_state_then(made: dict[str, Path]) -> None:
    early, late = (document(made["scaled"], "--at", at)["moment"] for at in ("+15", "+40"))
    assert early["profiles"]["0"]["target"] == 4
    assert early["executors"]["registered"] > 0
    assert late["profiles"]["0"]["target"] == 0
    assert late["executors"]["registered"] == 0
    assert [hold["bound"] for hold in early["held"]] == ["maximum"]


def test_the_first_and_the_last_moment_are_in_it(made: dict[str, Path]) -> None:
    last = lines(made["calm"])[-1]["at_ms"]
    assert document(made["calm"], "--at", str(T0))["moment"]["last"]
    assert document(made["calm"], "--at", str(last))["moment"]["next"] == []


@pytest.mark.parametrize("at", ["+99999", "1", str(T0 - 1), "2020-01-01"])
def test_a_time_outside_is_refused(made: dict[str, Path], at: str) -> None:
    answer = asked(made["calm"], "--at", at)
    assert (answer.code, answer.out) == (2, "")
    assert f"--at {at} is not in the recording; it " in answer.err
    assert str(T0) in answer.err


@pytest.mark.parametrize("text", ["", "yesterday", "+", "+1.2345", "12:00", "١٢", "9" * 30, "2023-13-01", "\x1b[31m"])
def test_a_time_that_is_none_is_refused(made: dict[str, Path], text: str) -> None:
    answer = asked(made["calm"], "--at", text)
    assert answer.code == 2
    assert "expected milliseconds since 1970" in answer.err
    assert "\x1b" not in answer.err


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("5", 5), ("-3", -3), ("+1", 1_100), ("+1.5", 1_600), ("+20.000s", 20_100), ("1970-01-01T00:00:01.250Z", 1_250),
        ("1970-01-01T00:00:01", 1_000), ("1970-01-01T01:00:01+01:00", 1_000),
    ],
)  # fmt: skip
def test_times_are_read_to_the_millisecond(text: str, at: int) -> None:
    assert moment_of(text, 100) == at


def test_a_time_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(Misused):
        moment_of("10000-01-01", 0)


# ------------------------------------------------------------------------------------------ what cannot be told, or read


def test_after_another_decision_the_story_goes_on_without_the_books(recording: Path) -> None:
    place, _ = first_decided(lines(recording), "answerRegistration")

    def tamper(listed: list[Any]) -> None:
        listed[place]["decided"][0]["facts"] = {"registered": 99}

    told = document(rewritten(recording, tamper), "--executor", "13")
    assert told["books_told"] is False
    assert "decided otherwise here than it was" in told["notes"][0]
    assert [entry["what"] for entry in told["story"]["entries"]].count("books") == 0
    assert "asked for" in {entry["what"] for entry in told["story"]["entries"]}
    moment = document(recording, "--at", "+34")["moment"]
    assert "profiles" not in moment
    assert moment["asked"] == {"0": 15}
    assert "asked for: profile 0: 15" in words(recording, "--at", "+34")


def test_a_cut_recording_is_told_as_far_as_it_goes(recording: Path) -> None:
    data = recording.read_bytes()
    for size in range(len(data) // 2, len(data) - 1, len(data) // 11):
        recording.write_bytes(data[:size])
        told = document(recording, "--executor", "7")
        assert any("cut off" in note for note in told["notes"])
        assert told["recording"]["cut"] is not None
    assert "The recording is cut off" in words(recording, "--executor", "7")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Give one of --executor and --at"),
        (["--executor", "1", "--at", "+1"], "Give one of --executor and --at"),
        (["--executor", ""], "--executor takes the id of an executor"),
        (["--executor", "1", "--policy", "x"], "--policy x: expected"),
    ],
)
def test_usage_is_refused_with_2(recording: Path, arguments: list[str], told: str) -> None:
    answer = asked(recording, *arguments)
    assert answer.code == 2
    assert told in answer.err


def test_standard_input_is_a_recording_too(made: dict[str, Path]) -> None:
    by_pipe = asked("-", "--executor", "7", stdin=made["calm"].read_bytes())
    by_name = asked(made["calm"], "--executor", "7")
    assert (by_pipe.code, by_pipe.err) == (0, "")
    assert by_pipe.out.partition("started ")[1:] == by_name.out.partition("started ")[1:], (
        "all but the recording's name"
    )
