"""Benchmarks against real Spark in the same run: ``make bench``.

Every figure is a ratio: what podtide takes and what its rival takes, measured one after the other on the same machine and
input. Nothing here fails because a machine is slow; the ratios are printed at the end and kept in RESULTS.md by hand.

``PODTIDE_BENCH_TASKS`` (default 200000) sets the length of the log, ``PODTIDE_BENCH_LOG`` names one that is there already.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import make_log, spark_replay

Row = tuple[str, str, str, str]
_ROWS: list[Row] = []


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A long event log, made for the session."""
    given = os.environ.get("PODTIDE_BENCH_LOG")
    if given:
        yield Path(given)
        return
    path = tmp_path_factory.mktemp("bench") / "events.json"
    with path.open("wb", buffering=1 << 20) as out:
        make_log.write_log(out, int(os.environ.get("PODTIDE_BENCH_TASKS", "200000")), 1, "plain", accumulators=False)
    yield path
    path.unlink()


@pytest.fixture(scope="session")
def spark_passes(event_log: Path) -> list[dict[str, Any]]:
    """Spark's ReplayListenerBus with the same two listeners over the same file: one cold pass and two warm ones."""
    return _spark("replay", str(event_log), "3")


@pytest.fixture(scope="session")
def spark_ticks() -> dict[tuple[str, int], float]:
    """schedule() of real Spark, in milliseconds, by kind and number of executors."""
    return {(row["kind"], row["executors"]): row["ms_per_tick"] for row in _spark("idle-tick", "10", "10000")}


def _spark(*arguments: str) -> list[dict[str, Any]]:
    try:
        return spark_replay.measure(*arguments)
    except RuntimeError as missing:
        pytest.skip(f"real Spark cannot be asked: {missing}")


@pytest.fixture
def compared() -> Callable[[str, str, str, str], None]:
    """Note a row of the table that is printed at the end: what, podtide, its rival, the ratio."""

    def note(what: str, ours: str, theirs: str, ratio: str) -> None:
        _ROWS.append((what, ours, theirs, ratio))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the ratios."""
    if _ROWS:
        terminalreporter.section("podtide against its rivals, same run, same machine")
        widths = [max(len(row[i]) for row in _ROWS) for i in range(4)]
        for row in _ROWS:
            terminalreporter.write_line("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)))
