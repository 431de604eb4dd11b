"""Any workload, whatever becomes of its executors: nothing is computed in vain, nothing is forgotten, all jobs end.

A second set of books is kept from what is said alone: who holds which partition, and what each attempt has to compute.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, strategies as st

from podtide.domain.base.randomness import Delay, Exponential, Uniform
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, ProfileId
from podtide.domain.fakes.driver import driver as workloads
from podtide.domain.fakes.driver.driver import WorkloadEvent
from podtide.domain.fakes.driver.rows import Ending
from podtide.domain.fakes.driver.script import Cached, Jobs, Outputs, Profile, ScriptJob, ScriptStage
from podtide.domain.protocol.executor_commands import ExitReason
from podtide.domain.protocol.executor_stimuli import ExecutorBusy
from podtide.domain.protocol.stimuli import (
    JobEnd,
    JobStart,
    ResourceProfileAdded,
    StageCompleted,
    StageSubmitted,
    TaskEnd,
    TaskOutcome,
    TaskStart,
)
from podtide.domain.scaling import load as loads
from tests.support.workload_play import CRASHED, DRAINED, KILLED, PREEMPTED, Play

P1 = ProfileId(1)
DELAYS: tuple[Delay, ...] = (Uniform(0, 3_000), Exponential(1_000), Uniform(200, 200))
REASONS = (KILLED, CRASHED, PREEMPTED, DRAINED)


@st.composite
def scripts(draw: st.DrawFn) -> Jobs:
    """Up to three jobs of up to four stages, each with one last stage; later ones may read what the first shuffled."""
    jobs = []
    for place in range(draw(st.integers(1, 3))):
        stages: list[ScriptStage] = []
        for number in range(draw(st.integers(1, 4))):
            names = [f"s{one}" for one in range(number)]
            parents = draw(st.lists(st.sampled_from(names), unique=True, max_size=2)) if names else []
            stages.append(
                ScriptStage(
                    f"s{number}",
                    draw(st.integers(1, 9)),
                    draw(st.sampled_from(DELAYS)),
                    tuple(parents),
                    draw(st.sampled_from((DEFAULT_PROFILE, DEFAULT_PROFILE, P1))),
                    cached=draw(st.sampled_from((None, None, Cached(), Cached(until=f"j{place}")))),
                    failure=draw(st.sampled_from((0.0, 0.0, 0.1, 0.6))),
                )
            )
        read = {parent for stage in stages for parent in stage.parents}
        ends = tuple(stage.name for stage in stages if stage.name not in read)
        outer = ("j0.last",) if place else ()
        stages.append(ScriptStage("last", draw(st.integers(1, 5)), parents=ends + outer, writes_shuffle=not place))
        after = ("j0",) if place else ()
        times = draw(st.integers(1, 2)) if place else 1
        jobs.append(ScriptJob(f"j{place}", tuple(stages), draw(st.integers(0, 5_000)), after, Uniform(0, 900), times))
    return Jobs(
        tuple(jobs),
        (Profile(P1, (("cores", 2),)),),
        draw(st.sampled_from(Outputs)),
        task_failures_max=draw(st.integers(2, 4)),
        shuffled_offers=draw(st.booleans()),
        clean_ms=draw(st.sampled_from((None, 500))),
    )


TURNS = st.lists(
    st.tuples(st.sampled_from(("join", "lose", "drain", "cut", "wait")), st.integers(0, 9), st.integers(0, 1_500)),
    max_size=25,
)


class Books:
    """What follows from what is said alone. ``held``: by output, who holds each partition."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs
        self.output_of: dict[int, tuple[str, int]] = {}
        self.stages: dict[int, list[int]] = {}  # of jobs that run
        self.held: dict[tuple[str, int], dict[int, str]] = {}
        self.sizes: dict[tuple[str, int], int] = {}
        self.partitions: dict[tuple[int, int], list[int]] = {}
        self.attempts: Counter[int] = Counter()
        self.running: set[tuple[int, int, int]] = set()
        self.starts = self.ends = self.resubmitted = 0

    def lose(self, executor: str) -> None:
        if self.outputs is not Outputs.SERVICE:
            for output, holders in self.held.items():
                if output[0] == "shuffle":
                    for partition in [one for one, holder in holders.items() if holder == executor]:
                        del holders[partition]

    def note(self, item: WorkloadEvent) -> None:
        match item:
            case JobStart(_, job, stages):
                self.stages[job] = [stage.stage for stage in stages]
                for stage, shuffle in stages:
                    self.output_of[stage] = ("result", stage) if shuffle is None else ("shuffle", shuffle)
                    self.held.setdefault(self.output_of[stage], {})
            case StageSubmitted(_, stage, attempt, tasks):
                output = self.output_of[stage]
                assert attempt == self.attempts[stage]
                self.attempts[stage] += 1
                size = self.sizes.setdefault(output, tasks)  # nothing of it is there the first time
                missing = [one for one in range(size) if one not in self.held[output]]
                assert len(missing) == tasks, "an attempt computes what is missing"
                self.partitions[stage, attempt] = missing
            case TaskStart(_, stage, attempt, index):
                self.starts += 1
                self.running.add((stage, attempt, index))
            case TaskEnd(_, stage, attempt, index, executor, _, outcome):
                self.ends += 1
                self.resubmitted += (stage, attempt, index) not in self.running
                self.running.discard((stage, attempt, index))
                alive = any(stage in stages for stages in self.stages.values())
                if outcome is TaskOutcome.SUCCESS and alive:  # what is computed for nobody is not kept
                    holders, partition = self.held[self.output_of[stage]], self.partitions[stage, attempt][index]
                    if self.attempts[stage] == 1:
                        assert partition not in holders, "computed in vain"
                    holders[partition] = executor
            case JobEnd(_, job):
                del self.stages[job]
            case _:
                pass

    def complete(self, job: int) -> bool:
        """Whether somebody holds every partition of what a job that runs is for."""
        output = self.output_of[self.stages[job][-1]]
        return len(self.held[output]) == self.sizes.get(output)


