"""One call of ``allocation.allocate`` under way: the rounds of ExecutorPodsAllocator, rule by rule.

``Desk`` holds the allocator's state while it is worked on, hears inputs one by one and collects what is said. A round goes
through ``begin_round`` (what the snapshots show), ``survey`` (count every profile, retire its excess), ``serve_all`` and
``serve`` (split the slots, one batch per profile), ``ask`` (create pods) and ``close``; each of them may stop at a call and
is taken up again by the method that hears its answer. The numbers in comments are those of spec/allocation.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, assert_never

from pyrsistent import pmap

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION, SparkFault
from podtide.domain.jvm.values import decimal_text
from podtide.domain.kubernetes.allocator.executor_index import Census
from podtide.domain.kubernetes.allocator.executor_index_step import Draft, has_specless, squash
from podtide.domain.kubernetes.allocator.state import (
    AllocatorCommand,
    AllocatorInput,
    AllocatorState,
    ClaimWait,
    DeletionsChanged,
    ExcessWait,
    Flight,
    ListWait,
    PodWait,
    RecoveryNeeded,
    Round,
    Subscribed,
    UndoWait,
)
from podtide.domain.kubernetes.allocator.volume_claims import Wanted, reusable_claims, reuse, wanted_claims
from podtide.domain.protocol.allocation_policies import Consumer, Limits, Surplus
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.config import AllocationConfig
from podtide.domain.protocol.holds import HoldKey, settle
from podtide.domain.protocol.pod_commands import (
    AwaitDriverReady,
    ClaimSpec,
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
from podtide.domain.protocol.pod_stimuli import (
    UNKNOWN_OUTCOME,
    CallFailure,
    Claim,
    KnownExecutors,
    Outcome,
    Reconciled,
    Starting,
    Stopping,
    TargetsSet,
)
from podtide.domain.protocol.pods import PROFILE_LABEL, PodNumber, Snapshot
from podtide.domain.protocol.reasons import Bound, Cause, Fact, Remark, Threw, Why

MACHINE: Final = "ExecutorPodsAllocator"

NUMBER_FORMAT: Final = "java.lang.NumberFormatException"
NULL_POINTER: Final = "java.lang.NullPointerException"
NOT_FOUND: Final = 404


class Desk:
    """One call of ``allocate`` under way: the state being changed, and what is said."""

    def __init__(self, state: AllocatorState, config: AllocationConfig, now: Millis) -> None:
        self.config = config
        self.now = now
        self.fleet = Draft(state.fleet)
        self.state = state
        self.round = state.round
        self.commands: list[AllocatorCommand] = []
        self.reports: list[Report] = []
        self.targets = state.targets
        self.executors, self.claims, self.failures = state.executors, state.claims, state.failures
        self.outstanding, self.serial = state.outstanding, state.serial
        self.driver, self.starting = state.driver, state.starting
        self.recovery, self.recovery_warned = state.recovery, state.recovery_warned
        self.later = deque(state.later)
        self.holds, self.slowdown, self.stirred = state.holds, state.slowdown, state.stirred
        self.unread = state.unread

    def step(self) -> Step[AllocatorState, AllocatorCommand]:
        """What came of it all."""
        state = AllocatorState(
            self.fleet.done(), self.targets, self.executors, self.claims, self.failures, self.outstanding, self.serial,
            self.driver, self.starting, self.recovery, self.recovery_warned, self.round, tuple(self.later), self.holds,
            self.slowdown, self.stirred, self.unread,
        )  # fmt: skip
        return Step(state, tuple(self.commands), tuple(self.reports))

    def take(self, item: AllocatorInput) -> None:
        """Hear one input, and what waited for the end of the round if it ended that."""
        self._hear(item)
        while self.later and self.round is None:
            self._hear(self.later.popleft())

    def _hear(self, item: AllocatorInput) -> None:
        match item:
            case Outcome():
                self._answered(item)
            case TargetsSet():
                self._set_targets(item)
            case Deliver() | KnownExecutors() if self.round is not None:
                self.later.append(item)
            case Deliver():
                self._begin_round(item)
            case KnownExecutors():
                self._know(item)
            case RecoveryNeeded():
                if self.recovery is None:
                    self.recovery = True
                self._warn_of_recovery(self.now)
            case Reconciled():
                self._reconcile(item)
            case Starting():
                self._start(self.now)
            case Stopping():
                if self.round is not None:
                    self._cut_short()
                facts = pmap({"pods": len(self.fleet.tables.pods), "unseen": len(self.fleet.tables.created)})
                self._command(lambda serial: DeletePods(self.now, serial, None, None, Why(Cause.STOPPED, facts)))
            case _:
                assert_never(item)

    def _command(self, make: Callable[[int], AllocatorCommand]) -> int:
        self.serial += 1
        self.commands.append(make(self.serial))
        return self.serial

    def _remark(self, at: Millis, topic: str, **facts: Fact) -> None:
        if self.config.remarks:
            self.reports.append(Remark(at, MACHINE, topic, facts))

    # start (spec: allocation, sections 2 and 3)

    def _start(self, at: Millis) -> None:
        name = self.config.driver_pod
        if name is None:
            self._started(at)
            return
        self.starting = self._command(lambda serial: GetDriverPod(at, serial, name, Why(Cause.DRIVER_POD)))

    def _start_answered(self, outcome: Outcome) -> None:
        name = self.config.driver_pod or ""
        at = self.now
        self.starting = None
        if self.driver:  # that was the wait for its readiness; whatever came of it
            self._started(at)
            return
        failure = outcome.failure
        if failure is not None:
            missing = (
                f"No pod was found named {name} in the cluster in the namespace {self.config.namespace} (this was "
                "supposed to be the driver pod.)."
            )
            what = SparkFault(SPARK_EXCEPTION, missing) if failure.status == NOT_FOUND else _thrown(failure)
            self.reports.append(Threw(at, MACHINE, str(what), fatal=True))
            return
        self.driver = True
        self._warn_of_recovery(at)  # before the wait, which may take a while
        if self.config.wait_for_driver:
            wait = self.config.driver_readiness_timeout_ms
            why = Why(Cause.DRIVER_POD, pmap({"timeout_ms": wait}))
            self.starting = self._command(lambda serial: AwaitDriverReady(at, serial, name, wait, why))
        else:
            self._started(at)

    def _started(self, at: Millis) -> None:
        self._warn_of_recovery(at)
        self.commands.append(Subscribed(at, self.config.batch_delay_ms))

    def _warn_of_recovery(self, at: Millis) -> None:
        cpus = self.config.task_cpus
        if self.recovery and 0 < cpus * 2 <= 1 and not self.recovery_warned:
            self.recovery_warned = True
            self._remark(at, "recovery mode", task_cpus=decimal_text(cpus), slots=int(1 / cpus))

    # what changes between rounds

    def _set_targets(self, item: TargetsSet) -> None:
        targets = self.targets.evolver()
        for profile, target in item.targets:
            targets[profile] = target
        self.targets = targets.persistent()
        self.stirred = True
        if self.config.remarks:
            self._remark(self.now, "targets", **{str(profile): target for profile, target in self.targets.items()})
        if self.outstanding == 0:
            self.commands.append(NotifySubscribers(self.now))

    def _know(self, item: KnownExecutors) -> None:
        self.stirred = True
        added = [number for number, _ in item.added]
        self.fleet.know(added, item.removed)
        if added:
            self.slowdown = self.slowdown.over()
        if self.config.policies.forget_ghosts:
            for number in item.removed:
                if number in self.fleet.tables.joined:
                    self.fleet.forget_joined(number)

    def _reconcile(self, item: Reconciled) -> None:
        """Somebody else gave out executor ids, or did not make pods that this allocator asked for."""
        self.executors = item.last if item.exact else max(self.executors, item.last)
        for number in item.forgotten:
            if number in self.fleet.tables.created:
                self.fleet.forget_created(number)
            elif number in self.fleet.tables.joined:
                self.fleet.forget_joined(number)
        self.stirred = True

    # a round: what the snapshots show (4.1 to 4.6)

    def _begin_round(self, item: Deliver) -> None:
        at, config = self.now, self.config
        plan = tuple(sorted(self.targets.items()))
        self.stirred = False
        self.round = Round(at, plan, bool(item.snapshots), serial=self.serial)
        if item.snapshots and not self._show(item.snapshots):
            return
        self.fleet.join()
        self._time_out(at)
        if item.snapshots and config.policies.delete_excess_running and self.fleet.tables.overrun:
            self._delete_overrun(at)
        if len(plan) > 1 and None in self.fleet.tables.buckets:
            self._abort(_unreadable_profile(self.fleet))
            return
        self._survey()

    def _show(self, snapshots: tuple[Snapshot, ...]) -> bool:
        """Reflect what a delivery shows. Whether it could be read; if not, the round is over."""
        current = self._current()
        if self.unread is not None:  # Spark's snapshots are whole: the first new one has all that is in it
            snapshots = (squash((self.unread, snapshots[0])), *snapshots[1:])
        if has_specless(snapshots):
            self.fleet.acknowledge(snapshots)
            self.unread = squash(snapshots)
            self._abort(_NO_SPEC)
            return False
        self.unread = None
        batch = self.fleet.deliver(snapshots)
        self.round = replace(current, vanished=batch.vanished, forgotten=batch.forgotten)
        for _ in batch.failed:
            self._start_failed(current.at)
        return True

    def _time_out(self, at: Millis) -> None:
        """Give up waiting for pods that no snapshot has shown for too long (4.4)."""
        limit = self.config.create_timeout_ms
        late = self.fleet.overdue(at - limit)
        for number, _ in late:
            self.fleet.forget_created(number)
            self._start_failed(at)
        if self.config.remarks:
            for number, made in sorted(self.fleet.tables.created.items()):
                self._remark(at, "unseen", executor=number, age_ms=at - made.at)
        if not late:
            return
        numbers = tuple(number for number, _ in late)
        self._remark(at, "creation timeout", executors=",".join(map(str, numbers)), timeout_ms=limit)
        if self.config.delete_on_termination:
            facts = pmap({"executors": len(numbers), "timeout_ms": limit, "oldest_ms": at - late[0][1].at})
            why = Why(Cause.CREATION_TIMEOUT, facts)
            self._command(lambda serial: DeletePods(at, serial, numbers, None, why))

    def _delete_overrun(self, at: Millis) -> None:
        """Excess pods that turned Running before their delete arrived go too, but for those whose executors registered.

        That happens before the round that let them go is over and registrations are refused: such an executor may have
        work, and the scheduler that knows it counts on it, so it counts here again.
        """
        fleet = self.fleet
        kept = tuple(number for number in sorted(fleet.tables.overrun) if number in fleet.tables.known)
        for number in kept:
            fleet.reinstate(number)
        current = self._current()
        self.round = replace(current, forgotten=current.forgotten + kept)
        numbers = tuple(sorted(fleet.tables.overrun))
        if numbers:
            why = Why(Cause.ABOVE_TARGET, pmap({"executors": len(numbers), "running": len(numbers)}))
            self._command(lambda serial: DeletePods(at, serial, numbers, None, why))

    def _start_failed(self, at: Millis) -> None:
        policy = self.config.policies.back_off
        if policy is not None:
            self.slowdown = self.slowdown.failed(policy, at)

    # a round: the survey (4.7)

    def _survey(self) -> None:
        current = self._current()
        at = current.at
        while current.place < len(current.plan):
            profile, target = current.plan[current.place]
            census = self.fleet.census(profile, alone=len(current.plan) <= 1)
            if census.pods:
                self._remark(
                    at, "status", profile=profile, running=census.running, pending_unknown=census.pending,
                    pending_known=census.known_pending, created_unknown=census.created, created_known=census.joined,
                )  # fmt: skip
            if census.counted > target and self._retire(current, profile, target, census):
                return
            self._count(profile, target, census, 0, 0)
            current = self._current()
        self._serve_all()

    def _retire(self, current: Round, profile: ProfileId, target: int, census: Census) -> bool:
        """Delete pods beyond the target that are old enough. Whether there are any."""
        at, fleet = current.at, self.fleet
        excess = census.counted - target
        before = at - self.config.idle_timeout_ms

        def pending() -> Iterator[PodNumber]:
            yield from fleet.ripe_of(profile, before, alone=len(current.plan) <= 1)

        if self.config.remarks:
            for number in fleet.undated_of(profile, alone=len(current.plan) <= 1):
                self._remark(at, "no creation time", pod=fleet.tables.pods[number].manifest.name)
        most = min(excess, census.counted)  # a target may be negative
        retired = self.config.policies.retire(Surplus(profile, most, fleet.created_of(profile, before), pending()))
        numbers = tuple(sorted(retired.created + retired.pending))
        kept = excess - len(numbers)
        young = census.created + census.pending - len(numbers)
        known = census.joined + census.known_pending
        if young and kept > 0:
            self._hold(profile, Bound.IDLE_TIMEOUT, excess=kept, young=young)
        if known and kept > young:
            self._hold(profile, Bound.SCHEDULER_KNOWN, excess=min(kept - young, known), known=known)
        if not numbers:
            return False
        fresh = tuple(number for number in retired.created + retired.pending if fleet.retire(number))
        facts = pmap({
            "profile": profile, "target": target, "counted": census.counted, "excess": excess,
            "unseen": len(retired.created), "pending": len(retired.pending),
        })  # fmt: skip
        why = Why(Cause.ABOVE_TARGET, facts)
        serial = self._command(lambda serial: DeletePods(at, serial, numbers, "Pending", why))
        wait = ExcessWait(serial, profile, target, census, retired.created, retired.pending)
        self.round = replace(self._current(), wait=wait, retired=current.retired + fresh)
        return True

    def _excess_answered(self, wait: ExcessWait, outcome: Outcome) -> None:
        created = pending = 0
        if outcome.failure is None:
            for number in wait.created:
                if number in self.fleet.tables.created:
                    self.fleet.forget_created(number)
            created, pending = len(wait.created), len(wait.pending)
        self._count(wait.profile, wait.target, wait.census, created, pending)
        self._survey()

    def _count(self, profile: ProfileId, target: int, census: Census, created: int, pending: int) -> None:
        """Add a surveyed profile to the sums; ``created`` and ``pending`` of its pods were just deleted."""
        current = self._current()
        not_running = census.not_running - created - pending
        consumers = current.consumers
        missing = target - census.counted
        if current.fresh:
            if census.running >= target and not self.config.dynamic:
                self._remark(current.at, "enough running", profile=profile)
            elif census.created:
                self._remark(current.at, "still waiting", profile=profile, created=census.created)
        if missing > 0:
            if census.created:
                self._hold(profile, Bound.UNACKNOWLEDGED, missing=missing, unacknowledged=census.created)
            else:
                consumers = (*consumers, Consumer(profile, census.counted, target, not_running))
        self.round = replace(
            self._current(), place=current.place + 1, pending=current.pending + census.pending - pending,
            not_running=current.not_running + not_running, consumers=consumers, wait=None,
        )  # fmt: skip

    # a round: new pods (4.8, 4.9 and 6)

    def _serve_all(self) -> None:
        current, config = self._current(), self.config
        slots = config.pending_max - current.not_running
        consumers = current.consumers
        bound: Bound | None = None
        facts: dict[str, Fact] = {}
        if slots <= 0:
            bound, facts = Bound.PENDING_LIMIT, {"slots": slots, "not_running": current.not_running}
        elif not current.fresh and config.wait_for_claims and config.claims_max <= self.claims:
            bound, facts = Bound.CLAIM_WAIT, {"claims": self.claims, "claims_max": config.claims_max}
        elif self.slowdown.holds(current.at):
            bound, facts = Bound.BACK_OFF, self.slowdown.facts()
        if bound is not None or not consumers:
            for consumer in consumers:
                assert bound is not None
                self._hold(consumer.profile, bound, missing=consumer.missing, **facts)
            self._end()
            return
        shares = tuple(config.policies.split(consumers, slots))
        self.round = replace(current, shares=shares, probing=self.slowdown.until is not None)
        self._serve()

    def _serve(self) -> None:
        """Give the profiles that want pods their batches, one by one, up to a call that has to be waited for."""
        while self._begin_batch() and self._ask():
            pass

    def _begin_batch(self) -> bool:
        """Begin the batch of the next profile that wants pods. Whether there is one, and its pods can be asked for."""
        current, config = self._current(), self.config
        assert current.shares is not None
        back_off = config.policies.back_off
        if current.turn == len(current.consumers):
            self._end()
            return False
        consumer, share = current.consumers[current.turn], current.shares[current.turn]
        batch = config.policies.size(consumer, Limits(config.batch_size, share, config.pending_max_per_profile))
        pods, bound = batch
        if back_off is not None and self.slowdown.until is not None:
            room = back_off.probe if current.probing else 0
            if pods > room:
                pods, bound = room, Bound.BACK_OFF
        if pods < consumer.missing and bound is not None:
            self._hold(
                consumer.profile, bound, missing=consumer.missing, batch=pods, batch_size=config.batch_size, share=share,
                not_running=consumer.not_running,
            )  # fmt: skip
        self._remark(
            current.at, "going to request", count=pods, profile=consumer.profile, target=consumer.target,
            known=consumer.pods, shared_slots=share,
        )  # fmt: skip
        self.round = replace(self._current(), batch=pods, left=pods, reusable=())
        if config.own_claims and config.reuse_claims and self.driver:
            at = current.at
            why = Why(Cause.REUSABLE_CLAIMS, pmap({"profile": consumer.profile}))
            serial = self._command(lambda serial: ListClaims(at, serial, consumer.profile, why))
            self.round = replace(self._current(), wait=ListWait(serial))
            return False
        return True

    def _go_on(self) -> None:
        """Go on with the batch that waited for a call, and then with the others."""
        if self._ask():
            self._serve()

    def _listed(self, outcome: Outcome) -> None:
        current = self._current()
        if outcome.failure is not None:
            if outcome.failure.exception_class.endswith("KubernetesClientException"):
                self._remark(self.now, "claims not listed")
                self.round = replace(current, wait=None)
                self._go_on()
            else:
                self._abort(_thrown(outcome.failure))
            return
        in_use = self.fleet.tables.claims if current.fresh else {}
        found = reusable_claims(
            outcome.claims,
            lambda name: name in in_use or name in current.vanished,
            self.now,
            self.config.create_timeout_ms,
        )
        if isinstance(found, SparkFault):
            self._abort(found)
            return
        self._remark(self.now, "reusable claims", reusable=len(found), total=len(outcome.claims))
        self.round = replace(current, wait=None, reusable=found)
        self._go_on()

    def _ask(self) -> bool:
        """Create the pods of the batch, up to one that has to be waited for. Whether the batch is done."""
        config, current = self.config, self._current()
        at, consumer = current.at, current.consumers[current.turn]
        facts = pmap({
            "profile": consumer.profile, "target": consumer.target, "counted": consumer.pods, "missing": consumer.missing,
        })  # fmt: skip
        why = Why(Cause.BELOW_TARGET, facts)
        left, reusable, asked = current.left, list(current.reusable), current.asked
        flights = current.flights.evolver()
        wait: PodWait | None = None
        over: SparkFault | None = None
        while left > 0 and wait is None:
            if not reusable and config.wait_for_claims and config.claims_max <= self.claims:
                self._remark(at, "wait to reuse", claims=self.claims)
                self._wait_for_claims(consumer, current.batch - left)
                break
            if self.slowdown.until is not None and not current.probing:  # it began with the pods before this one
                missing = consumer.missing - current.batch + left
                self._hold(consumer.profile, Bound.BACK_OFF, missing=missing, **self.slowdown.facts())
                break
            number = PodNumber(self.executors + 1)
            self.executors = number
            if number >= config.pods_max:
                over = SparkFault(SPARK_EXCEPTION, f"Exceed the pod creation limit: {config.pods_max}")
                self._hold(consumer.profile, Bound.POD_LIMIT, missing=left, pods_max=config.pods_max)
                break
            wanted = self._claims(number, reusable, at) if config.claims else _NO_CLAIMS
            left -= 1
            asked += 1
            self.serial += 1
            single = bool(self.recovery)
            self.commands.append(
                CreatePod(at, self.serial, number, consumer.profile, why, wanted.mounted, wanted.reused, single)
            )
            if wanted.created:
                wait = PodWait(self.serial, number, wanted.created)
            else:
                flights[self.serial] = Flight(number, consumer.profile)
        self.round = replace(
            self._current(), left=left if wait is not None else 0, reusable=tuple(reusable), wait=wait,
            flights=flights.persistent(), asked=asked, turn=current.turn + (wait is None and over is None),
        )  # fmt: skip
        if over is not None:
            self._abort(over)
            return False
        return wait is None

    def _wait_for_claims(self, consumer: Consumer, asked: int) -> None:
        """The rest of a batch waits for claims to be left over; ``asked``: pods of it that could be asked for."""
        missing = consumer.missing - asked
        if not asked:  # nothing else mattered: the same is said as by a round without a snapshot
            held = self._current().held
            for bound in _BATCH_BOUNDS:
                held = held.discard((consumer.profile, bound))
            self.round = replace(self._current(), held=held)
        facts: dict[str, Fact] = {"claims": self.claims, "claims_max": self.config.claims_max}
        self._hold(consumer.profile, Bound.CLAIM_WAIT, missing=missing, **facts)

    def _claims(self, number: PodNumber, reusable: list[Claim], at: Millis) -> Wanted:
        wanted = wanted_claims(self.config.claims, self.config.pod_name_prefix, number)
        resolved = reuse(wanted, reusable)
        for claim in resolved.reused:
            self._remark(at, "reuse claim", claim=claim)
        return resolved

    def _pod_answered(self, wait: PodWait, outcome: Outcome) -> None:
        if outcome.failure is not None:
            self._not_created(wait.number, outcome.failure)
            self._go_on()
            return
        self._next_claim(wait.number, wait.claims)

    def _next_claim(self, number: PodNumber, claims: tuple[ClaimSpec, ...]) -> None:
        current = self._current()
        consumer = current.consumers[current.turn]
        if not claims:
            self._created(number, consumer.profile, self.now)
            self.round = replace(current, wait=None)
            self._go_on()
            return
        claim, *rest = claims
        facts = pmap({"executor": number, "claims": self.claims, "claims_max": self.config.claims_max})
        why = Why(Cause.CLAIM_FOR_POD, facts)
        owned = self.config.own_claims and self.driver
        serial = self._command(lambda serial: CreateClaim(self.now, serial, number, claim, owned, why))
        self.round = replace(current, wait=ClaimWait(serial, number, tuple(rest)))

    def _claim_answered(self, wait: ClaimWait, outcome: Outcome) -> None:
        if outcome.failure is None:
            self.claims += 1
            self._next_claim(wait.number, wait.claims)
            return
        self._creation_failed(wait.number, "claim failed")
        name = f"{self.config.pod_name_prefix}-exec-{wait.number}"
        why = Why(Cause.CLAIM_FAILED, pmap({"executor": wait.number, "status": outcome.failure.status}))
        serial = self._command(lambda serial: DeletePod(self.now, serial, wait.number, name, why))
        self.round = replace(self._current(), wait=UndoWait(serial, wait.number, outcome.failure))

    def _undo_answered(self, wait: UndoWait, outcome: Outcome) -> None:
        """The exception that ends the round is the claim's, or that of the delete if it failed too (quirk 103).

        A pod that is not there is deleted: Spark's client makes no exception of a 404 to a delete by name.
        """
        failure = outcome.failure
        self._abort(_thrown(wait.failure if failure is None or failure.status == NOT_FOUND else failure))

    def _created(self, number: PodNumber, profile: ProfileId, at: Millis) -> None:
        self.fleet.create(number, profile, at)
        self._remark(at, "requested", executor=number)

    def _not_created(self, number: PodNumber, failure: CallFailure) -> None:
        if failure.exception_class != UNKNOWN_OUTCOME:
            self._creation_failed(number, "create failed")

    def _creation_failed(self, number: PodNumber, topic: str) -> None:
        self.failures += 1
        self.commands.append(CountFailure(self.now, number))
        self._remark(self.now, topic, executor=number, failures=self.failures)
        self._start_failed(self.now)

    # answers, and the end of a round (4.10 and 9)

    def _answered(self, outcome: Outcome) -> None:
        if outcome.serial == self.starting:
            self._start_answered(outcome)
            return
        current = self.round
        if current is None:
            return  # of a call that nobody waits for
        flight = current.flights.get(outcome.serial)
        if flight is not None:
            self.round = replace(current, flights=current.flights.remove(outcome.serial))
            if outcome.failure is None:
                self._created(flight.number, flight.profile, self.now)
            else:
                self._not_created(flight.number, outcome.failure)
            if current.over:
                self._close()
            return
        wait = current.wait
        if wait is None or wait.serial != outcome.serial:
            return
        match wait:
            case ExcessWait():
                self._excess_answered(wait, outcome)
            case ListWait():
                self._listed(outcome)
            case PodWait():
                self._pod_answered(wait, outcome)
            case ClaimWait():
                self._claim_answered(wait, outcome)
            case UndoWait():
                self._undo_answered(wait, outcome)
            case _:
                assert_never(wait)

    def _hold(self, profile: ProfileId, bound: Bound, **facts: Fact) -> None:
        current = self._current()
        self.round = replace(current, held=current.held.set((profile, bound), pmap(facts)))

    def _abort(self, fault: SparkFault) -> None:
        """The round ends in an exception: what it had deleted counts again."""
        current = self._current()
        for number in current.retired:
            self.fleet.reinstate(number)
        for number in current.forgotten:
            self.fleet.retire(number)
        if current.shares is None:
            for profile, target in current.plan:
                self._hold(profile, Bound.ROUND_ABORTED, target=target, failures=self.failures)
        for consumer in current.consumers[current.turn :]:
            if (consumer.profile, Bound.POD_LIMIT) not in current.held:
                self._hold(consumer.profile, Bound.ROUND_ABORTED, missing=consumer.missing, failures=self.failures)
        fatal = fault.exception_class in (NUMBER_FORMAT, "java.lang.IllegalArgumentException")
        self.reports.append(Threw(current.at, MACHINE, str(fault), fatal))
        self.round = replace(self._current(), aborted=True, retired=(), forgotten=())
        self._end()

    def _end(self) -> None:
        """Nothing more is asked in this round; it is over when all creations came back."""
        current, back_off = self._current(), self.config.policies.back_off
        if back_off is not None and current.probing and current.asked:
            self.slowdown = self.slowdown.tried(back_off, current.at)
        self.round = replace(current, over=True, wait=None)
        self._close()

    def _cut_short(self) -> None:
        """Ask for nothing more in this round: the application stops, and all its pods are about to be deleted.

        In Spark the snapshot store's stop() comes before that: it waits for the round, and then interrupts it. A pod made
        after the delete would be left over.
        """
        current = self._current()
        self.round = replace(current, left=0, turn=len(current.consumers))
        self._end()

    def _close(self) -> None:
        current = self._current()
        if current.flights:
            return
        if not current.aborted:
            self.outstanding = current.pending + len(self.fleet.tables.created)
            self._tell_deletions(current.retired, current.forgotten)
        held: Mapping[HoldKey, Mapping[str, Fact]] = current.held
        self.holds, reports = settle(self.holds, held, current.at)
        self.reports.extend(reports)
        # The next one starts from what this one did, or left undone; and without a snapshot it may not wait for claims.
        acted = self.serial != current.serial or (current.fresh and self.config.wait_for_claims)
        self.stirred = self.stirred or current.aborted or acted
        self.round = None

    def _tell_deletions(self, retired: tuple[PodNumber, ...], forgotten: tuple[PodNumber, ...]) -> None:
        """Tell what changed for registrations; a pod that was forgotten and deleted anew did not."""
        if retired or forgotten:
            both = frozenset(retired).intersection(forgotten)
            added = tuple(number for number in retired if number not in both)
            gone = tuple(number for number in forgotten if number not in both)
            if added or gone:
                self.commands.append(DeletionsChanged(self.now, added, gone))

    def _current(self) -> Round:
        assert self.round is not None
        return self.round


_NO_CLAIMS: Final = Wanted((), (), ())
_BATCH_BOUNDS: Final = (Bound.BATCH_SIZE, Bound.PENDING_LIMIT, Bound.PENDING_LIMIT_PROFILE, Bound.BACK_OFF)
"""What may make a batch smaller than what is missing."""

_MODEL: Final = "io.fabric8.kubernetes.api.model"
_NO_SPEC: Final = SparkFault(
    NULL_POINTER,
    f'Cannot invoke "{_MODEL}.PodSpec.getVolumes()" because the return value of "{_MODEL}.Pod.getSpec()" is null',
)


def _thrown(failure: CallFailure) -> SparkFault:
    return SparkFault(failure.exception_class, failure.message)


def _unreadable_profile(fleet: Draft) -> SparkFault:
    """What StringOps.toInt throws for a resource profile label that is missing or no number."""
    pod = fleet.unreadable()
    label = None if pod is None else pod.manifest.labels.get(PROFILE_LABEL)
    text = "Cannot parse null string" if label is None else f'For input string: "{label}"'
    return SparkFault(NUMBER_FORMAT, text)
