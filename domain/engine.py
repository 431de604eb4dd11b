"""One step of everything: stimulus -> fold -> scale -> commands; and when the next step is due.

This is where machines meet. None of them knows another: the engine hands the load that a fold produced to the
decision that reads it. ``now`` is an argument here and everywhere; what a command led to comes back as the next
stimulus.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from podtide.domain import load as loads
from podtide.domain import scaling
from podtide.domain.commands import Report, ScalingCommand, Step
from podtide.domain.config import ScalingConfig
from podtide.domain.load import Load
from podtide.domain.scaling import ScalingState
from podtide.domain.stimuli import Answer, Reset, Stimulus, Stop, Tick
from podtide.domain.units import Millis

_TURNS = frozenset({Tick, Answer, Reset, Stop})


class State(NamedTuple):
    """All that is known at a moment. Immutable: an older state can be kept, compared and gone on from."""

    load: Load
    scaling: ScalingState


def start(config: ScalingConfig, now: Millis) -> Step[State, ScalingCommand]:
    """The state of an application that begins at ``now``, and the request for its initial executors."""
    load = loads.empty()
    begun = scaling.start(load, config, now)
    return Step(State(load, begun.state), begun.commands, begun.reports)


def step(
    state: State, stimulus: Stimulus | Sequence[Stimulus], config: ScalingConfig, now: Millis
) -> Step[State, ScalingCommand]:
    """Take one stimulus, or a batch of them in order, and decide.

    Events may be given many at a time: they are reflected in one fold, each at the time that it carries. The
    timer, answers, reset and stop take effect in their place in the batch. ``now`` is the time of the step, not
    before that of any stimulus. Never raises on any sequence of well-typed stimuli.

    Answer what a step asks before the next stimulus: in Spark the listener waits for the lock that schedule() holds
    during a call. Events that come in between are reflected at once, which Spark would do after the round.
    """
    batch: Sequence[Stimulus] = (stimulus,) if hasattr(stimulus, "_fields") else stimulus  # type: ignore[assignment]
    if _TURNS.isdisjoint(map(type, batch)):
        load = loads.fold(state.load, batch)
        decided = scaling.scale(state.scaling, (load,), config, now)
        return Step(State(load, decided.state), decided.commands, decided.reports)
    if len(batch) > 1:
        return _one_by_one(state, batch, config, now)
    # The timer, an answer, a reset or a stop: no task moves, so the load stays the version that it is.
    turn: Any = batch[0]
    decided = scaling.scale(state.scaling, (state.load.saying((), (turn,)),), config, now)
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
    """The earliest time at which a tick could change anything (``units.ALWAYS``: the next tick; ``NEVER``)."""
    return scaling.due(state.scaling, state.load, config)
