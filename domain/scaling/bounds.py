"""The bounds in force between ticks, and the reports of those that began, changed or ended.

Held back: growth beyond the maximum, demand that the ratio leaves out. Kept alive: timed-out executors at the minimum or the
target, those of an unknown profile, and executors above the target that run tasks. What data keeps alive is the executor
monitor's to report (``timed_out_list``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyrsistent import PMap, pmap

from podtide.domain.base.units import UNKNOWN_PROFILE, Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Bound, Fact, Held, Phase
from podtide.domain.scaling.rules import ProfileRow, unscaled_need
from podtide.domain.scaling.state import BoundFacts, BoundKey, ScalingState

_OF_THE_LIST: Final = frozenset({Bound.MINIMUM, Bound.TARGET, Bound.UNKNOWN_PROFILE, Bound.REFUSED_KILL})


def bound_facts(**facts: Fact) -> BoundFacts:
    """The facts of a bound as a state remembers them."""
    return tuple(sorted(facts.items()))


def bounds_in_force(
    state: ScalingState, rows: Sequence[ProfileRow | SparkFault], config: ScalingConfig
) -> PMap[BoundKey, BoundFacts]:
    """The bounds in force, per profile; the state's own map if nothing about them has changed.

    ``rows``: the profiles at this moment. A bound keeps the facts under which it began as long as it holds, but for those of
    the list of timed-out executors. Refused kills stay as they were last answered.
    """
    old = state.bounds
    current: dict[BoundKey, BoundFacts] = {}
    for row in rows:
        if not isinstance(row, SparkFault):
            _of_profile(state, row, config, current)
    if state.idleness.stale():  # the next tick draws the list up anew: what it held back is reported then
        current.update({key: facts for key, facts in old.items() if key[0] in _OF_THE_LIST})
    else:
        _of_list(state, config, current)
    if not current and not old:
        return old
    if len(old) == len(current) and all(old.get(key) == facts for key, facts in current.items()):
        return old
    return pmap(current)


def _of_profile(
    state: ScalingState, row: ProfileRow, config: ScalingConfig, current: dict[BoundKey, BoundFacts]
) -> None:
    old, profile, target, needed = state.bounds, row.profile, row.target, row.need
    if needed > target >= config.executors_max:
        key = (Bound.MAXIMUM, profile)
        current[key] = old.get(key) or bound_facts(maximum=config.executors_max, need=needed)
    if config.ratio < 1.0:
        unscaled = unscaled_need(row)
        if unscaled > needed:
            key = (Bound.RATIO, profile)
            current[key] = old.get(key) or bound_facts(need=needed, need_without_ratio=unscaled)
    surplus = row.remaining - max(target, config.executors_min)
    if surplus > 0 and row.busy > 0 and not state.initializing:
        key = (Bound.RUNNING_TASK, profile)
        current[key] = old.get(key) or bound_facts(above_target=surplus, busy=row.busy)


def _of_list(state: ScalingState, config: ScalingConfig, current: dict[BoundKey, BoundFacts]) -> None:
    minimum = config.executors_min
    for profile, ids in state.idleness.timed_out().items():
        if profile == UNKNOWN_PROFILE:
            current[Bound.UNKNOWN_PROFILE, profile] = bound_facts(executors=len(ids))
            continue
        target = state.targets.get(profile, 0)
        kept = len(ids) - max(0, state.idleness.roster(profile).remaining - max(minimum, target))
        if kept > 0:
            bound = Bound.MINIMUM if minimum >= target else Bound.TARGET
            current[bound, profile] = bound_facts(executors=kept, minimum=minimum, target=target)
        refused = (Bound.REFUSED_KILL, profile)
        if kept < len(ids) and refused in state.bounds:
            current[refused] = state.bounds[refused]


def changed_bounds(
    before: Mapping[BoundKey, BoundFacts], after: Mapping[BoundKey, BoundFacts], now: Millis
) -> Iterator[Held]:
    """A report for each bound that began, changed or ended, by profile and name."""
    for key in sorted({*before, *after}, key=lambda k: (k[1], k[0].value)):
        old, new = before.get(key), after.get(key)
        if old != new:
            phase = Phase.ENDED if new is None else Phase.BEGAN if old is None else Phase.CHANGED
            yield Held(now, phase, key[0], key[1], (), pmap(dict(new or old or ())))
