"""The API server as the driver's client meets it: calls take their time, are refused, get lost, and are done.

A call is under way to the server for half of its latency and back for the other half; it takes effect in between. What
Spark does on one thread comes one after the other (a lane): a batch of twenty pods takes twenty latencies. When a call
reaches the server the faults of the description are asked in their order, and the first that hits decides: a refusal
has no effect, a lost request has none either, a lost answer has one that nobody hears of until the client's timeout.
Then the server's own rules: names are unique (409), what is not there cannot be patched (404), and a pod needs room in the
quota (403 with Kubernetes' message). Failures carry the text of the exception that Spark's client throws.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podtide.domain.base.randomness import Stream, chance, draw
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.api_errors import absent, already_there, failure_of, pod_name, refusal, request
from podtide.domain.fakes.kubernetes.books import Books
from podtide.domain.fakes.kubernetes.controllers import COST_ANNOTATION, room
from podtide.domain.fakes.kubernetes.description import Fault, Lost, Verb
from podtide.domain.fakes.kubernetes.pod_endings import delete
from podtide.domain.fakes.kubernetes.pods import create, relabel, show, sync
from podtide.domain.fakes.kubernetes.rows import Call, CallRow, ClaimRow, Kind, PodRow, SetRow
from podtide.domain.fakes.kubernetes.watch import listed
from podtide.domain.jvm.instants import format_instant
from podtide.domain.protocol.pod_commands import (
    AssignExecutorId,
    AwaitDriverReady,
    CreateClaim,
    CreateConfigMap,
    CreatePod,
    CreateSet,
    DeleteOwned,
    DeletePod,
    DeletePods,
    DeleteSet,
    GetDriverPod,
    ListClaims,
    ListPods,
    MarkInactive,
    MarkPods,
    ResizeClaim,
    ResizePod,
    ScaleSet,
)
from podtide.domain.protocol.pod_stimuli import CallFailure, Claim, Outcome, PodsReplaced
from podtide.domain.protocol.pods import EXECUTOR_LABEL, INACTIVE_LABEL, PodManifest
from podtide.domain.protocol.reasons import Cause, Why

_CALLS: Final = 3
_OWN_POLL: Final = -1
_RETRY_STEPS: Final = 5
_POD: Final = "pods"


def lane(command: Call) -> int:
    """Which of Spark's threads makes the call: those of one thread come one after the other."""
    match command:
        case DeletePods():
            return 3 if command.list_first else 1
        case CreatePod() | CreateClaim() | ListClaims() | GetDriverPod():
            return 1
        case DeletePod() | MarkInactive():
            return 2
        case MarkPods() | AssignExecutorId():
            return 3
        case CreateSet() | ScaleSet() | DeleteSet():
            return 4
        case ListPods():
            return 5
        case CreateConfigMap() | DeleteOwned():
            return 6
        case ResizePod() | ResizeClaim():
            return 7


# the way of a call


def call(books: Books, command: Call, now: Millis) -> None:
    """The client makes a call, or will as soon as the one before it is over."""
    number = books.next("calls")
    thread = lane(command)
    books.calls.put(number, CallRow(number, command, thread, books.stream(_CALLS, number)))
    if books.plan.description.api.serial:
        last = books.lanes.rows.get(thread, 0)
        books.lanes.put(thread, number)
        if last:
            books.calls.put(last, books.calls.rows[last]._replace(after=number))
            return
    start(books, number, now)