class Story(Play):
    """A play that keeps the second set of books, and makes turns."""

    def __init__(self, script: Jobs, seed: int) -> None:
        super().__init__(script, seed)
        self.books = Books(script.outputs)
        self.load = loads.fold(loads.empty(), ())
        self.succeeded: list[int] = []
        self.number = 0

    def _note(self, item: WorkloadEvent) -> None:
        super()._note(item)
        if self.books.outputs is not Outputs.MIGRATED:  # which partitions move to whom is not said
            if isinstance(item, JobEnd) and self.books.complete(item.job):
                self.succeeded.append(item.job)
            self.books.note(item)
        if not isinstance(item, ExecutorBusy):
            self.load = loads.fold(self.load, (item,))  # type: ignore[arg-type]

    def lose(self, *names: str, reason: ExitReason = KILLED) -> None:
        for name in names:
            self.books.lose(name)
        super().lose(*names, reason=reason)

    def turn(self, what: str, who: int, wait: int) -> None:
        self.until(self.now + wait)
        names = sorted(self.slots)
        name = names[who % len(names)] if names else ""
        if what == "join" or not names:
            self.join(str(self.number), slots=2 if who % 3 == 0 else 1, profile=int(who % 3 == 0))
            self.number += 1
        elif what == "lose":
            self.lose(name, reason=REASONS[who % len(REASONS)])
        elif what == "drain":
            self.decommission(name)
        elif what == "cut":
            self.disconnect(name)

    def end(self) -> None:
        """Whoever is left goes, good ones come, and everything ends."""
        self.lose(*list(self.slots))
        for who in (0, 1, 0, 1):
            self.turn("join", who, 0)
        self.finish(limit=self.now + 10**7)


def played(script: Jobs, seed: int, turns: list[tuple[str, int, int]]) -> Story:
    story = Story(script, seed)
    for what, who, wait in turns:
        story.turn(what, who, wait)
    story.end()
    return story


