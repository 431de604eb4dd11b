"""What is true of every state of an application, whatever it has lived through.

A state keeps the same fact in several places, so that a round costs what changed: sums beside the pods that they sum up,
the executors that are registered at the backend, the allocator and the lifecycle manager. These must agree, and what a
round has asked for must be within the limits that Spark promises. Nothing here decides anything; a violation is an error of
the program, and names what disagrees with its numbers.

- ``check`` costs the profiles and what is under way (unseen pods, open calls), not the fleet: it can run after every step.
- ``check_whole`` counts everything again, literally: every pod, every executor, every stage. For tests, and now and then.

The limits are those of the *books*: the pods that the driver knows of. Pods that the cluster has and the driver has not seen
(the answer to their creation was lost, a stale list did not show them) are beyond what a decision can know.

Source: what the machines say of themselves (``fleet``, ``kubernetes.lifecycle.books``, ``registry``, ``load``); the
limits are those of spec/allocation.md of the conformance kit, sections 4.7 to 4.9 and 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.jvm.instants import parse_instant
from podtide.domain.kubernetes import snapshots_store as stores
from podtide.domain.kubernetes.allocator import executor_index as fleets
from podtide.domain.kubernetes.allocator.executor_index import Bucket, IndexTables, ProfileCensus
from podtide.domain.kubernetes.allocator.state import AllocatorState, ClaimWait, PodWait, Round
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.pod_stimuli import KnownExecutors
from podtide.domain.protocol.pods import INACTIVE_LABEL, Pod, PodNumber, PodState, pod_number
from podtide.domain.protocol.reasons import Fact
from podtide.domain.scaling.dynamic_allocation import State
from podtide.domain.scaling.state import ScalingState


class Truth(Enum):
    """What may turn out not to hold. The texts are the names in every output."""

    ID_NEVER_GIVEN = "an executor id that was never given out"
    TWO_PLACES = "an executor in two places of the books"
    MISCOUNTED = "a sum that is not what it sums up"
    ROUND_WITHOUT_CALL = "a round that stands still and waits for nothing"
    DELIVERY_WITHOUT_ROUND = "a delivery under way without a round, or a round without a delivery"
    BATCH_BEYOND_LIMIT = "a batch of more than batch.size"
    PENDING_BEYOND_LIMIT = "more pods that do not run than maxPendingPods"
    PENDING_BEYOND_PROFILE_LIMIT = "more pods of a profile that do not run than maxPendingPodsPerRp"
    ID_BEYOND_MAXIMUM = "an executor id beyond allocation.maximum"
    ASKED_BEYOND_TARGET = "more pods than the target asked for"
    REGISTERED_DISAGREE = "machines that disagree on who is registered"
    SNAPSHOT_DISAGREES = "machines that disagree on the last snapshot"
    LEAVING_UNREGISTERED = "an executor on its way out that is not registered"
    NEGATIVE_PENDING = "fewer than no pending tasks"
    TARGET_OUT_OF_RANGE = "a target of dynamic allocation outside of its bounds"


class Violation(NamedTuple):
    """Something that does not hold, and its numbers."""

    what: Truth
    facts: Mapping[str, Fact]


def check(state: EngineState | State, config: EngineConfig | ScalingConfig) -> tuple[Violation, ...]:
    """What does not hold of this state, as far as sums and what is under way tell. Costs those, not the fleet."""
    found = _Found()
    scaling = config if isinstance(config, ScalingConfig) else config.scaling
    if isinstance(config, ScalingConfig) or config.dynamic:
        _targets(state.scaling, scaling, found)
    if scaling.repair_pending:
        for profile, tally in state.load._tables.tallies.items():
            found.unless(tally.pending >= 0, Truth.NEGATIVE_PENDING, profile=profile, pending=tally.pending)
    side = state.kubernetes if isinstance(state, EngineState) else None
    if side is not None and isinstance(config, EngineConfig):
        _deliveries(side, found)
        _leaving(side, found)
        if side.allocator is not None:
            allocator = config.kubernetes.allocation
            _places(side.allocator, found)
            _sums(side.allocator.fleet._tables, found)
            if side.allocator.round is not None:
                _round(side.allocator, side.allocator.round, allocator, found)
    return tuple(found.violations)


def check_whole(state: EngineState | State, config: EngineConfig | ScalingConfig) -> tuple[Violation, ...]:
    """``check``, and everything counted again from the pods, the executors and the stages themselves."""
    found = _Found()
    found.violations.extend(check(state, config))
    scaling = config if isinstance(config, ScalingConfig) else config.scaling
    if scaling.repair_pending:
        for (stage, _), attempt in state.load._tables.attempts.items():
            found.unless(attempt.pending >= 0, Truth.NEGATIVE_PENDING, stage=stage, pending=attempt.pending)
    side = state.kubernetes if isinstance(state, EngineState) else None
    if side is not None:
        _registered(side, found)
        _snapshots(side, found)
        _lifecycle(side, found)
        if side.allocator is not None:
            _regrouped(side.allocator.fleet._tables, found)
    return tuple(found.violations)


class _Found:
    """Violations as they are found."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def unless(self, holds: bool, what: Truth, **facts: Fact) -> None:
        if not holds:
            self.violations.append(Violation(what, facts))

    def same(self, what: Truth, name: str, kept: object, counted: object) -> None:
        """Two ways to know the same thing."""
        if kept != counted:
            self.violations.append(Violation(what, {"of": name, "kept": _short(kept), "counted": _short(counted)}))


