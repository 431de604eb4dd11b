"""What is kept up to date step by step is what counting anew gives."""

from __future__ import annotations

from hypothesis import given

from podtide.domain.base.units import ALWAYS, NEVER, ExecutorId, Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.scaling import executor_monitor
from podtide.domain.scaling.executor_monitor import Idleness
from podtide.domain.scaling.executor_trackers import IdlenessBooks
from podtide.domain.scaling.load import LoadBooks
from podtide.domain.scaling.rules import needed_executors, total_need
from tests.properties.happenings import Happening, Run, configs, happenings


def sums(books: LoadBooks) -> tuple[object, ...]:
    tallies = {
        profile: (t.pending, t.speculative, t.unschedulable, t.running)
        for profile, t in books.tallies.items()
        if t.pending or t.speculative or t.unschedulable or t.running
    }
    pending = {key: attempt.pending for key, attempt in books.attempts.items()}
    return tallies, pending, books.waiting, books.spec_waiting, books.open


@given(configs(), happenings)
def test_sums_of_the_load(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config)
    for happening in story:
        run.happen(happening)
        books = run.state.load.books
        counted = books.copy()
        counted.recount()
        assert sums(counted) == sums(books)


@given(configs(), happenings)
def test_the_total_need_is_the_sum_of_the_needs(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config)
    for happening in story:
        run.happen(happening)
        load, scaling = run.state.load, run.state.scaling
        needs = [needed_executors(scaling, load, config, profile) for profile in scaling.order]
        total = sum(max(0, need) for need in needs if not isinstance(need, SparkFault))
        assert total_need(scaling, load, config) == total


def derived(books: IdlenessBooks) -> tuple[object, ...]:
    rosters = {
        profile: (r.count, r.busy, r.pending_removal, r.decommissioning)
        for profile, r in books.rosters.items()
        if r.count or r.busy or r.pending_removal or r.decommissioning
    }
    holds = {executor: (t.hold, t.kept, t.profile) for executor, t in books.trackers.items()}
    rdd_holders = {rdd: sorted(held) for rdd, held in books.rdd_holders.items() if held}
    job_shuffles = {job: sorted(shuffles) for job, shuffles in books.job_shuffles.items() if shuffles}
    return rosters, holds, rdd_holders, job_shuffles, books.idle_shuffles, books.lists


@given(configs(), happenings)
def test_counts_of_the_idleness(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config)
    for happening in story:
        run.happen(happening)
        books = run.state.scaling.idleness.books
        counted = books.copy()
        counted.recount()
        assert derived(counted) == derived(books)
        for tracker in books.trackers.values():
            assert tracker.shuffles == sum(tracker in books.holders_of(shuffle) for shuffle in books.holders)
        # Who is shuffle-active without a job that needs it is looked at again when a job ends.
        assert counted.suspects <= books.suspects


def walk(idleness: Idleness, now: Millis) -> tuple[set[ExecutorId], Millis]:
    """ExecutorMonitor.timedOutExecutors as Spark does it: over all executors; and the next deadline after ``now``."""
    timed_out, later = set(), NEVER
    for executor, tracker in idleness.trackers().items():
        if not (tracker.pending_removal or tracker.decommissioning or tracker.active_shuffle):
            if tracker.timeout_at <= now:
                timed_out.add(executor)
            else:
                later = min(later, tracker.timeout_at)
    return timed_out, later


@given(configs(), happenings)
def test_the_list_is_what_a_walk_over_all_executors_finds(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config)
    for happening in story:
        run.happen(happening)
        idleness = run.state.scaling.idleness
        was_due = idleness.books.next_timeout
        before = set(idleness.books.listed)
        for now in (run.now, run.now + 1_000, run.now + 5_000):
            seen, _ = executor_monitor.look(idleness, now)
            listed = {executor for ids in seen.timed_out().values() for executor in ids}
            assert all(ids == sorted(ids) for ids in seen.timed_out().values())
            if now >= was_due:
                assert (listed, seen.books.next_timeout) == walk(idleness, now)
                assert all(seen.books.trackers[executor].timed_out for executor in listed)
                assert all(t.timed_out == (e in listed) or not t.eligible for e, t in seen.trackers().items())
            else:
                assert listed == before
            # What data keeps is told whenever it changes.
            for executor, tracker in seen.trackers().items():
                keeper = seen.books.keeper(tracker, now)
                kept = None if keeper is None else (keeper, tracker.profile)
                assert seen.books.kept.get(executor) == kept
            assert seen.books.kept.keys() <= seen.trackers().keys()
            assert seen.due() >= ALWAYS
            assert seen.due() > now
