"""Decisions about pods in words: every kind of record has its row, and nothing in one can steer a terminal."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings, strategies as some
from pyrsistent import pmap

from podtide.adapters.recording.codec import RecordedStimulus, decided_record
from podtide.adapters.views.timeline.decisions import (
    decided_rows,
    failure_words,
    outcome_words,
    pod_words,
    stimulus_words,
)
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc, pod_stimuli as ps
from podtide.domain.protocol.pods import EXECUTOR_LABEL, ContainerState, PodContainer, PodManifest
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Remark, Threw, Why

EVIL = "x\x1b[31m\n\u202ey"


def kinds(alias: Any) -> list[type]:
    """Every class that a union names."""
    return [kind for part in get_args(alias) for kind in (kinds(part) if get_args(part) else [part])]


def harmless(row: Any) -> None:
    told = [row.what, *row.why]
    assert all(isinstance(part, str) for part in told)
    assert all(part.isprintable() for part in told), told


@pytest.mark.parametrize("kind", kinds(pc.PodCommand), ids=lambda kind: kind.__name__)
def test_every_command_has_a_row(kind: type) -> None:
    @settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
    @given(some.from_type(kind))
    def told(command: Any) -> None:
        rows = decided_rows(decided_record(command))
        assert rows
        for row in rows:
            assert row.at == command.at
            harmless(row)

    told()


@pytest.mark.parametrize("kind", kinds(RecordedStimulus), ids=lambda kind: kind.__name__)
def test_every_stimulus_is_told_in_a_line(kind: type) -> None:
    @settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
    @given(some.from_type(kind))
    def told(stimulus: Any) -> None:
        line = stimulus_words(stimulus)
        assert line
        assert line.isprintable()

    told()


@pytest.mark.parametrize("bound", list(Bound), ids=lambda bound: bound.value)
@pytest.mark.parametrize("phase", list(Phase), ids=lambda phase: phase.value)
def test_every_bound_has_a_row(bound: Bound, phase: Phase) -> None:
    report = Held(5, phase, bound, 0, (), pmap({"missing": 3, "executors": 2, "need": 4, "maximum": 1}))  # type: ignore[arg-type]
    (row,) = decided_rows(decided_record(report))
    assert row.mark == ("quiet" if phase is Phase.ENDED else "held")
    harmless(row)


@pytest.mark.parametrize(
    "report", [Threw(1, EVIL, EVIL, True), Remark(1, "m", EVIL, pmap({"a": EVIL})), Threw(1, "A", "b", False)]
)
def test_other_reports_have_a_row(report: Threw | Remark) -> None:
    for row in decided_rows(decided_record(report)):
        harmless(row)


def test_numbers_and_reasons_are_told() -> None:
    why = Why(Cause.BELOW_TARGET, pmap({"profile": 2, "target": 12, "counted": 5, "missing": 7}))
    (row,) = decided_rows(decided_record(pc.CreatePod(1, 8, 6, 2, why, ("c",), ("c",))))  # type: ignore[arg-type]
    assert (row.mark, row.what) == ("raised", "create pod 6")
    assert row.why == ["7 missing: target 12, 5 counted", "claims c", "reused c", "profile 2"]
    reason = ec.ExitReason("ExecutorExited", "gone\nfor good", 137)
    (row,) = decided_rows(decided_record(ec.RemoveExecutor(1, "6", reason, Why(Cause.POD_FAILED))))  # type: ignore[arg-type]
    assert row.what == "executor 6 is gone"
    assert row.why == ["ExecutorExited, exit code 137: gone for good", "pod failed"]


def test_outcomes_say_what_the_api_said() -> None:
    long = "Failure executing: POST at: https://k8s/api. Message: exceeded quota. Received status: Status(code=403)."
    assert failure_words(403, long) == "403 exceeded quota."
    assert failure_words(None, "") == "no answer"
    assert outcome_words(ps.Outcome(1, 8)) == "succeeded"
    assert stimulus_words(ps.Outcome(1, 8, ps.CallFailure(409, "there"))) == "call 8 failed: 409 there"
    assert stimulus_words(ps.Outcome(1, 8), {8: "createPod"}) == "createPod succeeded"


def test_a_pod_is_told_by_what_is_wrong_with_it() -> None:
    ended = PodContainer("spark", None, ContainerState("terminated", 137, "OOMKilled"))
    waits = PodContainer("side", None, ContainerState("waiting", None, "ImagePullBackOff"))
    pod = PodManifest(
        "p", {EXECUTOR_LABEL: "7"}, phase="Failed", deleted_at="now", containers=(ended, waits), node=EVIL
    )
    told = pod_words(pod)
    assert told.startswith(
        "Failed, being deleted, spark ended with 137 (OOMKilled), side waits (ImagePullBackOff), on x"
    )
    assert told.isprintable()
    assert stimulus_words(ps.PodsUpdated(1, (pod,) * 6)).endswith("and 2 more")
