"""How a change in the cluster reaches the driver: resource versions, the watch, and lists.

Every change of a pod takes the next resource version of the whole cluster, and the pod carries it. A change that the watch's
selector sees (the application's executors that are not inactive) is on its way to the driver for a while, in order
unless a fault says otherwise. A pod that leaves the selection looks deleted, as it was before, as the API server shows
it. While the watch is broken, events pile up and come when it is back; if its place in the history has expired by then,
they are lost and the watch is dead, or begins anew from a list, as the description says.

A stale list is what the cluster was a while ago, with the resource version of that time. Lists are ordered by name, as
the API server's are.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import chance, draw, draw_active_ms
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.books import Books
from podtide.domain.fakes.kubernetes.rows import Change, Kind
from podtide.domain.protocol.pod_stimuli import PodsReplaced, PodStimulus, PodsUpdated
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_ROLE, INACTIVE_LABEL, ROLE_LABEL, PodManifest

_EVENTS: Final = 11  # families of streams; pods, nodes and calls have others
_BREAKS: Final = 12
_LISTS: Final = 13


def selected(manifest: PodManifest) -> bool:
    """Whether Spark's selector for the watch and the poll sees this pod."""
    labels = manifest.labels
    return labels.get(INACTIVE_LABEL) != "true" and labels.get(ROLE_LABEL) == EXECUTOR_ROLE and APP_LABEL in labels


def publish(books: Books, before: PodManifest | None, after: PodManifest, uid: int, now: Millis) -> PodManifest:
    """Give a changed pod its resource version and send it on its way; returns it as it is now."""
    version = books.next("version")
    after = after._replace(version=str(version))
    if books.plan.history_ms:
        books.history.put(version, Change(now, uid, before))
        _forget(books, now)
    if books.number("watch") != _OFF:
        if selected(after):
            send(books, version, after, now)
        elif before is not None and selected(before):
            send(books, version, before._replace(version=str(version)), now)
    return after


def gone(books: Books, last: PodManifest, uid: int, now: Millis) -> None:
    """A pod is deleted for good: the event carries it as it was last, with a version of its own."""
    version = books.next("version")
    if books.plan.history_ms:
        books.history.put(version, Change(now, uid, last))
        _forget(books, now)
    if books.number("watch") != _OFF and selected(last):
        send(books, version, last._replace(version=str(version)), now)


def _forget(books: Books, now: Millis) -> None:
    rows = books.history.rows
    horizon = now - books.plan.history_ms
    oldest = books.number("history") + 1
    while oldest in rows and rows[oldest].at < horizon:
        books.history.drop(oldest)
        oldest += 1
    books.numbers.put("history", oldest - 1)


# the watch


_ON: Final = 0
_BROKEN: Final = 1
_OFF: Final = 2


def send(books: Books, version: int, manifest: PodManifest, now: Millis) -> None:
    """Send an event to the driver; it may get lost, come twice or come late."""
    if books.number("watch") == _BROKEN:
        books.backlog.put(version, manifest)
        return
    watch = books.plan.description.watch
    stream = books.stream(_EVENTS, version)
    delay, stream = draw(stream, watch.delay)
    faulty = (watch.loss or watch.duplicates or watch.reordered) and (
        books.faulty(now) and watch.during.active(now - books.began)
    )
    last = books.number("watch.last")
    at = max(now + delay, last)
    if faulty:
        lost, stream = chance(stream, watch.loss)
        twice, stream = chance(stream, watch.duplicates)
        late, stream = chance(stream, watch.reordered)
        if twice:
            books.count("watch.duplicated")
            more, stream = draw(stream, watch.late)
            _say(books, PodsUpdated(at + more, (manifest,)))
        if lost:
            books.count("watch.lost")
            return
        if late:
            books.count("watch.reordered")
            more, stream = draw(stream, watch.late)
            _say(books, PodsUpdated(at + more, (manifest,)))
            return
    books.numbers.put("watch.last", at)
    _say(books, PodsUpdated(at, (manifest,)))


def _say(books: Books, stimulus: PodStimulus) -> None:
    books.later(stimulus.at, Kind.SAY, say=stimulus)


def begin(books: Books, now: Millis) -> None:
    """Open the watch, if the sources have one."""
    if not books.plan.sources.watch:
        books.numbers.put("watch", _OFF)
    else:
        _next_break(books, now)
        for place in range(len(books.plan.description.watch.outages)):
            _next_outage(books, place, now)


