"""The same work on a Spark cluster: requests go out in waves, executors answer them, answers come back as waves end.

``SparkWorkers`` takes requests and gives answers as ``process_pool.Workers`` does, so the caller sees no
difference. A wave is one Spark job: as many partitions as keep every slot busy a few times over, each of a few requests; two
waves are under way at once, so that the next fills the slots that the stragglers of the last leave. The driver holds two
waves and never the fleet. Within a partition each request is worked on by a process of its own (``Workers`` with one
process), so the limits of time and memory hold there as well, and a log that kills its process does not kill the Python
worker of Spark or its task.

A job that fails all the same (Spark gave up a task) is cut in half and asked again, until what fails is a single request:
one bad log costs a few small jobs, never the wave.

Executors need podtide and what it imports. podtide itself is sent along as a ZIP of the installed package; third parties
cannot be, since some are compiled: ``REQUIRED`` must be installed where the executors' Python is (or come by
``spark.archives``). A job that does nothing else asks every few executors for them first, and says what is missing.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import podtide
from podtide.adapters.process_pool import Ended, Work, Workers
from podtide.adapters.text.safe import escaped

K = TypeVar("K")

EXTRA: Final = "podtide[spark]"

REQUIRED: Final = ("pyrsistent", "returns", "msgspec", "zstandard", "lz4", "cramjam", "xxhash")
"""Modules of other people that must be importable on executors; a URL needs its fsspec client besides."""

REQUESTS: Final = 8
"""Requests of one task of Spark."""

ROUNDS: Final = 4
"""Tasks of a wave for each slot of the cluster."""

WAVE_MAX: Final = 20_000
"""Requests of a wave; its rows are in the driver's memory, about two kilobytes each."""

WAVES: Final = 2


class SparkEngineError(Exception):
    """The cluster cannot be used; the message is one printable line."""


