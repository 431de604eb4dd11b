"""The books behind the bill: a line for each rule, what is refused, and the example of the documentation."""

from __future__ import annotations

from fractions import Fraction

import pytest

from podtide.domain.base.units import NEVER
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.ledger.executor_life import CAUSES
from podtide.domain.rerun.ledger.ledger import LIMITS, Bill, Ledger, Sums
from tests.support.project import PROJECT

HOLDS = {"cached": SpendCause.CACHED, "shuffle": SpendCause.SHUFFLE, "none": None}


def write(book: Ledger, line: str) -> Sums | None:
    """One call of executor "x": a word, a time if it takes one, and what it takes besides."""
    word, *rest = line.split()
    at, *more = [NEVER if one == "never" else int(one) for one in rest if one not in HOLDS]
    match word:
        case "ask":
            book.requested("x", at)
        case "register":
            book.registered("x", at, 2)
        case "cancel":
            book.cancelled("x", at)
        case "busy":
            book.busy("x", at)
        case "idle":
            book.idle("x", at, more[0])
        case "ready":
            book.ready("x", at)
        case "held":
            book.held("x", at, HOLDS[rest[-1]])
        case "worked":
            book.worked("x", at, more[0])
        case "tell":
            book.told_to_go("x", at)
        case "gone":
            book.removed("x", at, lost=False)
        case "lost":
            book.removed("x", at, lost=True)
        case "phase":
            book.phase(at, more[0], more[1])
        case "close":
            return book.close(at)
        case _:
            raise AssertionError(line)
    return None


def play(story: str, tick_ms: int = 0) -> Sums:
    """A story from 0, its lines divided by semicolons; the last one closes."""
    book = Ledger(0, tick_ms)
    sums = None
    for line in story.split(";"):
        sums = write(book, line)
    assert sums is not None
    return sums


def spent(sums: Sums) -> dict[str, int]:
    """The causes that have anything, by their names."""
    return {cause.name: ms for cause, ms in sums.ledger.items() if ms}


def bill(text: str) -> dict[str, int]:
    """The same from a line: names and ms in turn."""
    words = text.split()
    return {name: int(ms) for name, ms in zip(words[::2], words[1::2], strict=True)}


RAN = "ask 0; register 10; busy 10; "
"""Ten ms of start-up, then a task."""


