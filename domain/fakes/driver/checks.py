"""What a workload must be like to be played.

Names are known and lead forward only: stages of a job to its one last stage, jobs to those before them. Numbers are within
bounds, so that a small file cannot ask for more work than somebody would wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from podtide.domain.base.randomness import DELAY_MAX
from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.fakes.checks import delay_problem
from podtide.domain.fakes.driver.script import Data, Jobs, Profile, ScriptStage, Targets, Workload
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.cluster_config import INT_MAX
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.resource_profiles import CORES, CPUS, ResourceProfile, default_profile, tasks_per_executor

TASKS_MAX: Final = 5_000_000
"""Tasks of one stage."""

PLACED_MAX: Final = 200_000
"""Tasks of one stage of which each says where its data is."""

DATA_HOSTS_MAX: Final = 10_000
"""Hosts of one stage's data."""

RUNS_MAX: Final = 100_000
"""How often one job runs."""

WORK_MAX: Final = 100_000_000
"""Tasks of a workload in all."""

LINEAGE_MAX: Final = 1_000
"""Stages of one job, those of earlier jobs that it builds on included."""

LINEAGES_MAX: Final = 600_000
"""Parents of stages of all jobs together, counted again for every job that builds on them."""


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


class Index:
    """A script's names, and what follows from them. Of a script whose names are sound, see ``problems``."""

    def __init__(self, script: Jobs) -> None:
        self.script = script
        self.jobs = {job.name: place for place, job in enumerate(script.jobs)}
        self._stages = [{stage.name: place for place, stage in enumerate(job.stages)} for job in script.jobs]
        self._parents: dict[Node, list[Node]] = {}

    def resolve(self, job: int, parent: str) -> Node | None:
        """The stage that a parent's name means in a job; None where there is none."""
        name, dot, stage = parent.rpartition(".")
        place = self.jobs.get(name) if dot else job
        if place is None or (dot and place == job):
            return None
        at = self._stages[place].get(stage)
        return None if at is None else Node(place, at)

    def parents(self, node: Node) -> list[Node]:
        """The stages that a stage reads."""
        known = self._parents.get(node)
        if known is None:
            stage = self.script.jobs[node.job].stages[node.stage]
            found = [self.resolve(node.job, parent) for parent in stage.parents]
            self._parents[node] = known = [parent for parent in found if parent is not None]
        return known

    def last(self, job: int) -> int | str:
        """The place of the job's one last stage, which every other leads to; or what was expected."""
        places = self._stages[job]
        children: list[list[int]] = [[] for _ in places]
        left = [0] * len(places)
        for place, stage in enumerate(self.script.jobs[job].stages):
            for parent in stage.parents:
                if parent in places:
                    children[places[parent]].append(place)
                    left[place] += 1
        ends = [place for place, below in enumerate(children) if not below]
        if len(ends) > 1:
            return "one last stage that all others lead to"
        # What waits for nothing, then what waited for that, and so on: who is never reached waits for itself.
        ready = [place for place, count in enumerate(left) if not count]
        for place in ready:  # grows meanwhile
            for child in children[place]:
                left[child] -= 1
                if not left[child]:
                    ready.append(child)
        return ends[0] if len(ready) == len(places) else "stages that do not wait for themselves"

    def lineages(self) -> tuple[tuple[Node, ...], ...] | int:
        """For each job, the stages that it is made of, ancestors before descendants, its own last stage last.

        Stages of earlier jobs that it reads, and those that these read, are among them. The place of a job instead, if
        its lineage is too large.
        """
        found: list[tuple[Node, ...]] = []
        left = LINEAGES_MAX
        for job in range(len(self.script.jobs)):
            last = self.last(job)
            assert isinstance(last, int)
            done: dict[Node, None] = {}
            seen = {Node(job, last)}
            path = [(Node(job, last), iter(self.parents(Node(job, last))))]
            while path:
                node, parents = path[-1]
                for parent in parents:
                    left -= 1
                    if parent not in seen:
                        seen.add(parent)
                        path.append((parent, iter(self.parents(parent))))
                        break
                else:
                    done[node] = None
                    path.pop()
                if len(seen) > LINEAGE_MAX or left < 0:
                    return job
            found.append(tuple(done))
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
    names: set[str] = set()
    for job in script.jobs:
        if not _is_name(job.name):
            yield Problem(f"jobs.{job.name}", "a name without a dot")
        if job.name in names:
            yield Problem(f"jobs.{job.name}", "a name of its own")
        names.add(job.name)
    sound, index = len(names) == len(script.jobs), Index(script)
    for place in range(len(script.jobs)):
        for problem in _job(index, place):
            sound = False
            yield problem
    if sum(job.times * sum(stage.tasks for stage in job.stages) for job in script.jobs) > WORK_MAX:
        yield Problem("jobs", f"at most {WORK_MAX} tasks in all")
    if sound:
        yield from _order(index)


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
        where = f"profiles.{profile_id}"
        if isinstance(slots, SparkFault):
            yield Problem(where, f"a profile that Spark takes ({slots.message})")
        elif slots < 1:
            yield Problem(where, f"an executor with room for a task ({CORES} and {CPUS})")


