"""The lifecycle manager beside Spark's suite: the oddities of 4.3.0, open rounds, what a round costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from podtide.domain.base.units import ALWAYS, NEVER
from podtide.domain.kubernetes.lifecycle import lifecycle_manager as lifecycle
from podtide.domain.kubernetes.lifecycle.lifecycle_manager import Delivery
from podtide.domain.kubernetes.lifecycle.tables import map_order
from podtide.domain.protocol.cluster_config import LifecycleConfig
from podtide.domain.protocol.executor_commands import RemoveExecutor, StopApplication
from podtide.domain.protocol.pod_commands import MarkInactive
from podtide.domain.protocol.pod_stimuli import CallFailure, CreationFailed, Outcome
from podtide.domain.protocol.pods import EXECUTOR_LABEL, Pod, PodContainer, PodManifest, PodNumber, PodState, Snapshot
from podtide.domain.protocol.reasons import Cause
from tests.support.lifecycle_play import FORBIDDEN, Play, ended, pod

if TYPE_CHECKING:
    from _typeshed import TraceFunction

CONFIG = LifecycleConfig(failures_max=100, remarks=True)
KEEPING = replace(CONFIG, delete_on_termination=False)
BROKEN = (PodContainer("spark-kubernetes-executor", None, None),)
"""A container without a state object: describing it is a NullPointerException."""


# ------------------------------------------------------------------------------------------------- what counts


@pytest.mark.parametrize(
    ("manifest", "counts"),
    [
        (pod(1, "Failed"), 1),
        (pod(1, "Failed", inactive=True), 1),
        (pod(1, "Running", code=1, deleted=True), 1),  # being deleted, but still running with a failed container
        (pod(1, "Failed", deleted=True), 0),
        (pod(1, "Succeeded"), 0),
        (pod(1, "Unknown"), 0),
        (pod(1, "Terminating"), 0),
    ],
)
def test_only_failed_pods_count(manifest: PodManifest, counts: int) -> None:
    play = Play(CONFIG)
    play.updates(0, manifest)
    assert play.count == counts


def test_the_limit_is_strict_and_said_in_every_round() -> None:
    play = Play(replace(CONFIG, failures_max=1))
    play.updates(0, pod(1, "Failed"))
    assert play.exit_code is None
    play.take(0, CreationFailed(0, PodNumber(9)))
    assert play.commands == ()  # only a round looks
    for at in (1, 2):
        (stop,) = play.round(at)
        assert isinstance(stop, StopApplication)
        assert (stop.exit_code, stop.why.cause) == (11, Cause.TOO_MANY_FAILURES)
        assert dict(stop.why.facts) == {"failures": 2, "maximum": 1, "window_ms": None}


def test_new_failures_are_remarked() -> None:
    play = Play(CONFIG)
    play.updates(0, pod(1, "Failed"), pod(2, "Failed"))
    assert [(r.topic, dict(r.facts)) for r in play.remarks] == [("new failures", {"count": 2})]
    silent = Play(replace(CONFIG, remarks=False))
    silent.updates(0, pod(1, "Failed"))
    assert silent.remarks == []


# ---------------------------------------------------------------------------------------------- removed, deleted


def test_a_removal_is_repeated_when_its_memory_is_as_old_as_the_timeout() -> None:
    play = Play(replace(CONFIG, removed_cache_ms=5_000))
    play.updates(0, pod(1, "Failed"), pod(2, "Failed", deleted=True))
    assert play.removed == [1, 2]
    play.round(4_999, play.updated())
    assert play.removed == []
    assert play.state.removed(play.config, 4_999) == (1, 2)
    assert play.state.removed(play.config, 5_000) == ()
    play.round(5_000, play.updated())
    assert play.removed == [1, 2]


def test_without_a_memory_every_snapshot_removes_again() -> None:
    play = Play(replace(CONFIG, removed_cache_ms=0))
    play.round(0, play.updated(pod(1, "Failed"), pod(2, "Failed", deleted=True)), play.updated())
    assert play.removed == [1, 2, 1, 2]
    assert play.deleted == [1]
    assert play.state.removed(play.config, 0) == ()
    play.round(0, play.updated())
    assert play.removed == [1, 2]


def test_deleted_then_failed_in_a_batch_is_left_to_the_next_round() -> None:
    play = Play(CONFIG)
    play.round(0, play.updated(pod(2, "Failed", deleted=True)), play.updated(pod(2, "Failed")))
    assert (play.removed, play.deleted) == ([2], [])
    play.round(1, play.updated())
    assert (play.removed, play.deleted) == ([], [2])


def test_every_removal_says_why_with_numbers() -> None:
    play = Play(replace(CONFIG, missing_delta_ms=10))
    play.know((9, 1))
    play.round(50, play.updated(pod(1, "Failed", code=3)), play.listed(50, pod(1, "Failed", code=3)))
    failed, missing = (c for c in play.commands if isinstance(c, RemoveExecutor))
    assert (failed.round_index, failed.why.cause) == (0, Cause.POD_FAILED)
    assert dict(failed.why.facts) == {"snapshot": 0, "pod": "exec-1", "exit_code": 3}
    assert (missing.round_index, missing.why.cause) == (None, Cause.POD_MISSING)
    assert dict(missing.why.facts) == {"registered_at": 1, "polled_at": 50, "delta_ms": 10}


# ------------------------------------------------------------------------------------------------------- lost


def test_who_was_removed_in_the_round_is_not_lost_as_well() -> None:
    play = Play(CONFIG)
    play.know((1, 0), (2, 0))
    play.updates(0, pod(1, "Failed", deleted=True))
    # Removed in this round or before it: the snapshot that still had the pod is of this round.
    play.round(200_000, play.updated(pod(2, "Failed")), play.listed(200_000))
    assert play.removed == [1, 2]
    play = Play(replace(CONFIG, removed_cache_ms=0))
    play.know((1, 0))
    play.round(0, play.updated(pod(1, "Failed")))
    play.round(200_000, play.updated(), play.listed(200_000))
    assert play.removed == [1]
    play.round(200_001, play.listed(200_001))
    assert play.removed == [1]  # now as lost


# ------------------------------------------------------------------------------------------------------ throws


def test_a_round_that_throws_skips_the_limit_and_the_next_makes_up_for_it() -> None:
    play = Play(replace(CONFIG, failures_max=0))
    play.updates(0, pod(1, "Failed", containers=BROKEN))
    assert (play.count, play.exit_code, len(play.threw)) == (1, None, 1)
    play.round(1)
    assert play.exit_code == 11


def test_what_comes_after_a_throw_is_looked_at_in_the_next_round() -> None:
    play = Play(CONFIG)
    play.know((8, -100_000))
    play.round(
        0,
        play.updated(pod(1, "Failed", containers=BROKEN)),
        play.updated(pod(2, "Failed"), pod(3, "Failed", deleted=True)),
        play.listed(7, pod(1, "Failed", containers=BROKEN), pod(2, "Failed"), pod(3, "Failed", deleted=True)),
    )
    assert (play.commands, play.count, play.state.polled_at) == ((), 1, 0)
    play.round(1, play.updated())
    assert (play.removed, play.count, play.state.polled_at) == ([2, 3, 8], 2, 7)
    assert play.deleted == [1, 2]


def test_more_pods_are_met_in_the_order_of_their_hashes_when_a_round_throws() -> None:
    order = [5, 10, 1, 6, 9, 2, 12, 7, 3, 11, 8, 4]
    play = Play(CONFIG)
    play.updates(0, *(pod(n, "Failed", containers=BROKEN if n == 9 else ()) for n in range(1, 13)))
    assert play.removed == order[: order.index(9)]
    play.round(1, play.updated())
    assert play.removed == sorted(order[order.index(9) + 1 :])


@pytest.mark.parametrize(
    ("came", "order"),
    [
        ([], []),
        ([4, 2, 3, 1], [4, 2, 3, 1]),
        (list(range(1, 13)), [5, 10, 1, 6, 9, 2, 12, 7, 3, 11, 8, 4]),
        (
            [171798691880, 74017, -2101899784331914950, 56, 8589934592],
            [171798691880, 56, 8589934592, 74017, -2101899784331914950],
        ),
        ([2**32, 1, 7, 8, 9], [9, 7, 8, 2**32, 1]),  # 2**32 and 1 have one hash: they stay as they came
        ([1, 2**32, 7, 8, 9], [9, 7, 8, 1, 2**32]),
        ([-1, 0, -2, 5, 2**32 - 1, 2**33, 2], [0, 5, -2, 2**33, 2, -1, 2**32 - 1]),
    ],
)
def test_the_order_of_scalas_immutable_map(came: list[int], order: list[int]) -> None:
    """Recorded from Scala 2.13's own Map."""
    assert map_order({PodNumber(number): place for place, number in enumerate(came)}) == order


