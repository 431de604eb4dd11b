"""What Spark's own suite asks of ExecutorPodsAllocator (A1 to A26 of its scenarios), and the order of its hash maps (B).

Spark's suite mocks the API server and hands snapshots to the allocator; here a play does. The suite's store delivers at
once when it is notified, and so does the play.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from returns.pipeline import is_successful

from podtide.domain.base.units import ProfileId
from podtide.domain.conf.kubernetes_config import kubernetes_config
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.jvm.instants import format_instant
from podtide.domain.kubernetes.allocator.executor_index import hash_order
from podtide.domain.protocol.allocation_policies import Consumer, split_evenly
from podtide.domain.protocol.cluster_config import AllocationConfig, ClaimTemplate
from podtide.domain.protocol.pod_commands import CountFailure, CreateClaim, CreatePod, DeletePod, DeletePods, ListClaims
from podtide.domain.protocol.pod_stimuli import CallFailure, Claim
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause
from tests.support.pods_play import IDLE, SECOND, TIMEOUT, Api, PodsPlay

SUITE = AllocationConfig(batch_size=5, driver_pod="driver")
"""The configuration of Spark's own suite."""

ALLOCATION = "spark.kubernetes.allocation."
VOLUME = ClaimTemplate("data", "OnDemand", 0, "gp2", "200Gi")


def suite(api: Api | None = None, **changes: object) -> PodsPlay:
    return PodsPlay(replace(SUITE, **changes), api)  # type: ignore[arg-type]


def old_claim(name: str = "pvc-0", size: str = "200Gi", age: int = TIMEOUT + SECOND, now: int = 0) -> Claim:
    """A claim as listed. Kubernetes tells whole seconds."""
    return Claim(name, "gp2", size, format_instant(now - age))


def with_claims(*claims: Claim) -> Api:
    return Api(claims={claim.name: claim for claim in claims})


def refusal(**settings: str) -> str:
    """What reading a conf fails with, all of it."""
    conf = {"spark.master": "k8s://x", "spark.app.name": "x", "spark.kubernetes.container.image": "i"}
    read = kubernetes_config(from_mapping({**conf, **{ALLOCATION + key: v for key, v in settings.items()}}, "test"))
    assert not is_successful(read)
    refused = read.failure()
    return f"{refused.construct} {refused.errors}"


def test_a1_batch_delay_of_a_millisecond() -> None:
    assert "Allocation batch delay must be greater than 0.1s." in refusal(**{"batch.delay": "1"})


@pytest.mark.parametrize(
    ("consumers", "slots", "shares"),
    [(1, 0, [0]), (1, 1, [1]), (1, 2, [2]), (3, 0, [0, 0, 0]), (3, 1, [1, 0, 0]), (3, 2, [1, 1, 0]), (3, 3, [1, 1, 1]),
     (3, 4, [2, 1, 1])],
)  # fmt: skip
def test_a2_split_slots(consumers: int, slots: int, shares: list[int]) -> None:
    wanting = [Consumer(ProfileId(profile), 0, 10, 0) for profile in range(consumers)]
    assert list(split_evenly(wanting, slots)) == shares


def test_a3_pending_limit_over_two_profiles() -> None:
    play = suite(pending_max=3)
    play.want(2, 3)
    assert play.asked_by_profile == {0: [1, 2], 1: [3]}
    assert play.outstanding == 3
    play.pending(2, 3)
    play.deliver()
    assert play.outstanding == 3
    assert (play.asked, play.deletes) == ([1, 2, 3], [])
    play.want(1, 3, after=2 * IDLE)
    play.deliver()
    assert play.outstanding == 3
    assert play.deletes == [[1]]
    assert play.asked_by_profile == {0: [1, 2], 1: [3, 4]}
    play.running(3)
    play.pending(4)
    play.deliver()
    assert play.asked_by_profile == {0: [1, 2], 1: [3, 4, 5]}
    assert play.outstanding == 3
    assert len(play.deletes) == 1


