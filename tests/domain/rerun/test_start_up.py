"""Starts that share machines: known answers, agreement with a reference that has no shortcuts, and the same luck for all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.rerun.behaviour import StartUp
from podtide.domain.rerun.start_up import SETTLED, SharedStartUp, Starts, WarmUp, latencies


def reference(startup: StartUp, requests: Sequence[Millis]) -> list[float]:
    """Processor sharing without virtual time: step from event to event, and take what each start advanced off its rest."""
    todo = sorted(range(len(requests)), key=lambda one: requests[one])
    rest: dict[int, float] = {}
    fixed: dict[int, float] = {}
    found = [0.0] * len(requests)
    now = float(min(requests, default=0))

    def machine(one: int) -> int:
        return one % startup.machines if startup.machines else one

    def rate(one: int) -> float:
        load = sum(machine(other) == machine(one) for other in (*rest, *fixed))
        return min(1.0, startup.parallel / load)

    while todo or rest or fixed:
        times = [now + left / rate(one) for one, left in rest.items()] + list(fixed.values())
        if todo:
            times.append(float(requests[todo[0]]))
        then = max(now, min(times))
        for one, speed in [(one, rate(one)) for one in rest]:
            rest[one] -= (then - now) * speed
        now = then
        for one in [one for one, left in rest.items() if left <= 1e-7]:
            found[one] = now - requests[one]
            del rest[one]
        for one in [one for one, at in fixed.items() if at <= now]:
            found[one] = now - requests[one]
            del fixed[one]
        while todo and requests[todo[0]] <= now:
            one = todo.pop(0)
            if one < len(startup.given):
                fixed[one] = now + startup.given[one]
            else:
                rest[one] = float(startup.work_ms[one % len(startup.work_ms)])
    return found


@pytest.mark.parametrize(
    ("parallel", "machines", "requests", "expected"),
    [
        (1.0, 1, [0], [1000]),
        (1.0, 1, [0, 0], [2000, 2000]),
        (2.0, 1, [0, 0], [1000, 1000]),
        (2.0, 1, [0, 0, 0, 0], [2000] * 4),
        (1.0, 1, [0, 500], [1500, 1500]),
        (1.0, 2, [0, 0, 0], [2000, 1000, 2000]),
        (1.0, 0, [0, 0, 0], [1000, 1000, 1000]),
        (math.inf, 1, [0, 0, 0], [1000, 1000, 1000]),
        (0.5, 1, [0], [2000]),
        (1.0, 1, [0, 5000], [1000, 1000]),
        (1.0, 1, [], []),
    ],
)
def test_known_answers(parallel: float, machines: int, requests: list[int], expected: list[int]) -> None:
    assert latencies(StartUp((1000,), parallel, machines), requests) == expected


@given(
    st.lists(st.integers(0, 9000), min_size=1, max_size=8).map(tuple),
    st.one_of(st.just(math.inf), st.floats(0.3, 5.0)),
    st.integers(0, 3),
    st.lists(st.integers(0, 6000), max_size=4).map(tuple),
    st.lists(st.integers(0, 8000), max_size=14).map(sorted),
)
def test_agrees_with_the_reference(
    work: tuple[int, ...], parallel: float, machines: int, given_ms: tuple[int, ...], requests: list[int]
) -> None:
    """A registration is rounded up to a millisecond, which holds its neighbours back by as little each time."""
    startup = StartUp(work, parallel, machines, given_ms)
    expected = reference(startup, requests)
    slack = 1 + len(requests) * max(1.0, 1.0 / parallel)
    for found, exact in zip(latencies(startup, requests), expected, strict=True):
        assert found == pytest.approx(exact, abs=slack)


def play(starts: Starts, requests: Sequence[Millis]) -> tuple[dict[int, Millis], dict[int, Millis]]:
    """When each registered and became ready."""
    registered: dict[int, Millis] = {}
    ready: dict[int, Millis] = {}

    def until(time: Millis) -> None:
        while (due := starts.due()) <= time and due != NEVER:
            registered.update(dict.fromkeys(starts.advance(due), due))
            ready.update(dict.fromkeys(starts.ready(), due))

    for ordinal, at in enumerate(requests):
        until(at)
        starts.request(at, ordinal)
    until(NEVER)
    return registered, ready


def test_a_start_that_is_cancelled_leaves_its_machine_to_the_others() -> None:
    starts = Starts(StartUp((1000,), 1.0, 1))
    for ordinal in range(3):
        starts.request(0, ordinal)
    assert starts.advance(300) == []
    starts.cancel(1, 300)
    assert len(starts) == 2
    assert starts.due() == 2100
    assert starts.advance(2100) == [0, 2]
    assert starts.due() == NEVER
    assert not len(starts)


@pytest.mark.parametrize("startup", [SharedStartUp((1000,), given=(500,), ready_ms=(100,)), StartUp((1000,))])
@pytest.mark.parametrize("extra_ms", [0, 50])
@pytest.mark.parametrize("when", [0, 20, 200])
def test_nothing_comes_of_a_cancelled_start(startup: StartUp, extra_ms: int, when: int) -> None:
    starts = Starts(startup, extra_ms=extra_ms)
    starts.request(0, 0)
    assert starts.advance(when) == []
    starts.cancel(0, when)
    assert starts.due() == NEVER
    assert starts.advance(10_000) == []


def test_cancelled_while_it_gets_ready() -> None:
    starts = Starts(SharedStartUp((1000,), ready_ms=(100,)))
    starts.request(0, 0)
    assert starts.advance(1000) == [0]
    starts.cancel(0, 1050)
    assert starts.due() == NEVER
    assert starts.ready() == []


def test_advancing_far_is_advancing_step_by_step() -> None:
    startup = StartUp((900, 400, 1300), 1.2, 2)
    far, steps = Starts(startup, 3), Starts(startup, 3)
    for ordinal in range(9):
        far.request(ordinal, ordinal)
        steps.request(ordinal, ordinal)
    order: list[int] = []
    while (due := steps.due()) != NEVER:
        order += steps.advance(due)
    assert far.advance(60_000) == order


def test_the_recorded_luck_is_in_order_and_starts_over() -> None:
    assert latencies(StartUp((5, 7, 9)), [0, 10, 20, 30, 40]) == [5, 7, 9, 5, 7]


def test_other_seeds_shuffle_and_what_an_ordinal_meets_depends_on_nothing_else() -> None:
    startup = StartUp(tuple(range(100, 200)))
    many = latencies(startup, [0] * 50, seed=4)
    assert latencies(startup, [0] * 20, seed=4) == many[:20]
    assert many != sorted(many)
    assert many != latencies(startup, [0] * 50, seed=5)


@given(st.lists(st.integers(1, 99), min_size=1, max_size=12), st.integers(0, 2**70))
def test_every_sample_is_met_once_before_any_is_met_again(samples: list[int], seed: int) -> None:
    met = latencies(StartUp(tuple(samples)), [0] * (3 * len(samples)), seed=seed)
    for again in range(3):
        assert sorted(met[again * len(samples) :][: len(samples)]) == sorted(samples)


def test_what_is_met_again_comes_in_another_order() -> None:
    met = latencies(StartUp(tuple(range(1, 41))), [0] * 80, seed=1)
    assert met[:40] != met[40:]


@pytest.mark.parametrize(
    "startup",
    [StartUp(()), StartUp((1,), 0.0), StartUp((1,), math.nan), StartUp((1,), machines=-1), StartUp((-1,)),
     StartUp((1,), given=(-5,)), SharedStartUp((1,), ready_ms=(-1,)), SharedStartUp((1,), driver_ms=-1)],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(startup: StartUp) -> None:
    with pytest.raises(ValueError, match="StartUp"):
        Starts(startup)


@pytest.mark.uncounted
def test_thousands_of_starts_on_one_machine_cost_little_each() -> None:
    found = latencies(StartUp((1000, 1500), 4.0, 1), list(range(20_000)))
    assert len(found) == 20_000
    assert min(found) >= 1000


@pytest.mark.parametrize(
    ("starts", "thought", "registered"),
    [(0, 1900, {}), (2, 3900, {0: 3000, 1: 3000}), (4, 5900, dict.fromkeys(range(4), 5000))],
)
def test_a_driver_on_the_machine_of_its_executors_is_slowed_by_them(
    starts: int, thought: int, registered: dict[int, int]
) -> None:
    """As in real runs: the first job comes 1.9 s after the driver is up, 3.8 s beside two starts, 6.1 s beside four."""
    crowd = Starts(SharedStartUp((1000,), 1.0, 1, driver_ms=1900))
    crowd.think(0)
    assert crowd.shares_driver
    assert crowd.thought_ms is None
    assert play(crowd, [0] * starts)[0] == registered
    assert crowd.thought_ms == thought


def test_a_first_task_takes_longer_while_others_start_and_slows_them_down() -> None:
    """One start of 1000 ms begins at 0. At 500 a first task brings 400 ms of work: both advance at half their speed."""
    starts = Starts(SharedStartUp((1000,), 1.0, machines=1))
    starts.request(0, 0)
    assert starts.advance(500) == []
    assert starts.warm_up(500, 400).lasts_ms == 800
    assert starts.due() == 1300  # the first task is done, the start has 100 ms to go
    assert starts.advance(1300) == []
    assert (starts.due(), starts.advance(1400)) == (1400, [0])


def test_whoever_begins_later_makes_a_first_task_longer() -> None:
    """Two first tasks of 400 ms of work that begin at once take 800 ms, the one that is counted first as well."""
    starts = Starts(SharedStartUp((1000,), 1.0, machines=1))
    one, two = starts.warm_up(0, 400), starts.warm_up(0, 400)
    assert (one.lasts_ms, two.lasts_ms) == (400, 800)
    assert (starts.warms(0, one.number), starts.warms(300, one.number), starts.warms(300, two.number)) == (
        800,
        500,
        500,
    )
    assert starts.advance(800) == []
    assert starts.warms(800, one.number) == 0


def test_who_has_a_machine_of_its_own_is_in_nobodys_way() -> None:
    starts = Starts(SharedStartUp((1000,), 1.0))
    starts.request(0, 0)
    assert starts.warm_up(500, 400) == WarmUp(SETTLED, 400)
    assert starts.advance(1000) == [0]


def test_waiting_takes_time_and_no_speed() -> None:
    """The second start waits a second before its work: until then the first has the machine for itself."""
    startup = SharedStartUp((1000, 1000), 1.0, machines=1, wait_ms=(0, 1000))
    assert latencies(startup, [0, 0]) == [1000, 2000]
    assert latencies(SharedStartUp((1000,), 1.0, machines=1, wait_ms=(500,), given=(3000, 200)), [0, 0, 0]) == [
        3000,
        200,
        1500,
    ]


def test_there_is_a_wait_for_each_work_or_none() -> None:
    with pytest.raises(ValueError, match="one for each of work_ms"):
        Starts(StartUp((1000, 2000), wait_ms=(1,)))
