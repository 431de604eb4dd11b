"""What follows from a script alone: computed once, shared by all versions of a driver."""

from __future__ import annotations

from podtide.domain.base.units import ProfileId
from podtide.domain.fakes.driver.checks import Index, Node, slots_by_profile
from podtide.domain.fakes.driver.script import Jobs, Outputs, Profile, ScriptJob, ScriptStage
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.scheduler.rules import Retries, SchedulerRules


class ScriptPlan:
    """Of a script without problems. ``lineages``: the stages of each job, ancestors first; ``parents``: of a stage;
    ``readers``: how many later jobs build on one; ``before``, ``followers``: of a job."""

    def __init__(self, script: Jobs, rules: ProfileRules) -> None:
        self.script = script
        self.rules = SchedulerRules(
            retries=Retries(script.task_failures_max, script.stage_attempts_max),
            shuffle_kept=script.outputs is Outputs.SERVICE,
            shuffle_migrates=script.outputs is Outputs.MIGRATED,
        )
        self.slots = {p: n for p, n in slots_by_profile(script, rules).items() if isinstance(n, int)}
        self.profiles: dict[ProfileId, Profile] = {profile.id: profile for profile in script.profiles}
        index = Index(script)
        lineages = index.lineages()
        assert not isinstance(lineages, int)
        self.lineages = lineages
        self.parents: dict[Node, list[Node]] = {}
        self.readers: dict[Node, int] = {}
        for place, lineage in enumerate(lineages):
            for node in lineage:
                if node.job == place:
                    self.parents[node] = index.parents(node)
                else:
                    self.readers[node] = self.readers.get(node, 0) + 1
        self.before = [[index.jobs[name] for name in job.after] for job in script.jobs]
        self.followers: list[list[int]] = [[] for _ in script.jobs]
        for place, before in enumerate(self.before):
            for one in before:
                self.followers[one].append(place)
        self.places = index.jobs

    def job(self, place: int) -> ScriptJob:
        """A job of the script."""
        return self.script.jobs[place]

    def stage(self, node: Node) -> ScriptStage:
        """A stage of the script."""
        return self.script.jobs[node.job].stages[node.stage]
