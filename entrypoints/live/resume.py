"""Going on where a run was killed: its recording is decided again, copied, and continued.

A recording holds every stimulus and, written before anything was carried out, every decision. So the state of a process that
is gone can be had again to the letter: its steps are taken once more, up to the last whole one, while they are copied
into a new file that takes the old one's place. What was asked for and never answered is asked for again - calls are
idempotent, so one that had been carried out is found done - and the cluster is listed anew.

A recording that was made under another conf, by other policies or by a podtide that decides otherwise is not gone on with:
the state would not be what the process had.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from podtide.adapters.recording.comparison import Agreement
from podtide.adapters.recording.header import NothingRecorded, RecordingError, RecordingHeader
from podtide.adapters.recording.reader import Recorded, RecordedStep, Recording
from podtide.adapters.recording.writer import RecordingWriter
from podtide.adapters.text.safe import cause
from podtide.domain import engine
from podtide.domain.base.units import Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.executor_stimuli import Stopping
from podtide.domain.protocol.pod_stimuli import CreationFailed, KnownExecutors, Outcome


class NotTheSame(Exception):
    """A recording that this run cannot go on with; the message says what is different."""


class Resumed(NamedTuple):
    """A run as it was. ``open``: commands that were never answered, in order. ``writer``: goes on with the recording."""

    state: EngineState
    now: Millis
    steps: int
    open: tuple[Command, ...]
    writer: RecordingWriter
    began_at: Millis


Witness = Callable[[Millis, Sequence[AnyStimulus], Sequence[Command]], None]
"""Sees every recorded step, so that what stands beside the engine can be rebuilt too."""


def resume(path: str, header: RecordingHeader, config: EngineConfig, witness: Witness) -> Resumed | None:
    """The state at the end of a recording, and a writer that goes on with it; None if it holds no whole step, or its end.

    Raises NotTheSame, RecordingError. The recording is untouched unless all of it could be decided again.
    """
    place = Path(os.path.realpath(path))
    try:
        opened = Recording(str(place))
    except NothingRecorded:
        return None
    with opened as recording:
        _same(path, recording.header, header)
        began_at = recording.header.started_at
        handle, name = tempfile.mkstemp(prefix=".resume-", suffix=f"-{place.name[-100:]}", dir=place.parent)
        os.close(handle)
        part = Path(name)
        try:
            part.chmod(place.stat().st_mode & 0o777)
            writer = RecordingWriter(name, recording.header, overwrite=True, flush_steps=0)
            taken = _take(path, recording.entries(), config, writer, witness)
            if taken is None:
                writer.abandon()
                part.unlink()
                return None
            writer.flush_every(1)
            part.replace(place)
        except OSError as problem:
            part.unlink(missing_ok=True)
            raise RecordingError(path, f"cannot be gone on with: {cause(problem)}") from None
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    state, now, steps, waiting = taken
    return Resumed(state, now, steps, tuple(waiting.values()), writer, began_at)


def _take(
    path: str, entries: Iterator[Recorded], config: EngineConfig, writer: RecordingWriter, witness: Witness
) -> tuple[EngineState, Millis, int, dict[int, Command]] | None:
    """Take the recorded steps once more. The last one may have been cut before its decisions; they are made now."""
    state: EngineState | None = None
    now: Millis = 0
    steps = 0
    stopped = False
    waiting: dict[int, Command] = {}
    agreement = Agreement()
    for entry in entries:
        if not isinstance(entry, RecordedStep):
            continue
        stimuli = [one for one in entry.stimuli if not isinstance(one, KnownExecutors | CreationFailed)]
        now = max(now, entry.at)
        stopped = stopped or any(isinstance(one, Stopping) for one in stimuli)
        step = engine.launch(config, now) if state is None else engine.advance(state, stimuli, config, now)
        agreement.take(entry, step.commands, step.reports)
        if agreement.divergence is not None:
            raise NotTheSame(f"{path}:{entry.line} was decided otherwise than this podtide and this conf decide it")
        state = step.state
        steps += 1
        writer.step(now, stimuli, step.commands, step.reports)
        witness(now, stimuli, step.commands)
        for stimulus in stimuli:
            if isinstance(stimulus, Outcome):
                waiting.pop(stimulus.serial, None)
        for command in step.commands:
            stopped = stopped or isinstance(command, StopApplication)
            serial = getattr(command, "serial", None)
            if serial is not None and not isinstance(command, RequestTotal | Kill | Decommission):
                waiting[serial] = command
    if stopped:
        return None  # it was told to end, or ended: an application that went through its end never creates a pod again
    return None if state is None else (state, now, steps, waiting)


def _same(path: str, recorded: RecordingHeader, wanted: RecordingHeader) -> None:
    """Whether the recording is of the same application under the same terms. Raises NotTheSame."""
    if recorded.app_id != wanted.app_id:
        raise NotTheSame(f"{path} is a recording of {recorded.app_id}, not of {wanted.app_id}")
    if recorded.source != wanted.source:
        raise NotTheSame(f"{path} is a {recorded.source} recording, not a {wanted.source} one")
    keys = sorted(set(recorded.conf) | set(wanted.conf))
    other = [key for key in keys if recorded.conf.get(key) != wanted.conf.get(key)]
    if other:
        shown = ", ".join(other[:5])
        raise NotTheSame(f"{path} was recorded under another conf ({shown})")
    if dict(recorded.policies) != dict(wanted.policies):
        raise NotTheSame(f"{path} was recorded with other policies or fixes")
