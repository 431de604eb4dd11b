"""One call to the API server, made properly: paced, repeated where that is safe, given up at a deadline.

What may be repeated. Reads, deletes by name or uid, patches that set something: any number of times, so an answer
that was lost or a server error is asked again, a bounded number of times, with a back-off. Anything that never reached
the server likewise. 429 and 503 are asked again until the deadline, at the pace of the lane. Every other 4xx is an answer.

Creations are not repeated blindly (``create``). The names of what podtide creates are decided before the call - an
executor's pod has one name, whatever happens - so a creation can be asked about: after a lost answer, a server error or a
409 the object is read by its name. It carries our labels: it was created, by us, and its uid is the answer. It is somebody
else's: a failure that says whose. It is not there: the creation is made again. Until one of these is known, or the deadline
has passed. So a lost answer never makes a second pod.

A 409 of a quota's bookkeeping ("object has been modified", of a resourcequota) is no answer about the object either, and
is tried again.

Nothing here raises: every call ends in a value.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiAnswer, ApiClient, Query, Unreachable
from podtide.adapters.kubernetes.errors import (
    ApiRequest,
    Complaints,
    RefusalSort,
    RefusedCall,
    not_asked,
    refused,
    unanswered,
)
from podtide.adapters.kubernetes.ratelimit import Backoff, CallTurn, Jitter, RateLimiter, Wait
from podtide.adapters.notices import Notify
from podtide.adapters.text.safe import escaped
from podtide.domain.protocol.pod_stimuli import UNKNOWN_OUTCOME, CallFailure
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_LABEL

CORE: Final = "/api/v1"
APPS: Final = "/apis/apps/v1"
LEASES: Final = "/apis/coordination.k8s.io/v1"
GROUPS: Final[Mapping[str, str]] = {"statefulsets": APPS, "deployments": APPS, "leases": LEASES}
"""Where a resource is served that is not of the core group."""

PAGE: Final = 500
"""Objects of one page of a list."""

RELISTS_MAX: Final = 5
"""How often a list is begun again whose continue token grew too old."""

Quiet = frozenset[RefusalSort]
NOTHING: Final[Quiet] = frozenset()
ABSENT: Final[Quiet] = frozenset({RefusalSort.MISSING})

ENDED: Final = frozenset({"Succeeded", "Failed"})
"""Phases of pods of which nothing runs any more."""

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding an answer raises that is not what it should be."""

T = TypeVar("T")


Ours: TypeAlias = Callable[[bytes], str | None]
"""None, or why an object, given as the API has it, is not ours."""


class CallSettings(NamedTuple):
    """``timeout_s``: for one answer. ``repeats_max``: after lost answers and server errors."""

    timeout_s: float = 10.0
    repeats_max: int = 5
    backoff: Backoff = Backoff(0.2, 5.0)


class Meta(msgspec.Struct):
    """What is looked at of any object's metadata."""

    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    deletion: str | None = msgspec.field(default=None, name="deletionTimestamp")
    owners: list[Owning] | None = msgspec.field(default=None, name="ownerReferences")


class Owning(msgspec.Struct):
    """An owner reference."""

    uid: str = ""


class Named(msgspec.Struct):
    """Any object."""

    metadata: Meta = msgspec.field(default_factory=Meta)


class _Selector(msgspec.Struct):
    labels: dict[str, str] | None = msgspec.field(default=None, name="matchLabels")


class _SetSpec(msgspec.Struct):
    selector: _Selector = msgspec.field(default_factory=_Selector)
    replicas: int | None = None


class SeenSet(msgspec.Struct):
    """What is looked at of a StatefulSet or Deployment. Spark labels neither; what they select says whose they are."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _SetSpec = msgspec.field(default_factory=_SetSpec)

    def of(self, app_id: str) -> bool:
        """Whether it is the application's."""
        return app_id in ((labels or {}).get(APP_LABEL) for labels in (self.metadata.labels, self.spec.selector.labels))


class Phased(msgspec.Struct):
    """The phase of a pod, and its conditions."""

    phase: str | None = None
    conditions: list[Condition] | None = None


class Condition(msgspec.Struct):
    """One condition of a pod."""

    type: str = ""
    status: str = ""


class SeenPod(msgspec.Struct):
    """What is looked at of a pod."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    status: Phased = msgspec.field(default_factory=Phased)


class Paging(msgspec.Struct):
    """A list's own metadata."""

    token: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct, Generic[T]):
    """One page of a list."""

    items: list[T] | None = None
    metadata: Paging = msgspec.field(default_factory=Paging)


class CreatedObject(NamedTuple):
    """An object that is there now. ``found``: it was there already, and is ours."""

    uid: str
    found: bool
    body: bytes


def path_of(resource: str, namespace: str, name: str = "", sub: str = "") -> str:
    """The path of a resource in a namespace."""
    path = f"{GROUPS.get(resource, CORE)}/namespaces/{namespace}/{resource}"
    if name:
        path += f"/{name}"
    return f"{path}/{sub}" if sub else path


