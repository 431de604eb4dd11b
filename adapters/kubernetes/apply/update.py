"""Commands that delete, ask and mark: what each becomes on a real API server, and what its Outcome carries.

Deletes by label go by lists and single deletes (``kubernetes.apply.delete``); ids are asked for 200 at a time. A pod that is
not there is deleted: a 404 is success for a delete by name, as for Spark's client. Marks are patches, one after the other;
the first that fails ends them (KubernetesClusterSchedulerBackend). A set is scaled through its scale subresource with the
resource version that was read, and read again when somebody else was faster.

Outside of the driver there is one way to reach an executor, which is its pod. To decommission executors their pods are
deleted with their own terminationGracePeriodSeconds, so that the kubelet runs the preStop hook first (/opt/decom.sh, there
if spark.decommission.enabled) and the executor migrates its blocks and leaves. It has as long as its grace period
(spark.kubernetes.executor.terminationGracePeriodSeconds, 30 s unless set): who migrates much has to set more. ``drain``
off: nothing is done, for a driver that decommissions them itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from podtide.adapters.kubernetes.api import JSON, MERGE_PATCH, STRATEGIC_PATCH, ApiAnswer, Query
from podtide.adapters.kubernetes.apply.create import Uids
from podtide.adapters.kubernetes.apply.delete import PASSING, Cleaner, Deleted, DeleteFate, Propagation
from podtide.adapters.kubernetes.calls import ABSENT, UNREADABLE, Caller, Named, SeenPod, decoded, path_of, selector
from podtide.adapters.kubernetes.errors import ApiRequest, RefusalSort, RefusedCall
from podtide.adapters.kubernetes.ratelimit import Backoff
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.text.format import some
from podtide.domain.protocol import executor_commands, pod_commands
from podtide.domain.protocol.pod_stimuli import CallFailure, Claim, Outcome
from podtide.domain.protocol.pods import EXECUTOR_LABEL, EXECUTOR_ROLE, INACTIVE_LABEL

IDS_MAX: Final = 200
"""Executor ids of one selector: its URL stays below 4 KB."""

POD_S: Final = 0.1
"""What one pod adds to the deadline of a command about many."""

READY_POLL_S: Final = 1.0
"""How often a driver pod is looked at that is not ready."""

CONFLICTS_MAX: Final = 10
"""Attempts at a change that somebody else's change gets in the way of."""

CLAIMS_MAX: Final = 100_000
"""Claims of an application that are listed; those beyond are not offered for reuse."""

TIMEOUT_EXCEPTION: Final = "io.fabric8.kubernetes.client.KubernetesClientTimeoutException"

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class _ClaimMeta(msgspec.Struct):
    name: str = ""
    created: str | None = msgspec.field(default=None, name="creationTimestamp")


class _Requests(msgspec.Struct):
    storage: str = ""


class _Resources(msgspec.Struct):
    requests: _Requests = msgspec.field(default_factory=_Requests)


class _ClaimSpec(msgspec.Struct):
    storage_class: str | None = msgspec.field(default=None, name="storageClassName")
    resources: _Resources = msgspec.field(default_factory=_Resources)


class SeenClaim(msgspec.Struct):
    """What is looked at of a volume claim."""

    metadata: _ClaimMeta = msgspec.field(default_factory=_ClaimMeta)
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)