@given(scripts(), st.integers(0, 9), TURNS)
def test_all_jobs_end_and_all_that_is_needed_is_computed(
    script: Jobs, seed: int, turns: list[tuple[str, int, int]]
) -> None:
    if script.outputs is Outputs.MIGRATED:
        script = replace(script, outputs=Outputs.EXECUTOR)
    story = played(script, seed, turns)
    summary, books = story.summary, story.books
    assert story.done
    assert (summary.jobs_waiting, summary.tasks_running) == (0, 0)
    assert {job.ending for job in summary.jobs} <= {Ending.SUCCEEDED, Ending.FAILED}
    assert [job.job for job in summary.jobs if job.ending is Ending.SUCCEEDED] == sorted(story.succeeded)
    assert (
        len(story.all(JobStart)) == len(story.all(JobEnd)) == len(summary.jobs) == sum(job.times for job in script.jobs)
    )
    assert not books.running
    assert books.starts + books.resubmitted == books.ends
    assert books.resubmitted == summary.tasks_resubmitted
    counted = summary.tasks_succeeded + summary.tasks_failed + summary.tasks_lost + summary.tasks_killed
    assert counted + summary.fetch_failures == books.starts


@given(scripts(), st.integers(0, 9), TURNS)
def test_dynamic_allocation_is_left_with_nothing_to_wait_for(
    script: Jobs, seed: int, turns: list[tuple[str, int, int]]
) -> None:
    story = played(script, seed, turns)
    assert story.done
    for profile in (DEFAULT_PROFILE, P1):
        assert story.load._tables.tallies.get(profile) is None or story.load.demand(profile) == loads.Demand()
    assert len(story.all(StageCompleted)) >= len({item.stage for item in story.all(StageSubmitted)})


@given(scripts(), st.integers(0, 9), TURNS, st.integers(0, 25))
def test_a_fork_goes_on_as_if_nothing_had_happened(
    script: Jobs, seed: int, turns: list[tuple[str, int, int]], fork: int
) -> None:
    one, two = Story(script, seed), Story(script, seed)
    for what, who, wait in turns[:fork]:
        one.turn(what, who, wait)
        two.turn(what, who, wait)
    old, summary, due = workloads.fork(one.state), one.summary, workloads.due(one.state)
    for what, who, wait in turns[fork:]:
        one.turn(what, who, wait)
    one.end()
    assert (workloads.summary(old), workloads.due(old)) == (summary, due)
    two.state = old
    for what, who, wait in turns[fork:]:
        two.turn(what, who, wait)
    two.end()
    assert one.said == two.said
    assert one.summary == two.summary


@given(scripts(), st.integers(0, 9))
def test_many_moments_at_once_are_told_like_one_by_one(script: Jobs, seed: int) -> None:
    def told(at_once: bool) -> list[WorkloadEvent]:
        play = Play(script, seed)
        play.join("1", "2")
        play.join("3", profile=1, slots=2)
        if at_once:
            play.state, said = workloads.advance(play.state, 10**9)
            assert workloads.due(play.state) == NEVER
            play.said.extend(said)
        else:
            play.finish()
        return [item for item in play.said if not isinstance(item, ExecutorBusy)]

    assert told(at_once=True) == told(at_once=False)


@given(scripts(), st.integers(0, 9))
def test_nothing_is_said_before_it_is_due(script: Jobs, seed: int) -> None:
    play = Play(script, seed)
    play.join("1")
    play.join("2", profile=1, slots=2)
    while (due := workloads.due(play.state)) != NEVER:
        early, said = workloads.advance(play.state, max(play.now, due - 1))
        assert said == () or due <= play.now
        assert workloads.due(early) >= due
        play.now = max(play.now, due)
        play.look()
    assert play.all(ResourceProfileAdded) or all(stage.profile == 0 for job in script.jobs for stage in job.stages)
    assert all(isinstance(item.executor, str) for item in play.all(TaskStart))
    assert ExecutorId("1") in play.slots
