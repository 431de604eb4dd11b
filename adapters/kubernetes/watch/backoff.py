"""What goes wrong with a watch: what is said of it, and how long to wait before the next try.

The first try after a watch that lived for a while comes at once; then the distance doubles, with jitter. A refusal is never
tried again at once. 429 and 503 are obeyed where they say how long. A watch counts as good again when it is open, or, if the
one before it ended at once, when it says something: so a server that opens and ends watches in turn is not told as a
broken and a repaired watch ten times a second.

Each thing is told once: that the watch broke and that it is repaired, that calls do not reach the API server, that it asks
for fewer calls, what it refuses (``Complaints`` counts what follows). Not thread-safe but for ``lost``, ``complain`` and
``failure``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiAnswer, Unreachable
from podtide.adapters.kubernetes.errors import ApiRequest, Complaints, RefusalSort, RefusedCall, refused
from podtide.adapters.kubernetes.ratelimit import RETRY_AFTER_MAX_S, Backoff, Jitter
from podtide.adapters.kubernetes.status import message_of
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis
from podtide.domain.protocol.pod_stimuli import CallFailure
from podtide.domain.protocol.reasons import Fact

BAD_REQUEST: Final = 400
GONE: Final = 410
TOO_MANY: Final = 429
INTERNAL: Final = 500
TIMEOUT: Final = 504

_LATER: Final = frozenset({RefusalSort.THROTTLED, RefusalSort.SERVER})
"""Refusals for lack of capacity: the same call may do well in a moment."""

_TEXT_MAX: Final = 1_000


class Trouble(NamedTuple):
    """What ended a list or a watch. ``relist``: the next thing is a list. ``patient``: not even the first try is at once.
    ``expired``: the place in the history was gone.
    """

    why: str
    relist: bool = False
    patient: bool = False
    expired: bool = False
    retry_after_ms: Millis | None = None


class Troubles:
    """The troubles of one watch."""

    def __init__(
        self, clock: Clock, notify: Notify, complaints: Complaints, backoff: Backoff, jitter: Jitter, pods: str
    ) -> None:
        self._pods = pods
        self._clock, self._notify, self._complaints = clock, notify, complaints
        self._backoff, self._jitter = backoff, jitter
        self._in_a_row = 0  # since a watch lived for a while
        self._refused: dict[str, CallFailure] = {}
        self._worked = False
        self._flapping = False
        self._throttled = False
        self._unreadable = False
        self._broken_at: float | None = None

    @property
    def failure(self) -> CallFailure | None:
        """What is refused at the moment, if it is not for lack of capacity."""
        return next(iter(self._refused.copy().values()), None)

    # what happened

    def granted(self, verb: str) -> None:
        """A list or a watch was answered as it should be."""
        self._refused.pop(verb, None)
        self._throttled = self._unreadable = False

    def opened(self, place: str) -> None:
        """A watch was opened that goes on from a version."""
        self.granted("watch")
        if not self._worked:
            self._worked = True
            self.say(Level.INFO, Topic.WATCHING, f"watching the {self._pods} from version {place or 'none'}")
        if not self._flapping:
            self.spoke()

    def spoke(self) -> None:
        """A watch said something."""
        if self._broken_at is None:
            return
        lasted = self._clock.monotonic() - self._broken_at
        self._broken_at = None
        text = f"the watch of pods is repaired, after {lasted:.1f} s"
        self.say(Level.INFO, Topic.WATCH_REPAIRED, text, ("lasted_ms", int(lasted * 1000)))

    def ended(self, *, settled: bool, relist: bool) -> None:
        """A watch ended, well or not, after it had lived for a while or at once; with it, perhaps, its place."""
        # A place that is gone is said at once, and the watch after it is a good one; unless it goes on like that.
        self._flapping = not settled and (not relist or self._in_a_row > 1)
        if settled:
            self._in_a_row = 0

    def lost(self, lost: Unreachable) -> Trouble:
        """A call got no answer."""
        self._complaints.lost(lost.why)
        return Trouble(lost.why)

    def unreadable(self, why: str) -> Trouble:
        """A list cannot be read."""
        if not self._unreadable:
            self._unreadable = True
            self.say(Level.ERROR, Topic.INPUT_REFUSED, why)
        return Trouble(why, relist=True, patient=True)

    def refused(self, request: ApiRequest, answer: ApiAnswer) -> Trouble:
        """The watch, or the list that it begins with, got another answer than it asked for."""
        if request.verb == "watch" and _is_placeless(answer):
            return Trouble(message_of(answer), relist=True, expired=answer.status == GONE)
        what = refused(request, answer)
        if what.status != TOO_MANY:
            self.complain(request, what)
        elif not self._throttled:
            self._throttled = True
            self.say(Level.WARNING, Topic.THROTTLED, f"the API server asks {request.verb} pods to wait: {what.message}")
        if what.sort not in _LATER:
            self._refused[request.verb] = what.failure
        retry_after_ms = what.failure.retry_after_ms if what.sort is RefusalSort.THROTTLED else None
        return Trouble(what.message, patient=True, retry_after_ms=retry_after_ms)

    def complain(self, request: ApiRequest, what: RefusedCall) -> None:
        """Tell people of a refusal: which permission it lacks, if it is one."""
        if what.sort in _LATER:
            self._complaints.retried(request, what)
        else:
            self._complaints.refused(request, what)

    # what to do

    def delay_s(self, trouble: Trouble) -> float:
        """How long to wait before the next try. Says that the watch broke, if there was one."""
        if self._worked and self._broken_at is None:
            self._broken_at = self._clock.monotonic()
            again = "; listing again" if trouble.relist else ""
            self.say(Level.WARNING, Topic.WATCH_BROKEN, f"the watch of pods broke: {trouble.why}{again}")
        tries = self._in_a_row + trouble.patient
        self._in_a_row += 1
        if trouble.retry_after_ms is not None:
            delay_s = min(trouble.retry_after_ms / 1000.0, RETRY_AFTER_MAX_S)
            return delay_s + self._jitter() * min(delay_s, 1.0)
        return self._backoff.after(tries, self._jitter) if tries else 0.0

    def say(self, level: Level, topic: Topic, text: str, *facts: tuple[str, Fact]) -> None:
        """Tell people."""
        self._notify(Notice(self._clock.now(), level, topic, escaped(text, _TEXT_MAX), facts))


def _is_placeless(answer: ApiAnswer) -> bool:
    """Whether a watch is refused because its place in the history is gone, still to come, or none at all."""
    if answer.status == INTERNAL:  # what API servers say of a version that they cannot read
        return "resourceVersion" in message_of(answer)
    return answer.status in {GONE, TIMEOUT, BAD_REQUEST}
