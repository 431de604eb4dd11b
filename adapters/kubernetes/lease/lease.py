"""The lease of an application: one instance at a time is in charge of it, and what it must not forget.

A Lease (coordination.k8s.io/v1) beside the pods does two jobs.

**Mutual exclusion**, as client-go's leader election does it. Every write carries the version that was read, so of two
writers one gets a conflict. A lease held by somebody else is taken only when it was released; or when it was seen
unchanged for as long as its holder said that it lasts, by our own monotonic clock from when we first saw it so (clocks of
two machines are never compared); or when its holder is provably dead (``kubernetes.lease.identity``), so that a restart
on the same machine costs no waiting. Whoever holds it renews it; whoever could not renew it for nearly as long as it
lasts can no longer be sure, and writes nothing until it could (``valid``). The moment that counts is the one *before* the
renewal was sent. A call that was sent while the lease was valid should take no longer than the margin, so that it ends
before somebody else may begin. A lease that somebody else took, or that was deleted, is lost for good: there may have
been other holders.

**Memory**. The highest executor id that may have been used stands in an annotation. It is written ahead, in blocks: a pod
with id n is asked for only when the mark on the cluster is at least n, so that an id is never used twice, whenever we are
killed. Other small facts (the prefix of pod names) stand beside it. Releasing the lease empties the holder and leaves the
marks; a release that knows how far ids were really used says so.

Every write renews, so the steady state costs one small PUT each ``renew_every_s``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiAnswer, ApiClient, Unreachable
from podtide.adapters.kubernetes.calls import path_of
from podtide.adapters.kubernetes.errors import ApiRequest, refused
from podtide.adapters.kubernetes.lease import record as records
from podtide.adapters.kubernetes.lease.identity import Identity, is_dead, parse
from podtide.adapters.kubernetes.lease.record import (
    Acquired,
    HeldBy,
    LeaseRecord,
    LeaseRefused,
    LeaseSettings,
    UnreadableLease,
    lease_name,
)
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.domain.protocol.reasons import Fact

CALL_TIMEOUT_S: Final = 5.0
HICCUP_S: Final = 10.0
"""For so long a server that is busy or broken is asked again before a lease is given up."""

RESOURCE: Final = "leases"


class ApplicationLease:
    """The lease of one application. Thread-safe, apart from ``acquire`` and ``release``, which its owner calls.

    ``identity``: who we are. ``jitter``: numbers in [0, 1) that spread the renewals of many instances. ``on_lost``: called
    once, with a sentence, when the lease is lost; from whichever thread noticed, so it must neither block nor raise.
    ``pause``: waits that many seconds; tests hand one that moves the clock.
    """

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        app_id: str,
        identity: Identity,
        clock: Clock,
        notify: Notify,
        settings: LeaseSettings | None = None,
        *,
        jitter: Callable[[], float] = lambda: 0.0,
        on_lost: Callable[[str], None] = lambda _why: None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        terms = settings or LeaseSettings()
        if not 0 < terms.margin_s < terms.margin_s + terms.renew_every_s <= terms.duration_s:
            raise ValueError(f"a lease must be renewed before its margin begins: {terms}")
        self.name: Final = lease_name(app_id)
        self.lost: Final = threading.Event()
        self._api = api
        self._namespace = namespace
        self._app_id = app_id
        self._identity = identity
        self._clock = clock
        self._notify = notify
        self._settings: Final = terms
        self._jitter = jitter
        self._on_lost = on_lost
        self._ending = threading.Event()
        self._pause = pause or self._ending.wait
        self._linger = pause or threading.Event().wait
        self._writing = threading.RLock()
        """Held while a write is under way: there is one at a time, and those who wait find their wish already done."""
        self._wishes = threading.Lock()
        self._wanted_id = 0
        self._wanted_facts: dict[str, str] = {}
        self._record: LeaseRecord | None = None
        self._inherited = 0
        self._renewed: float | None = None
        self._failing = 0
        self._lapse_told = False
        self._watched: tuple[str, str, float] | None = None
        self._thread: threading.Thread | None = None

    # what is known without a call

    @property
    def reserved(self) -> int:
        """The mark on the cluster, as last confirmed: ids up to it may be used."""
        record = self._record
        return 0 if record is None else record.last_id

    @property
    def facts(self) -> Mapping[str, str]:
        """What is remembered on the cluster, as last confirmed."""
        record = self._record
        return {} if record is None else record.facts

    def valid(self) -> bool:
        """Whether the lease is certainly still ours. Whoever writes to the cluster asks before each call."""
        renewed = self._renewed
        if renewed is None or self.lost.is_set():
            return False
        return self._clock.monotonic() < renewed + self._settings.duration_s - self._settings.margin_s

    # taking it

    def acquire(self, wait_s: float = 0.0) -> Acquired | HeldBy | LeaseRefused:
        """Take the lease; where another holds it, or the server is away, try for ``wait_s`` seconds.

        Without waiting a free lease, a released one and that of a provably dead holder are taken; any other is refused. An
        answer that says "not now" (429, 5xx) and a connection that breaks are none: it is asked again for ``HICCUP_S``.
        """
        if self.lost.is_set():
            return LeaseRefused("this instance has lost its lease; another one decides now", 409)
        began = self._clock.monotonic()
        while True:
            found = self._attempt()
            not_now = isinstance(found, LeaseRefused) and found.hiccup
            left = began + (max(wait_s, HICCUP_S) if not_now else wait_s) - self._clock.monotonic()
            if isinstance(found, Acquired) or left <= 0 or self._ending.is_set():
                return found
            if isinstance(found, LeaseRefused) and not records.worth_retrying(found.status):
                return found
            wait = self._settings.retry_s
            if isinstance(found, HeldBy):
                wait = min(wait, max(found.free_in_s, 0.05))
            self._pause(min(wait, left))

    def _attempt(self) -> Acquired | HeldBy | LeaseRefused:
        """Look once, and take it if it may be taken. Those who write at the same moment send us round again."""
        with self._writing:
            for _ in range(5):
                try:
                    answer = self._call("get")
                    if answer.status == 404:
                        fresh = LeaseRecord.fresh(self.name, self._namespace, self._app_id)
                        taken = self._take(fresh, "create", None)
                    elif not answer.ok:
                        return self._refused("get", answer)
                    else:
                        seen = LeaseRecord.read(answer.body, self.name, self._app_id)
                        free = self._may_take(seen)
                        if isinstance(free, HeldBy):
                            return free
                        taken = self._take(seen, "update", free or None)
                except UnreadableLease as problem:
                    return LeaseRefused(str(problem), 422)
                except Unreachable as problem:
                    why = f"the lease of {self._app_id} cannot be read: {problem.why}"
                    return LeaseRefused(why, hiccup=problem.sent)
                if taken is not None:
                    return taken
            return LeaseRefused(f"others write lease {self.name} all the time; it could not be taken", 409)

    def _may_take(self, seen: LeaseRecord) -> HeldBy | str:
        """Who holds it and for how long at least, or why we may take it ("" where nobody holds it)."""
        if seen.holder in ("", str(self._identity)):
            return ""
        holder = parse(seen.holder)
        spoken = holder.spoken if holder else seen.holder
        if holder is not None and is_dead(holder, self._identity):
            return f"{spoken}, which has ended"
        now = self._clock.monotonic()
        if self._watched is None or self._watched[:2] != (seen.version, seen.renewed):
            self._watched = (seen.version, seen.renewed, now)
        free_in = self._watched[2] + (seen.duration_s or self._settings.duration_s) - now
        if free_in <= 0:
            return f"{spoken}, which did not renew it for {now - self._watched[2]:.0f} s"
        return HeldBy(spoken, holder, seen.acquired or None, free_in)

    def _take(self, seen: LeaseRecord, verb: str, taken_from: str | None) -> Acquired | LeaseRefused | None:
        """Write ourselves into it; None if somebody else was faster."""
        now = self._stamp()
        mine = seen.held_by(str(self._identity), self._settings.duration_s, now)
        sent = self._clock.monotonic()
        answer = self._call(verb, mine.body())
        if answer.status == 409 or (answer.status == 404 and verb == "update"):
            return None
        if not answer.ok:
            return self._refused(verb, answer)
        record = LeaseRecord.read(answer.body, self.name, self._app_id)
        self._confirmed(record, sent)
        self._inherited = record.last_id
        from_whom = f" from {taken_from}" if taken_from else ""
        self._say(
            Level.INFO,
            Topic.LEASE_TAKEN,
            f"lease {self.name} taken{from_whom}; executor ids up to {record.last_id} are used",
            last_id=record.last_id,
            transitions=record.transitions,
        )
        return Acquired(record.facts, record.last_id, record.transitions, taken_from)

    # keeping it

    def start(self) -> None:
        """Renew it from now on, in a thread of its own."""
        assert self._thread is None
        self._ending.clear()
        self._thread = threading.Thread(target=self._keep, name="podtide-lease", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = CALL_TIMEOUT_S + 1.0) -> None:
        """Renew it no longer. It stays ours until it ends or is released."""
        self._ending.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        self._thread = None

    def _keep(self) -> None:
        while not self._ending.is_set() and not self.lost.is_set():
            try:
                wait = self.tick()
            except Exception as fault:  # a thread that dies here would let the lease lapse without a word
                self._failed(f"a fault of podtide itself, {type(fault).__name__}")
                wait = self._settings.retry_s
            self._pause(wait)

    def tick(self) -> float:
        """Renew it if it is time; returns the seconds until it is worth looking again. The thread's whole work."""
        with self._writing:
            renewed = self._renewed
            if renewed is None or self.lost.is_set():
                return self._settings.renew_every_s
            due = renewed + self._settings.renew_every_s * (1 - 0.1 * self._jitter()) - self._clock.monotonic()
            if due > 0 and not self._failing:
                return due
            if self._write() is None:
                return self._settings.renew_every_s
        if not self.lost.is_set() and not self.valid() and not self._lapse_told:
            self._lapse_told = True
            age = self._clock.monotonic() - renewed
            self._say(
                Level.ERROR,
                Topic.LEASE_RENEWED_LATE,
                f"lease {self.name} was not renewed for {age:.0f} s: nothing is written until it is",
                age_s=round(age, 1),
            )
        return self._settings.retry_s * (1 + 0.1 * self._jitter())

    def reserve(self, last_id: int, timeout_s: float = CALL_TIMEOUT_S) -> bool:
        """Make sure that the mark on the cluster is at least ``last_id``; False if it is not in time, or the lease is lost.

        Costs a call once for each ``block`` ids; those who ask at the same time share it.
        """
        if last_id <= self.reserved or last_id > records.ID_MAX:
            return last_id <= records.ID_MAX and not self.lost.is_set()
        with self._wishes:
            self._wanted_id = max(self._wanted_id, last_id)
        return self._until(lambda: last_id <= self.reserved, timeout_s)

    def saw(self, last_id: int) -> None:
        """An executor of this id is on the cluster: the next renewal marks it. Costs nothing, and waits for nothing."""
        with self._wishes:
            self._wanted_id = max(self._wanted_id, min(last_id, records.ID_MAX))

    def set_fact(self, name: str, value: str, timeout_s: float = CALL_TIMEOUT_S) -> bool:
        """Remember ``value`` on the cluster; False if it is not in time. Raises ValueError for what is no fact."""
        records.check_fact(name, value)
        with self._wishes:
            self._wanted_facts[name] = value
        # Where two threads wish for different values, the later wish is the one that counts, for both.
        return self._until(lambda: self.facts.get(name) == value or self._wanted_facts.get(name) != value, timeout_s)

    def _until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Write until a wish is on the cluster. One writes for all who wait."""
        until = self._clock.monotonic() + timeout_s
        while not (self.lost.is_set() or self._ending.is_set() or self._renewed is None):
            left = until - self._clock.monotonic()
            if not self._writing.acquire(timeout=max(0.0, left)):
                return False
            try:
                if done():
                    return not self.lost.is_set()
                if left <= 0:
                    return False
                problem = self._write(min(left, CALL_TIMEOUT_S))
            finally:
                self._writing.release()
            if problem is not None:
                self._pause(min(self._settings.retry_s, max(0.0, until - self._clock.monotonic())))
        return False

    def _write(self, timeout_s: float = CALL_TIMEOUT_S) -> str | None:
        """Renew it, with all wishes; returns what went wrong. A conflict is looked into: it may be our own lost answer."""
        for _ in range(3):
            record = self._record
            if record is None or self.lost.is_set():
                return "the lease is not held"
            with self._wishes:
                ahead = self._wanted_id + self._settings.block if self._wanted_id > record.last_id else record.last_id
                facts = dict(self._wanted_facts)
            wished = record.renewed_at(self._stamp()).remembering(min(ahead, records.ID_MAX), facts)
            sent = self._clock.monotonic()
            try:
                answer = self._call("update", wished.body(), timeout_s)
                if answer.ok:
                    self._confirmed(LeaseRecord.read(answer.body, self.name, self._app_id), sent)
                    return None
                if answer.status not in (404, 409):
                    return self._failed(self._refused("update", answer).why)
                problem = self._look_again(timeout_s)
            except Unreachable as problem_there:
                return self._failed(problem_there.why)
            except UnreadableLease as unreadable:
                return self._failed(str(unreadable))
            if problem is not None:
                return problem
        return self._failed("others write the lease all the time")

    def _look_again(self, timeout_s: float) -> str | None:
        """After a conflict: if it is still ours, go on from how it is now; otherwise it is lost."""
        answer = self._call("get", None, timeout_s)
        if answer.status == 404:
            return self._lose(f"lease {self.name} was deleted")
        if not answer.ok:
            return self._failed(self._refused("get", answer).why)
        now = LeaseRecord.read(answer.body, self.name, self._app_id)
        if now.holder != str(self._identity):
            holder = parse(now.holder)
            spoken = (holder.spoken if holder else now.holder) or "nobody: somebody emptied its holder"
            return self._lose(f"lease {self.name} is held by {spoken}")
        was = self._record
        if was is not None and (now.uid != was.uid or now.last_id < was.last_id):
            return self._lose(f"lease {self.name} was made anew or its executor ids were set back by somebody else")
        self._record = now
        return None

    # giving it up

    def release(
        self, *, delete: bool = False, used_id: int | None = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> str | None:
        """Give it up, so that the next instance need not wait; returns what went wrong, None if all is well.

        ``delete``: nothing of the application is left, so nothing need be remembered. ``used_id``: the highest id that was
        ever sent to the server by us; ids reserved beyond it are given back.
        """
        self.stop(timeout_s)
        until = self._clock.monotonic() + timeout_s
        with self._writing:
            held, self._renewed = self._renewed is not None and not self.lost.is_set(), None
            problem: str | None = None if held else "the lease is not held"
            while held:
                problem = self._give_up(delete, used_id, min(timeout_s, CALL_TIMEOUT_S))
                left = until - self._clock.monotonic()
                if problem is None or left <= 0 or self.lost.is_set():
                    break
                self._linger(min(self._settings.retry_s, left))
            self._record = None
        return problem

    def _give_up(self, delete: bool, used_id: int | None, timeout_s: float) -> str | None:
        record = self._record
        assert record is not None
        try:
            if delete:
                verb, answer = "delete", self._call("delete", record.precondition(), timeout_s)
            else:
                used = None if used_id is None else max(used_id, self._inherited)
                given_back = record.released(self._stamp(), used)
                verb, answer = "update", self._call("update", given_back.body(), timeout_s)
            if answer.ok or (delete and answer.status == 404):
                return None
            if answer.status in (404, 409):
                return self._after_conflict(timeout_s)
            return self._refused(verb, answer).why
        except Unreachable as problem:
            return problem.why
        except UnreadableLease as problem:
            return str(problem)

    def _after_conflict(self, timeout_s: float) -> str | None:
        """While giving it up: None if it is given up already (an answer was lost), else why not yet, or that it is lost."""
        answer = self._call("get", None, timeout_s)
        if answer.status == 404:
            return None
        if answer.ok:
            now = LeaseRecord.read(answer.body, self.name, self._app_id)
            if not now.holder:
                return None
            if now.holder == str(self._identity):
                self._record = now
                return "somebody else changed the lease meanwhile"
            return self._lose(f"lease {self.name} is held by {now.holder}")
        return self._refused("get", answer).why

    # the wire, and what came of it

    def _call(self, verb: str, body: bytes | None = None, timeout_s: float = CALL_TIMEOUT_S) -> ApiAnswer:
        path = path_of(RESOURCE, self._namespace, "" if verb == "create" else self.name)
        return self._api.call(verb, RESOURCE, path, body=body, timeout_s=timeout_s)

    def _confirmed(self, record: LeaseRecord, sent: float) -> None:
        """A write was answered: that is how the lease is now, and it lasts from before the write was sent."""
        late = None if self._renewed is None or not self._failing else sent - self._renewed
        self._record = record
        self._renewed = sent
        with self._wishes:
            self._wanted_facts = {k: v for k, v in self._wanted_facts.items() if record.facts.get(k) != v}
        if late is not None:
            self._say(
                Level.WARNING,
                Topic.LEASE_RENEWED_LATE,
                f"lease {self.name} was renewed after {late:.1f} s and {self._failing} failures",
                age_s=round(late, 1),
                failures=self._failing,
            )
        self._failing = 0
        self._lapse_told = False

    def _failed(self, why: str) -> str:
        self._failing += 1
        if self._failing == 1:
            self._say(Level.WARNING, Topic.LEASE_RENEWED_LATE, f"lease {self.name} could not be written: {why}")
        return why

    def _lose(self, why: str) -> str:
        if not self.lost.is_set():
            self.lost.set()
            self._say(Level.ERROR, Topic.LEASE_LOST, f"{why}: this instance is no longer in charge")
            self._on_lost(why)
        return why

    def _refused(self, verb: str, answer: ApiAnswer) -> LeaseRefused:
        path = path_of(RESOURCE, self._namespace, self.name)
        what = refused(ApiRequest(verb, RESOURCE, path, self.name), answer)
        status = "" if what.hint else f" ({answer.status})"
        not_now = answer.status == 429 or answer.status >= 500
        return LeaseRefused(f"lease {self.name}: {verb} refused{status}: {what.text}", answer.status, not_now)

    def _say(self, level: Level, topic: Topic, text: str, **facts: Fact) -> None:
        self._notify(Notice(self._clock.now(), level, topic, text, tuple(facts.items())))

    def _stamp(self) -> str:
        now = datetime.fromtimestamp(self._clock.now() / 1000, UTC)
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
