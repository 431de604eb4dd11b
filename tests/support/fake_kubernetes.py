"""An API server as a dictionary: an ``Api`` without HTTP that loses answers, refuses, throttles and holds calls on request.

It does what the adapters under test rely on: unique names, uids and versions that grow, label and field selectors, pages,
preconditions, merge patches, the scale subresource; pods on a node stay Terminating. And a clock that waiting moves.
"""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from podtide.adapters.kubernetes.api import JSON, ApiAnswer, Query, Stream, Unreachable
from podtide.adapters.notices import Notice, Topic
from podtide.domain.executor_pod.facts import Owner
from podtide.domain.protocol.pod_commands import CreateClaim, CreatePod, CreateSet
from podtide.domain.protocol.pod_stimuli import Outcome
from tests.support.clock import SecondsClock

APP = "spark-abc"
NAMESPACE = "ns"

_KINDS = {"deployments": "deployments.apps", "statefulsets": "statefulsets.apps"}


class ManualClock(SecondsClock):
    """Time that only waiting moves."""

    def __init__(self) -> None:
        super().__init__(1_000.0)
        self._lock = threading.Lock()

    def wait(self, seconds: float) -> bool:
        with self._lock:
            self.seconds += seconds
        return False


class Made(NamedTuple):
    """A call that was made."""

    verb: str
    resource: str
    name: str
    query: dict[str, str]
    body: Any
    content_type: str
    at: float


class Fault(NamedTuple):
    """What becomes of the next ``times`` calls that fit. ``lost``: "request", "answer" or "unsent"; else ``status``.

    ``hold``: the call reaches the server when it is set.
    """

    verb: str
    resource: str = "pods"
    times: int = 1
    status: int = 0
    message: str = ""
    reason: str = ""
    retry_after_ms: int | None = None
    lost: str = ""
    effect: bool = False
    hold: threading.Event | None = None
    name: str = ""