@pytest.mark.parametrize(
    ("story", "causes"),
    [
        # it never ran a task: hindsight
        ("ask 0; close 50", "OVER_REQUESTED 50"),
        ("ask 5; cancel 40; close 50", "OVER_REQUESTED 35"),
        ("ask 0; lost 40; close 50", "OVER_REQUESTED 40"),
        ("ask 0; register 10; close 50", "OVER_REQUESTED 50"),
        ("ask 0; register 10; idle 10 30; tell 30; gone 50; close 90", "OVER_REQUESTED 30 LEAVING 20"),
        ("ask 0; register 10; idle 10 20; held 15 cached; close 50", "OVER_REQUESTED 50"),
        ("ask 0; tell 30; cancel 50; close 50", "OVER_REQUESTED 30 LEAVING 20"),
        ("ask 0; tell 30; register 40; idle 40 90; close 50", "OVER_REQUESTED 30 LEAVING 20"),
        ("ask 0; register 10; idle 10 90; ready 20; close 50", "OVER_REQUESTED 50"),
        # its start goes on until it can be given tasks
        ("ask 0; register 10; idle 10 90; ready 20; busy 30; close 50", "STARTING 20 DRIVER 10 RUNNING 20"),
        ("ask 0; register 10; ready 20; idle 20 90; busy 30; close 50", "STARTING 20 DRIVER 10 RUNNING 20"),
        ("ask 0; register 10; idle 10 90; busy 15; ready 20; close 50", "STARTING 10 DRIVER 5 RUNNING 35"),
        ("ask 0; register 10; idle 10 15; ready 20; busy 30; close 50", "STARTING 20 MINIMUM 10 RUNNING 20"),
        ("ask 0; register 9; idle 9 12; held 20 cached; ready 30; busy 40; close 50", "STARTING 30 CACHED 10 RUNNING 10"),
        (
            "ask 0; register 9; idle 9 12; tell 20; ready 30; busy 40; close 50",
            "STARTING 9 IDLE_TIMEOUT 3 MINIMUM 8 LEAVING 20 RUNNING 10",
        ),
        ("ask 0; register 10; lost 20; ready 30; close 50", "OVER_REQUESTED 20"),
        # it ran
        (RAN + "close 50", "STARTING 10 RUNNING 40"),
        (RAN + "lost 40; close 50", "STARTING 10 RUNNING 30"),
        ("ask 0; register 10; busy 10; idle 10 70; close 50", "STARTING 10 DRIVER 40"),  # a task of no time
        # work that came to nothing
        (RAN + "worked 60 15; close 50", "STARTING 10 RUNNING 30 LOST_WORK 10"),
        (RAN + "worked 60 20; close 51", "STARTING 10 RUNNING 28 LOST_WORK 13"),  # 41 / 3, rounded down
        (RAN + "worked 40 99; close 50", "STARTING 10 LOST_WORK 40"),
        (RAN + "worked 0 20; close 50", "STARTING 10 RUNNING 40"),
        (RAN + "worked 20 0; worked 20 20; close 50", "STARTING 10 RUNNING 20 LOST_WORK 20"),
        (RAN + "worked 20 0; lost 30; worked 0 5; worked 0 5; close 50", "STARTING 10 RUNNING 10 LOST_WORK 10"),
        (RAN + "worked 20 20; lost 30; worked 0 20; close 50", "STARTING 10 LOST_WORK 20"),
        # told to go
        (RAN + "idle 30 50; tell 50; gone 65; close 90", "STARTING 10 RUNNING 20 IDLE_TIMEOUT 20 LEAVING 15"),
        (RAN + "idle 30 50; tell 50; tell 60; close 65", "STARTING 10 RUNNING 20 IDLE_TIMEOUT 20 LEAVING 15"),
        (RAN + "tell 20; idle 40 90; lost 50; close 90", "STARTING 10 RUNNING 30 LEAVING 10"),
        (RAN + "tell 20; lost 50; close 90", "STARTING 10 RUNNING 40"),
        (
            RAN + "idle 10 90; tell 20; busy 30; idle 35 95; gone 40; close 90",
            "STARTING 10 IDLE_TIMEOUT 10 LEAVING 15 RUNNING 5",
        ),
        ("ask 0; tell 4; register 10; busy 12; close 20", "STARTING 4 LEAVING 8 RUNNING 8"),
        (
            RAN + "idle 10 20; held 15 cached; tell 30; held 40 none; gone 50; close 50",
            "STARTING 10 IDLE_TIMEOUT 10 CACHED 10 LEAVING 20",
        ),
        # idle, within the timeout
        (RAN + "idle 10 70; busy 30; close 30", "STARTING 10 DRIVER 20"),
        (
            RAN + "idle 10 70; phase 15 3 0; phase 18 3 9; phase 25 2 0; busy 30; close 30",
            "STARTING 10 DRIVER 5 LAST_TASK 8 OTHER 7",
        ),
        (RAN + "phase 10 0 1; idle 10 70; close 30", "STARTING 10 OTHER 20"),
        (RAN + "phase 10 1 0; idle 10 70; lost 30; close 40", "STARTING 10 LAST_TASK 20"),
        (RAN + "phase 10 1 0; idle 10 70; gone 30; close 40", "STARTING 10 IDLE_TIMEOUT 20"),
        (RAN + "phase 10 1 0; idle 10 70; tell 30; gone 30; close 40", "STARTING 10 IDLE_TIMEOUT 20"),
        (
            RAN + "phase 10 1 0; idle 10 70; phase 20 0 1; phase 20 1 0; phase 20 0 0; close 30",
            "STARTING 10 LAST_TASK 10 DRIVER 10",
        ),
        ("phase 0 1 0; ask 0; register 5; idle 5 65; busy 9; close 9", "STARTING 5 LAST_TASK 4"),
        ("phase 0 1 0; ask 0; register 5; busy 9; close 9", "STARTING 5 LAST_TASK 4"),
        ("phase 0 1 0; ask 0; register 5; idle 7 8; busy 9; close 9", "STARTING 5 LAST_TASK 3 MINIMUM 1"),
        # idle, beyond it
        (RAN + "idle 10 20; phase 15 1 0; phase 30 0 0; close 50", "STARTING 10 DRIVER 5 LAST_TASK 5 MINIMUM 30"),
        (RAN + "idle 10 20; phase 20 1 0; busy 50; close 50", "STARTING 10 DRIVER 10 MINIMUM 30"),
        (RAN + "idle 10 20; tell 50; close 50", "STARTING 10 IDLE_TIMEOUT 10 MINIMUM 30"),
        (RAN + "held 10 shuffle; idle 10 20; tell 50; close 50", "STARTING 10 IDLE_TIMEOUT 10 SHUFFLE 30"),
        (RAN + "held 10 shuffle; idle 10 20; lost 50; close 50", "STARTING 10 DRIVER 10 SHUFFLE 30"),
        (
            RAN + "idle 10 20; held 10 cached; held 30 shuffle; held 45 none; close 50",
            "STARTING 10 DRIVER 10 CACHED 10 SHUFFLE 15 MINIMUM 5",
        ),
        (RAN + "idle 10 20; held 35 cached; close 50", "STARTING 10 DRIVER 10 MINIMUM 15 CACHED 15"),
        (RAN + "idle 10 20; held 12 cached; held 18 none; close 50", "STARTING 10 DRIVER 10 MINIMUM 30"),
        (
            RAN + "held 11 cached; idle 12 20; busy 30; held 35 none; idle 40 45; close 50",
            "STARTING 10 RUNNING 12 DRIVER 13 CACHED 10 MINIMUM 5",
        ),
        (RAN + "idle 10 10; close 50", "STARTING 10 MINIMUM 40"),
        # a static count has no timeout
        (RAN + "idle 10 never; held 20 cached; phase 30 1 0; close 50", "STARTING 10 DRIVER 20 LAST_TASK 20"),
        (RAN + "idle 10 never; tell 30; close 50", "STARTING 10 IDLE_TIMEOUT 20 LEAVING 20"),
    ],
)  # fmt: skip
def test_causes(story: str, causes: str) -> None:
    sums = play(story)
    assert spent(sums) == bill(causes)
    assert list(sums.ledger) == list(SpendCause)
    assert sums.billed_ms == sum(bill(causes).values())


