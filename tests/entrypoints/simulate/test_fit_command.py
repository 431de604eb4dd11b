"""``podtide fit``: a recording becomes a cluster file, and a cluster that behaves like the recorded one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from podtide.adapters.files import cluster as world_file
from podtide.adapters.recording.reader import Recording
from podtide.domain.protocol.executor_commands import AnswerRegistration
from podtide.domain.protocol.pod_commands import CreatePod
from tests.support.commands import Answer, answer as asked

SLOW = """
nodes:
  groups:
    - {name: w, count: 3, cpu: 16}
stages:
  schedule: {delay: {median: 400ms, p90: 900ms}}
  pull: {delay: {median: 15s, p90: 25s}}
  start: {delay: {median: 3s, p90: 5s}}
  register: {delay: {median: 12s, p90: 20s}}
api:
  latency: {median: 60ms, p90: 150ms}
  faults:
    - {status: 500, probability: 0.1, verbs: [create], resources: [pods]}
watch: {delay: {median: 150ms, p90: 400ms}}
"""


TARGETS = "0:20,90:45"
"""Two waves: one meets nodes without the image, the other finds it there."""


def record(folder: Path, name: str, *arguments: str | Path) -> Path:
    """A recording of a simulation."""
    path = folder / name
    quiet = ("--conf", "spark.executor.maxNumFailures=1000", "--record", path)
    answer = asked("simulate", "--schedule", TARGETS, *quiet, *arguments)
    assert answer.code == 0, answer.err
    return path


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    (tmp_path / "slow.yaml").write_text(SLOW)
    return record(tmp_path, "r.jsonl", "--cluster", tmp_path / "slow.yaml", "--seed", "3")


def start_ups(recording: Path) -> list[int]:
    """How long each executor took from the request for its pod to its registration, ms."""
    asked_at: dict[str, int] = {}
    took = []
    with Recording(str(recording)) as opened:
        for step in opened:
            for command in step.commands:
                if isinstance(command, CreatePod):
                    asked_at[str(command.executor)] = step.at
                elif isinstance(command, AnswerRegistration) and command.accepted:
                    took.append(step.at - asked_at[command.executor])
    return took


def tenth(values: Sequence[int], share: float) -> int:
    return sorted(values)[round(share * (len(values) - 1))]


# ------------------------------------------------------------------------------------------------------- what it gives


def test_a_fitted_cluster_starts_executors_as_fast_as_the_recorded_one(tmp_path: Path, recorded: Path) -> None:
    fitted = tmp_path / "fitted.yaml"
    assert asked("fit", recorded, "--out", fitted) == Answer(0, "", "")
    again = record(tmp_path, "again.jsonl", "--cluster", fitted, "--seed", "9")
    before, after = start_ups(recorded), start_ups(again)
    assert len(before) == len(after) == 45
    # 45 executors tell a median of such latencies to about a tenth.
    assert median(after) == pytest.approx(median(before), rel=0.15)
    for share in (0.1, 0.25, 0.75, 0.9):
        assert tenth(after, share) == pytest.approx(tenth(before, share), rel=0.25)


def test_refusals_come_as_often(tmp_path: Path, recorded: Path) -> None:
    fitted = tmp_path / "fitted.yaml"
    asked("fit", recorded, "--out", fitted)
    told = [
        json.loads(asked("simulate", "--schedule", TARGETS, "--cluster", path, "--json", "--seed", seed, *_PATIENT).out)
        for path, seed in ((tmp_path / "slow.yaml", "3"), (fitted, "4"))
    ]
    shares = [one["calls_failed"].get("create_pods_500", 0) / one["calls"]["create_pods"] for one in told]
    assert shares[0] > 0.02
    assert shares[1] == pytest.approx(shares[0], abs=0.06)


_PATIENT = ("--conf", "spark.executor.maxNumFailures=1000")


def test_every_number_says_on_how_much_it_rests(recorded: Path) -> None:
    answer = asked("fit", recorded)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"# Fitted by podtide fit from {recorded}.\n")
    assert "# Not seen, and left at the default:" in answer.out
    delays = [line for line in answer.out.splitlines() if "quantiles" in line]
    assert len(delays) >= 5
    assert all("# " in line and "observation" in line for line in delays)
    world_file.understand(answer.out)


def test_the_file_goes_where_it_is_asked_for_whole(tmp_path: Path, recorded: Path) -> None:
    out = tmp_path / "c.yaml"
    assert asked("fit", recorded, "--out", out).code == 0
    assert out.read_text() == asked("fit", recorded).out
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()
    out.write_text("mine")
    answer = asked("fit", recorded, "--out", out)
    assert (answer.code, out.read_text()) == (2, "mine")
    assert "the file exists" in answer.err
    assert str(out) in answer.err
    assert asked("fit", recorded, "--out", out, "--overwrite").code == 0
    assert out.read_text() != "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.yaml", "r.jsonl", "slow.yaml"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_compressed_recording_and_one_from_a_pipe_give_the_same(tmp_path: Path, recorded: Path) -> None:
    packed = record(tmp_path, "r.jsonl.zst", "--cluster", tmp_path / "slow.yaml", "--seed", "3")
    bodies = [
        answer.out.partition("\n")[2]
        for answer in (asked("fit", recorded), asked("fit", packed), asked("fit", "-", stdin=recorded.read_bytes()))
    ]
    assert bodies[0] == bodies[1] == bodies[2]


def test_a_recording_that_was_cut_counts_up_to_there(tmp_path: Path, recorded: Path) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(recorded.read_bytes()[:-5_000])
    answer = asked("fit", cut)
    assert answer.code == 0
    assert "ends in the middle" in answer.out
    world_file.understand(answer.out)


def test_a_short_recording_leaves_the_defaults(tmp_path: Path) -> None:
    path = record(tmp_path, "short", "--duration", "0")
    answer = asked("fit", path)
    assert answer.code == 0
    assert world_file.understand(answer.out).executors.shape == world_file.understand("").executors.shape


# --------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("out", ["no/such/folder/c.yaml", "."])
def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, recorded: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = asked("fit", recorded, "--out", out)
    assert answer.code == 2
    assert "cannot be written" in answer.err
    assert "Traceback" not in answer.err