_TEXT_MAX: Final = 300


def _short(value: object) -> str:
    text = repr(sorted(value) if isinstance(value, set | frozenset) else value)
    return text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "..."


# ------------------------------------------------------------------------------------------------- what is cheap to know


def _targets(state: ScalingState, config: ScalingConfig, found: _Found) -> None:
    most = max(config.executors_max, config.executors_initial)
    for profile, target in state.targets.items():
        found.unless(0 <= target <= most, Truth.TARGET_OUT_OF_RANGE, profile=profile, target=target, maximum=most)


def _deliveries(side: KubernetesState, found: _Found) -> None:
    """The store waits for a subscriber exactly as long as that is at work."""
    for name, busy in (
        (stores.ALLOCATOR, side.allocator is not None and side.allocator.round is not None),
        (stores.LIFECYCLE, bool(side.lifecycle._tables.patches)),
    ):
        subscriber = side.store.subscriber(name)
        delivering = subscriber is not None and subscriber.busy is not None
        if delivering is not busy and not (name == stores.LIFECYCLE and busy):  # patches may outlive a round that threw
            found.unless(False, Truth.DELIVERY_WITHOUT_ROUND, subscriber=name, delivering=delivering, busy=busy)
        if subscriber is not None:
            count = subscriber.notifications
            found.unless(count >= 0, Truth.MISCOUNTED, of=f"notifications of {name}", kept=count)


def _leaving(side: KubernetesState, found: _Found) -> None:
    registry = side.backend.registry
    for name in ("killed", "lost", "leaving"):
        going = len(getattr(registry, name))
        registered = len(registry.executors)
        found.unless(going <= registered, Truth.LEAVING_UNREGISTERED, of=name, going=going, registered=registered)


def _places(state: AllocatorState, found: _Found) -> None:
    """An executor that no snapshot has shown is created, joined or being created; and its id was given out."""
    books = state.fleet._tables
    flying = [] if state.round is None else [flight.number for flight in state.round.flights.values()]
    for number in (*books.created, *books.joined, *flying):
        given = 0 < number <= state.executors
        found.unless(given, Truth.ID_NEVER_GIVEN, executor=number, last=state.executors)
    for number in books.created:
        found.unless(number not in books.joined, Truth.TWO_PLACES, executor=number, places="created, joined")
    for number in flying:
        twice = number in books.created or number in books.joined
        found.unless(not twice, Truth.TWO_PLACES, executor=number, places="being created, created or joined")


