"""Whether the answer is still wanted: a signal ends the command, and a reader of standard output may go.

The signal's exception unwinds the command, as a rule. Where something swallowed the exception, nothing is printed or
replaced any more.
"""

from __future__ import annotations

import os
import sys
from typing import Final

SIGNALS: Final[list[int]] = []
"""The signals that have come, by their numbers."""


def check_wanted() -> None:
    """Raise KeyboardInterrupt if a signal has come: call it before an answer is printed or a file takes its place."""
    if SIGNALS:
        raise KeyboardInterrupt


def silence() -> None:
    """Let go of standard output: what is buffered still would be refused again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
