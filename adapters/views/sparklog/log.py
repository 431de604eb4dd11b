"""Decisions in Spark's words: the log that Spark's own classes would have written.

``spark_lines`` gives the lines of Spark 4.3.0 for one command, report or remark; ``SparkLog`` writes them the way log4j2
does, so that searches, alerts and scripts made for a driver's log go on working. What dynamic allocation logs is in
``views.sparklog.scaling``, what all other machines log in ``views.sparklog.machines``; both are imported with their first
line.

A line of the log is one decision: whatever strangers put into names - a newline, an escape sequence, half a surrogate pair -
is written as ``repr`` would, so that no name can start a line of its own or steer a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from typing import TYPE_CHECKING, Final

from podtide.adapters.text.safe import escaped
from podtide.adapters.views.sparklog.templates import Level, SparkLine
from podtide.domain.base.units import Millis
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal, ScheduleThrew, Step
from podtide.domain.protocol.reasons import Threw
from podtide.domain.protocol.stimuli import ShuffleCleaned, StageSubmitted

if TYPE_CHECKING:  # a replay of an event log writes Spark's log, too, and loads no machine of a cluster manager
    from podtide.domain.engine import EngineState
    from podtide.domain.protocol.application import AnyStimulus, Command

LEVELS: Final[tuple[Level, ...]] = ("DEBUG", "INFO", "WARN", "ERROR")
"""From the lowest to the highest."""

_OF_SCALING: Final = frozenset({RequestTotal, Kill, Decommission, ScheduleThrew, StageSubmitted, ShuffleCleaned})


def spark_lines(item: object) -> tuple[SparkLine, ...]:
    """The lines that Spark 4.3.0 logs for a command, report, remark or stimulus; () where it logs nothing."""
    if type(item) in _OF_SCALING:
        from podtide.adapters.views.sparklog import scaling  # noqa: PLC0415 - with the first line of dynamic allocation

        return scaling.lines(item)
    from podtide.adapters.views.sparklog import machines  # noqa: PLC0415 - a replay of dynamic allocation needs none

    return machines.lines(item)


def throwable(item: object) -> str | None:
    """The exception that Spark logs behind the item's line: class and message, where the core knows it."""
    return item.what if isinstance(item, ScheduleThrew | Threw) else None


class Pattern(Enum):
    """How a line begins. The value is log4j2's pattern."""

    SPARK = "%d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex"
    """Spark's own default (log4j2-defaults.properties)."""
    MILLIS = "%d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex"
    """With the date in full and milliseconds; what ``scripts.driver_log`` reads."""


_CYCLE_YEARS: Final = 400
_CYCLE_MS: Final = 146_097 * 86_400_000
"""400 Gregorian years, after which dates repeat. Python's own end with the year 9999, a hostile log's may not."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class SparkLog:
    """Writes lines as Spark's log4j2 would. ``write`` takes each line as UTF-8, its newline included.

    ``threshold``: what is below it is not written. ``zone``: whose wall clock the lines show.
    """

    def __init__(
        self,
        write: Callable[[bytes], object],
        threshold: Level = "INFO",
        pattern: Pattern = Pattern.SPARK,
        zone: tzinfo = UTC,
    ) -> None:
        self._write = write
        self._levels = frozenset(LEVELS[LEVELS.index(threshold) :])
        self._pattern = pattern
        self._zone = zone
        self._second: int | None = None  # the second whose text is at hand
        self._shown = ""

    def enabled(self, level: Level) -> bool:
        """Whether a line of this level would be written."""
        return level in self._levels

    def tell(self, at: Millis, item: object) -> None:
        """Write what Spark logs for an item at that time (``spark_lines``), an exception's text included."""
        self.say(at, spark_lines(item), throwable(item))

    def say(self, at: Millis, lines: Iterable[SparkLine], exception: str | None = None) -> int:
        """Write lines of that time; ``exception``: class and message that follow the first. Returns the bytes written."""
        written = 0
        for line in lines:
            if line.level in self._levels:
                text = f"{self._time(at)} {line.level} {line.logger}: {_safe(line.text)}\n"
                if exception is not None:
                    text += f"{_safe(exception)}\n"
                data = text.encode()
                self._write(data)
                written += len(data)
            exception = None
        return written

    def _time(self, at: Millis) -> str:
        second, millis = divmod(at, 1000)
        if second != self._second:
            self._second, self._shown = second, self._moment(second)
        return self._shown if self._pattern is Pattern.SPARK else f"{self._shown}.{millis:03}"

    def _moment(self, second: int) -> str:
        cycles, rest = divmod(second * 1000, _CYCLE_MS)
        moment = (_EPOCH + timedelta(milliseconds=rest)).astimezone(self._zone)
        year = moment.year + cycles * _CYCLE_YEARS
        shown = f"{year % 100:02}/{moment:%m/%d}" if self._pattern is Pattern.SPARK else f"{year:04}-{moment:%m-%d}"
        return f"{shown} {moment:%H:%M:%S}"


class SparkLogObserver:
    """Writes what Spark's own log would say, step by step."""

    def __init__(self, log: SparkLog) -> None:
        self._log = log

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """Write the lines of one step: of its reports, then of its commands."""
        del stimuli
        for report in taken.reports:
            self._log.tell(now, report)
        for command in taken.commands:
            self._log.tell(now, command)


def _safe(text: str) -> str:
    return text if text.isprintable() else escaped(text, len(text))
