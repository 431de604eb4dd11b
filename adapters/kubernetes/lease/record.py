"""A Lease as it stands on the server: read, changed and written back with everything that is not ours left as it was.

The whole object is kept as it came, so that a write changes what it means to change and nothing else (labels, owners and
annotations of others stay), and carries the version and the uid that were read. Whatever can be wrong with such an object
is an ``UnreadableLease`` that names the field and what was expected.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from podtide.adapters.kubernetes.lease.identity import Identity

IDS: Final = "podtide.io/executor-ids"
"""The annotation with the highest executor id that may have been used."""

FACTS: Final = "podtide.io/"
POD_NAME_PREFIX: Final = "pod-name-prefix"
"""The fact that says how this application's executor pods are named."""

APP_LABEL: Final = "spark-app-selector"
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "podtide")

ID_MAX: Final = 2**31 - 1
"""Spark counts executor ids as a Java int."""
DURATION_MAX_S: Final = 86_400
NAME_MAX: Final = 63
FACT_MAX: Final = 4_096
_FACT_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_NOT_DNS: Final = re.compile(r"[^a-z0-9]+")


class UnreadableLease(Exception):
    """The server's object cannot be used as a lease of this application; the text says which field and why."""


def lease_name(app_id: str) -> str:
    """The name of an application's lease: a DNS label of at most 63 characters, different for different applications.

    Ids that are DNS labels already, as Spark's own are, are kept readable; of others a hash keeps the difference.
    """
    clean = _NOT_DNS.sub("-", app_id.lower()).strip("-")
    room = NAME_MAX - len("podtide-")
    if not clean or clean != app_id or len(clean) > room:
        mark = hashlib.sha256(app_id.encode("utf-8", "surrogatepass")).hexdigest()[:10]
        clean = f"{clean[: room - 11].strip('-')}-{mark}".lstrip("-")
    return f"podtide-{clean}"


def check_fact(name: str, value: str) -> None:
    """Raise ValueError unless this can be remembered: a short name as annotations have them, and a short text."""
    if not _FACT_NAME.match(name) or FACTS + name == IDS:
        raise ValueError(f"{name!r} is no name for a fact: letters, digits, '.', '_' and '-' are expected, at most 63")
    if len(value.encode()) > FACT_MAX:
        raise ValueError(f"fact {name} is longer than {FACT_MAX} bytes")


class LeaseSettings(NamedTuple):
    """How long a lease lasts unrenewed, when it is renewed, how soon after a failure, and how early we stop trusting it.

    ``block``: executor ids that are reserved at once. ``margin_s``: how long before its end a lease no longer counts as
    ours; a call that is sent while it does should take no longer than that.
    """

    duration_s: int = 60
    renew_every_s: float = 40.0
    retry_s: float = 2.0
    margin_s: float = 10.0
    block: int = 1_000


class Acquired(NamedTuple):
    """The lease is ours. ``last_id``: ids up to this one may have been used. ``facts``: what was remembered."""

    facts: Mapping[str, str]
    last_id: int
    transitions: int
    taken_from: str | None
    """Who held it before us, and why it could be taken; None if it was free."""


class HeldBy(NamedTuple):
    """Somebody else holds it. ``spoken``: who, for people. ``since``: as they wrote it. ``free_in_s``: at the earliest.

    That is when it can be taken if they do not renew it until then.
    """

    spoken: str
    identity: Identity | None
    since: str | None
    free_in_s: float

    def __str__(self) -> str:
        since = f" since {self.since}" if self.since else ""
        return (
            f"another instance is in charge of this application: {self.spoken}{since}; "
            f"if it is gone, its lease can be taken over in {self.free_in_s:.0f} s"
        )


class LeaseRefused(NamedTuple):
    """It could not be had. ``status``: the server's answer, if there was one. ``why``: a sentence for people.

    ``hiccup``: it may be had in a moment; the server was busy or broken, or the connection broke.
    """

    why: str
    status: int | None = None
    hiccup: bool = False

    def __str__(self) -> str:
        return self.why


