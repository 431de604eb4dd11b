"""The resource manager and the node managers of a recording, for decisions that are not as recorded; known profiles.

What the resource manager gave, ended and reported then is told now at the first heartbeat after it said so. A heartbeat that
was under way then too, is answered when that one was; any other is answered at once, with whatever was said in between. A
launch is answered as the launch in the same container was, whatever executor id it has now; in a container that was not
launched then, it succeeds. Containers that were not given then do not come.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Final

from podtide.adapters.recording.codec import RecordedStimulus
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.containers import Completion, Container, NodeReport
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.protocol.yarn_messages import (
    CallResourceManager,
    LaunchEnded,
    LaunchExecutor,
    ProfilesDefined,
    ResourcesAnswered,
    ResourcesRefused,
)

LAUNCHES_MAX: Final = 65_536
"""Launches that are remembered by their containers."""


class KnownProfiles:
    """The resource profiles that a recording has told of. Of any other nobody can say what its containers are."""

    def __init__(self) -> None:
        self._known: set[ProfileId] = {DEFAULT_PROFILE}

    def unknown(self, stimuli: Iterable[RecordedStimulus]) -> ProfileId | None:
        """The first profile that gets a target and was never defined; None if all are known."""
        for stimulus in stimuli:
            match stimulus:
                case ResourceProfileAdded(profile=profile):
                    self._known.add(profile)
                case ProfilesDefined(specs=specs):
                    self._known.update(profile for profile, _ in specs)
                case TargetsSet(targets=targets):
                    for profile, _ in targets:
                        if profile not in self._known:
                            return profile
                case _:
                    pass
        return None


class PastManager:
    """What was said then, for who asks now. Nothing is answered before ``diverge``; until then it only takes note."""

    def __init__(self) -> None:
        self._apart = False
        self._then: set[int] = set()  # heartbeats under way when it was recorded
        self._now: deque[int] = deque()  # heartbeats made now that wait for one of those
        self._allocated: list[Container] = []
        self._completed: list[Completion] = []
        self._updated: list[NodeReport] = []
        self._last: ResourcesAnswered | None = None
        self._container_of: OrderedDict[str, str] = OrderedDict()  # launches under way then, by executor
        self._launching: set[str] = set()  # their containers
        self._launched: OrderedDict[str, LaunchEnded] = OrderedDict()  # how launches ended, by container
        self._launches_now: dict[str, str] = {}  # launches made now that wait, by container

    def decided(self, command: Command) -> None:
        """A command that was recorded."""
        match command:
            case CallResourceManager(serial=serial):
                self._then.add(serial)
            case LaunchExecutor():
                self._container_of[command.executor] = command.container
                self._launching.add(command.container)
                if len(self._container_of) > LAUNCHES_MAX:
                    self._launching.discard(self._container_of.popitem(last=False)[1])
            case _:
                pass

    def hear(self, stimulus: RecordedStimulus) -> list[AnyStimulus] | None:
        """What a recorded stimulus brings now; None if it is not of this side."""
        match stimulus:
            case ResourcesAnswered():
                self._then.discard(stimulus.serial)
                self._last = stimulus
                if not self._apart:
                    return [stimulus]
                self._allocated += stimulus.allocated
                self._completed += stimulus.completed
                self._updated += stimulus.updated
                return [self._answer(stimulus.at, self._now.popleft())] if self._now else []
            case ResourcesRefused():
                self._then.discard(stimulus.serial)
                if not self._apart:
                    return [stimulus]
                return [stimulus._replace(serial=self._now.popleft())] if self._now else []
            case LaunchEnded():
                return self._launch_ended(stimulus)
            case _:
                return None

    def diverge(self, made_in_step: tuple[Command, ...]) -> None:
        """From now on decisions are others. ``made_in_step``: what was recorded of the step that differs."""
        self._apart = True
        anew = {command.serial for command in made_in_step if isinstance(command, CallResourceManager)}
        self._now.extend(sorted(self._then - anew))
        launched = {command.executor for command in made_in_step if isinstance(command, LaunchExecutor)}
        for executor, container in self._container_of.items():
            if executor not in launched:
                self._launches_now[container] = executor

    def apply(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """What a command of now leads to at once."""
        match command:
            case CallResourceManager(serial=serial):
                if len(self._then) > len(self._now):
                    self._now.append(serial)
                    return []
                return [self._answer(now, serial)]
            case LaunchExecutor(executor=executor, container=container):
                ended = self._launched.get(container)
                if ended is not None:
                    return [ended._replace(at=now, executor=executor, container=container)]
                if container in self._launching:
                    self._launches_now[container] = executor
                    return []
                return [LaunchEnded(now, executor, container=container)]
            case _:
                return []

    def _launch_ended(self, ended: LaunchEnded) -> list[AnyStimulus]:
        container = self._container_of.pop(ended.executor, None)
        if container is None:
            return [] if self._apart else [ended]
        self._launching.discard(container)
        self._launched[container] = ended
        if len(self._launched) > LAUNCHES_MAX:
            self._launched.popitem(last=False)
        if not self._apart:
            return [ended]
        executor = self._launches_now.pop(container, None)
        return [] if executor is None else [ended._replace(executor=type(ended.executor)(executor))]

    def _answer(self, at: Millis, serial: int) -> ResourcesAnswered:
        """Everything that was said and not told yet."""
        last = self._last
        answer = ResourcesAnswered(
            at,
            serial,
            tuple(self._allocated),
            tuple(self._completed),
            tuple(self._updated),
            0 if last is None else last.nodes,
            None if last is None else last.available,
        )
        self._allocated, self._completed, self._updated = [], [], []
        return answer
