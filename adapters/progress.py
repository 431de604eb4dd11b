"""How far a long reading is, on one line of a terminal that is wiped when it ends; elsewhere nothing at all."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import IO, Final, Self

from podtide.adapters.wording import size

PATIENCE_S: Final = 0.7
"""Seconds before the line appears: short readings need none."""

EVERY_S: Final = 0.1
"""Seconds between two updates."""


class Progress:
    """A context manager; ``show`` as often as one likes. ``total``: bytes in all, None if unknown."""

    def __init__(self, stream: IO[str], total: int | None) -> None:
        self._stream = stream
        self._total = total
        self._begun = time.monotonic()
        self._next = self._begun + PATIENCE_S
        self._shown = False
        self._active = _interactive(stream)

    def show(self, done: int) -> None:
        """``done`` bytes are read."""
        if not self._active:
            return
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_S
        self._shown = True
        took = now - self._begun
        speed = f"{size(done / took)}/s" if took > 0 else ""
        if self._total:
            share = min(1.0, done / self._total)
            left = f", {took / share - took:.0f} s left" if 0.01 < share < 1 else ""
            text = f"{share:4.0%}  {size(done)} of {size(self._total)}, {speed}{left}"
        else:
            text = f"{size(done)}, {speed}"
        self._write(f"\rreading  {text}\x1b[K")

    def close(self) -> None:
        """Wipe the line."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False
        self._active = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal has gone; the work goes on
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
