"""What an API server's refusals mean, as values, and how they are told without telling them a thousand times.

A call that did not do what it was asked becomes a ``RefusedCall``: its status, the server's own reason, whether it may have
taken effect all the same (no answer came, or an answer that does not say), and the ``CallFailure`` that the core is given.
Two refusals share the status 403 and need different people: a permission that is missing (RBAC names verb and resource)
and a quota that is used up; ``RefusalSort`` tells them apart by the server's words.

``Complaints`` tells people: the first refusal of a sort at once, those that follow as a count, at most once in half a
minute. A server that cannot be reached is told once, and once more when it is back.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import JSON, ApiAnswer, Query, Unreachable
from podtide.adapters.kubernetes.status import ApiStatus, call_failure, message_of, no_answer, read_status
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.text.safe import escaped
from podtide.domain.protocol.pod_stimuli import CallFailure
from podtide.domain.protocol.reasons import Fact

MESSAGE_MAX: Final = 2_000
"""Characters of a server's message that are kept; an admission webhook may say anything."""

AGAIN_AFTER_S: Final = 30.0
"""The same refusal is told again after this, with how often it happened meanwhile."""

KINDS: Final = {
    "pods": "Pod",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "configmaps": "ConfigMap",
    "services": "Service",
    "statefulsets": "StatefulSet",
    "deployments": "Deployment",
    "leases": "Lease",
}


class RefusalSort(Enum):
    """What sort of refusal."""

    PERMISSION = "permission"
    QUOTA = "quota"
    FORBIDDEN = "forbidden"
    MISSING = "not found"
    EXISTS = "already exists"
    CONFLICT = "conflict"
    INVALID = "invalid"
    THROTTLED = "throttled"
    SERVER = "server error"
    NO_ANSWER = "no answer"
    REFUSED = "refused"
    NOT_ASKED = "not asked"


class ApiRequest(NamedTuple):
    """One call: see ``kubernetes.api.Api.call``. ``name``: what it is about, for people; "" for a whole kind."""

    verb: str
    resource: str
    path: str
    name: str = ""
    query: Query = ()
    body: bytes | None = None
    content_type: str = JSON

    @property
    def group(self) -> str:
        """The API group, "" for the core's."""
        return self.path.split("/", 3)[2] if self.path.startswith("/apis/") else ""

    @property
    def namespace(self) -> str:
        """The namespace in the path."""
        before, found, after = self.path.partition("/namespaces/")
        del before
        return after.split("/", 1)[0] if found else ""


class RefusedCall(NamedTuple):
    """A call that did not do what it was asked.

    ``message``: the server's; ``hint``: what to do about it, where that is known. ``uncertain``: it may have taken effect
    all the same.
    """

    sort: RefusalSort
    status: int | None
    message: str
    failure: CallFailure
    uncertain: bool = False
    hint: str = ""

    @property
    def text(self) -> str:
        """What people are told."""
        return self.hint or self.message


_BY_STATUS: Final = {
    403: RefusalSort.FORBIDDEN, 404: RefusalSort.MISSING, 409: RefusalSort.CONFLICT, 422: RefusalSort.INVALID,
    429: RefusalSort.THROTTLED, 503: RefusalSort.THROTTLED,
}  # fmt: skip


def refused(request: ApiRequest, answer: ApiAnswer) -> RefusedCall:
    """What a refusal says. ``answer.ok`` is False."""
    message, reason = _message_and_reason(answer)
    sort = _BY_STATUS.get(answer.status, RefusalSort.SERVER if answer.status >= 500 else RefusalSort.REFUSED)
    if sort is RefusalSort.FORBIDDEN:
        if "exceeded quota" in message:
            sort = RefusalSort.QUOTA
        elif " cannot " in message and ' resource "' in message:
            sort = RefusalSort.PERMISSION
    elif sort is RefusalSort.CONFLICT and reason == "AlreadyExists":
        sort = RefusalSort.EXISTS
    failure = call_failure(answer, request.verb, request.path, request.query)
    hint = ""
    if sort is RefusalSort.PERMISSION:
        hint = lacking(request)
        failure = failure._replace(message=f"{failure.message} It {hint}.")
    elif sort is RefusalSort.QUOTA:
        hint = f"the quota of namespace {request.namespace} is used up: {message}"
    return RefusedCall(sort, answer.status, message, failure, sort is RefusalSort.SERVER, hint)


def unanswered(request: ApiRequest, lost: Unreachable) -> RefusedCall:
    """A call without an answer, in the words of Spark's client, with the reason."""
    why = escaped(lost.why, MESSAGE_MAX)
    return RefusedCall(RefusalSort.NO_ANSWER, None, why, _failed(request, why), lost.sent)


