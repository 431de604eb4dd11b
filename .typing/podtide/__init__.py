"""Apache Spark's executor allocation as pure functions.

``podtide.open(log)`` is the door for scripts and notebooks. ``podtide.domain`` is the decision core as a library,
``podtide.adapters`` reads and carries out, ``podtide.entrypoints`` is the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from podtide.entrypoints.library.opened_log import OpenedLog

__version__ = "0.2.0"


def open(
    log: str | os.PathLike[str],
    *,
    conf: Mapping[str, object] | None = None,
    spark_version: str | None = None,
    processes: int | None = None,
) -> OpenedLog:
    """An event log of Spark, to be asked.

    ``replay()``, ``explain()``, ``ledger()``, ``whatif()``, ``tune()`` and ``compare()`` of it return results with a typed
    document, a table and a picture.

    ``log``: a file, the folder of a rolled log, the zip of a History Server, or a URL. Nothing is read until something is
    asked. ``conf``, ``spark_version``: what the config really was, where the log does not tell; ``processes``: that
    simulate, None: as many as are worth it.
    """
    from podtide.entrypoints.library.opened_log import OpenedLog  # noqa: PLC0415 - importing podtide loads nothing

    return OpenedLog(log, conf=conf, spark_version=spark_version, processes=processes)