# ------------------------------------------------------------------------------------------------- inactivated


def test_a_pod_is_patched_until_it_works() -> None:
    play = Play(KEEPING)
    play.failing = {1}
    play.updates(0, pod(1, "Failed"), pod(2, "Succeeded"), pod(3, "Failed", deleted=True))
    assert (play.patched, play.state.inactivated()) == ([1, 2], (2,))
    play.failing = set()
    play.round(1, play.updated())
    assert (play.patched, play.state.inactivated()) == ([1], (1, 2))
    play.round(2, play.updated())
    assert play.patched == []


@pytest.mark.parametrize(
    ("then", "kept"),
    [
        ([pod(1, "Failed", inactive=True)], False),
        ([pod(1, "Running", inactive=True)], False),
        ([pod(1, "Failed", deleted=True)], False),
        ([pod(1, "Running")], True),
        ([], True),
    ],
)
@pytest.mark.parametrize("answered_late", [False, True], ids=["answered", "answered at the round's end"])
def test_who_leaves_the_inactivated(then: list[PodManifest], kept: bool, answered_late: bool) -> None:
    """The same whether the label shows in a later round or in a later snapshot of the round that asked for it."""
    play = Play(KEEPING, hold_patches=answered_late)
    first, second = play.updated(pod(1, "Failed")), play.updated(*then)
    if answered_late:
        (patch,) = (c for c in play.round(0, first, second) if isinstance(c, MarkInactive))
        assert lifecycle.busy(play.state)
        assert play.state.inactivated() == ()
        play.answer(patch)
    else:
        play.round(0, first)
        play.round(1, second)
    assert not lifecycle.busy(play.state)
    assert play.state.inactivated() == ((1,) if kept else ())


