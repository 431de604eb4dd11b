"""How many executors, and which to let go: a pure ExecutorAllocationManager.

Every 100 ms ``schedule()`` does three things in this order: it asks which executors have been idle for too long,
it moves the target of each resource profile, and it lets idle executors go as far as minimum and the *new* target
allow. Sections 3 to 5 of the dynamic allocation spec are its law; where two rules apply:

- while *initializing* (no stage yet, nothing timed out) no target moves;
- a need below the target lowers it at once, to ``max(need, minimum)``, whatever the backlog timer says;
- otherwise, and only once the one backlog timer of all profiles has expired, the target grows from
  ``max(target, executors)`` by the profile's next increment, cut to the need, then to maximum and minimum;
- the increment doubles only if it was used up exactly, and starts over at 1 otherwise;
- minimum, maximum and initial apply to each profile by itself.

The round stops where Spark waits for the scheduler backend: after a request or a kill it remembers where it was
(``awaiting``) and goes on when the ``Answer`` comes, at the time the round began. An exception inside schedule() is
Spark's business and therefore a report (``ScheduleThrew``); what had changed before it stays changed.

``due`` says when a tick could change anything at all, so that nobody has to tick in vain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, isnan
from typing import Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import PMap, pmap

from podtide.domain.base.units import (
    ALWAYS,
    DEFAULT_PROFILE,
    NEVER,
    UNKNOWN_PROFILE,
    ExecutorId,
    Millis,
    ProfileId,
    java_order,
)
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.hash_order import BUCKETS, Walk, grown, walk_order
from podtide.domain.protocol.commands import (
    Decommission,
    Departure,
    Kill,
    Report,
    RequestTotal,
    ScalingCommand,
    ScheduleThrew,
    Step,
    TargetChange,
)
from podtide.domain.protocol.config import ProfileRules, ScalingConfig
from podtide.domain.protocol.reasons import Bound, Cause, Fact, Held, Phase, Why
from podtide.domain.protocol.resource_profiles import default_profile, refusal, tasks_per_executor
from podtide.domain.protocol.stimuli import Answer, Reset, Stop, Tick
from podtide.domain.scaling import executor_monitor as idle_executors
from podtide.domain.scaling.executor_monitor import Idleness
from podtide.domain.scaling.load import Backlogged, Demand, Load, Placement, QueueEmptied, StageCame

_INT_MAX: Final = 2**31 - 1
_INT_MIN: Final = -(2**31)


class Update(NamedTuple):
    """TargetNumUpdates with its reason: one profile's target in the request under way."""

    profile: ProfileId
    before: int
    after: int
    why: Why


class Updating(NamedTuple):
    """The round waits for the answer to the request that moves targets."""

    serial: int
    at: Millis
    updates: tuple[Update, ...]


class Removing(NamedTuple):
    """The round waits to hear which executors will really go."""

    serial: int
    at: Millis
    departures: tuple[Departure, ...]


class Resyncing(NamedTuple):
    """The round waits for the answer to the request that follows every removal; then it marks ``removed``."""

    serial: int
    at: Millis
    asked: tuple[Departure, ...]
    removed: tuple[ExecutorId, ...]


Awaiting: TypeAlias = Updating | Removing | Resyncing

_OF_THE_LIST: Final = frozenset({Bound.MINIMUM, Bound.TARGET, Bound.UNKNOWN_PROFILE, Bound.REFUSED_KILL})

Hold: TypeAlias = tuple[tuple[str, Fact], ...]
"""The facts under which a bound was last reported, sorted by name."""


