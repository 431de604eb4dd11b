"""The live view: whatever the terminal, every line fits, the weighty things are there, and nothing is left behind."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import termios
import textwrap
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as some
from rich.cells import cell_len
from rich.console import ConsoleDimensions

from podtide.adapters.kubernetes.api import CallSeen
from podtide.adapters.notices import Level, Topic
from podtide.adapters.text.page import Page
from podtide.adapters.text.plot import ASCII, COLOURED
from podtide.adapters.views.live import status
from podtide.adapters.views.live.dashboard import Frame, columns_of, graph
from podtide.adapters.views.live.terminal import LiveTerminal
from podtide.adapters.views.live.tracker import LiveTracker
from tests.support.engine_play import config
from tests.support.live_play import ABOUT, START, HandClock, Seen, notice, tracker
from tests.support.project import PROJECT

FIGURES = status.ProfileFigures(0, 600, {"running": 412, "pending": 88, "requested": 60, "failed": 2}, 409, 3)
BUSY = status.LiveSnapshot(
    at=START + 755_000,
    change=9,
    started=START,
    about=ABOUT,
    profiles=(FIGURES,),
    total=status.TotalFigures(600, FIGURES.pods, 409, 3),
    recent=tuple(status.TrendPoint(600 if n > 20 else 10, min(412, 4 * n), min(409, 4 * n)) for n in range(150)),
    recent_width_ms=2_000,
    decisions=tuple(
        status.DecisionLine(
            START + n * 1_000, START + n * 1_000, "info", "raised", "createPod", f"create pods {n}-{n + 9}", ("reason",)
        )
        for n in range(40)
    ),
    counts={("createPod", "below target"): 560, ("listPods", "resynchronize"): 9},
    held=(
        status.HeldNow(
            "batch size", 0, START + 700_000, 40, False, ("held 40 back", "by allocation.batch.size", "batch 20")
        ),
    ),
    notices=tuple(
        status.RepeatedNotice(START + n, START + n, Level.WARNING, Topic.THROTTLED, f"news {n}") for n in range(30)
    ),
    listed=True,
    watch=status.WatchHealth.ALIVE,
    seen_ms=2_400,
    lease=status.Lease.HELD,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


def drawn(snapshot: status.LiveSnapshot, width: int, height: int, encoding: str = "utf-8") -> list[str]:
    return [line.plain for line in Frame(Page(Terminal(encoding))).draw(snapshot, width, height)]


@pytest.mark.parametrize(
    ("width", "height"), [(120, 40), (80, 24), (60, 40), (40, 20), (40, 12), (200, 60), (20, 5), (1, 1)]
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_every_line_fits(width: int, height: int, encoding: str) -> None:
    for snapshot in (BUSY, status.LiveSnapshot(at=START, change=0, started=START, about=ABOUT)):
        lines = drawn(snapshot, width, height, encoding)
        assert 0 < len(lines) <= height
        assert all(cell_len(line) <= width for line in lines), lines
        assert all(line.isascii() for line in lines) or encoding != "ascii"


@pytest.mark.parametrize(("width", "height"), [(120, 40), (80, 24), (40, 20)])
def test_what_matters_is_there_on_every_terminal(width: int, height: int) -> None:
    text = "\n".join(drawn(BUSY, width, height))
    for wanted in (
        "spark-1",
        "412 of 600",
        "held 40 back",
        "by allocation",
        "create pods 39-48",
        "reason",
        "API",
        "news 29",
    ):
        assert wanted in text, wanted


def test_the_newest_come_last() -> None:
    lines = drawn(BUSY, 100, 40)
    order = [line.split()[3] for line in lines if "create pods" in line]
    assert order == sorted(order, key=lambda word: int(word.partition("-")[0]))
    assert order[-1] == "39-48"


@pytest.mark.parametrize(
    ("changed", "alarm"),
    [
        ({"watch": status.WatchHealth.BROKEN, "watch_since": START + 750_000}, "! the watch is broken, for 5 s"),
        ({"lease": status.Lease.LOST, "lease_since": START + 740_000}, "! the lease is lost since 15 s"),
        ({"unreachable_since": START + 753_000}, "! the API server does not answer, for 2 s"),
        ({"throttled_at": START + 700_000}, "! the API server throttles us, 55 s ago"),
        ({"beat_s": 45.0}, "! the loop has not turned for 45 s"),
        ({"about": ABOUT._replace(driver=True), "driver": False}, "! the driver does not answer"),
        ({"exit_code": 11}, "! the application is ended with exit code 11"),
        ({"lease_late_at": START + 754_500}, "! the lease was renewed late, just now"),
    ],
)
def test_what_is_wrong_is_said_at_the_top(changed: dict[str, Any], alarm: str) -> None:
    assert alarm in drawn(replace(BUSY, **changed), 100, 40)[2]
    assert not any(line.startswith("!") for line in drawn(BUSY, 100, 40))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"about": ABOUT._replace(mode="shadow"), "lease": status.Lease.NONE, "differences": 3},
            ["shadows spark-1", "3 differences"],
        ),
        ({"lease": status.Lease.NONE}, ["acts for spark-1", "no lease yet"]),
        ({"stage": status.RunStage.STOPPING}, ["stopping"]),
        ({"stage": status.RunStage.STOPPED}, ["stopped", "Executors, as last seen"]),
        ({}, ["lease held", "watching", "pods seen 2 s ago", "up 12:35", "10:12:35 UTC", "target: a number"]),
        ({"held": ()}, ["Held back now  nothing"]),
        ({"decisions": ()}, ["none yet"]),
        ({"notices": ()}, ["News  none"]),
        ({"profiles": ()}, ["none, and none wanted"]),
    ],
)  # fmt: skip
def test_words_of_the_view(changed: dict[str, Any], words: list[str]) -> None:
    text = "\n".join(drawn(replace(BUSY, **changed), 120, 40))
    for word in words:
        assert word in text


def test_profiles_that_do_not_fit_are_counted() -> None:
    many = tuple(status.ProfileFigures(n, 10 + n, {"running": n}, n, 0) for n in range(1, 30))
    lines = drawn(replace(BUSY, profiles=many), 100, 40)
    assert any("profile 1 " in line for line in lines)
    assert any(line.strip().startswith("23 more; all:") for line in lines)


@pytest.mark.parametrize(
    ("pods", "target", "bar"),
    [
        ({"running": 5, "pending": 2, "requested": 1}, 10, "#####++-.."),
        ({"running": 10}, 10, "##########"),
        ({"running": 10}, 4, "####|#####"),
        ({"pending": 1}, 1, "++++++++++"),
        ({"running": 1}, 1_000, "#........."),
        ({"running": 999}, 1_000, "##########"),
        ({}, 7, ".........."),
    ],
)
def test_bars(pods: dict[str, int], target: int, bar: str) -> None:
    snapshot = replace(BUSY, profiles=(status.ProfileFigures(0, target, pods, 0, 0),), recent=())
    lines = drawn(snapshot, 14, 60, "ascii")
    assert lines[lines.index(next(line for line in lines if line.startswith("Exec"))) + 1].strip() == bar


def test_strange_names_cannot_steer_the_terminal() -> None:
    evil = "x\x1b[2J\u202e\ny"
    snapshot = replace(
        BUSY,
        about=status.About(evil, evil, evil, evil, evil, evil),
        decisions=(status.DecisionLine(START, START, "info", "raised", evil, evil, (evil,)),),
        held=(status.HeldNow(evil, 0, START, 1, False, (evil,)),),
        notices=(status.RepeatedNotice(START, START, Level.ERROR, Topic.CALL_REFUSED, evil),),
    )
    for line in drawn(snapshot, 120, 40):
        assert line.isprintable()


@settings(max_examples=60, deadline=None)
@given(
    some.lists(
        some.builds(status.TrendPoint, some.integers(0, 50), some.integers(0, 50), some.just(0)), min_size=1, max_size=80
    ),
    some.integers(16, 90), some.integers(1, 7),
)  # fmt: skip
def test_the_graph_fills_its_columns(points: list[status.TrendPoint], columns: int, rows: int) -> None:
    lines = graph(columns_of(points, columns, max(30, len(points))), rows, COLOURED)
    assert [sum(cell_len(span.text) for span in line) for line in lines] == [columns] * rows


def test_a_graph_by_hand() -> None:
    points = [
        status.TrendPoint(0, 0, 0),
        status.TrendPoint(4, 0, 0),
        status.TrendPoint(4, 2, 2),
        status.TrendPoint(4, 4, 4),
    ]
    rows = ["".join(span.text for span in line) for line in graph(points, 2, ASCII)]
    assert rows == [" ===", "  ##"]


# ---------------------------------------------------------------------------------------------------------- the terminal


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in (("TERM", "xterm-256color"), ("COLUMNS", "80"), ("LINES", "24")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


ENTER, LEAVE, HIDE, SHOW = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25l", "\x1b[?25h"


def begun() -> LiveTracker:
    clock = HandClock()
    told = tracker(clock)
    Seen(config(), clock, told)
    return told


def test_the_terminal_is_given_back(terminal: Terminal) -> None:
    with LiveTerminal(begun(), terminal):
        assert ENTER in terminal.getvalue()
        assert HIDE in terminal.getvalue()
    text = terminal.getvalue()
    assert text.index(ENTER) < text.index(LEAVE)
    assert text.rindex(HIDE) < text.rindex(SHOW)
    left = text[text.rindex(LEAVE) :]
    assert "acts for" in left
    assert len(left.splitlines()) <= 17


@pytest.mark.parametrize("problem", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_the_terminal_is_given_back_whatever_happens(terminal: Terminal, problem: type[BaseException]) -> None:
    with pytest.raises(problem), LiveTerminal(tracker(), terminal):
        raise problem
    assert terminal.getvalue().count(ENTER) == terminal.getvalue().count(LEAVE) == 1
    assert terminal.getvalue().rindex(HIDE) < terminal.getvalue().rindex(SHOW)


def test_it_is_drawn_again_only_if_something_is_different(terminal: Terminal) -> None:
    clock = HandClock()
    told = tracker(clock)
    view = LiveTerminal(told, terminal)
    assert view.refresh()
    assert not view.refresh()
    clock.at += 300
    assert not view.refresh(), "nothing but part of a second has passed"
    told.notify(notice())
    assert view.refresh()
    clock.at += 1_000
    assert view.refresh(), "the clock of the view has moved"


def test_a_new_size_is_drawn_at_once(terminal: Terminal) -> None:
    view = LiveTerminal(tracker(), terminal)
    assert view.refresh()
    view._console.size = ConsoleDimensions(40, 20)
    assert view.refresh()
    assert not view.refresh()


def test_a_terminal_that_is_gone_ends_the_view_and_nothing_else(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveTerminal(tracker(), terminal) as view:

        def hang_up(_: str) -> int:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(terminal, "write", hang_up)
        view._shown = None
        assert not view.refresh()
        assert view.gone


def test_colours_are_left_out_when_nobody_wants_them(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    told = tracker()
    told.seen(CallSeen("create", "pods", 500, 0.1, 1, 1))
    told.notify(notice(level=Level.ERROR))
    with LiveTerminal(told, terminal):
        pass
    assert not any(f"\x1b[{colour}" in terminal.getvalue() for colour in ("31", "32", "33", "34", "35", "36", "1;31"))


PROGRAM = """
import fcntl, sys, termios, threading
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from podtide.adapters.clock import SystemClock
from podtide.adapters.views.live.status import About
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.adapters.views.live.terminal import LiveTerminal
story = LiveTracker(About("app", "ns", "act", "1"), SystemClock())
with LiveTerminal(story, sys.stdout):
    sys.stderr.write("up")
    sys.stderr.flush()
    threading.Event().wait(20)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")
def test_ctrl_c_in_a_real_terminal_leaves_it_as_it_was() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(PROJECT / ".typing")}
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        assert running.stderr is not None
        assert running.stderr.read(2) == b"up"
        os.write(ours, b"\x03")
        assert running.wait(20) != 0
        assert b"KeyboardInterrupt" in running.stderr.read()
        assert termios.tcgetattr(theirs) == before
        text = b""
        os.set_blocking(ours, False)
        while True:
            try:
                text += os.read(ours, 65_536)
            except OSError:
                break
        assert text.index(ENTER.encode()) < text.index(LEAVE.encode())
        assert text.rindex(HIDE.encode()) < text.rindex(SHOW.encode())
    finally:
        running.kill()
        running.wait()
        os.close(ours)
        os.close(theirs)
