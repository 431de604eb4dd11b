"""The fake cluster: a world played as sensor and actuator, in virtual time.

Nothing here sleeps or reads a clock. The loop says what it does (``apply``) and when it next has something of its own
to do (``wake_at``); ``batches`` jumps from moment to moment, whichever comes first, and yields what the driver hears then:
what the world says, then a ``Wake`` where the loop asked for one. It ends at ``until``, when the application was stopped, or
when nothing lies ahead any more.

The shell holds one world at a time and adds nothing to it. Whoever wants to go on twice from the same moment takes
``world`` and makes another shell of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.pod_commands import PodCommand
from podtide.domain.protocol.pod_stimuli import PodStimulus, Wake

SAME_MOMENT_MAX = 1_000_000
"""How often a moment may have something new to say before the loop is held for one that never lets time pass."""


class NoProgress(Exception):
    """The loop and the cluster answer each other for ever without time passing."""


def _silent(report: Report) -> None:
    """Nobody listens to reports."""


class FakeCluster:
    """A world as the loop's sensor and actuator. ``now``: the moment that it is at."""

    def __init__(
        self, world: KubernetesCluster, until: Millis = NEVER, on_report: Callable[[Report], None] = _silent
    ) -> None:
        self.world = world
        self.now = world.now
        self.until = until
        self._wake = NEVER
        self._on_report = on_report

    # the actuator

    def apply(self, command: PodCommand, now: Millis) -> Sequence[PodStimulus]:
        """Carry a command out; returns what comes of it at this same ``now``, with all else that the moment holds.

        What comes later is the sensor's. Raises ValueError when ``now`` is before the present moment.
        """
        self.world = worlds.apply(self.world, command, now)
        self.now = now
        return self._pass(now)

    def report(self, report: Report) -> None:
        """Hand a report on."""
        self._on_report(report)

    # the sensor

    def due(self) -> Millis:
        """When something happens next, in the cluster or because the loop asked to be woken."""
        return min(worlds.due(self.world), self._wake)

    def wake_at(self, at: Millis) -> None:
        """Ask for a ``Wake`` at this time (``NEVER``: for none), or at once when it has passed."""
        self._wake = at if at == NEVER else max(at, self.now)

    def batches(self) -> Iterator[list[PodStimulus]]:
        """What the driver hears, one moment after the other. The loop may ``apply`` and ``wake_at`` in between."""
        moments = 0
        while True:
            at = self.due()
            if at == NEVER or at > self.until:
                if self.until != NEVER:
                    self._pass(self.until)
                    self.now = self.until
                return
            moments = moments + 1 if at == self.now else 0
            if moments > SAME_MOMENT_MAX:
                raise NoProgress(f"{SAME_MOMENT_MAX} turns at {at} ms and no end")
            self.now = at
            heard = list(self._pass(at))
            if self._wake <= at:
                self._wake = NEVER
                heard.append(Wake(at))
            if heard:
                yield heard

    def _pass(self, now: Millis) -> tuple[PodStimulus, ...]:
        self.world, heard = worlds.advance(self.world, now)
        return heard