@dataclass(frozen=True, slots=True)
class ScalingState:
    """ExecutorAllocationManager's fields, the executor monitor's state, and where the round stands.

    ``order``: the profiles with a target in the order in which Scala's HashMap would walk them. ``sustained``:
    the backlog timer was last set by an increase. ``thrown``: what the last round ended in, if it threw.
    ``holds``: the profile bounds in force, as last reported. ``slots``: tasks per executor under ``rules``, worked out
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
    holds: PMap[tuple[Bound, ProfileId], Hold] = field(default_factory=pmap)
    slots: PMap[ProfileId, int] = field(default_factory=pmap)
    rules: ProfileRules | None = None
    buckets: int = BUCKETS
    memo: list[_Glance | None] = field(default_factory=lambda: [None], compare=False, repr=False)


class Plan(NamedTuple):
    """What updateAndSyncNumExecutorsTarget would do: targets and increments after it, and the updates.

    ``fault``: the exception it would end in; targets moved before it stay moved, but no request is sent.
    """

    targets: PMap[ProfileId, int]
    to_add: PMap[ProfileId, int]
    updates: tuple[Update, ...]
    slots: PMap[ProfileId, int]
    fault: SparkFault | None
    buckets: int


# ------------------------------------------------------------------------------------------------------- decisions


def start(load: Load, config: ScalingConfig, now: Millis) -> Step[ScalingState, ScalingCommand]:
    """start(): ask for the initial executors. The answer to this request changes nothing."""
    initial = config.executors_initial
    state = ScalingState(
        targets=pmap({DEFAULT_PROFILE: initial}),
        to_add=pmap({DEFAULT_PROFILE: 1}),
        order=(DEFAULT_PROFILE,),
        idleness=idle_executors.empty(config),
        serial=1,
    )
    why = Why(Cause.INITIAL, pmap({"target": initial, "minimum": config.executors_min}))
    change = TargetChange(DEFAULT_PROFILE, 0, initial, why)
    return Step(state, (_request(state, load.placement(), now, (change,), why),))


def scale(
    state: ScalingState,
    snapshots: Sequence[Load],
    config: ScalingConfig,
    now: Millis,  # noqa: ARG001 - every decision takes the same four; here each signal carries its own time
) -> Step[ScalingState, ScalingCommand]:
    """Act upon what each load signals, in order: the timer, the backlog, new stages, answers.

    ``now`` is the time of the step; signals carry their own, not later than that. Never raises.
    """
    commands: list[ScalingCommand] = []
    reports: list[Report] = []
    state = _under_rules(state, config)
    for load in snapshots:
        if load.recent:
            idleness = idle_executors.fold(state.idleness, load.recent, config)
            if not load.signals:
                state = _with_idleness(state, idleness)
                continue
            state = replace(state, idleness=idleness)
        for signal in load.signals:
            match signal:
                case StageCame():
                    step = _stage_came(state, signal, config)
                case Backlogged():
                    step = Step(_backlogged(state, signal.at, config))
                case QueueEmptied():
                    step = Step(_queue_emptied(state))
                case Tick():
                    idle = state.awaiting is not None or state.stopped
                    step = Step(state) if idle else _schedule(state, load, config, signal.at)
                case Answer():
                    step = _answered(state, load, config, signal)
                case Reset():
                    step = Step(_reset(state, config))
                case Stop():
                    step = Step(replace(state, stopped=True, awaiting=None))
                case _:
                    assert_never(signal)
            state = step.state
            commands.extend(step.commands)
            reports.extend(step.reports)
    return Step(state, tuple(commands), tuple(reports))


def due(state: ScalingState, load: Load, config: ScalingConfig) -> Millis:
    """The earliest time at which a tick could decide or report anything; ALWAYS for "the next one", or NEVER.

    Holds until the next stimulus. A tick before that time, and every tick that ``due`` lets pass, changes
    nothing, so skipping it decides exactly what ticking every 100 ms would.
    """
    return due_and_need(state, load, config)[0]


def due_and_need(state: ScalingState, load: Load, config: ScalingConfig) -> tuple[Millis, int | None]:
    """``due``, and the ``total_need`` where it came up on the way (None where it did not)."""
    if state.stopped or state.awaiting is not None:
        return NEVER, None
    state = _under_rules(state, config)
    idleness = state.idleness
    at = idleness.due()
    if at == ALWAYS:
        return ALWAYS, None
    if state.initializing:
        return ALWAYS if idleness.timed_out() else at, None
    glance = _glance(state)
    if glance is None or idleness.timed_out() or state.thrown is not None:
        return _due_in_full(state, load, config, at), None
    if glance.listed:
        return ALWAYS, None  # the list is empty: what it held back is held no longer
    ratio, minimum, maximum = config.ratio, config.executors_min, config.executors_max
    total = 0
    for profile, target, increment, slots, at_maximum, by_ratio, running in glance.rows:
        pending, speculative, unschedulable, active = load.demand(profile)
        roster = idleness.roster(profile)
        executors = roster.count
        tasks = pending + speculative + active
        needed = _need(tasks, speculative, unschedulable, slots, executors, ratio)
        if needed > 0:
            total += needed
        floor = target if target > minimum else minimum
        if needed < target:
            if increment != 1 or target != max(needed, minimum):
                return ALWAYS, None
        elif state.add_time < at:
            after = _grown(target, increment, executors, needed, config)
            if after != target or increment != 1:
                at = state.add_time
        busy_above = roster.busy > 0 and roster.remaining > floor
        if at_maximum is not (needed > target >= maximum) or running is not busy_above:
            return ALWAYS, None
        if by_ratio is not (ratio < 1.0 and _need(tasks, speculative, unschedulable, slots, executors, 1.0) > needed):
            return ALWAYS, None
    return at, total


def _due_in_full(state: ScalingState, load: Load, config: ScalingConfig, at: Millis) -> Millis:
    """``due`` where executors are timed out, or schedule() throws: compare with what a tick would do."""
    plan = _plan(state, load, config, expired=False)
    if _moves(state, plan):
        return ALWAYS
    if state.add_time != NEVER and _moves(state, _plan(state, load, config, expired=True)):
        at = min(at, state.add_time)
    fault = plan.fault
    if fault is None and state.idleness.timed_out():
        departures, fault = _departures(state, config)
        if fault is None and departures:
            return ALWAYS
    if (None if fault is None else str(fault)) != state.thrown:
        return ALWAYS
    if fault is None and _holds(state, load, config) != state.holds:
        return ALWAYS
    return at


class _Glance(NamedTuple):
    """What ``due`` asks of the state at every batch of events, laid out flat.

    A row: profile, target, increment, tasks per executor, and whether maximum, ratio and running tasks are reported as
    holding. ``listed``: a bound on timed-out executors is. The first four fields say what it was made from.
    """

    targets: object
    to_add: object
    slots: object
    holds: object
    rows: tuple[tuple[ProfileId, int, int, int, bool, bool, bool], ...]
    listed: bool


def _glance(state: ScalingState) -> _Glance | None:
    """The glance of a state, remembered as long as what it is made from stays; None if a profile is not worked out."""
    known = state.memo[0]
    if (
        known is not None
        and known.targets is state.targets
        and known.to_add is state.to_add
        and known.slots is state.slots
        and known.holds is state.holds
    ):
        return known
    if any(profile not in state.slots for profile in state.order):
        return None
    if grown(len(state.order), state.buckets) != state.buckets:
        return None  # the next update makes the table grow, and that is a change
    held = set(state.holds)
    rows = tuple(
        (
            profile,
            state.targets[profile],
            state.to_add[profile],
            state.slots[profile],
            (Bound.MAXIMUM, profile) in held,
            (Bound.RATIO, profile) in held,
            (Bound.RUNNING_TASK, profile) in held,
        )
        for profile in state.order
    )
    listed = any(bound in _OF_THE_LIST for bound, _ in held)
    glance = state.memo[0] = _Glance(state.targets, state.to_add, state.slots, state.holds, rows, listed)
    return glance


def _under_rules(state: ScalingState, config: ScalingConfig) -> ScalingState:
    """The state without what was worked out under other profile rules than the config's."""
    if state.rules is config.profile_rules:
        return state
    slots = state.slots if state.rules == config.profile_rules else pmap()
    return replace(state, rules=config.profile_rules, slots=slots)