class LeaseRecord:
    """One Lease object. Never changed: what changes it makes another."""

    __slots__ = (
        "_object",
        "acquired",
        "app_id",
        "duration_s",
        "facts",
        "holder",
        "last_id",
        "renewed",
        "transitions",
        "uid",
        "version",
    )

    def __init__(self, whole: dict[str, Any], name: str, app_id: str) -> None:
        """Read what matters of an object. Raises UnreadableLease."""
        self._object = whole
        self.app_id = app_id
        metadata = _mapping(whole.get("metadata"), name, "metadata")
        spec = _mapping(whole.get("spec"), name, "spec")
        labels = _mapping(metadata.get("labels"), name, "metadata.labels")
        if labels.get(APP_LABEL, app_id) != app_id:
            raise UnreadableLease(f"lease {name} belongs to application {str(labels[APP_LABEL])[:80]}, not to {app_id}")
        annotations = _mapping(metadata.get("annotations"), name, "metadata.annotations")
        self.version: str = str(metadata.get("resourceVersion", ""))
        self.uid: str = str(metadata.get("uid", ""))
        self.holder: str = _text(spec.get("holderIdentity"), name, "spec.holderIdentity")
        self.renewed: str = _text(spec.get("renewTime"), name, "spec.renewTime")
        self.acquired: str = _text(spec.get("acquireTime"), name, "spec.acquireTime")
        self.duration_s: int = _number(
            spec.get("leaseDurationSeconds"), name, "spec.leaseDurationSeconds", DURATION_MAX_S
        )
        self.transitions: int = _number(spec.get("leaseTransitions"), name, "spec.leaseTransitions", ID_MAX)
        self.last_id: int = _mark(annotations.get(IDS, "0"), name)
        self.facts: Mapping[str, str] = {
            key.removeprefix(FACTS): value
            for key, value in annotations.items()
            if key.startswith(FACTS) and key != IDS and isinstance(value, str)
        }

    @classmethod
    def read(cls, body: bytes, name: str, app_id: str) -> LeaseRecord:
        """The record in an answer. Raises UnreadableLease."""
        try:
            whole = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise UnreadableLease(f"the answer about lease {name} is no JSON; is that an API server?") from None
        if not isinstance(whole, dict) or whole.get("kind") != "Lease":
            raise UnreadableLease(f"the answer about lease {name} is no Lease; is that an API server?")
        record = cls(whole, name, app_id)
        if not record.version or not record.uid:
            raise UnreadableLease(f"lease {name}: metadata.resourceVersion and metadata.uid are expected")
        return record

    @classmethod
    def fresh(cls, name: str, namespace: str, app_id: str) -> LeaseRecord:
        """One that is not on the server yet."""
        labels = {APP_LABEL: app_id, MANAGED_BY[0]: MANAGED_BY[1]}
        metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": {IDS: "0"}}
        whole = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
        return cls(whole, name, app_id)

    def body(self) -> bytes:
        """As it is sent."""
        return msgspec.json.encode(self._object)

    def precondition(self) -> bytes:
        """DeleteOptions that delete exactly this version of this object."""
        exactly = {"uid": self.uid, "resourceVersion": self.version}
        return msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": exactly})

    def held_by(self, holder: str, duration_s: int, now: str) -> LeaseRecord:
        """Taken by ``holder``; a change of hands is counted."""
        changed = 0 if self.holder == holder else 1
        started = {} if self.holder == holder and self.acquired else {"acquireTime": now}
        counted = self.transitions + (changed if self.version else 0)
        terms = {"leaseDurationSeconds": duration_s, "renewTime": now, "leaseTransitions": counted}
        return self._with({"holderIdentity": holder, **terms, **started})

    def renewed_at(self, now: str) -> LeaseRecord:
        """Renewed."""
        return self._with({"renewTime": now})

    def remembering(self, last_id: int, facts: Mapping[str, str]) -> LeaseRecord:
        """With the mark at ``last_id`` and ``facts`` among the facts."""
        return self._with({}, {IDS: str(last_id), **{FACTS + name: value for name, value in facts.items()}})

    def released(self, now: str, used_id: int | None) -> LeaseRecord:
        """Held by nobody. ``used_id``: ids beyond it were reserved and never used."""
        free = self._with({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now})
        return free if used_id is None else free.remembering(min(self.last_id, max(0, used_id)), {})

    def _with(self, spec: Mapping[str, object], annotations: Mapping[str, str] | None = None) -> LeaseRecord:
        whole = copy.deepcopy(self._object)
        whole["spec"] = {**(whole.get("spec") or {}), **spec}
        metadata = whole["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **(annotations or {})}
        metadata["labels"] = {**(metadata.get("labels") or {}), APP_LABEL: self.app_id, MANAGED_BY[0]: MANAGED_BY[1]}
        return LeaseRecord(whole, str(metadata.get("name")), self.app_id)


def worth_retrying(status: int | None) -> bool:
    """Whether the same call may fare better later: no answer, a conflict, a busy or a broken server."""
    return status is None or status in (409, 429) or status >= 500


def _mapping(value: object, name: str, field: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableLease(f"lease {name}: {field} is no object")
    return value


def _text(value: object, name: str, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnreadableLease(f"lease {name}: {field} is no text")
    return value


def _number(value: object, name: str, field: str, highest: int) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or value < 0:
        raise UnreadableLease(f"lease {name}: {field} is {str(value)[:40]}, a number from 0 is expected")
    return min(value, highest)


def _mark(value: object, name: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= ID_MAX:
        return int(value)
    raise UnreadableLease(
        f"lease {name}: annotation {IDS} is {str(value)[:40]!r}, the highest executor id that was used is expected "
        f"(0 to {ID_MAX})"
    )
