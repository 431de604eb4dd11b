"""Dynamic allocation alone: the listener's load and the allocation manager's decisions, one stimulus after the other.

``start`` begins, ``step`` goes on, ``due`` says when the timer next matters. A request or kill goes out as a command and is
answered by an ``Answer`` with its serial. Who answers does not matter here: under a cluster manager it is the scheduler
backend (``domain/engine.py``); in a replay it is the log.

Events carry their own times, since listener events may come in batches; the load, the executor monitor and the allocation
manager reckon from those. None of them is later than ``now``, the time of the step; ``step`` asserts that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast, get_args

from podtide.domain.base.units import Millis
from podtide.domain.protocol.commands import Report, ScalingCommand, Step
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.stimuli import Answer, Reset, Stimulus, Stop, Tick
from podtide.domain.scaling import due as scaling_due, load as loads, manager as scaling
from podtide.domain.scaling.load import Load
from podtide.domain.scaling.state import ScalingState

STIMULI: Final[frozenset[type]] = frozenset(get_args(Stimulus))
"""The types of all that dynamic allocation hears of."""

_TURNS: Final = frozenset({Tick, Answer, Reset, Stop})


class State(NamedTuple):
    """Dynamic allocation at a moment. Immutable: an older state can be kept, compared and gone on from."""

    load: Load
    scaling: ScalingState


def start(config: ScalingConfig, now: Millis) -> Step[State, ScalingCommand]:
    """Dynamic allocation of an application that begins at ``now``, and the request for its initial executors."""
    load = loads.empty()
    begun = scaling.start(load, config, now)
    return Step(State(load, begun.state), begun.commands, begun.reports)


def step(
    state: State, stimulus: Stimulus | Sequence[Stimulus], config: ScalingConfig, now: Millis
) -> Step[State, ScalingCommand]:
    """Take one stimulus of dynamic allocation, or a batch of them in order, and decide.

    Events may be given many at a time: they are reflected in one fold, each at the time that it carries. The
    timer, answers, reset and stop take effect in their place in the batch. Never raises on any sequence of
    well-typed stimuli of up to ``now``, the time of the step.

    Answer what a step asks before the next stimulus: in Spark the listener waits for the lock that schedule() holds
    during a call. Events that come in between are reflected at once, which Spark would do after the round.
    """
    batch = cast(Sequence[Stimulus], (stimulus,) if type(stimulus) in STIMULI else stimulus)
    assert all(one[0] <= now for one in batch), batch
    if _TURNS.isdisjoint(map(type, batch)):
        load = loads.fold(state.load, batch, repair_pending=config.repair_pending)
        decided = scaling.scale(state.scaling, (load,), config, now)
        return Step(State(load, decided.state), decided.commands, decided.reports)
    if len(batch) > 1:
        return _one_by_one(state, batch, config, now)
    # The timer, an answer, a reset or a stop: no task moves, so the load stays the version that it is.
    turn: Any = batch[0]
    decided = scaling.scale(state.scaling, (state.load.with_signals((), (turn,)),), config, now)
    return Step(State(state.load, decided.state), decided.commands, decided.reports)


def _one_by_one(
    state: State, batch: Sequence[Stimulus], config: ScalingConfig, now: Millis
) -> Step[State, ScalingCommand]:
    commands: list[ScalingCommand] = []
    reports: list[Report] = []
    for one in batch:
        state, more, news = step(state, (one,), config, now)
        commands.extend(more)
        reports.extend(news)
    return Step(state, tuple(commands), tuple(reports))


def due(state: State, config: ScalingConfig) -> Millis:
    """The earliest time at which a tick could change anything (``ALWAYS``: the next one; ``NEVER``)."""
    return scaling_due.due(state.scaling, state.load, config)