def _sums(books: IndexTables, found: _Found) -> None:
    what = Truth.MISCOUNTED
    found.same(what, "created", sum(books.created_by.values()), len(books.created))
    found.same(what, "joined", sum(books.joined_by.values()), len(books.joined))
    grouped = 0
    for profile, bucket in books.buckets.items():
        grouped += bucket.pods
        parts = bucket.running + bucket.known_pending + len(bucket.pending)
        if parts > bucket.pods or min(bucket.running, bucket.known_pending) < 0:
            found.same(what, f"pods of profile {profile}", bucket.pods, parts)
    found.same(what, "pods that count", grouped, len(books.pods) - len(books.deleted) + len(books.unseen))


def _round(state: AllocatorState, current: Round, config: AllocationConfig, found: _Found) -> None:
    """A round that stands still waits for an answer, and has asked for no more than the limits allow."""
    waits = bool(current.flights) or current.wait is not None
    found.unless(waits, Truth.ROUND_WITHOUT_CALL, at=current.at, over=current.over)
    found.unless(
        current.batch <= config.batch_size, Truth.BATCH_BEYOND_LIMIT, batch=current.batch, batch_size=config.batch_size
    )
    if not current.requests:
        return
    last, most = state.executors, config.pods_max
    found.unless(last < most or current.aborted, Truth.ID_BEYOND_MAXIMUM, executor=last, maximum=most)
    if current.aborted:
        return  # what it had deleted counts again
    alone = len(current.plan) <= 1
    asked = Counter(flight.profile for flight in current.flights.values())
    if isinstance(current.wait, PodWait | ClaimWait):
        asked[current.consumers[current.turn].profile] += 1
    not_running = 0
    for profile, target in current.plan:
        census = _census(state, profile, alone=alone)
        flying = asked[profile]
        not_running += census.not_running + flying
        if all(consumer.profile != profile for consumer in current.consumers):
            continue
        counted, waiting = census.counted + flying, census.not_running + flying
        found.unless(counted <= target, Truth.ASKED_BEYOND_TARGET, profile=profile, counted=counted, target=target)
        limit = config.pending_max_per_profile
        found.unless(
            waiting <= limit or not flying, Truth.PENDING_BEYOND_PROFILE_LIMIT, profile=profile, not_running=waiting,
            limit=limit,
        )  # fmt: skip
    limit = config.pending_max
    found.unless(not_running <= limit, Truth.PENDING_BEYOND_LIMIT, not_running=not_running, limit=limit)


def _census(state: AllocatorState, profile: ProfileId, *, alone: bool) -> ProfileCensus:
    return state.fleet.census(profile, alone=alone)


# --------------------------------------------------------------------------------------------- everything counted again


def _registered(side: KubernetesState, found: _Found) -> None:
    """The backend says who is registered; the allocator and the lifecycle manager have been told."""
    registry = side.backend.registry
    numbers = {number for executor in registry.executors if (number := pod_number(executor)) is not None}
    what = Truth.REGISTERED_DISAGREE
    found.same(what, "lifecycle manager", set(side.lifecycle._tables.registered), numbers)
    active = {number for number in numbers if registry.active(_named(registry.executors, number))}
    found.same(what, "active executors", set(side.lifecycle._tables.active), active)
    if not side.heartbeats.stopped and side.backend.waiting is None:
        found.same(what, "heartbeat receiver", set(side.heartbeats.last_seen), set(registry.executors))
    allocator = side.allocator
    if allocator is not None and not any(isinstance(item, KnownExecutors) for item in allocator.later):
        found.same(what, "allocator", allocator.fleet._tables.known, numbers)
    for name in ("killed", "lost", "leaving"):
        for executor in getattr(registry, name):
            here = executor in registry.executors
            found.unless(here, Truth.LEAVING_UNREGISTERED, of=name, executor=executor)


def _named(executors: Iterable[ExecutorId], number: PodNumber) -> ExecutorId:
    plain = ExecutorId(str(number))
    return plain if plain in executors else next(e for e in executors if pod_number(e) == number)


