"""When the application master speaks to the resource manager, and when it gives up: its reporter thread.

A beat is one round of the allocator; the next one comes when a sleep is over or somebody wakes the thread. Rules that are
easily got wrong:

- The application master makes a first round of its own, before there is a reporter; whatever that throws ends the
  application as an uncaught exception would. The reporter's own first round follows it at once.
- Before each of its rounds the reporter looks at the failures: too many of them, or no node left to use, end the
  application. A failure that the round itself brings is seen before the next one only.
- While requests wait for containers, or somebody for a loss reason, it sleeps for the initial interval, then twice that, and
  so on up to the heartbeat; when nothing waits it sleeps for a heartbeat and begins anew.
- A wake-up begins the intervals anew, and the round follows at once: Spark would go back to sleep for the rest of the
  initial interval, but takes nanoseconds for milliseconds there. Whoever wakes it during a round only sets the interval.
- An interval of 0 is Java's wait(0): it sleeps until somebody wakes it. A negative one is an exception that nothing
  catches: the thread ends, the application goes on without beats.
- What a round throws is counted until one goes well; so many in a row end the application, a fatal one at once, and so does
  a resource manager that knows the application attempt no longer.

The allocator is not known here: everything that the reporter hears comes with how that one stands (``AllocatorStanding``).
Source: ApplicationMaster.createAllocator, allocationThreadImpl, resetAllocatorInterval and finish of Spark 4.3.0 (spec:
yarn, section 3; quirk 68).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import pmap

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.machine.turn import Turn
from podtide.domain.protocol.cluster_config import ReporterConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.reasons import Cause, Fact, Why
from podtide.domain.protocol.yarn_messages import Beat, EndApplication

MACHINE: Final = "ApplicationMaster"
TRACKER: Final = "YarnAllocatorNodeHealthTracker"
FAILED: Final = "FAILED"
"""FinalApplicationStatus of an application that the reporter ends."""
UNCAUGHT_EXCEPTION: Final = 10
TOO_MANY_FAILURES: Final = 11
REPORTER_FAILURE: Final = 12
"""Exit codes of the ApplicationMaster: EXIT_UNCAUGHT_EXCEPTION, EXIT_MAX_EXECUTOR_FAILURES, EXIT_REPORTER_FAILURE."""
ATTEMPT_NOT_FOUND: Final = "org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException"
NEGATIVE_WAIT: Final = "java.lang.IllegalArgumentException: timeout value is negative"


class AllocatorStanding(NamedTuple):
    """How the allocator stands: requests that wait, executors whose loss reason somebody waits for, failures that count now
    and how many are too many, nodes excluded and whether those are all, and how many nodes there are.
    """

    pending: int = 0
    loss_requests: int = 0
    failures: int = 0
    failures_max: int = 3
    excluded: int = 0
    all_excluded: bool = False
    nodes: int = 1


# what it hears


class MasterMade(NamedTuple):
    """There is a new application master with an allocator (createAllocator)."""

    at: Millis
    standing: AllocatorStanding


class RoundEnded(NamedTuple):
    """The round that a Beat began is over. ``threw``: class and message of what it threw; ``fatal``: not to be survived."""

    at: Millis
    standing: AllocatorStanding
    threw: str | None = None
    fatal: bool = False


class Roused(NamedTuple):
    """Somebody wants a round soon (resetAllocatorInterval): a target changed, or a loss reason is asked for."""

    at: Millis
    standing: AllocatorStanding


class SleptOut(NamedTuple):
    """Time passed."""

    at: Millis
    standing: AllocatorStanding


class MasterFinished(NamedTuple):
    """The application is over; there are no more rounds."""

    at: Millis


class MasterGone(NamedTuple):
    """The application master is lost, and this thread of its with it; another one may come."""

    at: Millis


ReporterInput: TypeAlias = MasterMade | RoundEnded | Roused | SleptOut | MasterFinished | MasterGone
ReporterCommand: TypeAlias = Beat | EndApplication


class ReporterStage(Enum):
    """What the thread does."""

    ABSENT = "absent"
    """There is no application master."""
    OPENING = "opening"
    """The application master makes its first round, which is not the reporter's."""
    BEATING = "beating"
    SLEEPING = "sleeping"
    OVER = "over"


@dataclass(slots=True)
class ReporterState:
    """The reporter at a moment.

    ``interval_ms``: the next sleep while something waits (nextAllocationInterval). ``until``: when the sleep is over; None:
    when somebody wakes it. ``exceptions``: rounds in a row that threw.
    """

    stage: ReporterStage = ReporterStage.ABSENT
    interval_ms: Millis = 0
    until: Millis | None = None
    exceptions: int = 0


def begin(config: ReporterConfig) -> ReporterState:
    """Before there is an application master."""
    return ReporterState(interval_ms=config.initial_ms)


def report(
    state: ReporterState, snapshots: Sequence[ReporterInput], config: ReporterConfig, now: Millis
) -> Step[ReporterState, ReporterCommand]:
    """Take what came, in order: rounds that ended, wake-ups, time; and say when to beat, or that it is over."""
    thread = _Thread(state, config, now)
    for item in snapshots:
        thread.hear(item)
    return thread.step()


