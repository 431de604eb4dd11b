"""What a workload must be like to be played.

Names are known and lead forward only: stages of a job to its one last stage, jobs to those before them. Numbers are within
bounds, so that a small file cannot ask for more work than somebody would wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple, assert_never

from podtide.domain.config import INT_MAX, ProfileRules
from podtide.domain.profiles import CORES, CPUS, ResourceProfile, SparkFault, default_profile, tasks_per_executor
from podtide.domain.randomness import DELAY_MAX, Constant, Delay, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.workload_script import Job, Jobs, Profile, Stage, Targets, Workload

TASKS_MAX: Final = 5_000_000
"""Tasks of one stage."""

RUNS_MAX: Final = 100_000
"""How often one job runs."""

WORK_MAX: Final = 100_000_000
"""Tasks of a workload in all."""

LINEAGE_MAX: Final = 1_000
"""Stages of one job, those of earlier jobs that it builds on included."""


class Problem(NamedTuple):
    """Something that cannot be in a workload: the path of its key in a workload file, and what was expected there."""

    where: str
    expected: str


class Node(NamedTuple):
    """A stage of a script: the places of its job and of itself."""

    job: int
    stage: int


def problems(workload: Workload, rules: ProfileRules | None = None) -> tuple[Problem, ...]:
    """What cannot be played; () when all can. ``rules``: what executors are like by the application's conf."""
    if isinstance(workload, Targets):
        return tuple(_targets(workload))
    return tuple(_jobs(workload, rules or ProfileRules()))


def resource_profile(profile: Profile) -> ResourceProfile:
    """A script's profile as Spark sees it."""
    return ResourceProfile(profile.id, profile.executor, profile.task)


def slots_by_profile(script: Jobs, rules: ProfileRules) -> dict[ProfileId, int | SparkFault]:
    """How many tasks an executor of each profile runs at once."""
    found = {DEFAULT_PROFILE: tasks_per_executor(default_profile(rules), rules)}
    for profile in script.profiles:
        found[profile.id] = tasks_per_executor(resource_profile(profile), rules)
    return found


def resolve(script: Jobs, job: int, parent: str) -> Node | None:
    """The stage that a parent's name means in a job; None where there is none."""
    jobs = {one.name: place for place, one in enumerate(script.jobs)} if "." in parent else {}
    return _resolve(script, jobs, job, parent)


def lineages(script: Jobs) -> tuple[tuple[Node, ...], ...]:
    """For each job, the stages that it is made of, ancestors before descendants, its own last stage last.

    Stages of earlier jobs that it reads, and those that these read, are among them. Of a script without problems.
    """
    names = {job.name: place for place, job in enumerate(script.jobs)}
    found = []
    for place, job in enumerate(script.jobs):
        last = _last(job)
        assert isinstance(last, int)
        order = _ancestors(script, names, Node(place, last))
        assert order is not None
        found.append(order)
    return tuple(found)


# targets


def _targets(script: Targets) -> Iterable[Problem]:
    before = -1
    for at, targets in script.steps:
        where = f"targets.{at}ms"
        if not before < at <= DELAY_MAX:
            yield Problem(where, "times that rise, at most ten years")
        before = max(before, at)
        if not targets:
            yield Problem(where, "the target of one profile at least")
        if len({profile for profile, _ in targets}) < len(targets):
            yield Problem(where, "every profile once")
        for profile, count in targets:
            if not 0 <= profile <= INT_MAX:
                yield Problem(where, "a resource profile id, 0 or more")
            if not 0 <= count <= INT_MAX:
                yield Problem(where, f"0 to {INT_MAX} executors")
        if sum(count for _, count in targets) > INT_MAX:
            yield Problem(where, f"at most {INT_MAX} executors in all")


# jobs


def _jobs(script: Jobs, rules: ProfileRules) -> Iterable[Problem]:
    if not 1 <= script.task_failures_max <= INT_MAX:
        yield Problem("task-failures", "1 or more")
    if not 1 <= script.stage_attempts_max <= INT_MAX:
        yield Problem("stage-attempts", "1 or more")
    if script.clean_ms is not None and not 0 <= script.clean_ms <= DELAY_MAX:
        yield Problem("clean", "at most ten years")
    yield from _profiles(script, rules)
    names: dict[str, int] = {}
    for place, job in enumerate(script.jobs):
        if not _is_name(job.name):
            yield Problem(f"jobs.{job.name}", "a name without a dot")
        if names.setdefault(job.name, place) != place:
            yield Problem(f"jobs.{job.name}", "a name of its own")
    sound = True
    for place, job in enumerate(script.jobs):
        for problem in _job(script, names, place, job):
            sound = False
            yield problem
    if sum(job.times * sum(stage.tasks for stage in job.stages) for job in script.jobs) > WORK_MAX:
        yield Problem("jobs", f"at most {WORK_MAX} tasks in all")
    if sound:
        yield from _order(script, names)


