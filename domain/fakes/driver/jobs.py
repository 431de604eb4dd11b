"""Jobs as they begin and end: their stages, shuffles and RDDs, and which jobs follow them.

A job has a stage for everything in its lineage, ancestors first. A stage that writes a shuffle belongs to the shuffle: as
long as a job that uses it runs, the next one shares it, and a later job has a stage of its own for the same shuffle, which
is skipped if the output is still there. Output is forgotten when no job of the script can read it any more.

What becomes of the stages in between is told in ``fakes.driver.dag_scheduler``.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import draw, split
from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.fakes.driver import task_scheduler as tasks
from podtide.domain.fakes.driver.checks import Node
from podtide.domain.fakes.driver.rows import DriverAgenda, DriverJobRow, DriverStageRow, Ending, attempt_key
from podtide.domain.fakes.driver.script import Cached
from podtide.domain.fakes.driver.tables import DriverTables
from podtide.domain.protocol.stimuli import (
    JobEnd,
    JobStage,
    JobStart,
    ResourceProfileAdded,
    ShuffleCleaned,
    UnpersistRDD,
)

_THINKS: Final = 2**64 - 2
"""The key of the stream that think times are drawn from."""


def open_job(tables: DriverTables, place: int, run: int, now: Millis) -> int:
    """The driver's program runs a job of the script: JobStart with all its stages. Returns the last one, to be submitted."""
    _announce_profiles(tables, place, now)
    job = tables.job_numbers.next()
    ids: dict[Node, int] = {}
    listed = []
    for node in tables.plan.lineages[place]:
        number, shuffle = _stage_of(tables, node, job, place, run, ids)
        ids[node] = number
        listed.append(JobStage(number, shuffle))
    tables.jobs.put(job, DriverJobRow(place, run, now, tuple(ids.values())))
    tables.unstarted.add(job)
    tables.count("jobs.started")
    tables.events.append(JobStart(now, job, tuple(listed)))
    return listed[-1].stage


def _announce_profiles(tables: DriverTables, place: int, now: Millis) -> None:
    """Profiles are known to the listeners before the first job that uses them."""
    plan = tables.plan
    used = {plan.job(node.job).stages[node.stage].profile for node in plan.lineages[place]}
    for profile in sorted(used - {DEFAULT_PROFILE}):
        if profile not in tables.announced:
            tables.announced.add(profile)
            row = plan.profiles[profile]
            executor = tuple((resource, float(amount)) for resource, amount in row.executor)
            tables.events.append(ResourceProfileAdded(now, profile, executor, row.task))


def _stage_of(
    tables: DriverTables, node: Node, job: int, place: int, run: int, ids: dict[Node, int]
) -> tuple[int, int | None]:
    """The stage that a job has for a stage of the script, and its shuffle; a new one, or another running job's."""
    plan, own = tables.plan, node.job == place
    script = plan.job(node.job).stages[node.stage]
    shuffle = None
    if script.writes_shuffle or node != plan.lineages[node.job][-1]:
        name = f"{node.job}.{run if own else 0}.{node.stage}"
        shuffle = tables.shuffles.get(name)
        if shuffle is None:
            shuffle = tables.shuffle_numbers.next()
            tables.shuffles.put(name, shuffle)
            tables.users.put(shuffle, 1 + plan.readers.get(node, 0))
            _new_output(tables, shuffle, script.tasks)
        shared = tables.sharers.get(shuffle)
        if shared is not None:
            row = tables.stages[shared]
            tables.stages.put(shared, row._replace(jobs=row.jobs | {job}))
            return shared, shuffle
    number = tables.stage_numbers.next()
    array = ~number if shuffle is None else shuffle
    if shuffle is None:
        _new_output(tables, array, script.tasks)
    else:
        tables.sharers.put(shuffle, number)
    parents = tuple(sorted(ids[parent] for parent in plan.parents[node]))
    tables.stages.put(number, DriverStageRow(frozenset({job}), node.job, run if own else 0, node.stage, array, parents))
    if script.cached is not None and own:
        _cache(tables, number, place, script.cached)
    return number, shuffle


