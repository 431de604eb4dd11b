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

from collections.abc import Mapping, Sequence
from typing import assert_never

from pyrsistent import pmap

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.jvm.hash_order import grown, walk_order
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
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Bound, Cause, Why
from podtide.domain.protocol.stimuli import Answer, Reset, Stop, Tick
from podtide.domain.scaling import executor_monitor
from podtide.domain.scaling.bounds import bound_facts, bounds_in_force, changed_bounds
from podtide.domain.scaling.load import Backlogged, Load, QueueEmptied, StageCame
from podtide.domain.scaling.load_tables import Placement
from podtide.domain.scaling.rules import departures, int32, plan, profile_rows
from podtide.domain.scaling.state import Removing, Resyncing, ScalingState, TargetUpdate, Updating


def start(load: Load, config: ScalingConfig, now: Millis) -> Step[ScalingState, ScalingCommand]:
    """start(): ask for the initial executors. The answer to this request changes nothing."""
    initial = config.executors_initial
    state = ScalingState(
        targets=pmap({DEFAULT_PROFILE: initial}),
        to_add=pmap({DEFAULT_PROFILE: 1}),
        order=(DEFAULT_PROFILE,),
        idleness=executor_monitor.empty(config),
        serial=1,
    )
    why = Why(Cause.INITIAL, pmap({"target": initial, "minimum": config.executors_min}))
    change = TargetChange(DEFAULT_PROFILE, 0, initial, why)
    return Step(state, (_request(state, load.placement(), now, (change,), why),))


def scale(
    state: ScalingState,
    snapshots: Sequence[Load],
    config: ScalingConfig,
    now: Millis,
) -> Step[ScalingState, ScalingCommand]:
    """Act upon what each load signals, in order: the timer, the backlog, new stages, answers.

    ``now`` is the time of the step. Signals carry their own, from which the rules reckon, and none is later than ``now``.
    Never raises but where that is not so.
    """
    commands: list[ScalingCommand] = []
    reports: list[Report] = []
    state = state.under_rules(config)
    for load in snapshots:
        if load.recent:
            state = state._replace(idleness=executor_monitor.fold(state.idleness, load.recent, config))
        for signal in load.signals:
            assert signal.at <= now, signal
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
                    step = Step(state._replace(stopped=True, awaiting=None))
                case _:
                    assert_never(signal)
            state = step.state
            commands.extend(step.commands)
            reports.extend(step.reports)
    return Step(state, tuple(commands), tuple(reports))


# --------------------------------------------------------------------------------------------------------- signals


def _stage_came(state: ScalingState, signal: StageCame, config: ScalingConfig) -> Step[ScalingState, ScalingCommand]:
    """onStageSubmitted: initializing ends, the backlog begins; a new profile gets the initial target at once."""
    profile = signal.profile
    state = _backlogged(state, signal.at, config)._replace(initializing=False)
    if profile not in state.to_add:
        state = state._replace(to_add=state.to_add.set(profile, 1))
    if profile in state.targets:
        return Step(state)
    initial = config.executors_initial
    targets = state.targets.set(profile, initial)
    buckets = grown(len(state.targets), state.buckets)
    state = state._replace(targets=targets, order=walk_order(targets, buckets), buckets=buckets)
    if initial <= 0 or signal.placement is None:
        return Step(state)
    state = state._replace(serial=state.serial + 1)
    why = Why(Cause.NEW_PROFILE, pmap({"target": initial, "minimum": config.executors_min}))
    change = TargetChange(profile, 0, initial, why)
    return Step(state, (_request(state, signal.placement, signal.at, (change,), why),))


def _backlogged(state: ScalingState, at: Millis, config: ScalingConfig) -> ScalingState:
    """onSchedulerBacklogged: the timer starts unless it runs."""
    if state.add_time != NEVER:
        return state
    return state._replace(add_time=timer_end(at, config.backlog_timeout_ms), sustained=False)


def _queue_emptied(state: ScalingState) -> ScalingState:
    """onSchedulerQueueEmpty: the timer stops, every profile's increment starts over; targets stay."""
    to_add = state.to_add
    if any(n != 1 for n in to_add.values()):
        to_add = pmap(dict.fromkeys(to_add, 1))
    if state.add_time == NEVER and to_add is state.to_add:
        return state
    return state._replace(add_time=NEVER, to_add=to_add)


