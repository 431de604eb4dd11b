"""The calls to the API server, counted: by verb, resource and how they ended, with their latencies and bytes.

Totals go on for ever and have few names: verbs and resources are the program's own, status codes are HTTP's, and whatever a
strange server invents beyond that is counted as ``other``. Latencies are kept twice: as a histogram since the start, which
is what Prometheus wants, and as the last few hundred of each kind within a window, of which a view can say the median and
the slowest hundredth. A watch lasts as long as it is watched; it is counted and no latency.

A call has *failed* if no answer came or the answer was an error - but what is asked after and is not there, or is to be
deleted and is gone already, is an answer like any other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import CallSeen
from podtide.domain.base.units import Millis

WINDOW_S: Final = 300.0
"""Seconds that rates and percentiles look back."""

LATENCIES_MAX: Final = 512
"""Latencies of one kind of call that are remembered for its percentiles: the newest within the window."""

KINDS_MAX: Final = 48
"""Kinds of calls (verb and resource) that are told apart."""

ENDINGS_MAX: Final = 256
"""Kinds of calls with their endings that are told apart."""

SLOT_S: Final = 10.0
"""Seconds of one slot of the window, by which calls and failures are counted."""

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper edges of the histogram, in seconds; the last one is without end."""

OTHER: Final = "other"
UNANSWERED: Final = "none"
"""The code of a call that got no answer."""

TOO_MANY_REQUESTS: Final = 429
WATCH: Final = "watch"

_EXPECTED: Final = frozenset({("get", 404), ("delete", 404), ("deletecollection", 404)})


@dataclass(frozen=True, slots=True)
class Histogram:
    """Times, as Prometheus counts them. ``cumulative``: how many were at most each edge, and all of them last."""

    edges: tuple[float, ...]
    cumulative: tuple[int, ...]
    seconds: float

    @property
    def count(self) -> int:
        """How many there were."""
        return self.cumulative[-1]


class HistogramCounter:
    """A histogram under way."""

    __slots__ = ("_counts", "_edges", "_seconds")

    def __init__(self, edges: tuple[float, ...] = BUCKETS) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        place = 0
        for edge in self._edges:
            if seconds <= edge:
                break
            place += 1
        self._counts[place] += 1
        self._seconds += seconds

    def taken(self) -> Histogram:
        """As it is now."""
        return Histogram(self._edges, tuple(accumulate(self._counts)), self._seconds)


@dataclass(frozen=True, slots=True)
class Latency:
    """A kind of call within the window: how many latencies are known, their median and the slowest hundredth, seconds."""

    verb: str
    resource: str
    calls: int
    median: float
    slowest: float


class FailedCall(NamedTuple):
    """The last call that failed. ``code``: its HTTP status, or that no answer came."""

    at: Millis
    verb: str
    resource: str
    code: str


@dataclass(frozen=True, slots=True)
class CallFigures:
    """All about the calls at a moment. ``recent``, ``recent_failed``, ``recent_throttled``: within the window."""

    totals: Mapping[tuple[str, str, str], int]
    histograms: Mapping[tuple[str, str], Histogram]
    latencies: tuple[Latency, ...]
    calls: int = 0
    failed: int = 0
    throttled: int = 0
    sent: int = 0
    received: int = 0
    recent: int = 0
    recent_failed: int = 0
    recent_throttled: int = 0
    median: float | None = None
    slowest: float | None = None
    last_failure: FailedCall | None = None


class Calls:
    """Counts calls as they are seen. Not thread-safe; ``clock`` says when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._totals: dict[tuple[str, str, str], int] = {}
        self._histograms: dict[tuple[str, str], HistogramCounter] = {}
        self._latencies: dict[tuple[str, str], deque[tuple[float, float]]] = {}
        self._slots: deque[list[int]] = deque(maxlen=int(WINDOW_S / SLOT_S) + 1)  # slot, calls, failed, throttled
        self._calls = self._failed = self._throttled = self._sent = self._received = 0
        self._last_failure: FailedCall | None = None

    def take(self, call: CallSeen) -> None:
        """One call has ended."""
        now = self._clock.monotonic()
        code = UNANSWERED if call.status is None else str(call.status) if 100 <= call.status <= 599 else OTHER
        kind = (call.verb, call.resource)
        if kind not in self._histograms:
            if len(self._histograms) >= KINDS_MAX:
                kind = (OTHER, OTHER)
            self._histograms.setdefault(kind, HistogramCounter())
            self._latencies.setdefault(kind, deque(maxlen=LATENCIES_MAX))
        ending = (*kind, code)
        if ending not in self._totals and len(self._totals) >= ENDINGS_MAX:
            ending = (OTHER, OTHER, OTHER)
        self._totals[ending] = self._totals.get(ending, 0) + 1
        if call.verb != WATCH:
            self._histograms[kind].add(call.seconds)
            self._latencies[kind].append((now, call.seconds))
        failed = has_failed(call)
        throttled = call.status == TOO_MANY_REQUESTS
        self._calls += 1
        self._failed += failed
        self._throttled += throttled
        self._sent += call.sent
        self._received += call.received
        if failed:
            self._last_failure = FailedCall(self._clock.now(), *kind, code)
        slot = int(now / SLOT_S)
        if not self._slots or self._slots[-1][0] != slot:
            self._slots.append([slot, 0, 0, 0])
        newest = self._slots[-1]
        newest[1] += 1
        newest[2] += failed
        newest[3] += throttled

    def figures(self) -> CallFigures:
        """As it is now. Costs the kinds of calls and the latencies that are remembered."""
        since = self._clock.monotonic() - WINDOW_S
        first = int(since / SLOT_S)
        recent = [slot for slot in self._slots if slot[0] > first]
        latencies = []
        everything: list[float] = []
        for (verb, resource), known in self._latencies.items():
            while known and known[0][0] < since:
                known.popleft()
            if known:
                seconds = sorted(one for _, one in known)
                everything += seconds
                latencies.append(Latency(verb, resource, len(seconds), _at(seconds, 0.5), _at(seconds, 0.99)))
        everything.sort()
        return CallFigures(
            dict(self._totals),
            {kind: counter.taken() for kind, counter in self._histograms.items()},
            tuple(sorted(latencies, key=lambda one: (-one.calls, one.verb, one.resource))),
            self._calls,
            self._failed,
            self._throttled,
            self._sent,
            self._received,
            sum(slot[1] for slot in recent),
            sum(slot[2] for slot in recent),
            sum(slot[3] for slot in recent),
            _at(everything, 0.5) if everything else None,
            _at(everything, 0.99) if everything else None,
            self._last_failure,
        )


def has_failed(call: CallSeen) -> bool:
    """Whether a call did not do what it was to do."""
    return call.status is None or (call.status >= 400 and (call.verb, call.status) not in _EXPECTED)


def _at(ordered: list[float], share: float) -> float:
    """The value below which this share of them lies: one of them, never between two."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