def not_asked(request: ApiRequest, why: str) -> RefusedCall:
    """A call that was not made."""
    return RefusedCall(RefusalSort.NOT_ASKED, None, why, _failed(request, f"not asked: {why}"))


def lacking(request: ApiRequest) -> str:
    """Which permission a refused call lacks, in the terms that a Role is written in."""
    group = f', API group "{request.group}"' if request.group else ""
    place = f" in namespace {request.namespace}" if request.namespace else ""
    role = f"RBAC: verb {request.verb}, resource {request.resource}{group}"
    return f"may not {request.verb} {request.resource}{place} ({role})"


def _failed(request: ApiRequest, why: str) -> CallFailure:
    base = request.resource.split("/", 1)[0]
    return no_answer(why, request.verb, KINDS.get(base, base), request.name, request.namespace)


def _message_and_reason(answer: ApiAnswer) -> tuple[str, str]:
    """The message and the reason of a Status; the status in words where a proxy put something else in its place."""
    status = read_status(answer.body) if answer.body else None
    return escaped(message_of(answer), MESSAGE_MAX), status.reason if isinstance(status, ApiStatus) else ""


class Complaints:
    """Tells people what was refused, once a sort. Thread-safe."""

    def __init__(self, clock: Clock, notify: Notify) -> None:
        self._clock, self._notify = clock, notify
        self._lock = threading.Lock()
        self._last: dict[tuple[str, ...], tuple[float, int]] = {}
        self._down_since: float | None = None

    def refused(self, request: ApiRequest, what: RefusedCall) -> None:
        """A call was refused for good."""
        if what.sort is RefusalSort.NOT_ASKED:
            return
        text = what.hint or f"{_subject(request)}: {what.message}"
        if what.sort is RefusalSort.THROTTLED:
            text = f"given up after the deadline, {text}"
        facts: tuple[tuple[str, Fact], ...] = (
            ("refusal", what.sort.value),
            ("verb", request.verb),
            ("resource", request.resource),
            ("status", what.status),
        )
        key = ("refused", what.sort.value, request.verb, request.resource, str(what.status))
        self._say(key, Level.ERROR, Topic.CALL_REFUSED, text, facts)

    def retried(self, request: ApiRequest, what: RefusedCall) -> None:
        """A call failed and will be made again."""
        facts = (("verb", request.verb), ("resource", request.resource), ("status", what.status))
        key = ("retried", what.sort.value, request.verb, request.resource, str(what.status))
        text = f"{_subject(request)} is tried again: {what.message}"
        self._say(key, Level.INFO, Topic.CALL_RETRIED, text, facts)

    def _say(
        self, key: tuple[str, ...], level: Level, topic: Topic, text: str, facts: Sequence[tuple[str, Fact]]
    ) -> None:
        with self._lock:
            now = self._clock.monotonic()
            last = self._last.get(key)
            if last is not None and now - last[0] < AGAIN_AFTER_S:
                self._last[key] = (last[0], last[1] + 1)
                return
            since = 0 if last is None else last[1]
            self._last[key] = (now, 0)
        if since:
            text = f"{text} (and {since} like it since this was last said)"
        self._notify(Notice(self._clock.now(), level, topic, text, (*facts, ("count", since + 1))))

    def flush(self) -> None:
        """Say what was counted and not told yet."""
        with self._lock:
            left = [(key, count) for key, (_, count) in self._last.items() if count]
            for key, _ in left:
                self._last[key] = (self._clock.monotonic(), 0)
        for (what, sort, verb, resource, status), count in left:
            topic = Topic.CALL_REFUSED if what == "refused" else Topic.CALL_RETRIED
            text = f"{verb} {resource}: {count} more {what}, {sort} (status {status})"
            facts = (("refusal", sort), ("verb", verb), ("resource", resource), ("count", count))
            level = Level.WARNING if what == "refused" else Level.INFO
            self._notify(Notice(self._clock.now(), level, topic, text, facts))

    def lost(self, why: str) -> None:
        """No answer came."""
        with self._lock:
            if self._down_since is not None:
                return
            self._down_since = self._clock.monotonic()
        text = f"calls do not reach the API server: {escaped(why, MESSAGE_MAX)}"
        self._notify(Notice(self._clock.now(), Level.WARNING, Topic.API_UNREACHABLE, text))

    def answered(self) -> None:
        """An answer came, whatever it says."""
        if self._down_since is None:
            return
        with self._lock:
            since, self._down_since = self._down_since, None
        if since is None:
            return
        lasted = self._clock.monotonic() - since
        text = f"calls reach the API server again, after {lasted:.1f} s"
        self._notify(Notice(self._clock.now(), Level.INFO, Topic.API_BACK, text, (("lasted_ms", int(lasted * 1000)),)))


def _subject(request: ApiRequest) -> str:
    return f"{request.verb} {request.resource}" + (f" {escaped(request.name)}" if request.name else "")
