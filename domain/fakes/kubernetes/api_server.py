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
from podtide.domain.fakes.kubernetes.controllers import COST_ANNOTATION, room
from podtide.domain.fakes.kubernetes.description import SPARK_AGENT, Fault, Lost, Verb
from podtide.domain.fakes.kubernetes.pod_endings import delete
from podtide.domain.fakes.kubernetes.pods import create, relabel, show, sync
from podtide.domain.fakes.kubernetes.rows import ApiCallRow, Call, ClaimRow, PodAgenda, PodRow, SetRow
from podtide.domain.fakes.kubernetes.tables import ClusterTables
from podtide.domain.fakes.kubernetes.watch import listed
from podtide.domain.jvm.instants import format_instant
from podtide.domain.protocol import pod_commands
from podtide.domain.protocol.pod_stimuli import CallFailure, Claim, Outcome, PodsReplaced
from podtide.domain.protocol.pods import EXECUTOR_LABEL, INACTIVE_LABEL
from podtide.domain.protocol.reasons import Cause, Why

_CALLS: Final = 3
_OWN_POLL: Final = -1
_RETRY_STEPS: Final = 5
_POD: Final = "pods"


def lane(command: Call) -> int:
    """Which of Spark's threads makes the call: those of one thread come one after the other."""
    match command:
        case pod_commands.DeletePods():
            return 3 if command.list_first else 1
        case (
            pod_commands.CreatePod()
            | pod_commands.CreateClaim()
            | pod_commands.ListClaims()
            | pod_commands.GetDriverPod()
        ):
            return 1
        case pod_commands.DeletePod() | pod_commands.MarkInactive():
            return 2
        case pod_commands.MarkPods() | pod_commands.AssignExecutorId():
            return 3
        case pod_commands.CreateSet() | pod_commands.ScaleSet() | pod_commands.DeleteSet():
            return 4
        case pod_commands.ListPods():
            return 5
        case pod_commands.CreateConfigMap() | pod_commands.DeleteOwned():
            return 6
        case pod_commands.ResizePod() | pod_commands.ResizeClaim():
            return 7


# the way of a call


def call(tables: ClusterTables, command: Call, now: Millis) -> None:
    """The client makes a call, or will as soon as the one before it is over."""
    number = tables.call_numbers.next()
    thread = lane(command)
    tables.calls.put(number, ApiCallRow(number, command, thread, tables.stream(_CALLS, number)))
    if tables.plan.description.api.serial:
        last = tables.lanes.get(thread, 0)
        tables.lanes.put(thread, number)
        if last:
            tables.calls.put(last, tables.calls[last]._replace(after=number))
            return
    start(tables, number, now)


