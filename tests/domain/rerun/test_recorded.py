"""What a rerun takes from the record besides its tasks: resource profiles, a missing end, executors of several kinds."""

from __future__ import annotations

from dataclasses import replace

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.recorded.application import Leave, RecordedExecutor, main_profile, peaks
from podtide.domain.rerun.plain_manager import static_counts
from podtide.domain.rerun.plan import ExecutorShape
from podtide.domain.rerun.rerun import rerun
from tests.support.rerun_play import AT_ONCE, P1, app, dynamic, job, stage, static


def test_a_profile_of_the_application_gets_executors_of_its_own() -> None:
    """Without being told of the profile the core would not know how many tasks an executor of it takes."""
    profile = ResourceProfileAdded(0, P1, (("cores", 2.0),), (("cpus", 2.0),))
    work = app(stage(0, [10_000] * 4, profile=P1), profiles=(profile,))
    shapes = {DEFAULT_PROFILE: ExecutorShape(1, 1, 1024), P1: ExecutorShape(1, 2, 1024)}
    outcome = rerun(work, AT_ONCE, dynamic(plan={"shapes": shapes}, executors_max=4))
    assert outcome.unfinished is None
    assert outcome.billed_by_profile.keys() == {P1}


def test_a_job_without_an_end_leaves_nothing_after_its_last_stage() -> None:
    first = stage(0, [1_000], submitted_ms=500)
    work = app(first, jobs=[job(0, [first], submitted_ms=500, ended_ms=None, think_ms=500)], ended_ms=1_600)
    assert rerun(work, AT_ONCE, static(1)).runtime_ms == 1_600


def test_a_static_count_keeps_what_other_profiles_had_at_once() -> None:
    lives = [
        (P1, 0, 100),
        (P1, 100, None),
        (DEFAULT_PROFILE, 0, None),
        (DEFAULT_PROFILE, 0, 50),
        (DEFAULT_PROFILE, 60, None),
    ]
    executors = tuple(
        RecordedExecutor(ExecutorId(str(number)), "h", profile, 1, added, removed, Leave.STAYED)
        for number, (profile, added, removed) in enumerate(lives)
    )
    work = replace(app(stage(0, [1])), executors=executors)
    assert (main_profile(work), peaks(work)) == (DEFAULT_PROFILE, {DEFAULT_PROFILE: 2, P1: 1})
    assert static_counts(work, 5) == {DEFAULT_PROFILE: 5, P1: 1}
    assert static_counts(app(stage(0, [1])), 5) == {DEFAULT_PROFILE: 5}
