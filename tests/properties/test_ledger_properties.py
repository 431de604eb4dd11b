"""Any life of any fleet: the causes sum to the bill, and to the millisecond they are what a slow reader would say.

The slow reader keeps what was said, in order, and asks of every millisecond of every executor by itself what it was
spent on: no sums over time, no spells that are booked, only what had been said by then and what came next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from podtide.domain.base.units import NEVER
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.ledger.executor_life import CAUSES
from podtide.domain.rerun.ledger.ledger import LIMITS, Ledger, Sums

ENDS_IDLENESS = ("busy", "tell", "gone", "lost")

MOVES = {
    "asked": ("register",) * 9 + ("cancel", "tell", "lost"),
    "new": ("busy",) * 2 + ("idle",) * 5 + ("ready", "hold", "work", "tell", "gone"),
    "idle": ("busy",) * 4 + ("hold",) * 3 + ("ready",) + ("tell",) * 2 + ("gone", "lost"),
    "busy": ("idle",) * 7 + ("hold", "work", "work", "tell", "lost"),
    "gone": ("work",),
}
"""What may be said of an executor in each state ("new": registered, no task yet and no timeout said), as often as it is."""

PASSED = st.integers(0, 9)


class Said(NamedTuple):
    """One thing said of an executor, the ``place``-th: a word, and what came with it."""

    place: int
    at: int
    word: str
    hold: SpendCause | None = None
    timeout_at: int = NEVER


class Reader:
    """Classifies single milliseconds of one executor. ``t`` stands for the millisecond from ``t`` to ``t + 1``."""

    def __init__(self, said: list[Said], phases: list[tuple[int, int, int]], closed: int, tick: int) -> None:
        """``said``: of this executor, in order; ``phases``: running and waiting tasks from a time on."""
        self.said = said
        self.phases = phases
        self.requested = said[0].at
        self.ended = next((one.at for one in said if one.word in ("cancel", "gone", "lost")), closed)
        self.ran = any(one.word == "busy" for one in said)
        self.registered = next((one.at for one in said if one.word == "register"), None)
        begun = next((one.place for one in said if one.word in ("busy", "tell")), len(said))
        starts = [one.at for one in said if one.word in ("register", "ready") and one.place < begun]
        self.ready = starts[-1] if starts else None
        self.tick = tick

    def before(self, t: int, *words: str) -> Said | None:
        """The last of these that was said by ``t``."""
        return next((one for one in reversed(self.said) if one.word in words and one.at <= t), None)

    def after(self, t: int, *words: str) -> Said | None:
        """The first of these that was said later than ``t``."""
        return next((one for one in self.said if one.word in words and one.at > t), None)

    def idle(self, t: int) -> SpendCause:
        """Idle, registered, not told to go, of an executor that runs a task some time."""
        begun = self.before(t, "register", "idle", "busy")
        assert begun is not None
        # Of an executor that has just registered the timeout may be said later, in the same spell.
        end = self.after(t, *ENDS_IDLENESS)
        later = [
            one.timeout_at
            for one in self.said
            if one.word == "idle" and one.at >= begun.at and (end is None or one.place < end.place)
        ]
        assert self.ready is not None
        timeout_at = max(self.ready, later[-1]) if later else NEVER
        let_go = end is not None and end.word in ("tell", "gone")
        if t < timeout_at:
            return SpendCause.IDLE_TIMEOUT if let_go else self.idle_by_phase(t)
        if let_go and end is not None and self.just_not_seen(t, end, timeout_at):
            return SpendCause.IDLE_TIMEOUT
        held = self.before(t, "hold")
        return (held.hold if held else None) or SpendCause.MINIMUM

    def just_not_seen(self, t: int, end: Said, timeout_at: int) -> bool:
        """Nothing kept it from some time before ``t`` on, no longer than a tick before it was told."""
        holds = [
            Said(-1, self.requested, "hold"),
            *(one for one in self.said if one.word == "hold" and one.place < end.place),
        ]
        free = timeout_at
        for before, one in pairwise(holds):
            if before.hold is not None and one.hold is None:
                free = max(timeout_at, one.at)
        if holds[-1].hold is not None:
            return False
        return free <= t and end.at - free <= self.tick

    def idle_by_phase(self, t: int) -> SpendCause:
        """What the application did."""
        running, waiting = next((phase[1:] for phase in reversed(self.phases) if phase[0] <= t), (0, 0))
        return SpendCause.OTHER if waiting else SpendCause.LAST_TASK if running else SpendCause.DRIVER

    def cause(self, t: int) -> SpendCause:
        """One millisecond, lost work aside."""
        at_work = self.before(t, "busy", "idle")
        if at_work is not None and at_work.word == "busy":
            return SpendCause.RUNNING
        if self.before(t, "tell"):
            return SpendCause.LEAVING
        if not self.ran:
            return SpendCause.OVER_REQUESTED
        if self.registered is None or self.ready is None or t < self.ready:
            return SpendCause.STARTING
        return self.idle(t)

    def causes(self) -> Counter[SpendCause]:
        """All of its milliseconds."""
        return Counter(self.cause(t) for t in range(self.requested, self.ended))


class Fleets(RuleBasedStateMachine):
    """Executors come, work, rest and go; the application has its phases and its shortages."""

    @initialize(started=st.integers(-5, 5), tick=st.sampled_from((0, 3)), first=st.integers(1, 3))
    def begin(self, started: int, tick: int, first: int) -> None:
        self.book = Ledger(started, tick)
        self.tick = tick
        self.started = self.now = started
        self.said: list[list[Said]] = []
        self.work: list[list[int]] = []
        self.phases: list[tuple[int, int, int]] = []
        self.shortages: list[tuple[int, tuple[int, ...]]] = []
        self.states: list[str] = []
        for _ in range(first):
            self.ask(0)
            self.move(0, len(self.states) - 1, 0, 0, None, 0, 0)

    def note(
        self, key: int, word: str, state: str | None = None, hold: SpendCause | None = None, timeout_at: int = NEVER
    ) -> None:
        self.said[key].append(Said(len(self.said[key]), self.now, word, hold, timeout_at))
        if state is not None:
            self.states[key] = state

    @rule(passed=PASSED)
    def ask(self, passed: int) -> None:
        self.now += passed
        key = len(self.said)
        self.said.append([])
        self.work.append([0, 0])
        self.states.append("asked")
        self.note(key, "ask")
        self.book.requested(key, self.now)

    @rule(
        passed=PASSED,
        choice=st.integers(0, 9),
        move=st.integers(0, 11),
        timeout=st.sampled_from((0, 2, 5, 9, 30, NEVER)),
        by=st.sampled_from((None, SpendCause.CACHED, SpendCause.SHUFFLE)),
        task=st.integers(0, 50),
        wasted=st.integers(0, 30),
    )
    def move(
        self, passed: int, choice: int, move: int, timeout: int, by: SpendCause | None, task: int, wasted: int
    ) -> None:
        """One executor's next step, of those that its state allows."""
        self.now += passed
        if not self.states:
            return
        key = choice % len(self.states)
        moves = MOVES[self.states[key]]
        match moves[move % len(moves)]:
            case "register":
                self.book.registered(key, self.now, 1)
                self.note(key, "register", "new")
            case "cancel":
                self.book.cancelled(key, self.now)
                self.note(key, "cancel", "gone")
            case "ready":
                self.book.ready(key, self.now)
                self.note(key, "ready")
            case "busy":
                self.book.busy(key, self.now)
                self.note(key, "busy", "busy")
            case "idle":
                timeout_at = NEVER if timeout == NEVER else self.now + timeout
                self.book.idle(key, self.now, timeout_at)
                self.note(key, "idle", "idle", timeout_at=timeout_at)
            case "hold":
                self.book.held(key, self.now, by)
                self.note(key, "hold", hold=by)
            case "work":
                self.book.worked(key, task, wasted)
                self.work[key][0] += task
                self.work[key][1] += wasted
            case "tell":
                self.book.told_to_go(key, self.now)
                self.note(key, "tell", "idle" if self.states[key] == "new" else None)
            case end:
                self.book.removed(key, self.now, end == "lost")
                self.note(key, end, "gone")

    @rule(passed=PASSED, running=st.integers(0, 2), waiting=st.integers(0, 2))
    def phase(self, passed: int, running: int, waiting: int) -> None:
        self.now += passed
        self.book.phase(self.now, running, waiting)
        self.phases.append((self.now, running, waiting))

    @rule(
        passed=PASSED,
        counts=st.dictionaries(st.sampled_from(Limit), st.integers(0, 5), max_size=4),
        mapping=st.booleans(),
    )
    def shortage(self, passed: int, counts: dict[Limit, int], mapping: bool) -> None:
        self.now += passed
        row = tuple(counts.get(limit, 0) for limit in LIMITS)
        self.book.shortage(self.now, counts if mapping else row)
        self.shortages.append((self.now, row))

    @precondition(lambda self: self.now > self.started)
    @rule()
    def back_in_time(self) -> None:
        self.book.phase(self.now, *(self.phases[-1][1:] if self.phases else (0, 0)))
        with pytest.raises(ValueError, match="time goes back"):
            self.book.requested("late", self.now - 1)

    @invariant()
    def small(self) -> None:
        """The books keep a few numbers for each change of phase, and nothing for each call."""
        if hasattr(self, "book"):
            assert len(self.book._turns) <= 1 + len(self.phases)

    def teardown(self) -> None:
        if not hasattr(self, "book"):
            return
        sums = self.book.close(self.now, each=True)
        with pytest.raises(ValueError, match="the ledger is closed"):
            self.book.close(self.now)
        self.judge_causes(sums)
        self.judge_waiting(sums)

    def judge_causes(self, sums: Sums) -> None:
        ledger: Counter[SpendCause] = Counter()
        billed = registered = 0
        for key, said in enumerate(self.said):
            reader = Reader(said, self.phases, self.now, self.tick)
            causes = reader.causes()
            task, wasted = self.work[key]
            lost_work = causes[SpendCause.RUNNING] * min(wasted, task) // task if task else 0
            causes[SpendCause.LOST_WORK] = lost_work
            causes[SpendCause.RUNNING] -= lost_work
            bill = sums.by_executor[key]
            assert dict(zip(CAUSES, bill.causes, strict=True)) == {cause: causes[cause] for cause in SpendCause}
            assert sum(bill.causes) == bill.ended - bill.requested == reader.ended - reader.requested
            assert not (reader.ran and causes[SpendCause.OVER_REQUESTED])
            assert bill.lost == (any(one.word == "lost" for one in said))
            ledger += causes
            billed += reader.ended - reader.requested
            registered += 0 if reader.registered is None else reader.ended - reader.registered
        assert sums.ledger == {cause: ledger[cause] for cause in SpendCause}
        assert min(sums.ledger.values()) >= 0
        assert sum(sums.ledger.values()) == sums.billed_ms == billed
        assert sums.executor_ms == registered <= billed

    def judge_waiting(self, sums: Sums) -> None:
        exact = dict.fromkeys(range(len(LIMITS)), Fraction(0))
        for row in self.rows():
            if sum(row):
                for limit, count in enumerate(row):
                    exact[limit] += Fraction(count, sum(row))
        assert sums.waited_ms == sum(exact.values())
        assert sum(map(Fraction, sums.waiting.values())) == sums.waited_ms
        for limit, wait in zip(exact, sums.waiting.values(), strict=True):
            assert wait == pytest.approx(float(exact[limit]), abs=1e-3)
            assert wait >= 0

    def rows(self) -> Iterator[tuple[int, ...]]:
        """What is missing in each millisecond."""
        for t in range(self.started, self.now):
            yield next((row for at, row in reversed(self.shortages) if at <= t), ())


Fleets.TestCase.settings = settings(settings(), max_examples=2 * settings().max_examples, stateful_step_count=60)
TestFleets = Fleets.TestCase