def _next_break(books: Books, now: Millis) -> None:
    watch = books.plan.description.watch
    if watch.breaks_per_hour > 0:
        wait, _ = draw_active_ms(books.stream(_BREAKS, books.next("breaks")), watch.breaks_per_hour)
        at = watch.during.after(now - books.began, max(1, wait))
        if at is not None and books.faulty(books.began + at):
            books.later(books.began + at, Kind.BREAK, -1)


def _next_outage(books: Books, place: int, now: Millis) -> None:
    start = books.plan.description.watch.outages[place].next_start(now - books.began)
    if start is not None and books.faulty(books.began + start):
        books.later(books.began + start, Kind.BREAK, place)


def broke(books: Books, outage: int, now: Millis) -> None:
    """The watch breaks: at random (-1) or in the outage of this place. Breaks that overlap are one."""
    if books.number("watch") == _OFF:
        return
    watch = books.plan.description.watch
    if outage < 0:
        length, _ = draw(books.stream(_BREAKS, -books.next("broken")), watch.broken)
        until = now + length
        _next_break(books, until)
    else:
        window = watch.outages[outage]
        assert window.until_ms is not None
        until = now + window.until_ms - window.from_ms
        _next_outage(books, outage, now + 1)
    books.count("watch.broken")
    books.numbers.put("watch", _BROKEN)
    if until > books.number("watch.mended"):
        books.numbers.put("watch.mended", until)
        books.later(until, Kind.MEND)


def mended(books: Books, now: Millis) -> None:
    """The watch is back, with what happened meanwhile, unless the history no longer holds it."""
    if books.number("watch") != _BROKEN or books.number("watch.mended") > now:
        return
    watch = books.plan.description.watch
    waiting = sorted(books.backlog.rows.items())
    for version, _ in waiting:
        books.backlog.drop(version)
    expired = False
    if watch.expired and books.faulty(now):
        expired, _ = chance(books.stream(_BREAKS, -books.next("mended") - 2**32), watch.expired)
    if not expired:
        books.numbers.put("watch", _ON)
        for version, manifest in waiting:
            send(books, version, manifest, now)
        return
    books.count("watch.expired")
    if not watch.relists:
        books.numbers.put("watch", _OFF)
        return
    books.numbers.put("watch", _ON)
    at = max(now, books.number("watch.last"))
    books.numbers.put("watch.last", at)
    _say(books, PodsReplaced(at, current(books)))


def stop_watch(books: Books) -> None:
    """The driver closes its watch: nothing comes of it any more, not even what is under way."""
    books.numbers.put("watch", _OFF)
    for version in list(books.backlog.rows):
        books.backlog.drop(version)
    for serial, due in list(books.agenda.rows.items()):
        if isinstance(due.say, PodsUpdated):
            books.agenda.drop(serial)


# lists


def current(books: Books) -> tuple[PodManifest, ...]:
    """The application's executor pods as they are, by name."""
    found = [pod.manifest for pod in books.pods.rows.values() if selected(pod.manifest)]
    found.sort(key=_name)
    return tuple(found)


def _name(manifest: PodManifest) -> str:
    return manifest.name


def earlier(books: Books, at: Millis) -> tuple[tuple[PodManifest, ...], int]:
    """The pods as they were after all changes up to ``at``, as far as history goes, and the version of that time."""
    pods = {uid: pod.manifest for uid, pod in books.pods.rows.items()}
    version = books.number("version")
    rows = books.history.rows
    while version in rows and rows[version].at > at:
        change = rows[version]
        if change.before is None:
            pods.pop(change.uid, None)
        else:
            pods[change.uid] = change.before
        version -= 1
    return tuple(sorted(filter(selected, pods.values()), key=_name)), version


def listed(books: Books, key: int, now: Millis) -> tuple[tuple[PodManifest, ...], int]:
    """What a list shows now: the cluster, or an older state of it; and its resource version."""
    api = books.plan.description.api
    if api.stale and books.faulty(now):
        stale, stream = chance(books.stream(_LISTS, key), api.stale)
        if stale:
            age, _ = draw(stream, api.stale_age)
            books.count("lists.stale")
            return earlier(books, now - age)
    return current(books), books.number("version")
