"""The history in one SQLite file: runs, the logs they came from, what is normal for an application, and events to deliver.

Each change is one transaction: a log with its run and its event; a judgement with the baseline that learned from it and
its event. After a ``kill -9`` between any two changes the next start continues: it keeps what was done and finds the rest
again. The file is in write-ahead mode, so that others (``podtide serve``) read while one writes;
who writes holds a lock on ``FILE.lock`` that goes with the process.

Tables: ``logs`` (the outcome for each place), ``runs``, ``baselines`` (by application name), ``events`` (kept for
ever), ``outbox`` (which event still has to go to which receiver). ``temp.todo`` holds the logs of one pass; memory follows
no count.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

import msgspec

from podtide.adapters.fleet.discovery import FoundLog
from podtide.adapters.fleet.rows import Stamp, place_bytes, place_text, row_bytes, row_of
from podtide.adapters.history.values import (
    EXIT_SINK,
    SCHEMA,
    EventKind,
    HistoryTotals,
    KeptRun,
    LogOutcome,
    RunKey,
    WatchedRun,
    WatchEvent,
)
from podtide.adapters.text.safe import cause, display
from podtide.domain.base.units import Millis
from podtide.domain.whatif.prices import Usage

try:
    import fcntl
except ImportError:  # not on Windows: nothing keeps two writers apart there
    fcntl = None  # type: ignore[assignment]

MAGIC: Final = 0x50544448  # "PTDH", the application_id of the file
VERSION: Final = 1

CACHE_KIB: Final = 16 * 1024
PAGE: Final = 200
"""Rows that are taken out at once."""

ACCOUNTS: Final = 50
"""Runs of an application whose accounts are kept: those that a baseline may be made of, with room to look back."""

BUSY_MS: Final = 30_000

SYNCHRONOUS = "FULL"
"""Each transaction is on the disk before the next step, against a loss of power."""

_SETUP: Final = f"""
PRAGMA application_id = {MAGIC};
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS logs (
  place BLOB PRIMARY KEY, size INTEGER, modified INTEGER, etag TEXT, outcome TEXT NOT NULL, reason TEXT,
  run INTEGER, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS broken_logs ON logs (at) WHERE outcome = 'broken';
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, app_id TEXT NOT NULL, attempt TEXT NOT NULL, started INTEGER NOT NULL,
  ended INTEGER, name TEXT NOT NULL, finished INTEGER NOT NULL, healthy INTEGER NOT NULL, core_hours REAL NOT NULL,
  gb_hours REAL NOT NULL, row BLOB NOT NULL,
  account BLOB, place BLOB NOT NULL, judged INTEGER NOT NULL DEFAULT 0, verdict BLOB NOT NULL DEFAULT '{{}}',
  UNIQUE (app_id, attempt, started));
