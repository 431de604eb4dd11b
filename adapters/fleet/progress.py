"""How far a fleet is: one line of a terminal that is wiped at the end, or, where asked for, plain lines now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Final

from podtide.adapters.fleet.rows import RowStatus
from podtide.adapters.text.format import count, lasting
from podtide.adapters.text.progress import PATIENCE_S, STEP_EVERY_S, TerminalLine

PLAIN_EVERY_S: Final = 10.0
"""Seconds between two plain lines."""

SPEED_MIN: Final = 5
"""Logs that must be done before a remaining time is worth a guess."""


class FleetProgress(TerminalLine):
    """A context manager. ``plain``: lines instead of a terminal's line, wherever they go."""

    def __init__(self, stream: IO[str], *, plain: bool, clock: Callable[[], float] | None = None) -> None:
        every_s = PLAIN_EVERY_S if plain else STEP_EVERY_S
        patience_s = every_s if plain else PATIENCE_S
        super().__init__(stream, patience_s=patience_s, every_s=every_s, clock=clock, anywhere=plain)
        self._plain = plain
        self._begun = self.clock()
        self._counts = dict.fromkeys(RowStatus, 0)

    def finding(self, found: int) -> None:
        """So many logs are found; the folders are still being walked."""
        if self.due():
            self._say(f"{count(found, 'log')} found")

    def begin(self) -> None:
        """The work begins: speed counts from here."""
        self._begun = self.clock()

    def done(self, status: RowStatus, total: int, reused: int) -> None:
        """A log is done. ``total``: of how many; ``reused``: those that were done before this run."""
        self._counts[status] += 1
        if not self.due():
            return
        done = sum(self._counts.values())
        took = self.clock() - self._begun
        text = f"{done + reused:,} of {count(total, 'log')}"
        bad = [f"{number:,} {kind.value}" for kind, number in self._counts.items() if number and kind != RowStatus.OK]
        if bad:
            text += f" ({', '.join(bad)})"
        if took > 0:
            speed = done / took
            text += f", {speed:,.1f}/s" if speed >= 1 else f", {60 * speed:,.1f}/min"
            if done >= SPEED_MIN and done + reused < total:
                text += f", about {lasting(1000 * (total - done - reused) / speed)} left"
        self._say(text)

    def close(self) -> None:
        """Wipe the line; plain lines stay."""
        if self._plain:
            self.shown = False
        super().close()

    def _say(self, text: str) -> None:
        if self._plain:
            self.shown = True
            self.write(f"fleet: {text}\n")
        else:
            self.put(f"fleet  {text}")
