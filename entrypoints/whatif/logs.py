"""Logs of a corpus, one by one: read and studied, each with its own outcome, so that one bad log never stops the rest.

A log is either ``UsableLog`` (its application, run again under its own config, the own error known and within bounds) or
``UnusableLog``, with the reason and whether it could not be read or was refused because the model does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from enum import Enum
from typing import NamedTuple

from returns.pipeline import is_successful
from returns.result import Result

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.text.safe import escaped
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.unknowns import nothing_to_run
from podtide.entrypoints.whatif.ground import Ground
from podtide.entrypoints.whatif.run import RerunFunction, Study, refusal, study


class LogFault(Enum):
    """Why a log cannot be used."""

    UNREADABLE = "cannot be read"
    REFUSED = "the model does not fit"


class UnusableLog(NamedTuple):
    """A log that cannot be used: ``why`` is one line."""

    log: str
    fault: LogFault
    why: str


class UsableLog(NamedTuple):
    """A log and its study."""

    log: str
    study: Study


Read = Callable[[str], Application]
"""Reads a log by its name. Raises LogError, or NothingToReplay where there is nothing to run."""


class OverridesRefused(Exception):
    """What the user lays over the logs' confs is wrong, whatever the log. ``errors``: at least one."""

    def __init__(self, errors: Sequence[ConfError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


def read_log(log: str) -> Application:
    """The application of an event log. Raises LogError, NothingToReplay."""
    from podtide.adapters.eventlog.bytes.source import open_log  # noqa: PLC0415 - decoders and codecs
    from podtide.entrypoints.whatif.recorded_log import read_application  # noqa: PLC0415 - the same

    with closing(open_log(log)) as source:
        return read_application(source).application


def read_shown(log: str) -> Application:
    """The same, with a line on standard error that says how far the reading is, where that is a terminal."""
    from podtide.entrypoints.whatif.recorded_log import load  # noqa: PLC0415 - decoders and codecs

    return load(log).application


def studied(log: str, ground: Ground, read: Read, rerun: RerunFunction) -> UsableLog | UnusableLog:
    """Read and study a log. Raises OverridesRefused."""
    from podtide.entrypoints.common.log_config import NothingToReplay  # noqa: PLC0415 - the same

    try:
        application = read(log)
    except LogError as problem:
        return UnusableLog(log, LogFault.UNREADABLE, problem.why)
    except NothingToReplay as nothing:
        return UnusableLog(log, LogFault.REFUSED, escaped(str(nothing)))
    if (why := nothing_to_run(application)) is not None:
        return UnusableLog(log, LogFault.REFUSED, why)
    made = grounded(application, ground, rerun)
    if not is_successful(made):
        raise OverridesRefused(made.failure())
    found = made.unwrap()
    if reasons := refusal(found, ground.max_error):
        return UnusableLog(log, LogFault.REFUSED, reasons[0])
    return UsableLog(log, found)


def grounded(application: Application, ground: Ground, rerun: RerunFunction) -> Result[Study, tuple[ConfError, ...]]:
    """The study of an application on this ground; errors are those of what the user lays over its conf."""
    return study(
        application,
        ground.overrides,
        ground.spark_version,
        cluster=ground.cluster,
        seeds=ground.seeds,
        pools=ground.pools,
        rerun=rerun,
    )


def shown_error(error: ConfError, conf: SparkConf) -> str:
    """An error of the configuration, without the secret that its value may be."""
    value = redaction_of(conf).shown(error.key, error.value)
    return f"{error.key} = {value!r} ({error.origin}): expected {error.expected}"