class SparkWorkers:
    """Requests to a Spark cluster; a context manager. A session that is there already is used and left alone."""

    def __init__(
        self,
        work: Work,
        *,
        conf: Mapping[str, str] | None = None,
        limit_s: float | None = None,
        memory_bytes: int | None = None,
        requests: int = REQUESTS,
    ) -> None:
        """``conf``: Spark settings for a session of its own (``spark.master`` among them). Raises SparkEngineError."""
        try:
            from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to import
        except ImportError:
            raise SparkEngineError(f"--engine spark needs pyspark: pip install '{EXTRA}'") from None
        self._work = partial(_on_executor, work, limit_s, memory_bytes)
        self._requests = requests
        self._group = f"podtide-fleet-{os.getpid()}"
        try:
            self._own = SparkSession.getActiveSession() is None
            if (conf or {}).get("spark.master", "").startswith("local"):
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors are on this machine
            builder = SparkSession.builder.appName("podtide fleet")
            for key, value in (conf or {}).items():
                builder = builder.config(key, value)
            self._session: Any = builder.getOrCreate()
            self._context: Any = self._session.sparkContext
        except Exception as problem:
            raise SparkEngineError(f"no Spark session: {_words(problem)}") from None
        self._threads = ThreadPoolExecutor(WAVES, "podtide-wave")
        try:
            self._ship()
        except BaseException:
            self.close()
            raise

    def run(self, requests: Iterable[tuple[K, bytes]]) -> Iterator[tuple[K, bytes | Ended]]:
        """Answer every request, wave by wave. Raises SparkEngineError when the cluster is gone."""
        source = iter(requests)
        size = max(1, min(WAVE_MAX, self._slots() * ROUNDS * self._requests))
        waves: deque[tuple[list[tuple[K, bytes]], Future[list[tuple[int, bytes | Ended]]]]] = deque()
        while True:
            while len(waves) < WAVES and (wave := list(islice(source, size))):
                waves.append((wave, self._send(wave)))
            if not waves:
                return
            wave, answers = waves.popleft()
            try:
                replies = answers.result()
            except Exception as problem:
                self._check_alive(problem)
                if len(wave) == 1:
                    yield wave[0][0], Ended(f"Spark gave it up: {_words(problem)}")
                    continue
                half = len(wave) // 2
                waves.extendleft((part, self._send(part)) for part in (wave[half:], wave[:half]))
                continue
            for number, reply in replies:
                yield wave[number][0], reply

    def close(self) -> None:
        """End what is under way, and the session if it is this engine's own."""
        with suppress(Exception):
            self._context.cancelJobGroup(self._group)
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._own:
            with suppress(Exception):
                self._session.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, wave: list[tuple[K, bytes]]) -> Future[list[tuple[int, bytes | Ended]]]:
        bodies = [(number, body) for number, (_, body) in enumerate(wave)]
        return self._threads.submit(self._collect, bodies, self._work)

    def _collect(self, items: list[Any], work: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Any]:
        """One job. Runs in a thread of its own, so the group belongs to that thread."""
        self._context.setJobGroup(self._group, "podtide fleet", True)
        slices = max(1, -(-len(items) // self._requests))
        answers: list[Any] = self._context.parallelize(items, slices).mapPartitions(work).collect()
        return answers

    def _slots(self) -> int:
        return max(1, int(self._context.defaultParallelism))

    def _ship(self) -> None:
        """Send podtide to the executors, and see that they can import it."""
        self._context.addPyFile(str(_package()))
        try:
            tasks = self._slots()
            probe = self._context.parallelize(range(tasks), tasks).mapPartitions(_probe(REQUIRED))
            found = sorted(set(probe.collect()))
        except Exception as problem:
            raise SparkEngineError(f"the executors cannot run podtide: {_words(problem)}") from None
        if found:
            python = f"{escaped(found[0][1])} on {escaped(found[0][2])}"
            names = ", ".join(sorted({name for name, _, _ in found}))
            raise SparkEngineError(f"the executors' Python ({python}) cannot import {names}: install podtide there")

    def _check_alive(self, problem: Exception) -> None:
        try:
            stopped = bool(self._context._jsc.sc().isStopped())
        except Exception:
            stopped = True
        if stopped:
            raise SparkEngineError(f"the Spark application has ended: {_words(problem)}") from None


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where the package is until this process ends: a session that goes on hands it to executors that come later."""
    return tempfile.TemporaryDirectory(prefix="podtide-fleet-")


@cache
def _package() -> Path:
    """The package; one file for all engines of a process, since a session takes a name only once."""
    path = Path(_folder().name) / "podtide-fleet.zip"
    package_zip(path)
    return path


def package_zip(path: Path) -> None:
    """Write the podtide that runs here, with all of its sub-packages, as a ZIP that Python can import from."""
    folder = Path(podtide.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        # A checkout's three packages are links to its top-level folders.
        for place, _, names in os.walk(folder, followlinks=True):
            for name in sorted(names):
                file = Path(place, name)
                if not name.startswith(".") and file.parent.name != "__pycache__":
                    archive.write(file, Path("podtide", file.relative_to(folder)))


def _on_executor(
    work: Work, limit_s: float | None, memory_bytes: int | None, requests: Iterator[tuple[int, bytes]]
) -> Iterator[tuple[int, bytes | Ended]]:
    """What a task of Spark does with its partition."""
    with Workers(work, 1, limit_s=limit_s, memory_bytes=memory_bytes) as workers:
        yield from workers.run(requests)


def _probe(names: tuple[str, ...]) -> Callable[[Iterator[int]], Iterator[tuple[str, str, str]]]:
    """A function that says which modules its executor lacks: (name, its Python, its host).

    It is local to this one so that it travels as code: sent by its name, it would need podtide to be imported first.
    """

    def missing(_numbers: Iterator[int]) -> Iterator[tuple[str, str, str]]:
        import platform  # noqa: PLC0415 - the same
        import sys  # noqa: PLC0415 - the same

        for name in names:
            try:
                importlib.import_module(name)
            except ImportError:
                yield name, f"{sys.executable} {platform.python_version()}", platform.node()

    return missing


def _words(problem: BaseException) -> str:
    """An exception of Spark in one line: its first line that says something."""
    text = str(getattr(problem, "java_exception", None) or problem).strip()
    line = text.splitlines()[0] if text else type(problem).__name__
    return escaped(line)
