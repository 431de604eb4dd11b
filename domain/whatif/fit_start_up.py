"""How fast executors start where an application ran, out of its log: the inverse of ``rerun.start_up``.

Known are, for each executor, when it was asked for and when it registered. Wanted is the work of each start, which is the
latency freed of what its neighbours did to it. With processor sharing the answer is exact and cheap: all starts that are
under way on a machine advance at the same rate, ``min(1, parallel / k)``, and ``k`` at every moment is known from the log.
So let virtual time be the integral of that rate; the work of a start is the virtual time between its request and its
registration, and in the same way the work that it takes to become ready, what its first tasks take longer, and the driver's
work before its first job.

A start may also wait: for a place, an image, a container. That takes time and nothing of the machine. Where the log shows it
(``_waited``), a start is work for as long as a JVM takes to start, which is its last part, and waiting before.

``parallel`` is not in the log. It is the number for which the works come out most alike: under any other, starts that had
neighbours seem to have been another kind of start than those that had none. ``_parallel`` takes the least squares of
their logarithms, with a prior (a log whose executors all started side by side says nothing about it).

Where executors do not share a machine, a work is a latency and nothing is to be found. A machine shared by *all* executors
is seen when they all name one host; of hosts that have several each, the log does not tell how large they are, and they are
taken to be large enough (docs/explanation/model.md, "What cannot be known").
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from podtide.domain.base.randomness import exp, log
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.rerun.start_up import SharedStartUp

PARALLEL_USUAL: Final = 1.3
"""What 239 starts of 26 real applications on one host of two cores say, taken together (docs/explanation/model.md):
less than its cores, because a JVM that starts compiles and collects on threads of its own."""

PARALLEL_SPREAD: Final = 0.3
"""How far the logarithm of ``parallel`` may well be from the usual one."""

WORK_SPREAD: Final = 0.35
"""How far the logarithms of works are from their mean under the right ``parallel``: 0.22 in the same runs, and more here
because starts at the same time share the host's mood and are not as many witnesses as they are starts."""

READY_SHARE: Final = 0.17
"""What it takes to become ready, of the work of the start itself: 0.17 in the same runs, where tasks waited for it."""

WITNESSES_MAX: Final = 2_000
"""More starts than these do not say more about ``parallel``."""

START_WORK_MOST_MS: Final[Millis] = 1_500
"""What a start takes of its machine where starts are seen to wait for something else: a JVM's way to its registration."""

ALIKE_WORK: Final = 0.1
ALIKE_TIME: Final = 0.25
"""How far the logarithms of works are from their mean where starts share a machine, and those of whole starts where each
waits for itself: what tells 36 runs of the one kind from 45 of the other best (docs/explanation/model.md)."""

_TAIL: Final = 4
_ROUNDS: Final = 12

PARALLEL_MOST: Final = 64.0
_STEPS: Final = 48
_LATE: Final = 4
"""A first task that comes later than so many times what is usual was not waiting for its executor."""

_LATE_LEAST_MS: Final = 100


class LoggedStart(NamedTuple):
    """A start as logged. ``first_ms``: when the first task was launched, if tasks were waiting for the executor since it
    registered; ``known``: whether the request is more than a guess."""

    requested_ms: Millis
    added_ms: Millis
    first_ms: Millis | None = None
    known: bool = True
    profile: ProfileId = DEFAULT_PROFILE


class Driver(NamedTuple):
    """The driver's own work on the executors' machine: from when it may ask for executors until its first job."""

    began_ms: Millis
    job_ms: Millis


class FirstTask(NamedTuple):
    """The first task of an executor's slot: when it began, and what it took longer than on an executor that is not fresh."""

    began_ms: Millis
    extra_ms: Millis


class Beside(NamedTuple):
    """What else went on on the executors' machine: the driver's way to its first job, the first tasks' extra work."""

    driver: Driver | None = None
    first_tasks: Sequence[FirstTask] = ()

    @property
    def spans(self) -> list[tuple[Millis, Millis]]:
        """From when to when."""
        found = [(one.began_ms, one.began_ms + one.extra_ms) for one in self.first_tasks]
        if self.driver is not None:
            found.append((self.driver.began_ms, self.driver.job_ms))
        return found


NOTHING_BESIDE: Final = Beside()


