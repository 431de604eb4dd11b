"""Deleting many objects so that it never times out and never hits the wrong one.

A collection delete is one call that the server works off alone: 5,000 pods take it 16 to 18 seconds, longer than clients
wait, and whoever stops waiting does not know what is left. So objects are listed in pages, names and little else are
decoded, and each is deleted by a call of its own, a few at a time: as quick as the collection delete (about 500 a second
with eight at a time), each call short, and every one with a precondition. The uid is one: an object of the same name that
came later is not ours to delete. Where only pods of a phase are to go the resource version is another: a pod that was
Pending in the list and is Running by now is left alone, and the list is asked again.

``sweep`` goes on until a list shows nothing that could still be deleted - or nothing at all, where it is asked to wait
for objects that are terminating: a pod on a node goes only when its kubelet says so. It says what it found, deleted and
left at its deadline, by name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from podtide.adapters.kubernetes.api import ApiAnswer, Query
from podtide.adapters.kubernetes.calls import ABSENT, PAGE, Caller, Meta, SeenPod, path_of
from podtide.adapters.kubernetes.errors import ApiRequest, RefusalSort, RefusedCall

NAMES_MAX: Final = 20
"""Names of what is left that are kept."""

ROUNDS_MAX: Final = 8
"""Lists of one selection: pods that change under the hands of a delete are looked at again, not for ever."""

LOOK_AGAIN_S: Final = 1.0
"""Between lists that found nothing to delete."""

LAST_LOOK_S: Final = 15.0
"""How long after its deadline a sweep may still look at what is left."""

PASSING: Final = frozenset(
    {RefusalSort.NO_ANSWER, RefusalSort.NOT_ASKED, RefusalSort.THROTTLED, RefusalSort.SERVER, RefusalSort.CONFLICT}
)
"""Refusals that may be over in a moment."""

ENDING: Final = frozenset({RefusalSort.PERMISSION, RefusalSort.NO_ANSWER, RefusalSort.NOT_ASKED, RefusalSort.THROTTLED})
"""Refusals that the next object would meet, too."""

_GONE_OR_CHANGED: Final = frozenset({RefusalSort.MISSING, RefusalSort.CONFLICT})


class DeleteFate(Enum):
    """What came of one delete."""

    DELETED = "deleted"
    GONE = "gone"
    CHANGED = "changed"


class Deleted(NamedTuple):
    """What came of a selection. ``found``: listed, terminating ones too. ``refused``: what ended it before its time."""

    found: int = 0
    deleted: int = 0
    refused: RefusedCall | None = None


class Swept(NamedTuple):
    """What came of a sweep. ``found``: at its beginning, or deleted in all if that is more.

    ``left``: how many are still there, ``names`` the first of them; ``terminating``: those of the last list that are deleted
    and wait for their node or a finalizer. ``refused``: what ended it before its time.
    """

    found: int = 0
    deleted: int = 0
    left: int = 0
    terminating: int = 0
    names: tuple[str, ...] = ()
    refused: RefusedCall | None = None


class Propagation(Enum):
    """What happens to what an object owns. Foreground: it stays, terminating, until all that it owns is gone."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"


Progress = Callable[[int], None]
"""Told how many were deleted so far, page by page."""


class Deletable(Protocol):
    """What has to be known of an object to delete it."""

    @property
    def metadata(self) -> Meta:
        """Its name, uid and version, and whether it is being deleted."""
        ...


L = TypeVar("L", bound=Deletable)


class _Look(Generic[L]):
    """What lists show of the objects that are ``wanted``: how many are there and end already, and some names."""

    def __init__(self, wanted: Callable[[L], bool]) -> None:
        self._wanted = wanted
        self.there = self.terminating = 0
        self.names: list[str] = []

    def take(self, listed: Sequence[L]) -> list[L]:
        """Count a page; returns what of it is wanted."""
        page = [one for one in listed if self._wanted(one)]
        self.there += len(page)
        self.terminating += sum(one.metadata.deletion is not None for one in page)
        self.names.extend(one.metadata.name for one in page[: NAMES_MAX - len(self.names)])
        return page