def _profiles(script: Jobs, rules: ProfileRules) -> Iterable[Problem]:
    known = {DEFAULT_PROFILE}
    for profile in script.profiles:
        where = f"profiles.{profile.id}"
        if not 0 < profile.id <= INT_MAX:
            yield Problem(where, "a resource profile id, 1 or more; 0 is as the conf has it")
        elif profile.id in known:
            yield Problem(where, "every profile once")
        known.add(profile.id)
        for name, amount in (*profile.executor, *profile.task):
            if not 0 < amount <= INT_MAX:
                yield Problem(where, f"an amount of {name} above 0")
    for profile_id, slots in slots_by_profile(script, rules).items():
        where = f"profiles.{profile_id}" if profile_id != DEFAULT_PROFILE else "jobs"
        if isinstance(slots, SparkFault):
            yield Problem(where, f"a profile that Spark takes ({slots.message})")
        elif slots < 1:
            yield Problem(where, f"an executor with room for a task ({CORES} and {CPUS})")


def _job(script: Jobs, names: Mapping[str, int], place: int, job: Job) -> Iterable[Problem]:
    where = f"jobs.{job.name}"
    if not 0 <= job.start_ms <= DELAY_MAX:
        yield Problem(f"{where}.start", "at most ten years")
    if not 1 <= job.times <= RUNS_MAX:
        yield Problem(f"{where}.times", f"1 to {RUNS_MAX}")
    expected = delay_problem(job.think)
    if expected is not None:
        yield Problem(f"{where}.think", expected)
    if len(set(job.after)) < len(job.after):
        yield Problem(f"{where}.after", "every job once")
    for name in job.after:
        if name not in names or name == job.name:
            yield Problem(f"{where}.after", f"names of other jobs, not {name}")
    stages = {stage.name for stage in job.stages}
    if not job.stages or len(stages) < len(job.stages):
        yield Problem(f"{where}.stages", "one stage at least, each with a name of its own")
        return
    profiles = {DEFAULT_PROFILE, *(profile.id for profile in script.profiles)}
    sound = True
    for stage in job.stages:
        for problem in _stage(script, names, place, stage, profiles):
            sound = False
            yield problem
    if not sound:
        return
    last = _last(job)
    if isinstance(last, str):
        yield Problem(f"{where}.stages", last)
    else:
        wrong = [stage.name for at, stage in enumerate(job.stages) if stage.writes_shuffle and at != last]
        if wrong:
            yield Problem(
                f"{where}.stages.{wrong[0]}.writes-shuffle", "the key at the last stage only: the others write one anyway"
            )


def _stage(
    script: Jobs, names: Mapping[str, int], place: int, stage: Stage, profiles: set[ProfileId]
) -> Iterable[Problem]:
    where = f"jobs.{script.jobs[place].name}.stages.{stage.name}"
    if not _is_name(stage.name):
        yield Problem(where, "a name without a dot")
    if not 1 <= stage.tasks <= TASKS_MAX:
        yield Problem(f"{where}.tasks", f"1 to {TASKS_MAX} tasks")
    if not 0.0 <= stage.failure <= 1.0:
        yield Problem(f"{where}.failure", "a share, 0 to 1")
    expected = delay_problem(stage.duration)
    if expected is not None:
        yield Problem(f"{where}.duration", expected)
    if stage.profile not in profiles:
        yield Problem(f"{where}.profile", f"0 or one of the profiles that the file has, not {stage.profile}")
    if stage.cached is not None and stage.cached.until is not None and stage.cached.until not in names:
        yield Problem(f"{where}.cached.until", f"the name of a job, not {stage.cached.until}")
    if len(set(stage.parents)) < len(stage.parents):
        yield Problem(f"{where}.parents", "every parent once")
    for parent in stage.parents:
        node = _resolve(script, names, place, parent)
        if node is None:
            yield Problem(f"{where}.parents", f"stages of this job, or JOB.STAGE of one before it, not {parent}")


def _order(script: Jobs, names: Mapping[str, int]) -> Iterable[Problem]:
    """What leads backwards. Every name is known here."""
    before = _before(script, names)
    if isinstance(before, str):
        yield Problem(f"jobs.{before}.after", "jobs that do not wait for this one")
        return
    for place, job in enumerate(script.jobs):
        for stage in job.stages:
            where = f"jobs.{job.name}.stages.{stage.name}"
            if stage.cached is not None and stage.cached.until not in (None, job.name):
                until = names[stage.cached.until or ""]
                if not before[until] >> place & 1:
                    yield Problem(f"{where}.cached.until", "this job or one that comes after it")
            for parent in stage.parents:
                node = _resolve(script, names, place, parent)
                assert node is not None
                if node.job == place:
                    continue
                source = script.jobs[node.job]
                if not before[place] >> node.job & 1:
                    yield Problem(f"{where}.parents", f"stages of jobs that this one comes after, not {parent}")
                elif source.times != 1:
                    yield Problem(f"{where}.parents", f"stages of jobs that run once, not {parent}")
                elif not _has_output(source, node.stage):
                    yield Problem(f"{where}.parents", f"stages that write a shuffle, not {parent}")
        last = _last(job)
        assert isinstance(last, int)
        if _ancestors(script, names, Node(place, last)) is None:
            yield Problem(f"jobs.{job.name}.stages", f"at most {LINEAGE_MAX} stages, those of earlier jobs included")


