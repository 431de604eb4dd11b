"""When the shuffle files of an application go from a node.

Spark's shuffle service hears only in a standalone Worker that an application ended (ExternalShuffleService 4.3.0,
applicationRemoved). Here the driver's pod says so. For a directory of an application, in this order:

- its driver pod is alive: it stays;
- its driver pod ended and is kept, or was seen and is gone: it goes after ``ended_ms``;
- no driver pod was ever seen, as in client mode: it goes when nothing in it changed for ``orphan_ms``.

The watch only says when to look. *Nothing goes on its word*: a watch can lose events, be filtered by a label that changed,
or begin anew after a restart. So right before a removal the API server itself is asked (``FindApplication``), and one
living pod of the application keeps its files. Without an answer they stay. Before the first list of every namespace has
come, and while one is refused, nothing is asked at all: cleaning is off, which is told once.

Which pod the driver is is remembered in the directory, so a driver that ends while the cleaner is away is missed afterwards.

Costs: a step one pass over the directories of the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from pyrsistent import PMap, PSet, pmap, pset

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.shuffle_service.applications import (
    ApplicationDirectory,
    ApplicationFound,
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
    DriverName,
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
)


class CleaningMark(NamedTuple):
    """Why a directory may go, since when that holds, and when to ask."""

    cause: CleaningCause
    since: Millis
    ask_at: Millis


@dataclass(frozen=True)
class CleanerState:
    """Everything that is known. ``directories``: those here, with the drivers that are remembered. ``drivers``: as watched.

    ``asking``, ``removing``: those with a question or a removal under way. ``shown``: namespaces that were listed;
    ``hidden``: those that are refused, and why. ``last_notice``: whether the last notice to people was that cleaning is on.
    """

    directories: PMap[ApplicationId, ApplicationDirectory]
    drivers: PMap[ApplicationId, WatchedDriver]
    marks: PMap[ApplicationId, CleaningMark]
    asking: PSet[ApplicationId]
    removing: PSet[ApplicationId]
    shown: PSet[str]
    hidden: PMap[str, str]
    last_notice: bool | None
    scanning: bool
    scan_at: Millis


class CleanerStep(NamedTuple):
    """The new state, and what to do, in this order."""

    state: CleanerState
    commands: tuple[CleanerCommand, ...] = ()


def begin(now: Millis) -> CleanerState:
    """A cleaner that starts."""
    return CleanerState(pmap(), pmap(), pmap(), pset(), pset(), pset(), pmap(), None, scanning=False, scan_at=now)


def cleaning(state: CleanerState, config: CleanerConfig) -> bool:
    """Whether files can go at all: the drivers of every namespace are known."""
    return not state.hidden and config.namespaces <= state.shown


def due(state: CleanerState, config: CleanerConfig) -> Millis:
    """When the next ``CleanerTick`` could change anything."""
    scan = NEVER if state.scanning else state.scan_at
    if not cleaning(state, config):
        return scan
    return min([scan, *(mark.ask_at for app, mark in state.marks.items() if app not in state.asking)])


def advance(state: CleanerState, stimulus: CleanerStimulus, config: CleanerConfig, now: Millis) -> CleanerStep:
    """Take a stimulus in, then see what is to do."""
    match stimulus:
        case ApplicationFound():
            return _judged(state, stimulus, config, now)
        case ApplicationUnknown(app):
            return CleanerStep(_later(state, app, config, now))
        case DirectoryRemoved(app):
            return CleanerStep(_without(state, app))
        case DirectoryKept(app):
            return CleanerStep(replace(state, removing=state.removing.discard(app)))
        case DirectoriesFound(directories):
            found = pmap({app: _with_driver(one, state.directories.get(app)) for app, one in directories})
            state = replace(state, directories=found, scanning=False, scan_at=now + config.scan_ms)
        case DriversListed(namespace, drivers):
            state = _listed(state, namespace, drivers)
        case DriverShown(driver):
            state = replace(state, drivers=state.drivers.set(driver.app, driver))
        case DriverVanished(app, name):
            if app in state.drivers and state.drivers[app].driver == name:
                state = replace(state, drivers=state.drivers.remove(app))
        case DriversHidden(namespace, why):
            hidden = state.hidden.discard(namespace) if why is None else state.hidden.set(namespace, why)
            state = replace(state, hidden=hidden)
        case CleanerTick():
            pass
        case _:
            assert_never(stimulus)
    return _looked(state, config, now)


def _with_driver(found: ApplicationDirectory, before: ApplicationDirectory | None) -> ApplicationDirectory:
    """A directory with the driver that is known, even if it could not be written down."""
    return found if before is None or found.driver is not None else found._replace(driver=before.driver)


def _listed(state: CleanerState, namespace: str, drivers: tuple[WatchedDriver, ...]) -> CleanerState:
    """A list is all there is: other drivers of its namespace are gone."""
    kept = {app: one for app, one in state.drivers.items() if one.driver.namespace != namespace}
    return replace(
        state,
        drivers=pmap(kept | {one.app: one for one in drivers}),
        shown=state.shown.add(namespace),
    )


def _looked(state: CleanerState, config: CleanerConfig, now: Millis) -> CleanerStep:
    """Everything that follows from what is known now."""
    commands: list[CleanerCommand] = []
    if not state.scanning and now >= state.scan_at:
        state = replace(state, scanning=True)
        commands.append(FindDirectories())
    directories = state.directories.evolver()
    for app, driver in _new_drivers(state):
        commands.append(RememberDriver(app, driver))
        directories[app] = state.directories[app]._replace(driver=driver)
    state = _marked(replace(state, directories=directories.persistent()), config, now)
    on = cleaning(state, config)
    if on is not state.last_notice and (on or state.hidden):
        commands.append(TellCleaning(on, next(iter(sorted(state.hidden.values())), "")))
        state = replace(state, last_notice=on)
    if not on:
        return CleanerStep(state, tuple(commands))
    apps = [app for app, mark in state.marks.items() if app not in state.asking and now >= mark.ask_at]
    commands.extend(FindApplication(app, state.directories[app].driver) for app in sorted(apps))
    return CleanerStep(replace(state, asking=state.asking.update(apps)), tuple(commands))


def _new_drivers(state: CleanerState) -> Iterator[tuple[ApplicationId, DriverName]]:
    """Drivers of applications with a directory here that are not remembered yet, or that run in another pod now."""
    for app, directory in sorted(state.directories.items()):
        watched = state.drivers.get(app)
        if watched is not None and directory.driver != watched.driver:
            yield app, watched.driver


def _marked(state: CleanerState, config: CleanerConfig, now: Millis) -> CleanerState:
    """The marks, as the directories and drivers are now. One whose cause stays keeps its time."""
    marks: dict[ApplicationId, CleaningMark] = {}
    for app, directory in state.directories.items():
        if app in state.removing:
            continue
        mark = _mark(directory, state.drivers.get(app), config, now)
        if mark is not None:
            before = state.marks.get(app)
            marks[app] = before if before is not None and before.cause is mark.cause else mark
    return replace(state, marks=pmap(marks))


def _mark(
    directory: ApplicationDirectory, watched: WatchedDriver | None, config: CleanerConfig, now: Millis
) -> CleaningMark | None:
    """Why a directory may go; None: there is no reason."""
    if watched is not None:
        return CleaningMark(CleaningCause.DRIVER_ENDED, now, now + config.ended_ms) if watched.ended else None
    if directory.driver is not None:
        return CleaningMark(CleaningCause.DRIVER_GONE, now, now + config.ended_ms)
    if config.orphan_ms <= 0:
        return None
    return CleaningMark(CleaningCause.NO_DRIVER, directory.modified_at, directory.modified_at + config.orphan_ms)


def _judged(state: CleanerState, found: ApplicationFound, config: CleanerConfig, now: Millis) -> CleanerStep:
    """The API server has said what is alive: the last word."""
    app, mark = found.app, state.marks.get(found.app)
    state = replace(state, asking=state.asking.discard(app))
    if mark is None:
        return CleanerStep(state)  # the driver came back meanwhile
    fresh = mark.cause is CleaningCause.NO_DRIVER and now < found.modified_at + config.orphan_ms
    if found.alive or fresh:
        wait_ms = max(config.ended_ms, config.scan_ms)
        ask_at = found.modified_at + config.orphan_ms if fresh else now + wait_ms
        return CleanerStep(replace(state, marks=state.marks.set(app, mark._replace(ask_at=ask_at))))
    removing = replace(state, marks=state.marks.remove(app), removing=state.removing.add(app))
    return CleanerStep(removing, (RemoveDirectory(app, mark.cause, mark.since),))


def _later(state: CleanerState, app: ApplicationId, config: CleanerConfig, now: Millis) -> CleanerState:
    """Ask again after a while: nobody knows, or the disk refused."""
    mark = state.marks.get(app)
    state = replace(state, asking=state.asking.discard(app))
    if mark is None:
        return state
    return replace(state, marks=state.marks.set(app, mark._replace(ask_at=now + config.scan_ms)))


def _without(state: CleanerState, app: ApplicationId) -> CleanerState:
    return replace(
        state,
        directories=state.directories.discard(app),
        removing=state.removing.discard(app),
    )
