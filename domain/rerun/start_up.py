"""When executors that were asked for arrive: starts that share the speed of their machines, step by step.

``Starts`` carries out what ``behaviour.StartUp`` describes. A start is an amount of work, in milliseconds of a machine that
has nothing else to do. While ``k`` starts are under way on a machine, each advances at the rate ``min(1, parallel / k)``.
That is processor sharing, and it is what real starts do: eight JVMs that start on two cores take as long together as one
after the other (docs/explanation/model.md has the figures).

A start has two parts. The first ends with the registration. The second is what lies between the registration and the
moment from which the executor is given tasks: the driver makes its first offer only when the executor reports that it is up
(LaunchedExecutor, since Spark 3.0). The first task in each slot then loads classes and opens connections (``warm_up``).
All that is work of the same kind on the same machine and is slowed down by the same neighbours. So is the driver, where it
lives on the machine of its executors: what it has to do before it submits the first job takes longer the more executors
start meanwhile. Before all of it a start may wait, which takes time and no speed.
``SharedStartUp`` says how much of both there is.

All starts of a machine advance at the same rate, so one number for each machine tells the progress of all: the *virtual
time* ``v``, by which every start under way has advanced since the machine began. A start that arrives at ``v`` with
work ``w`` is done when the virtual time is ``v + w``, whatever happens in between. Finishing times therefore never have to
be revised when a neighbour comes or goes: a heap of them for each machine, and a heap of machines by when the first of
each is due. Every event costs O(log n).

Latencies that are ``given`` are taken as they are: nothing slows them down, but they count among those that slow down the
others. Which work a start has depends on its ordinal alone, so that two configs meet the same luck: with seed 0 the
samples in their order, again and again; with another seed a draw for each ordinal.

``Starts`` is mutable and belongs to one simulation; it reads no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from math import ceil
from typing import Final, NamedTuple

from podtide.domain.base.randomness import split, stream
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.rerun.behaviour import StartUp, sampled

_ROUNDING: Final = 1e-6
"""Virtual times are sums of fractions; what misses its mark by less than a nanosecond has reached it."""


@dataclass(frozen=True, slots=True)
class SharedStartUp(StartUp):
    """A StartUp that also tells what else its machines do.

    ``ready_ms``: samples, in order of requests, of the work between an executor's registration and the first offer of its
    slots (empty: it is ready when it registers). ``driver_ms``: the work that the driver, on the last machine, has to do
    from when its first executors are asked for until it submits its first job (0: the driver is not in their way).
    """

    ready_ms: tuple[Millis, ...] = ()
    driver_ms: Millis = 0


DRIVER: Final = -1
"""The driver's own work, among the ordinals of starts."""

SETTLED: Final = 0
"""In ``WarmUp.number``: whatever comes, it takes no longer."""


class WarmUp(NamedTuple):
    """What a first task takes longer, as things are; ``Starts.warms`` tells by its number how long it still takes."""

    number: int
    lasts_ms: Millis


PARALLEL_LEAST: Final = 0.01
"""A machine on which a single start takes a hundred times its work is the slowest that there is."""

_WORK: Final = 1
_READY: Final = 2


class StartPhase(IntEnum):
    """How far a start is."""

    STARTING = 0
    """Asked for, not registered."""
    REGISTERED = 1
    """Registered, not yet fit to run tasks."""
    THINKING = 2
    """No start: the driver's work before its first job."""
    WARMING = 3
    """Ready, in the first task of one of its slots: classes are loaded, connections opened."""


@dataclass(slots=True)
class _Machine:
    """``v``: virtual time at ``at``; ``load``: starts under way; ``heap``: (done at this virtual time, ordinal)."""

    at: Millis
    v: float = 0.0
    load: int = 0
    heap: list[tuple[float, int]] = field(default_factory=list)
    version: int = 0


@dataclass(slots=True)
class _Start:
    """``done``: the virtual time of its machine at which its phase ends, or None where the latency was given."""

    machine: int
    phase: StartPhase
    done: float | None