class FakeApi:
    """Objects by resource and name."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.made: list[Made] = []
        self.faults: list[Fault] = []
        self.before: Callable[[Made], None] = lambda _: None
        self.arrived = threading.Condition()
        self.under_way = 0
        self.most_under_way = 0
        self._lock = threading.RLock()
        self._uid = 0
        self._version = 0
        self._expired: set[str] = set()

    # what tests say and ask

    def put(self, resource: str, name: str, labels: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
        """An object that is there already."""
        made = {"metadata": {"name": name, "labels": dict(labels or {})}, **copy.deepcopy(more)}
        with self._lock:
            return self._store(resource, made)

    def names(self, resource: str = "pods") -> list[str]:
        with self._lock:
            return sorted(name for kind, name in self.objects if kind == resource)

    def calls(self, verb: str, resource: str = "pods") -> list[Made]:
        with self._lock:
            return [one for one in self.made if (one.verb, one.resource) == (verb, resource)]

    def wait_for(self, verb: str, count: int, resource: str = "pods") -> None:
        """Until so many calls have arrived, held ones too."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.calls(verb, resource)) >= count, 20), self.made

    # Api

    def call(
        self,
        verb: str,
        resource: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_s: float = 30.0,
        headers: Mapping[str, str] | None = None,
    ) -> ApiAnswer:
        assert timeout_s > 0
        assert not headers
        base = resource.partition("/")[0]
        name = path.partition(f"/{base}/")[2].partition("/")[0]
        decoded: Any = None if body is None else json.loads(body)
        if verb == "create":
            name = decoded["metadata"]["name"]
        seen = Made(verb, resource, name, dict(query), decoded, content_type, self.clock.seconds)
        with self._lock:
            fault = self._fault(seen)
        with self.arrived:
            self.made.append(seen)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            self.arrived.notify_all()
        try:
            self.before(seen)
            if fault is not None and fault.hold is not None:
                assert fault.hold.wait(20)
            return self._answer(seen, fault)
        finally:
            with self.arrived:
                self.under_way -= 1

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> Stream:
        raise NotImplementedError

    def _answer(self, seen: Made, fault: Fault | None) -> ApiAnswer:
        if fault is not None and fault.lost == "unsent":
            raise Unreachable("refused", sent=False)
        if fault is not None and fault.lost == "request":
            raise Unreachable("cut off")
        with self._lock:
            if fault is not None and fault.status and not fault.effect:
                return status(fault.status, fault.message, fault.reason, fault.retry_after_ms)
            answer = self._carry_out(seen)
        if fault is not None and fault.lost == "answer":
            raise Unreachable("did not answer in time")
        if fault is not None and fault.status:
            return status(fault.status, fault.message, fault.reason, fault.retry_after_ms)
        return answer

    def _fault(self, seen: Made) -> Fault | None:
        for index, fault in enumerate(self.faults):
            if (fault.verb, fault.resource) == (seen.verb, seen.resource) and fault.name in {"", seen.name}:
                if fault.times == 1:
                    del self.faults[index]
                else:
                    self.faults[index] = fault._replace(times=fault.times - 1)
                return fault
        return None

    # the server

    def _store(self, resource: str, made: dict[str, Any]) -> dict[str, Any]:
        self._uid += 1
        made["metadata"]["uid"] = f"uid-{self._uid}"
        self.objects[resource, made["metadata"]["name"]] = made
        if resource == "pods":
            made.setdefault("status", {"phase": "Pending"})
        return self._touch(made)

    def _touch(self, one: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        one["metadata"]["resourceVersion"] = str(self._version)
        return one

    def _carry_out(self, seen: Made) -> ApiAnswer:
        base, _, sub = seen.resource.partition("/")
        one = self.objects.get((base, seen.name))
        if seen.verb == "list":
            return self._list(base, seen.query)
        if seen.verb == "create":
            if one is not None:
                return status(409, f'{_KINDS.get(base, base)} "{seen.name}" already exists', "AlreadyExists")
            return ApiAnswer(201, json.dumps(self._store(base, seen.body)).encode())
        if one is None or sub == "resize":
            return status(404, f'{_KINDS.get(base, base)} "{seen.name}" not found', "NotFound")
        if seen.verb == "delete":
            return self._delete(base, one, seen.body or {})
        if sub == "scale":
            return self._scale(one, seen)
        if seen.verb == "patch":
            _merge(one, seen.body)
            self._touch(one)
        return ApiAnswer(200, json.dumps(one).encode())

    def _scale(self, one: dict[str, Any], seen: Made) -> ApiAnswer:
        if seen.verb != "get":
            version = seen.body.get("metadata", {}).get("resourceVersion")
            if version not in {None, one["metadata"]["resourceVersion"]}:
                return status(409, "the object has been modified", "Conflict")
            one["spec"]["replicas"] = seen.body["spec"]["replicas"]
            self._touch(one)
        scale = {"kind": "Scale", "metadata": one["metadata"], "spec": {"replicas": one["spec"]["replicas"]}}
        return ApiAnswer(200, json.dumps(scale).encode())

    def _delete(self, base: str, one: dict[str, Any], options: dict[str, Any]) -> ApiAnswer:
        meta = one["metadata"]
        for key, value in options.get("preconditions", {}).items():
            if meta[key] != value:
                return status(409, f"Precondition failed: {key}", "Conflict")
        if one.get("spec", {}).get("nodeName"):
            meta["deletionTimestamp"] = "2026-11-21T00:00:00Z"
            self._touch(one)
        else:
            del self.objects[base, meta["name"]]
        return ApiAnswer(200, json.dumps(one).encode())

    def _list(self, base: str, query: dict[str, str]) -> ApiAnswer:
        after = query.get("continue", "")
        rows = sorted((name, one) for (kind, name), one in self.objects.items() if kind == base and name > after)
        found = [one for _, one in rows if _selected(one, query)]
        limit = int(query.get("limit", "100000"))
        more = found[limit - 1]["metadata"]["name"] if len(found) > limit else ""
        page = {"kind": "List", "metadata": {"continue": more}, "items": found[:limit]}
        return ApiAnswer(200, json.dumps(page).encode())


def _selected(one: dict[str, Any], query: dict[str, str]) -> bool:
    labels = one["metadata"].get("labels") or {}
    for part in re.split(r",(?![^(]*\))", query.get("labelSelector", "")):
        key, within, values = part.partition(" in ")
        if within and labels.get(key) not in values.strip("()").split(","):
            return False
        key, equals, value = part.partition("=")
        if not within and equals and labels.get(key) != value:
            return False
    _, _, phase = query.get("fieldSelector", "").partition("status.phase=")
    return not phase or one["status"]["phase"] == phase


def _merge(into: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def status(code: int, message: str = "", reason: str = "", retry_after_ms: int | None = None) -> ApiAnswer:
    body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
    return ApiAnswer(code, json.dumps(body).encode(), retry_after_ms)


def labels_of(executor: object, app: str = APP) -> dict[str, str]:
    return {"spark-app-selector": app, "spark-role": "executor", "spark-exec-id": str(executor)}


class FakeManifests:
    """Small manifests with the labels that matter. ``made`` counts those of pods."""

    def __init__(self) -> None:
        self.made = 0

    def pod(self, command: CreatePod) -> bytes:
        self.made += 1
        metadata = {"name": self.pod_name(command.executor), "labels": labels_of(command.executor)}
        return json.dumps({"metadata": metadata, "spec": {}}).encode()

    def claim(self, command: CreateClaim, owner: Owner) -> bytes:
        metadata = {
            "name": command.claim.name,
            "labels": {"spark-app-selector": APP},
            "ownerReferences": [owner.reference()],
        }
        spec = {"storageClassName": command.claim.storage_class, "resources": {"requests": {"storage": "1Gi"}}}
        return json.dumps({"metadata": metadata, "spec": spec}).encode()

    def replica_set(self, command: CreateSet) -> bytes:
        selector = {"matchLabels": {"spark-app-selector": APP}}
        spec = {"replicas": command.replicas, "selector": selector}
        return json.dumps({"metadata": {"name": command.name}, "spec": spec}).encode()

    def config_map(self) -> bytes:
        return json.dumps({"metadata": {"name": "conf-map", "labels": labels_of("x")}}).encode()

    def pod_name(self, executor: int) -> str:
        return f"e-exec-{executor}"


class Heard:
    """Outcomes and notices, as they come."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.outcomes: list[Outcome] = []
        self.notices: list[Notice] = []

    def hear(self, outcome: Outcome) -> None:
        with self._changed:
            self.outcomes.append(outcome)
            self._changed.notify_all()

    def notify(self, notice: Notice) -> None:
        with self._changed:
            self.notices.append(notice)

    def wait_for(self, serial: int) -> Outcome:
        """The outcome with this serial."""

        def found() -> Outcome | None:
            return next((one for one in self.outcomes if one.serial == serial), None)

        with self._changed:
            assert self._changed.wait_for(found, 20), f"{serial} never came; {self.outcomes}"
            outcome = found()
        assert outcome is not None
        return outcome

    def serials(self) -> list[int]:
        with self._changed:
            return [one.serial for one in self.outcomes]

    def about(self, topic: Topic) -> Iterator[str]:
        return (one.text for one in self.notices if one.topic is topic)
