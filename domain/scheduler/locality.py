"""Delay scheduling (TaskSetManager, TaskSchedulerImpl.resourceOffers): tasks wait a while for the executor that holds what
they read.

A task prefers an executor (PROCESS_LOCAL), then its host (NODE_LOCAL), then any. A task set gives an executor only tasks
of its *level* or better. The level rises when nothing is left that prefers anybody, or when its wait is over
(spark.locality.wait.process, .node). It falls back, and the wait begins anew, when tasks were launched and no executor that
was offered was turned away: with an offer of one executor only while that holds since the last such fall
(spark.locality.wait.legacyResetOnTaskLaunch, off since Spark 3.1). Where some tasks prefer nobody, those of an executor's
host do not wait (TaskSetManager.dequeueTaskHelper with NO_PREF). An executor that is about to go, or is gone since the task
set was made, still counts as preferred, though it runs nothing: that is Spark's way, too (``moreTasksToRunIn``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from podtide.domain.base.units import NEVER, Millis


class LocalityLevel(IntEnum):
    """How near a task is to what it reads (TaskLocality)."""

    PROCESS_LOCAL = 0
    NODE_LOCAL = 1
    NO_PREF = 2
    ANY = 3


class LocalityWaits(NamedTuple):
    """For how long a task set stays at a level: spark.locality.wait.process and .node."""

    process_ms: Millis = 3_000
    node_ms: Millis = 3_000


WAITS: Final = LocalityWaits()


class PendingTasks:
    """The tasks of a task set that wait, by what they prefer (TaskSetManager.PendingTasksByLocality).

    ``wants``: the executor (its row) that a task prefers; ``host_of``: the host of an executor. The last to be put back is
    the first to be given away; else the lowest task is. ``places``: in which order tasks began for the first time.
    """

    def __init__(
        self, tasks: int, wants: Mapping[int, int], host_of: Callable[[int], int], waits: LocalityWaits, at: Millis
    ) -> None:
        self._wants = wants
        self._host_of = host_of
        self._waits = waits
        self._near: dict[int, list[int]] = {}
        self._hosts: dict[int, list[int]] = {}
        self._anyone: list[int] = []
        self.places: dict[int, int] = {}
        self.level = LocalityLevel.PROCESS_LOCAL
        self._since = at
        self._steady = True  # noRejectsSinceLastReset
        self._turned_away = False
        self._launched: LocalityLevel | None = None
        near, hosts = self._near, self._hosts
        for index in range(tasks - 1, -1, -1):
            executor = wants.get(index)
            if executor is None:
                self._anyone.append(index)
            elif executor in near:
                near[executor].append(index)
            else:
                near[executor] = [index]
        for executor, some in near.items():
            hosts.setdefault(host_of(executor), []).extend(some)
        for some in hosts.values():
            some.sort(reverse=True)
        self._all = list(range(tasks - 1, -1, -1))
        self._pending = set(self._all)
        self._preferring = tasks - len(self._anyone)
        self._levels = [one for one in LocalityLevel if one is not LocalityLevel.NO_PREF or self._anyone]

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, index: object) -> bool:
        return index in self._pending

    def append(self, index: int) -> None:
        """A task waits (again)."""
        self._pending.add(index)
        self._all.append(index)
        executor = self._wants.get(index)
        if executor is None:
            self._anyone.append(index)
            return
        self._preferring += 1
        self._near.setdefault(executor, []).append(index)
        self._hosts.setdefault(self._host_of(executor), []).append(index)

    def remove(self, index: int) -> None:
        """A task waits no more."""
        self._pending.remove(index)
        self._preferring -= index in self._wants

    def prefers(self, executor: int) -> bool:
        """Whether a task that waits prefers an executor."""
        return self._top(self._near.get(executor))

    def take_near(self, executor: int, at: Millis) -> int:
        """A task that prefers the executor, which is offered by itself and to nobody before."""
        index = self._near[executor].pop()
        self._pending.remove(index)
        self._preferring -= 1
        self.places.setdefault(index, len(self.places))
        self._turned_away = False
        if self._steady:
            self._since, self.level = at, LocalityLevel.PROCESS_LOCAL
        return index

    def begin_offer(self) -> None:
        """One executor is offered, or all of them."""
        self._turned_away, self._launched = False, None

    def end_offer(self, at: Millis, *, everybody: bool) -> None:
        """What an offer came to: perhaps the wait begins anew."""
        if self._turned_away:
            self._steady = False
        elif self._launched is not None and (everybody or self._steady):
            self._since, self.level, self._steady = at, self._launched, True

    @property
    def looks_again_at(self) -> Millis:
        """When the level rises by itself, if the offer before turned somebody away."""
        return self._since + self._waits[self.level] if self._turned_away and self.level < len(self._waits) else NEVER

    @property
    def levels(self) -> Sequence[LocalityLevel]:
        """What executors are offered in turn (myLocalityLevels)."""
        return self._levels

    def has(self, executor: int, at: Millis, most: LocalityLevel = LocalityLevel.ANY) -> bool:
        """Whether an executor would be given a task, at a level no worse than ``most``."""
        if not self._pending:
            return False
        found = self._find(executor, at, most) is not None
        self._turned_away |= not found and most is LocalityLevel.ANY
        return found

    def take(self, executor: int, at: Millis) -> int:
        """A task for an executor that would be given one."""
        found = self._find(executor, at, LocalityLevel.ANY)
        assert found is not None
        level, stack = found
        index = stack.pop()
        self.remove(index)
        self.places.setdefault(index, len(self.places))
        self._launched = level if self._launched is None else min(self._launched, level)
        return index

    def _find(self, executor: int, at: Millis, most: LocalityLevel) -> tuple[LocalityLevel, list[int]] | None:
        """Where the next task for an executor is, and what it would be near."""
        own = self._near.get(executor)
        if own and self._top(own):
            return LocalityLevel.PROCESS_LOCAL, own
        if most is LocalityLevel.PROCESS_LOCAL:
            return None
        free = most >= LocalityLevel.NO_PREF and LocalityLevel.NO_PREF in self._levels
        level = min(self._risen(at), most)
        if free or level >= LocalityLevel.NODE_LOCAL:
            here = self._hosts.get(self._host_of(executor))
            if here and self._top(here):
                return LocalityLevel.NODE_LOCAL, here
        if free and self._top(self._anyone):
            return LocalityLevel.PROCESS_LOCAL, self._anyone
        if level is LocalityLevel.ANY and self._top(self._all):
            return LocalityLevel.ANY, self._all
        return None

    def _risen(self, at: Millis) -> LocalityLevel:
        """getAllowedLocalityLevel."""
        while self.level < len(self._waits):
            wait = self._waits[self.level]
            if not self._preferring:
                self._since = at
            elif at - self._since >= wait:
                self._since += wait
            else:
                return self.level
            self.level = LocalityLevel(self.level + 1)
        self.level = LocalityLevel.ANY  # tasks that prefer nobody wait for nothing
        return self.level

    def _top(self, stack: list[int] | None) -> bool:
        """Whether the last of a stack waits; those that do not any more are dropped."""
        while stack and stack[-1] not in self._pending:
            stack.pop()
        return bool(stack)