class Progress:
    """Virtual time on one machine: what any start under way has advanced, given when each of them was under way.

    ``spans``: from, to; ``tails``: from, and how much work there is to do from then on.
    """

    __slots__ = ("_at", "_v")

    def __init__(
        self, spans: Iterable[tuple[float, float]], parallel: float, tails: Iterable[tuple[Millis, float]] = ()
    ) -> None:
        moves: list[tuple[float, int, float]] = []
        for begin, end in spans:
            if end > begin:
                moves += ((begin, 1, 0.0), (end, -1, 0.0))
        moves += ((begin, 1, work) for begin, work in tails if work > 0)
        moves.sort()
        self._at: list[float] = []
        self._v: list[float] = []
        ends: list[float] = []  # virtual times at which tails end
        load, v, at, place = 0, 0.0, 0.0, 0
        while place < len(moves) or ends:
            rate = min(1.0, parallel / load) if load else 1.0
            at = self._at[-1] if self._at else moves[0][0]
            over = at + (ends[0] - v) / rate if ends else math.inf
            move = moves[place] if place < len(moves) else (math.inf, 0, 0.0)
            if over <= move[0]:
                v, at = heappop(ends), over
                load -= 1
            else:
                v += (move[0] - at) * rate
                at = move[0]
                load += move[1]
                place += 1
                if move[2]:
                    heappush(ends, v + move[2])
            self._at.append(at)
            self._v.append(v)

    def __call__(self, at: float) -> float:
        """The virtual time at a moment; at full speed before the first span and after the last."""
        if not self._at:
            return float(at)
        place = bisect_right(self._at, at) - 1
        if place < 0:
            return float(at - self._at[0])
        low, v = self._at[place], self._v[place]
        if place + 1 == len(self._at):
            return v + (at - low)
        return v + (self._v[place + 1] - v) * ((at - low) / (self._at[place + 1] - low))

    def when(self, v: float) -> float:
        """The moment of a virtual time: the inverse."""
        if not self._at:
            return v
        place = bisect_right(self._v, v) - 1
        if place < 0:
            return self._at[0] + v
        low, known = self._at[place], self._v[place]
        if place + 1 == len(self._at):
            return low + (v - known)
        return low + (self._at[place + 1] - low) * ((v - known) / (self._v[place + 1] - known))


class Works(NamedTuple):
    """In the order of ``seen``. ``waits``: what passed before the work of each start; ``ready``: of those of which the log
    tells it (``all_works``: what is usual, if of none); ``fresh``: of the first tasks; ``driver``: of the driver."""

    starts: tuple[float, ...]
    waits: tuple[float, ...]
    ready: tuple[float, ...]
    fresh: tuple[float, ...]
    driver: float


def works(
    seen: Sequence[LoggedStart],
    parallel: float,
    beside: Beside = NOTHING_BESIDE,
    ready_ms: float = 0.0,
    most_ms: float = math.inf,
) -> Works:
    """The work of starts that shared one machine, and of what went on beside them.

    ``ready_ms``: the work of becoming ready of those of which the log does not tell it. ``most_ms``: what a start takes of
    the machine at most; it waited for the rest.
    """
    ends = [one.added_ms if one.first_ms is None else one.first_ms for one in seen]
    tails = [(one.added_ms, ready_ms) for one in seen if one.first_ms is None]
    begins: list[float] = [one.requested_ms for one in seen]
    v = Progress([*zip(begins, ends, strict=True), *beside.spans], parallel, tails)
    # The later the work of one begins, the less it slows down the others, whose work then began later: a few rounds do.
    for _ in range(_ROUNDS if most_ms < math.inf else 0):
        before = begins
        begins = [max(begin, v.when(v(one.added_ms) - most_ms)) for begin, one in zip(begins, seen, strict=True)]
        v = Progress([*zip(begins, ends, strict=True), *beside.spans], parallel, tails)
        if all(begin - old < 1.0 for begin, old in zip(begins, before, strict=True)):
            break
    driver = beside.driver
    return Works(
        tuple(v(one.added_ms) - v(begin) for begin, one in zip(begins, seen, strict=True)),
        tuple(begin - one.requested_ms for begin, one in zip(begins, seen, strict=True)),
        tuple(v(one.first_ms) - v(one.added_ms) for one in seen if one.first_ms is not None),
        tuple(v(one.began_ms + one.extra_ms) - v(one.began_ms) for one in beside.first_tasks),
        0.0 if driver is None else max(0.0, v(driver.job_ms) - v(driver.began_ms)),
    )


def all_works(
    seen: Sequence[LoggedStart], parallel: float, beside: Beside = NOTHING_BESIDE, most_ms: float = math.inf
) -> Works:
    """The same, where becoming ready takes as much as it takes of those of which the log tells it (the median).

    Where it tells of none, as much as is usual for such starts.
    """
    first = works(seen, parallel, beside, most_ms=most_ms)
    usual = _median(first.ready) if first.ready else READY_SHARE * _median(first.starts)
    found = works(seen, parallel, beside, usual, most_ms)
    return found if found.ready else found._replace(ready=(usual,))


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


class SharedFit(NamedTuple):
    """How executors start on one machine, and, as work on it, what their first tasks take longer."""

    startup: SharedStartUp
    fresh_ms: tuple[Millis, ...]


