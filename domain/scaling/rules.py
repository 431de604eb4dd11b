"""The rules of a round: how many executors a profile needs, where its target moves, and which idle executors may go.

They are ExecutorAllocationManager's maxNumExecutorsNeededPerResourceProfile, updateAndSyncNumExecutorsTarget, addExecutors
and removeExecutors, without their calls. ``profile_rows`` lays out what they read of each profile; ``moved`` is the one rule
by which a target moves, for the round that moves it and for ``due`` that asks whether a round would.

An exception that Spark would end in is a value here (``SparkFault``): a profile that nobody registered, a target that is
missing. Numbers are Scala's: doubles, and 32-bit sums that wrap around.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isnan
from typing import Final, NamedTuple

from pyrsistent import PMap, pmap

from podtide.domain.base.units import DEFAULT_PROFILE, UNKNOWN_PROFILE, ExecutorId, ProfileId, java_order
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.hash_order import Walk, grown
from podtide.domain.protocol.commands import Departure
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Bound, Cause, Fact, Why
from podtide.domain.protocol.resource_profiles import default_profile, refusal, tasks_per_executor
from podtide.domain.scaling.load import Demand, Load
from podtide.domain.scaling.state import ScalingState, TargetUpdate

_INT_MAX: Final = 2**31 - 1
_INT_MIN: Final = -(2**31)


@dataclass(slots=True)
class ProfileRow:
    """One profile as a round finds it.

    ``slots``: tasks per executor. ``remaining``: executors that no removal is under way for. ``need``: executors that all
    its tasks ask for.
    """

    profile: ProfileId
    target: int
    increment: int
    slots: int
    demand: Demand
    executors: int
    busy: int
    remaining: int
    need: int


class TargetPlan(NamedTuple):
    """What updateAndSyncNumExecutorsTarget would do: targets and increments after it, and the updates.

    ``fault``: the exception it would end in; targets moved before it stay moved, but no request is sent.
    """

    targets: PMap[ProfileId, int]
    to_add: PMap[ProfileId, int]
    updates: tuple[TargetUpdate, ...]
    slots: PMap[ProfileId, int]
    fault: SparkFault | None
    buckets: int


# -------------------------------------------------------------------------------------------------------- the need


def need(demand: Demand, slots: int, executors: int, ratio: float) -> int:
    """maxNumExecutorsNeededPerResourceProfile: executors that all tasks of a profile could keep busy.

    ``slots``: tasks per executor. ``executors``: those the profile has, which unschedulable task sets need more
    than. Doubles and 32-bit sums as in Spark; not cut to minimum or maximum.
    """
    pending, speculative, unschedulable, running = demand
    tasks = int32(pending + speculative + running)
    if not slots:
        needed = _over_zero(tasks * ratio)
        return max(needed, int32(executors + _over_zero(unschedulable * ratio))) if unschedulable > 0 else needed
    needed = _to_int(tasks * ratio / slots)
    if speculative > 0 and slots > 1 and needed == 1:
        needed += 1  # a speculative copy runs on another host than its original
    if unschedulable > 0:
        needed = max(needed, int32(executors + _to_int(unschedulable * ratio / slots)))
    return needed


def total_need(state: ScalingState, load: Load, config: ScalingConfig) -> int:
    """The needs of all profiles together; a profile that Spark cannot work out counts nothing."""
    state = state.under_rules(config)
    total = 0
    for profile in state.order:
        slots = _slots(state, load, config, profile)
        if not isinstance(slots, SparkFault):
            total += max(0, need(load.demand(profile), slots, state.idleness.counts(profile)[0], config.ratio))
    return total


def needed_executors(state: ScalingState, load: Load, config: ScalingConfig, profile: ProfileId) -> int | SparkFault:
    """The need of one profile, or the exception that Spark ends in when it asks."""
    row = _row(state.under_rules(config), load, config, profile)
    return row if isinstance(row, SparkFault) else row.need


def profile_rows(state: ScalingState, load: Load, config: ScalingConfig) -> list[ProfileRow | SparkFault]:
    """A row for each profile with a target, in Scala's order, or the exception that Spark ends in when it asks."""
    state = state.under_rules(config)
    return [_row(state, load, config, profile) for profile in state.order]