def test_a4_initial_target_in_one_batch() -> None:
    play = suite()
    play.want(6)
    assert play.asked == [1, 2, 3, 4, 5]
    assert play.outstanding == 5


def test_a5_next_batch_when_all_are_seen() -> None:
    play = suite()
    play.want(6)
    play.running(1, 2, 3, 4)
    play.deliver()
    assert play.asked == [1, 2, 3, 4, 5]
    assert play.outstanding == 1
    play.running(5)
    play.deliver()
    assert play.asked == [1, 2, 3, 4, 5, 6]
    assert play.outstanding == 1
    play.running(5)
    play.deliver()
    assert len(play.asked) == 6


def test_a6_a_failed_pod_is_replaced() -> None:
    play = suite()
    play.want(5)
    play.running(1, 2, 3, 4)
    play.failed(5)
    play.deliver()
    assert play.asked == [1, 2, 3, 4, 5, 6]
    assert play.outstanding == 1


def test_a7_stop_deletes_all_executor_pods() -> None:
    play = suite()
    play.stop()
    (delete,) = play.said(DeletePods)
    assert delete.executors is None
    assert delete.phase is None
    assert delete.why.cause is Cause.STOPPED


def test_a8_a_pod_that_no_snapshot_shows() -> None:
    play = suite()
    play.want(1)
    assert play.asked == [1]
    play.deliver(after=TIMEOUT)
    assert (play.asked, play.deletes) == ([1], [])
    play.deliver(after=1)
    assert play.deletes == [[1]]
    assert play.last(DeletePods).phase is None
    assert play.asked == [1, 2]
    assert play.outstanding == 1


def test_a9_scale_up_and_down() -> None:
    play = suite()
    play.want(1)
    assert play.outstanding == 1
    play.running(1)
    said = [command for command in play.deliver() if not isinstance(command, ListClaims)]
    assert (said, play.outstanding) == ([], 0)
    play.want(4)
    assert play.asked == [1, 2, 3, 4]
    assert play.outstanding == 3
    play.running(2)
    play.pending(3)
    play.deliver()
    assert (play.outstanding, play.asked, play.deletes) == (2, [1, 2, 3, 4], [])
    play.want(1, after=2 * IDLE)
    play.deliver()
    assert play.outstanding == 0
    assert play.deletes == [[3, 4]]
    assert play.last(DeletePods).phase == "Pending"
    assert play.deleted(2, 3, 4) == [False, True, True]
    play.lose(3)
    play.deliver()
    assert play.deleted(3, 4) == [False, False]
    assert play.outstanding == 0


def test_a10_young_requests_are_protected() -> None:
    play = suite()
    play.want(1)
    play.pending(1)
    play.deliver()
    play.want(2, after=IDLE)
    play.deliver()
    assert play.asked == [1, 2]
    play.want(1)
    play.deliver()
    assert play.deletes == []  # pod 1 is exactly as old as the timeout
    play.deliver(after=IDLE)
    assert play.deletes == [[1]]


def test_a11_only_idle_requests_unknown_to_the_scheduler_go() -> None:
    play = suite()
    play.want(5)
    play.pending(1, 2)
    play.deliver()
    play.want(0)
    play.deliver()
    assert (play.outstanding, play.deletes) == (5, [])
    play.now += 2 * IDLE
    play.know(1, 3, 4)
    play.deliver()
    assert (play.outstanding, play.deletes) == (0, [[2, 5]])


def test_a12_executors_that_register_before_their_pods_are_seen() -> None:
    play = suite()
    play.want(3, 4)
    assert play.asked_by_profile == {0: [1, 2, 3], 1: [4, 5, 6, 7]}
    assert play.outstanding == 7
    play.know(1, 4)
    play.deliver()
    assert play.outstanding == 5
    assert play.joined == [1, 4]
    play.know(2, 5)
    play.pending(2, 3, 5, 6)
    play.deliver()
    assert (play.outstanding, len(play.asked)) == (3, 7)
    play.want(1, 1, after=2 * IDLE)
    play.deliver()
    assert play.outstanding == 0
    assert play.deletes == [[3], [6, 7]]
    assert play.deleted(*range(1, 8)) == [False, False, True, False, False, True, True]
    play.want(2, 2)
    assert (play.outstanding, len(play.asked)) == (0, 7)
    play.want(3, 3)
    assert play.asked_by_profile == {0: [1, 2, 3, 8], 1: [4, 5, 6, 7, 9]}
    assert play.outstanding == 2


