"""The recording of a live run: begun, or gone on with where an earlier run was killed.

A run that acts without a driver goes on with its recording (``live.resume`` decides it again). What the earlier run had
asked for and never heard of is asked for again, once the pods are listed. Any other run begins a new recording and keeps
the old one under another name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from pyrsistent import pmap

from podtide.adapters.driver.target_sources import ScheduleSource
from podtide.adapters.notices import Level, Topic
from podtide.adapters.recording.header import RecordingError, RecordingHeader, header_of
from podtide.adapters.recording.reader import Recording
from podtide.adapters.recording.recorder import Recorder
from podtide.adapters.recording.writer import RecordingWriter
from podtide.adapters.text.safe import cause
from podtide.domain.base.units import Millis
from podtide.domain.live import headless
from podtide.domain.live.filters import AdoptFilter
from podtide.domain.protocol.allocation_policies import Policies
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.executor_commands import DecommissionExecutors
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.reasons import Cause, Why
from podtide.entrypoints.common.app_loop import AppLoop, Observer
from podtide.entrypoints.live.assembly import LiveSystem, Survivors
from podtide.entrypoints.live.config import INSTANCES_KEY
from podtide.entrypoints.live.driver_link import SummaryObserver
from podtide.entrypoints.live.options import RunOptions
from podtide.entrypoints.live.resume import resume
from podtide.entrypoints.live.stall_watch import stalls_of

RECORDINGS_MAX: Final = 1_000


class Begun(NamedTuple):
    """A loop, and the calls of an earlier run whose outcome was never heard: they are made again."""

    loop: AppLoop
    unanswered: tuple[Command, ...] = ()


def goes_on(options: RunOptions) -> bool:
    """Whether there is a recording to go on with. Beside a driver each run begins anew: the driver knows the state."""
    there = options.record is not None and not options.overwrite and Path(options.record).exists()
    return there and options.acting and options.driver_url is None


def recorded_initial(options: RunOptions) -> int | None:
    """The number of executors that a run which is gone on with began with; None: nothing is known of one."""
    if goes_on(options) and options.record is not None:
        with contextlib.suppress(RecordingError, ValueError), Recording(options.record) as recording:
            return int(recording.header.conf.get(INSTANCES_KEY, ""))
    return None


def begin(system: LiveSystem, policies: Policies, resources: ExitStack) -> Begun:
    """The loop of a run, recorded where that was asked for. Raises RecordingError, NotTheSame."""
    options, settings, now = system.options, system.settings, system.clock.now()
    stalls = stalls_of(system, now, resources)
    observers: list[Observer] = [*system.audience.observers, stalls]
    if system.driver is not None and settings.config.kubernetes.roll is not None:
        observers.append(SummaryObserver(settings.config.kubernetes, system.driver.sensor, system.inbox.hear))
    if options.record is None:
        return Begun(AppLoop(settings.config, now, system.environment, observers, stalls.passed))
    header = header_of(options.app_id, settings.conf, now, "live", policies=policies)
    if system.survivors is not None and goes_on(options):
        begun = _resumed(system, system.survivors, options.record, header, observers, stalls.passed, resources)
        if begun is not None:
            return begun
    place = Path(options.record)
    if place.exists() and not options.overwrite:
        _set_aside(place, system)
    writer = resources.enter_context(_whole(RecordingWriter(options.record, header, overwrite=True)))
    every = [Recorder(writer), *observers]
    return Begun(AppLoop(settings.config, now, system.environment, every, stalls.passed))


def _resumed(
    system: LiveSystem,
    survivors: Survivors,
    path: str,
    header: RecordingHeader,
    observers: Sequence[Observer],
    passed: Callable[[Millis], None],
    resources: ExitStack,
) -> Begun | None:
    """Go on with the recording of a run that was killed, or ended; None if it holds nothing."""

    def witness(now: Millis, stimuli: Sequence[AnyStimulus], commands: Sequence[Command]) -> None:
        survivors.headless.recall((*stimuli, *commands), now)

    earlier = resume(path, header, system.settings.config, witness)
    if earlier is None:
        survivors.headless.state = headless.begin()  # what it heard belongs to a life that is over
        return None
    writer = resources.enter_context(_whole(earlier.writer))
    loop = AppLoop(system.settings.config, earlier.now, system.environment, [Recorder(writer), *observers], passed)
    loop.resume(earlier.state, earlier.now, earlier.steps)
    text = f"gone on with {path}: {earlier.steps} steps, {len(earlier.open)} calls open"
    system.audience.say(Level.INFO, Topic.STARTED, text)
    if isinstance(system.source, ScheduleSource):
        system.source.go_on(earlier.began_at)
    for stimulus_filter in system.filters:
        if isinstance(stimulus_filter, AdoptFilter):
            stimulus_filter.recall()
    # Creations are not asked for again: the first list answers them. Nothing is asked before the pods are listed: a start
    # that fails must not leave workers at work behind it.
    creations = [command for command in earlier.open if isinstance(command, CreatePod)]
    others = [command for command in earlier.open if not isinstance(command, CreatePod)]
    side = earlier.state.kubernetes
    if side is not None and side.allocator is not None:
        index = side.allocator.fleet
        unseen = {number: made.profile for number, made in index.created()}
        survivors.gone.expect(index.snapshot().values(), unseen, creations)
    return Begun(loop, (*others, *_leaving(survivors, earlier.now)))


def _leaving(survivors: Survivors, now: Millis) -> list[Command]:
    """Executors that were told to go and are not known to be gone: a drain has no answer, so it is asked for again."""
    leaving = survivors.headless.leaving()
    why = Why(Cause.DECOMMISSIONED, pmap({"executors": len(leaving)}))
    return [DecommissionExecutors(now, leaving, "told to go before a restart", True, why)] if leaving else []


def _set_aside(place: Path, system: LiveSystem) -> None:
    """Keep the recording of an earlier run under another name; a run that asks its driver begins a new one."""
    stem, _, rest = place.name.partition(".")
    for number in range(1, RECORDINGS_MAX):
        other = place.with_name(f"{stem}.{number}.{rest}" if rest else f"{stem}.{number}")
        if not other.exists():
            try:
                place.rename(other)
            except OSError as problem:
                raise RecordingError(str(place), f"cannot be set aside: {cause(problem)}") from None
            text = f"the recording of an earlier run is {other} now"
            system.audience.say(Level.INFO, Topic.STARTED, text)
            return
    raise RecordingError(str(place), f"exists, as do {RECORDINGS_MAX} set aside; remove some, or say --overwrite")


@contextlib.contextmanager
def _whole(writer: RecordingWriter) -> Iterator[RecordingWriter]:
    """A recording that is closed as ended where the run ends, however it does."""
    try:
        yield writer
    except BaseException:
        with contextlib.suppress(RecordingError, OSError):
            writer.abandon()
        raise
    writer.close("the run ended")
