"""A workload, or targets, as the driver's other half in a simulation."""

from __future__ import annotations

import pytest

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import NEVER, ExecutorId, ProfileId
from podtide.domain.fakes.driver.script import Jobs, ScriptJob, ScriptStage, Targets
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.executor_commands import AnswerRegistration, StopApplication
from podtide.domain.protocol.executor_stimuli import RegisterExecutor, TargetsSet
from podtide.domain.protocol.pod_stimuli import PodsUpdated
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.stimuli import JobStart, StageSubmitted, TaskEnd, TaskStart
from podtide.entrypoints.simulate.driver_scripts import ScriptError, WorkloadScript

START = 1_000_000
WHY = Why(Cause.STARTED)
ZERO = ProfileId(0)
RULES = ProfileRules()
TARGETS = Targets(((0, ((ZERO, 3),)), (60_000, ((ZERO, 5), (ProfileId(1), 2)))))
ONE_JOB = Jobs((ScriptJob("load", (ScriptStage("map", 2, Constant(4_000)),), start_ms=500),))


def test_targets_are_set_at_their_times() -> None:
    script = WorkloadScript(TARGETS, 1, START, RULES)
    assert script.due() == START
    assert script.advance(START) == (TargetsSet(START, ((ZERO, 3),)),)
    assert script.advance(START + 59_999) == ()
    assert (script.due(), script.done()) == (START + 60_000, False)
    assert script.advance(START + 90_000) == (TargetsSet(START + 60_000, ((ZERO, 5), (ProfileId(1), 2))),)
    assert (script.due(), script.done(), script.summary()) == (NEVER, True, {})


def test_nothing_to_do_is_done_at_once() -> None:
    script = WorkloadScript(Targets(), 1, START, RULES)
    assert (script.due(), script.done(), script.advance(START)) == (NEVER, True, ())


def test_jobs_run_on_executors_that_are_accepted() -> None:
    script = WorkloadScript(ONE_JOB, 1, START, RULES)
    said = script.advance(START + 500)
    assert [type(one) for one in said] == [JobStart, StageSubmitted]
    one = ExecutorId("1")
    script.hear(RegisterExecutor(START + 1_000, one, ZERO, "h", "a"), START + 1_000)
    assert script.advance(START + 1_000) == ()
    script.hear(AnswerRegistration(START + 1_000, one, True, WHY), START + 1_000)
    assert TaskStart in map(type, script.advance(START + 1_000))
    ends = [
        one
        for at in range(START + 1_000, START + 12_000, 500)
        for one in script.advance(at)
        if isinstance(one, TaskEnd)
    ]
    assert [end.at for end in ends] == [START + 5_000, START + 9_000]
    assert script.done()
    (job,) = script.summary()["jobs"]
    assert job == {
        "name": "load", "run": 0, "job": 0, "began_ms": START + 500, "first_task_ms": START + 1_000,
        "ended_ms": START + 9_000, "ending": "succeeded",
    }  # fmt: skip
    assert script.summary()["tasks_succeeded"] == 2


def test_a_job_that_is_under_way_has_no_end() -> None:
    script = WorkloadScript(ONE_JOB, 1, START, RULES)
    script.advance(START + 500)
    (job,) = script.summary()["jobs"]
    assert (job["first_task_ms"], job["ended_ms"], job["ending"]) == (None, None, "running")


def test_whatever_else_is_told_is_passed_over() -> None:
    script = WorkloadScript(ONE_JOB, 1, START, RULES)
    script.hear(PodsUpdated(START, ()), START)
    assert script.due() == START + 500


def test_it_ends_with_the_application() -> None:
    script = WorkloadScript(TARGETS, 1, START, RULES)
    script.advance(START)
    script.hear(StopApplication(START, 11, WHY), START)
    assert script.due() == NEVER


def test_a_workload_that_cannot_be_played_is_refused_with_its_place() -> None:
    twice = Jobs((ScriptJob("a", (ScriptStage("s", 1),)), ScriptJob("a", (ScriptStage("s", 1),))))
    with pytest.raises(ScriptError, match=r"the workload cannot be played: .*a"):
        WorkloadScript(twice, 1, START, RULES)
