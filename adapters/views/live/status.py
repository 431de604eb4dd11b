"""A live run at a moment, as a value: all that a view, a log line, a metric or a health check says of it.

Views are functions of this value alone, so they are tested without threads, clocks or a cluster. It is made by
``views.live.tracker.LiveTracker.snapshot`` and its size is bounded: it follows the profiles, the kinds of decisions and
calls, and the last lines that are kept, never the pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from podtide.adapters.notices import Level, Topic
from podtide.adapters.text.format import lasting
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.live.api_calls import CallFigures, Histogram
from podtide.adapters.views.stalls import stall_line
from podtide.domain.base.units import Millis
from podtide.domain.protocol.pods import PodState
from podtide.domain.stalls.stalls import Stall

ACT: Final = "act"
SHADOW: Final = "shadow"

REQUESTED: Final = "requested"
"""The state of a pod that was asked for and has not been seen."""

STATES: Final[Mapping[PodState, str]] = {
    PodState.PENDING: "pending",
    PodState.RUNNING: "running",
    PodState.SUCCEEDED: "succeeded",
    PodState.FAILED: "failed",
    PodState.DELETED: "deleted",
    PodState.TERMINATING: "terminating",
    PodState.UNKNOWN: "unknown",
}
"""States of pods as views and metrics call them."""

STATE_NAMES: Final = (REQUESTED, *STATES.values())

RECENT_MS: Final[Millis] = 60_000
"""How long something that is over is still among what is wrong."""


class About(NamedTuple):
    """What is being run. ``mode``: ``act`` or ``shadow``; ``host``: the API server's address.

    ``target``: where the targets come from, in words. ``driver``: a Spark driver is asked, so whether it answers matters;
    it does until somebody says that it does not.
    """

    app_id: str
    namespace: str
    mode: str
    version: str
    host: str = ""
    target: str = ""
    driver: bool = False


class Lease(Enum):
    """Whether this instance is the one that may act."""

    NONE = "none"
    HELD = "held"
    LOST = "lost"


class WatchHealth(Enum):
    """How the watch over the pods is."""

    NONE = "none"
    ALIVE = "alive"
    BROKEN = "broken"


class RunStage(Enum):
    """Where a run is in its life."""

    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ProfileFigures:
    """The executors of one resource profile. ``pods``: by state, those with none left out.

    ``registered``: executors known to the driver; ``leaving``: those of them that were asked to go, or were lost.
    """

    profile: int
    target: int
    pods: Mapping[str, int] = field(default_factory=dict)
    registered: int = 0
    leaving: int = 0


@dataclass(frozen=True, slots=True)
class TotalFigures:
    """The same over all profiles. ``profiles`` of a view may leave some out; this does not."""

    target: int = 0
    pods: Mapping[str, int] = field(default_factory=dict)
    registered: int = 0
    leaving: int = 0


class TrendPoint(NamedTuple):
    """How things stood at the end of one stretch of time, all profiles together."""

    target: int
    running: int
    registered: int


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """A line as it stands: from ``at`` to ``end``; how much it matters, what kind it is, what, and why in parts."""

    at: Millis
    end: Millis
    level: str
    mark: str
    name: str
    what: str
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldNow:
    """A bound in force since ``since``. ``number``: how many it holds; ``keeps``: executors, rather than pods back."""

    bound: str
    profile: int
    since: Millis
    number: int
    keeps: bool
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RepeatedNotice:
    """A notice as it came last, ``times`` times since ``at``."""

    at: Millis
    end: Millis
    level: Level
    topic: Topic
    text: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """A live run at ``at``; ``change`` grows whenever something else than time is different.

    ``recent``: one point for every ``recent_width_ms``, the newest last. ``decisions`` and ``notices``: the last ones, the
    newest last. ``counts``: commands since the start, by name and cause. ``threw``: rounds that ended in an exception,
    by machine. ``seen_ms``: since the cluster last showed that what we know is so; None before the first list.
    ``beat_s``: since the loop last turned; None if nobody says. ``step_last_s``: how long the last step took.
    """

    at: Millis
    change: int
    started: Millis
    about: About
    profiles: tuple[ProfileFigures, ...] = ()
    total: TotalFigures = TotalFigures()
    recent: tuple[TrendPoint, ...] = ()
    recent_width_ms: Millis = 0
    decisions: tuple[DecisionLine, ...] = ()
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    held: tuple[HeldNow, ...] = ()
    threw: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[RepeatedNotice, ...] = ()
    notice_counts: Mapping[str, int] = field(default_factory=dict)
    calls: CallFigures = field(default_factory=lambda: CallFigures({}, {}, ()))
    listed: bool = False
    watch: WatchHealth = WatchHealth.NONE
    watch_since: Millis = 0
    watch_breaks: int = 0
    seen_ms: Millis | None = None
    unreachable_since: Millis | None = None
    throttled_at: Millis | None = None
    lease: Lease = Lease.NONE
    lease_since: Millis = 0
    lease_late_at: Millis | None = None
    driver: bool | None = None
    differences: int = 0
    stalls: tuple[Stall, ...] = ()
    stall_alarms: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    step_seconds: Histogram = field(default_factory=lambda: Histogram((), (0,), 0.0))
    step_last_s: float | None = None
    beat_s: float | None = None
    stage: RunStage = RunStage.RUNNING
    exit_code: int | None = None

    @property
    def acting(self) -> bool:
        """Whether this run writes to the cluster."""
        return self.about.mode == ACT


# ---------------------------------------------------------------------------------------------------------------- health

BEAT_MAX_S: Final = 30.0
"""Seconds within which the loop of a healthy run turns."""

REPAIR_MAX_MS: Final[Millis] = 30_000
"""How long a watch may be broken before its run is not ready: repairs take seconds."""


def unhealthy(snapshot: LiveSnapshot, beat_max_s: float = BEAT_MAX_S) -> tuple[str, ...]:
    """Why this process should be started anew, in a line each; nothing if it is well."""
    if snapshot.stage is not RunStage.RUNNING:
        return ()  # it is on its way out by itself; whoever kills it now leaves more behind
    if snapshot.beat_s is not None and snapshot.beat_s > beat_max_s:
        return (f"the loop has not turned for {snapshot.beat_s:.0f} s, expected within {beat_max_s:.0f} s",)
    return ()


def unready(snapshot: LiveSnapshot, beat_max_s: float = BEAT_MAX_S) -> tuple[str, ...]:
    """Why this run does not do its work at the moment, in a line each; nothing if it does."""
    why = list(unhealthy(snapshot, beat_max_s))
    if snapshot.stage is not RunStage.RUNNING:
        why.append(f"the run is {snapshot.stage.value}")
    if not snapshot.listed:
        why.append("the pods have not been listed yet")
    elif snapshot.watch is WatchHealth.BROKEN and snapshot.at - snapshot.watch_since > REPAIR_MAX_MS:
        why.append(f"the watch has been broken for {(snapshot.at - snapshot.watch_since) / 1000:.0f} s")
    if snapshot.acting and snapshot.lease is not Lease.HELD:
        why.append("the lease is lost" if snapshot.lease is Lease.LOST else "the lease is not held yet")
    return tuple(why)


def alarms(snapshot: LiveSnapshot) -> list[str]:
    """What is wrong now, the worst first."""
    found = []
    if snapshot.exit_code is not None:
        found.append(f"the application is ended with exit code {snapshot.exit_code}")
    if snapshot.lease is Lease.LOST:
        found.append(f"the lease is lost since {_since(snapshot, snapshot.lease_since)}: nothing is written any more")
    if snapshot.beat_s is not None and snapshot.beat_s > BEAT_MAX_S and snapshot.stage is RunStage.RUNNING:
        found.append(f"the loop has not turned for {lasting(snapshot.beat_s * 1000)}")
    if snapshot.unreachable_since is not None:
        found.append(f"the API server does not answer, for {_since(snapshot, snapshot.unreachable_since)}")
    if snapshot.watch is WatchHealth.BROKEN:
        found.append(f"the watch is broken, for {_since(snapshot, snapshot.watch_since)}")
    if snapshot.about.driver and snapshot.driver is False:
        found.append("the driver does not answer")
    found += [stall_line(stall, snapshot.at) for stall in snapshot.stalls if stall.blocked]
    if snapshot.throttled_at is not None and snapshot.at - snapshot.throttled_at < RECENT_MS:
        found.append(f"the API server throttles us, {ago(snapshot.at - snapshot.throttled_at)}")
    if snapshot.lease_late_at is not None and snapshot.at - snapshot.lease_late_at < RECENT_MS:
        found.append(f"the lease was renewed late, {ago(snapshot.at - snapshot.lease_late_at)}")
    failure = snapshot.calls.last_failure
    if failure is not None and snapshot.at - failure.at < RECENT_MS and failure.code != "429":
        ended = "got no answer" if failure.code == "none" else f"was answered with {failure.code}"
        what = f"{escaped(failure.verb, 20)} {escaped(failure.resource, 40)}"
        found.append(f"{what} {ended}, {ago(snapshot.at - failure.at)}")
    return found


def _since(snapshot: LiveSnapshot, at: Millis) -> str:
    return lasting(max(0, snapshot.at - at))


def ago(span_ms: Millis) -> str:
    """How long ago, in whole seconds."""
    return "just now" if span_ms < 1000 else f"{lasting(span_ms // 1000 * 1000)} ago"