def _new_output(tables: DriverTables, array: int, size: int) -> None:
    tables.outputs.add(array, size)
    tables.missing.put(array, size)


def _cache(tables: DriverTables, number: int, place: int, cached: Cached) -> None:
    """A stage's RDD is marked as cached; it is unpersisted with the end of a job, of a run of its own job, or never."""
    rdd = tables.rdd_numbers.next()
    tables.rdds.put(number, rdd)
    if cached.until is not None:
        until = tables.plan.places[cached.until]
        key = ~place if until == place else until
        tables.kept.put(key, (rdd, tables.kept.get(key)))


def close_job(tables: DriverTables, job: int, ending: Ending, now: Millis) -> None:
    """cleanupStateForJobAndIndependentStages, JobEnd, and what the script has follow."""
    row = tables.jobs[job]
    tables.jobs.put(job, row._replace(ended=now, ending=ending))
    tables.unstarted.discard(job)
    for number in row.stages:
        stage = tables.stages[number]
        if len(stage.jobs) > 1:
            tables.stages.put(number, stage._replace(jobs=stage.jobs - {job}))
            continue
        for attempt in range(stage.attempt + 1):
            tasks.retire(tables, attempt_key(number, attempt))
        tables.stages.drop(number)
        tables.left.drop(number)
        tables.streams.pop(number, None)
        tables.rdds.drop(number)
        if stage.array < 0:
            tables.drop_output(stage.array)
        else:
            tables.sharers.drop(stage.array)
    tables.count(f"jobs.{ending.value}")
    tables.events.append(JobEnd(now, job))
    _follow(tables, row, now)


def _follow(tables: DriverTables, row: DriverJobRow, now: Millis) -> None:
    """The next run of a job, or what comes after its last one."""
    plan, place = tables.plan, row.place
    script = plan.job(place)
    for stage in range(len(script.stages)):
        _unused(tables, f"{place}.{row.run}.{stage}", now)
    _unpersist(tables, ~place, now)
    if row.run + 1 < script.times:
        tables.later(now + _think(tables, place, row.run + 1), DriverAgenda.JOB, place, row.run + 1)
        return
    _unpersist(tables, place, now)
    tables.ended.add(place)
    for node in plan.lineages[place]:
        if node.job != place:
            _unused(tables, f"{node.job}.0.{node.stage}", now)
    for follower in plan.followers[place]:
        if tables.ended.issuperset(plan.before[follower]):
            at = max(now + _think(tables, follower, 0), tables.began + plan.job(follower).start_ms)
            tables.later(at, DriverAgenda.JOB, follower, 0)


def _think(tables: DriverTables, place: int, run: int) -> Millis:
    rng = split(split(split(tables.seed, _THINKS), place), run)
    return draw(rng, tables.plan.job(place).think)[0]


def _unused(tables: DriverTables, name: str, now: Millis) -> None:
    """One job less may read a shuffle. With the last one it is forgotten, and cleaned if the script says so."""
    shuffle = tables.shuffles.get(name)
    if shuffle is None:
        return
    users = tables.users[shuffle] - 1
    tables.users.put(shuffle, users)
    if not users:
        tables.drop_output(shuffle)
        tables.shuffles.drop(name)
        tables.users.drop(shuffle)
        if tables.plan.script.clean_ms is not None:
            tables.later(now + tables.plan.script.clean_ms, DriverAgenda.CLEAN, shuffle)


def _unpersist(tables: DriverTables, place: int, now: Millis) -> None:
    kept = tables.kept.drop(place)
    rdds = []
    while kept is not None:
        rdd, kept = kept
        rdds.append(rdd)
    tables.events.extend(UnpersistRDD(now, rdd) for rdd in reversed(rdds))


def clean(tables: DriverTables, shuffle: int, now: Millis) -> None:
    """The context cleaner removes a shuffle."""
    tables.events.append(ShuffleCleaned(now, shuffle))
