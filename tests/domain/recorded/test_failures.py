"""Failures by stage and reason: what is one reason, what is kept, and that it stays bounded."""

from __future__ import annotations

from podtide.domain.recorded.failures import DETAIL_MAX, OTHER, REASONS_MAX, STAGE_FAILED, FailureReading

LOST = "ExecutorLostFailure"


def test_texts_that_differ_in_numbers_are_one_reason() -> None:
    reading = FailureReading()
    for after in (120_001, 133_960):
        reading.ended(3, LOST, f"Executor heartbeat timed out after {after} ms\nand more")
    reading.ended(3, LOST, "Container killed by YARN for exceeding memory limits.")
    reading.ended(3, "ExceptionFailure", "java.io.IOException")
    reading.ended(3, STAGE_FAILED, "org.apache.spark.shuffle.FetchFailedException")
    reading.ended(1, "Resubmitted", "")
    first, third = reading.evidence({3: ("save", 200)})
    assert (first.stage, first.name, first.tasks, first.tries, first.failed_attempts) == (1, "", 0, 1, 0)
    assert (third.name, third.tasks, third.tries, third.failed_attempts) == ("save", 200, 4, 1)
    assert third.reasons[0] == (LOST, "Executor heartbeat timed out after 120001 ms", 2)
    assert {one[:2] for one in third.reasons[1:]} == {
        (LOST, "Container killed by YARN for exceeding memory limits."),
        ("ExceptionFailure", "java.io.IOException"),
        (STAGE_FAILED, "org.apache.spark.shuffle.FetchFailedException"),
    }


def test_a_stage_keeps_no_more_reasons_than_anybody_reads() -> None:
    reading = FailureReading()
    names = [f"{'x' * at}y" for at in range(5 * REASONS_MAX)]
    for name in names:
        reading.ended(0, "ExceptionFailure", name + "z" * 10_000)
        reading.ended(0, name, "")
    (found,) = reading.evidence({})
    assert found.tries == 2 * len(names)
    assert len(found.reasons) <= 2 * REASONS_MAX + 2
    assert sum(one.times for one in found.reasons if one.reason == OTHER) > 0
    assert all(len(one.detail) <= DETAIL_MAX for one in found.reasons)
