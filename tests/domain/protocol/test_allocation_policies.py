"""Policies: each choice replaced alone and the difference seen; each fix with the harm that it mends.

A fix is tested twice by the same story: under Spark's policies the harm is there, under the fix alone it is not.
"""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from podtide.domain.base.units import ProfileId
from podtide.domain.kubernetes.allocator import allocator as allocation
from podtide.domain.protocol.allocation_policies import (
    FIXED_POLICIES,
    SPARK_POLICIES,
    BackOff,
    Batch,
    Consumer,
    Limits,
    Policies,
    Retired,
    Surplus,
    retire_unseen_first,
    size_by_limits,
)
from podtide.domain.protocol.cluster_config import AllocationConfig, ClaimTemplate
from podtide.domain.protocol.pod_commands import CreatePod, DeletePods
from podtide.domain.protocol.pod_stimuli import KnownExecutors
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause
from tests.support.pods_play import IDLE, SECOND, TIMEOUT, Api, PodsPlay, manifest

FIRST = ProfileId(0)
LIMITS = Limits(batch_size=20, share=100, pending_max_per_profile=100)


def play_with(policies: Policies = SPARK_POLICIES, api: Api | None = None, **changes: object) -> PodsPlay:
    return PodsPlay(replace(AllocationConfig(policies=policies), **changes), api)  # type: ignore[arg-type]


# Spark's own choices.


@pytest.mark.parametrize(
    ("excess", "created", "pending", "gone"),
    [
        (1, [4, 5], [1, 2], ([4], [])),
        (3, [4, 5], [1, 2], ([4, 5], [1])),
        (9, [4], [1, 2], ([4], [1, 2])),
        (2, [], [], ([], [])),
    ],
)
def test_spark_retires_unseen_pods_first(
    excess: int, created: list[int], pending: list[int], gone: tuple[list[int], list[int]]
) -> None:
    surplus = Surplus(FIRST, excess, map(PodNumber, created), map(PodNumber, pending))
    assert retire_unseen_first(surplus) == (tuple(gone[0]), tuple(gone[1]))


@pytest.mark.parametrize(
    ("consumer", "limits", "batch"),
    [
        (Consumer(FIRST, 2, 5, 1), LIMITS, Batch(3, None)),
        (Consumer(FIRST, 0, 50, 0), LIMITS, Batch(20, Bound.BATCH_SIZE)),
        (Consumer(FIRST, 0, 20, 0), LIMITS, Batch(20, None)),
        (Consumer(FIRST, 0, 50, 0), LIMITS._replace(share=7), Batch(7, Bound.PENDING_LIMIT)),
        (Consumer(FIRST, 5, 50, 4), LIMITS._replace(pending_max_per_profile=6), Batch(2, Bound.PENDING_LIMIT_PROFILE)),
        (Consumer(FIRST, 9, 50, 9), LIMITS._replace(pending_max_per_profile=6), Batch(-3, Bound.PENDING_LIMIT_PROFILE)),
    ],
)
def test_spark_sizes_batches_by_the_least_limit(consumer: Consumer, limits: Limits, batch: Batch) -> None:
    assert size_by_limits(consumer, limits) == batch


def test_spark_has_no_fix_and_the_fixed_policies_have_all() -> None:
    switches = [policy.name for policy in fields(Policies) if policy.name not in ("retire", "split", "size")]
    assert not any(getattr(SPARK_POLICIES, name) for name in switches)
    assert all(getattr(FIXED_POLICIES, name) for name in switches)


# One choice replaced, and nothing else.


def newest_first(surplus: Surplus) -> Retired:
    """Let pods go that wait in the cluster, the youngest first, and never those that nobody has seen."""
    return Retired((), tuple(sorted(surplus.pending, reverse=True)[: surplus.excess]))


@pytest.mark.parametrize(
    ("policies", "gone"), [(SPARK_POLICIES, [1, 4]), (replace(SPARK_POLICIES, retire=newest_first), [2, 3])]
)
def test_another_choice_of_who_goes(policies: Policies, gone: list[int]) -> None:
    play = play_with(policies)
    play.want(4)
    play.pending(1, 2, 3)
    play.deliver()
    play.want(2, after=IDLE + 1)
    play.deliver()
    assert play.deletes == [gone]


# SPARK-34519: back-off after start-up failures.

SLOW = replace(SPARK_POLICIES, back_off=BackOff(failures=3, window_ms=60_000, first_ms=5_000, longest_ms=20_000))


def crash_loop(play: PodsPlay, rounds: int = 120) -> None:
    """Every pod fails as soon as it is seen, for two minutes."""
    play.want(2)
    for _ in range(rounds):
        play.failed(*play.created)
        play.deliver(after=SECOND)