@pytest.mark.parametrize(
    ("story", "causes"),
    [
        ("idle 10 200; tell 300; close 300", "IDLE_TIMEOUT 290"),
        ("idle 10 200; tell 301; close 301", "IDLE_TIMEOUT 190 MINIMUM 101"),
        ("idle 10 200; gone 300; close 300", "IDLE_TIMEOUT 290"),
        ("idle 10 200; lost 300; close 300", "DRIVER 190 MINIMUM 100"),
        ("idle 10 200; busy 300; close 300", "DRIVER 190 MINIMUM 100"),
        ("idle 10 200; close 300", "DRIVER 190 MINIMUM 100"),
        ("idle 10 200; held 10 cached; held 500 none; tell 550; close 550", "IDLE_TIMEOUT 240 CACHED 300"),
        ("idle 10 200; held 250 none; tell 320; close 320", "IDLE_TIMEOUT 190 MINIMUM 120"),
        ("idle 10 200; held 10 cached; tell 250; close 250", "IDLE_TIMEOUT 190 CACHED 50"),
    ],
)
def test_a_look_is_due_every_tick(story: str, causes: str) -> None:
    assert spent(play(RAN + story, tick_ms=100)) == bill("STARTING 10 " + causes)


@pytest.mark.parametrize(
    ("story", "billed_ms", "executor_ms"),
    [
        ("close 50", 0, 0),
        ("ask 5; close 50", 45, 0),
        ("ask 5; cancel 20; close 50", 15, 0),
        ("ask 5; register 15; close 50", 45, 35),
        ("ask 5; register 15; lost 40; close 50", 35, 25),
        ("ask 5; lost 40; close 50", 35, 0),
    ],
)
def test_what_is_billed(story: str, billed_ms: int, executor_ms: int) -> None:
    sums = play(story)
    assert (sums.billed_ms, sums.executor_ms) == (billed_ms, executor_ms)


ZERO = (0,) * len(LIMITS)


def short(**counts: int) -> dict[Limit, int]:
    """So many missing because of each limit, by their names."""
    return {Limit[name]: count for name, count in counts.items()}


