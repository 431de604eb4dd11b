"""Pods in a recording: each written whole once, then only as what changed.

Writer and reader keep the same table: the pods that the recording spoke of, by name, as they were last. Whatever one of
them puts into the table the other puts there too, so that a few words are enough:

- a pod whose name is not in the table is written whole, ``{"name": ..., ...}``, fields with usual values left out;
- a pod of the table as ``{"same": name, ...}`` with the fields that are different now, null or empty if they went;
- in a list of all pods (PodsReplaced, the outcome of a listing, a full snapshot) a number n stands for the next n pods
  of the table, in its order, which are as they were; -n passes over n of them, which are gone. An object that names
  the next pod of the table takes its place; any other leaves the place where it was.

A list replaces the table: its pods, in its order. So an unchanged list of 10,000 pods is one number, and pods that are
gone do not stay in memory for longer than it takes to list again. An update puts new pods at the end.

The table is bounded, in pods and in weight. When it is full, further pods are not remembered, and so written whole
every time; that costs space alone. Both sides work this out from the pods themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from podtide.adapters.recording.records.codec import Plain, Record
from podtide.domain.protocol.pods import PodManifest

PODS_KNOWN_MAX: Final = 262_144
"""Pods of the table; Spark applications reach some tens of thousands."""

WEIGHT_KNOWN_MAX: Final = 512 * 1024 * 1024
"""About the bytes that the pods of the table take, see ``_weight``; a usual manifest weighs 1,500."""

STEP_PODS_MAX: Final = 4_000_000
"""Pods that one step may name: a list of a few bytes can stand for the whole table, and be repeated."""

FORM: Final = Record(PodManifest, extra=(("same", str),))
PodWire: Any = FORM.wire


class PodsDamaged(Exception):
    """Text that speaks of pods which the table does not have: a line before it is missing, or wrong."""


class PodTable:
    """The pods of a recording as last written or read, by name, in the order of the last list."""

    def __init__(self) -> None:
        self._pods: dict[str, PodManifest] = {}
        self._weights: dict[str, int] = {}
        self._weight = 0

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def pods(self) -> tuple[PodManifest, ...]:
        """All of them, in order."""
        return tuple(self._pods.values())

    def differing(self, pods: Iterable[PodManifest]) -> int:
        """How many of these pods are not in the table, or otherwise."""
        return sum(self._pods.get(pod.name) != pod for pod in pods)

    def replace(self, pods: Iterable[PodManifest]) -> None:
        """A list of all pods: the table is these, in this order."""
        before, weights = self._pods, self._weights
        self._pods, self._weights, self._weight = {}, {}, 0
        for pod in pods:
            self._keep(pod, weights[pod.name] if before.get(pod.name) is pod else _weight(pod))

    def written(self, pods: Sequence[PodManifest]) -> list[Plain]:
        """Updates as text, each pod as it is now; they enter the table."""
        parts = []
        for pod in pods:
            before = self._pods.get(pod.name)
            parts.append(whole_plain(pod) if before is None else _difference(before, pod))
            if before != pod:
                self._keep(pod, _weight(pod))
        return parts

    def read(self, parts: Sequence[Any]) -> tuple[PodManifest, ...]:
        """The pods that updates stand for. Raises PodsDamaged."""
        pods = []
        for part in parts:
            if not isinstance(part, Struct):
                raise PodsDamaged(f"the number {part} among updates of pods; numbers stand in lists of all pods only")
            pod = self._pod(part)
            if self._pods.get(pod.name) != pod:
                self._keep(pod, _weight(pod))
            pods.append(pod)
        return tuple(pods)

    def list_written(self, pods: Sequence[PodManifest]) -> list[Plain | int]:
        """A list of all pods as text; it becomes the table."""
        known, order = self._pods, tuple(self._pods)
        staying = {pod.name for pod in pods}
        listed: list[PodManifest] = []
        parts: list[Plain | int] = []
        place = same = 0
        for pod in pods:
            gone = place
            while gone < len(order) and order[gone] not in staying:
                gone += 1
            if gone > place:
                if same:
                    parts.append(same)
                    same = 0
                parts.append(place - gone)
                place = gone
            before = known.get(pod.name)
            here = place < len(order) and order[place] == pod.name
            place += here
            if before is not None and before == pod:
                listed.append(before)  # one object for one manifest, however often a client decodes it
                if here:
                    same += 1
                    continue
            else:
                listed.append(pod)
            if same:
                parts.append(same)
                same = 0
            parts.append(whole_plain(pod) if before is None else _difference(before, pod))
        if same:
            parts.append(same)
        self.replace(listed)
        return parts

    def list_read(self, parts: Sequence[Any], room: int = STEP_PODS_MAX) -> tuple[PodManifest, ...]:
        """The pods that a list stands for, at most ``room``. Raises PodsDamaged."""
        order = tuple(self._pods.values())
        pods: list[PodManifest] = []
        place = 0
        for part in parts:
            if isinstance(part, Struct):
                pod = self._pod(part)
                place += place < len(order) and order[place].name == pod.name
                pods.append(pod)
                continue
            after = place + abs(part)
            if part == 0 or after > len(order):
                raise PodsDamaged(f"the number {part} in a list of pods where {len(order) - place} are left to name")
            if part > 0:
                if len(pods) + part > room:
                    raise PodsDamaged(f"more than {STEP_PODS_MAX:,} pods in one step")
                pods.extend(order[place:after])
            place = after
        self.replace(pods)
        return tuple(pods)

    def _pod(self, part: Any) -> PodManifest:
        if part.same is UNSET:
            return whole(part)
        if part.name is not UNSET:
            raise PodsDamaged("a pod with both name and same; one of them was expected")
        before = self._pods.get(part.same)
        if before is None:
            raise PodsDamaged(
                f"the pod {part.same!r} is said to be as before, and none of that name was recorded before"
            )
        return before._replace(**FORM.given(part))

    def _keep(self, pod: PodManifest, weight: int) -> None:
        """Put a pod into the table, if there is room; an older one of its name goes in any case."""
        before = self._weights.get(pod.name)
        total = self._weight + weight - (before or 0)
        if total <= WEIGHT_KNOWN_MAX and (before is not None or len(self._pods) < PODS_KNOWN_MAX):
            self._pods[pod.name] = pod
            self._weights[pod.name] = weight
            self._weight = total
        elif before is not None:
            del self._pods[pod.name], self._weights[pod.name]
            self._weight -= before


def whole_plain(pod: PodManifest) -> Plain:
    """A pod as text that refers to no other."""
    return {"name": pod.name, **FORM.plain(pod)}


def whole(part: Any) -> PodManifest:
    """The pod that text stands for which refers to no other. Raises PodsDamaged."""
    if part.name is UNSET or part.same is not UNSET:
        raise PodsDamaged("a pod without a name of its own; all of the pod was expected")
    return PodManifest(**FORM.given(part))


def _difference(before: PodManifest, after: PodManifest) -> Plain:
    return {"same": after.name, **FORM.parts(before, after)}


def _weight(pod: PodManifest) -> int:
    """What a manifest weighs: the characters of its texts, 128 for itself and for each thing in it."""
    weight = 128 + _texts(pod)
    for name, text in pod.labels.items():
        weight += 128 + len(name) + len(text)
    for claim in pod.claims:
        weight += 128 + len(claim)
    for container in pod.containers:
        weight += 128 + _texts(container) + (128 + _texts(container.state) if container.state is not None else 0)
    return weight


def _texts(fields: tuple[object, ...]) -> int:
    return sum([len(field) for field in fields if type(field) is str])
