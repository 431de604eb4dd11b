"""Who waits for whom, one case at a time; that whatever is asked ends and in order is a property in ``test_actuator``."""

from __future__ import annotations

from podtide.adapters.kubernetes.apply.ordering import Called, Orders, QueuedCommand, QueueStage
from podtide.domain.base.units import ProfileId
from podtide.domain.protocol.pod_commands import ClaimSpec, CreateClaim, CreatePod, DeletePod, DeletePods
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Why

WHY = Why(Cause.BELOW_TARGET, {})
ONE = PodNumber(1)
POD = CreatePod(0, 1, ONE, ProfileId(0), WHY)
CLAIM = CreateClaim(0, 2, ONE, ClaimSpec("data", "fast", "1Gi"), True, WHY)
DELETE = DeletePod(0, 3, ONE, "e-1", WHY)
SWEEP = DeletePods(0, 4, None, None, WHY)


def begun(orders: Orders, command: Called) -> QueuedCommand:
    (job,) = orders.take(command).ready
    job.stage = QueueStage.RUNNING
    return job


def test_who_waited_for_a_cancelled_creation_waits_for_what_it_waited_for() -> None:
    orders = Orders(in_order=False)
    pod = begun(orders, POD)
    assert orders.take(CLAIM).ready == orders.take(DELETE).ready == ()
    swept = orders.take(SWEEP)
    assert [job.command for job in swept.cancelled] == [CLAIM]
    assert swept.ready == (), "the pod is still being created: its delete would find nothing"
    assert [job.command for job in orders.finish(pod)] == [DELETE, SWEEP]


def test_after_a_cancelled_creation_comes_what_the_one_before_it_lets_come() -> None:
    orders = Orders(in_order=False)
    begun(orders, POD)
    assert orders.take(CLAIM).ready == ()
    assert [job.command for job in orders.take(SWEEP).cancelled] == [CLAIM]
    assert orders.take(DELETE).ready == (), "the pod is still being created"
