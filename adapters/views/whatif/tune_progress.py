"""How far many simulations are: one line of a terminal that is wiped at the end; elsewhere nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Final

from podtide.adapters.text.progress import TerminalLine

PATIENCE_S: Final = 0.7
"""Seconds before the line appears: short searches need none."""

EVERY_S: Final = 0.2
"""Seconds between two updates."""


class CountProgress(TerminalLine):
    """A context manager; ``show`` as often as one likes. ``stream``: None where there is none."""

    def __init__(self, stream: IO[str] | None, clock: Callable[[], float] | None = None) -> None:
        super().__init__(stream, patience_s=PATIENCE_S, every_s=EVERY_S, clock=clock)

    def show(self, text: str) -> None:
        """What is under way, one line without anything that moves a cursor."""
        if self.due():
            self.put(text)