def _row(state: ScalingState, load: Load, config: ScalingConfig, profile: ProfileId) -> ProfileRow | SparkFault:
    slots = _slots(state, load, config, profile)
    if isinstance(slots, SparkFault):
        return slots
    demand = load.demand(profile)
    executors, busy, remaining = state.idleness.counts(profile)
    needed = need(demand, slots, executors, config.ratio)
    target, increment = state.targets[profile], state.to_add[profile]
    return ProfileRow(profile, target, increment, slots, demand, executors, busy, remaining, needed)


def _slots(state: ScalingState, load: Load, config: ScalingConfig, profile: ProfileId) -> int | SparkFault:
    known = state.slots.get(profile)
    if known is not None:
        return known
    rules = config.profile_rules
    if profile == DEFAULT_PROFILE:
        return tasks_per_executor(default_profile(rules), rules)
    # ResourceProfileManager registers the first profile of an id that some task fits, and refuses the others.
    for announced in load.resource_profiles(profile):
        if refusal(announced, rules) is None:
            return tasks_per_executor(announced, rules)
    return SparkFault("org.apache.spark.SparkException", f"ResourceProfileId {profile} not found!")


# ------------------------------------------------------------------------------------------------------ the target


def moved(row: ProfileRow, config: ScalingConfig, *, expired: bool) -> tuple[int, int]:
    """The target and the increment of a profile after a round. ``expired``: the backlog timer has run out.

    A need below the target lowers it. Otherwise addExecutors grows it, from max(target, executors) by the increment, cut to
    need, then maximum, then minimum; an increment that moved nothing starts over.
    """
    target, increment = row.target, row.increment
    if row.need < target:
        return max(row.need, config.executors_min), 1
    if not expired:
        return target, increment
    if target >= config.executors_max:
        return target, 1
    wanted = min(int32(max(target, row.executors) + increment), row.need)
    after = max(min(wanted, config.executors_max), config.executors_min)
    return after, 1 if after == target else increment


def is_written(row: ProfileRow, config: ScalingConfig, *, expired: bool) -> bool:
    """Whether a round puts the target into Spark's table, be it the same or another: that can make the table grow."""
    return row.need < row.target or (expired and row.target < config.executors_max)


def grows(state: ScalingState) -> bool:
    """Whether the next target that is put into Spark's table makes the table grow."""
    return grown(len(state.order), state.buckets) != state.buckets


def plan(state: ScalingState, load: Load, config: ScalingConfig, *, expired: bool) -> TargetPlan:
    """updateAndSyncNumExecutorsTarget without its call: profile by profile, in Scala's order."""
    targets, to_add, slots_known = state.targets, state.to_add, state.slots
    updates: list[TargetUpdate] = []
    walk = Walk(state.order, state.buckets)
    for profile in walk if grows(state) else state.order:
        row = _row(state, load, config, profile)
        if isinstance(row, SparkFault):  # not kept: a profile that is unknown now may be announced yet
            return TargetPlan(targets, to_add, (), slots_known, row, walk.buckets)
        if profile not in slots_known:
            slots_known = slots_known.set(profile, row.slots)
        if is_written(row, config, expired=expired):
            walk.put()
        after, increment = moved(row, config, expired=expired)
        if increment != row.increment:
            to_add = to_add.set(profile, increment)
        if after != row.target:
            targets = targets.set(profile, after)
            updates.append(TargetUpdate(profile, row.target, after, _why_moved(state, row, after, config)))
    return TargetPlan(targets, to_add, tuple(updates), slots_known, None, walk.buckets)