class Cleaner:
    """Deletes objects of a namespace, ``workers`` at a time."""

    def __init__(self, caller: Caller, namespace: str, *, workers: int = 8, page: int = PAGE) -> None:
        assert workers >= 1
        self._caller = caller
        self._namespace = namespace
        self._workers = workers
        self._page = page

    def delete(
        self,
        resource: str,
        name: str,
        deadline: float,
        *,
        uid: str = "",
        version: str = "",
        propagation: Propagation | None = None,
        tell: bool = True,
    ) -> DeleteFate | RefusedCall:
        """Delete one object, if it is still the one with this uid, in this version. Gone already is no refusal."""
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        if conditions:
            options["preconditions"] = conditions
        if propagation is not None:
            options["propagationPolicy"] = propagation.value
        body = msgspec.json.encode(options)
        request = ApiRequest("delete", resource, path_of(resource, self._namespace, name), name, body=body)
        quiet = _GONE_OR_CHANGED if conditions else ABSENT
        answer = self._caller.ask(request, deadline, quiet=quiet, tell=tell)
        if isinstance(answer, ApiAnswer):
            self._caller.counts.add(f"deleted {resource}")
            return DeleteFate.DELETED
        if answer.sort is RefusalSort.MISSING:
            return DeleteFate.GONE
        if answer.sort is RefusalSort.CONFLICT and conditions:
            return DeleteFate.CHANGED
        return answer

    def select(self, resource: str, selectors: Query, deadline: float, *, exact: bool = False) -> Deleted:
        """Delete what is listed now. ``exact``: only what is still as it was listed; the rest is listed again."""
        seen: set[str] = set()
        deleted = 0
        for _ in range(ROUNDS_MAX):
            changed = False
            for page in self._caller.pages(resource, self._namespace, selectors, SeenPod, deadline, limit=self._page):
                if isinstance(page, RefusedCall):
                    return Deleted(len(seen), deleted, page)
                seen.update(one.metadata.uid for one in page)
                done = self._page_deleted(resource, page, deadline, exact=exact)
                deleted += done.deleted
                if done.refused is not None:
                    return Deleted(len(seen), deleted, done.refused)
                changed = changed or done.changed
            if not changed:
                break
        return Deleted(len(seen), deleted)

    def sweep(
        self,
        resource: str,
        selectors: Query,
        kind: type[L],
        deadline: float,
        *,
        wanted: Callable[[L], bool] = lambda _: True,
        gone: bool = False,
        propagation: Propagation = Propagation.BACKGROUND,
        progress: Progress | None = None,
    ) -> Swept:
        """Delete until a list shows nothing more to delete; ``gone``: until it shows nothing.

        ``wanted``: which of the listed objects. A last list after the deadline says what is left.
        """
        first: int | None = None
        deleted = 0
        while True:
            late = self._caller.clock.monotonic() >= deadline
            before, look = deleted, _Look(wanted)
            refused: RefusedCall | None = None
            until = deadline + LAST_LOOK_S
            for listed in self._caller.pages(resource, self._namespace, selectors, kind, until, limit=self._page):
                if isinstance(listed, RefusedCall):
                    refused = listed
                    break
                page = look.take(listed)
                if late or (refused is not None and refused.sort in ENDING):
                    continue
                done = self._page_deleted(resource, page, deadline, propagation=propagation)
                deleted += done.deleted
                refused = refused or done.refused
                if progress is not None and done.deleted:
                    progress(deleted)
            first = look.there if first is None else first
            found = max(first, deleted)
            if refused is None and (look.there == 0 or (look.there == look.terminating and not gone)):
                return Swept(found, deleted, 0, look.terminating, tuple(look.names))
            # What may pass by itself is tried again until the deadline; another refusal ends it once nothing moves.
            hopeless = refused is not None and refused.sort not in PASSING and deleted == before
            if late or hopeless or (deleted == before and self._caller.wait(LOOK_AGAIN_S)):
                left = look.there - (deleted - before)
                return Swept(found, deleted, left, look.terminating, tuple(look.names), refused)

    def count(
        self,
        resource: str,
        selectors: Query,
        kind: type[L],
        deadline: float,
        *,
        wanted: Callable[[L], bool] = lambda _: True,
    ) -> Swept:
        """What a sweep would find."""
        look, refused = _Look(wanted), None
        for listed in self._caller.pages(resource, self._namespace, selectors, kind, deadline, limit=self._page):
            if isinstance(listed, RefusedCall):
                refused = listed
                break
            look.take(listed)
        return Swept(look.there, 0, look.there, look.terminating, tuple(look.names), refused)

    def _page_deleted(
        self,
        resource: str,
        page: Sequence[Deletable],
        deadline: float,
        *,
        exact: bool = False,
        propagation: Propagation = Propagation.BACKGROUND,
    ) -> _Done:
        """Delete the objects of a page that are not going already; a refusal of all alike ends it."""
        alive = [one for one in page if one.metadata.deletion is None]
        lock, done = threading.Lock(), _Done()

        def one(seen: Deletable) -> None:
            if done.refused is not None and done.refused.sort in ENDING:
                return
            meta = seen.metadata
            version = meta.resource_version if exact else ""
            fate = self.delete(resource, meta.name, deadline, uid=meta.uid, version=version, propagation=propagation)
            with lock:
                if isinstance(fate, RefusedCall):
                    done.refused = done.refused or fate
                elif fate is DeleteFate.DELETED:
                    done.deleted += 1
                elif fate is DeleteFate.CHANGED:
                    done.changed = True

        _each(one, alive, self._workers)
        return done


class _Done:
    """What came of a page so far."""

    def __init__(self) -> None:
        self.deleted = 0
        self.changed = False
        self.refused: RefusedCall | None = None


def _each(act: Callable[[Deletable], None], items: Sequence[Deletable], workers: int) -> None:
    """Call for each, some at a time; in order where it is one at a time."""
    if workers == 1 or len(items) < 2:
        for item in items:
            act(item)
        return
    with ThreadPoolExecutor(min(workers, len(items)), thread_name_prefix="podtide-delete") as pool:
        _drain(pool.map(act, items))


def _drain(results: Iterable[None]) -> None:
    for _ in results:
        pass
