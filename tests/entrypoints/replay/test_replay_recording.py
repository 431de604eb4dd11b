"""``podtide replay`` of a recording, as its user meets it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from podtide.domain.fakes.kubernetes.description import KIND, NodeGroup
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, SPARK_POLICIES, split_evenly
from tests.support import commands
from tests.support.project import DEMO
from tests.support.recordings import APP, T0, calm, first_decided, lines, record, rewritten, scaled, stormy, wanted
from tests.support.schemas import validate

asked = partial(commands.answer, "replay")
ran = partial(commands.ran, "replay")

BATCH = ("--conf", "spark.kubernetes.allocation.batch.size=2")


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
        assert told in answer.words, told


def test_all_shows_every_decision(made: dict[str, Path]) -> None:
    told = asked(made["calm"], "--all").out
    assert told.count("create pod ") == 15
    assert "accept executor 15" in told


def test_json_is_one_object_with_the_promised_keys(made: dict[str, Path]) -> None:
    answer = asked(made["stormy"], "--json")
    assert answer.code == 0
    told = answer.document
    assert told["schema"] == "podtide/recording-replay/1"
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
    assert decided == asked(made["calm"], "--json").document["decisions"]
    assert asked(made["calm"], "--decisions", "-").out == path.read_text()
    assert asked(made["calm"], "--expect", path).words.startswith(f"As expected: {len(decided)} decisions")
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
    assert answer.words == f"Agrees: {decided:,} decisions in {steps:,} steps, each as recorded in {made[name]}."


@pytest.mark.parametrize("name", ["calm", "stormy", "scaled"])
def test_compressed_agrees_too(made: dict[str, Path], name: str, tmp_path: Path) -> None:
    makers = {"calm": calm, "stormy": stormy, "scaled": scaled}
    assert asked(makers[name](tmp_path / "r.jsonl.zst"), "--check").code == 0


def test_fixes_and_switches_are_replayed_as_recorded(tmp_path: Path) -> None:
    path = record(tmp_path / "fixed.jsonl", wanted((0, 6)), policies=FIXED_POLICIES, seconds=20)
    assert asked(path, "--check").code == 0
    answer = asked(path, "--check", "--fix", "none")
    assert "policy back_off: off" in answer.words


def test_a_tampered_decision_diverges_at_its_step(recording: Path) -> None:
    place, one = first_decided(lines(recording), "createPod")

    def tamper(listed: list[Any]) -> None:
        listed[place]["decided"][1]["executor"] = 77
        listed[place]["decided"][1]["facts"]["target"] = 13

    answer = asked(rewritten(recording, tamper), "--check")
    assert answer.code == 1
    told = answer.words
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

    told = asked(rewritten(recording, tamper), "--check").words
    assert "What was held at that time" in told
    assert "7 by pods asked for and not seen yet since 0:00." in told


def test_another_conf_diverges_and_is_told(made: dict[str, Path]) -> None:
    answer = asked(made["calm"], "--check", *BATCH)
    assert answer.code == 1
    assert "Not as recorded on purpose: spark.kubernetes.allocation.batch.size=2." in answer.words
    same = asked(made["calm"], "--check", "--conf", "spark.kubernetes.allocation.batch.size=5")
    assert same.code == 0
    assert "on purpose" not in same.out


def test_the_check_is_told_as_json(recording: Path) -> None:
    told = asked(recording, "--check", "--json").document
    assert (told["schema"], told["check"]["agrees"], told["check"]["divergence"]) == (
        "podtide/recording-check/1",
        True,
        None,
    )
    answer = asked(recording, "--check", "--json", *BATCH)
    assert answer.code == 1
    story = answer.document["check"]["divergence"]
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
    assert f"policy split: {split_evenly.__name__}, recorded podtide_test_policy:mine" in spark.words


# ------------------------------------------------------------------------------------------------- under another conf


def test_another_conf_is_replayed_on_and_what_differs_is_told(made: dict[str, Path]) -> None:
    answer = asked(made["calm"], *BATCH)
    assert answer.code == 0
    told = answer.words
    assert "--conf kubernetes.allocation.batch.size 2" in told
    assert "Not as recorded, because it was asked for: spark.kubernetes.allocation.batch.size=2." in told
    assert "it is decided otherwise than recorded, after" in told
    document = asked(made["calm"], *BATCH, "--json").document
    assert document["changed"] == ["spark.kubernetes.allocation.batch.size=2"]
    created = [one["executor"] for one in document["decisions"] if one["command"] == "createPod"]
    # Pods that were seen count, whoever asked for them; the recorded answers came to the calls that were made later.
    assert created == list(range(1, len(created) + 1))
    assert 5 < len(created) < 15


def test_more_than_was_recorded_goes_on_too(made: dict[str, Path]) -> None:
    document = asked(made["calm"], "--json", "--conf", "spark.kubernetes.allocation.batch.size=20").document
    created = [one["executor"] for one in document["decisions"] if one["command"] == "createPod"]
    assert created[:12] == list(range(1, 13))
    assert document["check"]["divergence"]["agreed"] == 5
    assert {one["at_ms"] for one in document["decisions"] if one.get("executor") in range(1, 13)} >= {
        document["check"]["divergence"]["at_ms"]
    }


# ----------------------------------------------------------------------------------------------------- cut and damaged


def test_a_cut_recording_is_checked_up_to_its_last_whole_step(recording: Path) -> None:
    data = recording.read_bytes()
    header = data.index(b"\n") + 1
    first = data.index(b"\n", header) + 1
    for size in sorted({first, first + 1, len(data) // 2, len(data) - 2, *range(first, len(data), len(data) // 23)}):
        recording.write_bytes(data[:size])
        answer = asked(recording, "--check")
        assert answer.code == 0, (size, answer)
        assert answer.words.startswith("Agrees: ")
        assert "up to its last whole step: the recording is cut off" in answer.words
    recording.write_bytes(data[: len(data) // 2])
    assert "The recording is cut off" in asked(recording).words


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


def test_standard_input_is_a_recording_too(made: dict[str, Path]) -> None:
    data = made["calm"].read_bytes()
    assert ran("-", "--check", stdin=data).out.startswith("Agrees: ")
    by_name, by_pipe = json.loads(ran(made["calm"], "--json").out), json.loads(ran("-", "--json", stdin=data).out)
    assert by_pipe["recording"].pop("name") == "-"
    del by_name["recording"]["name"]
    assert by_pipe == by_name


def test_a_recording_tells_since_when_nothing_moved_and_why(tmp_path: Path) -> None:
    no_room = replace(KIND, groups=(NodeGroup("worker", 0),))
    path = record(tmp_path / "r.jsonl", wanted((0, 2)), cluster=no_room, seconds=900)
    (told,) = asked(path, "--json").document["stalls"]
    assert (told["cause"], told["blocked"], told["facts"]["pods"]) == ("no nodes", True, 2)
    assert told["began_ms"] - T0 < 5_000
    words = asked(path).words
    assert "no nodes at 0:0" in words
    assert "ask the cluster autoscaler why it adds none" in words
