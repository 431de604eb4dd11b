"""Decisions compared with recorded ones: as values, in order, to the first difference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as some
from pyrsistent import pmap

from podtide.adapters.recording.codec import decided_record
from podtide.adapters.recording.comparison import DEPARTURES_MAX, HOLDS_MAX, Agreement, HoldBook, departures
from podtide.adapters.recording.reader import RecordedStep
from podtide.adapters.recording.records.expectation import ABSENT
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Remark, Why

REMARK = Remark(1, "ExecutorPodsAllocator", "status")


def create(number: int, **facts: int) -> CreatePod:
    return CreatePod(1, number, PodNumber(number), ProfileId(0), Why(Cause.BELOW_TARGET, pmap(facts)))


def held(phase: Phase, at: int = 1, profile: int = 0, *executors: str, **facts: int) -> Held:
    ids = tuple(map(ExecutorId, executors))
    return Held(at, phase, Bound.BATCH_SIZE, ProfileId(profile), ids, pmap(facts))


def step(*items: Any, complete: bool = True) -> RecordedStep:
    commands = tuple(item for item in items if isinstance(item, CreatePod))
    reports = tuple(item for item in items if not isinstance(item, CreatePod))
    records = tuple(decided_record(item) for item in (*commands, *reports))
    return RecordedStep(3, 1, (Wake(1),), records, commands, reports, complete)


def taken(agreement: Agreement, recorded: RecordedStep, *items: Any) -> bool:
    commands: list[Command] = [item for item in items if isinstance(item, CreatePod)]
    reports: list[Report] = [item for item in items if not isinstance(item, CreatePod)]
    return agreement.take(recorded, commands, reports)


def test_equal_steps_agree_and_are_counted() -> None:
    agreement = Agreement()
    assert taken(agreement, step(create(1), held(Phase.BEGAN)), create(1), held(Phase.BEGAN))
    assert taken(agreement, step())
    assert (agreement.steps, agreement.decisions, agreement.divergence) == (2, 2, None)
    assert agreement.document()["agrees"] is True


@pytest.mark.parametrize(
    ("recorded", "decided", "agreed", "paths"),
    [
        ([create(1), create(2)], [create(1), create(3)], 1, ["serial", "executor"]),
        ([create(1, missing=3)], [create(1, missing=4)], 0, ["facts.missing"]),
        ([create(1)], [create(1, more=1)], 0, ["facts.more"]),
        ([create(1)], [], 0, []),
        ([], [create(1)], 0, []),
        ([create(1), create(2)], [create(2), create(1)], 0, ["serial", "executor"]),
        ([create(1), held(Phase.BEGAN)], [create(1)], 1, []),
    ],
)
def test_the_first_difference_is_found(recorded: Any, decided: Any, agreed: int, paths: list[str]) -> None:
    agreement = Agreement()
    assert not taken(agreement, step(*recorded), *decided)
    found = agreement.divergence
    assert found is not None
    assert (found.agreed, [one.path for one in found.departing]) == (agreed, paths)
    assert found.document()["line"] == 3


def test_nothing_is_compared_after_it() -> None:
    agreement = Agreement()
    taken(agreement, step(create(1)))
    first = agreement.divergence
    assert not taken(agreement, step(create(9)), create(9))
    assert agreement.divergence is first
    assert agreement.steps == 0


def test_the_story_has_the_steps_before_and_what_was_held() -> None:
    agreement = Agreement()
    for number in range(20):
        report = held(Phase.BEGAN if not number else Phase.CHANGED, number, missing=number)
        assert taken(agreement, step(create(number), report), create(number), report)
    assert taken(agreement, step())
    assert not taken(agreement, step(create(99)))
    found = agreement.divergence
    assert found is not None
    assert [records[0]["executor"] for _, records in found.before] == [15, 16, 17, 18, 19]
    assert found.held == [{"bound": "batch size", "profile": 0, "since_ms": 0, "facts": {"missing": 19}}]


@pytest.mark.parametrize(
    ("recorded", "decided", "agrees"),
    [([], [REMARK], True), ([REMARK], [REMARK], True), ([REMARK], [], False), ([create(1)], [create(1), REMARK], True)],
    ids=["not recorded", "recorded", "recorded, not reported", "beside a decision"],
)
def test_remarks_count_only_where_they_were_recorded(recorded: Any, decided: Any, agrees: bool) -> None:
    assert taken(Agreement(), step(*recorded), *decided) is agrees


def test_once_recorded_they_count_ever_after() -> None:
    agreement = Agreement()
    assert taken(agreement, step(REMARK), REMARK)
    assert not taken(agreement, step(), REMARK)


def test_a_step_that_may_have_lost_its_decisions_is_not_compared() -> None:
    agreement = Agreement()
    assert taken(agreement, step(complete=False), create(1))
    assert (agreement.steps, agreement.uncompared) == (0, 1)


def test_a_number_that_is_none_equals_itself() -> None:
    odd = Held(1, Phase.BEGAN, Bound.RATIO, ProfileId(0), (), pmap({"need": float("nan")}))
    again = Held(1, Phase.BEGAN, Bound.RATIO, ProfileId(0), (), pmap({"need": float("nan")}))
    assert taken(Agreement(), step(odd), again)


plain = some.recursive(
    some.one_of(some.integers(), some.text(max_size=3), some.none(), some.booleans()),
    lambda inner: some.one_of(
        some.lists(inner, max_size=3), some.dictionaries(some.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    some.dictionaries(some.text(max_size=2), plain, max_size=4),
    some.dictionaries(some.text(max_size=2), plain, max_size=4),
)
def test_records_differ_exactly_where_departures_say(one: Any, other: Any) -> None:
    found = departures(one, other)
    assert (one == other) == (found == [])
    assert departures(one, one) == []
    assert all(departing.expected != departing.decided for departing in found)


def test_absent_keys_are_named_on_both_sides() -> None:
    assert departures({"a": 1}, {"b": 2}) == [("a", 1, ABSENT), ("b", ABSENT, 2)]
    assert departures({"a": [1, 2]}, {"a": [1, 3]}) == [("a[1]", 2, 3)]
    assert departures({"a": [1]}, {"a": [1, 3]}) == [("a", [1], [1, 3])]
    assert len(departures({"a": list(range(9_999))}, {"a": list(range(1, 10_000))})) <= DEPARTURES_MAX + 1


def test_bounds_of_single_executors_are_counted() -> None:
    book = HoldBook()
    book.take(held(Phase.BEGAN, 1, 0, "1", "2"))
    book.take(held(Phase.CHANGED, 2, 1, "2"))
    assert book.executors == {("batch size", 0): 1, ("batch size", 1): 1}
    book.take(held(Phase.ENDED, 3, 1, "2"))
    book.take(held(Phase.ENDED, 3, 0, "1", "7"))
    assert book.document() == []


def test_the_book_stays_bounded() -> None:
    book = HoldBook()
    for profile in range(HOLDS_MAX + 50):
        book.take(held(Phase.BEGAN, 1, profile, missing=1))
    assert len(book.holds) == HOLDS_MAX
    book.take(held(Phase.ENDED, 2, 0))
    assert len(book.holds) == HOLDS_MAX - 1