def start(books: Books, number: int, now: Millis) -> None:
    """A call leaves the client, for the first time or again."""
    row = books.calls.rows[number]
    latency, rng = draw(row.rng, books.plan.description.api.latency)
    books.calls.put(number, row._replace(rng=rng, began=now, answer_at=now + latency))
    books.later(now + latency // 2, Kind.CALL, number)


def reached(books: Books, number: int, now: Millis) -> None:
    """A call is at the server: it is refused, lost or carried out."""
    row = books.calls.rows[number]
    command = row.command
    verb, resource = request(command)
    books.count(f"calls.{verb.value} {resource}")
    fault, rng = _fault(books, row.rng, verb, resource, now)
    outcome = Outcome(0, command.serial)
    if isinstance(command, MarkPods):
        # Patches one by one, each with a fault of its own.
        outcome, fault, rng = _mark(books, command, row.rng, now)
    elif fault is None or fault.lost is Lost.ANSWER:
        outcome = _carry_out(books, command, number, now)
    at = row.answer_at
    if fault is not None:
        outcome = Outcome(0, command.serial, failure_of(books, fault, command, verb, resource))
        if fault.lost is not None:
            at = max(at, row.began + books.plan.description.api.timeout_ms)
    books.calls.put(number, row._replace(rng=rng, answer=outcome))
    books.later(at, Kind.ANSWER, number)


def _fault(books: Books, rng: Stream, verb: Verb, resource: str, now: Millis) -> tuple[Fault | None, Stream]:
    """The first fault of the description that hits this call."""
    since = now - books.began
    for fault in books.plan.description.api.faults:
        if fault.verbs and verb not in fault.verbs:
            continue
        if fault.resources and resource not in fault.resources:
            continue
        if not fault.during.active(since) or not books.faulty(now):
            continue
        hit = True
        if fault.probability < 1.0:
            hit, rng = chance(rng, fault.probability)
        if hit:
            books.count(f"faults.{fault.status if fault.status is not None else f'lost {_lost(fault)}'}")
            return fault, rng
    return None, rng


def _lost(fault: Fault) -> str:
    return fault.lost.value if fault.lost is not None else ""


def answered(books: Books, number: int, now: Millis) -> None:
    """The client has its answer, or has waited long enough: it asks again or tells the driver."""
    row = books.calls.rows[number]
    assert row.answer is not None
    api = books.plan.description.api
    failure = row.answer.failure
    if failure is not None and row.attempt < api.retries and _retryable(failure.status):
        wait = failure.retry_after_ms
        if wait is None:
            wait = api.backoff_ms << min(row.attempt, _RETRY_STEPS)
        books.count("calls.repeated")
        books.calls.put(number, row._replace(attempt=row.attempt + 1, answer=None))
        books.later(now + wait, Kind.RETRY, number)
        return
    books.calls.drop(number)
    if failure is not None:
        books.count(f"failures.{failure.status if failure.status is not None else 'no answer'}")
    if row.command.serial == _OWN_POLL:
        _polled(books, row.answer, now)
    else:
        books.said.append(row.answer._replace(at=now))
    if row.after:
        start(books, row.after, now)
    elif books.lanes.rows.get(row.lane) == number:
        books.lanes.drop(row.lane)


def _retryable(status: int | None) -> bool:
    return status is None or status == 429 or status >= 500


# the world's own poll


def begin_poll(books: Books, now: Millis) -> None:
    """The first poll is an interval after the start."""
    sources = books.plan.sources
    if sources.poll and books.plan.polls:
        books.numbers.put("poll", books.later(now + sources.poll_interval_ms, Kind.POLL))


def poll(books: Books, now: Millis) -> None:
    """The world's own poll asks for a list."""
    version = "0" if books.plan.sources.poll_with_version else None
    call(books, ListPods(now, _OWN_POLL, Why(Cause.RESYNCHRONIZE), version), now)


def _polled(books: Books, answer: Outcome, now: Millis) -> None:
    """Its list is there; the next poll comes an interval later. With versions, one older than the last is dropped."""
    if books.number("poll") < 0:
        return
    sources = books.plan.sources
    version = int(answer.version or 0)
    if answer.failure is None and (not sources.poll_with_version or version >= books.number("poll.version")):
        books.numbers.put("poll.version", version)
        books.said.append(PodsReplaced(now, answer.pods))
    books.numbers.put("poll", books.later(now + sources.poll_interval_ms, Kind.POLL))


def stop_poll(books: Books) -> None:
    """The driver stops polling; a list under way is not looked at."""
    books.cancel(books.number("poll"))
    books.numbers.put("poll", -1)


# what the server does


def _carry_out(books: Books, command: Call, number: int, now: Millis) -> Outcome:
    serial = command.serial
    match command:
        case CreatePod():
            return _create_pod(books, command, now)
        case CreateClaim():
            return _create_claim(books, command, now)
        case ListClaims():
            rows = sorted(books.claims.rows.items())
            claims = tuple(Claim(c.name, c.storage_class, c.size, c.created_at) for _, c in rows)
            return Outcome(0, serial, claims=claims, found=len(claims))
        case DeletePods():
            return Outcome(0, serial, found=_delete_all(books, _chosen(books, command), now))
        case DeletePod():
            uid = books.names.get(command.name)
            found = [books.pods.rows[uid]] if uid is not None else []
            if command.check:
                found = [pod for pod in found if not pod.deleting]
            return Outcome(0, serial, found=_delete_all(books, found, now))
        case MarkInactive():
            uid = books.names.get(command.name)
            if uid is None:
                return absent(books, command, command.name)
            relabel(books, books.pods.rows[uid], INACTIVE_LABEL, "true", now)
            return Outcome(0, serial, found=1)
        case AssignExecutorId():
            uid = books.names.get(command.pod)
            if uid is None:
                return absent(books, command, command.pod)
            relabel(books, books.pods.rows[uid], EXECUTOR_LABEL, command.executor, now)
            return Outcome(0, serial, found=1)
        case CreateSet():
            return _create_set(books, command, now)
        case ScaleSet() | DeleteSet():
            return _change_set(books, command, now)
        case GetDriverPod():
            return (
                Outcome(0, serial, found=1)
                if books.plan.description.driver.present
                else absent(books, command, command.name)
            )
        case ListPods():
            pods, version = listed(books, number, now)
            return Outcome(0, serial, found=len(pods), version=str(version), pods=pods)
        case CreateConfigMap():
            if books.number("config maps"):
                return already_there(books, command, "spark-exec-conf-map")
            books.numbers.put("config maps", 1)
            return Outcome(0, serial)
        case DeleteOwned():
            return Outcome(0, serial, found=_delete_owned(books, command))
        case ResizePod():
            uid = books.names.get(command.pod)
            if uid is None:
                return absent(books, command, command.pod)
            pod = books.pods.rows[uid]
            show(books, pod, pod.manifest, now)
            return Outcome(0, serial, found=1)
        case ResizeClaim():
            claim = books.claims.rows.get(command.claim)
            if claim is None:
                return absent(books, command, command.claim)
            books.claims.put(claim.name, claim._replace(size=str(command.storage_bytes)))
            return Outcome(0, serial, found=1)
        case MarkPods():
            raise AssertionError("done pod by pod")


def _create_pod(books: Books, command: CreatePod, now: Millis) -> Outcome:
    name = pod_name(books, command.executor)
    if name in books.names:
        return already_there(books, command, name)
    if not room(books):
        quota = books.plan.description.api.quota_pods
        books.count("quota.refused")
        message = (
            f'pods "{name}" is forbidden: exceeded quota: executors, requested: pods=1, '
            f"used: pods={books.unfinished}, limited: pods={quota}"
        )
        return Outcome(0, command.serial, refusal(books, 403, message, Verb.CREATE, _POD, name))
    create(books, name, str(command.executor), command.profile, now, command.claims)
    return Outcome(0, command.serial, found=1)


def _create_claim(books: Books, command: CreateClaim, now: Millis) -> Outcome:
    claim = command.claim
    if claim.name in books.claims.rows:
        return already_there(books, command, claim.name)
    owner = 0
    if not command.owned_by_driver:
        owner = books.names.get(pod_name(books, command.executor), -1)
    books.count("claims.created")
    if owner >= 0:  # a claim whose owner is gone is collected at once
        row = ClaimRow(claim.name, claim.storage_class, claim.size, format_instant(now), owner)
        books.claims.put(claim.name, row)
    return Outcome(0, command.serial, found=1)


def _chosen(books: Books, command: DeletePods) -> list[PodRow]:
    """The pods that a delete by labels selects, in the order of the labels."""
    if command.executors is None:
        pods = list(books.pods.rows.values())
    else:
        pods = [pod for executor in command.executors for pod in books.labelled(str(executor))]
    return pods if command.phase is None else [p for p in pods if p.manifest.phase == command.phase]


def _delete_all(books: Books, pods: Iterable[PodRow], now: Millis) -> int:
    found = 0
    for pod in pods:
        delete(books, pod, now)
        found += 1
    return found


def _mark(books: Books, command: MarkPods, rng: Stream, now: Millis) -> tuple[Outcome, Fault | None, Stream]:
    """List pods, then patch one after the other; the first patch that fails ends it."""
    fault, rng = _fault(books, rng, Verb.LIST, _POD, now)
    if fault is not None:
        return Outcome(0, command.serial), fault, rng
    pods = sorted((p for e in command.executors for p in books.labelled(str(e))), key=_pod_name)
    found = 0
    for pod in pods:
        fault, rng = _fault(books, rng, Verb.PATCH, _POD, now)
        if fault is None or fault.lost is Lost.ANSWER:
            found += 1
            if command.kind == "label":
                relabel(books, pod, command.key, command.value, now)
            else:
                cost = _integer(command.value) if command.key == COST_ANNOTATION else pod.cost
                show(books, pod._replace(cost=cost), pod.manifest, now)
        if fault is not None:
            break
    return Outcome(0, command.serial, found=found), fault, rng


def _pod_name(pod: PodRow) -> str:
    return pod.name


def _integer(text: str) -> int:
    try:
        return int(text[:20])
    except ValueError:
        return 0  # a cost that is none counts as 0


def _create_set(books: Books, command: CreateSet, now: Millis) -> Outcome:
    if command.name in books.set_names:
        return already_there(books, command, command.name)
    number = books.next("set")
    stateful = command.kind == "statefulset"
    row = SetRow(number, command.name, stateful, command.profile, max(0, command.replicas), command.claims)
    books.sets.put(number, row)
    books.set_names[command.name] = number
    sync(books, number, now)
    return Outcome(0, command.serial, found=1)


def _change_set(books: Books, command: ScaleSet | DeleteSet, now: Millis) -> Outcome:
    number = books.set_names.get(command.name)
    if number is None or books.sets.rows[number].stateful != (command.kind == "statefulset"):
        return absent(books, command, command.name)
    row = books.sets.rows[number]
    if isinstance(command, ScaleSet):
        books.sets.put(number, row._replace(replicas=max(0, command.replicas)))
        sync(books, number, now)
    else:
        # In the background: the set is gone at once, the garbage collector deletes its pods.
        books.cancel(row.sync)
        books.sets.drop(number)
        del books.set_names[command.name]
        for uid in sorted(books.owned.get(number, ())):
            delete(books, books.pods.rows[uid], now)
    return Outcome(0, command.serial, found=1)


def _delete_owned(books: Books, command: DeleteOwned) -> int:
    if command.kind == "configmaps":
        found = books.number("config maps")
        books.numbers.put("config maps", 0)
        return found
    if command.kind == "persistentvolumeclaims":
        names = list(books.claims.rows)
        for name in names:
            books.claims.drop(name)
        return len(names)
    found = 1 - books.number("service deleted")
    books.numbers.put("service deleted", 1)
    return found


def await_driver(books: Books, command: AwaitDriverReady, now: Millis) -> None:
    """The client waits for the driver pod to be ready, at most as long as it was told."""
    driver = books.plan.description.driver
    ready = books.began + driver.ready_ms
    outcome = Outcome(max(now, ready), command.serial)
    if not driver.present or ready > now + command.timeout_ms:
        text = (
            f"Timed out waiting for [{command.timeout_ms}] milliseconds for [Pod] with name:[{command.name}] "
            f"in namespace [{books.plan.app.namespace}]."
        )
        failure = CallFailure(None, text, "io.fabric8.kubernetes.client.KubernetesClientTimeoutException")
        outcome = Outcome(now + command.timeout_ms, command.serial, failure)
    books.later(outcome.at, Kind.SAY, say=outcome)


def manifests(books: Books) -> tuple[PodManifest, ...]:
    """Every pod that the API holds, oldest first."""
    return tuple(pod.manifest for pod in books.pods.rows.values())
