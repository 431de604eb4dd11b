"""What any thread may tell a live run: to stop, that its lease is lost, that an executor id was given out.

Threads that read the cluster, the driver or standard input end the run through this object, and so does a signal. It exists
before the loop does: what is told before there is an environment to stop is remembered.
"""

from __future__ import annotations

import contextlib
import signal
from contextlib import ExitStack
from types import FrameType

from podtide.domain.live.shadow import Difference, Same
from podtide.domain.protocol.pods import PodNumber
from podtide.entrypoints.live.loop import LiveEnvironment


class RunControl:
    """``trouble``: why the run has to end, if it has to. ``highest``: the highest executor id that was ever given out."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.interrupted = False
        self.highest = PodNumber(0)
        self.same = self.differences = 0
        self._environment: LiveEnvironment | None = None

    def attach(self, environment: LiveEnvironment) -> None:
        """From now on ``stop`` ends the loop in this environment."""
        self._environment = environment

    def stop(self) -> None:
        """End the run at its next turn. Safe in a signal handler and from any thread."""
        if self._environment is not None:
            self._environment.stop()

    def lose(self, why: str) -> None:
        """End the run because somebody else is in charge."""
        self.trouble = why
        self.stop()

    def note_id(self, number: PodNumber) -> None:
        """Remember an executor id that was given out."""
        self.highest = max(self.highest, number)

    def compare(self, outcome: Difference | Same) -> None:
        """Count whether the shadow and Spark did the same."""
        if isinstance(outcome, Same):
            self.same += 1
        else:
            self.differences += 1

    def on_signals(self, resources: ExitStack) -> None:
        """SIGTERM and Ctrl-C end the run at its next turn; a second Ctrl-C ends it at once."""

        def end(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGINT:
                if self.interrupted:
                    raise KeyboardInterrupt
                self.interrupted = True
            self.stop()

        with contextlib.suppress(ValueError):  # only the main thread may; elsewhere somebody else ends the run
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                resources.callback(signal.signal, number, signal.signal(number, end))