def _moves(state: ScalingState, plan: Plan) -> bool:
    return plan.targets is not state.targets or plan.to_add is not state.to_add or plan.buckets != state.buckets


# --------------------------------------------------------------------------------------------------------- signals


def _with_idleness(state: ScalingState, idleness: Idleness) -> ScalingState:
    # dataclasses.replace costs several times as much, and this runs for every batch of events.
    return ScalingState(
        state.targets,
        state.to_add,
        state.order,
        idleness,
        state.add_time,
        state.initializing,
        state.sustained,
        state.stopped,
        state.serial,
        state.awaiting,
        state.thrown,
        state.holds,
        state.slots,
        state.rules,
        state.buckets,
        state.memo,
    )


def _stage_came(state: ScalingState, signal: StageCame, config: ScalingConfig) -> Step[ScalingState, ScalingCommand]:
    """onStageSubmitted: initializing ends, the backlog begins; a new profile gets the initial target at once."""
    profile = signal.profile
    state = replace(_backlogged(state, signal.at, config), initializing=False)
    if profile not in state.to_add:
        state = replace(state, to_add=state.to_add.set(profile, 1))
    if profile in state.targets:
        return Step(state)
    initial = config.executors_initial
    targets = state.targets.set(profile, initial)
    buckets = grown(len(state.targets), state.buckets)
    state = replace(state, targets=targets, order=walk_order(targets, buckets), buckets=buckets)
    if initial <= 0 or signal.placement is None:
        return Step(state)
    state = replace(state, serial=state.serial + 1)
    why = Why(Cause.NEW_PROFILE, pmap({"target": initial, "minimum": config.executors_min}))
    change = TargetChange(profile, 0, initial, why)
    return Step(state, (_request(state, signal.placement, signal.at, (change,), why),))


