"""What a submitter pushes: files in a flat archive, under names that are safe in paths, lists of a conf and shells.

A name is the file's own. Two files of one name are refused: on the class path one of them would win (the fork renamed one,
and then told the wrong path). So are folders, and names with other signs than letters, digits and ``. _ + -``.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISREG
from typing import IO, Final, NamedTuple

from podtide.adapters.text.safe import cause, escaped

FILES_MAX: Final = 1_000
PIECE: Final = 1024 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")


class FilesRefused(Exception):
    """Files that cannot be pushed; ``errors`` has a line for each."""

    def __init__(self, *errors: str) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


class StagedFile(NamedTuple):
    """A file to push."""

    name: str
    path: Path
    size: int


class BundleArchive(NamedTuple):
    """An archive that was written. ``size``: its bytes; ``unpacked``: those of its files. ``sha256``: hexadecimal."""

    size: int
    sha256: str
    unpacked: int


def staged_files(paths: Sequence[Path]) -> tuple[StagedFile, ...]:
    """The files, checked. Raises FilesRefused."""
    files: dict[str, StagedFile] = {}
    errors: list[str] = []
    for path in paths:
        shown = escaped(str(path))
        try:
            status = path.stat()
        except (OSError, ValueError) as problem:
            errors.append(f"{shown} cannot be read: {cause(problem)}")
            continue
        name = path.name
        if not S_ISREG(status.st_mode):
            errors.append(f"{shown} is no file")
        elif _NAME.fullmatch(name) is None:
            errors.append(f"{shown}: its name has to have letters, digits, '.', '_', '+' and '-' alone; rename it")
        elif name in files:
            errors.append(f"{shown} and {escaped(str(files[name].path))} have the same name; rename one")
        else:
            files[name] = StagedFile(name, path, status.st_size)
    if not paths:
        errors.append("there is no file to push")
    elif len(paths) > FILES_MAX:
        errors.append(f"{len(paths)} files are too many: {FILES_MAX} at most")
    if errors:
        raise FilesRefused(*errors)
    return tuple(files.values())


def write_archive(files: Sequence[StagedFile], out: IO[bytes]) -> BundleArchive:
    """Write the archive; the same files make the same bytes. Raises FilesRefused, and OSError of ``out``."""
    with (
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=out, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for staged in files:
            entry = tarfile.TarInfo(staged.name)
            entry.size = staged.size
            try:
                with staged.path.open("rb") as file:
                    entry.mode = 0o755 if staged.path.stat().st_mode & 0o100 else 0o644
                    archive.addfile(entry, file)
            except OSError as problem:
                raise FilesRefused(f"{escaped(str(staged.path))} cannot be packed: {cause(problem)}") from None
    size = out.tell()
    out.seek(0)
    digest = hashlib.sha256()
    while piece := out.read(PIECE):
        digest.update(piece)
    out.seek(0)
    return BundleArchive(size, digest.hexdigest(), sum(staged.size for staged in files))
