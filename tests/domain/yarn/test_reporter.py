"""When the application master beats, sleeps, wakes and gives up: allocationThreadImpl, branch by branch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.protocol.cluster_config import ReporterConfig
from podtide.domain.protocol.reasons import Cause, Threw
from podtide.domain.protocol.yarn_messages import Beat, EndApplication
from podtide.domain.yarn import reporter
from podtide.domain.yarn.reporter import (
    ATTEMPT_NOT_FOUND,
    AllocatorStanding,
    MasterFinished,
    MasterGone,
    MasterMade,
    ReporterInput,
    ReporterStage,
    ReporterState,
    RoundEnded,
    Roused,
    SleptOut,
)

CONFIG = ReporterConfig()
CALM = AllocatorStanding()
WAITING = AllocatorStanding(pending=1)
ASKED = AllocatorStanding(loss_requests=1)


class Thread:
    """A reporter under way; rounds take no time and end as the test says."""

    def __init__(self, config: ReporterConfig = CONFIG) -> None:
        self.config = config
        self.now: Millis = 0
        self.state: ReporterState = reporter.begin(config)
        self.reports: list[object] = []

    def hear(self, *items: ReporterInput) -> list[Beat | EndApplication]:
        step = reporter.report(self.state, items, self.config, self.now)
        self.state = step.state
        self.reports.extend(step.reports)
        return list(step.commands)

    def running(self, standing: AllocatorStanding = CALM) -> Thread:
        """Its own first round is over."""
        assert self.hear(MasterMade(0, CALM)) == [Beat(0)]
        assert self.hear(RoundEnded(0, CALM)) == [Beat(0)]
        assert self.hear(RoundEnded(0, standing)) == []
        return self

    def sleeps(self, standing: AllocatorStanding = CALM) -> Millis:
        """How long it sleeps now; then it beats, and the round ends with this standing."""
        begun, self.now = self.now, reporter.due(self.state, self.config)
        assert self.hear(SleptOut(self.now, standing)) == [Beat(self.now)]
        assert self.hear(RoundEnded(self.now, standing)) == []
        return self.now - begun

    def throws(self, what: str = "java.io.IOException: x", *, fatal: bool = False) -> list[Beat | EndApplication]:
        """The next round throws."""
        self.now = reporter.due(self.state, self.config)
        assert self.hear(SleptOut(self.now, CALM)) == [Beat(self.now)]
        return self.hear(RoundEnded(self.now, CALM, what, fatal))


def test_the_masters_own_round_comes_first_and_the_reporters_at_once() -> None:
    thread = Thread()
    stages = []
    for item in (MasterMade(0, CALM), RoundEnded(0, CALM)):
        assert thread.hear(item) == [Beat(0)]
        stages.append(thread.state.stage)
    assert stages == [ReporterStage.OPENING, ReporterStage.BEATING]
    assert reporter.due(thread.state, CONFIG) == NEVER, "a round has no time of its own"


@pytest.mark.parametrize("waiting", [WAITING, ASKED])
def test_while_something_waits_the_sleep_doubles_up_to_the_heartbeat(waiting: AllocatorStanding) -> None:
    thread = Thread().running(waiting)
    assert [thread.sleeps(waiting) for _ in range(7)] == [200, 400, 800, 1_600, 3_000, 3_000, 3_000]


def test_a_wake_up_begins_the_intervals_anew_and_the_round_follows_at_once() -> None:
    thread = Thread().running(WAITING)
    assert [thread.sleeps(WAITING), thread.sleeps(WAITING)] == [200, 400]
    thread.now += 1
    assert thread.hear(Roused(thread.now, WAITING)) == [Beat(thread.now)]
    assert thread.hear(RoundEnded(thread.now, WAITING)) == []
    assert [thread.sleeps(WAITING), thread.sleeps(WAITING)] == [200, 400]


def test_a_wake_up_during_a_round_sets_the_interval_and_no_more() -> None:
    thread = Thread().running(WAITING)
    assert [thread.sleeps(WAITING), thread.sleeps(WAITING)] == [200, 400]
    thread.now = reporter.due(thread.state, CONFIG)
    assert thread.hear(SleptOut(thread.now, WAITING)) == [Beat(thread.now)]
    assert thread.hear(Roused(thread.now, WAITING)) == []
    assert thread.hear(RoundEnded(thread.now, WAITING)) == []
    assert thread.sleeps() == 200


@pytest.mark.parametrize(
    ("heartbeat_ms", "initial_ms", "standing", "sleeps"),
    [
        (3_000, 3_000, WAITING, 3_000),
        (100, 100, WAITING, 100),
        (0, 0, WAITING, None),
        (0, 0, CALM, None),
        (3_000, 0, WAITING, None),
        (3_000, 0, CALM, 3_000),
    ],
)
def test_an_interval_of_0_waits_until_it_is_woken(
    heartbeat_ms: Millis, initial_ms: Millis, standing: AllocatorStanding, sleeps: Millis | None
) -> None:
    thread = Thread(ReporterConfig(heartbeat_ms, initial_ms)).running(standing)
    assert reporter.due(thread.state, thread.config) == (NEVER if sleeps is None else sleeps)
    assert thread.hear(Roused(5, standing)) == [Beat(0)]


def test_a_negative_interval_ends_the_thread_and_nothing_else() -> None:
    thread = Thread(ReporterConfig(3_000, -1)).running(WAITING)
    assert thread.state.stage is ReporterStage.OVER
    assert [one.what for one in thread.reports if isinstance(one, Threw)] == [reporter.NEGATIVE_WAIT]
    assert thread.hear(Roused(0, WAITING)) == []


@pytest.mark.parametrize(
    ("standing", "message", "cause"),
    [
        (AllocatorStanding(failures=2, failures_max=3), None, None),
        (
            AllocatorStanding(failures=3, failures_max=3),
            "Max number of executor failures (3) reached",
            Cause.TOO_MANY_FAILURES,
        ),
        (
            AllocatorStanding(failures=9, failures_max=3, excluded=4, all_excluded=True),
            "Max number of executor failures (3) reached",
            Cause.TOO_MANY_FAILURES,
        ),
        (
            AllocatorStanding(excluded=4, all_excluded=True),
            "Due to executor failures all available nodes are excluded",
            Cause.EXCLUDED,
        ),
    ],
)
def test_it_looks_at_the_failures_before_it_beats(
    standing: AllocatorStanding, message: str | None, cause: Cause | None
) -> None:
    thread = Thread().running()
    thread.now = 3_000
    (said,) = thread.hear(SleptOut(3_000, standing))
    if message is None:
        assert said == Beat(3_000)
        return
    assert isinstance(said, EndApplication)
    assert (said.status, said.exit_code, said.message, said.why.cause) == ("FAILED", 11, message, cause)
    assert thread.hear(Roused(3_000, CALM), SleptOut(9_000, CALM)) == [], "that was the last word"
    assert reporter.due(thread.state, CONFIG) == NEVER


def test_the_end_for_lack_of_nodes_says_how_many_there_are() -> None:
    thread = Thread().running()
    thread.now = 3_000
    (said,) = thread.hear(SleptOut(3_000, AllocatorStanding(excluded=4, all_excluded=True, nodes=3)))
    assert isinstance(said, EndApplication)
    assert said.why.facts == {"excluded": 4, "nodes": 3}


def test_with_its_master_gone_the_thread_is_as_before_the_first_one() -> None:
    thread = Thread().running(WAITING)
    assert thread.hear(MasterGone(0), Roused(0, WAITING), SleptOut(9_000, WAITING)) == []
    assert (thread.state.stage, reporter.due(thread.state, CONFIG)) == (ReporterStage.ABSENT, NEVER)
    assert thread.hear(MasterMade(0, CALM)) == [Beat(0)]


@pytest.mark.parametrize(
    ("what", "fatal", "message"),
    [
        (f"{ATTEMPT_NOT_FOUND}: attempt_1 is gone", False, "attempt_1 is gone"),
        ("java.lang.OutOfMemoryError: heap", True, "Fatal exception: java.lang.OutOfMemoryError: heap"),
    ],
)
def test_some_exceptions_end_it_at_once(what: str, fatal: bool, message: str) -> None:
    (said,) = Thread().running().throws(what, fatal=fatal)
    assert isinstance(said, EndApplication)
    assert (said.exit_code, said.message, said.why.cause) == (12, message, Cause.HEARTBEAT)


def test_so_many_exceptions_in_a_row_end_it() -> None:
    thread = Thread().running()
    assert [thread.throws() for _ in range(4)] == [[]] * 4
    assert thread.sleeps() == 3_000, "a good round in between"
    assert [thread.throws() for _ in range(4)] == [[]] * 4
    (said,) = thread.throws()
    assert isinstance(said, EndApplication)
    assert (said.exit_code, said.message) == (12, "Exception was thrown 5 time(s) from Reporter thread.")


def test_what_the_first_round_throws_ends_the_master() -> None:
    thread = Thread()
    thread.hear(MasterMade(0, CALM))
    (said,) = thread.hear(RoundEnded(0, CALM, "java.io.IOException: x"))
    assert isinstance(said, EndApplication)
    assert (said.exit_code, said.message) == (10, "Uncaught exception: java.io.IOException: x")


def test_when_the_application_is_over_there_are_no_more_rounds() -> None:
    thread = Thread().running(WAITING)
    assert thread.hear(MasterFinished(0), SleptOut(200, WAITING), Roused(200, WAITING)) == []
    assert reporter.due(thread.state, CONFIG) == NEVER


def test_remarks_say_what_the_log_says() -> None:
    thread = Thread(replace(CONFIG, remarks=True)).running()
    thread.throws()
    assert [getattr(one, "topic", "") for one in thread.reports] == ["started", "fails"]


inputs = st.lists(
    st.one_of(
        st.builds(SleptOut, st.just(0), st.sampled_from([CALM, WAITING])),
        st.builds(Roused, st.just(0), st.sampled_from([CALM, WAITING])),
        st.builds(RoundEnded, st.just(0), st.sampled_from([CALM, WAITING]), st.sampled_from([None, "a: b"])),
    ),
    max_size=12,
)


@given(inputs, st.lists(st.integers(0, 4_000), min_size=12, max_size=12))
def test_one_round_at_a_time_and_an_older_state_still_answers(items: list[ReporterInput], gaps: list[int]) -> None:
    thread = Thread().running()
    states = [(thread.state, thread.now)]
    said: list[object] = []
    for item, gap in zip(items, gaps, strict=False):
        before = thread.state
        thread.now += gap
        found = thread.hear(item)
        again = reporter.report(before, (item,), CONFIG, thread.now)
        assert (list(again.commands), again.state) == (found, thread.state)
        assert len(found) <= 1
        said += found + ([item] if isinstance(item, RoundEnded) and before.stage is ReporterStage.BEATING else [])
        states.append((thread.state, thread.now))
    for one, other in pairwise(said):
        assert not (isinstance(one, Beat) and isinstance(other, Beat)), "a beat before its round was over"
    assert len(states) == min(len(items), 12) + 1
