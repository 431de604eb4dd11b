"""Directories of applications on a node: ``ROOT/ID``, where executors wrote, Spark's own directories inside.

Executors of many applications write below the roots, so nothing there is believed. A directory counts if its name is an
application's id and it is a directory itself, no link. No link is followed and nothing is deleted by its path: everything
goes through open directories. A removal first renames the directory to a hidden name, so an application that begins anew
under the same id loses nothing, then deletes it; what cannot be deleted then is tried again with every look.

``.podtide-driver`` in a directory remembers its driver pod: namespace, name and uid, each on a line.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from podtide.adapters.text.safe import cause, escaped
from podtide.domain.base.units import Millis
from podtide.domain.shuffle_service.applications import (
    ApplicationDirectory,
    ApplicationId,
    DirectoriesFound,
    DriverName,
    application_id,
    driver_name,
)

MEMORY: Final = ".podtide-driver"
REMOVING: Final = ".podtide-removing-"
MEMORY_MAX: Final = 1_000
LEVELS: Final = 2
"""Directories below an application's own: blockmgr-UUID, and the 64 in it that files are in (DiskBlockManager)."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MS: Final = 1_000_000


class RootUnusable(Exception):
    """A root is no directory, or cannot be read; says so in one line."""


class ApplicationDirectories:
    """The directories below some roots. Everything here blocks; nothing here decides."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Raises RootUnusable."""
        self._roots = tuple(roots)
        self.problems: list[str] = []
        """What could not be read, written or deleted since they were last taken, for people."""
        for root in roots:
            if not root.is_absolute() or root == Path(root.anchor):
                raise RootUnusable(
                    f"{escaped(str(root))}: expected an absolute path of a directory, not the root of all"
                )
            try:
                with _opened(root) as folder:
                    _names(folder)
            except OSError as problem:
                raise RootUnusable(f"{escaped(str(root))} cannot be read: {cause(problem)}") from None

    def find(self) -> DirectoriesFound:
        """The applications that have a directory. Deletes what a removal left behind. Raises OSError."""
        directories: dict[ApplicationId, ApplicationDirectory] = {}
        for root in self._roots:
            with _opened(root) as folder:
                for name in _names(folder):
                    if name.startswith(REMOVING):
                        self._delete(folder, name)
                    elif (app := application_id(name)) is not None:
                        one = self._directory(folder, app)
                        if one is not None:
                            directories[app] = _joined(directories.get(app), one)
        return DirectoriesFound(tuple(directories.items()))

    def modified_at(self, app: ApplicationId) -> Millis:
        """When the files of an application last changed, down to the directories that they are in; 0: there are none."""
        latest_ns = 0
        for root in self._roots:
            try:
                with _opened(root) as folder, _opened(app, folder) as own:
                    depths = {".": 0}
                    for path, names, _, directory in os.fwalk(".", dir_fd=own):
                        latest_ns = max(latest_ns, os.fstat(directory).st_mtime_ns)
                        depth = depths.pop(path)
                        names[:] = names if depth < LEVELS else []
                        depths |= {os.path.join(path, name): depth + 1 for name in names}  # noqa: PTH118 - as fwalk has it
            except OSError:  # it is not below this root
                continue
        return latest_ns // _MS

    def remember(self, app: ApplicationId, driver: DriverName) -> None:
        """Write down which pod the driver of an application is; where that fails, only a restart forgets it."""
        text = "".join(f"{part}\n" for part in driver).encode("ascii")
        for root in self._roots:
            try:
                with _opened(root) as folder, _opened(app, folder) as own:
                    aside = os.open(
                        f"{MEMORY}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644, dir_fd=own
                    )
                    with os.fdopen(aside, "wb") as file:
                        file.write(text)
                    os.rename(f"{MEMORY}.new", MEMORY, src_dir_fd=own, dst_dir_fd=own)
            except FileNotFoundError:
                continue  # it is below another root
            except OSError as problem:
                self.problems.append(f"the driver of {app} cannot be written down in {root}: {cause(problem)}")

    def remove(self, app: ApplicationId) -> None:
        """Delete the files of an application below every root. Raises OSError: they are still there."""
        for root in self._roots:
            with _opened(root) as folder:
                hidden = f"{REMOVING}{app}-{os.urandom(8).hex()}"
                try:
                    os.rename(app, hidden, src_dir_fd=folder, dst_dir_fd=folder)
                except FileNotFoundError:
                    continue
                self._delete(folder, hidden)

    def _delete(self, folder: int, name: str) -> None:
        """Delete a tree, or a link itself."""
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as problem:
            self.problems.append(f"{escaped(name)} cannot be deleted: {cause(problem)}")

    def _directory(self, folder: int, app: ApplicationId) -> ApplicationDirectory | None:
        try:
            with _opened(app, folder) as own:
                return ApplicationDirectory(os.fstat(own).st_mtime_ns // _MS, _remembered(own))
        except NotADirectoryError:  # a file or a link
            return None
        except OSError as problem:
            self.problems.append(f"{app} cannot be read: {cause(problem)}")
            return None


@contextmanager
def _opened(path: Path | str, folder: int | None = None) -> Iterator[int]:
    """An open directory; one in a folder is no link. Raises OSError."""
    opened = os.open(path, _FOLDER if folder is None else _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    try:
        yield opened
    finally:
        os.close(opened)


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _remembered(own: int) -> DriverName | None:
    try:
        opened = os.open(MEMORY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=own)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        parts = file.read(MEMORY_MAX).decode("ascii", "replace").splitlines()
    return driver_name(*parts) if len(parts) == len(DriverName._fields) else None


def _joined(one: ApplicationDirectory | None, other: ApplicationDirectory) -> ApplicationDirectory:
    """An application below several roots."""
    if one is None:
        return other
    return ApplicationDirectory(max(one.modified_at, other.modified_at), one.driver or other.driver)
