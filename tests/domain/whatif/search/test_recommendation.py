"""What is recommended: by hand, and as properties over any figures."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from podtide.domain.whatif.search.pareto import dominates
from podtide.domain.whatif.search.recommendation import Figures, Miss, Reason, Row, TuneDemand, holds, verdict
from podtide.domain.whatif.search.space import AS_RAN, Candidate

BASE = Row(AS_RAN, {(0, 0): Figures(100_000, 10.0)})


def row(name: str, *figures: tuple[int, float], finished: bool = True, changes: int = 1) -> Row:
    """A config with one figure for each run, seed 0."""
    made = {(run, 0): Figures(time, price, finished) for run, (time, price) in enumerate(figures)}
    return Row(Candidate(name, tuple((f"spark.{at}", "1") for at in range(changes))), made)


def demand(within: float = 0.1, worth: float = 0.0, *misses: tuple[float, float], seeds: int = 1) -> TuneDemand:
    return TuneDemand(within, worth, tuple(Miss(*miss) for miss in misses or [(0.0, 0.0)]), seeds)


@pytest.mark.parametrize(
    ("asked", "reason", "name"),
    [
        (demand(), Reason.SAVES, "b"),
        (demand(0.0), Reason.SAVES, "a"),
        (demand(0.25), Reason.SAVES, "c"),
        (demand(0.1, 0.0, (0.06, 0.0)), Reason.SAVES, "a"),
        (demand(0.1, 0.0, (-0.06, 0.0)), Reason.SAVES, "a"),
        (demand(0.1, 0.25), Reason.TOO_LITTLE, "b"),
        (demand(0.1, 0.0, (0.0, 0.25)), Reason.OWN_ERROR, "b"),
        (demand(0.1, 0.01, (0.0, -0.25)), Reason.OWN_ERROR, "b"),
        (demand(0.1, 0.0, (0.3, 0.0)), Reason.NOTHING_CHEAPER, None),
        (demand(-0.05), Reason.FASTER, "d"),
        (demand(-0.5), Reason.NOTHING_FAST_ENOUGH, None),
    ],
)
def test_the_cheapest_that_holds_the_bound_and_is_worth_it(asked: TuneDemand, reason: Reason, name: str | None) -> None:
    rows = [
        row("a", (100_000, 9.0)),
        row("b", (105_000, 8.0)),
        row("c", (120_000, 5.0)),
        row("d", (90_000, 14.0)),
        row("e", (80_000, 1.0), finished=False),
        BASE,
    ]
    said = verdict(rows, BASE, asked)
    assert (said.reason, said.row and said.row.candidate.name) == (reason, name)


def test_the_worst_run_decides() -> None:
    base = Row(AS_RAN, {(0, 0): Figures(100, 10.0), (1, 0): Figures(1_000, 100.0)})
    rows = [row("a", (100, 9.0), (1_200, 50.0)), row("b", (110, 9.0), (1_050, 95.0))]
    said = verdict(rows, base, demand(0.1, 0.0, (0.0, 0.0), (0.0, 0.0)))
    assert said.row is not None
    assert said.row.candidate.name == "b"
    assert said.longer == pytest.approx(0.1)
    assert said.saving == pytest.approx(1 - 104 / 110)


def test_every_seed_decides() -> None:
    base = Row(AS_RAN, {(0, seed): Figures(100, 10.0) for seed in range(2)})
    lucky = Row(Candidate("lucky", (("k", "1"),)), {(0, 0): Figures(100, 1.0), (0, 1): Figures(150, 1.0)})
    dear = Row(Candidate("dear", (("k", "2"),)), {(0, 0): Figures(100, 2.0), (0, 1): Figures(100, 11.0)})
    calm = Row(Candidate("calm", (("k", "3"),)), {(0, 0): Figures(100, 8.0), (0, 1): Figures(109, 9.0)})
    said = verdict([lucky, dear, calm], base, demand(seeds=2))
    assert said.row is calm
    assert said.saving == pytest.approx(0.2)
    assert said.least == pytest.approx(0.1)


def test_of_equals_the_one_that_changes_least() -> None:
    rows = [row("b", (100_000, 5.0), changes=2), row("z", (100_000, 5.0), changes=1)]
    said = verdict(rows, BASE, demand())
    assert said.row is rows[1]


FIGURES = st.tuples(st.integers(50_000, 200_000), st.integers(1, 20).map(float))
ROWS = st.lists(st.tuples(FIGURES, FIGURES), max_size=12)
ERRORS = st.tuples(st.floats(-0.2, 0.2), st.floats(-0.2, 0.2))
TWO = Row(AS_RAN, {(0, 0): Figures(100_000, 10.0), (1, 0): Figures(120_000, 12.0)})


@given(ROWS, ERRORS, ERRORS, st.floats(0.0, 0.5), st.floats(0.0, 0.3))
def test_never_outside_the_bound_never_dearer_never_dominated_by_another_that_holds_it(
    figures: list[tuple[tuple[int, float], tuple[int, float]]],
    first: tuple[float, float],
    second: tuple[float, float],
    within: float,
    worth: float,
) -> None:
    rows = [row(f"c{at}", *both) for at, both in enumerate(figures)]
    asked = demand(within, worth, first, second)
    said = verdict(rows, TWO, asked)
    chosen = said.recommended
    if chosen is None:
        return
    for run, miss in enumerate(asked.misses):
        time = chosen.figures[run, 0].runtime_ms * (1 + abs(miss.runtime))
        assert time <= TWO.figures[run, 0].runtime_ms * (1 + within)
    assert said.saving > max(worth, said.error)
    assert not any(dominates(o.point(2), chosen.point(2)) for o in rows if holds(o, TWO, asked))


@given(ROWS, ERRORS, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_wider_bound_never_costs_more(
    figures: list[tuple[tuple[int, float], tuple[int, float]]], error: tuple[float, float], one: float, other: float
) -> None:
    rows = [row(f"c{at}", *both) for at, both in enumerate(figures)]
    narrow, wide = sorted((one, other))
    tight = verdict(rows, TWO, demand(narrow, 0.0, error, error)).recommended
    loose = verdict(rows, TWO, demand(wide, 0.0, error, error)).recommended
    if tight is not None:
        assert loose is not None
        assert loose.point(2).price <= tight.point(2).price


@given(ROWS, ERRORS, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_runs_makes_no_difference(
    figures: list[tuple[tuple[int, float], tuple[int, float]]], error: tuple[float, float], shuffle: random.Random
) -> None:
    rows = [row(f"c{at}", *both) for at, both in enumerate(figures)]
    mixed = [row(f"c{at}", second, first) for at, (first, second) in enumerate(figures)]
    shuffle.shuffle(mixed)
    swapped = Row(AS_RAN, {(0, 0): TWO.figures[1, 0], (1, 0): TWO.figures[0, 0]})
    one = verdict(rows, TWO, demand(0.2, 0.0, error, (0.0, 0.0)))
    other = verdict(mixed, swapped, demand(0.2, 0.0, (0.0, 0.0), error))
    assert one.reason is other.reason
    assert (one.row and one.row.candidate) == (other.row and other.row.candidate)
    assert one.saving == other.saving
