"""Where the records of a replay go, of an event log and of a recording alike: files, an expectation, standard output.

Whatever can be refused is refused before anything is decided: an expectation that cannot be read when ``ReplayOutputs`` is
made, files that cannot be written at ``open``. Nothing keeps more than a bounded part of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from podtide.adapters.recording.records.codec import Plain
from podtide.adapters.recording.records.decision_file import STDOUT, DecisionReader, DecisionWriter
from podtide.adapters.recording.records.expectation import Expectation
from podtide.adapters.recording.records.jsonl import RecordSpool
from podtide.adapters.views.sparklog.log import Pattern, SparkLog
from podtide.adapters.views.sparklog.templates import Level
from podtide.entrypoints.common.interruption import check_wanted
from podtide.entrypoints.common.output import check_replaceable, misused, print_document, unreadable

DIFFERS: Final = 1
"""The exit code of a replay that is not as expected."""

Sink = Callable[[Plain], None]


@dataclass(frozen=True)
class ReplayOptions:
    """The options of ``podtide replay``. ``bounds``: also replay an event log as if shuffles were cleaned at once."""

    log: str
    conf: tuple[str, ...]
    properties_file: str | None
    spark_version: str | None
    as_json: bool
    decisions: str | None
    expect: str | None
    spark_log: str | None
    spark_log_level: Level | None
    spark_log_millis: bool
    check: bool
    fixes: tuple[str, ...]
    policies: tuple[str, ...]
    overwrite: bool
    strict: bool
    keep_unended: bool
    whole: bool
    bounds: bool

    @property
    def to_stdout(self) -> bool:
        """Whether standard output is taken by lines for a machine."""
        return STDOUT in {self.decisions, self.spark_log}


class ReplayOutputs:
    """The outputs that the options ask for; ``resources`` closes them. ``sinks`` take every record as it comes."""

    def __init__(self, options: ReplayOptions, resources: ExitStack) -> None:
        """Read the beginning of the expectation. Raises UnreadableInput."""
        self.sinks: list[Sink] = []
        self.expectation: Expectation | None = None
        self.spark_log: SparkLog | None = None
        self._options = options
        self._resources = resources
        self._writers: list[DecisionWriter] = []
        self._lists: dict[str, RecordSpool] = {}
        if options.expect is not None:
            with unreadable():
                self.expectation = Expectation(resources.enter_context(DecisionReader(options.expect)))
            self.sinks.append(self.expectation.take)

    def open(self) -> None:
        """Open the files to write. Raises Misused."""
        options = self._options
        if options.decisions is not None:
            check_replaceable("--decisions", options.decisions, overwrite=options.overwrite)
            self.sinks.append(_decisions_to(self._writer(options.decisions)))
        if options.spark_log is not None:
            check_replaceable("--spark-log", options.spark_log, overwrite=options.overwrite)
            pattern = Pattern.MILLIS if options.spark_log_millis else Pattern.SPARK
            lines = _lines_to(self._writer(options.spark_log))
            self.spark_log = SparkLog(lines, options.spark_log_level or "INFO", pattern)

    def keep_all(self) -> RecordSpool:
        """A temporary store of all records, in order."""
        spool = self._resources.enter_context(RecordSpool())
        self.sinks.append(spool.put)
        return spool

    def keep_lists(self, *, repeated: bool) -> None:
        """Keep decisions and reports apart, for ``print_json``. ``repeated``: also reports that say the same again."""
        decided, reported = (self._resources.enter_context(RecordSpool()) for _ in range(2))
        self._lists = {"decisions": decided, "reports": reported}

        def sink(record: Plain) -> None:
            if repeated or not record.get("repeated"):
                (decided if "command" in record else reported).put(record)

        self.sinks.append(sink)

    def print_json(self, document: Plain, first: Sequence[str]) -> None:
        """Print the document with the lists behind its keys ``first``, and what came of the expectation at its end."""
        rest = {} if self.expectation is None else {"expectation": self.expectation.document()}
        print_document(document, first, self._lists, rest)

    def finish(self) -> None:
        """No more records come; call it where an expectation that cannot be read is refused."""
        if self.expectation is not None:
            self.expectation.finish()

    def commit(self) -> None:
        """Let the files take their places. Raises Misused."""
        check_wanted()
        for writer in self._writers:
            with misused():
                writer.commit()

    @property
    def exit_code(self) -> int:
        """What the expectation says."""
        return DIFFERS if self.expectation is not None and self.expectation.difference is not None else 0

    def _writer(self, path: str) -> DecisionWriter:
        with misused():
            writer = self._resources.enter_context(DecisionWriter(path))
        self._writers.append(writer)
        return writer


def _decisions_to(writer: DecisionWriter) -> Sink:
    def sink(record: Plain) -> None:
        if "command" in record:
            with misused():
                writer.put(record)

    return sink


def _lines_to(writer: DecisionWriter) -> Callable[[bytes], None]:
    def write(line: bytes) -> None:
        with misused():
            writer.write(line)

    return write