def _backlogged(state: ScalingState, at: Millis, config: ScalingConfig) -> ScalingState:
    """onSchedulerBacklogged: the timer starts unless it runs."""
    if state.add_time != NEVER:
        return state
    return replace(state, add_time=timer_end(at, config.backlog_timeout_ms), sustained=False)


def _queue_emptied(state: ScalingState) -> ScalingState:
    """onSchedulerQueueEmpty: the timer stops, every profile's increment starts over; targets stay."""
    to_add = state.to_add
    if any(n != 1 for n in to_add.values()):
        to_add = pmap(dict.fromkeys(to_add, 1))
    if state.add_time == NEVER and to_add is state.to_add:
        return state
    return replace(state, add_time=NEVER, to_add=to_add)


def _reset(state: ScalingState, config: ScalingConfig) -> ScalingState:
    """reset(): initial targets, increments of 1, no executors; the timer is at 0, i.e. expired, not unset."""
    buckets = grown(len(state.targets), state.buckets)
    return replace(
        state,
        buckets=buckets,
        order=state.order if buckets == state.buckets else walk_order(state.targets, buckets),
        add_time=0,
        sustained=False,
        targets=pmap(dict.fromkeys(state.targets, config.executors_initial)),
        to_add=pmap(dict.fromkeys(state.to_add, 1)),
        idleness=idle_executors.reset(state.idleness),
        awaiting=None,
    )


# ------------------------------------------------------------------------------------------------------- the round


def _schedule(
    state: ScalingState, load: Load, config: ScalingConfig, now: Millis
) -> Step[ScalingState, ScalingCommand]:
    """schedule(): first part, up to the request that moves targets."""
    idleness, reports = idle_executors.look(state.idleness, now)
    if idleness is not state.idleness:
        state = _with_idleness(state, idleness)
    if state.initializing:
        if not idleness.timed_out():
            return Step(state, (), reports)
        state = replace(state, initializing=False)
    expired = state.add_time != NEVER and now >= state.add_time
    plan = _plan(state, load, config, expired=expired)
    if _moves(state, plan) or plan.slots is not state.slots:
        state = replace(state, targets=plan.targets, to_add=plan.to_add, slots=plan.slots)
        if plan.buckets != state.buckets:
            state = replace(state, buckets=plan.buckets, order=walk_order(state.targets, plan.buckets))
    if plan.fault is not None:
        return _threw(state, now, str(plan.fault), reports)
    if not plan.updates:
        return _remove(state, load, config, now, (), reports)
    if config.testing:
        acknowledged = _acknowledged(state, plan.updates, config, now)
        return _remove(acknowledged, load, config, now, (), reports)
    serial = state.serial + 1
    state = replace(state, serial=serial, awaiting=Updating(serial, now, plan.updates))
    changes = tuple(TargetChange(u.profile, u.before, u.after, u.why) for u in plan.updates)
    request = _request(state, load.placement(), now, changes, changes[0].why)
    return Step(state, (request,), reports)


