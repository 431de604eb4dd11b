"""How far a long reading is, on one line of a terminal that is wiped when it ends; elsewhere nothing at all."""

from __future__ import annotations

from typing import IO, Final

from podtide.adapters.text.format import size
from podtide.adapters.text.progress import TerminalLine

PATIENCE_S: Final = 0.7
"""Seconds before the line appears: short readings need none."""

EVERY_S: Final = 0.1
"""Seconds between two updates."""


class Progress(TerminalLine):
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
