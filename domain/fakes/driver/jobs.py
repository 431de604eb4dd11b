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
from podtide.domain.fakes.driver.books import Books
from podtide.domain.fakes.driver.checks import Node
from podtide.domain.fakes.driver.rows import Due, Ending, JobRow, Kind, StageRow, attempt_key
from podtide.domain.fakes.driver.script import Cached
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


def open_job(books: Books, place: int, run: int, now: Millis) -> int:
    """The driver's program runs a job of the script: JobStart with all its stages. Returns the last one, to be submitted."""
    _announce_profiles(books, place, now)
    job = books.next("jobs")
    ids: dict[Node, int] = {}
    listed = []
    for node in books.plan.lineages[place]:
        number, shuffle = _stage_of(books, node, job, place, run, ids)
        ids[node] = number
        listed.append(JobStage(number, shuffle))
    books.jobs.put(job, JobRow(place, run, now, tuple(ids.values())))
    books.unstarted.add(job)
    books.count("jobs.started")
    books.said.append(JobStart(now, job, tuple(listed)))
    return listed[-1].stage


def _announce_profiles(books: Books, place: int, now: Millis) -> None:
    """Profiles are known to the listeners before the first job that uses them."""
    plan = books.plan
    used = {plan.job(node.job).stages[node.stage].profile for node in plan.lineages[place]}
    for profile in sorted(used - {DEFAULT_PROFILE}):
        name = f"profile {profile}"
        if not books.number(name):
            books.numbers.put(name, 1)
            row = plan.profiles[profile]
            executor = tuple((resource, float(amount)) for resource, amount in row.executor)
            books.said.append(ResourceProfileAdded(now, profile, executor, row.task))


def _stage_of(books: Books, node: Node, job: int, place: int, run: int, ids: dict[Node, int]) -> tuple[int, int | None]:
    """The stage that a job has for a stage of the script, and its shuffle; a new one, or another running job's."""
    plan, own = books.plan, node.job == place
    script = plan.job(node.job).stages[node.stage]
    shuffle = None
    if script.writes_shuffle or node != plan.lineages[node.job][-1]:
        name = f"{node.job}.{run if own else 0}.{node.stage}"
        shuffle = books.shuffles.rows.get(name)
        if shuffle is None:
            shuffle = books.next("shuffles")
            books.shuffles.put(name, shuffle)
            books.users.put(shuffle, 1 + plan.readers.get(node, 0))
            _new_output(books, shuffle, script.tasks)
        shared = books.sharers.rows.get(shuffle)
        if shared is not None:
            row = books.stages.rows[shared]
            books.stages.put(shared, row._replace(jobs=row.jobs | {job}))
            return shared, shuffle
    number = books.next("stages")
    array = ~number if shuffle is None else shuffle
    if shuffle is None:
        _new_output(books, array, script.tasks)
    else:
        books.sharers.put(shuffle, number)
    parents = tuple(sorted(ids[parent] for parent in plan.parents[node]))
    books.stages.put(number, StageRow(frozenset({job}), node.job, run if own else 0, node.stage, array, parents))
    if script.cached is not None and own:
        _cache(books, number, place, script.cached)
    return number, shuffle


def _new_output(books: Books, array: int, size: int) -> None:
    books.outputs.add(array, size)
    books.missing.put(array, size)


def _cache(books: Books, number: int, place: int, cached: Cached) -> None:
    """A stage's RDD is marked as cached; it is unpersisted with the end of a job, of a run of its own job, or never."""
    rdd = books.next("rdds")
    books.rdds.put(number, rdd)
    if cached.until is not None:
        until = books.plan.places[cached.until]
        key = ~place if until == place else until
        books.kept.put(key, (rdd, books.kept.rows.get(key)))


def close_job(books: Books, job: int, ending: Ending, now: Millis) -> None:
    """cleanupStateForJobAndIndependentStages, JobEnd, and what the script has follow."""
    row = books.jobs.rows[job]
    books.jobs.put(job, row._replace(ended=now, ending=ending))
    books.unstarted.discard(job)
    for number in row.stages:
        stage = books.stages.rows[number]
        if len(stage.jobs) > 1:
            books.stages.put(number, stage._replace(jobs=stage.jobs - {job}))
            continue
        for attempt in range(stage.attempt + 1):
            tasks.retire(books, attempt_key(number, attempt))
        books.stages.drop(number)
        books.left.drop(number)
        books.streams.pop(number, None)
        books.rdds.drop(number)
        if stage.array < 0:
            books.drop_output(stage.array)
        else:
            books.sharers.drop(stage.array)
    books.count(f"jobs.{ending.value}")
    books.said.append(JobEnd(now, job))
    _follow(books, row, now)


def _follow(books: Books, row: JobRow, now: Millis) -> None:
    """The next run of a job, or what comes after its last one."""
    plan, place = books.plan, row.place
    script = plan.job(place)
    for stage in range(len(script.stages)):
        _unused(books, f"{place}.{row.run}.{stage}", now)
    _unpersist(books, ~place, now)
    if row.run + 1 < script.times:
        books.later(Due(now + _think(books, place, row.run + 1), Kind.JOB, place, row.run + 1))
        return
    _unpersist(books, place, now)
    books.numbers.put(f"ended {place}", 1)
    books.next("ended")
    for node in plan.lineages[place]:
        if node.job != place:
            _unused(books, f"{node.job}.0.{node.stage}", now)
    for follower in plan.followers[place]:
        if all(books.number(f"ended {one}") for one in plan.before[follower]):
            at = max(now + _think(books, follower, 0), books.began + plan.job(follower).start_ms)
            books.later(Due(at, Kind.JOB, follower, 0))


def _think(books: Books, place: int, run: int) -> Millis:
    rng = split(split(split(books.seed, _THINKS), place), run)
    return draw(rng, books.plan.job(place).think)[0]


def _unused(books: Books, name: str, now: Millis) -> None:
    """One job less may read a shuffle. With the last one it is forgotten, and cleaned if the script says so."""
    shuffle = books.shuffles.rows.get(name)
    if shuffle is None:
        return
    users = books.users.rows[shuffle] - 1
    books.users.put(shuffle, users)
    if not users:
        books.drop_output(shuffle)
        books.shuffles.drop(name)
        books.users.drop(shuffle)
        if books.plan.script.clean_ms is not None:
            books.later(Due(now + books.plan.script.clean_ms, Kind.CLEAN, shuffle))


def _unpersist(books: Books, place: int, now: Millis) -> None:
    kept = books.kept.drop(place)
    rdds = []
    while kept is not None:
        rdd, kept = kept
        rdds.append(rdd)
    books.said.extend(UnpersistRDD(now, rdd) for rdd in reversed(rdds))


def clean(books: Books, shuffle: int, now: Millis) -> None:
    """The context cleaner removes a shuffle."""
    books.said.append(ShuffleCleaned(now, shuffle))
