"""What is recommended: by hand, and as properties over any figures."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from podtide.domain.whatif.search.recommendation import (
    FASTER,
    NEARLY,
    Figures,
    Reason,
    Row,
    TuneDemand,
    holds,
    knee,
    saving,
    verdict,
    worth_trying,
)
from podtide.domain.whatif.search.space import AS_RAN, Candidate
from tests.support.search_play import dominates

BASE = Row(AS_RAN, {(0, 0): Figures(100_000, 10.0)})


Factors = tuple[float, float]
"""By what nine of ten runs are slower and dearer at most."""

SURE: Factors = (1.0, 1.0)


def row(name: str, *figures: tuple[int, float], finished: bool = True, changes: int = 1, unsure: Factors = SURE) -> Row:
    """A config with one figure for each run, seed 0."""
    made = {(run, 0): Figures(time, price, finished, *unsure) for run, (time, price) in enumerate(figures)}
    return Row(Candidate(name, tuple((f"spark.{at}", "1") for at in range(changes))), made)


def demand(within: float = 0.1, worth: float = 0.0, runs: int = 1) -> TuneDemand:
    return TuneDemand(within, worth, runs)


@pytest.mark.parametrize(
    ("asked", "unsure", "reason", "name"),
    [
        (demand(), SURE, Reason.SAVES, "b"),
        (demand(0.0), SURE, Reason.SAVES, "a"),
        (demand(0.25), SURE, Reason.SAVES, "c"),
        (demand(0.1), (1.06, 1.0), Reason.SAVES, "a"),  # as it ran it is surer
        (demand(0.1, 0.25), SURE, Reason.TOO_LITTLE, "b"),
        (demand(0.1), (1.0, 1.3), Reason.UNSURE, "b"),
        (demand(0.1, 0.15), (1.0, 1.24), Reason.SAVES, "b"),
        (demand(0.1), (1.3, 1.0), Reason.NOTHING_CHEAPER, None),
        (demand(-0.05), SURE, Reason.FASTER, "d"),
        (demand(-0.05), (1.1, 1.0), Reason.NOTHING_FAST_ENOUGH, None),
        (demand(-0.5), SURE, Reason.NOTHING_FAST_ENOUGH, None),
    ],
)
def test_the_cheapest_that_holds_the_bound_and_is_worth_it(
    asked: TuneDemand, unsure: Factors, reason: Reason, name: str | None
) -> None:
    rows = [
        row("a", (100_000, 9.0), unsure=unsure),
        row("b", (105_000, 8.0), unsure=unsure),
        row("c", (120_000, 5.0), unsure=unsure),
        row("d", (90_000, 14.0), unsure=unsure),
        row("e", (80_000, 1.0), finished=False),
        BASE,
    ]
    found = verdict(rows, BASE, asked)
    assert (found.reason, found.row and found.row.candidate.name) == (reason, name)


def test_the_worst_run_decides() -> None:
    base = Row(AS_RAN, {(0, 0): Figures(100, 10.0), (1, 0): Figures(1_000, 100.0)})
    rows = [row("a", (100, 9.0), (1_200, 50.0)), row("b", (110, 9.0), (1_050, 95.0))]
    said = verdict(rows, base, demand(0.1, 0.0, 2))
    assert said.row is not None
    assert said.row.candidate.name == "b"
    assert said.longer == pytest.approx(0.1)
    assert said.saving == pytest.approx(1 - 104 / 110)


def test_of_several_seeds_the_median_decides_against_the_same_luck() -> None:
    base = Row(AS_RAN, {(0, seed): Figures(100 + seed, 10.0 + seed) for seed in range(3)})

    def config(name: str, *by_seed: tuple[int, float]) -> Row:
        return Row(Candidate(name, (("k", name),)), {(0, at): Figures(*one) for at, one in enumerate(by_seed)})

    slow = config("slow", (100, 1.0), (150, 1.0), (150, 1.0))
    dear = config("dear", (100, 2.0), (100, 12.0), (100, 13.0))
    calm = config("calm", (100, 8.0), (150, 9.0), (100, 50.0))
    found = verdict([slow, dear, calm], base, TuneDemand(0.1, 0.0, seeds=3, confirming=3))
    assert found.row is calm
    assert found.saving == pytest.approx(1 - 9 / 11)


def test_of_equals_the_one_that_changes_least() -> None:
    rows = [row("b", (100_000, 5.0), changes=2), row("z", (100_000, 5.0), changes=1)]
    said = verdict(rows, BASE, demand())
    assert said.row is rows[1]


@pytest.mark.parametrize(
    ("others", "name"),
    [
        ({}, None),
        ({"near": (100_000, 5.8)}, "near"),
        ({"dear": (100_000, 6.3)}, None),  # it keeps 74% of the saving
        ({"slow": (101_000, 5.8)}, None),  # slower than it ran
        ({"near": (100_000, 5.8), "fast": (80_000, 5.9)}, "fast"),
        ({"near": (90_000, 5.1), "fast": (89_000, 5.9)}, "near"),  # a percent less time costs more than a percent
    ],
)
def test_the_knee_is_nearly_as_cheap_and_no_slower_than_it_ran(
    others: dict[str, tuple[int, float]], name: str | None
) -> None:
    rows = [row("cheapest", (109_000, 5.0)), *(row(one, figures) for one, figures in others.items())]
    picked = verdict(rows, BASE, demand())
    assert picked.row is rows[0]
    beside = knee(rows, BASE, demand(), picked)
    assert (beside and beside.row and beside.row.candidate.name) == name


def test_beside_what_is_no_slower_itself_a_percent_of_time_costs_less_than_a_percent() -> None:
    for price, name in ((5.2, "faster"), (5.6, None)):
        rows = [row("cheapest", (100_000, 5.0)), row("faster", (95_000, price))]
        beside = knee(rows, BASE, demand(), verdict(rows, BASE, demand()))
        assert (beside and beside.row and beside.row.candidate.name) == name


def test_no_knee_beside_what_nobody_is_sure_of_or_what_was_asked_to_be_fast() -> None:
    rows = [row("cheapest", (109_000, 5.0)), row("near", (80_000, 5.8), unsure=(1.3, 1.0))]
    assert knee(rows, BASE, demand(), verdict(rows, BASE, demand())) is None
    rows = [row("fast", (80_000, 11.0)), row("faster", (50_000, 11.1))]
    asked = demand(-0.1)
    assert knee(rows, BASE, asked, verdict(rows, BASE, asked)) is None


FIGURES = st.tuples(st.integers(50_000, 200_000), st.integers(1, 20).map(float))
ROWS = st.lists(st.tuples(FIGURES, FIGURES), max_size=12)
UNSURE = st.tuples(st.floats(1.0, 1.3), st.floats(1.0, 1.3))
TWO = Row(AS_RAN, {(0, 0): Figures(100_000, 10.0), (1, 0): Figures(120_000, 12.0)})


@given(ROWS, UNSURE, st.floats(0.0, 0.5), st.floats(0.0, 0.3))
def test_never_outside_the_bound_never_dearer_never_dominated_by_another_that_holds_it(
    figures: list[tuple[tuple[int, float], tuple[int, float]]], unsure: Factors, within: float, worth: float
) -> None:
    rows = [row(f"c{at}", *both, unsure=unsure) for at, both in enumerate(figures)]
    asked = demand(within, worth, 2)
    found = verdict(rows, TWO, asked)
    chosen = found.recommended
    if chosen is None:
        return
    for run in range(2):
        time = chosen.figures[run, 0].runtime_ms * unsure[0]
        assert time <= TWO.figures[run, 0].runtime_ms * (1 + within) * (1 + 1e-12)
    assert found.saving >= max(worth, found.least)
    assert found.least > 0
    assert not any(dominates(o.point(2), chosen.point(2)) for o in rows if holds(o, TWO, asked))


@given(ROWS, UNSURE, st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_a_wider_bound_never_costs_more(
    figures: list[tuple[tuple[int, float], tuple[int, float]]], unsure: Factors, one: float, other: float
) -> None:
    rows = [row(f"c{at}", *both, unsure=unsure) for at, both in enumerate(figures)]
    narrow, wide = sorted((one, other))
    tight = verdict(rows, TWO, demand(narrow, 0.0, 2)).recommended
    loose = verdict(rows, TWO, demand(wide, 0.0, 2)).recommended
    if tight is not None:
        assert loose is not None
        assert loose.point(2).price <= tight.point(2).price


@given(ROWS, UNSURE, st.floats(0.0, 0.5), st.floats(0.0, 0.3))
def test_a_knee_is_faster_than_the_cheapest_and_slower_on_no_run_than_it_ran(
    figures: list[tuple[tuple[int, float], tuple[int, float]]], unsure: Factors, within: float, worth: float
) -> None:
    rows = [row(f"c{at}", *both, unsure=unsure) for at, both in enumerate(figures)]
    asked = demand(within, worth, 2)
    picked = verdict(rows, TWO, asked)
    beside = knee(rows, TWO, asked, picked)
    if beside is None or beside.row is None or picked.row is None:
        return
    assert beside.longest <= 1e-9
    assert beside.least > 0
    assert beside.saving >= max(worth, NEARLY * saving(picked.row, TWO, asked))
    assert beside.row.point(2).time <= (1 - FASTER) * picked.row.point(2).time


@given(ROWS, UNSURE, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_runs_makes_no_difference(
    figures: list[tuple[tuple[int, float], tuple[int, float]]], unsure: Factors, shuffle: random.Random
) -> None:
    rows = [row(f"c{at}", *both, unsure=unsure) for at, both in enumerate(figures)]
    mixed = [row(f"c{at}", second, first, unsure=unsure) for at, (first, second) in enumerate(figures)]
    shuffle.shuffle(mixed)
    swapped = Row(AS_RAN, {(0, 0): TWO.figures[1, 0], (1, 0): TWO.figures[0, 0]})
    one = verdict(rows, TWO, demand(0.2, 0.0, 2))
    other = verdict(mixed, swapped, demand(0.2, 0.0, 2))
    assert one.reason is other.reason
    assert (one.row and one.row.candidate) == (other.row and other.row.candidate)
    assert one.saving == other.saving


def setting(keys: str, time: int, price: float, unsure: Factors = SURE) -> Row:
    """A config that changes these keys, a letter each; none: a static count."""
    changes = tuple((key, "1") for key in keys)
    return Row(Candidate(f"{keys}:{time}", changes, None if keys else 4), {(0, 0): Figures(time, price, True, *unsure)})


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (
            [setting("a", 100_000, 9.0), setting("b", 80_000, 10.0), setting("", 90_000, 8.0)],
            [":90000", "b:80000", "a:100000"],
        ),
        ([setting("a", 100_000, 9.0), setting("a", 105_000, 8.0)], ["a:105000"]),  # one value of a setting
        ([setting("ab", 90_000, 8.0), setting("a", 90_000, 8.1), setting("ac", 90_000, 8.2)], ["ab:90000"]),
        ([setting("a", 90_000, 8.0), setting("b", 90_000, 8.0)], ["a:90000"]),  # they come to the same
        ([setting("a", 100_000, 9.9)], []),  # too little
        ([setting("a", 100_000, 8.0, (1.0, 1.3))], []),  # not sure that it saves
        ([setting("a", 80_000, 10.0, (1.3, 1.0))], []),  # nor that it is faster
        ([setting("a", 80_000, 10.9)], ["a:80000"]),
        ([setting("a", 80_000, 11.1)], []),  # faster, and too dear
        ([setting("a", 111_000, 5.0)], []),  # cheaper, and too slow
    ],
)  # fmt: skip
def test_what_is_worth_trying_by_time_and_price_each_setting_once(rows: list[Row], names: list[str]) -> None:
    asked = TuneDemand(0.1, 0.02, answers=3)
    found = worth_trying(rows, BASE, asked)
    assert [one.row.candidate.name for one in found if one.row is not None] == names
    assert worth_trying(rows[::-1], BASE, asked) == found or len(names) < len(rows)
    assert all(one.reason is (Reason.SAVES if one.saving >= 0.02 else Reason.FASTER) for one in found)


def test_no_more_are_named_than_were_asked_for() -> None:
    rows = [setting(key, 90_000 + at, 8.0) for at, key in enumerate("abcde")]
    assert len(worth_trying(rows, BASE, TuneDemand(0.1, 0.02, answers=2))) == 2