def _before(script: Jobs, names: Mapping[str, int]) -> list[int] | str:
    """For each job, the jobs that have ended before it starts, as bits; or the name of one that waits for itself."""
    left = [len(job.after) for job in script.jobs]
    followers: list[list[int]] = [[] for _ in script.jobs]
    for place, job in enumerate(script.jobs):
        for name in job.after:
            followers[names[name]].append(place)
    before = [0] * len(script.jobs)
    ready = [place for place, count in enumerate(left) if not count]
    for place in ready:  # grows meanwhile
        for follower in followers[place]:
            before[follower] |= before[place] | 1 << place
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    stuck = [job.name for job, count in zip(script.jobs, left, strict=True) if count]
    return stuck[0] if stuck else before


def _last(job: Job) -> int | str:
    """The place of the job's one last stage, which every other leads to; or what was expected."""
    places = {stage.name: place for place, stage in enumerate(job.stages)}
    own = [[places[parent] for parent in stage.parents if parent in places] for stage in job.stages]
    read = {parent for parents in own for parent in parents}
    ends = [place for place in range(len(job.stages)) if place not in read]
    if len(ends) != 1:
        return "one last stage that no other has for a parent"
    seen, todo = set(ends), list(ends)
    while todo:
        for parent in own[todo.pop()]:
            if parent not in seen:
                seen.add(parent)
                todo.append(parent)
    # With one end, a stage that does not lead to it is in a circle; so may be one that does.
    left = [len(parents) for parents in own]
    ready = [place for place, count in enumerate(left) if not count]
    for place in ready:  # grows meanwhile
        for child, parents in enumerate(own):
            if place in parents:
                left[child] -= 1
                if not left[child]:
                    ready.append(child)
    return ends[0] if len(seen) == len(ready) == len(job.stages) else "stages that do not wait for themselves"


def _ancestors(script: Jobs, names: Mapping[str, int], last: Node) -> tuple[Node, ...] | None:
    """The lineage of a stage, ancestors first; None where it is too large."""
    done: dict[Node, None] = {}
    seen = {last}
    path = [(last, iter(_parents(script, names, last)))]
    while path:
        node, parents = path[-1]
        for parent in parents:
            if parent not in seen:
                seen.add(parent)
                if len(seen) > LINEAGE_MAX:
                    return None
                path.append((parent, iter(_parents(script, names, parent))))
                break
        else:
            done[node] = None
            path.pop()
    return tuple(done)


def _parents(script: Jobs, names: Mapping[str, int], node: Node) -> list[Node]:
    stage = script.jobs[node.job].stages[node.stage]
    found = [_resolve(script, names, node.job, parent) for parent in stage.parents]
    return [parent for parent in found if parent is not None]


def _resolve(script: Jobs, names: Mapping[str, int], job: int, parent: str) -> Node | None:
    name, dot, stage = parent.rpartition(".")
    place = names.get(name) if dot else job
    if place is None or (dot and place == job):
        return None
    for at, one in enumerate(script.jobs[place].stages):
        if one.name == stage:
            return Node(place, at)
    return None


def _has_output(job: Job, stage: int) -> bool:
    return job.stages[stage].writes_shuffle or _last(job) != stage


def _is_name(name: str) -> bool:
    return bool(name) and "." not in name


def delay_problem(delay: Delay) -> str | None:
    """What was expected of a distribution of durations; None where it is one."""
    match delay:
        case Constant(ms):
            return None if 0 <= ms <= DELAY_MAX else "at most ten years"
        case Uniform(low, high):
            return None if 0 <= low <= high <= DELAY_MAX else "from no longer than to"
        case Exponential(mean):
            return None if 0 <= mean <= DELAY_MAX else "a mean of at most ten years"
        case LogNormal(median, p90):
            return None if 0 < median <= p90 <= DELAY_MAX else "a median of more than 0, and a p90 no shorter"
        case Quantiles(points):
            rising = all(p < q and a <= b for (p, a), (q, b) in pairwise(points))
            fine = bool(points) and rising and all(0 <= p <= 100 and 0 <= ms <= DELAY_MAX for p, ms in points)
            return None if fine else "percents from 0 to 100, and durations that rise with them"
        case _:
            assert_never(delay)