def test_gone_in_a_round_that_threw_is_forgotten_by_the_next() -> None:
    play = Play(KEEPING, hold_patches=True)
    broken = pod(2, "Failed", containers=BROKEN)
    (patch,) = (
        c for c in play.round(0, play.updated(pod(1, "Failed"), broken), play.listed(5)) if isinstance(c, MarkInactive)
    )
    play.answer(patch)
    assert (len(play.threw), play.state.inactivated()) == (1, (1,))
    play.round(1, play.updated())
    assert play.state.inactivated() == ()


def test_failed_calls_are_remarked_and_strange_outcomes_ignored() -> None:
    play = Play(CONFIG)
    play.updates(0, pod(1, "Succeeded"))
    state = play.state
    play.take(0, Outcome(0, 77), Outcome(0, -1, None), Outcome(0, 99, FORBIDDEN))
    assert (play.state, play.remarks) == (state, [])
    play.take(0, Outcome(0, 1, CallFailure(403, "no", "X")))
    assert [(r.topic, dict(r.facts)) for r in play.remarks] == [("call failed", {"serial": 1, "exception": "X: no"})]


# ------------------------------------------------------------------------------------------------- time, purity


def test_an_empty_round_is_due_only_when_it_would_end_the_application() -> None:
    play = Play(replace(CONFIG, failures_max=0))
    assert lifecycle.due(play.state, play.config) == NEVER
    play.take(0, CreationFailed(0, PodNumber(1)))
    assert lifecycle.due(play.state, play.config) == ALWAYS
    play.round(0)
    assert play.exit_code == 11