CREATE INDEX IF NOT EXISTS runs_of ON runs (name, started, id);
CREATE INDEX IF NOT EXISTS unjudged ON runs (started, id) WHERE NOT judged;
CREATE INDEX IF NOT EXISTS accounts ON runs (name, started, id) WHERE account IS NOT NULL;
CREATE TABLE IF NOT EXISTS baselines (name TEXT PRIMARY KEY, latest INTEGER NOT NULL, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, run INTEGER, name TEXT, at INTEGER NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS events_of ON events (name, id);
CREATE INDEX IF NOT EXISTS events_by_kind ON events (kind, name);
CREATE TABLE IF NOT EXISTS outbox (
  sink TEXT NOT NULL, event INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL DEFAULT 0,
  problem TEXT, PRIMARY KEY (sink, event)) WITHOUT ROWID;
COMMIT;
"""
_PASS: Final = f"""
PRAGMA temp.cache_size = -{CACHE_KIB};
PRAGMA temp.journal_mode = OFF;
CREATE TABLE temp.todo (
  modified INTEGER NOT NULL, place BLOB NOT NULL UNIQUE, size INTEGER, etag TEXT, named INTEGER NOT NULL, problem TEXT,
  PRIMARY KEY (modified, place)) WITHOUT ROWID;
"""
_RUN: Final = (
    "SELECT runs.id, app_id, attempt, started, name, ended, finished, healthy, core_hours, gb_hours, row, "
    "runs.place, verdict, size, modified, etag FROM runs LEFT JOIN logs ON logs.place = runs.place "
)
_UNSEEN: Final = -1
"""Stands for a time of change that the place does not tell."""


class HistoryError(Exception):
    """The history cannot be read, written or locked; the message is one printable line that names it."""


class Undelivered(NamedTuple):
    """An event that has yet to go somewhere; ``tries`` so far."""

    event: WatchEvent
    tries: int


class AppFigures(NamedTuple):
    """An application by its name: how many runs, the last one, its regressions, and its runs in which nothing moved."""

    name: str
    runs: int
    last: KeptRun
    regressions: int
    stalled: int


class RunHistory:
    """A history; a context manager. ``uid``: of the file, whatever it is called."""

    def __init__(self, path: str, *, write: bool) -> None:
        """Open it, or with ``write`` begin one. Raises ``HistoryError``."""
        self.path = Path(os.path.realpath(path))
        self._lock: IO[bytes] | None = None
        if write:
            self._lock = self._locked()
        elif not self.path.is_file():
            raise self._failed("there is no such history")
        try:
            self._base = self._opened(write=write)
        except sqlite3.Error as problem:
            self._unlock()
            raise self._failed("cannot be used", problem) from None
        except HistoryError:
            self._unlock()
            raise
        self.uid = self._fact("uid") or ""

    # of a pass

    def begin_pass(self) -> None:
        """Forget the logs of the pass before."""
        self._run("DELETE FROM temp.todo")

    def end_pass(self, now: Millis, problems: int) -> None:
        """Keep when a pass ended, and how many of its places and receivers did not work."""
        self._run("INSERT OR REPLACE INTO facts VALUES ('pass', ?), ('problems', ?)", (str(now), str(problems)))

    def last_pass(self) -> tuple[Millis, int] | None:
        """What ``end_pass`` kept last."""
        at, problems = self._fact("pass"), self._fact("problems")
        return None if at is None or problems is None else (int(at), int(problems))

    def offer(self, found: FoundLog, *, again: bool = False) -> bool:
        """Enter a log that lies there, unless what is known of it still holds. ``again``: broken ones, too."""
        stamp, place = found.stamp, place_bytes(found.place)
        known = self._run("SELECT size, modified, etag, outcome FROM logs WHERE place = ?", (place,)).fetchone()
        if known is not None:
            same = Stamp(*known[:3]) == stamp
            if same and not (again and known[3] == LogOutcome.BROKEN):
                return False
        modified = _UNSEEN if stamp.modified_ms is None else stamp.modified_ms
        entered = self._run(
            "INSERT OR IGNORE INTO temp.todo VALUES (?, ?, ?, ?, ?, ?)",
            (modified, place, stamp.size, stamp.etag, found.named, found.problem),
        )
        return bool(entered.rowcount)

    def todo(self) -> Iterator[FoundLog]:
        """The logs that were entered, those that were written first to begin with."""
        last: tuple[int, bytes] = (_UNSEEN - 1, b"")
        while page := self._run(
            "SELECT modified, place, size, etag, named, problem FROM temp.todo WHERE (modified, place) > (?, ?) "
            "ORDER BY modified, place LIMIT ?",
            (*last, PAGE),
        ).fetchall():
            for modified, place, size, etag, named, problem in page:
                last = modified, place
                stamp = Stamp(size, None if modified == _UNSEEN else modified, etag)
                yield FoundLog(place_text(place), stamp, bool(named), problem)

    def has_whole(self, key: RunKey) -> bool:
        """Whether the run is there, with its end."""
        return self._run(
            "SELECT 1 FROM runs WHERE app_id = ? AND attempt = ? AND started = ? AND finished", key
        ).fetchone() is not None  # fmt: skip

    @contextmanager
    def change(self) -> Iterator[None]:
        """A transaction: all of the block, or nothing."""
        self._run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):
                self._base.execute("ROLLBACK")
            raise
        self._run("COMMIT")

    # within a transaction

    def put_log(
        self, found: FoundLog, outcome: LogOutcome, now: Millis, reason: str | None = None, run: int | None = None
    ) -> None:
        """Keep the outcome for a log."""
        stamp = found.stamp
        self._run(
            "INSERT OR REPLACE INTO logs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (place_bytes(found.place), stamp.size, stamp.modified_ms, stamp.etag, outcome.value, reason, run, now),
        )

    def find(self, key: RunKey) -> tuple[int, bool] | None:
        """The number of a run, and whether it is there with its end."""
        known = self._run(
            "SELECT id, finished FROM runs WHERE app_id = ? AND attempt = ? AND started = ?", key
        ).fetchone()
        return None if known is None else (known[0], bool(known[1]))

    def put_run(self, run: WatchedRun, place: str) -> int:
        """Keep a run, or what is known of it now; it is to be judged. Its number."""
        key = run.key
        assert key is not None
        name = run.row.app_name or key.app_id
        values = {
            "ended": run.ended_ms, "name": name, "finished": run.finished, "healthy": run.healthy,
            "core_hours": run.core_hours, "gb_hours": run.gb_hours, "row": row_bytes(run.row), "account": run.account,
            "place": place_bytes(place),
        }  # fmt: skip
        columns, marks = ", ".join(values), ", ".join("?" * (len(key) + len(values)))
        news = ", ".join(f"{column} = excluded.{column}" for column in values)
        self._run(
            f"INSERT INTO runs (app_id, attempt, started, {columns}) VALUES ({marks}) "  # noqa: S608 - names of columns
            f"ON CONFLICT (app_id, attempt, started) DO UPDATE SET {news}, judged = 0",
            (*key, *values.values()),
        )
        found = self.find(key)
        assert found is not None
        return found[0]

    def put_verdict(self, run: KeptRun, verdict: Mapping[str, Any]) -> None:
        """Keep what a run was judged to be; accounts of runs that no comparison needs any more go."""
        self._run("UPDATE runs SET judged = 1, verdict = ? WHERE id = ?", (msgspec.json.encode(verdict), run.id))
        self._run(
            "UPDATE runs SET account = NULL WHERE name = ? AND account IS NOT NULL AND id NOT IN "
            "(SELECT id FROM runs WHERE name = ? AND account IS NOT NULL ORDER BY started DESC, id DESC LIMIT ?)",
            (run.name, run.name, ACCOUNTS),
        )

    def put_baseline(self, name: str, latest: Millis, state: bytes) -> None:
        """Keep what is normal for an application; ``latest``: the start of the last run that was judged."""
        self._run("INSERT OR REPLACE INTO baselines VALUES (?, ?, ?)", (name, latest, state))

    def tell(
        self, kind: EventKind, sinks: Mapping[str, frozenset[EventKind]], now: Millis, about: KeptRun | int | None,
        body: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Keep an event, on its way to the sinks that want its kind. Its JSON begins with schema, history, id and kind."""
        run, name = (about.id, about.name) if isinstance(about, KeptRun) else (about, body.get("app", {}).get("name"))
        number = self._run(
            "INSERT INTO events (kind, run, name, at, body) VALUES (?, ?, ?, ?, '')", (kind.value, run, name, now)
        ).lastrowid
        whole = {"schema": SCHEMA, "history": self.uid, "id": number, "kind": kind.value, "at_ms": now, **body}
        self._run("UPDATE events SET body = ? WHERE id = ?", (msgspec.json.encode(whole), number))
        for sink, kinds in sinks.items():
            if kind in kinds:
                self._run("INSERT INTO outbox (sink, event) VALUES (?, ?)", (sink, number))

    # what is there

    def unjudged(self) -> Iterator[KeptRun]:
        """Runs that have yet to be judged, by their start; one that is judged meanwhile does not come again."""
        last: tuple[int, int] = (-1, -1)
        while page := self._run(
            f"{_RUN} WHERE NOT judged AND (started, runs.id) > (?, ?) ORDER BY started, runs.id LIMIT ?", (*last, PAGE)
        ).fetchall():
            for one in page:
                run = _kept(one)
                last = run.key.started_ms, run.id
                yield run

    def baseline(self, name: str) -> tuple[Millis, bytes] | None:
        """What ``put_baseline`` kept."""
        found: tuple[Millis, bytes] | None = self._run(
            "SELECT latest, state FROM baselines WHERE name = ?", (name,)
        ).fetchone()
        return found

    def run(self, number: int) -> KeptRun | None:
        """A run by its number."""
        found = self._run(f"{_RUN} WHERE runs.id = ?", (number,)).fetchone()
        return None if found is None else _kept(found)

    def account(self, number: int) -> bytes | None:
        """What was kept of a run for comparisons."""
        found = self._run("SELECT account FROM runs WHERE id = ?", (number,)).fetchone()
        return None if found is None else found[0]

    def runs_of(self, name: str, most: int) -> list[KeptRun]:
        """The last runs of an application, the last one first."""
        rows = self._run(f"{_RUN} WHERE name = ? ORDER BY started DESC, runs.id DESC LIMIT ?", (name, most))
        return [_kept(one) for one in rows]

    def runs(self) -> Iterator[KeptRun]:
        """All of them, by application and start. Streams."""
        try:
            for one in self._run(f"{_RUN} ORDER BY name, started, runs.id"):
                yield _kept(one)
        except sqlite3.Error as problem:
            raise self._failed("cannot be read", problem) from None

    def applications(self, most: int) -> list[AppFigures]:
        """Applications, the one that ran last first."""
        rows = self._run(
            "SELECT name, count(*), max(started) AS latest FROM runs GROUP BY name ORDER BY latest DESC, name LIMIT ?",
            (most,),
        ).fetchall()
        found = []
        for name, count, _ in rows:
            regressions, stalled = (
                self._run("SELECT count(*) FROM events WHERE kind = ? AND name = ?", (kind.value, name)).fetchone()[0]
                for kind in (EventKind.REGRESSION, EventKind.STALL)
            )
            found.append(AppFigures(name, count, self.runs_of(name, 1)[0], regressions, stalled))
        return found

    def broken(self, most: int) -> list[tuple[str, str, Millis]]:
        """Logs that could not be taken up: place, reason, when that was found; the latest first."""
        rows = self._run(
            "SELECT place, reason, at FROM logs WHERE outcome = 'broken' ORDER BY at DESC, place LIMIT ?", (most,)
        )
        return [(place_text(place), reason or "", at) for place, reason, at in rows]

    def events(self, kinds: frozenset[EventKind], most: int, name: str | None = None) -> list[WatchEvent]:
        """The last events of these kinds, of one application or of all, the last one first."""
        marks = ", ".join("?" * len(kinds))
        values: tuple[object, ...] = tuple(kind.value for kind in kinds)
        where = f"kind IN ({marks})"
        if name is not None:
            where, values = f"{where} AND name = ?", (*values, name)
        rows = self._run(f"SELECT id, kind, body FROM events WHERE {where} ORDER BY id DESC LIMIT ?", (*values, most))  # noqa: S608 - marks
        return [WatchEvent(number, EventKind(kind), bytes(body)) for number, kind, body in rows]

    def totals(self) -> HistoryTotals:
        """Of the whole history."""
        runs, applications = self._run("SELECT count(*), count(DISTINCT name) FROM runs").fetchone()
        (broken,) = self._run("SELECT count(*) FROM logs WHERE outcome = 'broken'").fetchone()
        kinds = dict(self._run("SELECT kind, count(*) FROM events GROUP BY kind").fetchall())
        (waiting,) = self._run("SELECT count(*) FROM outbox WHERE sink <> ?", (EXIT_SINK,)).fetchone()
        return HistoryTotals(
            runs, applications, broken, {kind.value: kinds.get(kind.value, 0) for kind in EventKind}, waiting
        )

    # what is on its way

    def undelivered(self, sink: str, now: Millis | None = None, most: int = PAGE) -> list[Undelivered]:
        """Events on their way to a sink, in order; with ``now`` those that are due."""
        rows = self._run(
            "SELECT events.id, kind, body, tries FROM outbox JOIN events ON events.id = event "
            "WHERE sink = ? AND due <= ? ORDER BY event LIMIT ?",
            (sink, now if now is not None else 1 << 62, most),
        )
        return [
            Undelivered(WatchEvent(number, EventKind(kind), bytes(body)), tries) for number, kind, body, tries in rows
        ]

    def delivered(self, sink: str, last: int) -> None:
        """All events up to this one have reached the sink."""
        self._run("DELETE FROM outbox WHERE sink = ? AND event <= ?", (sink, last))

    def delivered_one(self, sink: str, event: int) -> None:
        """This event has reached the sink."""
        self._run("DELETE FROM outbox WHERE sink = ? AND event = ?", (sink, event))

    def postponed(self, sink: str, event: int, due: Millis, problem: str) -> None:
        """This event did not reach the sink, and is not sent again before ``due``."""
        self._run(
            "UPDATE outbox SET tries = tries + 1, due = ?, problem = ? WHERE sink = ? AND event = ?",
            (due, problem, sink, event),
        )

    # the file

    def close(self) -> None:
        """Let go of the file and of the lock."""
        self._base.close()
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self, *, write: bool) -> sqlite3.Connection:
        if self.path.exists() and self.path.stat().st_size and not is_history(str(self.path)):
            raise self._failed("is no history of podtide")
        where = str(self.path) if write else f"{self.path.as_uri()}?mode=ro"
        base = sqlite3.connect(where, timeout=BUSY_MS / 1000, isolation_level=None, uri=not write)
        try:
            self._check_version(base.execute("PRAGMA user_version").fetchone()[0], write=write)
            base.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            if write:
                base.executescript(_SETUP)
                base.executescript(_PASS)
                base.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                base.execute("INSERT OR IGNORE INTO facts VALUES ('uid', ?)", (secrets.token_hex(8),))
                base.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            base.close()
            raise
        return base

    def _check_version(self, version: int, *, write: bool) -> None:
        if version > VERSION:
            raise self._failed("is of a newer podtide")
        if version < VERSION and not write:
            raise self._failed("holds nothing yet")

    def _fact(self, name: str) -> str | None:
        found = self._run("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else str(found[0])

    def _locked(self) -> IO[bytes]:
        try:
            lock = self.path.with_name(self.path.name + ".lock").open("ab")
            try:
                if fcntl is not None:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException:
                lock.close()
                raise
        except BlockingIOError:
            raise self._failed("another podtide is writing it") from None
        except OSError as problem:
            raise self._failed("cannot be written", problem) from None
        return lock

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._base.execute(statement, values)
        except sqlite3.Error as problem:
            raise self._failed("cannot be used", problem) from None

    def _failed(self, what: str, problem: Exception | None = None) -> HistoryError:
        return HistoryError(f"{display(str(self.path))}: {what}{'' if problem is None else f': {cause(problem)}'}")


def is_history(path: str) -> bool:
    """Whether a file is a history of podtide, by its first bytes."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    return head.startswith(b"SQLite format 3\0") and head[68:72] == MAGIC.to_bytes(4, "big")


def _kept(row: tuple[Any, ...]) -> KeptRun:
    number, app_id, attempt, started, name, ended, finished, healthy, core_hours, gb_hours, body, place, verdict = row[
        :13
    ]
    return KeptRun(
        number, RunKey(app_id, attempt, started), name, ended, bool(finished), bool(healthy),
        Usage(core_hours, gb_hours), row_of(body), place_text(place), Stamp(*row[13:]), msgspec.json.decode(verdict),
    )  # fmt: skip
