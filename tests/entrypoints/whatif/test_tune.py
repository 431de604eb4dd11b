"""Tuning without a command line: the bridge between the search and the simulation, in one process and in two."""

from __future__ import annotations

import itertools
import pickle

import pytest
from returns.pipeline import is_successful

from podtide.domain.conf.scaling_config import MAX
from podtide.domain.rerun.plan import Variant
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.search.defaults import default_space, footing
from podtide.domain.whatif.search.recommendation import Reason
from podtide.domain.whatif.search.space import CORES, Axis, Space
from podtide.domain.whatif.summary import OWN_SEEDS
from podtide.entrypoints.whatif.logs import UsableLog
from podtide.entrypoints.whatif.run import study
from podtide.entrypoints.whatif.tune import Measure, Tuned, TuneWish, in_order, measure_for, tune
from podtide.entrypoints.whatif.workers import Bench, BenchError, Errand, runner
from tests.support.tune_play import IDLE, application, rerun


def case(name: str = "good-0", seeds: int = 2) -> UsableLog:
    made = study(application(name), seeds=seeds, rerun=rerun)
    assert is_successful(made)
    return UsableLog(name, made.unwrap())


def space(*cases: UsableLog, axes: tuple[Axis, ...] = (), statics: tuple[int, ...] = (4, 8)) -> Space:
    given = axes or (Axis(MAX, ("4", "6", "8", "16")), Axis(IDLE, ("5s", "60s")))
    return Space(tuple(one.study.conf.conf for one in cases), given, statics)


def tuned(wish: TuneWish, *cases: UsableLog) -> Tuned:
    return tune(cases, space(*cases), wish, rerun=rerun)


def test_money_is_what_counts_where_there_are_prices() -> None:
    answer = tuned(TuneWish(prices=Prices(core_hour=3.6)), case())
    assert answer.measure is Measure.COST
    assert answer.found.base.figures[0, 0].price == pytest.approx(1120 * 3.6 / 3600)


def test_shapes_that_differ_are_compared_by_core_hours() -> None:
    one = case()
    shaped = space(one, axes=(Axis(CORES, ("1", "2")),))
    assert measure_for(shaped, None) is Measure.CORE_HOURS
    assert measure_for(shaped, Prices(core_hour=1)) is Measure.COST
    answer = tune([one], shaped, TuneWish(), rerun=rerun)
    assert answer.found.base.figures[0, 0].price == pytest.approx(1120 / 3600)


def test_floors_spare_simulations_and_change_no_answer() -> None:
    answer = tuned(TuneWish(within=0.0), case())
    counts = answer.found.counts
    assert counts.candidates == 9
    assert counts.pruned == counts.by_floor + counts.stopped
    assert counts.full <= counts.simulations


def test_the_order_of_the_logs_makes_no_difference() -> None:
    cases = [case(f"good-{number}") for number in (3, 1, 2)]
    listed, *others = (in_order(mixed) for mixed in itertools.permutations(cases))
    assert all(other == listed for other in others)
    assert tune(listed, space(*listed), TuneWish(), rerun=rerun).found.verdict.reason is Reason.SAVES


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_give_the_same_answer(processes: int) -> None:
    made: list[int] = []
    answer = tune([case()], space(case()), TuneWish(processes=processes), rerun=rerun, progress=made.append)
    assert answer.found == tuned(TuneWish(), case()).found
    assert made == list(range(1, len(made) + 1))
    assert len(made) >= answer.found.counts.simulations - OWN_SEEDS  # what ran was simulated before


def test_a_config_that_cannot_be_planned_ends_the_errand_with_the_reason() -> None:
    bench = Bench((case().study,), rerun)
    with pytest.raises(BenchError, match="maxExecutors"):
        bench.run(Errand(0, Variant("v", {MAX: "many"}), 0))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_simulation_that_comes_to_nothing_says_so(processes: int) -> None:
    with (
        runner([case().study], processes, rerun=rerun) as run,
        pytest.raises(BenchError, match="maxExecutors"),
    ):
        run([Errand(0, Variant("v", {MAX: "many"}), 0)])


def test_a_bench_travels() -> None:
    bench = pickle.loads(pickle.dumps(Bench((case().study,), rerun)))
    errand = Errand(0, Variant("v"), 1)
    assert pickle.loads(bench(pickle.dumps(errand))) == bench.run(errand)


def test_the_space_of_its_own_is_searched() -> None:
    one = case()
    found = tune(
        [one], default_space([footing(one.study.application, one.study.conf.conf)]), TuneWish(budget=60), rerun=rerun
    )
    assert found.found.counts.candidates <= 60
    recommended = found.found.verdict.recommended
    assert recommended is not None
    assert recommended.point(1).price <= 0.7 * found.found.base.point(1).price