def _snapshots(side: KubernetesState, found: _Found) -> None:
    """Whoever has taken all snapshots knows the pods that the store knows."""
    view = {pod.number: pod for pod in side.store.view.pods()}
    what = Truth.SNAPSHOT_DISAGREES
    subscriber = side.store.subscriber(stores.ALLOCATOR)
    allocator = side.allocator
    if allocator is not None and subscriber is not None and not subscriber.queue and allocator.unread is None:
        seen = allocator.fleet._tables.pods
        if seen != view:
            odd = {n for n in (*seen, *view) if seen.get(n) != view.get(n)}
            found.unless(False, what, of="allocator", executors=_short(odd))
    subscriber = side.store.subscriber(stores.LIFECYCLE)
    if subscriber is not None and not subscriber.queue:
        found.same(what, "lifecycle manager", set(side.lifecycle._tables.present), set(view))


def _lifecycle(side: KubernetesState, found: _Found) -> None:
    books = side.lifecycle._tables
    what = Truth.MISCOUNTED
    absent = {number: at for number, at in books.registered.items() if number not in books.present}
    found.same(what, "registered executors without a pod", books.absent, absent)
    subscriber = side.store.subscriber(stores.LIFECYCLE)
    if subscriber is None or subscriber.queue:
        return
    plain = [pod for pod in side.store.view.pods() if pod.manifest.labels.get(INACTIVE_LABEL) != "true"]
    ended = {pod.number for pod in plain if pod.state in (PodState.FAILED, PodState.SUCCEEDED)}
    found.same(what, "pods that ended", set(books.ended), ended)
    deleted = {pod.number for pod in plain if pod.state is PodState.DELETED}
    found.same(what, "pods that are deleted", set(books.deleted), deleted)


def _regrouped(books: IndexTables, found: _Found) -> None:
    """Every pod into its group again, as Spark does in every round."""
    what = Truth.MISCOUNTED
    groups: dict[ProfileId | None, list[Pod]] = {}
    claims: Counter[str] = Counter()
    for number, pod in books.pods.items():
        found.same(what, "number of a pod", number, pod.number)
        claims.update(pod.manifest.claims)
        if number not in books.deleted:
            groups.setdefault(fleets.profile_of(pod), []).append(pod)
    found.same(what, "profiles", set(map(str, books.buckets)), set(map(str, groups)))
    for profile, pods in groups.items():
        if profile in books.buckets:
            _regroup(profile, pods, books, books.buckets[profile], found)
    found.same(what, "claims in use", books.claims, dict(claims))
    made = dict(Counter(one.profile for one in books.created.values()))
    found.same(what, "created by profile", books.created_by, made)
    joined = dict(Counter(one.profile for one in books.joined.values()))
    found.same(what, "joined by profile", books.joined_by, joined)
    found.same(what, "deleted and unseen", books.unseen, {n for n in books.deleted if n not in books.pods})
    again = {number for number in (*books.created, *books.joined) if number in books.pods}
    found.same(what, "created anew", books.returning, again)
    found.same(what, "created and registered", books.met, {n for n in books.created if n in books.known})
    overrun = {n for n in books.deleted if n in books.pods and _runs_on(books.pods[n])}
    found.same(what, "deleted and running", books.overrun, overrun)


def _runs_on(pod: Pod) -> bool:
    return pod.state is PodState.RUNNING and pod.manifest.deleted_at is None


def _regroup(profile: ProfileId | None, pods: list[Pod], books: IndexTables, bucket: Bucket, found: _Found) -> None:
    what, whose = Truth.MISCOUNTED, f"of profile {profile}"
    waiting = [pod for pod in pods if pod.state is PodState.PENDING]
    unknown = {pod.number: _born(pod) for pod in waiting if pod.number not in books.known}
    found.same(what, f"pods {whose}", bucket.pods, len(pods))
    found.same(what, f"running {whose}", bucket.running, sum(pod.state is PodState.RUNNING for pod in pods))
    found.same(what, f"known and pending {whose}", bucket.known_pending, len(waiting) - len(unknown))
    found.same(what, f"pending {whose}", bucket.pending, unknown)
    found.unless(bucket.ripe <= set(unknown), what, of=f"old enough to go {whose}", kept=_short(bucket.ripe))
    reachable = bucket.ripe | {number for at, number in bucket.young if unknown.get(number) == at}
    found.same(what, f"young or old {whose}", reachable, set(unknown))


def _born(pod: Pod) -> Millis:
    text = pod.manifest.created_at
    at = parse_instant(text) if text is not None else None
    return -(2**63) if at is None else at