def _answered(
    state: ScalingState, load: Load, config: ScalingConfig, answer: Answer
) -> Step[ScalingState, ScalingCommand]:
    """The round goes on where it stopped. An answer that nobody waits for is let pass."""
    awaiting = state.awaiting
    if awaiting is None or awaiting.serial != answer.serial:
        return Step(state)
    state = replace(state, awaiting=None)
    match awaiting:
        case Updating(_, at, updates):
            # doUpdateRequest catches what the call throws and takes it for "not acknowledged".
            if answer.threw is None and answer.acked is not False:
                state = _acknowledged(state, updates, config, at)
            else:
                before = {u.profile: u.before for u in updates}
                state = replace(state, targets=state.targets.update(before))
            return _remove(state, load, config, at, (), ())
        case Removing(_, at, departures):
            if answer.threw is not None:
                return _threw(state, at, answer.threw, ())
            accepted = _accepted(answer, departures)
            if accepted:
                state = _with_idleness(state, idle_executors.deactivate(state.idleness, accepted))
            return _resync(state, load, at, departures, accepted)
        case Resyncing(_, at, asked, removed):
            if answer.threw is not None:
                return _threw(state, at, answer.threw, ())
            return _close_removal(state, load, config, at, asked, removed)
        case _:
            assert_never(awaiting)


def _accepted(answer: Answer, departures: tuple[Departure, ...]) -> tuple[ExecutorId, ...]:
    if isinstance(answer.acked, tuple):
        return answer.acked
    return tuple(d.executor for d in departures) if answer.acked else ()


def _acknowledged(state: ScalingState, updates: tuple[Update, ...], config: ScalingConfig, now: Millis) -> ScalingState:
    """The request was taken: increments double or start over, the timer starts anew after an increase."""
    to_add = state.to_add
    add_time, sustained = state.add_time, state.sustained
    for update in updates:
        delta = _int32(update.after - update.before)
        if delta > 0:
            increment = to_add[update.profile]
            to_add = to_add.set(update.profile, _int32(increment * 2) if delta == increment else 1)
            add_time, sustained = timer_end(now, config.sustained_backlog_timeout_ms), True
    return replace(state, to_add=to_add, add_time=add_time, sustained=sustained)


def _remove(
    state: ScalingState,
    load: Load,
    config: ScalingConfig,
    now: Millis,
    commands: tuple[ScalingCommand, ...],
    reports: tuple[Report, ...],
) -> Step[ScalingState, ScalingCommand]:
    """schedule(): second part, removeExecutors."""
    departures, fault = _departures(state, config)
    if fault is not None:
        return _threw(state, now, str(fault), reports)
    if not departures:
        return _close(state, load, config, now, commands, reports)
    if config.testing:
        step = _resync(state, load, now, departures, tuple(d.executor for d in departures))
        return Step(step.state, (*commands, *step.commands), reports)
    serial = state.serial + 1
    state = replace(state, serial=serial, awaiting=Removing(serial, now, departures))
    order: ScalingCommand = (
        Decommission(now, serial, departures) if config.decommission else Kill(now, serial, departures)
    )
    return Step(state, (*commands, order), reports)


def _resync(
    state: ScalingState, load: Load, now: Millis, asked: tuple[Departure, ...], removed: tuple[ExecutorId, ...]
) -> Step[ScalingState, ScalingCommand]:
    """After every removal, granted or not, Spark repeats the totals; only then are executors marked."""
    serial = state.serial + 1
    state = replace(state, serial=serial, awaiting=Resyncing(serial, now, asked, removed))
    why = Why(Cause.RESYNC, pmap({"asked": len(asked), "removed": len(removed)}))
    return Step(state, (_request(state, load.placement(), now, (), why),))


