"""How far many simulations are: one line of a terminal that is wiped at the end; elsewhere nothing at all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Final, Self

PATIENCE_S: Final = 0.7
"""Seconds before the line appears: short searches need none."""

EVERY_S: Final = 0.2
"""Seconds between two updates."""


class CountProgress:
    """A context manager; ``show`` as often as one likes. ``stream``: None where there is none."""

    def __init__(self, stream: IO[str] | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._next = clock() + PATIENCE_S
        self._shown = False
        self._active = stream is not None and _interactive(stream)

    def show(self, text: str) -> None:
        """What is under way, one line without anything that moves a cursor."""
        if not self._active:
            return
        now = self._clock()
        if now < self._next:
            return
        self._next = now + EVERY_S
        self._shown = True
        self._write(f"\r{text}\x1b[K")

    def close(self) -> None:
        """Wipe the line."""
        if self._shown:
            self._write("\r\x1b[K")
        self._shown = self._active = False

    def _write(self, text: str) -> None:
        assert self._stream is not None
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal has gone; the work goes on
            self._active = self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _interactive(stream: IO[str]) -> bool:
    """A terminal that knows how to go back to the beginning of a line."""
    try:
        return stream.isatty() and os.environ.get("TERM", "") != "dumb"
    except (ValueError, OSError):
        return False
