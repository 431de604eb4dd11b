"""Scenarios of the scaling allocators: Spark's StatefulSetPodsAllocator and DeploymentPodsAllocator were driven by them.

Lines set targets, say which requests fail, ask isDeleted, and stop the allocator. The answers are the requests in order (a
scale is three of them), what the call threw, and after every line which profiles have a set and how many replicas the API
server has for each. The API server is played here.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Literal, assert_never

from podtide.adapters.conformance.manifests import ShapeError, java_bool, java_text
from podtide.adapters.conformance.replicas_templates import mini, real, set_labels
from podtide.adapters.conformance.scenario_configs import kubernetes_scenario, scale_conf
from podtide.adapters.conformance.scripted import OK, Line, Scripted, ScriptedApi, constructed, played, thrown
from podtide.domain.base.units import ProfileId
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION
from podtide.domain.kubernetes.allocator import replicas_allocator as replicas
from podtide.domain.kubernetes.allocator.replicas_allocator import (
    AllocatorStarted,
    Constructing,
    ReplicasCommand,
    ReplicasInput,
    TargetsServed,
)
from podtide.domain.protocol.executor_stimuli import Starting, Stopping, TargetsSet
from podtide.domain.protocol.pod_commands import AwaitDriverReady, CreateSet, DeleteSet, GetDriverPod, ScaleSet
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome
from podtide.domain.protocol.pods import DEPLOYMENT

NOT_FOUND: Final = 404
CONFLICT: Final = 409
CREATED: Final = 201

Verb = Literal["POST", "GET", "PUT", "DELETE"]


class _Runner(Scripted):
    """One scenario under way, and the API server that plays in it."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self.builder = java_text(self.options.get("builder", "mini"))
        self.conf = scale_conf(header["conf"], {**self.options, "appId": self.app_id})
        self.api = ScriptedApi(self.app_id)
        self.sets: dict[str, int] = {}
        self.state = replicas.begin()
        scenario = constructed(kubernetes_scenario("scale", header["conf"], {**self.options, "appId": self.app_id}))
        assert scenario.replicas is not None
        self.config = scenario.replicas
        self.plural = "deployments" if self.config.kind == DEPLOYMENT else "statefulsets"
        self.take(Starting(self.now) if java_bool(self.options.get("start", True)) else Constructing(self.now))

    def step(self, line: Line) -> None:
        self.now = line.get("at", self.now)
        self.api.apply(line)
        threw = False
        questions: list[Line] = []  # calls are shown when the line's work is done, questions at once
        if "targets" in line:
            targets = tuple((ProfileId(_number(profile)), count) for profile, count in line["targets"].items())
            threw = self.take(TargetsSet(self.now, targets))
        if "isDeleted" in line and not threw:
            deleted = {java_text(executor): False for executor in line["isDeleted"]}
            questions.append({"at": self.now, "isDeleted": deleted})
        if line.get("stop") and not threw:
            self.take(Stopping(self.now))
        self.say({"state": {"created": sorted(self.state.created), "replicas": dict(self.sets)}})
        self.lines = questions + self.lines

    def take(self, item: ReplicasInput) -> bool:
        """Hand one input to the core and carry out what it says; returns whether it threw."""
        step = replicas.scale(self.state, (item,), self.config, self.now)
        self.state = step.state
        faults = thrown(step.reports)
        for fault in faults:
            exception, _, _ = fault.partition(":")
            self.say({"threw": fault if exception == SPARK_EXCEPTION else exception})
        threw = bool(faults)
        for command in step.commands:
            outcome = self.carry_out(command)
            if outcome is not None:
                threw |= self.take(outcome)
        return threw

    def carry_out(self, command: ReplicasCommand) -> Outcome | None:
        match command:
            case CreateSet():
                return self.outcome(command.serial, self.create(command))
            case ScaleSet():
                return self.outcome(command.serial, self.scale(command))
            case DeleteSet():
                return self.outcome(command.serial, self.delete(command))
            case GetDriverPod():  # a missing one was the conf's failure
                self.say({"get": f"pods/{command.name}", "code": OK})
                return Outcome(self.now, command.serial)
            case AwaitDriverReady():
                return Outcome(self.now, command.serial)
            case AllocatorStarted() | TargetsServed():
                return None
            case _:
                assert_never(command)

    def outcome(self, serial: int, code: int) -> Outcome:
        failure = None if code in (OK, CREATED) else CallFailure(code, "oracle")
        return Outcome(self.now, serial, failure)

    # the API server

    def code(self, verb: Verb, name: str) -> int:
        """The answer to a request for a set: as scripted, or as the server has it."""
        if self.api.fails(f"{verb} {self.plural}", name):
            return self.api.fail_code
        if verb == "POST":
            return CONFLICT if name in self.sets else CREATED
        return OK if name in self.sets else NOT_FOUND

    def create(self, command: CreateSet) -> int:
        code = self.code("POST", command.name)
        if code == CREATED:
            self.sets[command.name] = command.replicas
        driver = self.config.driver_pod
        line: Line = {
            "create": self.plural,
            "apiVersion": "apps/v1",
            "name": command.name,
            "namespace": self.config.namespace,
            "owner": driver,
            "replicas": command.replicas,
        }
        if command.kind != DEPLOYMENT:
            line["podManagementPolicy"] = "Parallel"
        line["selector"] = set_labels(self.app_id, command.profile)
        shown = self.builder == "real"
        line["template"] = real(command, self.app_id, self.conf, driver) if shown else mini(command, self.app_id)
        line["volumeClaimTemplates"] = [
            {"name": claim.name, "storageClass": claim.storage_class, "size": claim.size}
            for claim in sorted(command.claims, key=lambda claim: claim.name)
        ]
        self.say({**line, "code": code})
        return code

    def scale(self, command: ScaleSet) -> int:
        """GET the scale, PUT it, GET the set; the first failure ends it."""
        path = f"{self.plural}/{command.name}"
        code = self.code("GET", command.name)
        self.say({"get": f"{path}/scale", "code": code})
        if code != OK:
            return code
        code = self.code("PUT", command.name)
        self.say({"scale": path, "replicas": command.replicas, "method": "PUT", "code": code})
        if code != OK:
            return code
        self.sets[command.name] = command.replicas
        self.say({"get": path, "code": OK})
        return OK

    def delete(self, command: DeleteSet) -> int:
        code = self.code("DELETE", command.name)
        if code == OK:
            del self.sets[command.name]
        self.say({"delete": f"{self.plural}/{command.name}", "propagationPolicy": "Background", "code": code})
        return code


answers: Final = partial(played, _Runner)
"""Everything that Spark would have said to a scenario. Raises ShapeError."""


def _number(profile: str) -> int:
    try:
        return int(profile)
    except ValueError as problem:
        raise ShapeError(f"expected the number of a profile, got {profile!r:.60}") from problem
