"""How executors come and go where an application ran: what a what-if assumes of the cluster, fitted from the log or given.

A what-if changes what is asked for, not where it is asked: how long an executor takes from request to registration, what its
first tasks take longer, how long it stays after it was told to go, and which executors were taken away are kept as they
were. ``whatif.fit_behaviour`` finds them; each is a sample in the order in which it was seen, so that running the recorded
config again meets the recorded luck, and every other config the same luck as far as it goes.

Starting executors get in one another's way where they share a machine. ``StartUp`` is processor sharing: each start is an
amount of work; while more than ``parallel`` of them go on side by side on one machine, they share its speed evenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from podtide.domain.base.randomness import HOUR_MS, Stream, log, split, unit
from podtide.domain.base.units import Millis
from podtide.domain.recorded.partitions_by_cores import StageByCores


@dataclass(frozen=True, slots=True)
class StartUp:
    """From request to registration.

    ``work_ms``: samples, in the order of requests, of what a start takes when nothing is in its way; never empty.
    ``wait_ms``: of each of these (empty: nothing), what passes before: for a place, an image, a container. It takes time and
    no speed from the others.
    ``parallel``: how many starts one machine carries on at full speed (infinite: they do not disturb one another);
    ``machines``: on how many machines executors are spread evenly (0: each has its own). ``given``: when not empty, the real
    latencies of the first requests, in order; they are taken as they are, contention and all.
    """

    work_ms: tuple[Millis, ...]
    parallel: float = math.inf
    machines: int = 0
    given: tuple[Millis, ...] = ()
    wait_ms: tuple[Millis, ...] = ()


class Loss(NamedTuple):
    """An executor that was taken: the ``ordinal``-th that registered (from 0), ``after_ms`` from its registration.

    ``status``: the exit status of its container on YARN, as the log gives it; None: it does not.
    """

    ordinal: int
    after_ms: Millis
    status: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerBehaviour:
    """How containers come and go on YARN, apart from the heartbeats, which are the application master's own.

    ``startup``: from the moment at which the master launches an executor in its container to its registration.
    ``stop_ms``: samples of the time from the resource manager's hearing that a container is released to its end.
    """

    startup: StartUp
    stop_ms: tuple[Millis, ...]


class MeasuredStarts(NamedTuple):
    """Start-ups as they were measured, with what neighbours on the machine did to them: nobody slows them down again.

    ``startup``: its works are latencies. ``fresh_ms``: what first tasks took longer.
    """

    startup: StartUp
    fresh_ms: tuple[Millis, ...]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What is kept of the place where an application ran.

    ``boot_ms``: from the application's start to when its first executors are asked for; ``awaited_ms``: from then to when
    the driver went on because enough of them had registered (waitBackendReady). ``fresh_ms``: samples of what the first
    tasks on an executor take longer (one for each slot that begins fresh; empty: nothing), as work where it shares a
    machine. ``removal_ms``: samples, in order, of the time from a kill to the executor's removal. ``losses``: executors that
    were taken in the log.
    ``capacity``: the most executors that there is room for; None: no bound was seen. ``containers``: of an application that
    ran on YARN, what of its start-ups and removals is left when its heartbeats are taken out. ``by_cores``: stages
    whose number of tasks follows the registered cores. ``measured``: of executors that shared a machine, for a cluster whose
    executors do not; None: theirs did not.
    """

    startup: StartUp
    boot_ms: Millis = 0
    fresh_ms: tuple[Millis, ...] = ()
    removal_ms: tuple[Millis, ...] = ()
    losses: tuple[Loss, ...] = ()
    capacity: int | None = None
    containers: ContainerBehaviour | None = None
    by_cores: tuple[StageByCores, ...] = ()
    measured: MeasuredStarts | None = None
    awaited_ms: Millis = 0

    def apart(self) -> Behaviour:
        """The same where executors do not share a machine."""
        return self if self.measured is None else replace(self, **self.measured._asdict(), measured=None)


def sampled(samples: Sequence[Millis], ordinal: int, luck: Stream, seed: int) -> Millis:
    """The sample that an ordinal meets: they come in their order, again and again, with seed 0; else shuffled each time.

    Drawn without putting back, few samples say more: of three starts the quickest is as quick as the log's more often.
    """
    again, place = divmod(ordinal, len(samples))
    return samples[_shuffled(len(samples), luck, again)[place] if seed else place]


@lru_cache(maxsize=256)
def _shuffled(count: int, luck: Stream, again: int) -> tuple[int, ...]:
    """The numbers below ``count`` in an order of luck."""
    order = split(luck, again)
    return tuple(sorted(range(count), key=lambda place: split(order, place)))


def interrupted_after(ordinal: int, per_hour: float, luck: Stream) -> Millis:
    """After what time an executor is interrupted that is at this rate."""
    u, _ = unit(split(luck, ordinal))
    return int(-log(1.0 - u) / per_hour * HOUR_MS)
