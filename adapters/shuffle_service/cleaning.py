"""The cleaner of a node as a program runs it: one thread decides and carries out, one for each namespace watches.

What the watches see waits in a queue. Questions to the API server and work on the disk are done at once, one after the
other, so nothing happens between the last word of the API server and a removal.
"""

from __future__ import annotations

import queue
import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, assert_never

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiClient
from podtide.adapters.kubernetes.calls import ENDED
from podtide.adapters.kubernetes.errors import Complaints
from podtide.adapters.kubernetes.watch.sensor import PodSensor, SensorSettings
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.shuffle_service.application_pods import ApplicationPods
from podtide.adapters.shuffle_service.directories import ApplicationDirectories
from podtide.adapters.text.safe import cause
from podtide.domain.protocol.pod_stimuli import PodsReplaced, PodsUpdated, WatchStimulus
from podtide.domain.protocol.pods import APP_LABEL, ROLE_LABEL, PodManifest
from podtide.domain.shuffle_service.applications import (
    ApplicationId,
    ApplicationUnknown,
    CleanerCommand,
    CleanerConfig,
    CleanerStimulus,
    CleanerTick,
    CleaningCause,
    DirectoriesFound,
    DirectoryKept,
    DirectoryRemoved,
    DriversHidden,
    DriverShown,
    DriversListed,
    DriverVanished,
    FindApplication,
    FindDirectories,
    RememberDriver,
    RemoveDirectory,
    TellCleaning,
    WatchedDriver,
    application_id,
    driver_name,
)
from podtide.domain.shuffle_service.cleaner import CleanerState, advance, begin, cleaning, due

DRIVERS: Final = f"{ROLE_LABEL}=driver,{APP_LABEL}"
LOOK_S: Final = 0.5
"""Seconds after which a refusal, or the end, is noticed."""


class CleaningFigures(NamedTuple):
    """What a cleaner did since it began, and how it stands. ``on``: files can go."""

    on: bool = False
    applications: int = 0
    removed: Mapping[CleaningCause, int] = {}
    kept: int = 0
    unanswered: int = 0


