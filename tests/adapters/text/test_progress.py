"""The line that tells how far many simulations are."""

from __future__ import annotations

import io

import pytest

from podtide.adapters.text.progress import CountProgress
from tests.support.terminal import Terminal


class Gone(Terminal):
    def write(self, _text: str) -> int:
        raise OSError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setenv("TERM", "xterm")
    return Clock()


def test_it_is_patient_and_wipes_its_line(clock: Clock) -> None:
    stream = Terminal()
    with CountProgress(stream, clock) as progress:
        progress.show("one")
        clock.now = 1.0
        progress.show("two")
        progress.show("three")
        clock.now = 1.3
        progress.show("four")
    assert stream.getvalue() == "\rtwo\x1b[K\rfour\x1b[K\r\x1b[K"


@pytest.mark.parametrize("stream", [None, io.StringIO(), Gone()])
def test_where_nobody_looks_it_says_nothing(clock: Clock, stream: io.StringIO | None) -> None:
    with CountProgress(stream, clock) as progress:
        clock.now = 9.0
        progress.show("one")
        clock.now = 10.0
        progress.show("two")
    assert stream is None or stream.getvalue() == ""
