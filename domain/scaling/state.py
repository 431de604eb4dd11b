"""The state of the allocation manager: ExecutorAllocationManager's fields, and where its round stands.

The round of schedule() stops at each call to the scheduler backend. What it waits for is one of ``Awaiting``; the ``Answer``
with that serial number lets it go on, at the time at which the round began.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from pyrsistent import PMap, pmap

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.jvm.hash_order import BUCKETS
from podtide.domain.protocol.commands import Departure
from podtide.domain.protocol.config import ProfileRules, ScalingConfig
from podtide.domain.protocol.reasons import Bound, Fact, Why
from podtide.domain.scaling.executor_monitor import Idleness


class TargetUpdate(NamedTuple):
    """TargetNumUpdates with its reason: one profile's target in the request under way."""

    profile: ProfileId
    before: int
    after: int
    why: Why


class Updating(NamedTuple):
    """The round waits for the answer to the request that moves targets."""

    serial: int
    at: Millis
    updates: tuple[TargetUpdate, ...]


class Removing(NamedTuple):
    """The round waits to hear which executors will really go."""

    serial: int
    at: Millis
    departures: tuple[Departure, ...]


class Resyncing(NamedTuple):
    """The round waits for the answer to the request that follows every removal; then it marks ``removed``."""

    serial: int
    at: Millis
    departures: tuple[Departure, ...]
    removed: tuple[ExecutorId, ...]


Awaiting: TypeAlias = Updating | Removing | Resyncing

BoundKey: TypeAlias = tuple[Bound, ProfileId]
BoundFacts: TypeAlias = tuple[tuple[str, Fact], ...]
"""The facts under which a bound was last reported, sorted by name."""


class ScalingState(NamedTuple):
    """ExecutorAllocationManager's fields, the executor monitor's state, and where the round stands.

    ``order``: the profiles with a target in the order in which Scala's HashMap would walk them. ``sustained``:
    the backlog timer was last set by an increase. ``thrown``: what the last round ended in, if it threw.
    ``bounds``: the profile bounds in force, as last reported. ``slots``: tasks per executor under ``rules``, worked out
    once. ``buckets``: the size of Scala's table of targets, which decides the order.
    """

    targets: PMap[ProfileId, int]
    to_add: PMap[ProfileId, int]
    order: tuple[ProfileId, ...]
    idleness: Idleness
    add_time: Millis = NEVER
    initializing: bool = True
    sustained: bool = False
    stopped: bool = False
    serial: int = 0
    awaiting: Awaiting | None = None
    thrown: str | None = None
    bounds: PMap[BoundKey, BoundFacts] = pmap()
    slots: PMap[ProfileId, int] = pmap()
    rules: ProfileRules | None = None
    buckets: int = BUCKETS

    def under_rules(self, config: ScalingConfig) -> ScalingState:
        """The state without what was worked out under other profile rules than the config's."""
        if self.rules is config.profile_rules:
            return self
        slots = self.slots if self.rules == config.profile_rules else pmap()
        return self._replace(rules=config.profile_rules, slots=slots)
