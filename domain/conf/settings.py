"""What a machine's config reads out of a conf: its settings with Spark's notices, or a refusal with Spark's exception.

A refusal still carries the settings with defaults in the place of what cannot be read, because an application that ran
is worth looking at whatever Spark 4.3.0 thinks of its conf (``settled``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from podtide.domain.conf.reader import Reads
from podtide.domain.conf.spark_conf import ConfError
from podtide.domain.conf.spark_versions import SparkVersion
from podtide.domain.jvm.exceptions import SparkFault, illegal

C = TypeVar("C")
S = TypeVar("S", bound="Settings[Any]")


class NoticeLevel(Enum):
    """How much a notice matters."""

    INFO = "info"
    WARNING = "warning"


class ConfNotice(NamedTuple):
    """Something to say about a conf that is no error. ``spark``: these are the words of Spark's own log."""

    level: NoticeLevel
    text: str
    spark: bool = False


@dataclass(frozen=True, slots=True)
class Settings(Generic[C]):
    """What the conf amounts to.

    ``enabled``: Spark would allocate executors dynamically (switched on, and not with a local master). ``notices``:
    what Spark logs on the way.
    """

    config: C
    enabled: bool
    version: SparkVersion
    notices: tuple[ConfNotice, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused(Generic[S]):
    """Spark would fail with this conf, at its start or when it first reads the setting.

    ``errors`` in the order in which Spark would meet them, at least one; ``construct``: the exception of the first
    that Spark would throw; ``settings``: the best guess, with defaults in the place of what cannot be read.
    """

    errors: tuple[ConfError, ...]
    construct: SparkFault
    settings: S


def result_of(reads: Reads, settings: S) -> Result[S, Refused[S]]:
    """The settings, or a refusal if any key could not be read or used."""
    if not reads.errors:
        return Success(settings)
    return Failure(Refused(tuple(reads.errors), first_raised(reads), settings))


def settled(result: Result[S, Refused[S]]) -> tuple[S, tuple[ConfError, ...]]:
    """The settings, with the best guess where Spark refuses them, and why it does."""
    if is_successful(result):
        return result.unwrap(), ()
    refused = result.failure()
    return refused.settings, refused.errors


def first_raised(reads: Reads) -> SparkFault:
    """The exception of the first failure; there is at least one."""
    raised = next((error.raised for error in reads.errors if error.raised is not None), None)
    return illegal(str(reads.errors[0])) if raised is None else raised
