"""Commands that create: an executor's pod, its claims, a profile's set, the config map.

The manifests are somebody else's (``Manifests``), and are made when a worker takes the command: a queue of thousands of
commands holds none. An object's name is read out of its manifest, so that what is asked about after a lost answer is what
was asked for.

A claim needs the uid of its owner: the executor's pod, whose uid came with the answer to its creation a moment ago, or the
driver pod, whose uid came when it was looked up. Uids of recent pods are kept; for others the pod is read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from podtide.adapters.kubernetes.api import MERGE_PATCH
from podtide.adapters.kubernetes.calls import (
    UNREADABLE,
    Caller,
    CreatedObject,
    Named,
    Ours,
    SeenSet,
    decoded,
    labelled,
    path_of,
)
from podtide.adapters.kubernetes.errors import ApiRequest, RefusalSort, RefusedCall, not_asked
from podtide.adapters.kubernetes.ratelimit import Backoff, Wait
from podtide.domain.executor_pod.facts import Owner
from podtide.domain.protocol.pod_commands import CreateClaim, CreateConfigMap, CreatePod, CreateSet
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.pods import PodNumber

_AWAY: Final = frozenset({RefusalSort.NO_ANSWER, RefusalSort.THROTTLED})
_AGAIN: Final = Backoff(1.0, 10.0)

UIDS_MAX: Final = 4_096
"""Pods whose uid is remembered: more than are created between a pod and its claims."""


class ManifestRefused(Exception):
    """No manifest can be made of the configuration; the message is for people and names the setting."""

    exception_class = "java.lang.IllegalArgumentException"


class Manifests(Protocol):
    """What is created, as the bytes of a request. Thread-safe. Raises ManifestRefused, CannotBuild."""

    def pod(self, command: CreatePod) -> bytes:
        """The pod of an executor, with the labels spark-app-selector and spark-exec-id."""
        ...

    def claim(self, command: CreateClaim, owner: Owner) -> bytes:
        """A volume claim that belongs to ``owner``."""
        ...

    def replica_set(self, command: CreateSet) -> bytes:
        """A StatefulSet or Deployment."""
        ...

    def config_map(self) -> bytes:
        """The executors' config map."""
        ...

    def pod_name(self, executor: PodNumber) -> str:
        """The name of an executor's pod."""
        ...


class Uids:
    """Uids by name, the most recent. Thread-safe."""

    def __init__(self, driver: str = "", most: int = UIDS_MAX) -> None:
        """``driver``: the driver pod's name, where it is known."""
        self._most = most
        self._lock = threading.Lock()
        self._uids: OrderedDict[str, str] = OrderedDict()
        self.driver = driver

    def keep(self, name: str, uid: str) -> None:
        """Remember a pod's."""
        if not uid:
            return
        with self._lock:
            self._uids[name] = uid
            self._uids.move_to_end(name)
            while len(self._uids) > self._most:
                self._uids.popitem(last=False)

    def keep_driver(self, name: str, uid: str) -> None:
        """Remember the driver pod."""
        self.driver = name
        self.keep(name, uid)

    def of(self, name: str) -> str:
        """A pod's uid; "" if it is not known."""
        with self._lock:
            return self._uids.get(name, "")

    def forget(self, name: str) -> None:
        """The pod is gone."""
        with self._lock:
            self._uids.pop(name, None)


