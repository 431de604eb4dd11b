"""ExecutorPodsAllocator once more, as literally as its rules are written down: every round regroups every pod.

A second reading of spec/allocation.md, sections 2 to 6 and 9, in plain dictionaries, without claims and without a driver
pod, for an API server that answers at once. It is the oracle of the allocator's sums: slow, short, and nothing is indexed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from podtide.domain.jvm.instants import parse_instant
from podtide.domain.kubernetes.allocator.executor_index import hash_order
from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.pods import PROFILE_LABEL, Pod, PodNumber, PodState

Call = tuple[object, ...]


class Thrown(Exception):
    """The round ends in an exception."""


@dataclass
class Literal:
    """The allocator's fields (section 2). ``creates`` and ``deletes``: whether the API server accepts a call."""

    config: AllocationConfig
    creates: Callable[[int], bool] = bool  # the numbers begin with 1
    deletes: bool = True
    targets: dict[int, int] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    created: dict[int, tuple[int, int]] = field(default_factory=dict)
    joined: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    last: dict[int, Pod] = field(default_factory=dict)
    outstanding: int = 0
    executors: int = 0
    failures: int = 0
    calls: list[Call] = field(default_factory=list)
    thrown: list[str] = field(default_factory=list)

    def deliver(self, batch: Sequence[dict[int, Pod]], now: int) -> None:
        """onNewSnapshots."""
        try:
            self._round(batch, now)
        except Thrown as thrown:
            self.thrown.append(str(thrown))

    def _round(self, batch: Sequence[dict[int, Pod]], now: int) -> None:
        config = self.config
        aggregated: dict[int, Pod] = {}  # 1
        for snapshot in batch:
            aggregated.update(snapshot)
        for number in aggregated:
            self.created.pop(number, None)
            self.joined.pop(number, None)
        if not all(pod.manifest.has_spec for pod in aggregated.values()):  # 2
            raise Thrown("NullPointerException")
        for number in [n for n in self.created if n in self.known]:  # 3
            self.joined[number] = self.created.pop(number)[0]
        late = [n for n, (_, at) in self.created.items() if now - at > config.create_timeout_ms]  # 4
        for number in late:
            del self.created[number]
        if late and config.delete_on_termination:
            self.calls.append(("delete", tuple(late), None))
        deleted = set(self.deleted)
        if batch:  # 5
            self.last = batch[-1]
            deleted &= self.last.keys()
        live = {number: pod for number, pod in self.last.items() if number not in deleted}  # 6
        groups: dict[int, dict[int, Pod]] = {}
        for number, pod in live.items():
            if len(self.targets) <= 1:
                groups.setdefault(0, {})[number] = pod
                continue
            label = pod.manifest.labels.get(PROFILE_LABEL)
            if label is None or not re.fullmatch(r"[+-]?[0-9]+", label, re.ASCII):
                raise Thrown("NumberFormatException")
            groups.setdefault(int(label), {})[number] = pod
        total_pending = total_not_running = 0
        consumers = []
        for profile, target in sorted(self.targets.items()):  # 7
            pods = groups.get(profile, {})
            running = sum(pod.state is PodState.RUNNING for pod in pods.values())
            waiting = {number: pod for number, pod in pods.items() if pod.state is PodState.PENDING}
            unknown = {number: pod for number, pod in waiting.items() if number not in self.known}
            newly = {number: at for number, (of, at) in self.created.items() if of == profile}
            not_running = len(waiting) + len(newly) + sum(of == profile for of in self.joined.values())
            count, pending = running + not_running, len(unknown)
            if count > target:
                excess = count - target
                first = [number for number, at in newly.items() if now - at > config.idle_timeout_ms][:excess]
                old = hash_order([PodNumber(number) for number, pod in unknown.items() if self._is_old(pod, now)])
                second = old[: excess - len(first)]
                if first or second:
                    deleted |= {*first, *second}
                    self.calls.append(("delete", tuple(sorted([*first, *second])), "Pending"))
                    if self.deletes:
                        for number in first:
                            del self.created[number]
                        pending -= len(second)
                        not_running -= len(first) + len(second)
            total_pending += pending
            total_not_running += not_running
            if not newly and count < target:
                consumers.append((profile, count, target, not_running))
        slots = config.pending_max - total_not_running  # 8
        if slots > 0 and consumers:
            share, rest = divmod(slots, len(consumers))  # 9
            for place, (profile, count, target, not_running) in enumerate(consumers):
                room = config.pending_max_per_profile - not_running
                self._request(min(target - count, config.batch_size, share + (place < rest), room), profile, now)
        self.deleted = deleted  # 10
        self.outstanding = total_pending + len(self.created)

    def _is_old(self, pod: Pod, now: int) -> bool:
        born = parse_instant(pod.manifest.created_at) if pod.manifest.created_at is not None else None
        return born is None or now - born > self.config.idle_timeout_ms

    def _request(self, count: int, profile: int, now: int) -> None:
        for _ in range(count):
            self.executors += 1
            if self.executors >= self.config.pods_max:
                raise Thrown("SparkException")
            self.calls.append(("create", self.executors, profile))
            if self.creates(self.executors):
                self.created[self.executors] = (profile, now)
            else:
                self.failures += 1
