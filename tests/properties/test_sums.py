"""What is kept up to date step by step is what counting anew gives."""

from __future__ import annotations

from hypothesis import given

from podtide.domain.base.units import ALWAYS, NEVER, ExecutorId, Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.scaling import executor_monitor
from podtide.domain.scaling.executor_monitor import Idleness
from podtide.domain.scaling.executor_trackers import MonitorTables
from podtide.domain.scaling.load_tables import LoadTables
from podtide.domain.scaling.rules import needed_executors, total_need
from tests.properties.happenings import Happening, Run, configs, happenings


def sums(tables: LoadTables) -> tuple[object, ...]:
    tallies = {
        profile: (t.pending, t.speculative, t.unschedulable, t.running)
        for profile, t in tables.tallies.items()
        if t.pending or t.speculative or t.unschedulable or t.running
    }
    pending = {key: attempt.pending for key, attempt in tables.attempts.items()}
    return tallies, pending, tables.waiting, tables.spec_waiting, tables.open


@given(configs(), happenings)
def test_sums_of_the_load(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config)
    for happening in story:
        run.happen(happening)
        tables = run.state.load._tables
        counted = tables.copy()
        counted.recount()
        assert sums(counted) == sums(tables)


@given(configs(), happenings)
def test_the_total_need_is_the_sum_of_the_needs(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config)
    for happening in story:
        run.happen(happening)
        load, scaling = run.state.load, run.state.scaling
        needs = [needed_executors(scaling, load, config, profile) for profile in scaling.order]
        total = sum(max(0, need) for need in needs if not isinstance(need, SparkFault))
        assert total_need(scaling, load, config) == total


def derived(tables: MonitorTables) -> tuple[object, ...]:
    rosters = {
        profile: (r.count, r.busy, r.pending_removal, r.decommissioning)
        for profile, r in tables.rosters.items()
        if r.count or r.busy or r.pending_removal or r.decommissioning
    }
    holds = {executor: (t.idle_timeout, t.kept, t.profile) for executor, t in tables.trackers.items()}
    rdd_holders = {rdd: sorted(held) for rdd, held in tables.rdd_holders.items() if held}
    job_shuffles = {job: sorted(shuffles) for job, shuffles in tables.job_shuffles.items() if shuffles}
    return rosters, holds, rdd_holders, job_shuffles, tables.idle_shuffles, tables.lists


@given(configs(), happenings)
def test_counts_of_the_idleness(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config)
    for happening in story:
        run.happen(happening)
        tables = run.state.scaling.idleness._tables
        counted = tables.copy()
        counted.recount()
        assert derived(counted) == derived(tables)
        for tracker in tables.trackers.values():
            assert tracker.shuffles == sum(tracker in tables.holders_of(shuffle) for shuffle in tables.holders)
        # Who is shuffle-active without a job that needs it is looked at again when a job ends.
        assert counted.suspects <= tables.suspects


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
        was_due = idleness._tables.next_timeout
        before = set(idleness._tables.listed)
        for now in (run.now, run.now + 1_000, run.now + 5_000):
            seen, _ = executor_monitor.look(idleness, now)
            listed = {executor for ids in seen.timed_out().values() for executor in ids}
            assert all(list(ids) == sorted(ids) for ids in seen.timed_out().values())
            if now >= was_due:
                assert (listed, seen._tables.next_timeout) == walk(idleness, now)
                assert all(seen._tables.trackers[executor].timed_out for executor in listed)
                assert all(t.timed_out == (e in listed) or not t.eligible for e, t in seen.trackers().items())
            else:
                assert listed == before
            # What data keeps is told whenever it changes.
            for executor, tracker in seen.trackers().items():
                keeper = seen._tables.keeper(tracker, now)
                kept = None if keeper is None else (keeper, tracker.profile)
                assert seen._tables.kept.get(executor) == kept
            assert seen._tables.kept.keys() <= seen.trackers().keys()
            assert seen.due() >= ALWAYS
            assert seen.due() > now
