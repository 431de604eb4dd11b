"""Chance as arithmetic: known answers, exact everywhere, and distributions that are what they say."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base import randomness
from podtide.domain.base.randomness import (
    DELAY_MAX,
    Constant,
    Delay,
    Exponential,
    LogNormal,
    Quantiles,
    Uniform,
    bits,
    chance,
    draw,
    draw_active_ms,
    pick,
    split,
    stream,
    unit,
)

SEEDS = st.integers(-(2**70), 2**70)


def test_the_generator_is_splitmix64() -> None:
    """Vigna's reference implementation, seeded with 1234567."""
    state, values = 1234567, []
    for _ in range(5):
        value, state = bits(state)
        values.append(value)
    assert values == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip


def test_the_same_values_on_every_machine() -> None:
    """Written down once: a change here changes every story ever told."""
    state, drawn = stream(42), []
    for delay in (
        Uniform(5, 50),
        Exponential(60_000),
        LogNormal(8_000, 20_000),
        Quantiles(((0, 1), (50, 9), (100, 70))),
    ):
        ms, state = draw(state, delay)
        drawn.append(ms)
    assert (drawn, state) == ([32, 10487, 4003, 2], 2321553990214248054)


@pytest.mark.parametrize("x", [1e-300, 1e-9, 0.3, 0.7071, 1.0, 2.0, 3.7, 1e9, 1e300])
def test_log_is_the_logarithm(x: float) -> None:
    assert randomness.log(x) == pytest.approx(math.log(x), rel=1e-15, abs=1e-15)


@pytest.mark.parametrize("x", [-600.0, -3.3, -1e-9, 0.0, 0.5, 3.0, 100.0, 600.0])
def test_exp_is_the_exponential(x: float) -> None:
    assert randomness.exp(x) == pytest.approx(math.exp(x), rel=1e-13)


@pytest.mark.parametrize("u", [1e-9, 0.001, 0.02, 0.03, 0.1, 0.5, 0.9, 0.98, 0.999999])
def test_normal_is_the_inverse_of_the_normal_distribution(u: float) -> None:
    assert randomness.normal(u) == pytest.approx(NormalDist().inv_cdf(u), abs=1e-7)


@pytest.mark.parametrize(
    ("delay", "at_10", "at_50", "at_90"),
    [
        (Constant(7), 7, 7, 7),
        (Uniform(0, 99), 10, 50, 90),
        (Exponential(1_000), 105, 693, 2_303),
        (LogNormal(8_000, 20_000), 3_200, 8_000, 20_000),
        (LogNormal(500, 500), 500, 500, 500),
        (Quantiles(((0, 0), (50, 100), (100, 1_000))), 20, 100, 820),
        (Quantiles(((20, 5), (80, 9))), 5, 7, 9),
    ],
)
def test_quantiles(delay: Delay, at_10: int, at_50: int, at_90: int) -> None:
    assert [delay.quantile(u) for u in (0.1, 0.5, 0.9)] == [at_10, at_50, at_90]


DELAYS = st.one_of(
    st.builds(Constant, st.integers(0, DELAY_MAX)),
    st.tuples(st.integers(0, DELAY_MAX), st.integers(0, DELAY_MAX)).map(lambda p: Uniform(min(p), max(p))),
    st.builds(Exponential, st.integers(0, DELAY_MAX)),
    st.tuples(st.integers(1, DELAY_MAX), st.integers(1, DELAY_MAX)).map(lambda p: LogNormal(min(p), max(p))),
)


@given(DELAYS, st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_quantiles_rise_and_stay_within_bounds(delay: Delay, u: float, v: float) -> None:
    low, high = delay.quantile(min(u, v)), delay.quantile(max(u, v))
    assert 0 <= low <= high <= DELAY_MAX


@given(SEEDS)
def test_draws_move_the_stream_and_splits_do_not(seed: int) -> None:
    start = stream(seed)
    assert 0 <= start < 2**64
    value, after = unit(start)
    assert 0 <= value < 1
    assert after != start
    assert unit(start) == (value, after)
    assert split(start, 1) != split(start, 2)
    assert split(start, 1) == split(start, 1)


@given(st.sets(SEEDS, min_size=2, max_size=2))
def test_seeds_lead_to_streams_of_their_own(seeds: set[int]) -> None:
    one, other = map(stream, seeds)
    assert one != other


@pytest.mark.uncounted
def test_streams_are_even_and_independent() -> None:
    """The means of many streams and the correlation between neighbours, within five standard errors."""
    n, first, second, product = 40_000, 0.0, 0.0, 0.0
    for key in range(n):
        u, _ = unit(split(stream(3), key))
        v, _ = unit(split(stream(3), key + 1))
        first, second, product = first + u, second + v, product + (u - 0.5) * (v - 0.5)
    error = 5 * math.sqrt(1 / 12 / n)
    assert abs(first / n - 0.5) < error
    assert abs(second / n - 0.5) < error
    assert abs(product / n * 12) < 5 / math.sqrt(n)


def test_chances_and_picks_come_in_proportion() -> None:
    state, hits, picked = stream(9), 0, [0, 0, 0]
    for _ in range(20_000):
        hit, state = chance(state, 0.3)
        hits += hit
        place, state = pick(state, (1.0, 0.0, 3.0))
        picked[place] += 1
    assert abs(hits / 20_000 - 0.3) < 0.02
    assert picked[1] == 0
    assert abs(picked[0] / 20_000 - 0.25) < 0.02


@pytest.mark.parametrize(("probability", "happens"), [(0.0, False), (1.0, True)])
def test_never_and_always(probability: float, happens: bool) -> None:
    state = stream(5)
    for _ in range(100):
        hit, state = chance(state, probability)
        assert hit is happens


def test_rates() -> None:
    state, total = stream(4), 0
    for _ in range(20_000):
        wait, state = draw_active_ms(state, 60.0)
        total += wait
    assert total / 20_000 == pytest.approx(60_000, rel=0.04)
    assert draw_active_ms(stream(1), 1e-300)[0] == DELAY_MAX


def test_nothing_to_choose_from() -> None:
    assert pick(stream(1), (0.0, 0.0))[0] == 0