def _close_removal(
    state: ScalingState,
    load: Load,
    config: ScalingConfig,
    now: Millis,
    asked: tuple[Departure, ...],
    removed: tuple[ExecutorId, ...],
) -> Step[ScalingState, ScalingCommand]:
    if removed:
        idleness = idle_executors.mark(state.idleness, removed, decommissioned=config.decommission)
        state = _with_idleness(state, idleness)
    gone = set(removed)
    refused: dict[ProfileId, int] = {}
    for departure in asked:
        if departure.executor not in gone:
            refused[departure.profile] = refused.get(departure.profile, 0) + 1
    return _close(state, load, config, now, (), (), refused)


def _close(
    state: ScalingState,
    load: Load,
    config: ScalingConfig,
    now: Millis,
    commands: tuple[ScalingCommand, ...],
    reports: tuple[Report, ...],
    refused: Mapping[ProfileId, int] | None = None,
) -> Step[ScalingState, ScalingCommand]:
    """The end of a round: report what holds, if that is news."""
    holds = _holds(state, load, config)
    if refused:
        holds = holds.update({(Bound.REFUSED_KILL, p): _hold(executors=n) for p, n in refused.items()})
    elif refused is not None:
        holds = pmap({k: v for k, v in holds.items() if k[0] is not Bound.REFUSED_KILL})
    if holds != state.holds:
        reports = (*reports, *_compared(state.holds, holds, now))
        state = replace(state, holds=holds)
    if state.thrown is not None:
        state = replace(state, thrown=None)
    return Step(state, commands, reports)


def _threw(
    state: ScalingState, now: Millis, what: str, reports: tuple[Report, ...]
) -> Step[ScalingState, ScalingCommand]:
    threw = ScheduleThrew(now, what, repeated=state.thrown == what)
    return Step(replace(state, thrown=what), (), (*reports, threw))


# ------------------------------------------------------------------------------------------------------- the rules


def need(demand: Demand, slots: int, executors: int, ratio: float) -> int:
    """maxNumExecutorsNeededPerResourceProfile: executors that all tasks of a profile could keep busy.

    ``slots``: tasks per executor. ``executors``: those the profile has, which unschedulable task sets need more
    than. Doubles and 32-bit sums as in Spark; not cut to minimum or maximum.
    """
    pending, speculative, unschedulable, running = demand
    return _need(pending + speculative + running, speculative, unschedulable, slots, executors, ratio)


def _need(tasks: int, speculative: int, unschedulable: int, slots: int, executors: int, ratio: float) -> int:
    if not slots:
        needed = _over_zero(_int32(tasks) * ratio)
        return max(needed, _int32(executors + _over_zero(unschedulable * ratio))) if unschedulable > 0 else needed
    needed = _to_int(_int32(tasks) * ratio / slots)
    if speculative > 0 and slots > 1 and needed == 1:
        needed += 1  # a speculative copy runs on another host than its original
    if unschedulable > 0:
        needed = max(needed, _int32(executors + _to_int(unschedulable * ratio / slots)))
    return needed


def total_need(state: ScalingState, load: Load, config: ScalingConfig) -> int:
    """The needs of all profiles together; a profile that Spark cannot work out counts nothing."""
    state = _under_rules(state, config)
    glance = _glance(state)
    if glance is None:
        needs = [needed_executors(state, load, config, profile) for profile in state.order]
        return sum(max(0, n) for n in needs if not isinstance(n, SparkFault))
    total = 0
    for row in glance.rows:
        executors = state.idleness.roster(row[0]).count
        total += max(0, need(load.demand(row[0]), row[3], executors, config.ratio))
    return total


def _over_zero(value: float) -> int:
    """``math.ceil(value / 0.0).toInt``: an executor whose resources overflowed to nothing takes no task."""
    return 0 if value == 0 or isnan(value) else _INT_MAX if value > 0 else _INT_MIN


def needed_executors(state: ScalingState, load: Load, config: ScalingConfig, profile: ProfileId) -> int | SparkFault:
    """The need of one profile, or the exception that Spark ends in when it asks."""
    slots = _slots(_under_rules(state, config), load, config, profile)
    if isinstance(slots, SparkFault):
        return slots
    return need(load.demand(profile), slots, state.idleness.roster(profile).count, config.ratio)


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


