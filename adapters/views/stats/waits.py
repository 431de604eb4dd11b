"""What a target waits for at every moment: the way of an executor from the request to its registration.

An executor that is wanted and not registered is somewhere on its way: not asked for yet, its creation under way, its pod on
no node, its container not up, its process not registered. While a target is not reached, as many executors are missing;
those that have come furthest will fill the gap, so the target waits for the one furthest behind among these. What keeps
that one is the cause of this moment. Every moment has exactly one cause, so the causes of a target sum to its time.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Final

from podtide.domain.protocol.reasons import Bound


class Wait(Enum):
    """What a target waits for, besides bounds. The texts are the names in every output, beside those of ``Bound``."""

    # not asked for
    ROUND = "next round"  # the allocator's next look, or YARN's next heartbeat
    REFUSED = "refused call"
    LOST = "lost executor"  # the allocator counts what is gone, and does not know it yet
    MASTER = "application master"
    QUEUE = "room in the queue"
    OFFER = "container"  # the queue has room, and the resource manager has given nothing yet
    # on the way
    API_CALL = "API call"
    LAUNCH = "launch"
    UNSEEN = "pod not seen"
    NODE = "node"
    CONTAINER = "container start"
    PROCESS = "executor start"


WAY: Final = (Wait.API_CALL, Wait.LAUNCH, Wait.UNSEEN, Wait.NODE, Wait.CONTAINER, Wait.PROCESS)
"""How far an executor can have come, the furthest last."""

_RANKS: Final = {wait: rank for rank, wait in enumerate(WAY)}

ASKING_BOUNDS: Final = frozenset(
    bound.value
    for bound in (
        Bound.BATCH_SIZE, Bound.PENDING_LIMIT, Bound.PENDING_LIMIT_PROFILE, Bound.UNACKNOWLEDGED, Bound.CLAIM_WAIT,
        Bound.POD_LIMIT, Bound.BACK_OFF, Bound.ROUND_ABORTED, Bound.RESOURCE_MANAGER, Bound.NODES_EXCLUDED,
    )
)  # fmt: skip
"""Bounds that keep executors from being asked for though the target has them; others bound the target itself."""


class Underway:
    """Executors that were asked for and have not registered, by name, and how far each has come."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, int]] = {}  # profile and rank
        self._counts: Counter[tuple[int, int]] = Counter()

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def begin(self, name: str, profile: int, wait: Wait) -> None:
        """An executor was asked for; one of this name is forgotten."""
        self.end(name)
        place = self._places[name] = (profile, _RANKS[wait])
        self._counts[place] += 1

    def reach(self, name: str, wait: Wait) -> None:
        """It has come so far; what is seen late takes nobody back. Unknown names are passed over."""
        before = self._places.get(name)
        if before is not None and before[1] < _RANKS[wait]:
            self.begin(name, before[0], wait)

    def rename(self, name: str, executor: str) -> None:
        """What was known by its pod's name is known by its executor id from now on."""
        place = self._places.get(name)
        if place is not None:
            self.end(name)
            self.begin(executor, place[0], WAY[place[1]])

    def end(self, name: str) -> None:
        """It has registered, or is gone."""
        place = self._places.pop(name, None)
        if place is not None:
            self._counts[place] -= 1

    def behind(self, profile: int, missing: int) -> Wait | None:
        """How far the last of the ``missing`` first executors has come; None where so many were not asked for."""
        for rank in reversed(range(len(WAY))):
            missing -= self._counts[profile, rank]
            if missing <= 0:
                return WAY[rank]
        return None