def test_what_changes_by_time_alone() -> None:
    config = replace(CONFIG, removed_cache_ms=500, failures_window_ms=100)
    play = Play(config)
    assert lifecycle.next_change(play.state, config) == NEVER
    play.updates(1_000, pod(1, "Succeeded"))
    assert lifecycle.next_change(play.state, config) == 1_500
    play.updates(1_200, pod(2, "Failed"))
    assert lifecycle.next_change(play.state, config) == 1_301
    assert (play.state.failures(config, 1_300).count, play.state.failures(config, 1_301).count) == (1, 0)


def test_an_empty_round_is_the_same_state() -> None:
    play = Play(CONFIG)
    play.updates(0, pod(1))
    state = play.state
    play.round(1)
    assert play.state is state


class CountedLabels(Mapping[str, str]):
    """Labels that count how often somebody looks."""

    looks = 0

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels

    def __getitem__(self, key: str) -> str:
        CountedLabels.looks += 1
        return self._labels[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._labels)

    def __len__(self) -> int:
        return len(self._labels)


def running(number: int) -> Pod:
    manifest = PodManifest(f"exec-{number}", CountedLabels({EXECUTOR_LABEL: str(number)}), phase="Running")
    return Pod(PodNumber(number), PodState.RUNNING, manifest)


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work runs through."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("keep", [False, True], ids=["deleting", "keeping"])
def test_running_pods_cost_nothing(keep: bool) -> None:
    """The same work, line by line, for a hundred and for five thousand of them; a list that says nothing new too."""
    work, looks = [], []
    for fleet in (100, 5_000):
        play = Play(replace(CONFIG, delete_on_termination=not keep))
        play.know(*((number, 0) for number in range(1, fleet + 1)))
        play.round(0, Snapshot(5, tuple(map(running, range(1, fleet + 1)))))
        play.updates(1, pod(7, "Failed", code=1), pod(8, "Failed", deleted=True))
        CountedLabels.looks = 0
        state, config = play.state, play.config
        batch = (
            Snapshot(5, (running(10), Pod(PodNumber(11), PodState.FAILED, pod(11, "Failed", code=137)))),
            Snapshot(9, (), (PodNumber(12),)),
            Snapshot(9),
        )
        work.append(lines_run(partial(lifecycle.reap, state, [Delivery(2, batch)], config, 2)))
        looks.append(CountedLabels.looks)
    assert looks == [1, 1]
    assert work[0] == work[1]


def test_an_older_state_goes_on_as_if_nothing_had_been_asked_of_it() -> None:
    play = Play(KEEPING)
    play.updates(0, pod(1), pod(2), pod(3))
    before = play.state
    snapshot = play.updated(pod(1, "Failed", code=1), pod(2, "Failed", containers=(ended(0),)))
    play.round(1, snapshot)
    first = play.commands
    play.round(2, play.listed(9))
    again = lifecycle.reap(before, [Delivery(1, (snapshot,))], KEEPING, 1)
    assert again.commands == first
    assert before.failed() == before.inactivated() == before.removed(KEEPING, 0) == ()
    assert play.state.failed() == (1, 2)


def test_an_older_state_knows_who_has_no_pod() -> None:
    play = Play(CONFIG)
    play.know((1, 0))
    before = play.state
    play.updates(1, pod(1))
    again = lifecycle.reap(before, [Delivery(50_000, (Snapshot(50_000),))], CONFIG, 50_000)
    assert [c.executor for c in again.commands if isinstance(c, RemoveExecutor)] == ["1"]


def test_an_older_state_forgets_removals_in_their_order() -> None:
    config = replace(CONFIG, removed_cache_ms=5_000)
    play = Play(config)
    play.updates(0, pod(1, "Failed"))
    play.updates(3_000, pod(2, "Failed"))
    before = play.state
    play.round(5_000, play.updated())
    assert play.removed == [1]
    again = lifecycle.reap(before, [Delivery(5_000, (Snapshot(0),))], config, 5_000)
    assert again.commands == play.commands
    assert before.removed(config, 4_999) == (1, 2)
