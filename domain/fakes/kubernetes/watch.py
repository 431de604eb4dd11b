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

from podtide.domain.base.randomness import chance, draw
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.rows import Change, PodAgenda, WatchState
from podtide.domain.fakes.kubernetes.tables import ClusterTables
from podtide.domain.protocol.pod_stimuli import PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_ROLE, INACTIVE_LABEL, ROLE_LABEL, PodManifest

_EVENTS: Final = 11  # families of streams; pods, nodes and calls have others
_BREAKS: Final = 12
_LISTS: Final = 13


def selected(manifest: PodManifest) -> bool:
    """Whether Spark's selector for the watch and the poll sees this pod."""
    labels = manifest.labels
    return labels.get(INACTIVE_LABEL) != "true" and labels.get(ROLE_LABEL) == EXECUTOR_ROLE and APP_LABEL in labels


def publish(
    tables: ClusterTables, before: PodManifest | None, after: PodManifest, uid: int, now: Millis
) -> PodManifest:
    """Give a changed pod its resource version and send it on its way; returns it as it is now."""
    version = tables.versions.next()
    after = after._replace(version=str(version))
    if tables.plan.history_ms:
        tables.history.put(version, Change(now, uid, before))
        _forget(tables, now)
    if tables.watch != WatchState.CLOSED:
        if selected(after):
            send(tables, version, after, now)
        elif before is not None and selected(before):
            send(tables, version, before._replace(version=str(version)), now)
    return after


def gone(tables: ClusterTables, last: PodManifest, uid: int, now: Millis) -> None:
    """A pod is deleted for good: the event carries it as it was last, with a version of its own."""
    version = tables.versions.next()
    if tables.plan.history_ms:
        tables.history.put(version, Change(now, uid, last))
        _forget(tables, now)
    if tables.watch != WatchState.CLOSED and selected(last):
        send(tables, version, last._replace(version=str(version)), now)


def _forget(tables: ClusterTables, now: Millis) -> None:
    rows = tables.history
    horizon = now - tables.plan.history_ms
    oldest = tables.forgotten_version + 1
    while oldest in rows and rows[oldest].at < horizon:
        tables.history.drop(oldest)
        oldest += 1
    tables.forgotten_version = oldest - 1


# the watch


def send(tables: ClusterTables, version: int, manifest: PodManifest, now: Millis) -> None:
    """Send an event to the driver; it may get lost, come twice or come late."""
    if tables.watch == WatchState.BROKEN:
        tables.backlog.put(version, manifest)
        return
    watch = tables.plan.description.watch
    stream = tables.stream(_EVENTS, version)
    delay, stream = draw(stream, watch.delay)
    faulty = (watch.loss or watch.duplicates or watch.reordered) and (
        tables.faulty(now) and watch.during.active(now - tables.began)
    )
    last = tables.last_event_at
    at = max(now + delay, last)
    if faulty:
        lost, stream = chance(stream, watch.loss)
        twice, stream = chance(stream, watch.duplicates)
        late, stream = chance(stream, watch.reordered)
        if twice:
            tables.count("watch.duplicated")
            more, stream = draw(stream, watch.late)
            tables.say(PodsUpdated(at + more, (manifest,)))
        if lost:
            tables.count("watch.lost")
            return
        if late:
            tables.count("watch.reordered")
            more, stream = draw(stream, watch.late)
            tables.say(PodsUpdated(at + more, (manifest,)))
            return
    tables.last_event_at = at
    tables.say(PodsUpdated(at, (manifest,)))


def begin(tables: ClusterTables, now: Millis) -> None:
    """Open the watch, if the sources have one."""
    if not tables.plan.sources.watch:
        tables.watch = WatchState.CLOSED
    else:
        _next_break(tables, now)
        for place in range(len(tables.plan.description.watch.outages)):
            _next_outage(tables, place, now)


def _next_break(tables: ClusterTables, now: Millis) -> None:
    watch = tables.plan.description.watch
    if watch.breaks_per_hour > 0:
        rng = tables.stream(_BREAKS, tables.break_draws.next())
        tables.later_at_rate(rng, watch.breaks_per_hour, watch.during, now, PodAgenda.BREAK, -1)