def test_a13_several_profiles() -> None:
    play = suite()
    play.want(1, 2)
    assert play.asked_by_profile == {0: [1], 1: [2, 3]}
    assert play.outstanding == 3
    play.running(1, 2, 3)
    play.deliver()
    assert play.outstanding == 0
    play.want(4, 3)
    assert play.asked_by_profile == {0: [1, 4, 5, 6], 1: [2, 3, 7]}
    assert play.outstanding == 4
    play.running(4)
    play.pending(5, 7)
    play.deliver()
    assert play.outstanding == 3
    play.want(1, 1, after=2 * IDLE)
    play.deliver()
    assert play.outstanding == 0
    assert play.deletes == [[5, 6], [7]]
    assert play.deleted(4, 5, 6, 7) == [False, True, True, True]
    play.lose(5, 7)
    play.deliver()
    assert play.deleted(5, 6, 7) == [False, False, False]


def test_a14_pending_pods_do_not_hold_back_the_next_batch() -> None:
    play = suite()
    play.want(6)
    assert play.outstanding == 5
    play.pending(1)
    play.running(2, 3, 4, 5)
    play.deliver(after=1_001)
    assert play.asked == [1, 2, 3, 4, 5, 6]
    assert play.outstanding == 2


def test_a15_claims_are_taken_over() -> None:
    play = suite(with_claims(old_claim("pvc-0"), old_claim("pvc-1")), claims=(VOLUME,))
    play.want(1)
    assert play.last(CreatePod).reused == ("pvc-0",)
    assert play.last(CreatePod).claims == ("pvc-0",)
    play.running(1)
    play.want(2)
    play.deliver()
    assert play.asked == [1, 2]
    assert play.last(CreatePod).claims == ("pvc-1",)  # pvc-0 is in use
    assert play.said(CreateClaim) == []


def test_a16_the_driver_pod_is_missing() -> None:
    play = suite(Api(driver=CallFailure(404)), driver_pod="i-do-not-exist")
    ((what, fatal),) = play.threw()
    assert "No pod was found named i-do-not-exist in the cluster in the namespace default" in what
    assert fatal


def test_a17_claims_that_cannot_be_listed() -> None:
    play = suite(Api(listing=CallFailure(403)), claims=(VOLUME,))
    play.want(1)
    assert play.asked == [1]
    assert [command.claim.name for command in play.said(CreateClaim)] == ["exec-exec-1-pvc-0"]
    assert play.threw() == []


@pytest.mark.parametrize(
    ("age", "reused"), [(0, ()), (TIMEOUT, ()), (TIMEOUT + SECOND, ("pvc-0",))], ids=["new", "at the timeout", "old"]
)
def test_a18_only_old_claims_can_be_taken_over(age: int, reused: tuple[str, ...]) -> None:
    play = suite(with_claims(old_claim(age=age), old_claim("young", age=0)), claims=(VOLUME,))
    play.want(1)
    assert play.last(CreatePod).reused == reused


def test_a19_wait_for_claims_at_the_maximum() -> None:
    play = suite(claims=(VOLUME,), claims_max=1, wait_for_claims=True)
    play.want(1)
    assert (play.asked, play.state.claims, play.outstanding) == ([1], 1, 1)
    play.running(1)
    play.deliver()
    assert play.outstanding == 0
    play.want(2)
    play.deliver()
    play.running(1)
    play.deliver()
    assert (play.asked, play.state.claims, play.outstanding) == ([1], 1, 0)
    assert len(play.said(CreateClaim)) == 1
    assert (0, Bound.CLAIM_WAIT) in play.holding()


