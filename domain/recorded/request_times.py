"""When executors were asked for, inferred: the n-th wish for one more is answered by the n-th registration.

A log says when an executor registered, not when it was asked for. The replay says how the target moved. Whoever manages
the resources holds so many executors and requests; where the target rises above both, or an executor is lost below it,
the difference is asked for anew (an executor that is to be killed no longer counts; one that is decommissioned counts until
it has ended), and the oldest open request is answered by the next registration of its profile. Where the target falls, the
newest requests are taken back; a manager that gives executors at once (standalone, local-cluster) has started them already,
so there they come all the same, and count when the target rises again (``at_once``).

*Which of them is which.* Executors are numbered as they are asked for (standalone: by the master's grants, Kubernetes: by
pods, YARN: by the launches of containers), so of those that are under way together the one with the lower number was asked
for first, whichever registers first. The times stay; who has which of them goes by the numbers.

Executors that the application itself let go are not asked for again. The first target is asked for when the allocation
starts, never before the driver is ready. A registration that no request explains has no time, unless the log offers one.

*The log's own word.* Executor Info has a Request Time since Spark 4.3: its driver matches requests and registrations as is
done here, but without taking requests back, so it is sometimes far off. It is believed where it lies within ``NEAR_MS`` of
what was inferred (and is then the exacter one), and where nothing was inferred and it is no older than ``OLDEST_MS``.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis, ProfileId

NEAR_MS: Final[Millis] = 600
OLDEST_MS: Final[Millis] = 600_000

REVOKED_MAX: Final = 1_000
"""Requests taken back that are remembered, by the time at which they were made."""

_REMOVED, _TARGET, _REGISTERED = range(3)  # what happens first at one moment


class Target(NamedTuple):
    """What was asked for in all from ``at`` on, for each profile."""

    at: Millis
    executors: Mapping[ProfileId, int]


class Registration(NamedTuple):
    """An executor: when it came, and when it went or was to be killed. ``lost``: not by the application's will.
    ``hint``: the log's Request Time. ``number``: its id, where that is a number."""

    profile: ProfileId
    added_ms: Millis
    removed_ms: Millis | None = None
    lost: bool = False
    hint: Millis | None = None
    number: int | None = None


class _Open:
    """One profile: how many executors are there, and the requests that wait for one, each list from old to new."""

    __slots__ = ("_at_once", "_count", "_revoked", "_waiting", "alive", "target")

    def __init__(self, *, at_once: bool) -> None:
        self.alive = 0
        self.target = 0
        self._at_once = at_once
        self._waiting: list[list[int]] = []  # [asked for, how many]
        self._revoked: list[list[int]] = []  # the same, taken back
        self._count = 0  # of those that wait

    def settle(self, now: Millis) -> None:
        """Ask for what is missing, or take back what is too much."""
        missing = self.target - self.alive - self._count
        if missing > 0:
            self._count += missing
            while missing and self._at_once and self._revoked:
                missing -= _move(self._revoked, 0, self._waiting, missing)
            if missing:
                self._waiting.append([now, missing])
        while missing < 0 and self._waiting:
            moved = _move(self._waiting, -1, self._revoked, -missing)
            self._count -= moved
            missing += moved
        if len(self._revoked) > REVOKED_MAX:
            del self._revoked[: REVOKED_MAX // 2]

    def answer(self) -> Millis | None:
        """An executor registered: the oldest open request is answered, or one that was taken back too late."""
        self.alive += 1
        if self._waiting:
            self._count -= 1
            return _take(self._waiting, 0)
        return _take(self._revoked, 0 if self._at_once else -1) if self._revoked else None


def _take(requests: list[list[int]], place: int) -> Millis:
    """Take one request away."""
    entry = requests[place]
    entry[1] -= 1
    if not entry[1]:
        del requests[place]
    return entry[0]


def _move(source: list[list[int]], place: int, other: list[list[int]], most: int) -> int:
    """Move at most so many of the entry at ``place`` to where they belong in ``other``; returns how many."""
    at, count = source[place]
    moved = min(count, most)
    source[place][1] -= moved
    if moved == count:
        del source[place]
    insort(other, [at, moved])
    return moved


def request_times(
    targets: Iterable[Target], executors: Sequence[Registration], ready_ms: Millis, *, at_once: bool
) -> list[Millis | None]:
    """For each of ``executors``, when it was asked for; None where nothing explains it.

    ``targets`` in the order of time; those before ``ready_ms`` are asked for at ``ready_ms``.
    """
    happened: list[tuple[Millis, int, int]] = []
    wishes = list(targets)
    for place, target in enumerate(wishes):
        happened.append((max(target.at, ready_ms), _TARGET, place))
    for place, one in enumerate(executors):
        happened.append((one.added_ms, _REGISTERED, place))
        if one.removed_ms is not None:
            happened.append((max(one.removed_ms, one.added_ms + 1), _REMOVED, place))
    happened.sort()
    books: dict[ProfileId, _Open] = {}
    requested_ms: list[Millis | None] = [None] * len(executors)
    for at, kind, place in happened:
        if kind == _TARGET:
            for profile, wanted in wishes[place].executors.items():
                book = books.setdefault(profile, _Open(at_once=at_once))
                if wanted != book.target:
                    book.target = wanted
                    book.settle(at)
            continue
        one = executors[place]
        book = books.setdefault(one.profile, _Open(at_once=at_once))
        if kind == _REMOVED:
            book.alive -= 1
            if one.lost:
                book.settle(at)
        else:
            requested_ms[place] = believed(book.answer(), one.hint, one.added_ms, ready_ms)
    return _by_number(requested_ms, executors)


def _by_number(times: Sequence[Millis | None], executors: Sequence[Registration]) -> list[Millis | None]:
    """The same times of each profile, given to its executors by their numbers, none after its registration. O(n log n).

    From the latest time to the earliest, each goes to the highest number among those that registered since and have none
    yet. There always is one: at least as many registered since as have this time or a later one.
    """
    found = list(times)
    known: dict[ProfileId, list[int]] = defaultdict(list)
    for place, at in enumerate(times):
        if at is not None:
            known[executors[place].profile].append(place)
    for places in known.values():
        if any(executors[place].number is None for place in places):
            continue
        arrivals = sorted(places, key=lambda place: executors[place].added_ms)
        eligible: list[tuple[int, int]] = []
        for at in sorted((at for place in places if (at := times[place]) is not None), reverse=True):
            while arrivals and executors[arrivals[-1]].added_ms >= at:
                place = arrivals.pop()
                heappush(eligible, (-(executors[place].number or 0), place))
            found[heappop(eligible)[1]] = at
    return found


def believed(inferred: Millis | None, hint: Millis | None, added_ms: Millis, ready_ms: Millis) -> Millis | None:
    """The time of request, from what was inferred and what the log says; never after the registration."""
    if hint is not None and hint <= added_ms:
        if inferred is None:
            if added_ms - hint <= OLDEST_MS and hint >= ready_ms - NEAR_MS:
                return min(max(hint, ready_ms), added_ms)
        elif abs(hint - inferred) <= NEAR_MS:
            return min(max(hint, ready_ms), added_ms)
    return None if inferred is None else min(inferred, added_ms)
