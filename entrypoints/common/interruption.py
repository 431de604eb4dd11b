"""Whether a signal has come that ends the command.

Its exception unwinds the command, as a rule. Where something swallowed the exception, nothing is told or replaced any more.
"""

from __future__ import annotations

from typing import Final

SIGNALS: Final[list[int]] = []
"""The signals that have come, by their numbers."""


def check_wanted() -> None:
    """Raise KeyboardInterrupt if a signal has come: call it before an answer is printed or a file takes its place."""
    if SIGNALS:
        raise KeyboardInterrupt
