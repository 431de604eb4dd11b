"""What holds executors back, remembered so that it is reported once: when it begins, changes and ends.

A round says for each profile which bound keeps it from its target and by how much. ``settle`` compares this with what was
said before and yields the difference as reports (ARCHITECTURE, law 4). A machine that remembers its bounds in another way
makes each report with ``held``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyrsistent import PMap, pmap

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.protocol.reasons import Bound, Fact, Held, Phase

HoldKey: TypeAlias = tuple[ProfileId, Bound]
Holds: TypeAlias = PMap[HoldKey, PMap[str, Fact]]

NO_HOLDS: Holds = pmap()


def settle(before: Holds, now_held: Mapping[HoldKey, Mapping[str, Fact]], at: Millis) -> tuple[Holds, tuple[Held, ...]]:
    """What holds from now on, and what to report about it. Costs the bounds in force, which are few per profile."""
    if not before and not now_held:
        return before, ()
    reports: list[Held] = []
    after = before
    for key in before:
        if key not in now_held:
            reports.append(held(at, key, before[key], before=True, after=False))
            after = after.remove(key)
    for key, facts in now_held.items():
        known = before.get(key)
        if known is None or dict(known) != dict(facts):
            frozen = pmap(facts)
            reports.append(held(at, key, frozen, before=known is not None, after=True))
            after = after.set(key, frozen)
    return after, tuple(reports)


def held(at: Millis, key: HoldKey, facts: Mapping[str, Fact], *, before: bool, after: bool) -> Held:
    """A bound began (``after``), changed (``before`` and ``after``) or ended (``before``)."""
    profile, bound = key
    phase = Phase.ENDED if not after else Phase.CHANGED if before else Phase.BEGAN
    return Held(at, phase, bound, profile, facts=facts)
