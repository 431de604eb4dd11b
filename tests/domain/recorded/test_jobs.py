"""Jobs that come together come in another order with other luck, and a FIFO pool serves the lower id first."""

from __future__ import annotations

from podtide.domain.recorded.jobs import TOGETHER_MS, drawn_priorities
from podtide.domain.rerun.rerun import rerun
from tests.support.rerun_play import app, behaviour, job, stage, static


def test_jobs_of_one_fork_are_shuffled_and_no_others() -> None:
    jobs = [
        job(0),
        job(2, submitted_ms=TOGETHER_MS),
        job(1, submitted_ms=TOGETHER_MS + 1),  # too late for the first two
        job(3, submitted_ms=900, after=(0,)),
        job(4, submitted_ms=901, after=(1,)),  # of another thread
    ]
    assert [drawn_priorities(jobs, seed) for seed in range(1, 5)] == [{0: 2, 2: 0}, {}, {0: 2, 2: 0}, {}]


def test_with_every_second_seed_three_jobs_come_in_an_order_that_is_not_that_of_the_log() -> None:
    jobs = [job(number) for number in range(3)]
    drawn = [drawn_priorities(jobs, seed) for seed in range(1, 60)]
    assert not any(drawn[1::2])
    orders = {tuple(one[number] for number in range(3)) for one in drawn[::2]}
    assert len(orders) == 5
    assert (0, 1, 2) not in orders


def test_the_side_that_comes_last_decides_how_long_a_join_takes() -> None:
    long, short = stage(0, [1_000] * 8), stage(1, [8_000], job=1)
    both = app(long, short, jobs=[job(0, [long]), job(1, [short], submitted_ms=100)])
    times = {seed: rerun(both, behaviour(), static(2), seed).runtime_ms for seed in range(12)}
    assert times[0] == 12_000  # as the log has it: the eight tasks first, then the long one
    assert set(times.values()) == {12_000, 8_000}