def _reset(state: ScalingState, config: ScalingConfig) -> ScalingState:
    """reset(): initial targets, increments of 1, no executors; the timer is at 0, i.e. expired, not unset."""
    buckets = grown(len(state.targets), state.buckets)
    return state._replace(
        buckets=buckets,
        order=state.order if buckets == state.buckets else walk_order(state.targets, buckets),
        add_time=0,
        sustained=False,
        targets=pmap(dict.fromkeys(state.targets, config.executors_initial)),
        to_add=pmap(dict.fromkeys(state.to_add, 1)),
        idleness=executor_monitor.reset(state.idleness),
        awaiting=None,
    )


# ------------------------------------------------------------------------------------------------------- the round


def _schedule(
    state: ScalingState, load: Load, config: ScalingConfig, now: Millis
) -> Step[ScalingState, ScalingCommand]:
    """schedule(): first part, up to the request that moves targets."""
    idleness, reports = executor_monitor.look(state.idleness, now)
    if idleness is not state.idleness:
        state = state._replace(idleness=idleness)
    if state.initializing:
        if not idleness.timed_out():
            return Step(state, (), reports)
        state = state._replace(initializing=False)
    expired = state.add_time != NEVER and now >= state.add_time
    planned = plan(state, load, config, expired=expired)
    if planned.buckets != state.buckets:
        state = state._replace(buckets=planned.buckets, order=walk_order(planned.targets, planned.buckets))
    state = state._replace(targets=planned.targets, to_add=planned.to_add, slots=planned.slots)
    if planned.fault is not None:
        return _threw(state, now, str(planned.fault), reports)
    if not planned.updates:
        return _remove(state, load, config, now, reports)
    if config.testing:
        return _remove(_acknowledged(state, planned.updates, config, now), load, config, now, reports)
    serial = state.serial + 1
    state = state._replace(serial=serial, awaiting=Updating(serial, now, planned.updates))
    changes = tuple(TargetChange(u.profile, u.before, u.after, u.why) for u in planned.updates)
    request = _request(state, load.placement(), now, changes, changes[0].why)
    return Step(state, (request,), reports)


def _answered(
    state: ScalingState, load: Load, config: ScalingConfig, answer: Answer
) -> Step[ScalingState, ScalingCommand]:
    """The round goes on where it stopped. An answer that nobody waits for is let pass."""
    awaiting = state.awaiting
    if awaiting is None or awaiting.serial != answer.serial:
        return Step(state)
    state = state._replace(awaiting=None)
    match awaiting:
        case Updating(_, at, updates):
            # doUpdateRequest catches what the call throws and takes it for "not acknowledged".
            if answer.threw is None and answer.acked is not False:
                state = _acknowledged(state, updates, config, at)
            else:
                before = {u.profile: u.before for u in updates}
                state = state._replace(targets=state.targets.update(before))
            return _remove(state, load, config, at, ())
        case Removing(_, at, leaving):
            if answer.threw is not None:
                return _threw(state, at, answer.threw, ())
            accepted = _accepted(answer, leaving)
            if accepted:
                state = state._replace(idleness=executor_monitor.deactivate(state.idleness, accepted))
            return _resync(state, load, at, leaving, accepted)
        case Resyncing(_, at, leaving, removed):
            if answer.threw is not None:
                return _threw(state, at, answer.threw, ())
            return _close_removal(state, load, config, at, leaving, removed)
        case _:
            assert_never(awaiting)


def _accepted(answer: Answer, leaving: tuple[Departure, ...]) -> tuple[ExecutorId, ...]:
    if isinstance(answer.acked, tuple):
        return answer.acked
    return tuple(d.executor for d in leaving) if answer.acked else ()


def _acknowledged(
    state: ScalingState, updates: tuple[TargetUpdate, ...], config: ScalingConfig, now: Millis
) -> ScalingState:
    """The request was taken: increments double or start over, the timer starts anew after an increase."""
    to_add = state.to_add
    add_time, sustained = state.add_time, state.sustained
    for update in updates:
        delta = int32(update.after - update.before)
        if delta > 0:
            increment = to_add[update.profile]
            to_add = to_add.set(update.profile, int32(increment * 2) if delta == increment else 1)
            add_time, sustained = timer_end(now, config.sustained_backlog_timeout_ms), True
    return state._replace(to_add=to_add, add_time=add_time, sustained=sustained)