@dataclass(frozen=True, slots=True)
class Creates:
    """Carries creations out, each to its Outcome. Thread-safe.

    ``ending``: waits so many seconds; True: nothing is created any more.
    """

    caller: Caller
    namespace: str
    app_id: str
    manifests: Manifests
    uids: Uids
    deadline_s: float
    ending: Wait

    def pod(self, command: CreatePod) -> Outcome:
        """An executor's pod. ``found``: 1."""
        executor = str(command.executor)
        body = self.manifests.pod(command)
        created = self._create("pods", body, labelled(self.app_id, executor), once=True)
        if isinstance(created, CreatedObject):
            self.uids.keep(self.manifests.pod_name(command.executor), created.uid)
        return _outcome(command.serial, created)

    def claim(self, command: CreateClaim) -> Outcome:
        """A pod's volume claim."""
        deadline = self.caller.deadline(self.deadline_s)
        owner = self._owner(command, deadline)
        if isinstance(owner, RefusedCall):
            return _outcome(command.serial, owner)
        same_app = labelled(self.app_id)

        def ours(found: bytes) -> str | None:
            owners = decoded(Named, found).metadata.owners or []
            if owners and owner.uid not in [one.uid for one in owners]:
                return f"it belongs to something else than {owner.name} (uid {owner.uid})"
            return same_app(found)

        body = self.manifests.claim(command, owner)
        return _outcome(command.serial, self._create("persistentvolumeclaims", body, ours))

    def replica_set(self, command: CreateSet) -> Outcome:
        """A profile's StatefulSet or Deployment; one that is there already is ours gets the replicas."""
        resource = f"{command.kind}s"
        body = self.manifests.replica_set(command)

        def ours(found: bytes) -> str | None:
            return None if decoded(SeenSet, found).of(self.app_id) else "it selects no pods of this application"

        created = self._create(resource, body, ours)
        if not isinstance(created, CreatedObject) or not created.found:
            return _outcome(command.serial, created)
        if decoded(SeenSet, created.body).spec.replicas == command.replicas:
            return _outcome(command.serial, created)
        # A patch without a version: whatever it is scaled to, this is what it shall be now.
        patch = msgspec.json.encode({"spec": {"replicas": command.replicas}})
        path = path_of(resource, self.namespace, command.name, "scale")
        scale = ApiRequest("patch", f"{resource}/scale", path, command.name, (), patch, MERGE_PATCH)
        answer = self.caller.ask(scale, self.caller.deadline(self.deadline_s))
        return _outcome(command.serial, answer if isinstance(answer, RefusedCall) else created)

    def config_map(self, command: CreateConfigMap) -> Outcome:
        """The executors' config map."""
        created = self._create("configmaps", self.manifests.config_map(), labelled(self.app_id))
        return _outcome(command.serial, created)

    def _create(self, resource: str, body: bytes, ours: Ours, *, once: bool = False) -> CreatedObject | RefusedCall:
        try:
            name = msgspec.json.decode(body, type=Named).metadata.name
        except UNREADABLE:
            name = ""
        request = ApiRequest("create", resource, path_of(resource, self.namespace), name, body=body)
        if not name:
            return not_asked(request, "the manifest has no name")
        attempts, doubt = 0, False
        while True:
            deadline = self.caller.deadline(self.deadline_s)
            created = self.caller.create(request, self.namespace, ours, deadline, once=once, doubt=doubt)
            # A server that is away, or a lease in doubt, says nothing about this creation. Answered with a failure it
            # would be counted as one of the executors' (spark.executor.maxNumFailures) and end the application.
            if isinstance(created, CreatedObject) or created.sort not in _AWAY:
                break
            attempts += 1
            doubt = doubt or created.uncertain
            if self.ending(_AGAIN.after(attempts, self.caller.jitter)):
                break
        if isinstance(created, CreatedObject):
            self.caller.counts.add(f"created {resource}")
        return created

    def _owner(self, command: CreateClaim, deadline: float) -> Owner | RefusedCall:
        """The driver pod or the executor's; a pod that is not there cannot own anything."""
        name = self.uids.driver if command.owned_by_driver else self.manifests.pod_name(command.executor)
        request = ApiRequest("get", "pods", path_of("pods", self.namespace, name), name)
        if not name:
            return not_asked(request, "the claim shall belong to the driver pod, and no driver pod is known")
        uid = self.uids.of(name)
        if not uid:
            answer = self.caller.ask(request, deadline)
            if isinstance(answer, RefusedCall):
                return answer
            uid = decoded(Named, answer.body).metadata.uid
            self.uids.keep(name, uid)
        return Owner("v1", "Pod", name, uid)


def _outcome(serial: int, created: CreatedObject | RefusedCall) -> Outcome:
    if isinstance(created, RefusedCall):
        return Outcome(0, serial, created.failure)
    return Outcome(0, serial, found=1)