def _why_moved(state: ScalingState, row: ProfileRow, after: int, config: ScalingConfig) -> Why:
    """The numbers behind a move of a target; ``bound``: what kept it from going further."""
    before, needed = row.target, row.need
    if needed < before:
        cause = Cause.MINIMUM if after > before else Cause.LOWERED_NEED
        bound = Bound.MINIMUM if after > needed else Bound.NEED
    else:
        cause = Cause.SUSTAINED_BACKLOG if state.sustained else Cause.BACKLOG
        if after == config.executors_max and after < needed:
            bound = Bound.MAXIMUM
        elif after > needed:
            bound = Bound.MINIMUM
        elif after < needed:
            bound = Bound.RAMP
        elif config.ratio < 1.0 and unscaled_need(row) > needed:
            bound = Bound.RATIO
        else:
            bound = Bound.NEED
    facts: dict[str, Fact] = {
        "pending_tasks": row.demand.pending,
        "running_tasks": row.demand.running,
        "speculative_tasks": row.demand.speculative,
        "unschedulable_task_sets": row.demand.unschedulable,
        "tasks_per_executor": row.slots,
        "need": needed,
        "executors": row.executors,
        "increment": row.increment,
        "bound": bound.value,
    }
    return Why(cause, pmap(facts))


def unscaled_need(row: ProfileRow) -> int:
    """The need of a profile without executorAllocationRatio."""
    return need(row.demand, row.slots, row.executors, 1.0)


# ---------------------------------------------------------------------------------------------------- the removals


def departures(state: ScalingState, config: ScalingConfig) -> tuple[tuple[Departure, ...], SparkFault | None]:
    """removeExecutors' choice among the timed-out executors, or the exception that it ends in.

    Spark walks the ids in string order and lets one go while its profile has more executors left than minimum
    and target. Within a profile that is: the first ``remaining - max(minimum, target)`` ids.
    """
    chosen: list[Departure] = []
    faults: list[tuple[ExecutorId, SparkFault]] = []
    for profile, ids in state.idleness.timed_out().items():
        if profile == UNKNOWN_PROFILE:
            if config.testing:
                text = "ResourceProfile Id was UNKNOWN, this is not expected"
                faults.append((ids[0], SparkFault("org.apache.spark.SparkException", text)))
            continue
        remaining = state.idleness.roster(profile).remaining
        if remaining <= config.executors_min:
            continue
        target = state.targets.get(profile)
        if target is None:
            fault = SparkFault("java.util.NoSuchElementException", f"key not found: {profile}")
            faults.append((ids[0], fault))
            continue
        surplus = remaining - max(config.executors_min, target)
        chosen.extend(Departure(e, profile, _why_idle(state, e, config)) for e in ids[: max(0, surplus)])
    if faults:
        return (), min(faults, key=lambda fault: java_order(fault[0]))[1]
    chosen.sort(key=lambda departure: java_order(departure.executor))
    return tuple(chosen), None


def _why_idle(state: ScalingState, executor: ExecutorId, config: ScalingConfig) -> Why:
    tracker = state.idleness.tracker(executor)
    if tracker is None:  # listed, then removed in the same breath
        return Why(Cause.IDLE)
    cached = config.cached_idle_timeout_ms if tracker.cached else 0
    shuffle = config.shuffle_timeout_ms if tracker.shuffles else 0
    if max(cached, shuffle) <= config.idle_timeout_ms:
        cause = Cause.IDLE
    else:
        cause = Cause.CACHED_IDLE if cached > shuffle else Cause.SHUFFLE_IDLE
    timeout = max(config.idle_timeout_ms, cached, shuffle)
    return Why(cause, pmap({"idle_since_ms": tracker.idle_start, "timeout_ms": timeout}))


# -------------------------------------------------------------------------------------------------------- numbers


def int32(value: int) -> int:
    """Scala's Int: 32 bits that wrap around."""
    return value if _INT_MIN <= value <= _INT_MAX else (value + 2**31) % 2**32 - 2**31


def _to_int(value: float) -> int:
    """``math.ceil(x).toInt``: NaN is 0, what does not fit is cut."""
    if -2e9 < value < 2e9:
        return ceil(value)
    if isnan(value):
        return 0
    return max(_INT_MIN, min(_INT_MAX, ceil(value))) if abs(value) < 1e300 else (_INT_MAX if value > 0 else _INT_MIN)


def _over_zero(value: float) -> int:
    """``math.ceil(value / 0.0).toInt``: an executor whose resources overflowed to nothing takes no task."""
    return 0 if value == 0 or isnan(value) else _INT_MAX if value > 0 else _INT_MIN