def _remove(
    state: ScalingState, load: Load, config: ScalingConfig, now: Millis, reports: tuple[Report, ...]
) -> Step[ScalingState, ScalingCommand]:
    """schedule(): second part, removeExecutors."""
    leaving, fault = departures(state, config)
    if fault is not None:
        return _threw(state, now, str(fault), reports)
    if not leaving:
        return _close(state, load, config, now, reports)
    if config.testing:
        step = _resync(state, load, now, leaving, tuple(d.executor for d in leaving))
        return Step(step.state, step.commands, reports)
    serial = state.serial + 1
    state = state._replace(serial=serial, awaiting=Removing(serial, now, leaving))
    order: ScalingCommand = Decommission(now, serial, leaving) if config.decommission else Kill(now, serial, leaving)
    return Step(state, (order,), reports)


def _resync(
    state: ScalingState, load: Load, now: Millis, leaving: tuple[Departure, ...], removed: tuple[ExecutorId, ...]
) -> Step[ScalingState, ScalingCommand]:
    """After every removal, granted or not, Spark repeats the totals; only then are executors marked."""
    serial = state.serial + 1
    state = state._replace(serial=serial, awaiting=Resyncing(serial, now, leaving, removed))
    why = Why(Cause.RESYNC, pmap({"asked": len(leaving), "removed": len(removed)}))
    return Step(state, (_request(state, load.placement(), now, (), why),))


def _close_removal(
    state: ScalingState,
    load: Load,
    config: ScalingConfig,
    now: Millis,
    leaving: tuple[Departure, ...],
    removed: tuple[ExecutorId, ...],
) -> Step[ScalingState, ScalingCommand]:
    if removed:
        idleness = executor_monitor.mark(state.idleness, removed, decommissioned=config.decommission)
        state = state._replace(idleness=idleness)
    gone = set(removed)
    refused: dict[ProfileId, int] = {}
    for departure in leaving:
        if departure.executor not in gone:
            refused[departure.profile] = refused.get(departure.profile, 0) + 1
    return _close(state, load, config, now, (), refused)


def _close(
    state: ScalingState,
    load: Load,
    config: ScalingConfig,
    now: Millis,
    reports: tuple[Report, ...],
    refused: Mapping[ProfileId, int] | None = None,
) -> Step[ScalingState, ScalingCommand]:
    """The end of a round: report the bounds in force, if that is news. ``refused``: kills, as just answered."""
    bounds = bounds_in_force(state, profile_rows(state, load, config), config)
    if refused:
        bounds = bounds.update({(Bound.REFUSED_KILL, p): bound_facts(executors=n) for p, n in refused.items()})
    elif refused is not None:
        bounds = pmap({k: v for k, v in bounds.items() if k[0] is not Bound.REFUSED_KILL})
    if bounds != state.bounds:
        reports = (*reports, *changed_bounds(state.bounds, bounds, now))
        state = state._replace(bounds=bounds)
    return Step(state._replace(thrown=None), (), reports)


def _threw(
    state: ScalingState, now: Millis, what: str, reports: tuple[Report, ...]
) -> Step[ScalingState, ScalingCommand]:
    threw = ScheduleThrew(now, what, repeated=state.thrown == what)
    return Step(state._replace(thrown=what), (), (*reports, threw))


def timer_end(at: Millis, timeout_ms: Millis) -> Millis:
    """``nanoTime + timeout`` in signed 64 bits, as milliseconds: a huge timeout wraps around and is long past."""
    nanos = min(timeout_ms * 1_000_000, NEVER) + at * 1_000_000
    if nanos == NEVER:
        return NEVER
    if nanos > NEVER:
        return -((2**64 - nanos) // 1_000_000)
    return nanos // 1_000_000


def _request(
    state: ScalingState, placement: Placement, at: Millis, changes: tuple[TargetChange, ...], why: Why
) -> RequestTotal:
    return RequestTotal(at, state.serial, state.targets, placement.tasks, placement.hosts, changes, why)
