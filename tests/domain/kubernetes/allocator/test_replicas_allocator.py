"""StatefulSets and Deployments: Spark's own scenarios (C1 to C7), and requests that stop where a call fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest

from podtide.domain.base.units import NEVER, ProfileId
from podtide.domain.kubernetes.allocator import replicas_allocator as replicas
from podtide.domain.kubernetes.allocator.replicas_allocator import (
    AllocatorStarted,
    Constructing,
    ReplicasCommand,
    ReplicasInput,
    ReplicasState,
    TargetsServed,
    claim_specs,
)
from podtide.domain.protocol.cluster_config import ClaimTemplate, ReplicasConfig
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.executor_stimuli import Starting, Stopping, TargetsSet
from podtide.domain.protocol.pod_commands import (
    AwaitDriverReady,
    ClaimSpec,
    CreateSet,
    DeleteSet,
    GetDriverPod,
    ScaleSet,
)
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome
from podtide.domain.protocol.reasons import Cause, Remark, Threw

C = TypeVar("C")

STATEFUL = ReplicasConfig(kind="statefulset", app_id="app-1", driver_pod="driver", wait_for_driver=False)
DEPLOYMENT = replace(STATEFUL, kind="deployment")
REFUSED = CallFailure(403, "no")
REFUSED_TEXT = "io.fabric8.kubernetes.client.KubernetesClientException: no"
MISSING = (
    "org.apache.spark.SparkException: No pod was found named driver in the cluster in the namespace default (this was "
    "supposed to be the driver pod.)."
)
UNSUPPORTED = (
    "org.apache.spark.SparkException: PersistentVolumeClaims are not supported with the deployment allocator. Please "
    "remove PVC requirements or choose a different pods allocator."
)


class Play:
    """An allocator under way. Calls succeed unless their command's name is in ``failing``."""

    def __init__(self, config: ReplicasConfig = STATEFUL, *, start: bool = True) -> None:
        self.config = config
        self.state: ReplicasState = replicas.begin()
        self.failing: dict[str, CallFailure] = {}
        self.commands: list[ReplicasCommand] = []
        self.reports: list[Report] = []
        self.hear(Starting(0) if start else Constructing(0))
        self.commands.clear()

    def hear(self, item: ReplicasInput) -> list[ReplicasCommand]:
        """All that is asked for until nothing is awaited."""
        step = replicas.scale(self.state, (item,), self.config, 0)
        self.state = step.state
        self.reports.extend(step.reports)
        commands = list(step.commands)
        for command in step.commands:
            if not isinstance(command, AllocatorStarted | TargetsServed):
                failure = self.failing.get(command.name)
                commands.extend(self.hear(Outcome(0, command.serial, failure)))
        self.commands = commands
        return commands

    def targets(self, *targets: tuple[int, int]) -> list[ReplicasCommand]:
        return self.hear(TargetsSet(0, tuple((ProfileId(p), n) for p, n in targets)))

    def threw(self) -> list[str]:
        return [report.what for report in self.reports if isinstance(report, Threw)]


def of(commands: list[ReplicasCommand], kind: type[C]) -> list[C]:
    return [command for command in commands if isinstance(command, kind)]


# ------------------------------------------------------------------------------------------- C: Spark's own scenarios


def test_c1_a_set_for_each_profile_and_stop_deletes_them() -> None:
    play = Play()
    assert [(c.name, c.replicas) for c in of(play.targets((0, 10), (1, 420)), CreateSet)] == [
        ("spark-s-app-1-0", 10),
        ("spark-s-app-1-1", 420),
    ]
    assert [c.name for c in of(play.hear(Stopping(0)), DeleteSet)] == ["spark-s-app-1-0", "spark-s-app-1-1"]


def test_c2_one_stateful_set_and_one_scale() -> None:
    play = Play()
    (created,) = of(play.targets((0, 10)), CreateSet)
    assert (created.kind, created.replicas, created.why.cause) == ("statefulset", 10, Cause.NEW_PROFILE)
    commands = play.targets((0, 20))
    assert [(c.name, c.replicas, c.why.cause) for c in of(commands, ScaleSet)] == [
        ("spark-s-app-1-0", 20, Cause.TARGET_SET)
    ]
    assert of(commands, CreateSet) == []


def test_c3_a_deployment_for_each_profile() -> None:
    play = Play(DEPLOYMENT)
    assert [(c.kind, c.name, c.replicas) for c in of(play.targets((0, 3), (1, 2)), CreateSet)] == [
        ("deployment", "spark-d-app-1-0", 3),
        ("deployment", "spark-d-app-1-1", 2),
    ]


def test_c4_a_deployment_is_scaled() -> None:
    play = Play(DEPLOYMENT)
    play.targets((0, 5))
    assert [(c.kind, c.replicas) for c in of(play.targets((0, 7)), ScaleSet)] == [("deployment", 7)]


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(ClaimTemplate("data", "OnDemand", 0, "gp", "10Gi"), id="C5 dynamic"),
        pytest.param(ClaimTemplate("data", "fixed", 0), id="C6 static"),
    ],
)
def test_c5_c6_a_deployment_takes_no_claims(claim: ClaimTemplate) -> None:
    play = Play(replace(DEPLOYMENT, claims=(claim,)))
    assert play.targets((0, 5), (1, 5)) == [TargetsServed(0, UNSUPPORTED)]
    assert play.threw() == [UNSUPPORTED]


