"""A step that raises leaves the version that it was given as it was; what was read before a step does not change with it.

Both hold for every machine, for a driver seen through its pods, and for the fakes. The exception comes at any line that a
step runs in the domain: a tracer raises there. So a change that is half made, or is noted and not made, is tried as well.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain import engine
from podtide.domain.backend import heartbeat_receiver
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.base.versioned import Exclusive, Inside, Versioned
from podtide.domain.fakes.driver import driver as drivers
from podtide.domain.fakes.kubernetes import cluster as clusters
from podtide.domain.fakes.kubernetes.description import KIND
from podtide.domain.fakes.yarn import cluster as yarn_clusters
from podtide.domain.live import headless
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.cluster_config import HeartbeatConfig
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pods import PodNumber
from tests.properties import (
    test_engine_properties as on_kubernetes,
    test_heartbeat_properties as beating,
    test_yarn_side_properties as on_yarn,
)
from tests.properties.pod_happenings import pod_stimuli
from tests.support.workload_play import Play, map_reduce
from tests.support.world_play import Driver
from tests.support.yarn_world_play import App, plain as plain_yarn

UNDO = "/domain/base/"
"""Lines of the undo log itself raise nothing: they are what takes the changes back."""

NO_STATE = ("plan", "undo_log", "names")
"""What of an inside tells nothing: the names of executors only ever grow, and one that nobody holds marks nothing."""

WHOSE = {"number": PodNumber(1), "profile": ProfileId(0), "executor": ExecutorId("1"), "alone": False}
"""What readers are asked about."""


class Boom(Exception):
    """What the tracer raises."""


def _counts(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return "/domain/" in name and UNDO not in name


def lines_of(step: Callable[[], object], stop: int = sys.maxsize) -> int:
    """Run a step; returns how many lines of the domain it runs. At the one of number ``stop`` it raises."""
    lines, over = 0, False

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines, over
        if frame.f_code is Exclusive.hand_over.__code__:
            over = True  # the step is made: what raises from here on is for the caller
        if not _counts(frame):
            return None
        if event == "line" and not over:
            lines += 1
            if lines == stop:
                raise Boom
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    finally:
        sys.settrace(before)
    return lines


def plain(value: Any) -> Any:
    """A value as plain data that shares nothing with it; of what owns an inside, that inside derived anew."""
    match value:
        case Versioned() | Exclusive():
            return {"of": type(value).__name__, **_slots(value), "inside": _inside(value._tables)}
        case float():
            return repr(value)  # not a number would differ from itself
        case None | bool() | int() | str() | bytes() | Enum():
            return value
        case Mapping():
            return {plain_key(key): plain(one) for key, one in value.items()}
        case AbstractSet():
            return {plain_key(one) for one in value}
        case tuple() | list():
            return [plain(one) for one in value]
        case _ if callable(value):
            return repr(value)
        case _ if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value) if field.name != "memo"}
        case _ if hasattr(value, "__iter__"):
            return [plain(one) for one in value]
        case _:
            return {type(value).__name__: _slots(value)}


def plain_key(key: object) -> object:
    """A key as it is: keys are immutable."""
    return key if isinstance(key, int | str | tuple | frozenset) or key is None else repr(key)


def _slots(value: Any) -> dict[str, Any]:
    names = [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]
    known = {name: getattr(value, name) for name in names if not name.startswith("_") and hasattr(value, name)}
    return {name: plain(one) for name, one in (known | getattr(value, "__dict__", {})).items() if name != "log"}


def _inside(inside: Any) -> Any:
    twin = inside.fork() if isinstance(inside, Inside) else inside.copy()
    if not isinstance(inside, Inside):
        twin.recount()
    return {name: one for name, one in _slots(twin).items() if name not in NO_STATE}


def fails_anywhere(step: Callable[[], object], state: object, where: float) -> None:
    """A step that raises, that far on its way, leaves the state as it was."""
    before = plain(state)  # the version owns its inside now, so that both runs begin alike
    lines = lines_of(step)
    if lines == 0:
        return
    assert plain(state) == before
    with pytest.raises(Boom):
        lines_of(step, 1 + int(where * (lines - 1)))
    assert plain(state) == before


def readings(value: Any, depth: int = 6) -> Iterator[object]:
    """Everything that readers get of a state: what its public methods answer, and those of what it is made of."""
    if depth == 0 or isinstance(value, str | int | Enum):
        return
    if isinstance(value, Versioned | Exclusive):
        for name in dir(type(value)):
            if not name.startswith("_") and name not in ("step", "step_at", "stepped", "hand_over", "fork"):
                member = getattr(value, name)
                if not callable(member):
                    yield member
                elif inspect.signature(member).parameters.keys() <= WHOSE.keys():
                    yield member(**{name: WHOSE[name] for name in inspect.signature(member).parameters})
    elif is_dataclass(value):
        for field in fields(value):
            yield from readings(getattr(value, field.name), depth - 1)
    elif isinstance(value, tuple):
        for one in value:
            yield from readings(one, depth - 1)


def stays(state: object, step: Callable[[], object], *more: object) -> None:
    """What was read of a state does not change with a step."""
    known = [one for one in (*readings(state), *more) if not isinstance(one, Iterator)]
    before = [plain(one) for one in known]
    step()
    assert [plain(one) for one in known] == before


where = st.floats(0, 1)


@settings(max_examples=40)
@given(on_kubernetes.configs(), on_kubernetes.applications, on_kubernetes.LUCK, st.lists(where, min_size=4, max_size=4))
def test_an_engine_on_kubernetes(
    config: EngineConfig, story: list[on_kubernetes.Happens], luck: on_kubernetes.Luck, places: list[float]
) -> None:
    run = on_kubernetes.Run(config, luck).live(story)
    for place, (state, stimuli, now, _) in enumerate(run.kept[:: max(1, len(run.kept) // 8)]):

        def step(state: Any = state, stimuli: Any = stimuli, now: int = now) -> object:
            return engine.advance(state, stimuli, config, now)

        stays(state, step)
        fails_anywhere(step, state, places[place % len(places)])


@settings(max_examples=40)
@given(on_yarn.configs, on_yarn.happenings, on_yarn.gap_lists, where)
def test_an_engine_on_yarn(config: EngineConfig, items: list[Any], gaps: list[int], place: float) -> None:
    state, now = engine.launch(config, 0).state, 0
    for item, gap in zip(items, gaps, strict=False):
        now += gap

        def step(state: Any = state, item: Any = item, now: int = now) -> engine.EngineState:
            return engine.advance(state, (item._replace(at=now),), config, now).state

        stays(state, step)
        fails_anywhere(step, state, place)
        state = step()


@given(beating.fleets(), st.booleans(), where)
def test_a_heartbeat_receiver(fleet: beating.Fleet, every_beat: bool, place: float) -> None:
    config = HeartbeatConfig(fleet.timeout, fleet.check, every_beat=every_beat)
    state = heartbeat_receiver.begin(0)
    for at, item in (*list(beating.story(fleet, every_beat=every_beat))[:8], (fleet.end, Wake(fleet.end))):

        def step(state: Any = state, item: Any = item, at: int = at) -> heartbeat_receiver.HeartbeatState:
            return heartbeat_receiver.listen(state, (item,), config, at).state

        stays(state, step)
        fails_anywhere(step, state, place)
        state = step()


@given(st.lists(st.lists(pod_stimuli, min_size=1, max_size=3), max_size=8), where)
def test_a_driver_seen_through_its_pods(story: list[list[Any]], place: float) -> None:
    state, config = headless.begin(), headless.HeadlessConfig()
    for batch in story:

        def step(state: headless.HeadlessState = state, batch: list[Any] = batch) -> headless.HeadlessState:
            return headless.drive(state, batch, config, 0).state

        stays(state, step)
        fails_anywhere(step, state, place)
        state = step()


PLACES = [0.0, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0]


def steps_of_a_fake(state: Any, fork: Callable[[Any], Any], step: Callable[[Any], Any], place: float) -> Any:
    """A step of a fake fails, leaves all as it was, and then succeeds as if nothing had been."""
    twin, victim = fork(state), fork(state)
    before, lines = plain(victim), lines_of(lambda: step(twin))
    with pytest.raises(Boom):
        lines_of(lambda: step(victim), 1 + int(place * (lines - 1)))
    assert plain(victim) == before
    expected = plain(step(fork(state)))
    stays(state, lambda: step(fork(state)))
    after = step(victim)
    assert plain(after) == expected
    return after


@pytest.mark.parametrize("place", PLACES)
def test_a_fake_kubernetes_cluster(place: float) -> None:
    driver = Driver(KIND, seed=4)
    driver.create(*range(1, 12))
    cluster, fork = driver.world, clusters.KubernetesCluster.fork
    for _ in range(60):
        at = clusters.due(cluster)

        def step(old: Any, at: Millis = at) -> Any:
            return clusters.advance(old, at)

        cluster, _ = steps_of_a_fake(cluster, fork, step, place)
    stays(
        cluster,
        lambda: clusters.advance(cluster.fork(), cluster.now),
        clusters.census(cluster),
        clusters.tally(cluster),
    )


@pytest.mark.parametrize("place", PLACES)
def test_a_fake_yarn_cluster(place: float) -> None:
    app = App(plain_yarn())
    app.request(9)
    app.until(1_500)
    cluster, fork = app.world, yarn_clusters.YarnCluster.fork
    for _ in range(40):
        at = yarn_clusters.due(cluster)

        def step(old: Any, at: Millis = at) -> Any:
            return yarn_clusters.advance(old, at)

        cluster, _ = steps_of_a_fake(cluster, fork, step, place)


@pytest.mark.parametrize("place", PLACES)
def test_a_fake_driver(place: float) -> None:
    """It is looked at by what it says: a step that raises is taken back by living through all that was once more."""
    play = Play(map_reduce(12, 5))
    play.join("1", "2", "3")
    play.until(1)
    play.lose("2")
    state = play.state
    for step in range(30):
        at = drivers.due(state)
        if at == NEVER:
            assert step > 6
            break
        undisturbed, fork = (drivers.fork(state) for _ in "ab")
        before = drivers.summary(state)
        after, expected = drivers.advance(undisturbed, at)
        lines = lines_of(partial(drivers.advance, fork, at))
        with pytest.raises(Boom):
            lines_of(partial(drivers.advance, state, at), 1 + int(place * (lines - 1)))
        assert (drivers.due(state), drivers.summary(state)) == (at, before)
        state, said = drivers.advance(state, at)
        assert said == expected
        assert drivers.summary(state) == drivers.summary(after)
    assert drivers.done(state)
