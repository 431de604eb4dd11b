"""What cannot be in a workload is found before it is played, and said with what was expected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.randomness import DELAY_MAX, Constant, Delay, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.base.units import ProfileId
from podtide.domain.fakes.checks import delay_problem
from podtide.domain.fakes.driver.checks import LINEAGE_MAX, Index, Node, problems
from podtide.domain.fakes.driver.script import (
    Cached,
    Jobs,
    Profile,
    ScriptJob as Job,
    ScriptStage as Stage,
    Targets,
    Workload,
)

P0, P1 = ProfileId(0), ProfileId(1)
ONLY = (Stage("s", 1),)
A = Job("a", ONLY)


def jobs(*stages: Stage) -> Jobs:
    return Jobs((Job("j", stages),))


@pytest.mark.parametrize(
    ("workload", "where", "expected"),
    [
        (Targets(((-1, ((P0, 1),)),)), "targets.-1ms", "times that rise, at most ten years"),
        (Targets(((5, ((P0, 1),)), (5, ((P0, 2),)))), "targets.5ms", "times that rise, at most ten years"),
        (Targets(((0, ()),)), "targets.0ms", "the target of one profile at least"),
        (Targets(((0, ((P0, 1), (P0, 2))),)), "targets.0ms", "every profile once"),
        (Targets(((0, ((ProfileId(-1), 1),)),)), "targets.0ms", "a resource profile id, 0 or more"),
        (Targets(((0, ((P0, 2**31 - 1), (P1, 1))),)), "targets.0ms", "at most 2147483647 executors in all"),
        (Jobs(task_failures_max=0), "task-failures", "1 or more"),
        (Jobs(stage_attempts_max=0), "stage-attempts", "1 or more"),
        (Jobs(clean_ms=-1), "clean", "at most ten years"),
        (Jobs((Job("", ONLY),)), "jobs.", "a name without a dot"),
        (Jobs((A, A)), "jobs.a", "a name of its own"),
        (Jobs((replace(A, start_ms=-1),)), "jobs.a.start", "at most ten years"),
        (Jobs((replace(A, times=0),)), "jobs.a.times", "1 to 100000"),
        (Jobs((replace(A, think=Constant(-1)),)), "jobs.a.think", "at most ten years"),
        (Jobs((A, Job("b", ONLY, after=("a", "a")))), "jobs.b.after", "every job once"),
        (Jobs((Job("b", ONLY, after=("x",)),)), "jobs.b.after", "names of other jobs, not x"),
        (Jobs((Job("b", ONLY, after=("c",)), Job("c", ONLY, after=("b",)))), "jobs.b.after",
         "jobs that do not wait for this one"),
        (Jobs((Job("b", ()),)), "jobs.b.stages", "1 to 1000 stages, each with a name of its own"),
        (jobs(Stage("s", 1), Stage("s", 1)), "jobs.j.stages", "1 to 1000 stages, each with a name of its own"),
        (jobs(Stage("a", 1), Stage("b", 1)), "jobs.j.stages", "one last stage that all others lead to"),
        (jobs(Stage("a", 1, parents=("b",)), Stage("b", 1, parents=("a",)), Stage("c", 1)), "jobs.j.stages",
         "stages that do not wait for themselves"),
        (jobs(Stage("a", 1, parents=("a",)), Stage("c", 1)), "jobs.j.stages", "stages that do not wait for themselves"),
        (jobs(Stage("a.b", 1)), "jobs.j.stages.a.b", "a name without a dot"),
        (jobs(Stage("a", 5_000_001)), "jobs.j.stages.a.tasks", "1 to 5000000 tasks"),
        (jobs(Stage("a", 1, failure=1.1)), "jobs.j.stages.a.failure", "a share, 0 to 1"),
        (jobs(Stage("a", 1, failure=float("nan"))), "jobs.j.stages.a.failure", "a share, 0 to 1"),
        (jobs(Stage("a", 1, Uniform(5, 4))), "jobs.j.stages.a.duration", "from no longer than to"),
        (jobs(Stage("a", 1, profile=P1)), "jobs.j.stages.a.profile",
         "0 or one of the profiles described here, not 1"),
        (jobs(Stage("a", 1, cached=Cached(until="x"))), "jobs.j.stages.a.cached.until", "the name of a job, not x"),
        (Jobs((Job("j", (Stage("s", 1, cached=Cached(until="a")),)), A)), "jobs.j.stages.s.cached.until",
         "this job or one that comes after it"),
        (jobs(Stage("a", 1), Stage("b", 1, parents=("a", "a"))), "jobs.j.stages.b.parents", "every parent once"),
        (jobs(Stage("a", 1, writes_shuffle=True), Stage("b", 1, parents=("a",))), "jobs.j.stages.a.writes-shuffle",
         "this key at the last stage only: every other writes one"),
        (jobs(Stage("b", 1, parents=("j.b",))), "jobs.j.stages.b.parents",
         "stages of this job, or JOB.STAGE of one before it, not j.b"),
        (Jobs((A, Job("b", (Stage("t", 1, parents=("a.s",)),)))), "jobs.b.stages.t.parents",
         "stages of jobs that this one comes after, not a.s"),
        (Jobs((A, Job("b", (Stage("t", 1, parents=("a.s",)),), after=("a",)))), "jobs.b.stages.t.parents",
         "stages that write a shuffle, not a.s (its key writes-shuffle)"),
        (Jobs((replace(A, times=2), Job("b", (Stage("t", 1, parents=("a.s",)),), after=("a",)))),
         "jobs.b.stages.t.parents", "stages of jobs that run once, not a.s"),
        (Jobs((Job("a", (Stage("s", 5_000_000),), times=21),)), "jobs", "at most 100000000 tasks in all"),
        (Jobs(profiles=(Profile(P0),)), "profiles.0", "a resource profile id, 1 or more; 0 is as the conf has it"),
        (Jobs(profiles=(Profile(P1), Profile(P1))), "profiles.1", "every profile once"),
        (Jobs(profiles=(Profile(P1, (("cores", 0),)),)), "profiles.1", "an amount of cores above 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_played(workload: Workload, where: str, expected: str) -> None:
    assert (where, expected) in problems(workload)


def test_a_profile_that_spark_would_refuse_is_refused_in_spark_s_words() -> None:
    script = Jobs(profiles=(Profile(P1, (("gpu", 1),), (("gpu", 2.0),)),))
    ((where, expected),) = problems(script)
    assert where == "profiles.1"
    assert expected == (
        "a profile that Spark takes (The executor resource: gpu, amount: 1 needs to be >= the task resource request "
        "amount of 2.0)"
    )


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (Constant(0), None),
        (Constant(DELAY_MAX + 1), "at most ten years"),
        (Uniform(0, 0), None),
        (Exponential(-1), "a mean of at most ten years"),
        (LogNormal(0, 5), "a median of more than 0, and a p90 no shorter"),
        (LogNormal(5, 4), "a median of more than 0, and a p90 no shorter"),
        (Quantiles(()), "percents from 0 to 100, and durations that rise with them"),
        (Quantiles(((0, 5), (50, 4))), "percents from 0 to 100, and durations that rise with them"),
        (Quantiles(((0, 5), (101, 6))), "percents from 0 to 100, and durations that rise with them"),
        (Quantiles(((0, 5), (100, 6))), None),
    ],
)
def test_distributions(delay: Delay, expected: str | None) -> None:
    assert delay_problem(delay) == expected


def test_a_lineage_has_ancestors_first() -> None:
    load = Job("load", (Stage("x", 1), Stage("y", 1), Stage("z", 1, parents=("y", "x"), writes_shuffle=True)))
    use = Job("use", (Stage("w", 1, parents=("load.z", "v")), Stage("v", 1, parents=("load.y",))), after=("load",))
    script = Jobs((load, use))
    assert problems(script) == ()
    assert Index(script).lineages() == (
        (Node(0, 1), Node(0, 0), Node(0, 2)),
        (Node(0, 1), Node(0, 0), Node(0, 2), Node(1, 1), Node(1, 0)),
    )


def _chain(length: int) -> Jobs:
    """Jobs that each read what the one before shuffled."""
    first = Job("j0", (Stage("s", 1, writes_shuffle=True),))
    rest = [
        Job(f"j{n}", (Stage("s", 1, parents=(f"j{n - 1}.s",), writes_shuffle=True),), after=(f"j{n - 1}",))
        for n in range(1, length)
    ]
    return Jobs((first, *rest))


@pytest.mark.uncounted
def test_how_much_a_job_may_build_on_is_bounded() -> None:
    assert problems(_chain(LINEAGE_MAX)) == ()
    assert problems(_chain(LINEAGE_MAX + 1)) == (
        (f"jobs.j{LINEAGE_MAX}.stages", f"at most {LINEAGE_MAX} stages, those of the jobs that it builds on included"),
    )


@pytest.mark.uncounted
def test_what_all_jobs_build_on_is_bounded_too() -> None:
    base = Job(
        "base",
        (
            *(Stage(f"s{n}", 1) for n in range(900)),
            Stage("t", 1, parents=tuple(f"s{n}" for n in range(900)), writes_shuffle=True),
        ),
    )
    readers = [Job(f"r{n}", (Stage("s", 1, parents=("base.t",)),), after=("base",)) for n in range(1_000)]
    ((_, expected),) = problems(Jobs((base, *readers)))
    assert expected.startswith(f"at most {LINEAGE_MAX} stages")
