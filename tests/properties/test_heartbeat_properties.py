"""Who falls silent always goes in time, and who is heard from never does, whatever else happens.

Executors are a small model: each beats at its own interval until it hangs or is removed. One source tells every heartbeat,
the other only where they stop; both must lead to the same executors at the same times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import given, strategies as st

from podtide.domain import engine
from podtide.domain.backend import heartbeat_receiver as receiver
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.cluster_config import HeartbeatConfig
from podtide.domain.protocol.executor_commands import RemoveExecutor
from podtide.domain.protocol.executor_stimuli import Heartbeat, HeartbeatsStopped, RegisterExecutor, Wake
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved
from tests.support.engine_play import config as engine_config


class Life(NamedTuple):
    """An executor's life: it is added, beats from then on every ``every`` ms, and hangs, or is removed, or neither."""

    executor: ExecutorId
    added: Millis
    every: Millis
    hangs: Millis | None
    removed: Millis | None

    def beats(self, end: Millis) -> range:
        """When it sends heartbeats."""
        stops = [end, *(at for at in (self.hangs, self.removed) if at is not None)]
        return range(self.added + self.every, min(stops) + 1, self.every)

    def last(self, end: Millis) -> Millis:
        """When it was last heard from."""
        return max(self.beats(end), default=self.added)


@dataclass(frozen=True)
class Fleet:
    """Executors, and how they are looked after."""

    lives: tuple[Life, ...]
    timeout: Millis
    check: Millis
    end: Millis

    def due(self, life: Life) -> Millis | None:
        """When it has to be given up: the first look at which it is silent for longer than the timeout."""
        if life.hangs is None:
            return None
        missed = life.last(self.end) + self.timeout + 1
        look = -(-missed // self.check) * self.check
        return look if life.removed is None or life.removed > look else None


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    check = draw(st.integers(1, 30))
    timeout = draw(st.integers(check, 90))
    lives = []
    for number in range(draw(st.integers(1, 20))):
        added = draw(st.integers(0, 100))
        hangs = draw(st.none() | st.integers(added, 250))
        removed = draw(st.none() | st.integers(added + 1, 400))
        every = draw(st.integers(1, timeout))
        lives.append(Life(ExecutorId(str(number)), added, every, hangs, removed))
    return Fleet(tuple(lives), timeout, check, 400)


def story(fleet: Fleet, *, every_beat: bool) -> Iterator[tuple[Millis, Any]]:
    """What is heard, in order; of one moment, what is added first and what is removed last."""
    heard: list[tuple[Millis, int, Any]] = []
    for life in fleet.lives:
        who = life.executor
        heard.append((life.added, 0, ExecutorAdded(life.added, who, ProfileId(0))))
        if every_beat:
            heard += [(at, 1, Heartbeat(at, who)) for at in life.beats(fleet.end)]
        elif life.hangs is not None and (life.removed is None or life.hangs < life.removed):
            heard.append((life.hangs, 1, HeartbeatsStopped(life.hangs, who, life.last(fleet.end))))
        if life.removed is not None:
            heard.append((life.removed, 2, ExecutorRemoved(life.removed, who)))
    return iter([(at, item) for at, _, item in sorted(heard, key=lambda one: one[:2])])


def given_up(fleet: Fleet, *, every_beat: bool) -> dict[ExecutorId, Millis]:
    """Who was given up, and when."""
    config = HeartbeatConfig(fleet.timeout, fleet.check, every_beat=every_beat)
    state = receiver.begin(0)
    gone: dict[ExecutorId, Millis] = {}
    end = ((fleet.end, Wake(fleet.end)),)
    for at, item in (*story(fleet, every_beat=every_beat), *end):
        while (due := receiver.due(state, config)) < at:
            step = receiver.listen(state, (Wake(due),), config, due)
            state = step.state
            assert all(command.silent_ms > fleet.timeout for command in step.commands)
            assert {command.executor for command in step.commands}.isdisjoint(gone)
            gone |= {command.executor: due for command in step.commands}
        state = receiver.listen(state, (item,), config, at).state
        looks = {executor for one in state.looks.values() for executor in one.executors}
        assert all(
            len(one.executors) <= one.most < 4 * len(one.executors) or one.most <= 4 for one in state.looks.values()
        )
        assert looks == set(state.expires) <= set(state.last_seen)
    return gone


@given(fleets())
def test_who_hangs_goes_in_time_and_who_beats_never(fleet: Fleet) -> None:
    gone = given_up(fleet, every_beat=True)
    expected = {life.executor: due for life in fleet.lives if (due := fleet.due(life)) is not None and due < fleet.end}
    assert gone == expected
    for life in fleet.lives:
        if life.executor in gone:
            assert 0 < gone[life.executor] - life.last(fleet.end) <= fleet.timeout + fleet.check


@given(fleets())
def test_telling_where_heartbeats_stop_is_telling_every_one(fleet: Fleet) -> None:
    """A source that passes over heartbeats that came in time leads to the same."""
    assert given_up(fleet, every_beat=False) == given_up(fleet, every_beat=True)


@given(fleets(), st.integers(0, 60))
def test_a_receiver_that_is_forked_goes_on_as_before(fleet: Fleet, cut: int) -> None:
    config = HeartbeatConfig(fleet.timeout, fleet.check, every_beat=True)
    heard = list(story(fleet, every_beat=True))
    state = receiver.begin(0)
    for at, item in heard[:cut]:
        state = receiver.listen(state, (item,), config, at).state
    first = second = state
    for at, item in heard[cut:]:
        one = receiver.listen(first, (item,), config, at)
        other = receiver.listen(second, (item,), config, at)
        assert (one.state, one.commands) == (other.state, other.commands)
        first, second = one.state, other.state


@given(fleets())
def test_in_an_application_who_hangs_is_removed_and_nobody_else(fleet: Fleet) -> None:
    """The same through the engine: registered executors, and what the driver endpoint is told."""
    heartbeats = HeartbeatConfig(fleet.timeout, fleet.check)
    settings = engine_config(initial=0, heartbeats=heartbeats)
    state = engine.launch(settings, 0).state
    gone: dict[ExecutorId, Millis] = {}

    def take(stimulus: Any, now: Millis) -> None:
        nonlocal state
        step = engine.advance(state, (stimulus,), settings, now)
        state = step.state
        for command in step.commands:
            if isinstance(command, RemoveExecutor) and command.why.cause is Cause.HEARTBEAT_TIMEOUT:
                gone.setdefault(command.executor, now)

    def pass_until(end: Millis) -> None:
        while (due := engine.wake_due(state, settings)) < end:
            take(Wake(due), due)

    for at, item in story(fleet, every_beat=False):
        pass_until(at)
        if isinstance(item, ExecutorAdded):
            take(RegisterExecutor(at, item.executor, ProfileId(0), "h", f"h:{item.executor}"), at)
        elif isinstance(item, HeartbeatsStopped):
            take(item, at)
    pass_until(1_000)
    hung = {
        life for life in fleet.lives if life.hangs is not None and (life.removed is None or life.hangs < life.removed)
    }
    assert set(gone) == {life.executor for life in hung}
    for life in hung:
        assert gone[life.executor] == fleet.due(life._replace(removed=None))
    assert state.kubernetes is not None
    assert set(state.kubernetes.backend.registry.executors) == {
        life.executor for life in fleet.lives if life not in hung
    }  # fmt: skip
    assert receiver.due(state.kubernetes.heartbeats, heartbeats) == NEVER
