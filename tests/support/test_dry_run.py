"""The actuator that only logs: everything is written down and answered, nothing is carried out."""

from __future__ import annotations

from typing import Any

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, Millis
from podtide.domain.fakes.driver.script import Targets
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.cluster_config import AllocationConfig, BackendConfig, KubernetesConfig
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.pod_commands import StopApplication
from podtide.domain.protocol.reasons import Cause, Why
from podtide.entrypoints.common.app_loop import AppLoop
from podtide.entrypoints.simulate.driver_scripts import WorkloadScript
from tests.support.dry_run import DryRun

S: Millis = 1_000


def dry(targets: Targets, allocation: AllocationConfig, until: Millis) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    kubernetes = KubernetesConfig(allocation=allocation, backend=BackendConfig(app_id="a", executors_initial=0))
    config = EngineConfig(ScalingConfig(), kubernetes, dynamic=False)
    demand = WorkloadScript(targets, 1, 0, config.scaling.profile_rules)
    loop = AppLoop(config, 0, DryRun(demand, written.append))
    loop.launch()
    loop.run(until)
    return written


def wanting(*steps: tuple[Millis, int]) -> Targets:
    return Targets(tuple((at, ((DEFAULT_PROFILE, executors),)) for at, executors in steps))


def test_what_would_be_asked_for_is_written_in_order_with_its_reasons() -> None:
    written = dry(wanting((2 * S, 3)), AllocationConfig(batch_size=2), 10 * S)
    assert [record["command"] for record in written] == ["createConfigMap", "createPod", "createPod"]
    assert [record["at_ms"] for record in written] == [0, 2 * S, 2 * S]
    assert written[1]["cause"] == "below target"
    assert written[1]["facts"]["missing"] == 3  # the third waits for a snapshot that shows the first two


def test_pods_that_nobody_ever_sees_are_given_up_and_asked_for_again() -> None:
    written = dry(wanting((0, 1)), AllocationConfig(create_timeout_ms=60 * S), 70 * S)
    pods = [
        (record["command"], record["at_ms"]) for record in written if record["command"] in ("createPod", "deletePods")
    ]
    assert pods == [("createPod", 0), ("deletePods", 61 * S), ("createPod", 61 * S)]


def test_polls_are_asked_for_and_answered_with_nothing() -> None:
    written = dry(wanting(), AllocationConfig(), 65 * S)
    assert [record["at_ms"] for record in written if record["command"] == "listPods"] == [30 * S, 60 * S]


def test_an_application_that_ends_is_heard_of_no_more() -> None:
    environment = DryRun(WorkloadScript(wanting((5 * S, 1)), 1, 0, ScalingConfig().profile_rules), lambda _: None)
    environment.apply(StopApplication(1 * S, 11, Why(Cause.TOO_MANY_FAILURES)), 1 * S)
    assert environment.ended == 1 * S
    assert environment.wait(NEVER) == (NEVER, ())
