"""The search against a model whose best configs are known, and what it promises whatever the model says."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.conf.scaling_config import ENABLED, MAX, MIN, RATIO
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.whatif.search.defaults import IDLE
from podtide.domain.whatif.search.pareto import ParetoPoint, frontier
from podtide.domain.whatif.search.recommendation import Figures, Reason, TuneDemand
from podtide.domain.whatif.search.search import FINALISTS, Floor, Found, Terms, Trial, search
from podtide.domain.whatif.search.space import AS_RAN, Axis, Candidate, Space, candidate, places, spread_out
from tests.support.search_play import Model, converse, dominates

CONF = from_mapping({ENABLED: "true", MAX: "8", IDLE: "60s"}, "test")
WORK = 640_000
NOTHING = Floor()


def space(*axes: Axis, statics: tuple[int, ...] = (), runs: int = 1) -> Space:
    return Space((CONF,) * runs, axes, statics)


SMALL = space(Axis(MAX, ("2", "4", "8", "16")), Axis(IDLE, ("5s", "20s", "60s")), statics=(4, 8))


def value(one: Candidate, key: str, default: int) -> int:
    text = dict(one.changes).get(key)
    return default if text is None else int(text.removesuffix("s"))


def model(trial: Trial) -> Figures:
    """Work over executors; they are paid for while they work and for an idle timeout each. Runs differ in size."""
    one = trial.candidate
    count = one.static or value(one, MAX, 8)
    size = WORK * (1 + trial.run)
    time = size // count + 10_000 + 1_000 * trial.seed
    if one.static is not None:
        return Figures(time, count * time / 1000)
    return Figures(time, (size + count * value(one, IDLE, 60) * 1000) / 1000)


def demand(within: float = 0.1, seeds: int = 1, runs: int = 1) -> TuneDemand:
    return TuneDemand(within, 0.0, runs, seeds, seeds + 2)


def found(
    over: Space,
    asked: TuneDemand,
    budget: int = 100,
    *,
    seed: int = 0,
    told: Model = model,
    heard: list[Trial] | None = None,
    slowest: float = 10.0,
) -> Found:
    return converse(search(over, Terms(budget, asked, seed, slowest=slowest), lambda _one, _run: NOTHING), told, heard)


def test_a_small_grid_is_walked_and_its_frontier_is_exact() -> None:
    answer = found(SMALL, demand())
    assert answer.whole_grid
    assert len(answer.rows) == 1 + 2 + 11  # as it ran, the static ones, the grid without what ran
    points = [row.point(1) for row in answer.rows]
    assert {row.point(1) for row in answer.frontier} == {points[at] for at in frontier(points)}
    names = [row.candidate.name for row in answer.frontier]
    assert names == [
        "maxExecutors 16, executorIdleTimeout 5s",
        "executorIdleTimeout 5s",
        "maxExecutors 4, executorIdleTimeout 5s",
        "maxExecutors 2, executorIdleTimeout 5s",
    ]


@pytest.mark.parametrize(
    ("within", "name"),
    [
        (0.0, "executorIdleTimeout 5s"),
        (0.5, "executorIdleTimeout 5s"),
        (1.0, "maxExecutors 4, executorIdleTimeout 5s"),
        (4.0, "maxExecutors 2, executorIdleTimeout 5s"),
        (-0.2, "maxExecutors 16, executorIdleTimeout 5s"),
    ],
)
def test_the_cheapest_within_the_bound_is_recommended(within: float, name: str) -> None:
    row = found(SMALL, demand(within)).verdict.recommended
    assert row is not None
    assert row.candidate.name == name


def test_nothing_is_worth_changing_where_the_saving_is_not_sure() -> None:
    def unsure(trial: Trial) -> Figures:
        return model(trial)._replace(dearer=2.5)

    assert found(SMALL, demand(0.5), told=unsure).verdict.reason is Reason.UNSURE
    assert found(space(Axis(IDLE, ("60s", "120s"))), demand()).verdict.reason is Reason.NOTHING_CHEAPER


def test_an_answer_that_held_by_luck_falls_with_the_seeds_that_confirm_it() -> None:
    def unlucky(trial: Trial) -> Figures:
        figures = model(trial)
        if value(trial.candidate, IDLE, 60) == 5 and trial.run == 1 and trial.seed > 1:
            return figures._replace(runtime_ms=figures.runtime_ms * 2)
        return figures

    over = space(Axis(MAX, ("8",)), Axis(IDLE, ("5s", "20s", "60s")), runs=2)
    answer = found(over, demand(0.1, seeds=3, runs=2), told=unlucky)
    assert answer.verdict.recommended is not None
    assert answer.verdict.recommended.candidate.name == "executorIdleTimeout 20s"
    assert {seed for _, seed in answer.verdict.recommended.figures} == set(range(5))


def test_the_knee_is_confirmed_and_simplified_as_the_answer_is() -> None:
    def lucky(trial: Trial) -> Figures:
        idle, fast = value(trial.candidate, IDLE, 60), value(trial.candidate, MAX, 8) > 8
        time, price = (104_000, 400.0 + idle) if not fast else (80_000, 430.0 + idle)
        if fast and idle == 5 and trial.seed > 1:
            time *= 2
        return Figures(100_000, 1_000.0) if trial.candidate == AS_RAN else Figures(time, price)

    over = space(Axis(MAX, ("8", "16")), Axis(IDLE, ("5s", "20s")), Axis(RATIO, ("0.5", "1.0")))
    answer = found(over, demand(seeds=2), told=lucky)
    assert answer.verdict.recommended is not None
    assert answer.verdict.recommended.candidate.changes == ((IDLE, "5s"),)
    assert answer.knee is not None
    assert answer.knee.row is not None
    assert answer.knee.row.candidate.changes == ((IDLE, "20s"), (MAX, "16"))
    assert {seed for _, seed in answer.knee.row.figures} == set(range(4))
    assert answer.knee.row in answer.shown


def test_a_change_that_makes_no_difference_is_left_out() -> None:
    over = space(Axis(MIN, ("2",)), Axis(RATIO, ("0.5",)), Axis(IDLE, ("5s",)))
    row = found(over, demand(seeds=2)).verdict.recommended
    assert row is not None
    assert row.candidate.changes == ((IDLE, "5s"),)


LARGE = space(
    Axis(MAX, tuple(str(count) for count in range(1, 41))),
    Axis(IDLE, tuple(f"{count}s" for count in range(1, 61))),
    Axis(RATIO, ("0.25", "0.5", "0.75", "1.0")),
    statics=(4, 8),
)


def test_a_large_grid_is_sampled_and_climbed_within_the_budget() -> None:
    answer = found(LARGE, demand(0.1), 100)
    assert not answer.whole_grid
    assert answer.counts.candidates <= 100
    row = answer.verdict.recommended
    assert row is not None
    # The best of 9,600: as many executors as ran, or one less, and an idle timeout of a second.
    assert row.point(1).price <= 1.03 * model(Trial(Candidate("", ((IDLE, "1s"), (MAX, "8"))), 0, 0)).price
    assert row.point(1).time <= 1.1 * answer.base.point(1).time


def test_what_a_floor_rules_out_is_not_simulated_and_what_is_beaten_is_stopped() -> None:
    heard: list[Trial] = []

    def floor(one: Candidate, run: int) -> Floor:
        figures = model(Trial(one, run, 0))
        return Floor(figures.runtime_ms if value(one, MAX, 8) == 16 else 0, figures.price)

    terms = Terms(100, demand())
    answer = converse(search(SMALL, terms, floor), model, heard)
    counts = answer.counts
    assert counts.simulations == len(heard)
    assert counts.by_floor + counts.stopped > 0
    assert counts.full < counts.simulations or counts.by_floor
    everything = {row.point(1) for row in found(SMALL, demand(), slowest=2.0).frontier}
    assert {row.point(1) for row in answer.frontier} == everything  # nothing of the frontier is lost by it


def test_a_config_that_cannot_be_run_is_counted_and_never_asked_for() -> None:
    def floor(one: Candidate, run: int) -> Floor | None:
        return None if value(one, MAX, 8) == 4 or one.static == 4 else NOTHING

    heard: list[Trial] = []
    answer = converse(search(SMALL, Terms(100, demand()), floor), model, heard)
    assert answer.counts.impossible == 4
    assert all(value(trial.candidate, MAX, 8) != 4 and trial.candidate.static != 4 for trial in heard)


def test_on_several_runs_the_better_half_goes_on() -> None:
    over = space(*LARGE.axes, runs=3)
    heard: list[Trial] = []
    answer = found(over, demand(seeds=2, runs=3), 60, heard=heard)
    explored = {trial.candidate for trial in heard if trial.run == 0 and trial.limit_ms is not None}
    second = {trial.candidate for trial in heard if trial.run == 1 and trial.limit_ms is not None}
    assert FINALISTS <= len(second) <= len(explored) // 2 + 3  # those that simplify the answer among them
    assert answer.counts.halved > 0
    assert all((run, 0) in row.figures for row in answer.rows for run in range(3))
    assert all(len(row.figures) >= 6 for row in answer.shown)


@pytest.mark.uncounted
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(10, 60))
def test_the_same_seed_gives_the_same_answer_and_a_wider_bound_never_costs_more(
    seed: int, one: float, other: float, budget: int
) -> None:
    narrow, wide = sorted((one, other))
    first, again = (found(LARGE, demand(narrow), budget, seed=seed) for _ in range(2))
    assert first == again
    tight, loose = first.verdict.recommended, found(LARGE, demand(wide), budget, seed=seed).verdict.recommended
    if tight is not None:
        assert loose is not None
        assert loose.point(1).price <= tight.point(1).price
        assert not any(dominates(row.point(1), tight.point(1)) for row in first.rows)


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.integers(0, 11), st.tuples(st.integers(1, 10**6), st.integers(1, 99)), min_size=12, max_size=12)
)
def test_with_any_figures_the_recommendation_holds_and_nothing_on_the_grid_beats_the_frontier(
    table: dict[int, tuple[int, int]],
) -> None:
    every = list(places(SMALL))
    figures: dict[Candidate, Figures] = {AS_RAN: Figures(1_000, 50.0)}
    for at, place in enumerate(every):
        if (one := candidate(SMALL, place)) is not None and not one.as_ran:
            figures[one] = Figures(table[at][0], float(table[at][1]))
    grid = space(*SMALL.axes)
    answer = found(grid, demand(0.1), told=lambda trial: figures[trial.candidate], slowest=10**6)
    points = [ParetoPoint(one.runtime_ms, one.price) for one in figures.values()]
    assert {row.point(1) for row in answer.frontier} == {points[at] for at in frontier(points)}
    fitting = [one.price for one in figures.values() if one.runtime_ms <= 1_100]
    row = answer.verdict.recommended
    assert (row.point(1).price if row is not None else 50.0) == min([*fitting, 50.0])


def test_points_are_spread_evenly_over_every_axis() -> None:
    points = list(islice(spread_out(LARGE, 7), 400))
    for at, axis in enumerate(LARGE.axes):
        counts = [sum(point[at] == choice for point in points) for choice in range(len(axis.values))]
        mean = len(points) / len(axis.values)
        assert max(counts) <= 2 * mean
        assert min(counts) >= mean / 3
