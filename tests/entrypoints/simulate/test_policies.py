"""``simulate --policy``: a function of the user's own decides, is recorded by its name, and is named when it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import ran

MODULE = """
from podtide.domain.protocol.allocation_policies import size_by_limits

def one_by_one(consumer, limits):
    return size_by_limits(consumer, limits)._replace(pods=1)

def broken(consumer, limits):
    raise RuntimeError("out of ideas")

def silent(consumer, limits):
    return None

def short(consumers, slots):
    return []
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "podtide_simulated_policy.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_function_of_ones_own_decides_and_its_recording_is_decided_again(folder: Path) -> None:
    mine = ("--policy", "size=podtide_simulated_policy:one_by_one")
    asked = ("simulate", "--schedule", "0:30", "--json")
    quick = json.loads(ran(*asked)[1])["targets"][0]["reached_ms"]
    assert json.loads(ran(*asked, *mine, "--record", "run.jsonl")[1])["targets"][0]["reached_ms"] > quick
    assert ran("replay", "run.jsonl", "--check", *mine)[0] == 0
    code, _, err = ran("replay", "run.jsonl", "--check")
    assert (code, "podtide_simulated_policy:one_by_one (size) is not known here" in err) == (2, True)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("size=podtide_simulated_policy:broken", "RuntimeError: out of ideas"),
        ("size=podtide_simulated_policy:silent", "answered None: expected a Batch"),
        ("split=podtide_simulated_policy:short", "answered []: expected a whole number for each of 1 profiles"),
        ("size=podtide_simulated_policy:missing", "has no attribute 'missing'"),
        ("order=podtide_simulated_policy:short", "CHOICE one of retire, split, size"),
    ],
)
def test_a_function_that_fails_is_named_and_nothing_is_left(folder: Path, policy: str, why: str) -> None:
    code, out, err = ran("simulate", "--schedule", "0:3", "--policy", policy, "--record", "run.jsonl")
    assert (code, out) == (2, "")
    assert f"--policy {policy}" in err
    assert why in err
    assert not (folder / "run.jsonl").exists()