def _plan(state: ScalingState, load: Load, config: ScalingConfig, *, expired: bool) -> Plan:
    """updateAndSyncNumExecutorsTarget without its call: profile by profile, in Scala's order."""
    targets, to_add, slots_known = state.targets, state.to_add, state.slots
    updates: list[Update] = []
    walk = Walk(state.order, state.buckets)
    grows = grown(len(state.order), state.buckets) != state.buckets
    for profile in walk if grows else state.order:
        known = slots_known.get(profile)
        slots = _slots(state, load, config, profile) if known is None else known
        if isinstance(slots, SparkFault):  # not kept: a profile that is unknown now may be announced yet
            return Plan(targets, to_add, (), slots_known, slots, walk.buckets)
        if known is None:
            slots_known = slots_known.set(profile, slots)
        demand = load.demand(profile)
        executors = state.idleness.roster(profile).count
        needed = need(demand, slots, executors, config.ratio)
        target, increment = targets[profile], to_add[profile]
        if needed < target:
            after, next_increment = max(needed, config.executors_min), 1
            walk.put()
        elif expired:
            if target < config.executors_max:
                walk.put()
            after = _grown(target, increment, executors, needed, config)
            next_increment = 1 if after == target else increment
        else:
            continue
        if next_increment != increment:
            to_add = to_add.set(profile, next_increment)
        if after != target:
            targets = targets.set(profile, after)
            facts = _facts(demand, slots, executors, needed, target, after, increment, config)
            cause = _cause(state, needed, target, after)
            updates.append(Update(profile, target, after, Why(cause, facts)))
    return Plan(targets, to_add, tuple(updates), slots_known, None, walk.buckets)


def _grown(target: int, increment: int, executors: int, needed: int, config: ScalingConfig) -> int:
    """addExecutors: from max(target, executors) by the increment, cut to need, then maximum, then minimum."""
    if target >= config.executors_max:
        return target
    wanted = _int32(max(target, executors) + increment)
    wanted = min(wanted, needed)
    return max(min(wanted, config.executors_max), config.executors_min)


def _cause(state: ScalingState, needed: int, target: int, after: int) -> Cause:
    if needed < target:
        return Cause.MINIMUM if after > target else Cause.LOWERED_NEED
    return Cause.SUSTAINED_BACKLOG if state.sustained else Cause.BACKLOG


def _facts(
    demand: Demand,
    slots: int,
    executors: int,
    needed: int,
    before: int,
    after: int,
    increment: int,
    config: ScalingConfig,
) -> PMap[str, Fact]:
    """The numbers behind a move of a target; ``bound``: what kept it from going further."""
    if needed < before:
        bound = Bound.MINIMUM if after > needed else Bound.NEED
    elif after == config.executors_max and after < needed:
        bound = Bound.MAXIMUM
    elif after > needed:
        bound = Bound.MINIMUM
    elif after < needed:
        bound = Bound.RAMP
    elif config.ratio < 1.0 and need(demand, slots, executors, 1.0) > needed:
        bound = Bound.RATIO
    else:
        bound = Bound.NEED
    return pmap(
        {
            "pending_tasks": demand.pending,
            "running_tasks": demand.running,
            "speculative_tasks": demand.speculative,
            "unschedulable_task_sets": demand.unschedulable,
            "tasks_per_executor": slots,
            "need": needed,
            "executors": executors,
            "increment": increment,
            "bound": bound.value,
        }
    )


def _departures(state: ScalingState, config: ScalingConfig) -> tuple[tuple[Departure, ...], SparkFault | None]:
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


# ------------------------------------------------------------------------------------------------------ what holds


def _hold(**facts: Fact) -> Hold:
    return tuple(sorted(facts.items()))


