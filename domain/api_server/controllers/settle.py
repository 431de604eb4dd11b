"""All controllers after a request: each is told of every change, and acts until nothing is left to do.

Changes come in the order in which they were made, those of the controllers themselves included, and all of it happens at the
request's own ``now``. Of the sets the controllers keep counts (``PodSetRow``), change by change, so that one pod costs no
look at the others. What was refused, for example by a quota, is tried again at a tick: ``retry_due``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from podtide.domain.api_server import quotas
from podtide.domain.api_server.controllers import deployments, garbage, pod_sets, replica_sets, stateful_sets
from podtide.domain.api_server.json_values import EMPTY, FrozenObject, at
from podtide.domain.api_server.kinds import DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS
from podtide.domain.api_server.state import (
    SELECTOR_MARK,
    ApiChange,
    ApiState,
    Books,
    ObjectKey,
    PodSetRow,
    controller_of,
    ended,
)
from podtide.domain.base.units import NEVER, Millis

_SETS: Final = frozenset({DEPLOYMENTS.resource, REPLICA_SETS.resource, STATEFUL_SETS.resource})
_SELECTING: Final = (REPLICA_SETS.resource, STATEFUL_SETS.resource)

Touched: TypeAlias = dict[ObjectKey, dict[ObjectKey, None]]
"""Sets to look at, and the pods of each that changed."""


def settle(books: Books) -> None:
    """Do all that follows from the changes of this step, and try again what is due."""
    touched: Touched = {}
    for uid in _due(books):
        key = books.uids.get(uid)
        books.retries = books.retries.remove(uid)
        if key is not None:
            touched[key] = {}
    refused: set[ObjectKey] = set()
    done = 0
    while done < len(books.changes) or touched:
        while done < len(books.changes):
            change = books.changes[done]
            done += 1
            garbage.follow(books, change)
            _notice(books, change, touched)
        if touched:
            key = next(iter(touched))
            _sync(books, key, touched, refused)
    quotas.keep_books(books)


def retry_due(state: ApiState) -> Millis:
    """When a controller tries again; NEVER where none has to."""
    return min(state.retries.values(), default=NEVER)


def _due(books: Books) -> list[str]:
    return sorted(uid for uid, moment in books.retries.items() if moment <= books.now)


def _sync(books: Books, key: ObjectKey, touched: Touched, refused: set[ObjectKey]) -> None:
    pods = touched.pop(key)
    owner = books.found(key)
    if owner is None or owner["metadata"]["uid"] not in books.sets:
        return
    uid, before = owner["metadata"]["uid"], books.retries
    tries = key not in refused
    if key.resource == REPLICA_SETS.resource:
        acted = replica_sets.sync(books, key, owner, pods, tries=tries)
    elif key.resource == STATEFUL_SETS.resource:
        acted = stateful_sets.sync(books, key, owner, pods, tries=tries)
    else:
        acted = deployments.sync(books, key, owner, tries=tries)
    if books.retries is not before:
        refused.add(key)
        touched.setdefault(key, {})
    elif tries and not acted:
        books.retries = books.retries.discard(uid)


def _notice(books: Books, change: ApiChange, touched: Touched) -> None:
    """Keep the counts, and note which sets have to look at what."""
    key = change.key
    if key.resource == PODS.resource:
        _count(books, key, change.before, -1, touched)
        _count(books, key, change.after, 1, touched)
        _offer(books, key, change, touched)
    elif key.resource in _SETS:
        _notice_set(books, key, change, touched)
        for item in (change.before, change.after):
            owner = books.uids.get(controller_of(item))
            if owner is not None and owner.resource == DEPLOYMENTS.resource:
                touched.setdefault(owner, {})


def _notice_set(books: Books, key: ObjectKey, change: ApiChange, touched: Touched) -> None:
    before, after = change.before, change.after
    if after is None:
        assert before is not None
        uid = before["metadata"]["uid"]
        books.sets, books.retries = books.sets.discard(uid), books.retries.discard(uid)
        touched.pop(key, None)
        return
    uid = after["metadata"]["uid"]
    if before is None:
        books.sets = books.sets.set(uid, PodSetRow())
        if key.resource in _SELECTING:
            touched.setdefault(key, {}).update(dict.fromkeys(replica_sets.orphans(books, after)))
    if before is None or _essence(before) != _essence(after):
        touched.setdefault(key, {})


def _essence(item: FrozenObject) -> tuple[object, ...]:
    """What of a set its controller looks at."""
    metadata = item["metadata"]
    return item.get("spec"), item.get("status"), metadata.get("annotations"), "deletionTimestamp" in metadata


def _count(books: Books, key: ObjectKey, pod: FrozenObject | None, sign: int, touched: Touched) -> None:
    """Add a pod to the counts of its set, or take it out; the set looks at it."""
    uid = controller_of(pod)
    row = books.sets.get(uid) if uid else None
    home = books.uids.get(uid)
    if pod is None or row is None or home is None:
        return
    touched.setdefault(home, {})[key] = None
    staying = not pod_sets.deleting(pod)
    stateful = home.resource == STATEFUL_SETS.resource
    active = staying and not ended(pod)
    ready = pod_sets.ready(pod) and (at(pod, ("status", "phase")) == "Running" if stateful else active)
    owner = books.found(home)
    wanted = (at(owner, ("spec", "template", "metadata", "labels")) or EMPTY).items()
    labelled = active and wanted <= (at(pod, ("metadata", "labels")) or EMPTY).items()
    row = row._replace(
        created=row.created + sign,
        active=row.active + sign * active,
        ready=row.ready + sign * ready,
        labelled=row.labelled + sign * labelled,
        staying=row.staying + sign * staying,
    )
    ordinal = stateful_sets.ordinal_of(home.name, key.name) if stateful else None
    if ordinal is not None and ordinal < row.wanted:
        absent = row.absent.discard(ordinal) if sign > 0 else row.absent.set(ordinal, None)
        row = row._replace(absent=absent)
    books.sets = books.sets.set(uid, row)


def _offer(books: Books, key: ObjectKey, change: ApiChange, touched: Touched) -> None:
    """A pod without a controller is shown to the sets whose selector may match it."""
    pod = change.after
    if pod is None or controller_of(pod) or pod_sets.deleting(pod):
        return
    if change.before is not None and change.before["metadata"] == pod["metadata"]:
        return
    marks = ["", *(f"{name}={value}" for name, value in (at(pod, ("metadata", "labels")) or EMPTY).items())]
    for resource in _SELECTING:
        for mark in marks:
            for name in sorted(books.tables.labels.get((resource, key.namespace, SELECTOR_MARK, mark), ())):
                touched.setdefault(ObjectKey(resource, key.namespace, name), {})[key] = None
