"""Rounds of the pods allocator one rule at a time: reasons, holds, remarks, and rounds that stand still at a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from podtide.domain.base.units import ALWAYS, NEVER, ProfileId
from podtide.domain.kubernetes.allocator import allocator as allocation
from podtide.domain.kubernetes.allocator.state import DeletionsChanged, Subscribed
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Retired
from podtide.domain.protocol.cluster_config import AllocationConfig, ClaimTemplate
from podtide.domain.protocol.executor_stimuli import Stopping, TargetsSet
from podtide.domain.protocol.pod_commands import (
    AwaitDriverReady,
    CountFailure,
    CreateClaim,
    CreatePod,
    DeletePod,
    DeletePods,
    Deliver,
    GetDriverPod,
    ListClaims,
    NotifySubscribers,
)
from podtide.domain.protocol.pod_stimuli import CallFailure, Claim, KnownExecutors, Outcome
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause, Phase
from tests.support.pods_play import FORBIDDEN, IDLE, NOT_FOUND, SECOND, TIMEOUT, Api, PodsPlay, manifest

VOLUME = ClaimTemplate("data", "OnDemand", 0, "gp2", "200Gi")
SECOND_VOLUME = ClaimTemplate("more", "OnDemand", 1, "gp2", "100Gi")
DRIVEN = AllocationConfig(driver_pod="driver", wait_for_driver=False)
SILENT_CONFIG = AllocationConfig(batch_size=3)
QUIET = (NotifySubscribers, CountFailure, Subscribed, DeletionsChanged)
"""What is told to other machines: no call, no serial."""

NUMBER_FORMAT = "java.lang.NumberFormatException"
NULL_POINTER = "java.lang.NullPointerException"


def silent(config: AllocationConfig = SILENT_CONFIG, **changes: object) -> PodsPlay:
    """A play whose API server answers nothing: the test does."""
    return PodsPlay(replace(config, **changes), Api(silent=True))  # type: ignore[arg-type]


def old(name: str, size: str = "200Gi", storage_class: str = "gp2") -> Claim:
    return Claim(name, storage_class, size, "1969-01-01T00:00:00Z")


# Why, with numbers.


def test_why_a_pod_is_created() -> None:
    play = PodsPlay()
    play.want(3)
    play.running(1, 2, 3)
    play.deliver()
    play.want(7)
    why = play.last(CreatePod).why
    assert why.cause is Cause.BELOW_TARGET
    assert dict(why.facts) == {"profile": 0, "target": 7, "counted": 3, "missing": 4}


def test_why_excess_pods_are_deleted() -> None:
    play = PodsPlay()
    play.want(5)
    play.pending(1, 2)
    play.running(3)
    play.deliver()
    play.want(1, after=IDLE + 1)
    play.deliver()
    delete = play.last(DeletePods)
    assert delete.executors == (1, 2, 4, 5)
    assert delete.why.cause is Cause.ABOVE_TARGET
    facts = {"profile": 0, "target": 1, "counted": 5, "excess": 4, "unseen": 2, "pending": 2}
    assert dict(delete.why.facts) == facts


def test_why_a_pod_that_was_never_seen_is_deleted() -> None:
    play = PodsPlay()
    play.want(2)
    play.deliver(after=TIMEOUT + 7)
    (delete,) = play.said(DeletePods)
    assert delete.why.cause is Cause.CREATION_TIMEOUT
    assert dict(delete.why.facts) == {"executors": 2, "timeout_ms": TIMEOUT, "oldest_ms": TIMEOUT + 7}


def test_why_claims_are_listed_created_and_given_up() -> None:
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,), claims_max=9), Api(refused_claims=True))
    play.want(1)
    listing, claim, undone = play.last(ListClaims), play.last(CreateClaim), play.last(DeletePod)
    assert (listing.why.cause, dict(listing.why.facts)) == (Cause.REUSABLE_CLAIMS, {"profile": 0})
    assert claim.why.cause is Cause.CLAIM_FOR_POD
    assert dict(claim.why.facts) == {"executor": 1, "claims": 0, "claims_max": 9}
    assert (undone.why.cause, dict(undone.why.facts)) == (Cause.CLAIM_FAILED, {"executor": 1, "status": 403})
    assert undone.name == "exec-exec-1"


def test_why_everything_is_deleted_at_the_stop() -> None:
    play = PodsPlay()
    play.want(3)
    play.running(1, 2)
    play.deliver()
    play.stop()
    why = play.last(DeletePods).why
    assert (why.cause, dict(why.facts)) == (Cause.STOPPED, {"pods": 2, "unseen": 1})


def test_why_the_driver_pod_is_looked_up_and_waited_for() -> None:
    play = PodsPlay(AllocationConfig(driver_pod="driver", driver_readiness_timeout_ms=1_500))
    look, wait = play.last(GetDriverPod), play.last(AwaitDriverReady)
    assert (look.why.cause, look.name) == (Cause.DRIVER_POD, "driver")
    assert (wait.why.cause, wait.timeout_ms, dict(wait.why.facts)) == (Cause.DRIVER_POD, 1_500, {"timeout_ms": 1_500})


def test_serials_are_never_used_twice() -> None:
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,)), Api(refused_claims=frozenset({"exec-exec-2-pvc-0"})))
    play.want(4)
    play.deliver(after=TIMEOUT + 1)
    play.stop()
    serials = [command.serial for command in play.commands if not isinstance(command, QUIET)]
    assert len(serials) > 10
    assert serials == list(range(1, len(serials) + 1))


def test_serials_begin_where_they_are_told_to() -> None:
    state = allocation.begin(AllocationConfig(), first_serial=40)
    step = allocation.allocate(state, (Stopping(0),), AllocationConfig(), 0)
    assert [command.serial for command in step.commands if isinstance(command, DeletePods)] == [41]


# What holds back: when it begins, changes and ends.


def test_batch_size_holds_back() -> None:
    play = PodsPlay(AllocationConfig(batch_size=3))
    play.want(5)
    facts = {"missing": 5, "batch": 3, "batch_size": 3, "share": 2**31 - 1, "not_running": 0}
    assert play.held() == [(Phase.BEGAN, Bound.BATCH_SIZE, 0, facts)]
    play.running(1, 2, 3)
    play.deliver()
    assert play.asked == [1, 2, 3, 4, 5]
    assert play.held()[1:] == [(Phase.ENDED, Bound.BATCH_SIZE, 0, facts)]


def test_unacknowledged_pods_hold_back() -> None:
    play = PodsPlay(AllocationConfig(batch_size=2))
    play.want(3)
    play.deliver()
    assert play.holding() == {(0, Bound.UNACKNOWLEDGED): {"missing": 1, "unacknowledged": 2}}
    said = len(play.held())
    play.deliver(after=SECOND)
    assert len(play.held()) == said  # nothing new, nothing to say
    play.running(1)
    play.deliver(after=SECOND)
    assert play.held()[said:] == [(Phase.CHANGED, Bound.UNACKNOWLEDGED, 0, {"missing": 1, "unacknowledged": 1})]
    play.running(2)
    play.deliver()
    assert play.held()[-1] == (Phase.ENDED, Bound.UNACKNOWLEDGED, 0, {"missing": 1, "unacknowledged": 1})
    assert play.holding() == {}


def test_the_pending_limit_holds_back() -> None:
    play = PodsPlay(AllocationConfig(pending_max=2))
    play.want(3)
    share = {"missing": 3, "batch": 2, "batch_size": 20, "share": 2, "not_running": 0}
    assert play.holding() == {(0, Bound.PENDING_LIMIT): share}
    play.pending(1, 2)
    play.deliver()
    full = {"missing": 1, "slots": 0, "not_running": 2}
    assert play.holding() == {(0, Bound.PENDING_LIMIT): full}
    play.running(1)
    play.deliver()
    assert play.asked == [1, 2, 3]
    assert [phase for phase, *_ in play.held()] == [Phase.BEGAN, Phase.CHANGED, Phase.ENDED]


def test_the_pending_limit_of_a_profile_holds_back() -> None:
    play = PodsPlay(AllocationConfig(pending_max_per_profile=2))
    play.want(3, 1)
    play.pending(1, 2)
    play.running(3)
    play.deliver()
    facts = {"missing": 1, "batch": 0, "batch_size": 20, "share": 2**31 - 3, "not_running": 2}
    assert play.holding() == {(0, Bound.PENDING_LIMIT_PROFILE): facts}


def test_unused_shares_of_the_slots_are_lost() -> None:
    play = PodsPlay(AllocationConfig(pending_max=7))
    play.want(1, 10, 10)
    assert {profile: len(asked) for profile, asked in play.asked_by_profile.items()} == {0: 1, 1: 2, 2: 2}
    assert {profile: facts["share"] for (profile, _), facts in play.holding().items()} == {1: 2, 2: 2}


def test_waiting_for_claims_holds_back_alike_with_snapshots_and_without() -> None:
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,), claims_max=1, wait_for_claims=True))
    play.want(3)
    assert play.asked == [1]
    play.running(1)
    play.deliver()
    facts = {"missing": 2, "claims": 1, "claims_max": 1}
    assert play.holding() == {(0, Bound.CLAIM_WAIT): facts}
    said = len(play.held())
    play.deliver()
    play.running(1)
    play.deliver()
    assert len(play.held()) == said


def test_the_allocation_maximum_holds_back() -> None:
    play = PodsPlay(AllocationConfig(pods_max=3))
    play.want(4, 2)
    held = play.holding()
    assert held[0, Bound.POD_LIMIT] == {"missing": 2, "pods_max": 3}
    assert held[1, Bound.ROUND_ABORTED] == {"missing": 2, "failures": 0}  # it was not its turn yet


def test_an_aborted_round_holds_back() -> None:
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,)), Api(refused_claims=True))
    play.want(2, 1)
    assert play.holding() == {
        (0, Bound.ROUND_ABORTED): {"missing": 2, "failures": 1},
        (1, Bound.ROUND_ABORTED): {"missing": 1, "failures": 1},
    }
    play.api.refused_claims = False
    play.deliver(after=SECOND)
    assert play.holding() == {}
    assert [bound for phase, bound, *_ in play.held() if phase is Phase.ENDED] == [Bound.ROUND_ABORTED] * 2


def test_a_round_that_ends_before_its_survey_holds_every_profile_back() -> None:
    play = PodsPlay()
    play.want(2, 1)
    play.running(1, 2, 3)
    play.deliver()
    play.show(manifest(9, profile="x"))
    play.deliver()
    assert play.holding() == {
        (0, Bound.ROUND_ABORTED): {"target": 2, "failures": 0},
        (1, Bound.ROUND_ABORTED): {"target": 1, "failures": 0},
    }


def test_young_requests_are_kept_by_the_idle_timeout() -> None:
    play = PodsPlay()
    play.want(4)
    play.pending(1, 2)
    play.deliver()
    play.want(1)
    play.deliver()
    assert play.holding() == {(0, Bound.IDLE_TIMEOUT): {"excess": 3, "young": 4}}
    play.deliver(after=IDLE + 1)
    assert play.deletes == [[1, 3, 4]]
    assert play.holding() == {}


def test_requests_of_registered_executors_are_kept() -> None:
    play = PodsPlay()
    play.want(4)
    play.pending(1, 2)
    play.know(1, 3)
    play.deliver()
    play.want(0, after=IDLE + 1)
    play.deliver()
    assert play.deletes == [[2, 4]]
    assert play.holding() == {(0, Bound.SCHEDULER_KNOWN): {"excess": 2, "known": 2}}
    play.running(1, 3)
    play.deliver()
    assert play.holding() == {}
    assert play.held()[-1][:2] == (Phase.ENDED, Bound.SCHEDULER_KNOWN)


# Start and stop, targets, recovery mode.


@pytest.mark.parametrize("failure", [None, FORBIDDEN, CallFailure(None, "timeout", "TimeoutException")])
def test_whatever_comes_of_the_wait_for_the_driver_allocation_begins(failure: CallFailure | None) -> None:
    play = silent(driver_pod="driver")
    play.answer(play.last(GetDriverPod))
    assert play.said(Subscribed) == []
    play.now += 900
    play.answer(play.last(AwaitDriverReady), failure)
    assert play.said(Subscribed) == [Subscribed(900, 1_000)]
    assert play.threw() == []


@pytest.mark.parametrize(
    ("failure", "what"),
    [
        (
            NOT_FOUND,
            "org.apache.spark.SparkException: No pod was found named driver in the cluster in the namespace ns",
        ),
        (FORBIDDEN, "io.fabric8.kubernetes.client.KubernetesClientException: forbidden"),
    ],
)
def test_without_its_driver_pod_nothing_begins(failure: CallFailure, what: str) -> None:
    play = PodsPlay(AllocationConfig(driver_pod="driver", namespace="ns"), Api(driver=failure))
    assert [fatal for text, fatal in play.threw() if text.startswith(what)] == [True]
    assert play.said(Subscribed) == []


def test_the_last_of_two_targets_for_a_profile_counts() -> None:
    play = PodsPlay()
    play.feed(TargetsSet(0, ((ProfileId(0), 5), (ProfileId(0), 2))))
    assert play.asked == [1, 2]


@pytest.mark.parametrize(("conf", "needed", "single"), [(None, True, True), (None, False, False), (False, True, False),
                                                        (True, False, True)])  # fmt: skip
def test_recovery_mode(conf: bool | None, *, needed: bool, single: bool) -> None:
    play = PodsPlay(AllocationConfig(recovery_mode=conf))
    if needed:
        play.recover()
    play.want(1)
    assert play.last(CreatePod).single_task is single


@pytest.mark.parametrize(
    ("cpus", "slots"), [("1", None), ("0.51", None), ("0.5", 2), ("0.3", 3), ("0.000000001", 10**9)]
)
def test_recovery_mode_warns_once_that_it_cannot_isolate_tasks(cpus: str, slots: int | None) -> None:
    play = PodsPlay(AllocationConfig(task_cpus=Decimal(cpus), remarks=True))
    play.recover()
    play.recover()
    assert play.remarks("recovery mode") == ([] if slots is None else [{"task_cpus": cpus, "slots": slots}])


def test_recovery_mode_warns_at_the_start_if_it_is_on_from_the_start() -> None:
    play = PodsPlay(AllocationConfig(task_cpus=Decimal("0.5"), recovery_mode=True, remarks=True))
    assert len(play.remarks("recovery mode")) == 1


def test_a_stop_waits_for_no_round() -> None:
    play = silent()
    play.want(1)
    assert allocation.busy(play.state)
    play.stop()
    assert play.last(DeletePods).executors is None


# Timeouts.


def test_the_timeout_runs_from_the_answer() -> None:
    play = silent()
    play.want(1)
    play.now = 100
    play.answer(play.last(CreatePod))
    play.deliver(after=TIMEOUT)
    assert play.deletes == []
    play.deliver(after=1)
    assert play.deletes == [[1]]


@pytest.mark.parametrize("created_at", [None, "yesterday"])
def test_a_pending_pod_without_a_creation_time_is_old(created_at: str | None) -> None:
    play = PodsPlay(AllocationConfig(remarks=True))
    play.show(manifest(1, "Pending", created_at=created_at), manifest(2, "Pending", created_at=created_at))
    play.show(manifest(3, "Pending"))
    play.want(2)
    play.deliver()
    assert play.deletes == [[1]]
    # Spark looks at the times of all pending pods that are unknown to the scheduler.
    assert play.remarks("no creation time") == [{"pod": "exec-1"}, {"pod": "exec-2"}]


def test_remarks_say_what_only_the_log_says() -> None:
    play = PodsPlay(AllocationConfig(batch_size=2, dynamic=False, remarks=True))
    play.want(3)
    assert play.remarks("targets") == [{"0": 3}]
    asked = {"count": 2, "profile": 0, "target": 3, "known": 0, "shared_slots": 2**31 - 1}
    assert play.remarks("going to request") == [asked]
    assert play.remarks("requested") == [{"executor": 1}, {"executor": 2}]
    play.running(1)
    play.deliver(after=30)
    assert play.remarks("unseen") == [{"executor": 2, "age_ms": 30}]
    status = {
        "profile": 0, "running": 1, "pending_unknown": 0, "pending_known": 0, "created_unknown": 1, "created_known": 0,
    }  # fmt: skip
    assert play.remarks("status") == [status]
    assert play.remarks("still waiting") == [{"profile": 0, "created": 1}]
    play.running(2)
    play.deliver()
    play.running(3)
    play.deliver()
    assert play.remarks("enough running") == [{"profile": 0}]
    play.want(4)
    play.deliver(after=TIMEOUT + 1)
    assert play.remarks("creation timeout") == [{"executors": "4", "timeout_ms": TIMEOUT}]


def test_targets_are_remarked_whole() -> None:
    play = PodsPlay(AllocationConfig(remarks=True))
    play.want(2, 3)
    play.want(p1=4)
    assert play.remarks("targets")[-1] == {"0": 2, "1": 4}


def test_failures_are_remarked_with_their_count() -> None:
    api = Api(refused_pods=frozenset({1}), refused_claims=frozenset({"exec-exec-2-pvc-0"}))
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,), remarks=True), api)
    play.want(3)
    assert play.remarks("create failed") == [{"executor": 1, "failures": 1}]
    assert play.remarks("claim failed") == [{"executor": 2, "failures": 2}]


def test_claims_are_remarked() -> None:
    api = Api(claims={"a": old("a"), "b": old("b", "1Gi")})
    config = replace(DRIVEN, claims=(VOLUME,), claims_max=0, wait_for_claims=True, remarks=True)
    play = PodsPlay(config, api)
    play.show(manifest(9, "Failed"))
    play.want(2)
    play.deliver()
    assert play.remarks("reusable claims") == [{"reusable": 2, "total": 2}]
    assert play.remarks("reuse claim") == [{"claim": "a"}]
    api.listing = FORBIDDEN
    play.show(manifest(9, "Succeeded"))
    play.running(1, 2)
    play.want(3)
    play.deliver()
    assert play.remarks("claims not listed") == [{}]
    assert play.remarks("wait to reuse") == [{"claims": play.state.claims}]


# A round stands still at a call.


def test_creations_that_nothing_depends_on_are_given_out_together() -> None:
    play = silent()
    play.want(5)
    assert play.asked == [1, 2, 3]
    assert allocation.busy(play.state)
    assert allocation.due(play.state, play.config) == NEVER


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_answers_may_come_in_any_order(order: tuple[int, ...]) -> None:
    play = silent()
    play.want(3)
    creations = play.said(CreatePod)
    for place in order:
        assert allocation.busy(play.state)
        play.answer(creations[place], FORBIDDEN if place == 1 else None)
    assert not allocation.busy(play.state)
    assert play.created == [1, 3]
    assert (play.outstanding, play.state.failures) == (2, 1)
    play.deliver(after=TIMEOUT + 1)
    assert play.last(DeletePods).executors == (1, 3)


def test_answers_that_nobody_waits_for_change_nothing() -> None:
    play = silent()
    before = play.state
    play.feed(Outcome(0, 99), Outcome(0, 0, FORBIDDEN))
    assert play.state == before
    play.want(2)
    first, second = play.said(CreatePod)
    play.answer(first)
    waiting = play.state
    play.answer(first)  # once more
    play.answer(first, FORBIDDEN)
    play.feed(Outcome(0, 99), Outcome(0, 99, FORBIDDEN))
    assert play.state == waiting
    play.answer(second)
    assert play.created == [1, 2]
    assert play.state.failures == 0


def test_what_comes_during_a_round_waits_for_its_end() -> None:
    play = silent()
    play.want(3)
    play.running(1, 2, 3)
    play.deliver()
    play.know(7)
    play.deliver()
    assert len(play.state.later) == 3
    assert play.state.fleet.pods == 0
    assert 7 not in play.state.fleet.known_numbers()
    for creation in play.said(CreatePod):
        play.answer(creation)
    assert not allocation.busy(play.state)
    assert not play.state.later
    assert (play.state.fleet.pods, play.created) == (3, [])
    assert 7 in play.state.fleet.known_numbers()


def test_any_number_of_deliveries_may_wait() -> None:
    play = silent()
    play.want(1)
    play.state = allocation.allocate(
        play.state, [Deliver(0, "allocator", ())] * 3_000 + [KnownExecutors(0, ((PodNumber(1), 0),))], play.config, 0
    ).state
    play.answer(play.last(CreatePod))
    assert play.state.later == ()
    play.deliver()
    assert play.joined == [1]


def test_any_number_of_profiles_may_ask_in_one_round() -> None:
    play = PodsPlay(prompt=False)
    play.want(*[1] * 1_500)
    play.deliver()
    assert play.asked == list(range(1, 1_501))


def test_the_round_stands_still_at_the_delete_of_excess_pods() -> None:
    play = PodsPlay()
    play.want(3, 0)
    play.pending(1, 2)
    play.deliver()
    play.want(0, 2, after=IDLE + 1)
    play.api.silent = True
    play.deliver()
    assert play.last(DeletePods).executors == (1, 2, 3)
    assert play.asked == [1, 2, 3]  # profile 1 is surveyed after the answer
    play.now += 5
    play.answer(play.last(DeletePods))
    assert play.asked == [1, 2, 3, 4, 5]
    assert play.last(CreatePod).at == 2 * 0 + IDLE + 1  # decided for the time at which the round began


def test_is_deleted_shows_the_round_only_when_it_is_over() -> None:
    play = PodsPlay()
    play.want(2)
    play.pending(1)
    play.deliver()
    play.want(0, after=IDLE + 1)
    play.deliver()
    play.want(2)
    assert play.deleted(1, 2, 3, 4) == [True, True, False, False]
    play.pending(3)
    play.lose(1)
    play.want(0, after=IDLE + 1)
    play.api.silent = True
    play.deliver()
    assert play.last(DeletePods).executors == (3, 4)
    assert play.deleted(1, 2, 3, 4) == [True, True, False, False]
    play.answer(play.last(DeletePods))
    assert play.deleted(1, 2, 3, 4) == [False, False, True, True]
    assert play.last(DeletionsChanged) == DeletionsChanged(
        play.now, (PodNumber(4), PodNumber(3)), (PodNumber(1), PodNumber(2))
    )


def test_a_pod_that_is_forgotten_and_deleted_again_in_one_round_stays_deleted() -> None:
    """Its first delete was refused; the set that registrations are checked against never loses it (it is volatile)."""
    play = PodsPlay(api=Api(deletes=FORBIDDEN))
    play.want(1)
    play.want(0, after=IDLE + 1)
    play.deliver()
    assert play.deleted(1) == [True]
    changes = len(play.said(DeletionsChanged))
    play.api.silent = True
    play.show(manifest(9, "Failed"))
    play.deliver()
    assert play.last(DeletePods).executors == (1,)
    assert play.deleted(1) == [True]
    play.answer(play.last(DeletePods))
    assert play.deleted(1) == [True]
    assert len(play.said(DeletionsChanged)) == changes


def test_the_round_stands_still_at_the_listing_of_claims_and_at_each_claim() -> None:
    play = silent(DRIVEN, claims=(VOLUME, SECOND_VOLUME))
    play.answer(play.last(GetDriverPod))
    play.want(2)
    assert (len(play.said(ListClaims)), play.asked) == (1, [])
    play.answer(play.last(ListClaims), claims=[old("small", "150Gi")])
    assert play.asked == [1]
    assert play.last(CreatePod).claims == ("exec-exec-1-pvc-0", "small")
    assert play.last(CreatePod).reused == ("small",)
    play.answer(play.last(CreatePod))
    claim = play.last(CreateClaim)
    assert (claim.executor, claim.claim.name, claim.owned_by_driver) == (1, "exec-exec-1-pvc-0", True)
    assert play.asked == [1]
    play.answer(claim)
    assert play.state.claims == 1
    assert play.created == [1]
    assert play.asked == [1, 2]
    play.answer(play.last(CreatePod))
    play.answer(play.last(CreateClaim))
    play.answer(play.last(CreateClaim))
    assert (play.state.claims, play.created, play.outstanding) == (3, [1, 2], 2)
    assert not allocation.busy(play.state)


@pytest.mark.parametrize(
    ("undo", "what"),
    [
        (None, "io.fabric8.kubernetes.client.KubernetesClientException: no claim"),
        (CallFailure(500, "no delete"), "io.fabric8.kubernetes.client.KubernetesClientException: no delete"),
    ],
)
def test_a_claim_that_fails_ends_the_round(undo: CallFailure | None, what: str) -> None:
    play = silent(DRIVEN, claims=(VOLUME, SECOND_VOLUME))
    play.answer(play.last(GetDriverPod))
    play.want(3)
    play.answer(play.last(ListClaims))
    play.answer(play.last(CreatePod))
    play.answer(play.last(CreateClaim))
    play.answer(play.last(CreateClaim), CallFailure(403, "no claim"))
    assert play.last(CountFailure).executor == 1
    assert play.last(DeletePod).executor == 1
    assert allocation.busy(play.state)
    play.answer(play.last(DeletePod), undo)
    assert not allocation.busy(play.state)
    assert play.threw() == [(what, False)]
    assert (play.asked, play.created, play.state.claims, play.outstanding) == ([1], [], 1, 0)


@pytest.mark.parametrize(
    ("created_at", "exception"),
    [(None, NULL_POINTER), ("yesterday", "java.time.format.DateTimeParseException")],
)
def test_a_claim_without_a_readable_age_ends_the_round(created_at: str | None, exception: str) -> None:
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,)), Api(claims={"a": Claim("a", "gp2", "1Gi", created_at)}))
    play.want(1)
    ((what, fatal),) = play.threw()
    assert what.startswith(exception)
    assert not fatal
    assert play.asked == []


def test_a_listing_that_fails_otherwise_ends_the_round() -> None:
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,)), Api(listing=CallFailure(None, "boom", "java.lang.Error")))
    play.want(1)
    assert (play.threw(), play.asked) == ([("java.lang.Error: boom", False)], [])


# Rounds that end in an exception.


@pytest.mark.parametrize(
    ("label", "what"),
    [
        ("x", f'{NUMBER_FORMAT}: For input string: "x"'),
        ("", f'{NUMBER_FORMAT}: For input string: ""'),
        ("3000000000", f'{NUMBER_FORMAT}: For input string: "3000000000"'),
        (None, f"{NUMBER_FORMAT}: Cannot parse null string"),
    ],
)
def test_a_profile_label_that_is_no_number_ends_the_driver(label: str | None, what: str) -> None:
    play = PodsPlay()
    play.want(1, 1)
    play.show(manifest(7, profile=label))
    play.deliver()
    assert play.threw() == [(what, True)]


def test_a_round_that_throws_after_its_timeouts_keeps_them() -> None:
    play = PodsPlay()
    play.want(1, 0)
    play.show(manifest(7, profile="x"))
    play.deliver(after=TIMEOUT + 1)
    assert play.deletes == [[1]]
    assert play.created == []
    assert len(play.threw()) == 1


def test_an_abort_takes_deletions_back() -> None:
    """deletedExecutorIds is assigned in the last lines of a round; the books of a round that throws stay as they were."""
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,), claims_max=5))
    play.want(2, 0)
    play.pending(1)
    play.deliver()
    play.api.refused_claims = True
    play.want(0, 1, after=IDLE + 1)
    play.deliver()
    assert play.deletes == [[1, 2]]
    assert len(play.threw()) == 1
    assert play.deleted(1, 2) == [False, False]
    assert play.created == []  # that it was waited for is not taken back
    assert play.outstanding == 2
    assert play.said(DeletionsChanged) == []
    play.api.refused_claims = False
    play.deliver()
    assert play.deletes == [[1, 2], [1]]
    assert play.deleted(1, 2) == [True, False]


def test_an_abort_keeps_what_no_snapshot_shows_any_more() -> None:
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,)))
    play.want(1, 0)
    play.pending(1)
    play.deliver()
    play.want(0, 0, after=IDLE + 1)
    play.deliver()
    assert play.deleted(1) == [True]
    play.api.refused_claims = True
    play.want(0, 1)
    assert len(play.threw()) == 1
    play.lose(1)
    play.deliver()
    assert len(play.threw()) == 2
    assert play.deleted(1) == [True]
    play.api.refused_claims = False
    play.show(manifest(9, "Failed"))
    play.deliver()
    assert play.deleted(1) == [False]


@pytest.mark.parametrize("shown", [("show",), ("show", "lose")], ids=["still there", "gone again"])
def test_a_pod_without_a_spec_ends_the_round_before_it_counts(shown: tuple[str, ...]) -> None:
    """It is acknowledged, but the last snapshot remains the one before: the next round counts by that."""
    play = PodsPlay(AllocationConfig(batch_size=1))
    play.want(2)
    play.running(1)
    play.show(manifest(2, "Pending", has_spec=False))
    if "lose" in shown:
        play.lose(2)
    play.deliver(after=TIMEOUT + 1)
    text = (
        'Cannot invoke "io.fabric8.kubernetes.api.model.PodSpec.getVolumes()" because the return value of '
        '"io.fabric8.kubernetes.api.model.Pod.getSpec()" is null'
    )
    assert play.threw() == [(f"{NULL_POINTER}: {text}", False)]
    assert (play.created, play.deletes) == ([], [])
    assert play.state.fleet.pods == 0
    play.deliver()
    assert play.asked == [1, 2]  # as if pod 1 had never been
    assert play.created == [2]
    play.show(manifest(2, "Pending"))
    play.deliver()
    assert play.state.fleet.pods == 2
    assert len(play.threw()) == 1


def test_unreadable_rounds_follow_each_other() -> None:
    play = PodsPlay()
    play.show(manifest(5, "Pending", has_spec=False))
    play.want(1)
    play.deliver()
    play.show(manifest(6))
    play.deliver()
    assert len(play.threw()) == 2  # pod 5 is in every snapshot
    play.list_pods(manifest(6))
    play.deliver()
    assert len(play.threw()) == 2
    assert play.state.fleet.pods == 1


# When it next needs time.


@pytest.mark.parametrize(
    ("story", "due"),
    [
        (PodsPlay.deliver, NEVER),
        (lambda play: play.want(0), NEVER),
        (lambda play: play.want(2), TIMEOUT + 1),
        (lambda play: (play.want(1), play.running(1), play.deliver()), NEVER),
        (lambda play: (play.want(1), play.pending(1), play.deliver()), NEVER),
        (lambda play: (play.want(1), play.know(1)), ALWAYS),
        (lambda play: (play.want(2), play.pending(1), play.deliver(), play.want(0)), IDLE + 1),
        (lambda play: (play.want(2), play.want(0)), IDLE + 1),
    ],
    ids=["nothing", "no pod", "unseen", "running", "pending", "registered", "excess pending", "excess unseen"],
)
def test_due(story: Callable[[PodsPlay], object], due: int) -> None:
    play = PodsPlay()
    story(play)
    for _ in range(3):  # a round that did something is followed by one that settles what it reports
        if allocation.due(play.state, play.config) == ALWAYS and due != ALWAYS:
            play.deliver()
    assert allocation.due(play.state, play.config) == due


def test_due_at_once_while_pods_are_missing_and_may_be_asked_for() -> None:
    play = PodsPlay(api=Api(refused_pods=True))
    play.want(1)
    play.deliver()
    assert allocation.due(play.state, play.config) == ALWAYS


@pytest.mark.parametrize("limit", ["pending_max", "pending_max_per_profile"])
def test_due_waits_for_news_at_a_limit(limit: str) -> None:
    play = PodsPlay(replace(AllocationConfig(), **{limit: 1}))  # type: ignore[arg-type]
    play.want(2)
    play.pending(1)
    play.deliver()
    play.deliver()
    assert allocation.due(play.state, play.config) == NEVER


def test_due_waits_for_a_snapshot_where_claims_are_waited_for() -> None:
    play = PodsPlay(replace(DRIVEN, claims=(VOLUME,), claims_max=1, wait_for_claims=True))
    play.want(2)
    play.running(1)
    play.deliver()
    for _ in range(2):
        play.deliver()
    assert allocation.due(play.state, play.config) == NEVER


def test_due_at_once_while_a_policy_keeps_pods_that_could_go() -> None:
    keep_all = replace(SPARK_POLICIES, retire=lambda surplus: Retired((), tuple(surplus.pending)[:0]))
    play = PodsPlay(AllocationConfig(policies=keep_all))
    play.want(2)
    play.pending(1, 2)
    play.deliver()
    play.want(1, after=IDLE + 1)
    for _ in range(3):
        play.deliver()
    assert not play.state.stirred
    assert allocation.due(play.state, play.config) == ALWAYS


def test_due_follows_pods_that_start() -> None:
    """The oldest pending pod runs: the next one's time counts."""
    play = PodsPlay()
    play.show(manifest(1, "Pending", created_at=1_000), manifest(2, "Pending", created_at=5_000))
    play.want(0)
    play.deliver()
    assert allocation.due(play.state, play.config) == 1_000 + IDLE + 1
    play.running(1)
    play.deliver()
    assert allocation.due(play.state, play.config) == 5_000 + IDLE + 1


def test_due_at_every_round_where_every_round_is_remarked() -> None:
    play = PodsPlay(AllocationConfig(remarks=True))
    play.want(0)
    play.deliver()
    assert allocation.due(play.state, play.config) == ALWAYS


def test_due_reads_the_config_that_it_is_given() -> None:
    """A state goes on under a longer idle timeout: what was old enough is so no longer."""
    play = PodsPlay()
    play.want(3)
    play.pending(1, 2, 3)
    play.deliver()
    play.want(2, after=IDLE + 1)
    play.deliver()
    assert play.deletes == [[1]]
    play.config = replace(play.config, idle_timeout_ms=5 * IDLE)
    play.want(1)
    play.deliver()
    assert play.deletes == [[1]]
    play.deliver()
    assert allocation.due(play.state, play.config) == 5 * IDLE + 1
    play.deliver(after=4 * IDLE)
    assert play.deletes == [[1], [2]]
