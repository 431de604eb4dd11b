"""Decisions of a step in few lines: what says the same is one line, and every kind of command has one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as some
from pyrsistent import pmap

from podtide.adapters.recording.records.commands import command_name, command_record
from podtide.adapters.views.live import events
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.commands import Decommission, Departure, Kill
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Remark, Threw, Why
from tests.adapters.views.timeline.test_decisions import EVIL, kinds
from tests.support.engine_play import config
from tests.support.live_play import START, HandClock, Seen

WHY = Why(Cause.BELOW_TARGET, pmap({"target": 600, "counted": 100, "missing": 500}))


@pytest.mark.parametrize(
    ("executors", "words", "number"),
    [
        ([], "", 0),
        ([7], "7", 1),
        (range(101, 601), "101-600", 500),
        ([3, 1, 2], "1-3", 3),
        ([1, 3, 2, 3], "1-3", 3),
        ([5, 1, 9, 7, 3], "1, 3, 5, 7 and 1 more", 5),
        (["2", "driver", "x\x1b"], "2, driver, x\\x1b", 3),
        (["1" * 30], "11111111111…11111111111", 1),
        (range(0, 400, 2), "0, 2, 4, 6 and 196 more", 200),
    ],
)
def test_executors_are_ranges(executors: Any, words: str, number: int) -> None:
    ids = events.ExecutorRanges(executors)
    assert (ids.words(), ids.number) == (words, number)


@given(some.lists(some.integers(0, 60), max_size=40), some.lists(some.integers(0, 60), max_size=40))
def test_joined_ranges_hold_what_both_held(one: list[int], two: list[int]) -> None:
    ids = events.ExecutorRanges(one)
    ids.join(events.ExecutorRanges(two))
    both = events.ExecutorRanges(sorted({*one, *two}))
    assert (ids.words(), ids.number) == (both.words(), both.number)


def test_five_hundred_creates_are_one_line() -> None:
    creates = [pc.CreatePod(5, n, PodNumber(n), ProfileId(0), WHY) for n in range(101, 601)]
    (line,) = events.lines_of(5, creates, ())
    assert (line.what, line.parts) == ("create pods 101-600", ["500 missing: target 600, 100 counted"])
    assert (line.kind, line.name, line.level, line.mark) == ("decision", "createPod", "info", "raised")


def test_profiles_and_targets_are_told_apart() -> None:
    other = Why(Cause.BELOW_TARGET, pmap({"target": 7, "counted": 0, "missing": 7}))
    creates = [
        pc.CreatePod(5, 1, PodNumber(1), ProfileId(0), WHY),
        pc.CreatePod(5, 2, PodNumber(2), ProfileId(1), WHY),
        pc.CreatePod(5, 3, PodNumber(3), ProfileId(0), other),
    ]
    assert [line.what for line in events.lines_of(5, creates, ())] == ["create pod 1", "create pod 2", "create pod 3"]


@pytest.mark.parametrize(
    ("command", "what", "why", "level"),
    [
        (
            ec.RemoveExecutor(
                1, ExecutorId("4"), ec.ExitReason("ExecutorExited", "The executor with id 4 was deleted.", -1),
                Why(Cause.POD_FAILED),
            ),
            "executor 4 is gone", ["ExecutorExited, exit code -1: The executor was deleted.", "pod failed"], "warning",
        ),
        (
            ec.AnswerRegistration(1, ExecutorId("4"), True, Why(Cause.REGISTERED, pmap({"registered": 9}))),
            "executor 4 registered", ["9 in all"], "info",
        ),
        (
            ec.AnswerRegistration(1, ExecutorId("4"), False, Why(Cause.DUPLICATE), "Duplicate executor ID: 4"),
            "executor 4 refused", ["Duplicate executor ID: 4", "duplicate"], "warning",
        ),
        (
            pc.DeletePods(1, 2, (PodNumber(4), PodNumber(5)), "Pending", Why(Cause.ABOVE_TARGET, pmap({"excess": 2}))),
            "delete pods 4-5", ["above target", "excess 2", "only Pending ones"], "info",
        ),
        (pc.DeletePods(1, 2, None, None, Why(Cause.STOPPED)), "delete all pods", ["stopped"], "info"),
        (pc.ListPods(1, 2, Why(Cause.RESYNCHRONIZE)), "list pods", ["resynchronize"], "debug"),
        (ec.StopApplication(1, 11, Why(Cause.TOO_MANY_FAILURES)), "end with exit code 11", ["too many failures"], "error"),
        (
            Kill(1, 2, (Departure(ExecutorId("1"), ProfileId(0), Why(Cause.IDLE, pmap({"timeout_ms": 60_000}))),)),
            "kill executor 1", ["idle (timeout 1m 00s)"], "info",
        ),
    ],
)  # fmt: skip
def test_a_command_in_words(command: Any, what: str, why: list[str], level: str) -> None:
    (line,) = events.lines_of(1, (command,), ())
    assert (line.what, line.parts, line.level) == (what, why, level)


@pytest.mark.parametrize("kind", [*kinds(pc.PodCommand), Kill, Decommission], ids=lambda kind: kind.__name__)
def test_every_command_is_told_and_can_be_told_with_others(kind: type) -> None:
    @settings(max_examples=20, suppress_health_check=list(HealthCheck), deadline=None)
    @given(some.from_type(kind), some.from_type(kind))
    def lines(one: Any, two: Any) -> None:
        if isinstance(one, Kill | Decommission) and not (one.departures and two.departures):
            return
        found = events.lines_of(3, (one, two), ())
        assert found
        for line in found:
            assert all(part.isprintable() for part in (line.what, *line.parts))
            assert line.level in events.LEVELS
        assert command_name(type(one)) == command_record(one)["command"]
        assert events.cause_of(one).value == command_record(one)["cause"]

    lines()


def held(phase: Phase, bound: Bound, *executors: str) -> Held:
    return Held(1, phase, bound, ProfileId(0), tuple(map(ExecutorId, executors)), pmap({"missing": 9}))


@pytest.mark.parametrize(
    ("report", "what", "level", "kind"),
    [
        (held(Phase.BEGAN, Bound.BATCH_SIZE), "held 9 back", "info", "held"),
        (held(Phase.CHANGED, Bound.BATCH_SIZE), "held 9 back", "debug", "held"),
        (held(Phase.BEGAN, Bound.SHUFFLE_DATA, "1", "2"), "executors 1-2 kept idle", "info", "held"),
        (held(Phase.ENDED, Bound.SHUFFLE_DATA, "1"), "executor 1 kept no longer", "info", "held"),
        (Threw(1, "Allocator", EVIL), "Allocator threw", "error", "report"),
        (Remark(1, "m", "some topic", pmap({})), "remark: some topic", "debug", "report"),
    ],
)  # fmt: skip
def test_a_report_in_words(report: Any, what: str, level: str, kind: str) -> None:
    (line,) = events.lines_of(1, (), (report,))
    assert (line.what, line.level, line.kind) == (what, level, kind)
    assert all(part.isprintable() for part in line.parts)


def test_a_bound_in_force_has_no_phase() -> None:
    report = Held(1, Phase.CHANGED, Bound.PENDING_LIMIT, ProfileId(0), facts=pmap({"missing": 9, "slots": 0}))
    assert events.held_words(report) == ("held 9 back", "by allocation.maxPendingPods", "slots 0")


@pytest.mark.parametrize(
    ("at", "text"),
    [(START, "2026-11-21T10:00:00.000Z"), (START + 7, "2026-11-21T10:00:00.007Z"), (10**18, str(10**18))],
)
def test_moments_are_utc_whatever_the_machine_thinks(at: int, text: str) -> None:
    assert events.stamp(at) == text


class _Moves:
    """Collects what moved targets."""

    def __init__(self) -> None:
        self.targets = events.TargetWatch()
        self.found: list[tuple[int, int, int, str]] = []

    def step(self, now: int, stimuli: Any, taken: Any) -> None:
        moves = self.targets.moved(now, stimuli, taken)
        self.found += [(move.profile, move.before, move.after, move.cause) for move in moves]


def test_targets_that_others_set_are_told_once_and_by_whom() -> None:
    moves = _Moves()
    play = Seen(config(initial=2), HandClock(), moves)
    play.want(5, 3)
    play.want(5, 3)
    play.want(1)
    assert moves.found == [
        (0, 0, 2, "set by the scheduler backend"),
        (0, 2, 5, "set from outside"), (1, 0, 3, "set from outside"), (0, 5, 1, "set from outside"),
    ]  # fmt: skip
    assert moves.targets.known == {0: 1, 1: 3}


def test_registrations_of_one_step_say_how_many_there_are_now() -> None:
    answers = [
        ec.AnswerRegistration(1, ExecutorId(str(n)), True, Why(Cause.REGISTERED, pmap({"registered": n})))
        for n in (1, 2, 3)
    ]
    (line,) = events.lines_of(1, answers, ())
    assert (line.what, line.parts) == ("executors 1-3 registered", ["3 in all"])
