"""How far a fleet is: one line of a terminal that is wiped at the end, or, where asked for, plain lines now and then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Final, Self

from podtide.adapters.fleet_rows import Status
from podtide.adapters.wording import count, lasting

PATIENCE_S: Final = 0.7
"""Seconds before anything appears: a few logs need no progress."""

EVERY_S: Final = 0.2
"""Seconds between two updates of a terminal's line."""

PLAIN_EVERY_S: Final = 10.0
"""Seconds between two plain lines."""

SPEED_MIN: Final = 5
"""Logs that must be done before a remaining time is worth a guess."""


class FleetProgress:
    """A context manager. ``plain``: lines instead of a terminal's line, wherever they go."""

    def __init__(self, stream: IO[str], *, plain: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._plain = plain
        self._active = plain or _interactive(stream)
        self._every = PLAIN_EVERY_S if plain else EVERY_S
        self._next = clock() + (self._every if plain else PATIENCE_S)
        self._begun = clock()
        self._shown = False
        self._counts = dict.fromkeys(Status, 0)

    def finding(self, found: int) -> None:
        """So many logs are found; the folders are still being walked."""
        if self._due():
            self._say(f"{count(found, 'log')} found")

    def begin(self) -> None:
        """The work begins: speed counts from here."""
        self._begun = self._clock()

    def done(self, status: Status, total: int, reused: int) -> None:
        """A log is done. ``total``: of how many; ``reused``: those that were done before this run."""
        self._counts[status] += 1
        if not self._due():
            return
        done = sum(self._counts.values())
        took = self._clock() - self._begun
        text = f"{done + reused:,} of {count(total, 'log')}"
        bad = [f"{number:,} {kind.value}" for kind, number in self._counts.items() if number and kind != Status.OK]
        if bad:
            text += f" ({', '.join(bad)})"
        if took > 0:
            speed = done / took
            text += f", {speed:,.1f}/s" if speed >= 1 else f", {60 * speed:,.1f}/min"
            if done >= SPEED_MIN and done + reused < total:
                text += f", about {lasting(1000 * (total - done - reused) / speed)} left"
        self._say(text)

    def close(self) -> None:
        """Wipe the line."""
        if self._shown and not self._plain:
            self._write("\r\x1b[K")
        self._shown = self._active = False

    def _due(self) -> bool:
        if not self._active:
            return False
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + self._every
        return True

    def _say(self, text: str) -> None:
        self._shown = True
        self._write(f"fleet: {text}\n" if self._plain else f"\rfleet  {text}\x1b[K")

    def _write(self, text: str) -> None:
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