@pytest.mark.parametrize(
    ("story", "waited", "waiting"),
    [
        ([], 0, {}),
        ([(10, short(RAMP=3))], 90, {"RAMP": 90}),
        ([(10, short(RAMP=3)), (40, {})], 30, {"RAMP": 30}),
        ([(10, short(RAMP=3)), (40, ZERO)], 30, {"RAMP": 30}),
        ([(10, short(RAMP=3, BATCH=1)), (50, {})], 40, {"RAMP": 30, "BATCH": 10}),
        ([(0, (1,) * 12), (12, {})], 12, {limit.name: 1 for limit in Limit}),
        ([(0, short(RAMP=1)), (10, short(START_UP=4)), (10, short(CAPACITY=2)), (30, {})], 30, {"RAMP": 10, "CAPACITY": 20}),
        ([(0, short(RAMP=1)), (10, short(RAMP=1)), (30, short(RAMP=5)), (40, {})], 40, {"RAMP": 40}),
        ([(0, short(RAMP=1)), (10, {}), (30, short(RAMP=1)), (40, {})], 20, {"RAMP": 20}),
    ],
)  # fmt: skip
def test_waiting(story: list[tuple[int, dict[Limit, int]]], waited: int, waiting: dict[str, float]) -> None:
    book = Ledger(0)
    for at, missing in story:
        book.shortage(at, missing)
    sums = book.close(100)
    assert sums.waited_ms == waited
    assert {limit.name: ms for limit, ms in sums.waiting.items() if ms} == pytest.approx(waiting, abs=1e-4)
    assert list(sums.waiting) == list(Limit)


def test_no_waiting_is_lost_in_division() -> None:
    book = Ledger(0)
    for at in range(0, 30_000, 3):
        book.shortage(at, short(RAMP=1 + at % 7, BATCH=1 + at % 11, CAPACITY=1 + at % 13))
    sums = book.close(30_000)
    assert sum(map(Fraction, sums.waiting.values())) == sums.waited_ms == 30_000


REFUSED = [
    ("ask 5; ask 6", "requested of executor 'x' at 6 ms: expected a key that is new; it was not yet registered"),
    ("ask 5; cancel 6; ask 7", "expected a key that is new; it was gone"),
    ("ask 5; register 4", "registered of executor 'x' at 4 ms: time goes back, it was 5 ms already"),
    ("register 4", "expected an executor asked for, slots of 0 or more .got 2.; it was never asked for"),
    ("ask 5; register 6; register 7", "it was idle"),
    ("ask 5; register 6; cancel 7", "cancelled .* expected an executor that has not registered; it was idle"),
    ("ask 5; cancel 4", "time goes back"),
    ("busy 5", "expected an idle executor; it was never asked for"),
    ("ask 5; busy 6", "expected an idle executor; it was not yet registered"),
    ("ask 5; register 6; busy 7; busy 8", "expected an idle executor; it was busy"),
    ("ask 5; register 6; busy 4", "time goes back"),
    ("ask 5; idle 6 7", "expected a busy or a just registered executor"),
    ("ask 5; register 6; idle 6 9; idle 7 9", "expected a busy or a just registered executor"),
    ("ask 5; tell 5; register 6; busy 6; idle 6 9; idle 7 9", "expected a busy or a just registered executor"),
    ("ask 5; register 6; idle 6 5", "a timeout from now on .got 5."),
    ("ask 5; register 6; idle 5 9", "time goes back"),
    ("ask 5; ready 6", "ready .* expected a registered executor; it was not yet registered"),
    ("ask 5; register 6; ready 5", "time goes back"),
    ("ask 5; held 6 cached", "held .* expected a registered executor; it was not yet registered"),
    ("ask 5; register 6; held 5 cached", "time goes back"),
    ("worked 5 5", "worked of executor 'x': expected an executor asked for, .* it was never asked for"),
    ("ask 5; worked -1 0", "times of 0 or more .got -1 and 0."),
    ("ask 5; worked 0 -1", "times of 0 or more .got 0 and -1."),
    ("tell 5", "told to go .* it was never asked for"),
    ("ask 5; cancel 6; tell 7", "told to go .* expected an executor that is not gone; it was gone"),
    ("ask 5; tell 4", "time goes back"),
    ("gone 5", "removed .* it was never asked for"),
    ("ask 5; gone 6; lost 7", "removed .* it was gone"),
    ("ask 5; gone 4", "time goes back"),
    ("phase 5 1 1; phase 4 1 1", "phase at 4 ms: time goes back, it was 5 ms already"),
    ("phase 5 1 1; close 4", "close at 4 ms: time goes back"),
    ("phase -1 1 1", "phase at -1 ms: time goes back, it was 0 ms already"),
    ("close 5; close 5", "close at 5 ms: the ledger is closed"),
    ("close 5; ask 6", "the ledger is closed"),
    ("close 5; phase 6 0 0", "the ledger is closed"),
    ("ask 5; close 5; worked 1 1", "worked of executor 'x': the ledger is closed"),
]


