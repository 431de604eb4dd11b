"""The truths of a state: they hold of what the machines make, and each is missed when it is broken by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from pyrsistent import pmap

from podtide.domain.backend.heartbeat_receiver import HeartbeatState
from podtide.domain.backend.registry import Leaving
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.engine import EngineState
from podtide.domain.kubernetes.allocator.executor_index import CreatedPod, ExecutorIndex, IndexTables, JoinedPod
from podtide.domain.kubernetes.allocator.state import AllocatorState, Flight, Round
from podtide.domain.kubernetes.lifecycle.lifecycle_manager import LifecycleState
from podtide.domain.kubernetes.lifecycle.tables import LifecycleTables
from podtide.domain.kubernetes.snapshots_store import ALLOCATOR, RunOrigin
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, Consumer
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.scaling.dynamic_allocation import State
from podtide.domain.scaling.load import restored
from podtide.domain.scaling.load_tables import LoadAttempt
from tests.simulation import invariants
from tests.simulation.invariants import Truth
from tests.simulation.play import Play
from tests.simulation.test_known_violations import case, cluster, target

ONE = PodNumber(1)


@cache
def lived() -> tuple[EngineState, EngineConfig]:
    """Three executors that run, and a fourth that is pending."""
    run = Play(case(cluster(calm_ms=11_100), target(0, 3), target(10_500, 4)), FIXED_POLICIES)
    run.storm(None)
    return run.loop.state, run.config


def allocating(state: EngineState, allocator: AllocatorState) -> EngineState:
    assert state.kubernetes is not None
    return state._replace(side=replace(state.kubernetes, allocator=allocator))


def allocator_of(state: EngineState) -> AllocatorState:
    assert state.kubernetes is not None
    assert state.kubernetes.allocator is not None
    return state.kubernetes.allocator


def with_books(state: EngineState, change: Callable[[IndexTables], object], *, derive: bool = False) -> EngineState:
    """The fleet's books changed behind its back. ``derive``: its sums too."""
    allocator = allocator_of(state)
    books = allocator.fleet._tables.fork()
    change(books)
    if derive:
        books.recount()
    return allocating(state, replace(allocator, fleet=ExecutorIndex(books)))


def in_round(state: EngineState, *, busy: bool = True, **changes: object) -> EngineState:
    """A round under way that has asked for a fifth pod, where the target is 5 and the store waits."""
    allocator = allocator_of(state)
    consumer = Consumer(DEFAULT_PROFILE, 4, 5, 1)
    plain: dict[str, object] = {
        "at": 11_000, "plan": ((DEFAULT_PROFILE, 5),), "fresh": True, "consumers": (consumer,), "shares": (1,),
        "batch": 1, "requests": 1, "flights": pmap({9: Flight(PodNumber(5), DEFAULT_PROFILE)}), "over": True,
    }  # fmt: skip
    current = Round(**{**plain, **changes})  # type: ignore[arg-type]
    state = allocating(state, replace(allocator, round=current, executors=5))
    side = state.kubernetes
    assert side is not None
    subscribers = tuple(
        replace(s, busy=RunOrigin.TIMER if busy else None, notifications=1) if s.name == ALLOCATOR else s
        for s in side.store.subscribers
    )
    return state._replace(side=replace(side, store=replace(side.store, subscribers=subscribers)))


def with_registry(state: EngineState, **changes: object) -> EngineState:
    side = state.kubernetes
    assert side is not None
    registry = replace(side.backend.registry, **changes)  # type: ignore[arg-type]
    return state._replace(side=replace(side, backend=replace(side.backend, registry=registry)))


def deaf(state: EngineState) -> EngineState:
    """The heartbeat receiver has not heard of anybody."""
    side = state.kubernetes
    assert side is not None
    return state._replace(side=replace(side, heartbeats=HeartbeatState(0)))


def with_lifecycle(state: EngineState, change: Callable[[LifecycleTables], object]) -> EngineState:
    side = state.kubernetes
    assert side is not None
    books = side.lifecycle._tables.fork()
    change(books)
    return state._replace(side=replace(side, lifecycle=LifecycleState(books)))


def with_negative_pending(state: EngineState) -> EngineState:
    attempt = LoadAttempt((7, 0))
    attempt.profiles, attempt.started = (DEFAULT_PROFILE,), {1}
    tables = state.load.tables()
    tables.attempts.put((7, 0), attempt)
    return state._replace(load=restored(tables))


def known(state: EngineState) -> EngineState:
    return with_books(state, lambda books: books.known.add(PodNumber(4)), derive=True)


