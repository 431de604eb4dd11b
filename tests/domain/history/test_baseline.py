"""What is normal is learned; noise of real clusters is not reported, a step is, once, and then it is normal."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from podtide.domain.history.baseline import Judged, Judgement, LearnedBaseline, RunSample, judge

LEARNING, NORMAL, WORSE, BETTER = Judgement.LEARNING, Judgement.NORMAL, Judgement.WORSE, Judgement.BETTER
STILL_WORSE, STILL_BETTER = Judgement.STILL_WORSE, Judgement.STILL_BETTER


def judged(values: Iterable[float]) -> list[Judged]:
    known, found = LearnedBaseline("s"), []
    for run, value in enumerate(values):
        known, one = judge(known, RunSample(run, value), "s")
        found.append(one)
    return found


def judgements(*values: float) -> list[Judgement]:
    return [one.judgement for one in judged(values)]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([104.0, 97.0, 109.0], [NORMAL, NORMAL, NORMAL]),
        ([150.0], [WORSE]),
        ([150.0, 152.0, 149.0, 151.0], [WORSE, STILL_WORSE, STILL_WORSE, NORMAL]),
        ([150.0, 100.0, 150.0, 100.0, 148.0, 250.0], [WORSE, NORMAL, STILL_WORSE, NORMAL, STILL_WORSE, WORSE]),
        ([150.0, 100.0, 250.0], [WORSE, NORMAL, WORSE]),
        ([150.0, *[100.0] * 18, 150.0], [WORSE, *[NORMAL] * 18, STILL_WORSE]),
        ([150.0, *[100.0] * 19, 150.0], [WORSE, *[NORMAL] * 19, WORSE]),
        ([150.0, 100.0, 148.0, 148.0, 148.0, 148.0], [WORSE, NORMAL, STILL_WORSE, STILL_WORSE, WORSE, NORMAL]),
        ([60.0, 61.0, 62.0, 61.0, 100.0], [BETTER, STILL_BETTER, STILL_BETTER, NORMAL, WORSE]),
        ([112.0, 113.0, 112.5, 112.0], [NORMAL, NORMAL, WORSE, NORMAL]),
        ([150.0, 50.0], [WORSE, BETTER]),
        ([150.0, 160.0, 155.0, 260.0], [WORSE, STILL_WORSE, STILL_WORSE, WORSE]),
    ],
)
def test_a_run_is_judged_by_the_runs_before_it(after: list[float], expected: list[Judgement]) -> None:
    healthy = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 101.0, 99.0]
    assert judgements(*healthy, *after)[len(healthy) :] == expected


def test_three_runs_are_learned_from_before_anything_is_said() -> None:
    assert judgements(100, 300, 90, 95) == [LEARNING, LEARNING, LEARNING, NORMAL]


def test_the_step_names_what_was_normal_and_when_it_became_the_baseline() -> None:
    found = judged([100, 102, 98, 100, 150, 151, 149, 150])
    assert [(one.normal, one.new_level) for one in found[4:]] == [(100, False), (100, False), (100, True), (150, False)]
    assert found[4].typical == 3
    assert 0.15 < found[4].limit < 0.35


def test_an_outlier_does_not_become_normal_and_a_tail_of_the_noise_does() -> None:
    values = [100.0] * 10
    assert judged([*values, 300.0, 100.0, 100.0])[-1].normal == 100.0
    known = LearnedBaseline("s", tuple(RunSample(run, value) for run, value in enumerate(values)))
    known, _ = judge(known, RunSample(10, 112.0), "s")
    assert [one.run for one in known.apart] == [10]
    known, _ = judge(known, RunSample(11, 100.0), "s")
    assert [one.run for one in known.healthy][-2:] == [10, 11]


def test_a_weekly_outlier_is_reported_once() -> None:
    found = [one.judgement for one in judged([100, 101, 99, 100, 102, 100, 180] * 8)]
    assert found.count(WORSE) == 1
    assert found.count(STILL_WORSE) == 7


def test_values_of_another_unit_are_another_baseline() -> None:
    known = LearnedBaseline("s", tuple(RunSample(run, 1.0) for run in range(9)))
    known, one = judge(known, RunSample(9, 4_000.0), "EUR")
    assert one.judgement is LEARNING
    assert known == LearnedBaseline("EUR", (RunSample(9, 4_000.0),), count=1)


@pytest.mark.uncounted
@pytest.mark.parametrize(("spread", "most"), [(0.01, 0.002), (0.03, 0.004), (0.056, 0.008), (0.08, 0.01)])
def test_noise_between_two_runs_of_one_percent_to_thirteen_is_no_alarm(spread: float, most: float) -> None:
    # 0.056: nine of ten pairs of runs differ by less than 13%.
    chance = Random(1)
    alarms = runs = 0
    for _ in range(150):
        found = judged(100 * chance.lognormvariate(0, spread) for _ in range(100))
        alarms += sum(one.judgement in (WORSE, BETTER) for one in found)
        runs += 100
    assert alarms / runs <= most


@pytest.mark.uncounted
@pytest.mark.parametrize(("spread", "step"), [(0.01, 1.12), (0.03, 1.2), (0.056, 1.35), (0.08, 1.5)])
def test_a_step_beyond_the_noise_is_found_within_three_runs(spread: float, step: float) -> None:
    chance = Random(2)
    late = 0
    for _ in range(200):
        values = [100 * chance.lognormvariate(0, spread) for _ in range(20)]
        values += [100 * step * chance.lognormvariate(0, spread) for _ in range(3)]
        late += WORSE not in [one.judgement for one in judged(values)[20:]]
    assert late <= 10