def _holds(state: ScalingState, load: Load, config: ScalingConfig) -> PMap[tuple[Bound, ProfileId], Hold]:
    """The bounds in force between ticks, per profile; refused kills stay as they were last answered.

    Held back: growth beyond the maximum, demand that the ratio leaves out. Kept alive: timed-out executors at
    the minimum or the target, those of an unknown profile, and executors above the target that run tasks.
    """
    found: dict[tuple[Bound, ProfileId], Hold] = {}
    old = state.holds
    idleness = state.idleness
    for profile in state.order:
        slots = _slots(state, load, config, profile)
        if isinstance(slots, SparkFault):
            continue
        target = state.targets[profile]
        roster = idleness.roster(profile)
        demand = load.demand(profile)
        needed = need(demand, slots, roster.count, config.ratio)
        if target >= config.executors_max and needed > target:
            key = (Bound.MAXIMUM, profile)
            found[key] = old.get(key) or _hold(maximum=config.executors_max, need=needed)
        if config.ratio < 1.0:
            unscaled = need(demand, slots, roster.count, 1.0)
            if unscaled > needed:
                key = (Bound.RATIO, profile)
                found[key] = old.get(key) or _hold(need=needed, need_without_ratio=unscaled)
        surplus = roster.remaining - max(target, config.executors_min)
        if surplus > 0 and roster.busy > 0 and not state.initializing:
            key = (Bound.RUNNING_TASK, profile)
            found[key] = old.get(key) or _hold(above_target=surplus, busy=roster.busy)
    if idleness.stale():  # the next tick draws the list up anew: what it held back is told then
        found.update({key: hold for key, hold in old.items() if key[0] in _OF_THE_LIST})
        return pmap(found) if found or old else old
    for profile, ids in idleness.timed_out().items():
        if profile == UNKNOWN_PROFILE:
            found[Bound.UNKNOWN_PROFILE, profile] = _hold(executors=len(ids))
            continue
        remaining = idleness.roster(profile).remaining
        target = state.targets.get(profile, 0)
        kept = len(ids) - max(0, remaining - max(config.executors_min, target))
        if kept > 0:
            bound = Bound.MINIMUM if config.executors_min >= target else Bound.TARGET
            found[bound, profile] = _hold(executors=kept, minimum=config.executors_min, target=target)
        refused = (Bound.REFUSED_KILL, profile)
        if kept < len(ids) and refused in old:
            found[refused] = old[refused]
    if not found and not old:
        return old
    return pmap(found)


def _compared(
    before: Mapping[tuple[Bound, ProfileId], Hold], after: Mapping[tuple[Bound, ProfileId], Hold], now: Millis
) -> Iterator[Held]:
    for key in sorted({*before, *after}, key=lambda k: (k[1], k[0].value)):
        old, new = before.get(key), after.get(key)
        if old != new:
            phase = Phase.ENDED if new is None else Phase.BEGAN if old is None else Phase.CHANGED
            yield Held(now, phase, key[0], key[1], (), pmap(dict(new or old or ())))


# -------------------------------------------------------------------------------------------------------- numbers


def timer_end(at: Millis, timeout_ms: Millis) -> Millis:
    """``nanoTime + timeout`` in signed 64 bits, as milliseconds: a huge timeout wraps around and is long past."""
    nanos = min(timeout_ms * 1_000_000, NEVER) + at * 1_000_000
    if nanos == NEVER:
        return NEVER
    if nanos > NEVER:
        return -((2**64 - nanos) // 1_000_000)
    return nanos // 1_000_000


def _int32(value: int) -> int:
    """Scala's Int: 32 bits that wrap around."""
    return value if _INT_MIN <= value <= _INT_MAX else (value + 2**31) % 2**32 - 2**31


def _to_int(value: float) -> int:
    """``math.ceil(x).toInt``: NaN is 0, what does not fit is cut."""
    if -2e9 < value < 2e9:
        return ceil(value)
    if isnan(value):
        return 0
    return max(_INT_MIN, min(_INT_MAX, ceil(value))) if abs(value) < 1e300 else (_INT_MAX if value > 0 else _INT_MIN)


def _request(
    state: ScalingState, placement: Placement, at: Millis, changes: tuple[TargetChange, ...], why: Why
) -> RequestTotal:
    return RequestTotal(at, state.serial, state.targets, placement.tasks, placement.hosts, changes, why)