class CallCounts:
    """What was done, counted; every field only grows. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def add(self, name: str, count: int = 1) -> None:
        """Count."""
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + count

    def seen(self) -> dict[str, int]:
        """All of them, by name."""
        with self._lock:
            return dict(self._counts)


@dataclass(frozen=True, slots=True)
class Caller:
    """Makes calls in a lane. Thread-safe as far as its parts are.

    ``wait`` lets the back-off of one call pass; ``jitter`` is a number from 0 to 1.
    """

    api: ApiClient
    lane: RateLimiter
    clock: Clock
    complaints: Complaints
    counts: CallCounts
    jitter: Jitter
    wait: Wait
    settings: CallSettings = CallSettings()  # noqa: RUF009 - a value

    def deadline(self, within_s: float) -> float:
        """The moment that is so many seconds away."""
        return self.clock.monotonic() + within_s

    def ask(
        self, request: ApiRequest, deadline: float, *, repeat: bool = True, quiet: Quiet = NOTHING, tell: bool = True
    ) -> ApiAnswer | RefusedCall:
        """Make a call until it is answered for good, at most until ``deadline``.

        ``repeat``: it may be made again although it may have taken effect. ``quiet``: refusals that are nobody's
        concern; ``tell`` False: none is.
        """
        attempts = 0
        last: RefusedCall | None = None
        while True:
            turn = self.lane.enter(deadline)
            if turn is None:
                return self._end(request, last or not_asked(request, "no turn before the deadline"), quiet, tell)
            answer = self._once(request, turn, deadline)
            if isinstance(answer, ApiAnswer):
                return answer
            last = answer
            if answer.sort is RefusalSort.THROTTLED:
                self.counts.add("throttled")
                continue
            attempts += 1
            if answer.uncertain:  # it may have taken effect
                again = repeat and attempts <= self.settings.repeats_max
            else:
                again = answer.sort is RefusalSort.NO_ANSWER  # it never got there: as long as there is time
            if not again or not self.pause(attempts, deadline):
                return self._end(request, answer, quiet, tell)
            self.counts.add("repeated")
            self.complaints.retried(request, answer)

    def pause(self, attempts: int, deadline: float) -> bool:
        """Let the back-off pass after so many attempts. False: that would be too late, or nobody waits any more."""
        back_off = self.settings.backoff.after(attempts, self.jitter)
        return self.clock.monotonic() + back_off < deadline and not self.wait(back_off)

    def _once(self, request: ApiRequest, turn: CallTurn, deadline: float) -> ApiAnswer | RefusedCall:
        self.counts.add("calls")
        # Neither longer than one answer may take, nor far beyond the deadline of the whole.
        timeout_s = max(1.0, min(self.settings.timeout_s, deadline - self.clock.monotonic()))
        try:
            answer = self.api.call(
                request.verb,
                request.resource,
                request.path,
                query=request.query,
                body=request.body,
                content_type=request.content_type,
                timeout_s=timeout_s,
            )
        except Unreachable as lost:
            self.complaints.lost(lost.why)
            self.counts.add("unanswered")
            return unanswered(request, lost)
        self.complaints.answered()
        if answer.ok:
            self.lane.eased(turn)
            return answer
        what = refused(request, answer)
        if what.sort is RefusalSort.THROTTLED:
            after = answer.retry_after_ms
            self.lane.throttled(turn, None if after is None else after / 1000.0)
        else:
            self.lane.eased(turn)
        return what

    def _end(self, request: ApiRequest, what: RefusedCall, quiet: Quiet, tell: bool) -> RefusedCall:
        if tell and what.sort not in quiet:
            self.counts.add("refused")
            self.complaints.refused(request, what)
        return what

    # creations

    def create(
        self,
        request: ApiRequest,
        namespace: str,
        ours: Ours,
        deadline: float,
        *,
        once: bool = False,
        doubt: bool = False,
    ) -> CreatedObject | RefusedCall:
        """Create an object by its name, once, whatever gets lost. ``ours``: whether an object of that name is.

        ``once``: an object that may have been created, and is not there, may have lived and gone; it is not made again
        (executors' pods: an id is used once). ``doubt``: it was asked for before, nobody knows with what result.
        """
        attempts = 0
        get = ApiRequest("get", request.resource, path_of(request.resource, namespace, request.name), request.name)
        while True:
            if once and doubt:
                return self._only_look(request, get, ours, deadline)
            # Whether this is the last word is known only after the look, so nothing is told before it.
            answer = self.ask(request, deadline, repeat=False, tell=False)
            if isinstance(answer, ApiAnswer):
                return CreatedObject(decoded(Named, answer.body).metadata.uid, found=False, body=answer.body)
            again = answer.sort is RefusalSort.CONFLICT
            if answer.uncertain or answer.sort is RefusalSort.EXISTS:
                there = self._look(get, answer, ours, deadline)
                if there is not None:
                    return there if isinstance(there, CreatedObject) else self._end(request, there, NOTHING, tell=True)
                again, doubt = True, answer.uncertain
            attempts += 1
            if not again or not self.pause(attempts, deadline):
                return self._end(request, answer, NOTHING, tell=True)
            self.counts.add("repeated")
            self.complaints.retried(request, answer)

    def _only_look(
        self, request: ApiRequest, get: ApiRequest, ours: Ours, deadline: float
    ) -> CreatedObject | RefusedCall:
        """Whether what was asked for before is there. A call that is still on its way is given a moment."""
        why = (
            f"{request.name} was asked for before; it is not there now, and may have been: it is not made a second time"
        )
        unknown = RefusedCall(RefusalSort.REFUSED, None, why, CallFailure(None, why, UNKNOWN_OUTCOME), uncertain=True)
        for attempt in (1, 2, 3):
            there = self._look(get, unknown, ours, deadline)
            if isinstance(there, CreatedObject):
                return there
            if there is not None:
                return self._end(request, there, NOTHING, tell=True)
            if not self.pause(attempt, deadline):
                break
        return self._end(request, unknown, NOTHING, tell=True)

    def _look(
        self, get: ApiRequest, answer: RefusedCall, ours: Ours, deadline: float
    ) -> CreatedObject | RefusedCall | None:
        """Whether what a creation was about is there; None: it is not."""
        there = self.ask(get, deadline, tell=False)
        if isinstance(there, RefusedCall):
            if there.sort is RefusalSort.MISSING:
                return None
            if there.sort is RefusalSort.PERMISSION:
                self.complaints.refused(get, there)
            what = f"{answer.failure.message} Whether it was created is not known: {there.message}"
            sort = there.sort if answer.status is None else answer.sort
            return answer._replace(sort=sort, failure=answer.failure._replace(message=what))
        not_ours = ours(there.body)
        if not_ours is None:
            self.counts.add("found created")
            return CreatedObject(decoded(Named, there.body).metadata.uid, found=True, body=there.body)
        what = f"{answer.failure.message} The name is taken: {not_ours}"
        failure = answer.failure._replace(status=409, message=what)
        return answer._replace(status=409, sort=RefusalSort.EXISTS, message=not_ours, failure=failure)

    # lists

    def pages(
        self, resource: str, namespace: str, selectors: Query, kind: type[T], deadline: float, *, limit: int = PAGE
    ) -> Iterator[list[T] | RefusedCall]:
        """The objects of a list, page by page; a refusal ends it. Begins again if it takes so long that it grows too old.

        Objects may then come twice.
        """
        token, relists = "", 0
        decoder = msgspec.json.Decoder(ListPage[kind])  # type: ignore[valid-type]
        while True:
            query = [*selectors, ("limit", str(limit)), *((("continue", token),) if token else ())]
            request = ApiRequest("list", resource, path_of(resource, namespace), "", query)
            answer = self.ask(request, deadline, tell=False)
            if isinstance(answer, RefusedCall):
                if answer.status == 410 and token and relists < RELISTS_MAX:
                    token, relists = "", relists + 1
                    continue
                yield self._end(request, answer, NOTHING, tell=True)
                return
            try:
                page = decoder.decode(answer.body)
            except UNREADABLE as wrong:
                yield self._end(request, _nonsense(request, wrong), NOTHING, tell=True)
                return
            yield page.items or []
            token = page.metadata.token
            if not token:
                return


def lone_caller(
    api: ApiClient, calls: str, clock: Clock, notify: Notify, ending: threading.Event | None = None
) -> Caller:
    """A caller with a lane of its own. ``calls``: what they are called, for people. Nothing is repeated after ``ending``."""
    chance, wait = random.Random().random, (ending or threading.Event()).wait  # noqa: S311 - jitter of back-offs
    lane = RateLimiter(calls, clock, notify, jitter=chance, wait=wait)
    return Caller(api, lane, clock, Complaints(clock, notify), CallCounts(), jitter=chance, wait=wait)


def _nonsense(request: ApiRequest, wrong: Exception) -> RefusedCall:
    why = f"the answer is no list of {request.resource}: {escaped(str(wrong))}"
    return RefusedCall(RefusalSort.REFUSED, None, why, CallFailure(None, why))


def decoded(kind: type[T], body: bytes) -> T:
    """An object, or an empty one where the body is something else: what is missing then counts as not ours."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE:
        return kind()


def labelled(app_id: str, executor: str | None = None) -> Ours:
    """Whether an object carries our labels; else whose it is."""

    def ours(body: bytes) -> str | None:
        labels = decoded(Named, body).metadata.labels or {}
        app = labels.get(APP_LABEL)
        if app is None:
            return f"an object without the label {APP_LABEL} has it"
        if app != app_id:
            return f"it belongs to application {escaped(app)}"
        if executor is not None and labels.get(EXECUTOR_LABEL) != executor:
            return f"it belongs to executor {escaped(str(labels.get(EXECUTOR_LABEL)))} of this application"
        return None

    return ours


def selector(app_id: str, *, executors: Sequence[str] | None = None, role: str | None = None) -> str:
    """The label selector of an application's objects."""
    parts = [f"{APP_LABEL}={app_id}"]
    if role is not None:
        parts.append(f"spark-role={role}")
    if executors is not None:
        parts.append(f"{EXECUTOR_LABEL} in ({','.join(executors)})")
    return ",".join(parts)
