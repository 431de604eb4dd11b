"""What a benchmark took, and how it is put beside its rival."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

Compared = Callable[[str, str, str, str], None]
"""Notes a row: what, ours, the rival's, and the ratio or a remark."""


def median_ms(benchmark: BenchmarkFixture) -> float:
    """What the benchmark saw; skips where benchmarks are switched off."""
    if benchmark.stats is None:
        pytest.skip("benchmarks are switched off")
    return float(benchmark.stats.stats.median) * 1_000