class DirectoryCleaner:
    """One node's cleaner. ``run`` in one thread; ``figures`` from any."""

    def __init__(
        self, api: ApiClient, directories: ApplicationDirectories, config: CleanerConfig, clock: Clock, notify: Notify
    ) -> None:
        self._directories, self._config, self._clock, self._notify = directories, config, clock, notify
        self._pods = ApplicationPods(api, config.namespaces, clock, notify)
        self._messages: queue.SimpleQueue[tuple[str, WatchStimulus]] = queue.SimpleQueue()
        complaints = Complaints(clock, notify)
        self._sensors = {
            namespace: PodSensor(
                api, namespace, DRIVERS, self._hear(namespace), clock, notify, SensorSettings(), random.random,
                complaints=complaints, pods=f"driver pods of {namespace}",
            )
            for namespace in sorted(config.namespaces)
        }  # fmt: skip
        self._refused: dict[str, str | None] = dict.fromkeys(self._sensors)
        self._now = clock.now()
        self._state: CleanerState = begin(self._now)
        self._ending = False
        self.figures = CleaningFigures()

    def _hear(self, namespace: str) -> Callable[[WatchStimulus], None]:
        def hear(stimulus: WatchStimulus) -> None:
            self._messages.put((namespace, stimulus))

        return hear

    def run(self) -> None:
        """Watch and clean, until ``end`` or an exception of the caller's thread."""
        self._start()
        try:
            while not self._ending:
                self._take_in(LOOK_S)
        finally:
            self._stop()

    def run_once(self, within_s: float) -> bool:
        """Look once at everything; False where the API server did not say what is alive in that time."""
        self._start()
        deadline = self._clock.monotonic() + within_s
        try:
            while not cleaning(self._state, self._config):
                if any(self._refused.values()) or self._clock.monotonic() >= deadline:
                    return False
                self._take_in(LOOK_S)
            return not self.figures.unanswered
        finally:
            self._stop()

    def end(self) -> None:
        """End ``run`` soon, from any thread."""
        self._ending = True

    def _start(self) -> None:
        for sensor in self._sensors.values():
            sensor.start()

    def _stop(self) -> None:
        self._pods.end()
        for sensor in self._sensors.values():
            sensor.stop(0.0)

    # what is heard

    def _take_in(self, wait_s: float) -> None:
        """Wait until something is heard or due, and take it in."""
        wait_s = min(wait_s, max(0.0, (due(self._state, self._config) - self._clock.now()) / 1000.0))
        try:
            message = self._messages.get(timeout=wait_s) if wait_s else self._messages.get_nowait()
        except queue.Empty:
            pass
        else:
            self._take_pods(*message)
        for namespace, sensor in self._sensors.items():
            failure = sensor.failure
            why = None if failure is None else failure.message
            if (why is None) is not (self._refused[namespace] is None):
                self._refused[namespace] = why
                self._take(DriversHidden(namespace, why))
        if self._clock.now() >= due(self._state, self._config):
            self._take(CleanerTick())

    def _take_pods(self, namespace: str, stimulus: WatchStimulus) -> None:
        if isinstance(stimulus, PodsReplaced):
            shown = (_watched(pod) for pod in stimulus.pods)
            self._take(DriversListed(namespace, tuple(one for one in shown if one is not None)))
        elif isinstance(stimulus, PodsUpdated):
            for pod in stimulus.pods:
                watched = _watched(pod)
                if watched is not None:
                    gone = pod.phase is None and pod.deleted_at is not None  # as_deleted
                    self._take(DriverVanished(watched.app, watched.driver) if gone else DriverShown(watched))

    def _take(self, stimulus: CleanerStimulus) -> None:
        self._now = max(self._now, self._clock.now())
        step = advance(self._state, stimulus, self._config, self._now)
        self._state = step.state
        self.figures = self.figures._replace(
            on=cleaning(step.state, self._config), applications=len(step.state.directories)
        )
        for command in step.commands:
            self._carry_out(command)

    # what is done

    def _carry_out(self, command: CleanerCommand) -> None:
        match command:
            case FindDirectories():
                self._take(self._found())
            case RememberDriver(app, driver):
                self._directories.remember(app, driver)
            case FindApplication():
                answer = self._pods.find(command, self._directories.modified_at)
                if isinstance(answer, ApplicationUnknown):
                    self.figures = self.figures._replace(unanswered=self.figures.unanswered + 1)
                self._take(answer)
            case RemoveDirectory(app, why, _):
                self._take(self._removed(app, why))
            case TellCleaning(on, why):
                text = "cleaning is on" if on else f"cleaning is off, no files are removed: {why}"
                self._say(Level.INFO if on else Level.WARNING, text)
            case _:
                assert_never(command)
        for problem in self._directories.problems:
            self._say(Level.ERROR, problem)
        self._directories.problems.clear()

    def _found(self) -> DirectoriesFound:
        try:
            return self._directories.find()
        except OSError as problem:
            self._say(Level.ERROR, f"the directories cannot be read: {cause(problem)}")
            return DirectoriesFound(tuple(self._state.directories.items()))

    def _removed(self, app: ApplicationId, why: CleaningCause) -> DirectoryRemoved | DirectoryKept:
        try:
            self._directories.remove(app)
        except OSError as problem:
            self.figures = self.figures._replace(kept=self.figures.kept + 1)
            self._say(Level.ERROR, f"{app} cannot be removed: {cause(problem)}")
            return DirectoryKept(app)
        removed = dict(self.figures.removed)
        removed[why] = removed.get(why, 0) + 1
        self.figures = self.figures._replace(removed=removed)
        self._say(Level.INFO, f"{app} is removed: {why.value}")
        return DirectoryRemoved(app)

    def _say(self, level: Level, text: str) -> None:
        self._notify(Notice(self._clock.now(), level, Topic.CLEANED_UP, text))


def _watched(pod: PodManifest) -> WatchedDriver | None:
    """A driver; None for a pod that can be none of an application with a directory."""
    app = application_id(pod.labels.get(APP_LABEL, ""))
    driver = driver_name(pod.namespace, pod.name, pod.uid)
    return None if app is None or driver is None else WatchedDriver(app, driver, pod.phase in ENDED)