def shared(seen: Sequence[LoggedStart], beside: Beside = NOTHING_BESIDE) -> SharedFit:
    """Starts that all went on on one machine. ``seen``: by request; at least one."""
    seen = waited_for(seen, PARALLEL_USUAL)
    witnesses = seen[:WITNESSES_MAX]
    parallel, most_ms = _parallel(witnesses, beside), math.inf
    if _waited(witnesses, parallel, beside):
        parallel, most_ms = PARALLEL_USUAL, float(START_WORK_MOST_MS)
    found = all_works(seen, parallel, beside, most_ms)
    waits = _usual_where_guessed(seen, [max(0, round(wait)) for wait in found.waits])
    startup = SharedStartUp(
        _usual_where_guessed(seen, [max(1, round(work)) for work in found.starts]),
        parallel,
        machines=1,
        wait_ms=waits if any(waits) else (),
        ready_ms=tuple(max(0, round(work)) for work in found.ready),
        driver_ms=round(found.driver),
    )
    return SharedFit(startup, tuple(max(0, round(work)) for work in found.fresh))


def independent(seen: Sequence[LoggedStart]) -> SharedStartUp:
    """Starts that did not disturb one another. ``seen``: by request; at least one."""
    lags = tuple(one.first_ms - one.added_ms for one in waited_for(seen, math.inf) if one.first_ms is not None)
    starts = _usual_where_guessed(seen, [max(1, one.added_ms - one.requested_ms) for one in seen])
    return SharedStartUp(starts, ready_ms=lags)


def _usual_where_guessed(seen: Sequence[LoggedStart], found: Sequence[Millis]) -> tuple[Millis, ...]:
    """The median of those whose requests are known in the place of the others, so that the order stays as it is."""
    known = sorted(work for one, work in zip(seen, found, strict=True) if one.known)
    return tuple(
        work if one.known or not known else known[len(known) // 2] for one, work in zip(seen, found, strict=True)
    )


def waited_for(seen: Sequence[LoggedStart], parallel: float) -> list[LoggedStart]:
    """The same without the first tasks that came late, in virtual time, by the standard of the quicker half.

    They were there when the executor registered and were taken by others, or there was none.
    """
    known = [one for one in seen if one.first_ms is not None]
    v = Progress(((one.requested_ms, one.first_ms or one.added_ms) for one in seen), parallel)
    lags = {one: v(one.first_ms or 0) - v(one.added_ms) for one in known}
    quick = sorted(lags.values())[: (len(lags) + 1) // 2]
    late = max(_LATE_LEAST_MS, _LATE * quick[len(quick) // 2]) if quick else 0.0
    return [one if 0.0 <= lags.get(one, 0.0) <= late else one._replace(first_ms=None) for one in seen]


def _parallel(seen: Sequence[LoggedStart], beside: Beside) -> float:
    """The most likely ``parallel``: works spread log-normally; it lies near the usual one, or anywhere (Student's t)."""
    low = log(1.0)
    high = log(PARALLEL_MOST)
    best, least = PARALLEL_USUAL, math.inf
    for step in range(_STEPS + 1):
        at = low + (high - low) * step / _STEPS
        parallel = exp(at)
        spread = _spread(seen, all_works(seen, parallel, beside).starts)
        misfit = 2.0 * _unusual(parallel) + spread / WORK_SPREAD**2
        if misfit < least:
            best, least = parallel, misfit
    return best


def _unusual(parallel: float) -> float:
    """How far a ``parallel`` is from the usual one: minus the logarithm of its likelihood (Student's t)."""
    far = (log(parallel) - log(PARALLEL_USUAL)) / PARALLEL_SPREAD
    return log(1.0 + far * far)


def _waited(seen: Sequence[LoggedStart], parallel: float, beside: Beside) -> bool:
    """Whether the starts waited for something besides the machine: a place, an image, a container.

    Starts that only share a machine are alike in their works; starts that wait, each for itself, are alike in what they
    took at best. The likelier of the two, the spreads being what they are in each case (Student's t).
    """
    count = sum(one.known for one in seen)
    in_work = _likelihood(count, _spread(seen, all_works(seen, parallel, beside).starts), ALIKE_WORK)
    in_time = _likelihood(count, _spread(seen, [one.added_ms - one.requested_ms for one in seen]), ALIKE_TIME)
    return in_work - _unusual(parallel) < in_time


def _likelihood(count: int, squares: float, usual: float) -> float:
    """The logarithm of how likely so many logarithms have this sum of squares about their mean."""
    return -(count - 1 + _TAIL) / 2 * log(1 + squares / (_TAIL * usual * usual)) - (count - 1) * log(usual)


def _spread(seen: Sequence[LoggedStart], found: Sequence[float]) -> float:
    """The sum of squares of the logarithms of works about their mean."""
    logs = [log(max(1.0, work)) for one, work in zip(seen, found, strict=True) if one.known]
    if not logs:
        return 0.0
    mean = math.fsum(logs) / len(logs)
    return math.fsum((one - mean) ** 2 for one in logs)
