"""The full lists: a pure ExecutorPodsPollingSnapshotSource.

One list of the application's pods every ``poll_interval_ms``, the first one after one interval, the next an interval after
the answer. A list that fails changes nothing; the next one comes as usual. What was listed replaces the store's snapshot.

With ``poll_with_version`` the list is asked of the API server's cache (resource version "0"), which may be older than what
was seen before: a list whose version is smaller than the last one taken is dropped without a word. Versions compare as
unsigned 64-bit numbers; a list with another version, or with none, is lost (spec: snapshots, section 5; quirk 102).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, assert_never

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, NULL_POINTER, NUMBER_FORMAT, REJECTED_EXECUTION, SparkFault
from podtide.domain.machine.turn import Turn, thrown, why
from podtide.domain.protocol.cluster_config import SourcesConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import ListPods
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced
from podtide.domain.protocol.reasons import Cause

POLLING: Final = "ExecutorPodsPollingSnapshotSource"
CACHED: Final = "0"
"""The resource version that any answer of the API server's cache satisfies."""

VERSION_MAX: Final = 2**64 - 1
_VERSION: Final = re.compile(r"\d+")
_VERSION_DIGITS: Final = 20

STARTED_TWICE: Final = SparkFault(ILLEGAL_ARGUMENT, "requirement failed: Cannot start polling more than once.")
REJECTED: Final = SparkFault(REJECTED_EXECUTION, "shut down")


class PollingConfig(NamedTuple):
    """The sources' configuration, and whether to report what only Spark's log says."""

    sources: SourcesConfig = SourcesConfig()
    remarks: bool = False


class Start(NamedTuple):
    """start(): poll from now on, if polling is enabled."""

    at: Millis


class StopPolling(NamedTuple):
    """stop(): never poll again; an answer still to come is of no interest."""

    at: Millis


PollingInput: TypeAlias = Start | StopPolling | Wake | Outcome
PollingCommand: TypeAlias = ListPods | PodsReplaced
"""What is asked of the API, and what is for the snapshot store."""


@dataclass(slots=True)
class PollingState:
    """``due``: the next list, None while one is under way (``list_serial``: its serial) and when there is none.

    ``version``: of the last list that was taken. ``next_serial``: of the next command.
    """

    due: Millis | None = None
    list_serial: int | None = None
    version: int | None = None
    stopped: bool = False
    next_serial: int = 0


def start() -> PollingState:
    """A source that does not poll yet."""
    return PollingState()


def due(state: PollingState) -> Millis:
    """When the source next needs a ``Wake``; NEVER if it waits for something else."""
    return NEVER if state.due is None else state.due


def poll(
    state: PollingState, snapshots: Sequence[PollingInput], config: PollingConfig, now: Millis
) -> Step[PollingState, PollingCommand]:
    """Take what happened, in order; ask for a list when one is due. Never raises on well-typed input."""
    turn = _Source(state, config, now)
    for happening in snapshots:
        turn.take(happening)
    return turn.step()


class _Source(Turn[PollingState, PollingConfig, PollingCommand]):
    """The source within one step."""

    machine = POLLING

    def take(self, happening: PollingInput) -> None:
        state = self.state
        match happening:
            case Start():
                self.start()
            case StopPolling():
                state.due, state.list_serial, state.stopped = None, None, True
            case Wake():
                if state.due is not None and state.due <= self.now:
                    self.ask()
            case Outcome():
                if happening.serial == state.list_serial:
                    self.answered(happening)
            case _:
                assert_never(happening)

    def start(self) -> None:
        if not self.config.sources.poll:
            return
        if self.state.due is not None or self.state.list_serial is not None:
            self.threw(STARTED_TWICE)
            return
        interval = self.config.sources.poll_interval_ms
        self.remark("started", interval_ms=interval)
        if self.state.stopped:  # the pool is shut down by then
            self.threw(REJECTED)
        else:
            self.state.due = self.now + interval

    def ask(self) -> None:
        state, sources = self.state, self.config.sources
        # As text: records and JSON readers elsewhere may hold 64-bit numbers as doubles.
        last = None if state.version is None else str(state.version)
        cause = why(Cause.RESYNCHRONIZE, interval_ms=sources.poll_interval_ms, last_version=last)
        version = CACHED if sources.poll_with_version else None
        self.commands.append(ListPods(self.now, state.next_serial, cause, version))
        state.due, state.list_serial, state.next_serial = None, state.next_serial, state.next_serial + 1

    def answered(self, answer: Outcome) -> None:
        """Pass the pods on, unless the call failed or the list is stale."""
        sources = self.config.sources
        self.state.due, self.state.list_serial = self.now + sources.poll_interval_ms, None
        if answer.failure is not None:
            self.threw(thrown(answer.failure))
            return
        if sources.poll_with_version:
            version = parse_version(answer.version)
            if isinstance(version, SparkFault):
                self.threw(version)
                return
            if self.state.version is not None and version < self.state.version:
                return
            self.state.version = version
        self.commands.append(PodsReplaced(self.now, answer.pods))


def parse_version(text: str | None) -> int | SparkFault:
    """UnsignedLong.valueOf: digits of the basic plane, without a sign, up to 2**64 - 1."""
    if text is None:
        return SparkFault(NULL_POINTER, "null")
    if not text:
        return SparkFault(NUMBER_FORMAT, "empty string")
    if _VERSION.fullmatch(text) is None or any(sign > "\uffff" for sign in text):
        return SparkFault(NUMBER_FORMAT, text)
    zeros = next((place for place, digit in enumerate(text) if int(digit)), len(text) - 1)
    digits = text[zeros:]  # Python's conversion is quadratic in the length; zeros in front are free with Guava
    number = int(digits) if len(digits) <= _VERSION_DIGITS else VERSION_MAX + 1
    if number > VERSION_MAX:
        return SparkFault(NUMBER_FORMAT, f"Too large for unsigned long: {text}")
    return number
