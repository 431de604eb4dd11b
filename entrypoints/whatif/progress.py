"""From the name of a log to the application in it, for every command that runs applications again.

The log is opened and read once, to its end; on a terminal a line on standard error says how far it is. Notes are those
that matter to somebody who runs the application again: what is odd about the log's lines. What a *replay* would have to
say about the conf (an application without dynamic allocation is replayed as if it had it) is left out:
``whatif.planning`` has its own.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.text.progress import ByteProgress
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.recorded.application import Application
from podtide.entrypoints.whatif.recorded_log import read_application


class Loaded(NamedTuple):
    """An application, and what is odd about its log."""

    application: Application
    notes: tuple[str, ...] = ()


def load(log: str, overrides: Sequence[SparkConf] = (), spark_version: str | None = None) -> Loaded:
    """Read the event log ``log`` (a file, a folder, a URL, "-" for standard input).

    ``overrides``, ``spark_version``: what the user knows better than the log. Raises LogError for what cannot be read,
    SettingsError for unusable overrides, NothingToRun where no task ended well.
    """
    with contextlib.ExitStack() as resources:
        source = resources.enter_context(contextlib.closing(open_log(log)))
        progress = resources.enter_context(ByteProgress(sys.stderr, source.size))
        read = read_application(
            source,
            overrides=overrides,
            spark_version=spark_version,
            progress=lambda: progress.show(source.bytes_read),
        )
    return Loaded(read.application, tuple(note for note in read.notes if note not in read.settled.notes))
