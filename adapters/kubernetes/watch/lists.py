"""Lists of an application's executor pods, and what is known from lists and events together.

A list is asked for in pages. All pages but the first are of the same moment as the first, by the continue token; if that
moment has been compacted away (410), pages of two moments would not add up to a state that a watch could go on from, so
the list is asked for again, in one piece.

``KnownPods`` is the state of the pods at one resource version, ``floor``. Resource versions of pods are one counter, so
lists and events fit together by comparing numbers, whatever order they come in:

- an event above the floor is applied, and the floor is its version; one at or below it shows what was known already, or
  what a list has overtaken, and is left out;
- a list at or above the floor is the state; what was known and is not in it has vanished;
- a list below the floor (an answer that took long, or one of the API server's cache) is older than what is known in every
  pod: the state stays. Nothing that was seen later turns back, no pod that went comes back, none that came goes.

An API server that was restored from a backup counts from a lower number. A list that was asked for without a version is
never older than what was seen before it was asked for; so one below the floor of that moment is the state all the same, and
the history begins anew. Versions that are no numbers are taken in the order in which they arrive.

Costs: an event O(1), a list one pass; memory one manifest a pod.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

from podtide.adapters.kubernetes.api import ApiAnswer, ApiClient
from podtide.adapters.kubernetes.codec import Event, PodPage, read_pods
from podtide.adapters.kubernetes.status import UnreadableBody
from podtide.domain.protocol.pods import APP_LABEL, EXECUTOR_ROLE, INACTIVE_LABEL, ROLE_LABEL, PodManifest

PODS_MAX: Final = 262_144
"""Pods of one list; an API server that shows more is not believed."""

_GONE: Final = 410
_VERSION_DIGITS: Final = 20


def pods_path(namespace: str) -> str:
    """Where the pods of a namespace are."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def executors_selector(app_id: str) -> str:
    """The selector of Spark's watch and poll (spec: snapshots, sections 4 and 5)."""
    return f"{APP_LABEL}={app_id},{ROLE_LABEL}={EXECUTOR_ROLE},{INACTIVE_LABEL}!=true"


class ListedPods(NamedTuple):
    """A list, complete. ``version``: its resource version, "" without one."""

    pods: tuple[PodManifest, ...]
    version: str
    pages: int


ListAnswer: TypeAlias = ListedPods | ApiAnswer | UnreadableBody
"""A list; or the answer that refused it; or what is wrong with it."""


def list_pods(
    api: ApiClient, namespace: str, selector: str, resource_version: str | None = None, *, page: int, timeout_s: float
) -> ListAnswer:
    """List pods in pages of ``page``; ``timeout_s`` is for each of them. Raises Unreachable.

    ``resource_version``: None for the state of this moment, "0" for whatever the API server has in its cache.
    """
    found = _pages(api, namespace, selector, resource_version, page, timeout_s)
    if isinstance(found, ApiAnswer) and found.status == _GONE:
        found = _pages(api, namespace, selector, resource_version, 0, timeout_s)
    return found


def _pages(
    api: ApiClient, namespace: str, selector: str, resource_version: str | None, page: int, timeout_s: float
) -> ListAnswer:
    path = pods_path(namespace)
    base = [("labelSelector", selector)]
    if page:
        base.append(("limit", str(page)))
    query = base if resource_version is None else [*base, ("resourceVersion", resource_version)]
    pods: list[PodManifest] = []
    tokens: set[str] = set()
    first: PodPage | None = None
    while True:
        answer = api.call("list", "pods", path, query=query, timeout_s=timeout_s)
        if not answer.ok:
            return answer
        part = read_pods(answer.body)
        if isinstance(part, UnreadableBody):
            return part
        first = first or part
        pods.extend(part.pods)
        if not part.more:
            return ListedPods(tuple(pods), first.version, len(tokens) + 1)
        if len(pods) > PODS_MAX or len(tokens) >= PODS_MAX or part.more in tokens:
            return UnreadableBody(
                f"a list of pods goes on after {len(pods)} pods in {len(tokens) + 1} pages; it has no end"
            )
        tokens.add(part.more)
        query = [*base, ("continue", part.more)]


def number_of(version: str) -> int | None:
    """A resource version as a number; None if it is none, or no 64-bit one."""
    return int(version) if version.isascii() and version.isdigit() and len(version) <= _VERSION_DIGITS else None


class Merged(NamedTuple):
    """What a list came to. ``pods``: the state with it. ``vanished``: pods known before and not there any more, as they
    were last seen. ``stale``: it was older than what is known. ``restarted``: the history of versions began anew.
    """

    pods: tuple[PodManifest, ...]
    vanished: tuple[PodManifest, ...] = ()
    stale: bool = False
    restarted: bool = False


class KnownPods:
    """The pods as they are known at one resource version. Not thread-safe."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._pods: dict[str, PodManifest] = {}
        self.floor: int | None = None
        self.version = ""
        """Where a watch goes on from: the floor as it was written, or the last version that is no number."""

    def __len__(self) -> int:
        return len(self._pods)

    def take_event(self, event: Event) -> bool:
        """Take an event of a watch; False if it shows nothing that is not known."""
        if not self._reach(event.version):
            return False
        if event.pod is not None:
            if event.kind == "DELETED":
                self._pods.pop(_key(event.pod), None)
            else:
                self._pods[_key(event.pod)] = event.pod
        return True

    def _reach(self, version: str) -> bool:
        """Move the floor up to a version; False if it is there already."""
        number = number_of(version)
        if number is not None:
            if self.floor is not None and number <= self.floor:
                return False
            self.floor = number
        if version:
            self.version = version
        return True

    def take_list(self, listed: ListedPods, *, floor: int | None, fresh: bool) -> Merged:
        """Take a list. ``floor``: that of the moment when it was asked for; ``fresh``: it was asked for without a version,
        and its word is final.
        """
        number = number_of(listed.version)
        restarted = fresh and number is not None and floor is not None and number < floor
        if number is not None and self.floor is not None and number < self.floor and not restarted:
            return Merged(tuple(self._pods.values()), stale=True)
        before, self._pods = self._pods, {_key(pod): pod for pod in listed.pods}
        self.floor, self.version = number, listed.version
        vanished = tuple([pod for key, pod in before.items() if key not in self._pods])
        return Merged(tuple(self._pods.values()), vanished, restarted=restarted)


def _key(pod: PodManifest) -> str:
    return pod.uid or pod.name