def test_c7_stop_deletes_deployments() -> None:
    play = Play(DEPLOYMENT)
    play.targets((0, 3), (4, 1))
    assert [(c.kind, c.name) for c in of(play.hear(Stopping(0)), DeleteSet)] == [
        ("deployment", "spark-d-app-1-0"),
        ("deployment", "spark-d-app-1-4"),
    ]


# ------------------------------------------------------------------------------------------------------------ targets


def test_requests_wait_for_each_other() -> None:
    state = replace(replicas.begin(), started=True, driver=True)
    asked = [TargetsSet(0, ((ProfileId(0), n),)) for n in (1, 2)]
    step = replicas.scale(state, asked, STATEFUL, 0)
    (created,) = of(list(step.commands), CreateSet)
    step = replicas.scale(step.state, (Outcome(0, created.serial),), STATEFUL, 0)
    assert [type(c).__name__ for c in step.commands] == ["TargetsServed", "ScaleSet"]


def test_an_older_state_answers_as_before() -> None:
    play = Play()
    before = play.state
    first = replicas.scale(before, (TargetsSet(0, ((ProfileId(0), 1),)),), STATEFUL, 0)
    play.targets((0, 1))
    assert replicas.scale(before, (TargetsSet(0, ((ProfileId(0), 1),)),), STATEFUL, 0) == first


# -------------------------------------------------------------------------------------------------------------- start


def test_start_looks_the_driver_pod_up_and_waits_for_it() -> None:
    config = replace(STATEFUL, wait_for_driver=True, driver_readiness_timeout_ms=2_000)
    step = replicas.scale(replicas.begin(first_serial=10), (Starting(0), TargetsSet(0, ())), config, 0)
    (lookup,) = step.commands
    assert isinstance(lookup, GetDriverPod)
    assert (lookup.name, lookup.serial) == ("driver", 11)
    step = replicas.scale(step.state, (Outcome(0, 11),), config, 0)
    (wait,) = step.commands
    assert isinstance(wait, AwaitDriverReady)
    assert wait.timeout_ms == 2_000
    step = replicas.scale(step.state, (Outcome(0, wait.serial, CallFailure(None, "late")),), config, 0)
    assert step.commands == (AllocatorStarted(0), TargetsServed(0))  # whatever came of the wait


@pytest.mark.parametrize(("failure", "what"), [(CallFailure(404, "not found"), MISSING), (REFUSED, REFUSED_TEXT)])
def test_an_allocator_whose_driver_pod_is_missing_cannot_be_made(failure: CallFailure, what: str) -> None:
    step = replicas.scale(replicas.begin(), (Starting(0),), STATEFUL, 0)
    step = replicas.scale(step.state, (Outcome(0, 1, failure),), STATEFUL, 0)
    assert step.reports == (Threw(0, "StatefulSetPodsAllocator", what, fatal=True),)
    assert replicas.scale(step.state, (Starting(0),), STATEFUL, 0).commands == ()


def test_what_stop_swallows_is_remarked() -> None:
    play = Play(replace(DEPLOYMENT, remarks=True))
    play.targets((0, 1))
    play.failing["spark-d-app-1-0"] = REFUSED
    play.hear(Stopping(0))
    assert play.reports == [Remark(0, "Utils", "uncaught", {"thread": "main", "what": REFUSED_TEXT})]


def test_it_has_no_timers() -> None:
    assert replicas.due(Play().state, STATEFUL) == NEVER


# ------------------------------------------------------------------------------------------------------------- claims


@pytest.mark.parametrize(
    ("templates", "specs"),
    [
        ((), ()),
        (
            (ClaimTemplate("data", "OnDemand", 0, "gp", "1Gi"),),
            (ClaimSpec("data", "gp", "1Gi", "data"),),
        ),
        ((ClaimTemplate("data", "OnDemand", 0, None, "1Gi"),), ()),  # the volume stays in the pod
        ((ClaimTemplate("data", "fixed", 0, "gp", "1Gi"),), (ClaimSpec("data", "gp", "1Gi", "data"),)),
        (
            (ClaimTemplate("a", "OnDemand", 0, "gp", "1Gi"), ClaimTemplate("b", "OnDemand", 1, "gp", "2Gi")),
            (ClaimSpec("a", "gp", "1Gi", "a"), ClaimSpec("b", "gp", "2Gi", "b")),
        ),
        (
            (ClaimTemplate("a", "x-SPARK_EXECUTOR_ID", 0, "gp", "1Gi"), ClaimTemplate("b", "x-EXECID", 1)),
            (ClaimSpec("b", "gp", "1Gi", "a"),),
        ),
    ],
)
def test_volume_claim_templates(templates: tuple[ClaimTemplate, ...], specs: tuple[ClaimSpec, ...]) -> None:
    assert claim_specs(templates) == specs
    play = Play(replace(STATEFUL, claims=templates))
    (created,) = of(play.targets((0, 1)), CreateSet)
    assert created.claims == specs
