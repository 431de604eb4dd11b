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
from typing import Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import pmap

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, NULL_POINTER, NUMBER_FORMAT, REJECTED_EXECUTION, SparkFault
from podtide.domain.machine.turn import thrown
from podtide.domain.protocol.cluster_config import SourcesConfig
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.pod_commands import ListPods
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, Wake
from podtide.domain.protocol.reasons import Cause, Remark, Threw, Why

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


class PollingState(NamedTuple):
    """``due``: the next list, None while one is under way (``asked``: its serial) and when there is none.

    ``version``: of the last list that was taken. ``next_serial``: of the next command.
    """

    due: Millis | None = None
    asked: int | None = None
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
    commands: list[PollingCommand] = []
    reports: list[Report] = []
    for happening in snapshots:
        match happening:
            case Start():
                state, said = _start(state, config, now)
                reports.extend(said)
            case StopPolling():
                state = state._replace(due=None, asked=None, stopped=True)
            case Wake():
                if state.due is not None and state.due <= now:
                    state, listing = _ask(state, config.sources, now)
                    commands.append(listing)
            case Outcome():
                if happening.serial == state.asked:
                    state, taken = _take(state, happening, config.sources, now)
                    if isinstance(taken, PodsReplaced):
                        commands.append(taken)
                    elif taken is not None:
                        reports.append(taken)
            case _:
                assert_never(happening)
    return Step(state, tuple(commands), tuple(reports))


def _start(state: PollingState, config: PollingConfig, now: Millis) -> tuple[PollingState, tuple[Report, ...]]:
    if not config.sources.poll:
        return state, ()
    if state.due is not None or state.asked is not None:
        return state, (Threw(now, POLLING, str(STARTED_TWICE)),)
    interval = config.sources.poll_interval_ms
    remarks = (Remark(now, POLLING, "started", pmap({"interval_ms": interval})),) if config.remarks else ()
    if state.stopped:  # the pool is shut down by then
        return state, (*remarks, Threw(now, POLLING, str(REJECTED)))
    return state._replace(due=now + interval), remarks


def _ask(state: PollingState, sources: SourcesConfig, now: Millis) -> tuple[PollingState, ListPods]:
    facts = pmap({"interval_ms": sources.poll_interval_ms, "last_version": _text_or_none(state.version)})
    version = CACHED if sources.poll_with_version else None
    listing = ListPods(now, state.next_serial, Why(Cause.RESYNCHRONIZE, facts), version)
    return state._replace(due=None, asked=listing.serial, next_serial=listing.serial + 1), listing


def _take(
    state: PollingState, answer: Outcome, sources: SourcesConfig, now: Millis
) -> tuple[PollingState, PodsReplaced | Threw | None]:
    """What becomes of an answer: pods to pass on, an exception that ends in the log, or nothing (a stale list)."""
    state = state._replace(due=now + sources.poll_interval_ms, asked=None)
    if answer.failure is not None:
        return state, Threw(now, POLLING, str(thrown(answer.failure)))
    if sources.poll_with_version:
        version = parse_version(answer.version)
        if isinstance(version, SparkFault):
            return state, Threw(now, POLLING, str(version))
        if state.version is not None and version < state.version:
            return state, None
        state = state._replace(version=version)
    return state, PodsReplaced(now, answer.pods)


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


def _text_or_none(version: int | None) -> str | None:
    """A version as text: records and JSON readers elsewhere may hold 64-bit numbers as doubles."""
    return None if version is None else str(version)