Break = Callable[[EngineState], EngineState]
CHEAP: list[tuple[Truth, Break]] = [
    (Truth.ID_NEVER_GIVEN, lambda s: with_books(s, lambda b: b.created.update(
        {PodNumber(99): CreatedPod(DEFAULT_PROFILE, 0)}), derive=True)),
    (Truth.TWO_PLACES, lambda s: with_books(s, lambda b: (b.created.update({ONE: CreatedPod(DEFAULT_PROFILE, 0)}),
                                                          b.joined.update({ONE: JoinedPod(DEFAULT_PROFILE, 1)})),
                                    derive=True)),
    (Truth.TWO_PLACES, lambda s: in_round(with_books(
        s, lambda b: b.joined.update({PodNumber(5): JoinedPod(DEFAULT_PROFILE, 1)}), derive=True))),
    (Truth.MISCOUNTED, lambda s: with_books(s, lambda b: b.created_by.update({DEFAULT_PROFILE: 2}))),
    (Truth.MISCOUNTED, lambda s: with_books(s, lambda b: setattr(b.buckets[DEFAULT_PROFILE], "running", 9))),
    (Truth.MISCOUNTED, lambda s: with_books(s, lambda b: b.deleted.add(ONE))),
    (Truth.ROUND_WITHOUT_CALL, lambda s: in_round(s, flights=pmap())),
    (Truth.DELIVERY_WITHOUT_ROUND, lambda s: in_round(s, busy=False)),
    (Truth.BATCH_BEYOND_LIMIT, lambda s: in_round(s, batch=21)),
    (Truth.ASKED_BEYOND_TARGET, lambda s: in_round(s, plan=((DEFAULT_PROFILE, 4),))),
    (Truth.LEAVING_UNREGISTERED, lambda s: with_registry(
        s, executors=pmap(), leaving=pmap({ExecutorId("8"): Leaving("")}))),
    (Truth.NEGATIVE_PENDING, with_negative_pending),
]  # fmt: skip
WHOLE: list[tuple[Truth, Break]] = [
    (Truth.REGISTERED_DISAGREE, known),
    (Truth.REGISTERED_DISAGREE, lambda s: with_lifecycle(s, lambda b: b.active.discard(ONE))),
    (Truth.REGISTERED_DISAGREE, deaf),
    (Truth.SNAPSHOT_DISAGREES, lambda s: with_books(s, lambda b: b.pods.pop(ONE), derive=True)),
    (Truth.SNAPSHOT_DISAGREES, lambda s: with_lifecycle(s, lambda b: b.present.pop(ONE))),
    (Truth.LEAVING_UNREGISTERED, lambda s: with_registry(s, leaving=pmap({ExecutorId("8"): Leaving("")}))),
    (Truth.MISCOUNTED, lambda s: with_books(s, lambda b: b.claims.update({"claim": 1}))),
    (Truth.MISCOUNTED, lambda s: with_books(s, lambda b: b.overrun.add(ONE))),
    (Truth.MISCOUNTED, lambda s: with_books(s, lambda b: b.buckets[DEFAULT_PROFILE].ripe.add(ONE))),
    (Truth.MISCOUNTED, lambda s: with_lifecycle(s, lambda b: b.absent.update({ONE: 0}))),
]  # fmt: skip


def test_hold_of_a_state_that_the_machines_made() -> None:
    state, config = lived()
    assert invariants.check(state, config) == ()
    assert invariants.check_whole(state, config) == ()
    assert invariants.check(in_round(state), config) == ()


def found(state: EngineState, config: EngineConfig) -> set[Truth]:
    return {violation.what for violation in invariants.check(state, config)}


@pytest.mark.parametrize(("truth", "broken"), CHEAP, ids=lambda v: v.name if isinstance(v, Truth) else "")
def test_each_is_missed_without_looking_at_the_fleet(truth: Truth, broken: Break) -> None:
    state, config = lived()
    assert truth in found(broken(state), config)


@pytest.mark.parametrize(("truth", "broken"), WHOLE, ids=lambda v: v.name if isinstance(v, Truth) else "")
def test_each_is_missed_when_everything_is_counted_again(truth: Truth, broken: Break) -> None:
    state, config = lived()
    state = broken(state)
    assert truth in {violation.what for violation in invariants.check_whole(state, config)}


@pytest.mark.parametrize(
    ("truth", "limits"),
    [
        (Truth.ID_BEYOND_MAXIMUM, {"pods_max": 5}),
        (Truth.PENDING_BEYOND_LIMIT, {"pending_max": 1}),
        (Truth.PENDING_BEYOND_PROFILE_LIMIT, {"pending_max_per_profile": 1}),
    ],
)
def test_a_round_keeps_the_limits(truth: Truth, limits: dict[str, int]) -> None:
    state, config = lived()
    allocation: AllocationConfig = replace(config.kubernetes.allocation, **limits)  # type: ignore[arg-type]
    strict = replace(config, kubernetes=replace(config.kubernetes, allocation=allocation))
    assert found(in_round(state), strict) == {truth}
    assert not found(in_round(state, aborted=True), strict)  # what it had deleted counts again


def test_targets_of_dynamic_allocation_are_within_their_bounds() -> None:
    state, config = lived()
    scaling = replace(config.scaling, executors_max=4)
    for target_, wrong in ((4, False), (5, True), (-1, True)):
        state = state._replace(scaling=state.scaling._replace(targets=pmap({DEFAULT_PROFILE: target_})))
        dynamic = replace(config, scaling=scaling, dynamic=True)
        assert (Truth.TARGET_OUT_OF_RANGE in found(state, dynamic)) is wrong
        alone = invariants.check_whole(State(state.load, state.scaling), scaling)
        assert ({violation.what for violation in alone} == {Truth.TARGET_OUT_OF_RANGE}) is wrong


def test_a_violation_is_short_however_large_the_fleet() -> None:
    state, config = lived()
    state = with_books(state, lambda books: books.known.update(PodNumber(n) for n in range(5_000)), derive=True)
    violations = invariants.check_whole(state, config)
    assert violations
    assert all(len(str(fact)) < 400 for violation in violations for fact in violation.facts.values())