def due(state: ReporterState, config: ReporterConfig) -> Millis:  # noqa: ARG001 - every machine is asked alike
    """When its sleep is over; NEVER while a round is under way and where only somebody else can wake it."""
    return NEVER if state.stage is not ReporterStage.SLEEPING or state.until is None else state.until


class _Thread(Turn[ReporterState, ReporterConfig, ReporterCommand]):
    """The reporter within one step."""

    machine = MACHINE

    def hear(self, item: ReporterInput) -> None:
        match item:
            case MasterMade():
                self.state.stage, self.state.until, self.state.exceptions = ReporterStage.OPENING, None, 0
                self.state.interval_ms = self.config.initial_ms
                self.commands.append(Beat(self.now))
            case RoundEnded():
                self.ended(item)
            case Roused():
                if self.state.stage in (ReporterStage.ABSENT, ReporterStage.OVER):
                    return
                self.state.interval_ms = self.config.initial_ms
                if self.state.stage is ReporterStage.SLEEPING:
                    self.beat(item.standing)
            case SleptOut():
                if due(self.state, self.config) <= self.now:
                    self.beat(item.standing)
            case MasterFinished():
                self.over()
            case MasterGone():
                self.state.stage, self.state.until = ReporterStage.ABSENT, None
            case _:
                assert_never(item)

    def beat(self, standing: AllocatorStanding) -> None:
        """The top of the loop."""
        if standing.failures >= standing.failures_max:
            facts: dict[str, Fact] = {"failures": standing.failures, "limit": standing.failures_max}
            message = f"Max number of executor failures ({standing.failures_max}) reached"
            self.finish(TOO_MANY_FAILURES, message, Cause.TOO_MANY_FAILURES, facts)
        elif standing.all_excluded:
            facts = {"excluded": standing.excluded, "nodes": standing.nodes}
            message = "Due to executor failures all available nodes are excluded"
            self.finish(TOO_MANY_FAILURES, message, Cause.EXCLUDED, facts)
        else:
            if standing.nodes <= 0:
                self.remark("no nodes", TRACKER)
            self.state.stage, self.state.until = ReporterStage.BEATING, None
            self.commands.append(Beat(self.now))

    def ended(self, item: RoundEnded) -> None:
        """The bottom of the loop: what came of the round, and how long to sleep."""
        if self.state.stage is ReporterStage.OPENING:
            self.opened(item)
        elif self.state.stage is ReporterStage.BEATING:
            self.state.exceptions = 0 if item.threw is None else self.state.exceptions + 1
            if item.threw is None or self.survives(item.threw, fatal=item.fatal):
                self.sleep(item.standing)

    def opened(self, item: RoundEnded) -> None:
        """createAllocator goes on after its round: the reporter starts."""
        if item.threw is not None:
            self.finish(UNCAUGHT_EXCEPTION, f"Uncaught exception: {item.threw}", Cause.HEARTBEAT, {"threw": item.threw})
            return
        self.remark("started", heartbeat=self.config.heartbeat_ms, initial=self.config.initial_ms)
        self.beat(item.standing)

    def survives(self, threw: str, *, fatal: bool) -> bool:
        """Whether the application outlives what a round threw."""
        exception_class, _, text = threw.partition(": ")
        limit = self.config.exceptions_max
        if exception_class == ATTEMPT_NOT_FOUND:
            self.remark("attempt unknown", what=threw)
            message = text
        elif fatal:
            message = f"Fatal exception: {threw}"
        elif self.state.exceptions >= limit:
            message = f"Exception was thrown {self.state.exceptions} time(s) from Reporter thread."
        else:
            self.remark("fails", failures=self.state.exceptions, what=threw)
            return True
        facts: dict[str, Fact] = {"threw": threw, "exceptions": self.state.exceptions, "limit": limit}
        self.finish(REPORTER_FAILURE, message, Cause.HEARTBEAT, facts)
        return False

    def sleep(self, standing: AllocatorStanding) -> None:
        """How long it waits for somebody to wake it."""
        heartbeat_ms = self.config.heartbeat_ms
        if standing.pending > 0 or standing.loss_requests > 0:
            length_ms = min(heartbeat_ms, self.state.interval_ms)
            self.state.interval_ms = 2 * length_ms
        else:
            self.state.interval_ms = self.config.initial_ms
            length_ms = heartbeat_ms
        if length_ms < 0:
            self.threw(NEGATIVE_WAIT)
            self.over()
            return
        self.state.stage, self.state.until = ReporterStage.SLEEPING, self.now + length_ms if length_ms else None

    def finish(self, exit_code: int, message: str, cause: Cause, facts: dict[str, Fact]) -> None:
        """finish(FAILED, ...)."""
        self.over()
        self.commands.append(EndApplication(self.now, FAILED, exit_code, message, Why(cause, pmap(facts))))

    def over(self) -> None:
        self.state.stage, self.state.until = ReporterStage.OVER, None