class Starts:
    """Starts under way.

    ``startup``: works, sharing and given latencies, perhaps a ``SharedStartUp``. ``seed``: 0 for the recorded luck.
    ``extra_ms``: what every start takes longer before its work begins (a slow image pull: it costs time, not speed).
    ``thought_ms``: when the driver had done its own work before the first job; None: not yet, or never begun.

    Times must not go backwards from call to call. Raises ValueError on a StartUp without samples, with a ``parallel``
    below ``PARALLEL_LEAST`` or with negative numbers.
    """

    def __init__(self, startup: StartUp, seed: int = 0, *, extra_ms: Millis = 0) -> None:
        if not startup.work_ms:
            raise ValueError("StartUp.work_ms: expected at least one sample")
        if not startup.parallel >= PARALLEL_LEAST:
            raise ValueError(f"StartUp.parallel: expected at least {PARALLEL_LEAST}, not {startup.parallel}")
        if startup.machines < 0 or min(*startup.work_ms, *startup.given, *startup.wait_ms, 0) < 0:
            raise ValueError("StartUp: expected no negative number")
        if startup.wait_ms and len(startup.wait_ms) != len(startup.work_ms):
            raise ValueError("StartUp.wait_ms: expected one for each of work_ms, or none")
        self._startup = startup
        self._samples = startup.ready_ms if isinstance(startup, SharedStartUp) else ()
        self._driver_ms = startup.driver_ms if isinstance(startup, SharedStartUp) else 0
        if min(self._samples, default=0) < 0 or self._driver_ms < 0:
            raise ValueError("SharedStartUp: expected no negative number")
        self.thought_ms: Millis | None = None
        self._extra = max(0, extra_ms)
        self._seed = seed
        root = stream(seed)
        self._work_luck, self._ready_luck = split(root, _WORK), split(root, _READY)
        self._machines: dict[int, _Machine] = {}
        self._starts: dict[int, _Start] = {}
        self._dues: list[tuple[Millis, int, int]] = []
        """(when the first start of a machine is due, machine, version); out of date where the version is."""
        self._fixed: list[tuple[Millis, int, int]] = []
        """(when, ordinal, 1 where the wait before the work ends and 0 where a given latency does)."""
        self._waiting: dict[int, Millis] = {}
        self._ready: list[int] = []
        self._warmed = DRIVER
        self._version = 0

    def __len__(self) -> int:
        """How many starts have not registered."""
        return len(self._waiting) + sum(one.phase is StartPhase.STARTING for one in self._starts.values())

    def request(self, now: Millis, ordinal: int) -> None:
        """The ``ordinal``-th executor (from 0, each once) is asked for."""
        assert ordinal not in self._starts
        assert ordinal not in self._waiting
        wait = self._extra + self._wait_of(ordinal)
        if wait:
            self._waiting[ordinal] = now + wait
            heappush(self._fixed, (now + wait, ordinal, 1))
        else:
            self._begin(now, ordinal)

    def _wait_of(self, ordinal: int) -> Millis:
        """What passes before the work of a start. Of a latency that is given, what its usual work leaves of it."""
        startup = self._startup
        if ordinal < len(startup.given):
            return max(0, startup.given[ordinal] - self._work_of(ordinal)) if startup.wait_ms else 0
        waits = startup.wait_ms
        return sampled(waits, ordinal, self._work_luck, self._seed) if waits else 0

    def _work_of(self, ordinal: int) -> Millis:
        return sampled(self._startup.work_ms, ordinal, self._work_luck, self._seed)

    @property
    def shares_driver(self) -> bool:
        """Whether the driver's first job waits for work that starts slow down: ``think`` begins it."""
        return self._driver_ms > 0

    def think(self, now: Millis) -> None:
        """The driver begins the work that ends with its first job (once, when the first executors may be asked for)."""
        self._join(self._machine_of(DRIVER, now), now, DRIVER, StartPhase.THINKING, self._driver_ms)

    def warm_up(self, now: Millis, work: Millis) -> WarmUp:
        """An executor begins its first task, which takes so much work longer.

        How much time that is, is reckoned from who else is at work on the machine and when each of them will be done; who
        comes later makes it longer. On machines of their own executors are in nobody's way.
        """
        if self._startup.machines != 1 or work <= 0:
            return WarmUp(SETTLED, work)
        self._warmed -= 1
        self._join(self._machine_of(self._warmed, now), now, self._warmed, StartPhase.WARMING, work)
        return WarmUp(self._warmed, self.warms(now, self._warmed))

    def warms(self, now: Millis, number: int) -> Millis:
        """How long a first task still takes what it takes longer, if nobody else comes."""
        start = self._starts.get(number)
        if start is None or start.done is None:
            return 0
        machine = self._machines[start.machine]
        self._catch_up(machine, now)
        mark, load, v, at = start.done, machine.load, machine.v, 0.0
        for done, ordinal in sorted(machine.heap):
            if done >= mark:
                break
            if self._is_alive((done, ordinal)):
                at += (done - v) / min(1.0, self._startup.parallel / load)
                v, load = done, load - 1
        return max(0, ceil(at + (mark - v) / min(1.0, self._startup.parallel / load) - _ROUNDING))

    def due(self) -> Millis:
        """When the next executor registers or is ready, or the driver has thought, if nothing else happens; or NEVER."""
        dues = self._dues
        while dues:
            _, machine, version = dues[0]
            known = self._machines.get(machine)
            if known is not None and known.version == version:
                break
            heappop(dues)
        fixed = self._fixed
        while fixed and not self._is_current(fixed[0]):
            heappop(fixed)
        return min(dues[0][0] if dues else NEVER, fixed[0][0] if fixed else NEVER)

    def advance(self, now: Millis) -> list[int]:
        """Let time pass: the ordinals that registered up to ``now``, in order. Then ask ``ready``."""
        registered: list[int] = []
        while (due := self.due()) <= now:
            if self._fixed and self._fixed[0][0] == due:
                _, ordinal, begins = heappop(self._fixed)
                if begins:
                    del self._waiting[ordinal]
                    self._begin(due, ordinal)
                else:
                    self._registers(due, ordinal, registered)
            else:
                self._elapse(due, heappop(self._dues)[1], registered)
        return registered

    def ready(self) -> list[int]:
        """The ordinals that became ready to run tasks since this was last asked, in order."""
        ready, self._ready = self._ready, []
        return ready

    def cancel(self, ordinal: int, now: Millis) -> None:
        """The executor is not wanted any more, or has gone: its start, in whatever phase, is taken off its machine."""
        self._waiting.pop(ordinal, None)
        start = self._starts.pop(ordinal, None)
        if start is not None:
            self._leave(start.machine, now)
        if ordinal in self._ready:
            self._ready.remove(ordinal)

    def _is_current(self, entry: tuple[Millis, int, int]) -> bool:
        at, ordinal, begins = entry
        if begins:
            return self._waiting.get(ordinal) == at
        start = self._starts.get(ordinal)
        return start is not None and start.done is None

    def _machine_of(self, ordinal: int, now: Millis) -> int:
        machines = self._startup.machines
        name = ordinal % machines if machines else ordinal
        if name not in self._machines:
            self._machines[name] = _Machine(now)
        return name

    def _begin(self, now: Millis, ordinal: int) -> None:
        name = self._machine_of(ordinal, now)
        given = self._startup.given
        if ordinal < len(given):
            self._join(name, now, ordinal, StartPhase.STARTING, None)
            heappush(self._fixed, (now + given[ordinal] - self._wait_of(ordinal), ordinal, 0))
        else:
            self._join(name, now, ordinal, StartPhase.STARTING, self._work_of(ordinal))

    def _registers(self, now: Millis, ordinal: int, registered: list[int]) -> None:
        name = self._starts.pop(ordinal).machine
        registered.append(ordinal)
        work = sampled(self._samples, ordinal, self._ready_luck, self._seed) if self._samples else 0
        if work > 0:
            self._leave(name, now, stays=True)
            self._join(name, now, ordinal, StartPhase.REGISTERED, work)
        else:
            self._ready.append(ordinal)
            self._leave(name, now)

    def _join(self, name: int, now: Millis, ordinal: int, phase: StartPhase, work: Millis | None) -> None:
        machine = self._machines[name]
        self._catch_up(machine, now)
        machine.load += 1
        done = None if work is None else machine.v + work
        self._starts[ordinal] = _Start(name, phase, done)
        if done is not None:
            heappush(machine.heap, (done, ordinal))
        self._plan(name, machine)

    def _leave(self, name: int, now: Millis, *, stays: bool = False) -> None:
        machine = self._machines[name]
        self._catch_up(machine, now)
        machine.load -= 1
        if machine.load or stays:
            self._plan(name, machine)
        else:
            del self._machines[name]

    def _rate(self, machine: _Machine) -> float:
        return min(1.0, self._startup.parallel / machine.load) if machine.load else 1.0

    def _catch_up(self, machine: _Machine, now: Millis) -> None:
        assert now >= machine.at
        machine.v += (now - machine.at) * self._rate(machine)
        machine.at = now

    def _plan(self, name: int, machine: _Machine) -> None:
        machine.version = self._version = self._version + 1
        heap = machine.heap
        while heap and not self._is_alive(heap[0]):
            heappop(heap)
        if heap:
            left = max(0.0, heap[0][0] - machine.v - _ROUNDING)
            heappush(self._dues, (machine.at + ceil(left / self._rate(machine)), name, machine.version))

    def _is_alive(self, entry: tuple[float, int]) -> bool:
        start = self._starts.get(entry[1])
        return start is not None and start.done == entry[0]

    def _elapse(self, now: Millis, name: int, registered: list[int]) -> None:
        """End the phases that end now on this machine."""
        machine = self._machines[name]
        self._catch_up(machine, now)
        heap = machine.heap
        over: list[int] = []
        while heap and (heap[0][0] <= machine.v + _ROUNDING or not self._is_alive(heap[0])):
            entry = heappop(heap)
            if self._is_alive(entry):
                over.append(entry[1])
        if not over:  # a rounding short of it: once more
            self._plan(name, machine)
        for ordinal in sorted(over):
            start = self._starts[ordinal]
            if start.phase is StartPhase.STARTING:
                self._registers(now, ordinal, registered)
                continue
            del self._starts[ordinal]
            self._leave(name, now)
            if start.phase is StartPhase.REGISTERED:
                self._ready.append(ordinal)
            elif start.phase is StartPhase.THINKING:
                self.thought_ms = now


def latencies(startup: StartUp, requests: Sequence[Millis], seed: int = 0) -> list[Millis]:
    """From request to registration, for executors that are asked for at these times (not falling), in order."""
    starts = Starts(startup, seed)
    found = [0] * len(requests)
    for ordinal, at in enumerate(requests):
        _note(starts, at, requests, found)
        starts.request(at, ordinal)
    while (due := starts.due()) != NEVER:
        _note(starts, due, requests, found)
    return found


def _note(starts: Starts, until: Millis, requests: Sequence[Millis], found: list[Millis]) -> None:
    while (due := starts.due()) <= until and due != NEVER:
        for ordinal in starts.advance(due):
            found[ordinal] = due - requests[ordinal]
    starts.ready()
