"""One line of a terminal that is written over and over and wiped at the end; on anything else nothing at all.

What progress has in common: whether there is a terminal that knows how to go back to the beginning of a line, what is done
when it goes away (nothing: the work goes on), how the line is wiped, and that it is shown only now and then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import IO, Final, Self

from podtide.adapters.text.format import size


class TerminalLine:
    """A context manager. ``stream``: None where there is none. ``active``: whether anything is shown at all.

    ``patience_s``: seconds before the line appears; ``every_s``: seconds between two updates, by ``clock``.
    ``anywhere``: it need not be a terminal, for those that write lines.
    """

    def __init__(
        self,
        stream: IO[str] | None,
        *,
        patience_s: float = 0.0,
        every_s: float = 0.0,
        clock: Callable[[], float] | None = None,
        anywhere: bool = False,
    ) -> None:
        self.stream = stream
        self.clock = time.monotonic if clock is None else clock
        self.active = stream is not None and (anywhere or interactive(stream))
        self.every_s = every_s
        self.next = self.clock() + patience_s
        self.shown = False

    def due(self) -> bool:
        """Whether it is time for an update; the next one is due ``every_s`` later."""
        if not self.active:
            return False
        now = self.clock()
        if now < self.next:
            return False
        self.next = now + self.every_s
        return True

    def put(self, text: str) -> None:
        """Write the line, now. ``text``: one line without anything that moves a cursor."""
        if self.active:
            self.shown = True
            self.write(f"\r{text}\x1b[K")

    def close(self) -> None:
        """Wipe the line; nothing is shown any more."""
        if self.shown:
            self.write("\r\x1b[K")
        self.shown = self.active = False

    def write(self, text: str) -> None:
        """Write as it is."""
        assert self.stream is not None
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # the terminal has gone; the work goes on
            self.active = self.shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def interactive(stream: IO[str]) -> bool:
    """A terminal that knows how to go back to the beginning of a line."""
    try:
        return stream.isatty() and os.environ.get("TERM", "") != "dumb"
    except (ValueError, OSError):
        return False


PATIENCE_S: Final = 0.7
"""Seconds before the line appears: short work needs none."""

EVERY_S: Final = 0.1
"""Seconds between two updates of a reading."""

STEP_EVERY_S: Final = 0.2
"""Seconds between two updates of work that is described in words."""


class ByteProgress(TerminalLine):
    """A context manager; ``show`` as often as one likes. ``total``: bytes in all, None if unknown."""

    def __init__(self, stream: IO[str] | None, total: int | None) -> None:
        super().__init__(stream, patience_s=PATIENCE_S, every_s=EVERY_S)
        self._total = total
        self._begun = self.clock()

    def show(self, done: int) -> None:
        """``done`` bytes are read."""
        if not self.due():
            return
        took = self.clock() - self._begun
        speed = f"{size(done / took)}/s" if took > 0 else ""
        if self._total:
            share = min(1.0, done / self._total)
            left = f", {took / share - took:.0f} s left" if 0.01 < share < 1 else ""
            text = f"{share:4.0%}  {size(done)} of {size(self._total)}, {speed}{left}"
        else:
            text = f"{size(done)}, {speed}"
        self.put(f"reading  {text}")


class CountProgress(TerminalLine):
    """A context manager; ``show`` as often as one likes. ``stream``: None where there is none."""

    def __init__(self, stream: IO[str] | None, clock: Callable[[], float] | None = None) -> None:
        super().__init__(stream, patience_s=PATIENCE_S, every_s=STEP_EVERY_S, clock=clock)

    def show(self, text: str) -> None:
        """What is under way, one line without anything that moves a cursor."""
        if self.due():
            self.put(text)
