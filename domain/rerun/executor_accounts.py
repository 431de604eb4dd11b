"""The executors of a rerun by where they stand - asked for, on their way, there - and what is missing of them.

Every manager of a rerun keeps ``ExecutorAccounts``. They report each change of an executor to the tasks and to the
ledger, so that both see the same. ``missing`` says what keeps executors away from tasks that wait: those on their way, those
that there is no room for, and those that no request asks for yet, by the rule that held the target.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.ledger.ledger import LIMITS, Ledger
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.tasks import Tasks
from podtide.domain.scheduler.rows import ExecutorSlots, Standing

NONE_MISSING: Final = (0,) * len(LIMITS)


class Needs(NamedTuple):
    """Executors of a profile: that its tasks could keep busy, that the ratio allows, asked for, on their way, there;
    ``ending``: decommissioned, and counted by the cluster manager until they have ended."""

    needed: int
    allowed: int
    target: int
    coming: int
    there: int
    ending: int


class ExecutorAccounts:
    """Executors and what they count as. Keys in the ledger are ordinals of requests.

    ``scaling``: None of a static count. ``profiles``: by ordinal of request; ``lost``: by nobody's wish; ``enough``: how
    many executors the driver waits for before it goes on.
    """

    def __init__(self, plan: Plan, scaling: ScalingConfig | None, tasks: Tasks, ledger: Ledger) -> None:
        self.tasks = tasks
        self.ledger = ledger
        self.there: dict[ProfileId, int] = {}
        self.coming: dict[ProfileId, int] = {}
        self.ending: dict[ProfileId, int] = {}
        self._ending: set[int] = set()
        self.profiles: list[ProfileId] = []
        self.started = 0
        self.lost = 0
        self.registered = 0
        self.peak = 0
        self.slots = {profile: shape.slots for profile, shape in plan.shapes.items()}
        self._ratio = 1.0 if scaling is None else scaling.ratio
        self._most = plan.static if scaling is None else scaling.executors_max
        self.enough = (plan.static if scaling is None else scaling.executors_initial) * plan.registered_ratio

    def request(self, profile: ProfileId, now: Millis) -> int:
        """An executor is asked for; returns its key."""
        key = len(self.profiles)
        self.profiles.append(profile)
        self.coming[profile] = self.coming.get(profile, 0) + 1
        self.started += 1
        self.ledger.requested(key, now)
        return key

    def refuse(self, key: int) -> None:
        """The request was refused: nobody pays for it."""
        self.ledger.never_was(key)
        self.coming[self.profiles[key]] -= 1
        self.started -= 1

    def cancel(self, key: int, now: Millis) -> None:
        """It ended before it ever registered."""
        self.ledger.cancelled(key, now)
        self.coming[self.profiles[key]] -= 1

    def register(self, key: int, executor: ExecutorId, now: Millis, *, slots: int) -> ExecutorSlots:
        """It registered with the driver; tasks may start as soon as there are enough of the first executors."""
        profile = self.profiles[key]
        self.coming[profile] -= 1
        self.there[profile] = self.there.get(profile, 0) + 1
        self.registered += 1
        self.peak = max(self.peak, self.registered)
        known = self.tasks.join(executor, profile, slots, now, key=key)
        if self.registered >= self.enough:
            self.tasks.open(now)
        return known

    def stop_offering(self, executor: ExecutorSlots, now: Millis, *, decommissioned: bool) -> None:
        """It is told to go: it finishes what it runs, and counts no longer. One that is decommissioned ends by itself, and
        its cluster manager counts it until then."""
        self.tasks.stop_offering(executor)
        self.there[executor.profile] -= 1
        if decommissioned:
            self._ending.add(executor.key)
            self.ending[executor.profile] = self.ending.get(executor.profile, 0) + 1
        self.ledger.told_to_go(executor.key, now)

    def takes_room(self, executor: ExecutorSlots) -> bool:
        """Whether the cluster manager counts it."""
        return executor.standing is Standing.ACTIVE or executor.key in self._ending

    def remove(self, executor: ExecutorSlots, now: Millis, *, lost: bool) -> None:
        """The driver knows that it is gone."""
        if executor.standing is Standing.ACTIVE:
            self.there[executor.profile] -= 1
        if executor.key in self._ending:
            self._ending.remove(executor.key)
            self.ending[executor.profile] -= 1
        self.registered -= 1
        self.lost += lost
        self.tasks.remove(executor, now, lost=lost)

    def needs(self, targets: Mapping[ProfileId, int]) -> list[Needs]:
        """The executors of each profile: needed, allowed, asked for, coming, there and ending."""
        rows = []
        for profile in self.tasks.waiting.keys() | targets.keys():
            count = self.tasks.waiting.get(profile, 0) + self.tasks.running.get(profile, 0)
            each = self.slots.get(profile, 1) or 1
            needed = -(-count // each)
            allowed = needed if self._ratio >= 1.0 else -int(-(count * self._ratio / each) // 1)
            coming, there, ending = (counts.get(profile, 0) for counts in (self.coming, self.there, self.ending))
            rows.append(Needs(needed, allowed, targets.get(profile, 0), coming, there, ending))
        return rows

    def missing(self, targets: Mapping[ProfileId, int], *, ramped: bool) -> tuple[int, ...]:
        """How many executors each limit keeps away from tasks that wait, or from the driver, in the order of ``LIMITS``."""
        if targets and not self.tasks.is_open:
            awaited = max(0, math.ceil(self.enough) - self.registered)
            starting = min(awaited, sum(self.coming.values()))
            counts = {Limit.START_UP: starting, Limit.CAPACITY: awaited - starting}
            return tuple(counts.get(limit, 0) for limit in LIMITS)
        if not any(self.tasks.waiting.values()):
            return NONE_MISSING
        return _missing_by_limit(self.needs(targets), self._most, ramped=ramped)


def _missing_by_limit(needs: Iterable[Needs], most: int, *, ramped: bool) -> tuple[int, ...]:
    """The missing executors are, in this order: those on their way (start-up); those in whose place others still end
    (other); those asked for that do not come (capacity); those above the maximum; those that the ratio forgoes; the rest is
    the ramp's, or before its first step the backlog timeout's."""
    counts = dict.fromkeys(LIMITS, 0)
    for needed, allowed, target, coming, there, ending in needs:
        left = needed - there
        if left <= 0:
            continue
        for limit, count in (
            (Limit.START_UP, coming),
            (Limit.OTHER, min(ending, target - there - coming)),
            (Limit.CAPACITY, target - there - coming - ending),
            (Limit.MAXIMUM, needed - max(most, target)),
            (Limit.RATIO, min(needed, most) - max(allowed, target)),
        ):
            part = min(left, max(0, count))
            counts[limit] += part
            left -= part
        counts[Limit.RAMP if ramped else Limit.BACKLOG_TIMEOUT] += left
    return tuple(counts.values())