def test_a20_a_claim_that_cannot_be_created() -> None:
    play = suite(Api(refused_claims=True), claims=(VOLUME,))
    play.want(1)
    assert play.threw() == [("io.fabric8.kubernetes.client.KubernetesClientException: forbidden", False)]
    assert [command.executor for command in play.said(DeletePod)] == [1]
    assert (play.state.claims, play.outstanding, play.created) == (0, 0, [])


def test_a21_each_failed_creation_is_told_to_the_lifecycle_manager() -> None:
    play = suite(Api(refused_pods=frozenset({1, 3})))
    play.want(4)
    assert [command.executor for command in play.said(CountFailure)] == [1, 3]
    assert play.state.failures == 2


def test_a22_pending_limit_of_the_profile() -> None:
    play = suite(pending_max_per_profile=2, remarks=True)
    play.want(5)
    assert play.asked == [1, 2]
    play.pending(1, 2)
    play.deliver()
    assert play.asked == [1, 2]
    assert play.remarks("going to request")[-1]["count"] == 0
    play.running(1)
    play.deliver()
    assert play.asked == [1, 2, 3]


def test_a23_the_limit_of_the_profile_exceeds_that_of_all() -> None:
    said = refusal(maxPendingPods="2", maxPendingPodsPerRp="3")
    assert "requirement failed: Maximum pending pods per resource profile ID (3) must be less than or equal to" in said
    assert "IllegalArgumentException" in said


def test_a24_allocation_maximum() -> None:
    play = suite(pods_max=3)
    play.want(5)
    assert play.asked == [1, 2]
    limit = ("org.apache.spark.SparkException: Exceed the pod creation limit: 3", False)
    assert play.threw() == [limit]
    play.running(1, 2)
    for further in (1, 2, 3):
        play.deliver()
        assert play.threw() == [limit] * (1 + further)
        assert play.state.executors == 3 + further
    assert play.asked == [1, 2]


def test_a25_a_pod_that_cannot_be_created_is_replaced_in_a_later_round() -> None:
    play = suite(Api(refused_pods=frozenset({1})))
    play.want(2)
    assert play.asked == [1, 2]
    assert (play.created, play.state.failures) == ([2], 1)
    play.deliver()
    assert play.asked == [1, 2]
    play.running(2)
    play.deliver()
    assert play.asked == [1, 2, 3]


@pytest.mark.parametrize(
    ("listed", "wanted", "reused"),
    [("200Gi", "100Gi", True), ("200Gi", "200Gi", True), ("100Gi", "200Gi", False), ("1Ti", "1000Gi", True)],
)
def test_a26_a_claim_at_least_as_large_is_taken_over(listed: str, wanted: str, *, reused: bool) -> None:
    play = suite(with_claims(old_claim(size=listed)), claims=(replace(VOLUME, size=wanted),))
    play.want(1)
    assert play.last(CreatePod).reused == (("pvc-0",) if reused else ())
    assert len(play.said(CreateClaim)) == (0 if reused else 1)


@pytest.mark.parametrize(
    ("numbers", "order"),
    [
        ([1, 2, 3, 16, 17, 33], [16, 1, 17, 33, 2, 3]),
        ([5, 4, 3], [3, 4, 5]),
        (list(range(16, 27)), list(range(16, 27))),  # 11 of them fill 16 places to less than three quarters
        ([*range(22, 33), 1], [32, 1, *range(22, 32)]),  # a twelfth makes it 32 places
        ([65536, 1, 2], [1, 65536, 2]),  # the hash of 65536 is 65537: the place of 1, after it
        ([65537, 1, 16], [16, 65537, 1]),  # that of 65537 is 65536: the place of 0, which 16 has too
        ([], []),
    ],
)
def test_b_order_of_pending_pods(numbers: list[int], order: list[int]) -> None:
    assert hash_order([PodNumber(number) for number in numbers]) == order