def _next_outage(tables: ClusterTables, place: int, now: Millis) -> None:
    start = tables.plan.description.watch.outages[place].next_start(now - tables.began)
    if start is not None and tables.faulty(tables.began + start):
        tables.later(tables.began + start, PodAgenda.BREAK, place)


def broke(tables: ClusterTables, outage: int, now: Millis) -> None:
    """The watch breaks: at random (-1) or in the outage of this place. Breaks that overlap are one."""
    if tables.watch == WatchState.CLOSED:
        return
    watch = tables.plan.description.watch
    if outage < 0:
        length, _ = draw(tables.stream(_BREAKS, -tables.outage_draws.next()), watch.broken)
        until = now + length
        _next_break(tables, until)
    else:
        window = watch.outages[outage]
        assert window.until_ms is not None
        until = now + window.until_ms - window.from_ms
        _next_outage(tables, outage, now + 1)
    tables.count("watch.broken")
    tables.watch = WatchState.BROKEN
    if until > tables.mended_at:
        tables.mended_at = until
        tables.later(until, PodAgenda.MEND)


def mended(tables: ClusterTables, now: Millis) -> None:
    """The watch is back, with what happened meanwhile, unless the history no longer holds it."""
    if tables.watch != WatchState.BROKEN or tables.mended_at > now:
        return
    watch = tables.plan.description.watch
    waiting = sorted(tables.backlog.items())
    for version, _ in waiting:
        tables.backlog.drop(version)
    expired = False
    if watch.expired and tables.faulty(now):
        expired, _ = chance(tables.stream(_BREAKS, -tables.expiry_draws.next() - 2**32), watch.expired)
    if not expired:
        tables.watch = WatchState.OPEN
        for version, manifest in waiting:
            send(tables, version, manifest, now)
        return
    tables.count("watch.expired")
    if not watch.relists:
        tables.watch = WatchState.CLOSED
        return
    tables.watch = WatchState.OPEN
    at = max(now, tables.last_event_at)
    tables.last_event_at = at
    tables.say(PodsReplaced(at, current(tables)))


def stop_watch(tables: ClusterTables) -> None:
    """The driver closes its watch: nothing comes of it any more, not even what is under way."""
    tables.watch = WatchState.CLOSED
    for version in list(tables.backlog):
        tables.backlog.drop(version)
    for serial, due in list(tables.agenda.items()):
        if isinstance(due.say, PodsUpdated):
            tables.agenda.drop(serial)


# lists


def current(tables: ClusterTables) -> tuple[PodManifest, ...]:
    """The application's executor pods as they are, by name."""
    found = [pod.manifest for pod in tables.pods.values() if selected(pod.manifest)]
    found.sort(key=_name)
    return tuple(found)


def _name(manifest: PodManifest) -> str:
    return manifest.name


def earlier(tables: ClusterTables, at: Millis) -> tuple[tuple[PodManifest, ...], int]:
    """The pods as they were after all changes up to ``at``, as far as history goes, and the version of that time."""
    pods = {uid: pod.manifest for uid, pod in tables.pods.items()}
    version = tables.versions.last
    rows = tables.history
    while version in rows and rows[version].at > at:
        change = rows[version]
        if change.before is None:
            pods.pop(change.uid, None)
        else:
            pods[change.uid] = change.before
        version -= 1
    return tuple(sorted(filter(selected, pods.values()), key=_name)), version


def listed(tables: ClusterTables, key: int, now: Millis) -> tuple[tuple[PodManifest, ...], int]:
    """What a list shows now: the cluster, or an older state of it; and its resource version."""
    api = tables.plan.description.api
    if api.stale and tables.faulty(now):
        stale, stream = chance(tables.stream(_LISTS, key), api.stale)
        if stale:
            age, _ = draw(stream, api.stale_age)
            tables.count("lists.stale")
            return earlier(tables, now - age)
    return current(tables), tables.versions.last