def start(tables: ClusterTables, number: int, now: Millis) -> None:
    """A call leaves the client, for the first time or again."""
    row = tables.calls[number]
    latency, rng = draw(row.rng, tables.plan.description.api.latency)
    tables.calls.put(number, row._replace(rng=rng, began=now, answer_at=now + latency))
    tables.later(now + latency // 2, PodAgenda.CALL, number)


def reached(tables: ClusterTables, number: int, now: Millis) -> None:
    """A call is at the server: it is refused, lost or carried out."""
    row = tables.calls[number]
    command = row.command
    verb, resource = request(command)
    tables.count(f"calls.{verb.value} {resource}")
    fault, rng = _fault(tables, row.rng, verb, resource, now)
    outcome = Outcome(0, command.serial)
    if isinstance(command, pod_commands.MarkPods):
        # Patches one by one, each with a fault of its own.
        outcome, fault, rng = _mark(tables, command, row.rng, now)
    elif fault is None or fault.lost is Lost.ANSWER:
        outcome = _carry_out(tables, command, number, now)
    at = row.answer_at
    if fault is not None:
        outcome = Outcome(0, command.serial, failure_of(tables, fault, command, verb, resource))
        if fault.lost is not None:
            at = max(at, row.began + tables.plan.description.api.timeout_ms)
    tables.calls.put(number, row._replace(rng=rng, answer=outcome))
    tables.later(at, PodAgenda.ANSWER, number)


def _fault(tables: ClusterTables, rng: Stream, verb: Verb, resource: str, now: Millis) -> tuple[Fault | None, Stream]:
    """The first fault of the description that hits this call."""
    since = now - tables.began
    for fault in tables.plan.description.api.faults:
        if not fault.concerns(verb, resource, SPARK_AGENT):
            continue
        if not fault.during.active(since) or not tables.faulty(now):
            continue
        hit = True
        if fault.probability < 1.0:
            hit, rng = chance(rng, fault.probability)
        if hit:
            what = fault.status if fault.lost is None else f"lost {fault.lost.value}"
            tables.count(f"faults.{what}")
            return fault, rng
    return None, rng


def answered(tables: ClusterTables, number: int, now: Millis) -> None:
    """The client has its answer, or has waited long enough: it asks again or tells the driver."""
    row = tables.calls[number]
    assert row.answer is not None
    api = tables.plan.description.api
    failure = row.answer.failure
    if failure is not None and row.attempt < api.retries and _retryable(failure.status):
        wait = failure.retry_after_ms
        if wait is None:
            wait = api.backoff_ms << min(row.attempt, _RETRY_STEPS)
        tables.count("calls.repeated")
        tables.calls.put(number, row._replace(attempt=row.attempt + 1, answer=None))
        tables.later(now + wait, PodAgenda.RETRY, number)
        return
    tables.calls.drop(number)
    if failure is not None:
        tables.count(f"failures.{failure.status if failure.status is not None else 'no answer'}")
    if row.command.serial == _OWN_POLL:
        _polled(tables, row.answer, now)
    else:
        tables.stimuli.append(row.answer._replace(at=now))
    if row.after:
        start(tables, row.after, now)
    elif tables.lanes.get(row.lane) == number:
        tables.lanes.drop(row.lane)


def _retryable(status: int | None) -> bool:
    return status is None or status == 429 or status >= 500


# the cluster's own poll


def begin_poll(tables: ClusterTables, now: Millis) -> None:
    """The first poll is an interval after the start."""
    sources = tables.plan.sources
    if sources.poll and tables.plan.polls:
        tables.poll_timer = tables.later(now + sources.poll_interval_ms, PodAgenda.POLL)


def poll(tables: ClusterTables, now: Millis) -> None:
    """The cluster's own poll asks for a list."""
    version = "0" if tables.plan.sources.poll_with_version else None
    call(tables, pod_commands.ListPods(now, _OWN_POLL, Why(Cause.RESYNCHRONIZE), version), now)


def _polled(tables: ClusterTables, answer: Outcome, now: Millis) -> None:
    """Its list is there; the next poll comes an interval later. With versions, one older than the last is dropped."""
    if tables.poll_timer < 0:
        return
    sources = tables.plan.sources
    version = int(answer.version or 0)
    if answer.failure is None and (not sources.poll_with_version or version >= tables.polled_version):
        tables.polled_version = version
        tables.stimuli.append(PodsReplaced(now, answer.pods))
    tables.poll_timer = tables.later(now + sources.poll_interval_ms, PodAgenda.POLL)


def stop_poll(tables: ClusterTables) -> None:
    """The driver stops polling; a list under way is not looked at."""
    tables.cancel(tables.poll_timer)
    tables.poll_timer = -1


# what the server does


def _carry_out(tables: ClusterTables, command: Call, number: int, now: Millis) -> Outcome:
    serial = command.serial
    match command:
        case pod_commands.CreatePod():
            return _create_pod(tables, command, now)
        case pod_commands.CreateClaim():
            return _create_claim(tables, command, now)
        case pod_commands.ListClaims():
            rows = sorted(tables.claims.items())
            claims = tuple(Claim(c.name, c.storage_class, c.size, c.created_at) for _, c in rows)
            return Outcome(0, serial, claims=claims, found=len(claims))
        case pod_commands.DeletePods():
            return Outcome(0, serial, found=_delete_all(tables, _chosen(tables, command), now))
        case pod_commands.DeletePod():
            uid = tables.names.get(command.name)
            found = [tables.pods[uid]] if uid is not None else []
            if command.check:
                found = [pod for pod in found if not pod.deleting]
            return Outcome(0, serial, found=_delete_all(tables, found, now))
        case pod_commands.MarkInactive():
            uid = tables.names.get(command.name)
            if uid is None:
                return absent(tables, command, command.name)
            relabel(tables, tables.pods[uid], INACTIVE_LABEL, "true", now)
            return Outcome(0, serial, found=1)
        case pod_commands.AssignExecutorId():
            uid = tables.names.get(command.pod)
            if uid is None:
                return absent(tables, command, command.pod)
            relabel(tables, tables.pods[uid], EXECUTOR_LABEL, command.executor, now)
            return Outcome(0, serial, found=1)
        case pod_commands.CreateSet():
            return _create_set(tables, command, now)
        case pod_commands.ScaleSet() | pod_commands.DeleteSet():
            return _change_set(tables, command, now)
        case pod_commands.GetDriverPod():
            return (
                Outcome(0, serial, found=1)
                if tables.plan.description.driver.present
                else absent(tables, command, command.name)
            )
        case pod_commands.ListPods():
            pods, version = listed(tables, number, now)
            return Outcome(0, serial, found=len(pods), version=str(version), pods=pods)
        case pod_commands.CreateConfigMap():
            if tables.config_maps:
                return already_there(tables, command, "spark-exec-conf-map")
            tables.config_maps = 1
            return Outcome(0, serial)
        case pod_commands.DeleteOwned():
            return Outcome(0, serial, found=_delete_owned(tables, command))
        case pod_commands.ResizePod():
            uid = tables.names.get(command.pod)
            if uid is None:
                return absent(tables, command, command.pod)
            pod = tables.pods[uid]
            show(tables, pod, pod.manifest, now)
            return Outcome(0, serial, found=1)
        case pod_commands.ResizeClaim():
            claim = tables.claims.get(command.claim)
            if claim is None:
                return absent(tables, command, command.claim)
            tables.claims.put(claim.name, claim._replace(size=str(command.storage_bytes)))
            return Outcome(0, serial, found=1)
        case pod_commands.MarkPods():
            raise AssertionError("done pod by pod")


def _create_pod(tables: ClusterTables, command: pod_commands.CreatePod, now: Millis) -> Outcome:
    name = pod_name(tables, command.executor)
    if name in tables.names:
        return already_there(tables, command, name)
    if not room(tables):
        quota = tables.plan.description.api.quota_pods
        tables.count("quota.refused")
        message = (
            f'pods "{name}" is forbidden: exceeded quota: executors, requested: pods=1, '
            f"used: pods={tables.unfinished}, limited: pods={quota}"
        )
        return Outcome(0, command.serial, refusal(tables, 403, message, Verb.CREATE, _POD, name))
    create(tables, name, str(command.executor), command.profile, now, command.claims)
    return Outcome(0, command.serial, found=1)


def _create_claim(tables: ClusterTables, command: pod_commands.CreateClaim, now: Millis) -> Outcome:
    claim = command.claim
    if claim.name in tables.claims:
        return already_there(tables, command, claim.name)
    owner = 0
    if not command.owned_by_driver:
        owner = tables.names.get(pod_name(tables, command.executor), -1)
    tables.count("claims.created")
    if owner >= 0:  # a claim whose owner is gone is collected at once
        row = ClaimRow(claim.name, claim.storage_class, claim.size, format_instant(now), owner)
        tables.claims.put(claim.name, row)
    return Outcome(0, command.serial, found=1)


def _chosen(tables: ClusterTables, command: pod_commands.DeletePods) -> list[PodRow]:
    """The pods that a delete by labels selects, in the order of the labels."""
    if command.executors is None:
        pods = list(tables.pods.values())
    else:
        pods = [pod for executor in command.executors for pod in tables.labelled(str(executor))]
    return pods if command.phase is None else [p for p in pods if p.manifest.phase == command.phase]


def _delete_all(tables: ClusterTables, pods: Iterable[PodRow], now: Millis) -> int:
    found = 0
    for pod in pods:
        delete(tables, pod, now)
        found += 1
    return found


def _mark(
    tables: ClusterTables, command: pod_commands.MarkPods, rng: Stream, now: Millis
) -> tuple[Outcome, Fault | None, Stream]:
    """List pods, then patch one after the other; the first patch that fails ends it."""
    fault, rng = _fault(tables, rng, Verb.LIST, _POD, now)
    if fault is not None:
        return Outcome(0, command.serial), fault, rng
    pods = sorted((p for e in command.executors for p in tables.labelled(str(e))), key=lambda pod: pod.name)
    found = 0
    for pod in pods:
        fault, rng = _fault(tables, rng, Verb.PATCH, _POD, now)
        if fault is None or fault.lost is Lost.ANSWER:
            found += 1
            if command.kind == "label":
                relabel(tables, pod, command.key, command.value, now)
            else:
                cost = _integer(command.value) if command.key == COST_ANNOTATION else pod.cost
                show(tables, pod._replace(cost=cost), pod.manifest, now)
        if fault is not None:
            break
    return Outcome(0, command.serial, found=found), fault, rng


def _integer(text: str) -> int:
    try:
        return int(text[:20])
    except ValueError:
        return 0  # a cost that is none counts as 0


def _create_set(tables: ClusterTables, command: pod_commands.CreateSet, now: Millis) -> Outcome:
    if command.name in tables.set_names:
        return already_there(tables, command, command.name)
    number = tables.set_numbers.next()
    stateful = command.kind == "statefulset"
    row = SetRow(number, command.name, stateful, command.profile, max(0, command.replicas), command.claims)
    tables.sets.put(number, row)
    tables.set_names[command.name] = number
    sync(tables, number, now)
    return Outcome(0, command.serial, found=1)


def _change_set(tables: ClusterTables, command: pod_commands.ScaleSet | pod_commands.DeleteSet, now: Millis) -> Outcome:
    number = tables.set_names.get(command.name)
    if number is None or tables.sets[number].stateful != (command.kind == "statefulset"):
        return absent(tables, command, command.name)
    row = tables.sets[number]
    if isinstance(command, pod_commands.ScaleSet):
        tables.sets.put(number, row._replace(replicas=max(0, command.replicas)))
        sync(tables, number, now)
    else:
        # In the background: the set is gone at once, the garbage collector deletes its pods.
        tables.cancel(row.sync)
        tables.sets.drop(number)
        del tables.set_names[command.name]
        for uid in sorted(tables.owned.get(number, ())):
            delete(tables, tables.pods[uid], now)
    return Outcome(0, command.serial, found=1)


def _delete_owned(tables: ClusterTables, command: pod_commands.DeleteOwned) -> int:
    if command.kind == "configmaps":
        found = tables.config_maps
        tables.config_maps = 0
        return found
    if command.kind == "persistentvolumeclaims":
        names = list(tables.claims)
        for name in names:
            tables.claims.drop(name)
        return len(names)
    found = 1 - tables.service_deleted
    tables.service_deleted = True
    return found


def await_driver(tables: ClusterTables, command: pod_commands.AwaitDriverReady, now: Millis) -> None:
    """The client waits for the driver pod to be ready, at most as long as it was told."""
    driver = tables.plan.description.driver
    ready = tables.began + driver.ready_ms
    outcome = Outcome(max(now, ready), command.serial)
    if not driver.present or ready > now + command.timeout_ms:
        text = (
            f"Timed out waiting for [{command.timeout_ms}] milliseconds for [Pod] with name:[{command.name}] "
            f"in namespace [{tables.plan.app.namespace}]."
        )
        failure = CallFailure(None, text, "io.fabric8.kubernetes.client.KubernetesClientTimeoutException")
        outcome = Outcome(now + command.timeout_ms, command.serial, failure)
    tables.say(outcome)