@pytest.mark.parametrize(("story", "words"), REFUSED)
def test_refused(story: str, words: str) -> None:
    *before, last = story.split(";")
    book = Ledger(0)
    for line in before:
        write(book, line)
    with pytest.raises(ValueError, match=words):
        write(book, last)


@pytest.mark.parametrize("story", [story for story, _ in REFUSED if "close" not in story])
def test_a_refused_call_leaves_the_books_as_they_were(story: str) -> None:
    *before, last = story.split(";")
    with_it, without = Ledger(0), Ledger(0)
    for line in before:
        write(with_it, line)
        write(without, line)
    with pytest.raises(ValueError, match=r"expected|time goes back"):
        write(with_it, last)
    assert with_it.close(90, each=True) == without.close(90, each=True)


@pytest.mark.parametrize("missing", [(1, 2, 3), (1,) * 11 + (-1,), {Limit.RAMP: -1}])
def test_counts_of_a_shortage_are_checked(missing: tuple[int, ...] | dict[Limit, int]) -> None:
    with pytest.raises(ValueError, match=r"shortage at 5 ms: expected 12 counts of 0 or more"):
        Ledger(0).shortage(5, missing)


def test_other_misuse() -> None:
    with pytest.raises(ValueError, match="tick_ms is -1"):
        Ledger(0, tick_ms=-1)
    book = Ledger(0)
    book.requested(7, 1)
    with pytest.raises(ValueError, match=r"slots of 0 or more .got -1."):
        book.registered(7, 2, -1)
    with pytest.raises(ValueError, match="shortage at 0 ms: time goes back"):
        book.shortage(0, {})
    book.registered(7, 2, 1)
    with pytest.raises(ValueError, match=r"CACHED, SHUFFLE or None .got SpendCause.RUNNING."):
        book.held(7, 2, SpendCause.RUNNING)


def test_every_cause_has_its_rank() -> None:
    assert tuple(SpendCause) == CAUSES


def test_the_bill_of_each() -> None:
    book = Ledger(1_000)
    book.requested("1", 1_000)
    book.requested(2, 1_000)
    book.registered("1", 1_010, 4)
    book.busy("1", 1_010)
    book.removed("1", 1_030, lost=True)
    sums = book.close(1_050, each=True)
    ran = {SpendCause.STARTING: 10, SpendCause.RUNNING: 20}
    over = {SpendCause.OVER_REQUESTED: 50}
    assert sums.by_executor == {
        "1": Bill(1_000, 1_010, 1_030, True, tuple([ran.get(cause, 0) for cause in CAUSES])),
        2: Bill(1_000, None, 1_050, False, tuple([over.get(cause, 0) for cause in CAUSES])),
    }
    assert sum(sum(bill.causes) for bill in sums.by_executor.values()) == sums.billed_ms


def test_the_documented_example() -> None:
    text = (PROJECT / "docs" / "reference" / "ledger.md").read_text(encoding="utf-8")
    book = Ledger(0)
    book.phase(0, 0, 12)
    for key in ("1", "2", "3"):
        book.requested(key, 0)
    book.shortage(0, short(START_UP=2, MAXIMUM=1))
    for key in ("1", "2"):
        book.registered(key, 20_000, 4)
        book.busy(key, 20_000)
    book.shortage(20_000, {})
    book.phase(20_000, 8, 4)
    book.phase(30_000, 8, 0)
    book.registered("3", 30_000, 4)
    book.idle("3", 30_000, 90_000)
    book.idle("2", 50_000, 110_000)
    book.phase(60_000, 0, 0)
    book.worked("1", 80_000, 20_000)
    book.idle("1", 60_000, 120_000)
    book.told_to_go("3", 90_000)
    book.removed("3", 91_000, lost=False)
    book.held("2", 100_000, SpendCause.CACHED)
    book.phase(130_000, 1, 0)
    book.busy("1", 130_000)
    sums = book.close(150_000)
    for cause, ms in sums.ledger.items():
        assert f"| {cause.value} | {ms // 1_000} |" in text or not ms, (cause, ms)
    assert f"| the bill | {sums.billed_ms // 1_000} |" in text
    for limit, wait in sums.waiting.items():
        assert f"| {limit.value} | {wait / 1_000:.1f} |" in text or not wait, (limit, wait)
    assert f"| waited | {sums.waited_ms / 1_000:.1f} |" in text
    rows = [line for line in text.splitlines() if line.count("|") == 4 and line.split("|")[2].strip().isdigit()]
    assert len(rows) == len(spent(sums)) + 1
