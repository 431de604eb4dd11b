"""A round's new pods (4.8, 4.9 and 6 of spec/allocation.md): the free slots are split, each profile gets one batch.

Pods are created one by one. Those that nothing depends on are given out together; at a list of claims, at a pod that brings
claims and at each claim the round stops, and is taken up again by the function that hears the answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyrsistent import pmap

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION, SparkFault
from podtide.domain.kubernetes.allocator import turn as ending
from podtide.domain.kubernetes.allocator.state import ClaimWait, Flight, ListWait, PodWait, UndoWait
from podtide.domain.kubernetes.allocator.turn import AllocatorTurn
from podtide.domain.kubernetes.allocator.volume_claims import PodClaims, reusable_claims, reuse, wanted_claims
from podtide.domain.machine.turn import thrown
from podtide.domain.protocol.allocation_policies import Consumer, Limits
from podtide.domain.protocol.pod_commands import ClaimSpec, CountFailure, CreateClaim, CreatePod, DeletePod, ListClaims
from podtide.domain.protocol.pod_stimuli import UNKNOWN_OUTCOME, CallFailure, Claim, Outcome
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause, Fact, Why

NOT_FOUND: Final = 404

_NO_CLAIMS: Final = PodClaims((), (), ())
_BATCH_BOUNDS: Final = (Bound.BATCH_SIZE, Bound.PENDING_LIMIT, Bound.PENDING_LIMIT_PROFILE, Bound.BACK_OFF)
"""What may make a batch smaller than what is missing."""


def serve_all(turn: AllocatorTurn) -> None:
    """Split the free slots, or say what holds every profile back."""
    current, config = turn.current(), turn.config
    slots = config.pending_max - current.not_running
    consumers = current.consumers
    bound: Bound | None = None
    facts: dict[str, Fact] = {}
    if slots <= 0:
        bound, facts = Bound.PENDING_LIMIT, {"slots": slots, "not_running": current.not_running}
    elif not current.fresh and config.wait_for_claims and config.claims_max <= turn.state.claims:
        bound, facts = Bound.CLAIM_WAIT, {"claims": turn.state.claims, "claims_max": config.claims_max}
    elif turn.state.slowdown.holds(current.at):
        bound, facts = Bound.BACK_OFF, turn.state.slowdown.facts()
    if bound is not None or not consumers:
        for consumer in consumers:
            assert bound is not None
            turn.hold(consumer.profile, bound, missing=consumer.missing, **facts)
        ending.end(turn)
        return
    shares = tuple(config.policies.split(consumers, slots))
    turn.state.round = replace(current, shares=shares, probing=turn.state.slowdown.until is not None)
    serve(turn)


def serve(turn: AllocatorTurn) -> None:
    """Give the profiles that want pods their batches, one by one, up to a call that has to be waited for."""
    while begin_batch(turn) and ask(turn):
        pass


def begin_batch(turn: AllocatorTurn) -> bool:
    """Begin the batch of the next profile that wants pods. Whether there is one, and its pods can be asked for."""
    current, config = turn.current(), turn.config
    assert current.shares is not None
    back_off = config.policies.back_off
    if current.turn == len(current.consumers):
        ending.end(turn)
        return False
    consumer, share = current.consumers[current.turn], current.shares[current.turn]
    batch = config.policies.size(consumer, Limits(config.batch_size, share, config.pending_max_per_profile))
    pods, bound = batch
    if back_off is not None and turn.state.slowdown.until is not None:
        room = back_off.probe if current.probing else 0
        if pods > room:
            pods, bound = room, Bound.BACK_OFF
    if pods < consumer.missing and bound is not None:
        turn.hold(
            consumer.profile, bound, missing=consumer.missing, batch=pods, batch_size=config.batch_size, share=share,
            not_running=consumer.not_running,
        )  # fmt: skip
    turn.note(
        current.at, "going to request", count=pods, profile=consumer.profile, target=consumer.target,
        known=consumer.pods, shared_slots=share,
    )  # fmt: skip
    turn.state.round = replace(turn.current(), batch=pods, left=pods, reusable=())
    if config.own_claims and config.reuse_claims and turn.state.driver:
        at = current.at
        why = Why(Cause.REUSABLE_CLAIMS, pmap({"profile": consumer.profile}))
        serial = turn.call(lambda serial: ListClaims(at, serial, consumer.profile, why))
        turn.state.round = replace(turn.current(), wait=ListWait(serial))
        return False
    return True


def go_on(turn: AllocatorTurn) -> None:
    """Go on with the batch that waited for a call, and then with the others."""
    if ask(turn):
        serve(turn)


def listed(turn: AllocatorTurn, outcome: Outcome) -> None:
    """The claims are listed."""
    current = turn.current()
    if outcome.failure is not None:
        if outcome.failure.exception_class.endswith("KubernetesClientException"):
            turn.note(turn.now, "claims not listed")
            turn.state.round = replace(current, wait=None)
            go_on(turn)
        else:
            ending.abort(turn, thrown(outcome.failure))
        return
    in_use = turn.fleet.tables.claims if current.fresh else {}
    found = reusable_claims(
        outcome.claims,
        lambda name: name in in_use or name in current.vanished,
        turn.now,
        turn.config.create_timeout_ms,
    )
    if isinstance(found, SparkFault):
        ending.abort(turn, found)
        return
    turn.note(turn.now, "reusable claims", reusable=len(found), total=len(outcome.claims))
    turn.state.round = replace(current, wait=None, reusable=found)
    go_on(turn)


def ask(turn: AllocatorTurn) -> bool:
    """Create the pods of the batch, up to one that has to be waited for. Whether the batch is done."""
    config, current = turn.config, turn.current()
    at, consumer = current.at, current.consumers[current.turn]
    facts = pmap({
        "profile": consumer.profile, "target": consumer.target, "counted": consumer.pods, "missing": consumer.missing,
    })  # fmt: skip
    why = Why(Cause.BELOW_TARGET, facts)
    left, reusable, count = current.left, list(current.reusable), current.requests
    flights = current.flights.evolver()
    wait: PodWait | None = None
    over: SparkFault | None = None
    while left > 0 and wait is None:
        if not reusable and config.wait_for_claims and config.claims_max <= turn.state.claims:
            turn.note(at, "wait to reuse", claims=turn.state.claims)
            wait_for_claims(turn, consumer, current.batch - left)
            break
        if turn.state.slowdown.until is not None and not current.probing:  # it began with the pods before this one
            missing = consumer.missing - current.batch + left
            turn.hold(consumer.profile, Bound.BACK_OFF, missing=missing, **turn.state.slowdown.facts())
            break
        number = PodNumber(turn.state.executors + 1)
        turn.state.executors = number
        if number >= config.pods_max:
            over = SparkFault(SPARK_EXCEPTION, f"Exceed the pod creation limit: {config.pods_max}")
            turn.hold(consumer.profile, Bound.POD_LIMIT, missing=left, pods_max=config.pods_max)
            break
        pod_claims = claims(turn, number, reusable, at) if config.claims else _NO_CLAIMS
        left -= 1
        count += 1
        turn.state.serial += 1
        single = bool(turn.state.recovery)
        turn.commands.append(
            CreatePod(
                at, turn.state.serial, number, consumer.profile, why, pod_claims.mounted, pod_claims.reused, single
            )
        )
        if pod_claims.created:
            wait = PodWait(turn.state.serial, number, pod_claims.created)
        else:
            flights[turn.state.serial] = Flight(number, consumer.profile)
    turn.state.round = replace(
        turn.current(), left=left if wait is not None else 0, reusable=tuple(reusable), wait=wait,
        flights=flights.persistent(), requests=count, turn=current.turn + (wait is None and over is None),
    )  # fmt: skip
    if over is not None:
        ending.abort(turn, over)
        return False
    return wait is None


def wait_for_claims(turn: AllocatorTurn, consumer: Consumer, count: int) -> None:
    """The rest of a batch waits for claims to be left over; ``count``: pods of it that could be asked for."""
    missing = consumer.missing - count
    if not count:  # nothing else mattered: the same is said as by a round without a snapshot
        held = turn.current().held
        for bound in _BATCH_BOUNDS:
            held = held.discard((consumer.profile, bound))
        turn.state.round = replace(turn.current(), held=held)
    facts: dict[str, Fact] = {"claims": turn.state.claims, "claims_max": turn.config.claims_max}
    turn.hold(consumer.profile, Bound.CLAIM_WAIT, missing=missing, **facts)


def claims(turn: AllocatorTurn, number: PodNumber, reusable: list[Claim], at: Millis) -> PodClaims:
    """The claims of a pod: reused ones, and others to create."""
    pod_claims = wanted_claims(turn.config.claims, turn.config.pod_name_prefix, number)
    resolved = reuse(pod_claims, reusable)
    for claim in resolved.reused:
        turn.note(at, "reuse claim", claim=claim)
    return resolved


def pod_answered(turn: AllocatorTurn, wait: PodWait, outcome: Outcome) -> None:
    """A pod that brings claims is created, or is not."""
    if outcome.failure is not None:
        not_created(turn, wait.number, outcome.failure)
        go_on(turn)
        return
    next_claim(turn, wait.number, wait.claims)


def next_claim(turn: AllocatorTurn, number: PodNumber, claims: tuple[ClaimSpec, ...]) -> None:
    """Create the next claim of a pod, or go on after the last."""
    current = turn.current()
    consumer = current.consumers[current.turn]
    if not claims:
        created(turn, number, consumer.profile, turn.now)
        turn.state.round = replace(current, wait=None)
        go_on(turn)
        return
    claim, *rest = claims
    facts = pmap({"executor": number, "claims": turn.state.claims, "claims_max": turn.config.claims_max})
    why = Why(Cause.CLAIM_FOR_POD, facts)
    owned = turn.config.own_claims and turn.state.driver
    serial = turn.call(lambda serial: CreateClaim(turn.now, serial, number, claim, owned, why))
    turn.state.round = replace(current, wait=ClaimWait(serial, number, tuple(rest)))


def claim_answered(turn: AllocatorTurn, wait: ClaimWait, outcome: Outcome) -> None:
    """A claim is created, or its pod is deleted."""
    if outcome.failure is None:
        turn.state.claims += 1
        next_claim(turn, wait.number, wait.claims)
        return
    creation_failed(turn, wait.number, "claim failed")
    name = f"{turn.config.pod_name_prefix}-exec-{wait.number}"
    why = Why(Cause.CLAIM_FAILED, pmap({"executor": wait.number, "status": outcome.failure.status}))
    serial = turn.call(lambda serial: DeletePod(turn.now, serial, wait.number, name, why))
    turn.state.round = replace(turn.current(), wait=UndoWait(serial, wait.number, outcome.failure))


def undo_answered(turn: AllocatorTurn, wait: UndoWait, outcome: Outcome) -> None:
    """The exception that ends the round is the claim's, or that of the delete if it failed too (quirk 103).

    A pod that is not there is deleted: Spark's client makes no exception of a 404 to a delete by name.
    """
    failure = outcome.failure
    ending.abort(turn, thrown(wait.failure if failure is None or failure.status == NOT_FOUND else failure))


def created(turn: AllocatorTurn, number: PodNumber, profile: ProfileId, at: Millis) -> None:
    """A pod was created."""
    turn.fleet.create(number, profile, at)
    turn.note(at, "requested", executor=number)


def not_created(turn: AllocatorTurn, number: PodNumber, failure: CallFailure) -> None:
    """A pod was not created."""
    if failure.exception_class != UNKNOWN_OUTCOME:
        creation_failed(turn, number, "create failed")


def creation_failed(turn: AllocatorTurn, number: PodNumber, topic: str) -> None:
    """A creation counts as a failure of an executor."""
    turn.state.failures += 1
    turn.commands.append(CountFailure(turn.now, number))
    turn.note(turn.now, topic, executor=number, failures=turn.state.failures)
    turn.start_failed(turn.now)
