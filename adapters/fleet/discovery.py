"""Finding the logs of a fleet: what a path, a folder, a pattern or a list of paths means, as a stream.

- a file is a log; a ZIP is every log in it;
- a folder that holds ``events_<n>_<application>`` is one rolled log, whatever its name; the parts of a log that Databricks
  delivered (``bytes.rolled``) are one log, named by their folder; who gives one of the parts means the whole. Every other
  folder is a tree of logs: its files and, at any depth, its folders' (links to folders are not followed). Hidden files,
  checksums and the status files of rolled logs are passed over by their names and counted. Of the other files it is unknown
  before they are opened whether they are logs; that is the worker's business, and what then is none is skipped and counted;
- a pattern with ``*``, ``?``, ``[...]`` or ``**`` (folders at any depth) is what it matches, as found in a folder;
- a URL is the same in a remote store (patterns excepted for http, where ``?`` begins a query and nothing can be listed).

What is given by name is taken for a log: if it is none, its row says that it cannot be read. A folder within
a tree that cannot be listed is a row too: nothing of what was asked for is left out in silence.

Logs come in no order: the journal sorts them. Only the folders on the way down are held in memory.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import BinaryIO, Final, NamedTuple

from podtide.adapters.eventlog.bytes.codecs import HEAD_BYTES
from podtide.adapters.eventlog.bytes.errors import LogError, LogMissing, LogNotFound, LogUndecodable, LogUnreadable
from podtide.adapters.eventlog.bytes.lines import Chunk
from podtide.adapters.eventlog.bytes.rolled import (
    IN_PROGRESS,
    ROLLED_PREFIX,
    STATUS_PREFIX,
    hidden,
    is_current_name,
    is_dated_name,
    is_events_name,
    is_part_name,
)
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.eventlog.bytes.store import is_url
from podtide.adapters.fleet.listing import Item, Listing, listing_of
from podtide.adapters.fleet.rows import Stamp, stamp_of_all

DEPTH_MAX: Final = 64
"""Folders within folders that are walked."""

LINE_MAX: Final = 32 * 1024
"""Bytes of one path in a list; file systems and stores allow far less."""

AHEAD: Final = 32
"""Remote paths of a list that are asked about at the same time: a store answers in tens of milliseconds."""

_MAGIC: Final = re.compile(r"[*?\[]")
_MEMBER: Final = re.compile(r"(.+?\.zip)!.+", re.IGNORECASE | re.DOTALL)


class FoundLog(NamedTuple):
    """A log, or what may be one. ``named``: the user names it as one. ``problem``: why it need not be tried.
    ``in_progress``: Spark says by a name that it writes it still."""

    place: str
    stamp: Stamp
    named: bool
    problem: str | None = None
    in_progress: bool = False


class ListError(Exception):
    """A list of paths cannot be used; the message is one printable line that names the line."""


class Finder:
    """Finds logs and counts what it passed over by name (``passed_over``) and the links it did not follow (``links``).

    ``allowed``: whether a path of this machine may be read; of others nothing is read. None: all may.
    """

    def __init__(self, allowed: Callable[[str], bool] | None = None) -> None:
        self._allowed = allowed
        self.passed_over = 0
        self.links = 0
        self._asked = ""  # the folder that was last asked for what its parts are a part of, and the answer
        self._whole: FoundLog | None = None

    def argument(self, given: str) -> Iterator[FoundLog]:
        """Everything that a path, a folder, a pattern or a URL means. Raises ``LogError`` if it means nothing at all."""
        yield from self._meant(given, None)

    def listed(self, lines: Iterable[str]) -> Iterator[FoundLog]:
        """The same for every line of a list; what is not there is a log with a problem."""
        waiting: deque[tuple[str, Future[Item] | None]] = deque()
        with ThreadPoolExecutor(AHEAD, "podtide-look") as threads:
            for line in lines:
                waiting.append((line, threads.submit(_looked, line) if is_url(line) else None))
                if len(waiting) >= AHEAD:
                    yield from self._line(*waiting.popleft())
            while waiting:
                yield from self._line(*waiting.popleft())

    def _line(self, line: str, looked: Future[Item] | None) -> Iterator[FoundLog]:
        try:
            yield from self._meant(line, looked)
        except LogError as problem:
            yield FoundLog(line, Stamp(), True, problem.why)

    def _meant(self, given: str, looked: Future[Item] | None) -> Iterator[FoundLog]:
        if not given:
            raise LogMissing("''", "the path is empty; a file, a folder, a pattern or a URL was expected")
        listing, path = listing_of(given)
        try:
            item = looked.result() if looked is not None else listing.item(path)
        except LogMissing:
            if member := _MEMBER.fullmatch(given):
                inside, zipped = listing_of(member[1])
                yield FoundLog(given, inside.item(zipped).stamp, True)
                return
            if not _MAGIC.search(path) or _is_web(given):
                raise
            anything = False
            for found in self._matching(listing, path, local=not is_url(given)):
                anything = True
                yield found
            if not anything:
                raise LogNotFound(given, "nothing matches this pattern") from None
            return
        if item.folder:
            yield from self._folder(listing, path, 0)
        else:
            yield from self._given(listing, item, True, given)

    def _given(self, listing: Listing, item: Item, named: bool, shown: str | None = None) -> Iterator[FoundLog]:
        """A file that was named or that a pattern matches: the log that it is a part of, or itself."""
        folder = item.path.rpartition("/")[0] or ("/" if item.path.startswith("/") else ".")
        place = listing.show(item.path)
        if not item.regular or not (is_part_name(item.name) or is_current_name(item.name)) or _is_web(place):
            yield from self._file(listing, item, named, shown)
            return
        if self._asked != (key := listing.show(folder)):
            self._asked, self._whole = key, _whole(listing, folder)
        if self._whole is None:
            yield from self._file(listing, item, named, shown)
        else:
            yield self._whole

    def _file(self, listing: Listing, item: Item, named: bool, shown: str | None = None) -> Iterator[FoundLog]:
        place = listing.show(item.path) if shown is None else shown
        if self._allowed is not None and not is_url(place) and not self._allowed(item.path):
            self.links += 1
            return
        if not item.regular:
            # A pipe can be read once and by this process only; the work is done by others, and perhaps again.
            yield FoundLog(place, item.stamp, True, "is no regular file; a file, a folder or a URL was expected")
            return
        if not named and (hidden(item.name) or item.name.startswith(STATUS_PREFIX)):
            self.passed_over += 1
            return
        if not item.name.lower().endswith(".zip"):
            yield FoundLog(place, item.stamp, named, in_progress=item.name.endswith(IN_PROGRESS))
            return
        try:
            members = listing.logs_in_zip(item.path)
        except LogError as problem:
            yield FoundLog(place, item.stamp, True, problem.why)
            return
        if len(members) < 2:
            yield FoundLog(place, item.stamp, named)
        else:
            for member in members:
                yield FoundLog(f"{place}!{member}", item.stamp, False)

    def _folder(self, listing: Listing, path: str, depth: int) -> Iterator[FoundLog]:
        place = listing.show(path)
        try:
            if depth > DEPTH_MAX:
                raise LogUnreadable(place, f"lies more than {DEPTH_MAX} folders deep")
            items = listing.items(path)
            if path.rstrip("/").rpartition("/")[2].startswith(ROLLED_PREFIX) or any(map(_is_events, items)):
                parts = _rolled(items)
                yield FoundLog(place, stamp_of_all(parts), True, in_progress=_is_written(parts))
                return
            if parts := _delivered(items):
                yield FoundLog(place, stamp_of_all(parts), True)
            for item in items:
                if item.folder:
                    if hidden(item.name):
                        self.passed_over += 1
                    else:
                        yield from self._folder(listing, item.path, depth + 1)
                elif item.name in parts:
                    continue
                elif item.regular:
                    yield from self._file(listing, item, False)
                else:
                    self.links += 1
        except LogError as problem:
            if depth == 0:
                raise
            yield FoundLog(place, Stamp(), True, problem.why)

    def _matching(self, listing: Listing, pattern: str, *, local: bool) -> Iterator[FoundLog]:
        parts = pattern.split("/")
        first = next(at for at, part in enumerate(parts) if _MAGIC.search(part))
        base = "/".join(parts[:first]) or ("/" if pattern.startswith("/") else "." if local else "")
        yield from self._below(listing, base, [part for part in parts[first:] if part], 0)

    def _below(self, listing: Listing, folder: str, parts: list[str], depth: int) -> Iterator[FoundLog]:
        if not parts:
            yield from self._folder(listing, folder, depth + 1)
            return
        if depth > DEPTH_MAX:
            yield FoundLog(listing.show(folder), Stamp(), True, f"lies more than {DEPTH_MAX} folders deep")
            return
        part, rest = parts[0], parts[1:]
        whole: FoundLog | None = None  # many parts, one log
        if part == "**" and not rest:
            yield from self._folder(listing, folder, depth + 1)
            return
        if part == "**":
            yield from self._below(listing, folder, rest, depth)
        try:
            for item in listing.items(folder):
                path = listing.join(folder, item.name)
                if part == "**":
                    if item.folder and not hidden(item.name):
                        yield from self._below(listing, path, parts, depth + 1)
                elif not _matches(item.name, part):
                    continue
                elif item.folder:
                    yield from self._below(listing, path, rest, depth + 1)
                elif not rest:
                    for one in self._given(listing, item._replace(path=path), False):
                        if one is not whole:
                            yield one
                        if one is self._whole:
                            whole = one
        except LogMissing:
            return  # what a pattern does not find is no fault of the place
        except LogError as problem:
            yield FoundLog(listing.show(folder), Stamp(), True, problem.why)


def _delivered(items: Iterable[Item]) -> dict[str, Stamp]:
    """The parts among these of a log that Databricks delivered, by name; none where none of them has a date."""
    files = (item for item in items if item.regular and not item.folder)
    parts = {item.name: item.stamp for item in files if is_dated_name(item.name) or is_current_name(item.name)}
    return parts if any(is_dated_name(name) for name in parts) else {}


def _whole(listing: Listing, folder: str) -> FoundLog | None:
    """The log of several files that lies in a folder, or None: there is none, or the folder cannot be listed."""
    try:
        items = listing.items(folder)
        parts = _rolled(items) if any(_is_events(item) for item in items) else _delivered(items)
    except LogError:
        return None
    whole = FoundLog(listing.show(folder), stamp_of_all(parts), True, in_progress=_is_written(parts))
    return whole if parts else None


def _rolled(items: Iterable[Item]) -> dict[str, Stamp]:
    """The files of the one rolled log that a folder is, by name."""
    return {item.name: item.stamp for item in items if not item.folder and not hidden(item.name)}


def _is_written(parts: Iterable[str]) -> bool:
    """Whether the status file of a rolled log says that it is written still."""
    status = [name for name in parts if name.startswith(STATUS_PREFIX)]
    return bool(status) and all(name.endswith(IN_PROGRESS) for name in status)


def _is_events(item: Item) -> bool:
    return is_events_name(item.name) and item.regular and not item.folder


def paths_in(stream: BinaryIO, name: str) -> Iterator[str]:
    """The paths of a list, one a line; blank lines are left out. Raises ``ListError``."""
    number = 0
    try:
        while line := stream.readline(LINE_MAX + 1):
            number += 1
            if len(line) > LINE_MAX:
                raise ListError(f"{name}:{number}: a path of at most {LINE_MAX:,} bytes was expected")
            if path := line.decode("utf-8", "surrogateescape").strip("\r\n"):
                yield path
    except OSError as problem:
        raise ListError(f"{name}:{number + 1}: cannot be read: {problem.strerror or problem}") from None


def begins_like_log(place: str) -> bool:
    """Whether what lies at ``place`` begins, decoded, with an object that speaks of an event. Raises ``LogError``.

    What is foreign (an image, a table, a folder's ZIP without logs) is none; what cannot be read raises.
    """
    try:
        with open_log(place) as source:
            for piece in source.pieces(chunk_bytes=HEAD_BYTES):
                if isinstance(piece, Chunk):
                    text = bytes(piece.data).lstrip()
                    return text.startswith(b"{") and b'"Event"' in text
    except (LogUndecodable, LogNotFound):
        return False
    return True


def _is_web(place: str) -> bool:
    return place.lower().startswith(("http://", "https://"))


def _looked(place: str) -> Item:
    listing, path = listing_of(place)
    return listing.item(path)


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (not name.startswith(".") or pattern.startswith("."))
