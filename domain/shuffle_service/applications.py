"""What the cleaner of a node hears and has to do, as values.

An application's *directory* carries its id as its name, under a root that executors and the shuffle service share. Its
*driver* is a pod with the labels spark-role=driver and spark-app-selector. Ids and names of pods are checked here, so that
nothing that came from outside becomes a path or a selector unchecked: they are what Kubernetes allows in a label and a name.

Times are epoch milliseconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, NewType, TypeAlias

from podtide.domain.base.units import Millis

ApplicationId = NewType("ApplicationId", str)
"""A Spark application's id that can stand in a label: 63 letters, digits, -, _ and . at most, the ends no signs."""

_ID: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_POD_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_UID: Final = re.compile(r"[-A-Za-z0-9]{1,64}")


def application_id(text: str) -> ApplicationId | None:
    """The id, or None where it is none that a label can hold."""
    return ApplicationId(text) if _ID.fullmatch(text) is not None else None


class DriverName(NamedTuple):
    """Which pod a driver runs in. A pod of the same name with another uid is another one."""

    namespace: str
    name: str
    uid: str


def driver_name(namespace: str, name: str, uid: str) -> DriverName | None:
    """The pod, or None where Kubernetes could have no such pod."""
    texts = ((_POD_NAME, namespace), (_POD_NAME, name), (_UID, uid))
    fit = all(pattern.fullmatch(text) is not None for pattern, text in texts)
    return DriverName(namespace, name, uid) if fit else None


class WatchedDriver(NamedTuple):
    """A driver's pod as the watch shows it. ``ended``: its phase is Succeeded or Failed."""

    app: ApplicationId
    driver: DriverName
    ended: bool


@dataclass(frozen=True)
class CleanerConfig:
    """``namespaces``: whose driver pods are watched. ``scan_ms``: from one look at the directories to the next.

    ``ended_ms``: how long files stay when the driver has ended or is gone. ``orphan_ms``: how long those stay, since they
    last changed, that no driver pod is known of: in client mode the driver has none. 0: for ever.
    """

    namespaces: frozenset[str]
    scan_ms: Millis = 30_000
    ended_ms: Millis = 60_000
    orphan_ms: Millis = 86_400_000


# stimuli


class ApplicationDirectory(NamedTuple):
    """The directory of an application. ``modified_at``: when an executor last came. ``driver``: as remembered there."""

    modified_at: Millis
    driver: DriverName | None = None


class DirectoriesFound(NamedTuple):
    """The applications that have a directory on this node; there are no others."""

    directories: tuple[tuple[ApplicationId, ApplicationDirectory], ...]


class DriversListed(NamedTuple):
    """All driver pods of a namespace at a moment; there are no others."""

    namespace: str
    drivers: tuple[WatchedDriver, ...]


class DriverShown(NamedTuple):
    """A driver pod is new, or different."""

    driver: WatchedDriver


class DriverVanished(NamedTuple):
    """The watch does not show a driver pod any more: it was deleted, or it lost a label (S9)."""

    app: ApplicationId
    driver: DriverName


class DriversHidden(NamedTuple):
    """The API server refuses to show the driver pods of a namespace. ``why``, for people; None: it does so no longer."""

    namespace: str
    why: str | None


class ApplicationFound(NamedTuple):
    """The answer to a ``FindApplication``: how many of its pods are alive, and when its files last changed."""

    app: ApplicationId
    alive: int
    modified_at: Millis


class ApplicationUnknown(NamedTuple):
    """The API server did not say."""

    app: ApplicationId


class DirectoryRemoved(NamedTuple):
    """It is gone from every root."""

    app: ApplicationId


class DirectoryKept(NamedTuple):
    """The disk refused a removal."""

    app: ApplicationId


class CleanerTick(NamedTuple):
    """Time went on."""


CleanerStimulus: TypeAlias = (
    DirectoriesFound
    | DriversListed
    | DriverShown
    | DriverVanished
    | DriversHidden
    | ApplicationFound
    | ApplicationUnknown
    | DirectoryRemoved
    | DirectoryKept
    | CleanerTick
)


# commands


class FindDirectories(NamedTuple):
    """Look which applications have a directory."""


class RememberDriver(NamedTuple):
    """Write into an application's directory which pod its driver is, for the time after a restart."""

    app: ApplicationId
    driver: DriverName


class FindApplication(NamedTuple):
    """Ask the API server itself, not a cache, which pods of the application are alive.

    Those that carry its id, and its driver by name, whatever labels that has now. ``driver`` None: none was ever seen.
    """

    app: ApplicationId
    driver: DriverName | None


class CleaningCause(Enum):
    """Why an application's files go."""

    DRIVER_ENDED = "its driver ended"
    DRIVER_GONE = "its driver is gone"
    NO_DRIVER = "no driver is known and nobody wrote to them"


class RemoveDirectory(NamedTuple):
    """Delete an application's directory, in every root. ``since``: since when the cause holds."""

    app: ApplicationId
    cause: CleaningCause
    since: Millis


class TellCleaning(NamedTuple):
    """Tell people that cleaning is ``on`` or off, and why it is off."""

    on: bool
    why: str


CleanerCommand: TypeAlias = FindDirectories | RememberDriver | FindApplication | RemoveDirectory | TellCleaning