def test_back_off_slows_down_while_no_pod_starts() -> None:
    play = play_with(SLOW)
    crash_loop(play)
    times = [command.at // SECOND for command in play.said(CreatePod)]
    assert times == [0, 0, 1, 1, 7, 17, 37, 57, 77, 97, 117]
    assert (0, Bound.BACK_OFF) in play.holding()


def test_back_off_is_over_when_an_executor_registers() -> None:
    play = play_with(SLOW)
    crash_loop(play, 10)
    asked = len(play.asked)
    play.know(play.asked[-1])
    play.want(12)
    play.deliver(after=SECOND)
    assert len(play.asked) > asked + 5
    assert play.state.slowdown.until is None


@pytest.mark.parametrize("trouble", ["refused", "never seen", "claims"])
def test_back_off_knows_every_way_to_fail(trouble: str) -> None:
    claims = (ClaimTemplate("v", "OnDemand", 0, "gp2", "1Gi"),) if trouble == "claims" else ()
    api = Api(refused_pods=trouble == "refused", refused_claims=trouble == "claims")
    play = play_with(SLOW, api, claims=claims, create_timeout_ms=2 * SECOND)
    play.want(4)
    for _ in range(120):
        play.deliver(after=SECOND)
    assert len(play.asked) < 20
    assert Bound.BACK_OFF in [bound for _, bound, *_ in play.held()]


def test_back_off_that_begins_in_the_middle_of_a_batch_ends_the_batch() -> None:
    """Pods with claims come one by one: the first refusals tell."""
    claims = (ClaimTemplate("v", "OnDemand", 0, "gp2", "1Gi"),)
    play = play_with(SLOW, Api(refused_pods=True), claims=claims)
    play.want(10, 3)
    assert play.asked == [1, 2, 3, 4]
    held = play.holding()
    assert held[0, Bound.BACK_OFF] == {"missing": 6, "failures": 4, "until_ms": 5_000, "delay_ms": 5_000}
    assert held[1, Bound.BACK_OFF]["batch"] == 0
    play.deliver(after=4_999)
    assert len(play.asked) == 4
    play.deliver(after=1)
    assert play.asked_by_profile == {0: [1, 2, 3, 4, 5], 1: [6]}
    assert play.state.slowdown.until == 5_000 + 10_000


def test_a_round_that_asks_for_nothing_is_no_probe() -> None:
    play = play_with(SLOW, Api(refused_pods=True), pending_max_per_profile=4)
    play.want(4)
    play.show(*(manifest(100 + n, "Pending") for n in range(4)))
    play.deliver()
    play.want(9)
    assert play.state.slowdown.until == 5_000
    play.deliver(after=60 * SECOND)
    assert play.state.slowdown.until == 5_000
    assert len(play.asked) == 4


def test_back_off_says_when_it_will_go_on() -> None:
    play = play_with(SLOW, Api(refused_pods=True))
    play.want(4)
    play.deliver()  # says so
    play.deliver()  # has nothing to add
    assert play.state.slowdown.until == 5_000
    assert allocation.due(play.state, play.config) == 5_000


# SPARK-52589: ghosts.

EXORCISED = replace(SPARK_POLICIES, forget_ghosts=True)


def ghost(play: PodsPlay) -> None:
    """An executor registers and is removed again before any snapshot shows its pod."""
    play.want(1)
    play.know(1)
    play.deliver()
    play.unknow(1)
    for _ in range(100):
        play.deliver(after=TIMEOUT)


def test_a_ghost_is_forgotten_and_replaced() -> None:
    play = play_with(EXORCISED)
    ghost(play)
    assert play.asked[:2] == [1, 2]
    assert play.joined == []


def test_one_that_left_before_any_round_is_waited_for_as_before() -> None:
    play = play_with(EXORCISED)
    play.want(1)
    play.feed(KnownExecutors(0, ((PodNumber(1), 0),)), KnownExecutors(0, (), (PodNumber(1),)))
    play.deliver()
    assert (play.asked, play.created) == ([1], [1])  # it can time out: no ghost


# Excess pods that turn Running before their delete arrives.

THOROUGH = replace(SPARK_POLICIES, delete_excess_running=True)


def overtaken(play: PodsPlay) -> None:
    """An excess pod starts just before its delete, which takes pending ones only, arrives."""
    play.want(2)
    play.pending(1, 2)
    play.deliver()
    play.want(1, after=IDLE + 1)
    play.deliver()
    assert play.deletes == [[1]]
    play.running(1, 2)
    play.deliver(after=SECOND)


def test_spark_leaves_an_overtaken_pod_running_outside_its_books() -> None:
    play = play_with()
    overtaken(play)
    for _ in range(50):
        play.running(1)
        play.deliver(after=SECOND)
    assert play.deletes == [[1]]
    assert play.deleted(1) == [True]  # and it may not register: it runs for nothing
    assert play.state.fleet.pods == 2


def test_an_overtaken_pod_is_deleted_whatever_its_phase() -> None:
    play = play_with(THOROUGH)
    overtaken(play)
    assert play.deletes == [[1], [1]]
    delete = play.last(DeletePods)
    assert (delete.phase, delete.why.cause) == (None, Cause.ABOVE_TARGET)
    assert dict(delete.why.facts) == {"executors": 1, "running": 1}
    play.show(manifest(1, deleted_at="2026-01-01T00:00:00Z"))
    play.deliver()
    assert len(play.deletes) == 2  # it goes
    play.lose(1)
    play.deliver()
    assert play.deletes == [[1], [1]]


def test_a_refused_delete_of_an_overtaken_pod_is_tried_again_with_the_next_snapshot() -> None:
    play = play_with(THOROUGH, Api())
    overtaken(play)
    play.deliver(after=SECOND)
    assert len(play.deletes) == 2
    play.running(2)
    play.deliver(after=SECOND)
    assert play.deletes == [[1], [1], [1]]


@pytest.mark.parametrize(
    "policies", [SLOW, EXORCISED, THOROUGH, FIXED_POLICIES], ids=["slow", "ghosts", "excess", "all"]
)
def test_where_nothing_goes_wrong_no_fix_is_noticed(policies: Policies) -> None:
    stories = []
    for chosen in (SPARK_POLICIES, policies):
        play = play_with(chosen, batch_size=2)
        play.want(3, 2)
        play.pending(1, 2)
        play.running(3)
        play.deliver(after=SECOND)
        play.know(3, 1)
        play.running(1, 4)
        play.deliver(after=SECOND)
        play.want(1, 1, after=IDLE)
        play.deliver(after=SECOND)
        play.lose(2)
        play.deliver(after=TIMEOUT)
        stories.append((play.commands, play.held()))
    assert stories[0] == stories[1]
