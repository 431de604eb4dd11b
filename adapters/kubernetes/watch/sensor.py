"""The sensor: the pods of a namespace that a selector names, as they are on a cluster, from now on.

One thread watches. It begins with a list, which is heard as one ``PodsReplaced``, and goes on with a watch from the
version of that list; what arrives together is heard as one ``PodsUpdated``. A watch that ends goes on where it ended,
bookmarks included, without a list. It is begun anew with a list only when its place in the history is gone (410, a version
of the future, another history) or when it said something that cannot be read. The other thread answers the core's periodic
lists (``request_list``). Both put what they see into one ``KnownPods``, under one lock, and what comes of it is heard before
the lock is left: whoever listens never sees a pod turn back, see ``kubernetes.watch.lists``.

Spark takes a DELETED event for what its object shows, so a pod that was deleted while Running runs on until the next full
list, and the executor is missed half a minute after that. ``faithful`` passes events on like that. Otherwise a deleted pod,
and one that a list shows to have vanished meanwhile, is heard as PodDeleted at once. (A pod that only left the selector
arrives as DELETED, too, as it was before: finished pods that somebody labelled inactive. They are no more looked after
than deleted ones, so nothing depends on the difference.)

What goes wrong is told and repaired, never raised. A watch that breaks or stays silent for too long (an API server sends a
bookmark a minute) is opened again at once, then with back-off; a stream that ends within its first second counts as broken.
A call that is refused is made again with back-off: permissions come late, too. ``failure`` holds the refusal meanwhile, for
those who would rather not start. 429 and 503 are obeyed.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiAnswer, ApiClient, Stream, Unreachable
from podtide.adapters.kubernetes.codec import Event
from podtide.adapters.kubernetes.errors import ApiRequest, Complaints, refused
from podtide.adapters.kubernetes.ratelimit import Backoff, Jitter, Wait
from podtide.adapters.kubernetes.status import UnreadableBody, no_answer
from podtide.adapters.kubernetes.watch.backoff import GONE, Trouble, Troubles
from podtide.adapters.kubernetes.watch.lists import KnownPods, ListedPods, list_pods, pods_path
from podtide.adapters.kubernetes.watch.stream import LINE_MAX, WatchReader
from podtide.adapters.notices import Level, Notify, Topic
from podtide.domain.base.units import Millis
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome, PodsReplaced, PodsUpdated, WatchStimulus
from podtide.domain.protocol.pods import INACTIVE_LABEL, PodManifest, as_deleted

PODS: Final = "pods"
_REFUSAL_BODY_MAX: Final = 64 * 1024

Hear: TypeAlias = Callable[[WatchStimulus], None]
"""Takes a stimulus; ``at`` is 0 until the loop takes it. Called by two threads in turn; neither blocks nor raises."""


class SensorSettings(NamedTuple):
    """``faithful``: deleted pods are heard as Spark hears of them. ``watch``: False, only ``request_list`` is answered.

    ``page``: pods of one page of a list. ``silence_s``: after that much silence a watch is broken. ``watch_s``: an API
    server is asked to end a watch after this, less up to a fifth. ``settled_s``: a watch that lived that long was a good
    one; the next trouble begins without back-off. ``line_max``: bytes of one event.
    """

    faithful: bool = False
    watch: bool = True
    page: int = 1_000
    list_timeout_s: float = 30.0
    silence_s: float = 90.0
    watch_s: int = 900
    settled_s: float = 1.0
    backoff: Backoff = Backoff(0.1, 5.0)
    line_max: int = LINE_MAX


class Counters(NamedTuple):
    """What the sensor did since it was made; all of them only grow.

    ``lists``: full lists that began a watch. ``polls``: full lists that were asked for. ``stale_lists``, ``stale_events``:
    those that showed nothing new. ``breaks``: watches that ended in trouble. ``expired``: places in the history that were
    gone. ``refusals``: calls with another answer than wanted. ``unreachable``: calls without an answer.
    """

    lists: int = 0
    polls: int = 0
    stale_lists: int = 0
    watches: int = 0
    events: int = 0
    stale_events: int = 0
    bookmarks: int = 0
    breaks: int = 0
    expired: int = 0
    refusals: int = 0
    unreachable: int = 0


class PodSensor:
    """Watches pods. ``start`` once, ``stop`` once; ``run`` and ``answer_list`` are what its threads do.

    ``selector``: of labels, such as ``executors_selector``. ``pods``: what these are called, for people.
    ``jitter``: a number from 0.0 to below 1.0. ``wait``: lets seconds pass (the default ends early with ``stop``).
    ``complaints``: shared with others who call the same API server, so that it is told once that it cannot be reached.
    """

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        selector: str,
        hear: Hear,
        clock: Clock,
        notify: Notify,
        settings: SensorSettings = SensorSettings(),  # noqa: B008 - a value
        jitter: Jitter = random.random,
        *,
        wait: Wait | None = None,
        complaints: Complaints | None = None,
        pods: str = "executor pods",
    ) -> None:
        self._api, self._hear, self._clock, self._notify = api, hear, clock, notify
        self._namespace, self._settings, self._jitter = namespace, settings, jitter
        self._path, self._selector = pods_path(namespace), selector
        self._complaints = complaints or Complaints(clock, notify)
        self._pods = pods
        self._troubles = Troubles(clock, notify, self._complaints, settings.backoff, jitter, pods)
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._lock = threading.RLock()  # what is known, what is heard, the counters and the stream
        self._known = KnownPods()
        self._counters = Counters()
        self._stream: Stream | None = None
        self._last_heard: float | None = None
        self._last_list_at: Millis | None = None
        self._requests: queue.SimpleQueue[tuple[int, str | None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._watching = False
        self._placed = False  # what is known is a place that a watch can go on from

    # ------------------------------------------------------------------------------------------- to the outside

    def start(self) -> None:
        """Begin to watch, and to answer requests."""
        assert not self._threads, "a sensor starts once"
        work = [("podtide-lists", self._answer_lists)]
        if self._settings.watch:
            work.append(("podtide-watch", self.run))
        self._threads = [threading.Thread(target=target, name=name, daemon=True) for name, target in work]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Hear nothing from now on, and end. False: a call is still waiting for its answer, whose time-out ends it."""
        with self._lock:
            self._stopping.set()
            stream = self._stream
        if stream is not None:
            stream.close()
        self._requests.put(None)
        give_up = self._clock.monotonic() + timeout_s
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, give_up - self._clock.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def request_list(self, serial: int, resource_version: str | None = None) -> None:
        """The core asks for a list (ListPods): it is heard as an ``Outcome`` of this serial, unless ``stop`` comes first."""
        self._requests.put((serial, resource_version))

    @property
    def failure(self) -> CallFailure | None:
        """What the API server refuses at the moment of what the watch needs (no permission, no such thing); else None."""
        return self._troubles.failure

    @property
    def last_heard(self) -> float | None:
        """When a list, an event or a bookmark last came, in the clock's monotonic seconds."""
        return self._last_heard

    @property
    def last_list_at(self) -> Millis | None:
        """When a full list last came, in epoch milliseconds."""
        return self._last_list_at

    @property
    def watching(self) -> bool:
        """Whether a watch is open, as far as can be known."""
        return self._watching

    @property
    def counters(self) -> Counters:
        """What was done so far."""
        return self._counters

    # ---------------------------------------------------------------------------------------------- the watch

    def run(self) -> None:
        """Watch in this thread, until ``stop``."""
        while not self._stopping.is_set():
            try:
                trouble = self._watch() if self._placed else self._list()
            except Exception as fault:  # a fault of our own must not end the watch without a word
                # Its class alone: nobody knows what its text may hold.
                trouble = Trouble(f"a fault of podtide itself, {type(fault).__name__}", relist=True, patient=True)
            if trouble is not None and not self._stopping.is_set():
                self._watching = False
                self._count("breaks")
                if trouble.expired:
                    self._count("expired")
                if trouble.relist:
                    self._placed = False
                if (delay_s := self._troubles.delay_s(trouble)) > 0.0:
                    self._wait(delay_s)
        self._watching = False

    def _list(self) -> Trouble | None:
        """Begin with a list."""
        began, floor = self._clock.monotonic(), self._known.floor
        settings = self._settings
        try:
            found = list_pods(
                self._api, self._namespace, self._selector, page=settings.page, timeout_s=settings.list_timeout_s
            )
        except Unreachable as lost:
            return self._lost(lost)
        self._complaints.answered()
        if isinstance(found, UnreadableBody):
            return self._troubles.unreadable(found.why)
        if isinstance(found, ApiAnswer):
            self._count("refusals")
            return self._troubles.refused(self._request("list"), found)
        self._troubles.granted("list")
        with self._lock:
            if self._stopping.is_set():
                return None
            self._take_list(found, floor, fresh=True, serial=None)
            self._count("lists")
            self._placed = True
        lasted = int((self._clock.monotonic() - began) * 1000)
        facts = (("pods", len(found.pods)), ("pages", found.pages), ("lasted_ms", lasted))
        self._troubles.say(Level.INFO, Topic.LISTED, f"{len(found.pods)} {self._pods} listed in {lasted} ms", *facts)
        return None

    def _watch(self) -> Trouble | None:
        """Go on from the place that is known; None when the watch ended as it should."""
        place, settings = self._known.version, self._settings
        query = [
            ("labelSelector", self._selector),
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(int(settings.watch_s * (1.0 - 0.2 * self._jitter())))),
        ]
        if place:
            query.append(("resourceVersion", place))
        try:
            stream = self._api.stream(PODS, self._path, query=query, silence_s=settings.silence_s)
        except Unreachable as lost:
            return self._lost(lost)
        self._complaints.answered()
        with self._lock:
            self._stream = stream
            stopping = self._stopping.is_set()
        try:
            if stopping:
                return None
            if stream.status != 200:
                self._count("refusals")
                return self._troubles.refused(self._request("watch"), ApiAnswer(stream.status, _body(stream)))
            return self._follow(stream, place)
        except Unreachable as lost:
            return Trouble(lost.why)
        finally:
            with self._lock:
                self._stream = None
            stream.close()

    def _follow(self, stream: Stream, place: str) -> Trouble | None:
        """Hear what a watch says, until it ends."""
        self._count("watches")
        self._watching = True
        self._troubles.opened(place)
        opened = self._clock.monotonic()
        reader = WatchReader(place, self._settings.line_max)
        relist = False
        try:
            for chunk in stream.chunks():
                self._last_heard = self._clock.monotonic()
                reading = reader.read(chunk)
                if reading.events:
                    self._troubles.spoke()
                    self._take_events(reading.events)
                if reading.end is not None:
                    relist = True
                    return Trouble(reading.end.why, relist=True, expired=reading.end.code == GONE)
        finally:
            lived = self._clock.monotonic() - opened
            self._troubles.ended(settled=lived >= self._settings.settled_s, relist=relist)
        if lived < self._settings.settled_s:
            return Trouble(f"the API server ended the watch after {lived:.1f} s")
        return None

    # ------------------------------------------------------------------------------------- lists that are asked for

    def _answer_lists(self) -> None:
        while (request := self._requests.get()) is not None and not self._stopping.is_set():
            try:
                self.answer_list(*request)
            except Exception as fault:  # the core waits for an answer, whatever happens
                self._fail(request[0], f"a fault of podtide itself, {type(fault).__name__}")

    def answer_list(self, serial: int, resource_version: str | None) -> None:
        """List in this thread, and let the outcome be heard."""
        settings = self._settings
        floor = self._known.floor
        try:
            found = list_pods(
                self._api,
                self._namespace,
                self._selector,
                resource_version,
                page=settings.page,
                timeout_s=settings.list_timeout_s,
            )
        except Unreachable as lost:
            self._lost(lost)
            self._fail(serial, lost.why)
            return
        self._complaints.answered()
        if isinstance(found, UnreadableBody):
            self._fail(serial, found.why)
            return
        if isinstance(found, ApiAnswer):
            self._count("refusals")
            request = self._request("list")
            what = refused(request, found)
            self._troubles.complain(request, what)
            self._answer(Outcome(0, serial, what.failure))
            return
        with self._lock:
            if self._stopping.is_set():
                return
            self._take_list(found, floor, fresh=resource_version is None, serial=serial)
            self._count("polls")

    def _fail(self, serial: int, why: str) -> None:
        self._answer(Outcome(0, serial, no_answer(why, "list", "Pod", None, self._namespace)))

    def _answer(self, outcome: Outcome) -> None:
        with self._lock:
            if not self._stopping.is_set():
                self._hear(outcome)

    # ------------------------------------------------------------------------------------------ what is known

    def _take_list(self, found: ListedPods, floor: int | None, *, fresh: bool, serial: int | None) -> None:
        """Take a list and let it be heard: as the answer to ``serial``, or as a beginning. The lock is held."""
        merged = self._known.take_list(found, floor=floor, fresh=fresh)
        now = self._clock.now()
        self._last_heard, self._last_list_at = self._clock.monotonic(), now
        if merged.stale:
            self._count("stale_lists")
        if merged.restarted:
            text = (
                f"the API server's history went back from version {floor} to {found.version}; it is taken as it is now"
            )
            self._troubles.say(Level.WARNING, Topic.WATCH_BROKEN, text)
            self._placed = False  # a watch that still waits for the old history would wait for long
            if self._stream is not None:
                self._stream.close()
        if merged.vanished and not self._settings.faithful:
            # In which version they were last is not known; with the old one they would look unchanged to who knows it.
            gone = [as_deleted(pod, now)._replace(version="") for pod in merged.vanished]
            self._hear(PodsUpdated(0, tuple(gone)))
        if serial is None:
            self._hear(PodsReplaced(0, merged.pods))
        else:
            self._hear(Outcome(0, serial, found=len(merged.pods), version=found.version or None, pods=merged.pods))

    def _take_events(self, events: tuple[Event, ...]) -> None:
        shown: list[PodManifest] = []
        bookmarks = stale = 0
        with self._lock:
            if self._stopping.is_set():
                return
            for event in events:
                taken = self._known.take_event(event)
                if event.pod is None:
                    bookmarks += 1
                elif taken:
                    shown.append(self._shown(event, event.pod))
                else:
                    stale += 1
            counters = self._counters
            self._counters = counters._replace(
                events=counters.events + len(shown),
                bookmarks=counters.bookmarks + bookmarks,
                stale_events=counters.stale_events + stale,
            )
            if shown:
                self._hear(PodsUpdated(0, tuple(shown)))

    def _shown(self, event: Event, pod: PodManifest) -> PodManifest:
        if event.kind != "DELETED" or self._settings.faithful or pod.labels.get(INACTIVE_LABEL) == "true":
            return pod
        return as_deleted(pod, self._clock.now())

    def _request(self, verb: str) -> ApiRequest:
        return ApiRequest(verb, PODS, self._path, query=[("labelSelector", self._selector)])

    def _lost(self, lost: Unreachable) -> Trouble:
        """A call got no answer; who stops has closed what the call went through."""
        if self._stopping.is_set():
            return Trouble(lost.why)
        self._count("unreachable")
        return self._troubles.lost(lost)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counters = self._counters._replace(**{name: getattr(self._counters, name) + 1})


def _body(stream: Stream) -> bytes:
    """What a refused watch says, up to a bound."""
    body = b""
    for chunk in stream.chunks():
        body += chunk
        if len(body) > _REFUSAL_BODY_MAX:
            break
    return body