@dataclass(frozen=True, slots=True)
class Changes:
    """Carries commands out that create nothing, each to its Outcome. Thread-safe.

    ``deadline_s``: for one command; ``sweep_s``: for the delete of all pods.
    """

    caller: Caller
    cleaner: Cleaner
    namespace: str
    app_id: str
    uids: Uids
    notify: Notify
    deadline_s: float
    sweep_s: float

    # deletes

    def delete_pods(self, command: pod_commands.DeletePods) -> Outcome:
        """Pods by label. ``found``: how many there were (of a delete of all: how many were deleted)."""
        if command.executors is None and command.phase is None:
            return self._sweep(command)
        found = 0
        for labels in self._selectors(command.executors):
            query: Query = labels
            if command.phase is not None:
                query = [*labels, ("fieldSelector", f"status.phase={command.phase}")]
            done = self._let_go(query, command.executors, exact=command.phase is not None)
            found += done.found
            if done.refused is not None:
                return Outcome(0, command.serial, done.refused.failure, found=found)
        return Outcome(0, command.serial, found=found)

    def _sweep(self, command: pod_commands.DeletePods) -> Outcome:
        """All executor pods, until a list shows none that is not terminating."""

        def progress(deleted: int) -> None:
            text = f"{deleted} executor pods deleted so far"
            self._say(Level.INFO, Topic.STOPPING, text, deleted=deleted)

        query = [("labelSelector", selector(self.app_id, role=EXECUTOR_ROLE))]
        deadline = self.caller.deadline(self.sweep_s)
        swept = self.cleaner.sweep("pods", query, SeenPod, deadline, progress=progress)
        if swept.left == 0 and swept.refused is None:
            text = f"{swept.deleted} executor pods deleted; none is left that is not terminating"
            self._say(Level.INFO, Topic.CLEANED_UP, text, deleted=swept.deleted, terminating=swept.terminating)
            return Outcome(0, command.serial, found=swept.deleted)
        names = some(swept.names, len(swept.names), swept.left)
        text = f"{swept.left} executor pods of {self.app_id} are left behind: {names}"
        self._say(Level.ERROR, Topic.LEFT_BEHIND, text, left=swept.left, deleted=swept.deleted)
        failure = swept.refused.failure if swept.refused is not None else CallFailure(None, text)
        return Outcome(0, command.serial, failure, found=swept.deleted)

    def delete_pod(self, command: pod_commands.DeletePod) -> Outcome:
        """One pod by name. ``found``: 1 if it was there to delete."""
        deadline = self.caller.deadline(self.deadline_s)
        uid = self.uids.of(command.name)
        if command.check:
            request = ApiRequest("get", "pods", path_of("pods", self.namespace, command.name), command.name)
            answer = self.caller.ask(request, deadline, quiet=ABSENT)
            if isinstance(answer, RefusedCall):
                return _settled(command.serial, answer)
            meta = decoded(Named, answer.body).metadata
            if meta.deletion is not None:
                return Outcome(0, command.serial)
            uid = meta.uid
        fate = self.cleaner.delete("pods", command.name, deadline, uid=uid)
        if isinstance(fate, RefusedCall):
            return _settled(command.serial, fate)
        self.uids.forget(command.name)
        # Another uid under this name: the pod that was meant is gone, the other is not ours to delete.
        return Outcome(0, command.serial, found=int(fate is DeleteFate.DELETED))

    def delete_set(self, command: pod_commands.DeleteSet) -> Outcome:
        """A StatefulSet or Deployment, in the background."""
        deadline = self.caller.deadline(self.deadline_s)
        fate = self.cleaner.delete(f"{command.kind}s", command.name, deadline, propagation=Propagation.BACKGROUND)
        if isinstance(fate, RefusedCall):
            return _settled(command.serial, fate)
        return Outcome(0, command.serial, found=int(fate is DeleteFate.DELETED))

    def delete_owned(self, command: pod_commands.DeleteOwned) -> Outcome:
        """All of a kind that carry the application's labels (config maps: the executors')."""
        role = EXECUTOR_ROLE if command.kind == "configmaps" else None
        query = [("labelSelector", selector(self.app_id, role=role))]
        done = self.cleaner.select(command.kind, query, self.caller.deadline(self.deadline_s))
        failure = None if done.refused is None else done.refused.failure
        return Outcome(0, command.serial, failure, found=done.found)

    def decommission(self, command: executor_commands.DecommissionExecutors) -> Outcome:
        """Delete the executors' pods with their own grace period. ``found``: how many there were."""
        found = 0
        for query in self._selectors(command.executors):
            done = self._let_go(query, command.executors, exact=False)
            found += done.found
            if done.refused is not None:
                return Outcome(0, 0, done.refused.failure)
        text = f"{found} executor pods of {len(command.executors)} drain: deleted with their own grace period"
        self._say(Level.INFO, Topic.STOPPING, text, found=found, asked=len(command.executors))
        return Outcome(0, 0, found=found)

    def _let_go(self, query: Query, executors: Sequence[object] | None, *, exact: bool) -> Deleted:
        """Delete executors' pods, however long the server is away or refuses: until it is done, or podtide ends.

        Whoever decided this has struck the executors off its books already and never asks again; a delete that is given
        up would leave them running, paid for and counted by nobody.
        """
        attempts = 0
        while True:
            done = self.cleaner.select("pods", query, self._deadline_for(executors), exact=exact)
            if done.refused is None or done.refused.sort not in _WORTH_WAITING:
                return done
            attempts += 1
            if self.caller.wait(_LET_GO.after(attempts, self.caller.jitter)):
                return done

    # marks

    def mark_inactive(self, command: pod_commands.MarkInactive) -> Outcome:
        """Label a pod that is finished and kept."""
        return self._label(command.serial, command.name, INACTIVE_LABEL, "true")

    def assign_id(self, command: pod_commands.AssignExecutorId) -> Outcome:
        """Label a pod with the executor that it became."""
        return self._label(command.serial, command.pod, EXECUTOR_LABEL, command.executor)

    def _label(self, serial: int, name: str, key: str, value: str) -> Outcome:
        patch = {"metadata": {"labels": {key: value}}}
        return self._patched(serial, "pods", name, patch, STRATEGIC_PATCH, quiet_missing=True)

    def mark_pods(self, command: pod_commands.MarkPods) -> Outcome:
        """List the executors' pods, then patch one after the other. ``found``: how many were patched."""
        deadline = self._deadline_for(command.executors)
        patch = {"metadata": {f"{command.kind}s": {command.key: command.value}}}
        found = 0
        for query in self._selectors(command.executors):
            for page in self.caller.pages("pods", self.namespace, query, SeenPod, deadline):
                if isinstance(page, RefusedCall):
                    return Outcome(0, command.serial, page.failure, found=found)
                for pod in page:
                    answer = self._patch("pods", pod.metadata.name, patch, STRATEGIC_PATCH, deadline, quiet=True)
                    if isinstance(answer, RefusedCall):
                        return Outcome(0, command.serial, answer.failure, found=found)
                    found += 1
        return Outcome(0, command.serial, found=found)

    def resize_pod(self, command: pod_commands.ResizePod) -> Outcome:
        """Set a container's memory request and limit. Servers before 1.33 have no such subresource: 404."""
        memory = {"memory": str(command.memory_bytes)}
        container = {"name": command.container, "resources": {"limits": memory, "requests": memory}}
        patch = {"spec": {"containers": [container]}}
        return self._patched(command.serial, "pods", command.pod, patch, STRATEGIC_PATCH, sub="resize")

    def resize_claim(self, command: pod_commands.ResizeClaim) -> Outcome:
        """Set a claim's storage request."""
        patch = {"spec": {"resources": {"requests": {"storage": str(command.storage_bytes)}}}}
        return self._patched(command.serial, "persistentvolumeclaims", command.claim, patch, MERGE_PATCH)

    def _patched(
        self,
        serial: int,
        resource: str,
        name: str,
        patch: dict[str, Any],
        content_type: str,
        *,
        sub: str = "",
        quiet_missing: bool = False,
    ) -> Outcome:
        deadline = self.caller.deadline(self.deadline_s)
        answer = self._patch(resource, name, patch, content_type, deadline, sub=sub, quiet=quiet_missing)
        if isinstance(answer, RefusedCall):
            return Outcome(0, serial, answer.failure)
        return Outcome(0, serial, found=1)

    def _patch(
        self,
        resource: str,
        name: str,
        patch: dict[str, Any],
        content_type: str,
        deadline: float,
        *,
        sub: str = "",
        quiet: bool = False,
    ) -> ApiAnswer | RefusedCall:
        """A patch sets values, whatever the version: where somebody else was faster it is sent again, on the fresh."""
        path = path_of(resource, self.namespace, name, sub)
        whole = f"{resource}/{sub}" if sub else resource
        request = ApiRequest("patch", whole, path, name, (), msgspec.json.encode(patch), content_type)
        attempts = 0
        while True:
            answer = self.caller.ask(request, deadline, quiet=_RACES if quiet else _CONFLICTS)
            if isinstance(answer, ApiAnswer):
                self.caller.counts.add("patched")
                return answer
            attempts += 1
            if answer.sort is not RefusalSort.CONFLICT:
                return answer
            if attempts > CONFLICTS_MAX or not self.caller.pause(attempts, deadline):
                self.caller.complaints.refused(request, answer)
                return answer

    # sets

    def scale_set(self, command: pod_commands.ScaleSet) -> Outcome:
        """GET and PUT the scale; again, on what is there now, where somebody else was faster."""
        deadline = self.caller.deadline(self.deadline_s)
        resource = f"{command.kind}s/scale"
        path = path_of(f"{command.kind}s", self.namespace, command.name, "scale")
        attempts = 0
        while True:
            answer = self.caller.ask(ApiRequest("get", resource, path, command.name), deadline)
            if isinstance(answer, RefusedCall):
                return Outcome(0, command.serial, answer.failure)
            body = _scaled(answer.body, command.replicas)
            if body is None:
                return Outcome(0, command.serial, found=1)  # it is what it shall be
            put = ApiRequest("update", resource, path, command.name, (), body, JSON)
            answer = self.caller.ask(put, deadline, quiet=_CONFLICTS)
            if isinstance(answer, ApiAnswer):
                self.caller.counts.add("scaled")
                return Outcome(0, command.serial, found=1)
            attempts += 1
            if answer.sort is not RefusalSort.CONFLICT:
                return Outcome(0, command.serial, answer.failure)
            if attempts > CONFLICTS_MAX or not self.caller.pause(attempts, deadline):
                self.caller.complaints.refused(put, answer)
                return Outcome(0, command.serial, answer.failure)

    # questions

    def get_driver(self, command: pod_commands.GetDriverPod) -> Outcome:
        """Look the driver pod up. ``found``: 1; a 404 is a failure."""
        request = ApiRequest("get", "pods", path_of("pods", self.namespace, command.name), command.name)
        answer = self.caller.ask(request, self.caller.deadline(self.deadline_s))
        if isinstance(answer, RefusedCall):
            return Outcome(0, command.serial, answer.failure)
        self.uids.keep_driver(command.name, decoded(Named, answer.body).metadata.uid)
        return Outcome(0, command.serial, found=1)

    def await_driver(self, command: pod_commands.AwaitDriverReady) -> Outcome:
        """Look at the driver pod until it is ready, at most as long as the command says."""
        deadline = self.caller.deadline(command.timeout_ms / 1000.0)
        request = ApiRequest("get", "pods", path_of("pods", self.namespace, command.name), command.name)
        while True:
            answer = self.caller.ask(request, deadline, tell=False)
            if isinstance(answer, RefusedCall) and answer.sort is RefusalSort.PERMISSION:
                self.caller.complaints.refused(request, answer)
                return Outcome(0, command.serial, answer.failure)
            if isinstance(answer, ApiAnswer):
                pod = decoded(SeenPod, answer.body)
                self.uids.keep_driver(command.name, pod.metadata.uid)
                if any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ()):
                    return Outcome(0, command.serial, found=1)
            left = deadline - self.caller.clock.monotonic()
            if left <= 0.0 or self.caller.wait(min(READY_POLL_S, left)):
                text = (
                    f"Timed out waiting for [{command.timeout_ms}] milliseconds for [Pod] with name:[{command.name}] "
                    f"in namespace [{self.namespace}]."
                )
                return Outcome(0, command.serial, CallFailure(None, text, TIMEOUT_EXCEPTION))

    def list_claims(self, command: pod_commands.ListClaims) -> Outcome:
        """The application's volume claims."""
        deadline = self.caller.deadline(self.deadline_s)
        query = [("labelSelector", selector(self.app_id))]
        claims: dict[str, Claim] = {}
        for page in self.caller.pages("persistentvolumeclaims", self.namespace, query, SeenClaim, deadline):
            if isinstance(page, RefusedCall):
                return Outcome(0, command.serial, page.failure)
            for one in page:
                meta, spec = one.metadata, one.spec
                claims[meta.name] = Claim(meta.name, spec.storage_class, spec.resources.requests.storage, meta.created)
            if len(claims) > CLAIMS_MAX:
                break
        return Outcome(0, command.serial, claims=tuple(claims.values()), found=len(claims))

    # shared

    def _deadline_for(self, executors: Sequence[object] | None) -> float:
        """The deadline of a command about so many pods, each of which is a call of its own."""
        return self.caller.deadline(self.deadline_s + POD_S * len(executors or ()))

    def _selectors(self, executors: Sequence[object] | None) -> Iterator[list[tuple[str, str]]]:
        """Label selectors for these executors, some at a time. Ids that no label can hold select nothing."""
        if executors is None:
            yield [("labelSelector", selector(self.app_id, role=EXECUTOR_ROLE))]
            return
        ids = [one for one in dict.fromkeys(map(str, executors)) if _LABEL_VALUE.fullmatch(one)]
        for first in range(0, len(ids), IDS_MAX):
            some = ids[first : first + IDS_MAX]
            yield [("labelSelector", selector(self.app_id, role=EXECUTOR_ROLE, executors=some))]

    def _say(self, level: Level, topic: Topic, text: str, **facts: int) -> None:
        self.notify(Notice(self.caller.clock.now(), level, topic, text, tuple(facts.items())))


_CONFLICTS: Final = frozenset({RefusalSort.CONFLICT})
_WORTH_WAITING: Final = PASSING
_LET_GO: Final = Backoff(1.0, 30.0)
_RACES: Final = frozenset({RefusalSort.CONFLICT, RefusalSort.MISSING})


def _scaled(body: bytes, replicas: int) -> bytes | None:
    """A Scale with other replicas, in the version that was read; None if it has them."""
    try:
        scale = msgspec.json.decode(body, type=dict[str, Any])
    except UNREADABLE:
        scale = {}
    spec = scale.get("spec")
    spec = dict(spec) if isinstance(spec, dict) else {}
    if spec.get("replicas", 0) == replicas and scale:
        return None
    return msgspec.json.encode({**scale, "spec": {**spec, "replicas": replicas}})


def _settled(serial: int, what: RefusedCall) -> Outcome:
    """What is not there is deleted."""
    if what.sort is RefusalSort.MISSING:
        return Outcome(0, serial)
    return Outcome(0, serial, what.failure)