def _job(index: Index, place: int) -> Iterable[Problem]:
    job = index.script.jobs[place]
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
        if name not in index.jobs or name == job.name:
            yield Problem(f"{where}.after", f"names of other jobs, not {name}")
    names = {stage.name for stage in job.stages}
    if not 1 <= len(job.stages) <= LINEAGE_MAX or len(names) < len(job.stages):
        yield Problem(f"{where}.stages", f"1 to {LINEAGE_MAX} stages, each with a name of its own")
        return
    profiles = {DEFAULT_PROFILE, *(profile.id for profile in index.script.profiles)}
    sound = True
    for stage in job.stages:
        for problem in _stage(index, place, stage, profiles):
            sound = False
            yield problem
    if not sound:
        return
    last = index.last(place)
    if isinstance(last, str):
        yield Problem(f"{where}.stages", last)
        return
    for at, stage in enumerate(job.stages):
        if stage.writes_shuffle and at != last:
            yield Problem(
                f"{where}.stages.{stage.name}.writes-shuffle",
                "this key at the last stage only: every other writes one",
            )


def _data(data: Data, tasks: int, where: str) -> Iterable[Problem]:
    if not 1 <= len(data.hosts) <= DATA_HOSTS_MAX or len(set(data.hosts)) < len(data.hosts):
        yield Problem(f"{where}.hosts", f"1 to {DATA_HOSTS_MAX} hosts, each once")
    elif not 1 <= data.copies <= len(data.hosts):
        yield Problem(f"{where}.copies", f"1 to {len(data.hosts)}, as many as there are hosts at most")
    elif tasks * data.copies > PLACED_MAX:
        yield Problem(f"{where}.copies", f"at most {PLACED_MAX} tasks, copies and all")


def _stage(index: Index, place: int, stage: ScriptStage, profiles: set[ProfileId]) -> Iterable[Problem]:
    where = f"jobs.{index.script.jobs[place].name}.stages.{stage.name}"
    if not _is_name(stage.name):
        yield Problem(where, "a name without a dot")
    if not 1 <= stage.tasks <= TASKS_MAX:
        yield Problem(f"{where}.tasks", f"1 to {TASKS_MAX} tasks")
    if stage.data is not None:
        yield from _data(stage.data, stage.tasks, f"{where}.data")
    if not 0.0 <= stage.failure <= 1.0:
        yield Problem(f"{where}.failure", "a share, 0 to 1")
    expected = delay_problem(stage.duration)
    if expected is not None:
        yield Problem(f"{where}.duration", expected)
    if stage.profile not in profiles:
        yield Problem(f"{where}.profile", f"0 or one of the profiles described here, not {stage.profile}")
    if stage.cached is not None and stage.cached.until is not None and stage.cached.until not in index.jobs:
        yield Problem(f"{where}.cached.until", f"the name of a job, not {stage.cached.until}")
    if len(set(stage.parents)) < len(stage.parents):
        yield Problem(f"{where}.parents", "every parent once")
    for parent in stage.parents:
        if index.resolve(place, parent) is None:
            yield Problem(f"{where}.parents", f"stages of this job, or JOB.STAGE of one before it, not {parent}")


def _order(index: Index) -> Iterable[Problem]:
    """What leads backwards. Every name is known here, and every job has its last stage."""
    jobs = index.script.jobs
    before = _before(index)
    if isinstance(before, str):
        yield Problem(f"jobs.{before}.after", "jobs that do not wait for this one")
        return
    lasts = [index.last(place) for place in range(len(jobs))]
    sound = True
    for place, job in enumerate(jobs):
        for stage in job.stages:
            where = f"jobs.{job.name}.stages.{stage.name}"
            for key, expected in _reach(index, before, lasts, place, stage):
                sound = False
                yield Problem(f"{where}.{key}", expected)
    if sound:
        large = index.lineages()
        if isinstance(large, int):
            expected = f"at most {LINEAGE_MAX} stages, those of the jobs that it builds on included"
            yield Problem(f"jobs.{jobs[large].name}.stages", expected)


def _reach(
    index: Index, before: Sequence[int], lasts: Sequence[int | str], place: int, stage: ScriptStage
) -> Iterable[tuple[str, str]]:
    """What a stage refers to outside of its job, and must not."""
    jobs = index.script.jobs
    if stage.cached is not None and stage.cached.until not in (None, jobs[place].name):
        until = index.jobs[stage.cached.until or ""]
        if not before[until] >> place & 1:
            yield "cached.until", "this job or one that comes after it"
    for parent in stage.parents:
        node = index.resolve(place, parent)
        assert node is not None
        if node.job == place:
            continue
        source = jobs[node.job]
        if not before[place] >> node.job & 1:
            yield "parents", f"stages of jobs that this one comes after, not {parent}"
        elif source.times != 1:
            yield "parents", f"stages of jobs that run once, not {parent}"
        elif lasts[node.job] == node.stage and not source.stages[node.stage].writes_shuffle:
            yield "parents", f"stages that write a shuffle, not {parent} (its key writes-shuffle)"


def _before(index: Index) -> list[int] | str:
    """For each job, the jobs that have ended before it starts, as bits; or the name of one that waits for itself."""
    jobs = index.script.jobs
    left = [len(job.after) for job in jobs]
    followers: list[list[int]] = [[] for _ in jobs]
    for place, job in enumerate(jobs):
        for name in job.after:
            followers[index.jobs[name]].append(place)
    before = [0] * len(jobs)
    ready = [place for place, count in enumerate(left) if not count]
    for place in ready:  # grows meanwhile
        for follower in followers[place]:
            before[follower] |= before[place] | 1 << place
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    stuck = [job.name for job, count in zip(jobs, left, strict=True) if count]
    return stuck[0] if stuck else before


def _is_name(name: str) -> bool:
    return bool(name) and "." not in name
