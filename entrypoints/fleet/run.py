"""A run over a fleet: find the logs, leave out what is done, have the rest worked on, keep each row, write the table.

The order of events is what makes an interruption cheap and a table trustworthy:

1. the logs are found and entered into the journal beside the table (on disk, sorted, without duplicates), each with its key;
2. the journal tells which keys have a row already;
3. an engine (processes here, or a Spark cluster) answers the rest in any order; each row is in the journal before the next
   is looked at;
4. once every log has a row, the rows are read back in the logs' order into the table, which takes its place at once;
5. so does the report, if one is asked for, and only then the journal goes.

Whatever ends the run between 1 and 5 leaves the journal, and the same command goes on from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self, TypeAlias

import msgspec

from podtide import __version__
from podtide.adapters.eventlog.bytes.store import is_url
from podtide.adapters.fleet.discovery import Finder, FoundLog
from podtide.adapters.fleet.journal import Journal, Log, digest, key_of
from podtide.adapters.fleet.progress import FleetProgress
from podtide.adapters.fleet.rows import FleetRow, RowStatus, row_of, shown_place
from podtide.adapters.fleet.summary import FleetDocument, FleetSummary
from podtide.adapters.fleet.table import open_table
from podtide.adapters.process_pool import Ended, Work
from podtide.adapters.recording.records.decision_file import put_file
from podtide.entrypoints.fleet.work import Assess, FleetOptions, answer, failed, request

SCHEMA: Final = 4
"""Changes whenever rows mean something else: rows of another schema are computed again."""


class Answers(Protocol):
    """An engine that is ready: processes, or a cluster; a context manager."""

    def run(self, requests: Iterable[tuple[Log, bytes]]) -> Iterator[tuple[Log, bytes | Ended]]:
        """Answer every request, in any order, asking for no more of them than it works on."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


Engine: TypeAlias = Callable[[Work], Answers]
"""What makes an engine for a kind of work."""


@dataclass(frozen=True, slots=True)
class SurveyTerms:
    """How a run goes about it, as opposed to what it asks (``FleetOptions``).

    ``limits``: the limits of time and memory, which matter to logs that failed over them; ``fresh``: start over;
    ``again``: try again what failed or could not be read; ``report``: the file of a report on it, if one is asked for.
    """

    out: str
    limits: tuple[object, ...] = ()
    fresh: bool = False
    again: bool = False
    report: str | None = None


@dataclass(slots=True)
class SurveyTally:
    """How far a run is, for whoever is interrupted. ``total``: logs found; ``reused``: done before; ``done``: in all."""

    total: int = 0
    reused: int = 0
    done: int = 0
    duplicates: int = 0
    passed_over: int = 0
    links: int = 0
    finished: bool = False


def survey(
    find: Callable[[Finder], Iterable[tuple[int, FoundLog]]],
    options: FleetOptions,
    terms: SurveyTerms,
    engine: Engine,
    progress: FleetProgress,
    tally: SurveyTally,
    assess: Assess,
) -> FleetDocument | None:
    """Run over a fleet and write its table; the summary as a document, None (and no table) where no log was found.

    ``find``: enters what was given, as (number of the argument, log). ``assess`` is found by name in its module by every
    worker. Raises JournalError, TableError, WorkersError, DecisionFileError and what ``find`` and the engine raise.
    """
    question = digest(SCHEMA, __version__, options)
    limits = digest(terms.limits)
    with Journal(terms.out, fresh=terms.fresh) as journal:
        finder = Finder()
        for number, found in find(finder):
            journal.add(number, found, key_of(found.place, found.stamp, question))
            progress.finding(journal.found)
        tally.total, tally.duplicates = journal.found, journal.duplicates
        tally.passed_over, tally.links = finder.passed_over, finder.links
        if not journal.found:
            return None
        unwanted = {RowStatus.FAILED, RowStatus.UNREADABLE} if terms.again else frozenset[RowStatus]()
        tally.reused = tally.done = journal.reuse(limits, unwanted)

        def keep(log: Log, row: FleetRow) -> None:
            journal.keep(log.key, limits, row)
            tally.done += 1
            progress.done(row.status, tally.total, tally.reused)

        progress.begin()
        with engine(partial(answer, assess, options)) as answers:
            for log, reply in answers.run(_requests(journal, keep)):
                keep(log, _row(log, reply))
        return _written(terms, journal, options, tally)


def _requests(journal: Journal, keep: Callable[[Log, FleetRow], None]) -> Iterator[tuple[Log, bytes]]:
    """What is to be done; a log whose fault is known already has its row at once."""
    for log in journal.todo():
        if log.found.problem is not None:
            keep(log, failed(log.found, log.found.problem, RowStatus.UNREADABLE))
        else:
            place = log.found.place
            if not is_url(place) and not place.startswith("file:"):
                place = str(Path.cwd() / place)  # workers need not stand where this process stands
            yield log, request(log.found, place)


def _row(log: Log, reply: bytes | Ended) -> FleetRow:
    if isinstance(reply, Ended):
        return failed(log.found, reply.why)
    try:
        row = row_of(reply)
    except msgspec.DecodeError as problem:  # a figure that is no number, or a worker of another podtide
        return failed(log.found, f"its worker's answer cannot be understood: {problem}")
    # A worker knows the log by another name, and perhaps not the version of what it was sent.
    return msgspec.structs.replace(row, log=shown_place(log.found.place), podtide=__version__)


def _written(terms: SurveyTerms, journal: Journal, options: FleetOptions, tally: SurveyTally) -> FleetDocument:
    """Write the table in its order, and the report, and sum them up; then the journal goes. Raises DecisionFileError."""
    with FleetSummary(options.prices) as summary:
        with open_table(terms.out) as table:
            for row in journal.rows():
                summary.add(row)
                if row.status is not RowStatus.SKIPPED:
                    table.put(row)
            table.commit()
        document = summary.document()
        document["logs"]["skipped"] += tally.passed_over
        document |= {
            "out": terms.out, "podtide": __version__, "duplicates": tally.duplicates, "reused": tally.reused,
        }  # fmt: skip
        if terms.report is not None:
            from podtide.adapters.fleet.page import render  # noqa: PLC0415 - only for those who ask

            put_file(render(document, summary.runs).encode(), terms.report)
        tally.finished = True
        journal.remove()
    return document
