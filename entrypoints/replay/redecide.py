"""A recording decided again: the same engine takes what was recorded, step by step; its commands go nowhere.

``Redecision`` is a loop like any other (``common.app_loop``) whose environment are a recording. As long as every step is
decided as it was, it takes the recorded steps as they are: the same stimuli at the same time, wakes and outcomes
included. So a recording that was made by this code is decided again to the letter.

Where a step is decided otherwise - another configuration, another policy, another podtide - what was recorded no longer
answers what is decided. From there on (``_Past``):

- what was seen of the cluster and of the application is still heard at its time;
- timers run when they are due now;
- a call that was made then too gets the answer that it got, as soon as that is known: calls are matched by what they ask
  for, not by their serial;
- a call that was not made then is taken to succeed at once, and shows no pod, because none was recorded;
  ``replay.redecide_yarn`` describes heartbeats and launches on YARN.

This shows what would be decided on what was seen. A simulation shows what would have happened then.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, TypeAlias

from podtide.adapters.recording.comparison import Agreement
from podtide.adapters.recording.header import RecordingError
from podtide.adapters.recording.reader import RecordedEnd, RecordedStep, Recording
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal, Step
from podtide.domain.protocol.executor_stimuli import Starting
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pod_stimuli import CreationFailed, KnownExecutors, Outcome
from podtide.domain.protocol.yarn_messages import (
    Beat,
    CallResourceManager,
    ContainersWanted,
    KillExecutors,
    LossReasonsAsked,
    MasterEnding,
)
from podtide.entrypoints.common.app_loop import AppLoop, Observer
from podtide.entrypoints.replay.overrides import ReplayTerms
from podtide.entrypoints.replay.redecide_yarn import KnownProfiles, PastManager

ANSWERS_MAX: Final = 65_536
"""Answers to calls that are remembered for a later call of the same kind."""

_Internal: TypeAlias = (
    KnownExecutors | CreationFailed | Beat | ContainersWanted | KillExecutors | LossReasonsAsked | MasterEnding
)
"""What only machines tell each other."""

_ANSWERED_OTHERWISE: Final = (RequestTotal, Kill, Decommission, CallResourceManager)
"""The engine answers the first three itself; what the resource manager says is no outcome."""

CallKey: TypeAlias = tuple[Any, ...]
"""What a call asks for, whenever it is made and whatever its serial."""


class Past:
    """A recording as the environment of a loop that decides otherwise. Until ``diverge`` it only takes note of calls."""

    def __init__(self) -> None:
        self._steps: Iterator[RecordedStep] | None = None
        self._next: RecordedStep | None = None
        self._then: OrderedDict[int, CallKey] = OrderedDict()  # calls under way when it was recorded, by serial
        self._under_way: Counter[CallKey] = Counter()
        self._outcomes: OrderedDict[CallKey, Outcome] = OrderedDict()
        self._waiting: dict[CallKey, deque[int]] = {}  # calls made now that wait for what was recorded
        self._answers: list[AnyStimulus] = []
        self._manager = PastManager()
        self._now: Millis = 0

    def hear(self, step: RecordedStep) -> list[AnyStimulus]:
        """What a recorded step brings: its stimuli, with the outcomes that answer calls made now."""
        stimuli: list[AnyStimulus] = []
        for stimulus in step.stimuli:
            if isinstance(stimulus, Outcome):
                outcome = self._answered(stimulus)
                if outcome is not None:
                    stimuli.append(outcome)
            elif (answers := self._manager.hear(stimulus)) is not None:
                stimuli += answers
            elif not isinstance(stimulus, Starting | _Internal):
                stimuli.append(stimulus)
        for command in step.commands:
            self._manager.decided(command)
            key = call_key(command)
            if key is not None:
                self._then[command.serial] = key  # type: ignore[union-attr]  # a call has one
                self._under_way[key] += 1
                if len(self._then) > ANSWERS_MAX:
                    self._less(self._then.popitem(last=False)[1])
        return stimuli

    def diverge(self, step: RecordedStep, taken: Step[EngineState, Command], rest: Iterator[RecordedStep]) -> None:
        """``step`` was decided otherwise, as ``taken``; ``rest`` comes after it. All calls before it were the same."""
        self._steps = rest
        self._next = next(rest, None)
        self._manager.diverge(step.commands)
        anew = {getattr(command, "serial", None) for command in step.commands}
        for serial, key in self._then.items():
            if serial not in anew:
                self._waiting.setdefault(key, deque()).append(serial)
        for command in taken.commands:
            self.apply(command, step.at)

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        """The answers that are known, or the next recorded step, or ``until``."""
        if self._answers:
            answers, self._answers = self._answers, []
            return self._now, answers
        while self._next is not None and self._steps is not None:
            step = self._next
            if step.at > until:
                return until, ()
            self._now = step.at
            self._next = next(self._steps, None)
            stimuli = self.hear(step)
            if stimuli:
                return step.at, stimuli
        return NEVER, ()

    def apply(self, command: Command, now: Millis) -> None:
        """Find out what a call made now leads to."""
        if self._steps is None:
            return
        answers = self._manager.apply(command, now)
        if answers:
            self._now = now
            self._answers += answers
        key = call_key(command)
        if key is None:
            return
        serial: int = command.serial  # type: ignore[union-attr]  # a call has one
        waiting = self._waiting.setdefault(key, deque())
        if self._under_way[key] > len(waiting):
            waiting.append(serial)
            return
        known = self._outcomes.get(key)
        self._now = now
        self._answers.append(Outcome(now, serial, found=1) if known is None else known._replace(at=now, serial=serial))

    def _answered(self, outcome: Outcome) -> Outcome | None:
        key = self._then.pop(outcome.serial, None)
        if key is None:
            return None
        self._less(key)
        self._outcomes[key] = outcome
        self._outcomes.move_to_end(key)
        if len(self._outcomes) > ANSWERS_MAX:
            self._outcomes.popitem(last=False)
        waiting = self._waiting.get(key)
        if not waiting:
            return None
        serial = waiting.popleft()
        if not waiting:
            del self._waiting[key]
        return outcome._replace(serial=serial)

    def _less(self, key: CallKey) -> None:
        self._under_way[key] -= 1
        if not self._under_way[key]:
            del self._under_way[key]


def call_key(command: Command) -> CallKey | None:
    """What a call asks for; None for a command that nobody answers from outside."""
    if isinstance(command, CreatePod):
        return CreatePod, command.executor
    kind: Any = type(command)
    names = _request_fields(kind)
    return None if names is None else (kind, *(getattr(command, name) for name in names))


@cache
def _request_fields(kind: Any) -> tuple[str, ...] | None:
    names = [field.name for field in fields(kind)]
    if "serial" not in names or kind in _ANSWERED_OTHERWISE:
        return None
    return tuple(name for name in names if name not in ("at", "serial", "why"))


class _Last:
    """An observer that keeps the last step."""

    def __init__(self) -> None:
        self.taken: Step[EngineState, Command] | None = None

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        del now, stimuli
        self.taken = taken


class Redecider:
    """Takes recorded steps one by one, as they are; ``remarks``: whether remarks are wanted, recorded or not."""

    def __init__(
        self,
        recording: Recording,
        terms: ReplayTerms,
        observers: Sequence[Observer] = (),
        *,
        remarks: bool = False,
        passed: Callable[[Millis], None] = lambda _now: None,
    ) -> None:
        self.agreement = Agreement()
        self.past = Past()
        self.loop: AppLoop | None = None
        self._recording = recording
        self._terms = terms
        self._remarks = remarks
        self._passed = passed
        self._last = _Last()
        self._observers = (*observers, self._last)
        self._profiles = None if terms.settings.config.yarn is None else KnownProfiles()

    def take(self, step: RecordedStep) -> Step[EngineState, Command]:
        """Decide one step and compare it (``agreement``). Raises RecordingError for what no application can take."""
        self.past.hear(self.sound(step))
        if self.loop is None:
            if tuple(type(stimulus) for stimulus in step.stimuli) != (Starting,):
                what = "the first step does not start the application; a recording from its start was expected"
                raise RecordingError(self._recording.path, what, step.line)
            self.loop = AppLoop(self._terms.talkative, step.at, self.past, self._observers, self._passed)
            self.loop.launch()
        else:
            self.loop.take(self.stimuli(step), step.at)
        assert self._last.taken is not None
        taken = self._last.taken
        self.agreement.take(step, taken.commands, taken.reports)
        if self.agreement.remarks is False and not self._remarks:
            self.loop.config = self._terms.settings.config
        return taken

    def sound(self, step: RecordedStep) -> RecordedStep:
        """The step, which is to be read once. Raises RecordingError for a target that nobody can ask containers for."""
        unknown = None if self._profiles is None else self._profiles.unknown(step.stimuli)
        if unknown is not None:
            what = f"a target of resource profile {unknown}: expected a profile that a line before defines"
            raise RecordingError(self._recording.path, what, step.line)
        return step

    def stimuli(self, step: RecordedStep) -> list[AnyStimulus]:
        """What a step takes. Raises RecordingError if it holds what only machines tell each other."""
        stimuli: list[AnyStimulus] = []
        for stimulus in step.stimuli:
            if isinstance(stimulus, _Internal):
                what = f"{type(stimulus).__name__} is told by one machine to another; no application can take it"
                raise RecordingError(self._recording.path, what, step.line)
            stimuli.append(stimulus)
        return stimuli


class Redecision:
    """One recording decided again; ``run`` to the end, or with ``stop_at_divergence`` to the first difference.

    ``observers`` see every step, ``passed`` is that of ``AppLoop``. Afterwards: ``agreement``, ``steps`` (decided),
    ``recorded_steps``, ``first`` and ``last`` (the recording's times), ``reason`` (why it ends, None if it was cut).
    """

    def __init__(
        self,
        recording: Recording,
        terms: ReplayTerms,
        observers: Sequence[Observer] = (),
        *,
        remarks: bool = False,
        stop_at_divergence: bool = False,
        passed: Callable[[Millis], None] = lambda _now: None,
    ) -> None:
        self.recorded_steps = 0
        self.first: Millis = recording.header.started_at
        self.last: Millis = self.first
        self.reason: str | None = None
        self._recording = recording
        self._redecider = Redecider(recording, terms, observers, remarks=remarks, passed=passed)
        self.agreement = self._redecider.agreement
        self._stop = stop_at_divergence

    @property
    def steps(self) -> int:
        """Steps that were decided."""
        return 0 if self._redecider.loop is None else self._redecider.loop.steps

    def run(self) -> None:
        """Decide it. Raises RecordingError, and Stuck where time stands still."""
        steps = self._steps()
        for step in steps:
            taken = self._redecider.take(step)
            if self.agreement.divergence is None:
                continue
            loop = self._redecider.loop
            if self._stop or loop is None:
                return
            self._redecider.past.diverge(step, taken, map(self._redecider.sound, steps))
            loop.run(NEVER)

    def _steps(self) -> Iterator[RecordedStep]:
        for entry in self._recording.entries():
            self.last = max(self.last, entry.at)
            if isinstance(entry, RecordedEnd):
                self.reason = entry.reason
            elif isinstance(entry, RecordedStep):
                if not self.recorded_steps:
                    self.first = entry.at
                self.recorded_steps += 1
                yield entry
