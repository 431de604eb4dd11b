"""Fixtures for the tests of the core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from podtide.domain.protocol.config import ScalingConfig
from tests.support.scaling_play import Play

SECOND = 1_000
HOUR = 3_600 * SECOND

SUITE = ScalingConfig(
    executors_min=1,
    executors_max=5,
    executors_initial=1,
    backlog_timeout_ms=1 * SECOND,
    sustained_backlog_timeout_ms=2 * SECOND,
    idle_timeout_ms=3 * SECOND,
    shuffle_tracking=False,
)
"""The configuration of Spark's own suite: an external shuffle service, timeouts of 1, 2 and 3 s."""


@pytest.fixture(params=[True, False], ids=["testing", "answered"])
def manager(request: pytest.FixtureRequest) -> Callable[..., Play]:
    """Begin an application with (minimum, maximum, initial) executors and the suite's configuration.

    Twice: with spark.dynamicAllocation.testing, as Spark's suite runs, where the cluster manager is not asked; and
    without, with a cluster that grants everything. Both decide the same.
    """

    def begin(low: int = 1, high: int = 5, initial: int | None = None, *, now: int = 0, **changes: object) -> Play:
        config = replace(
            SUITE,
            executors_min=low,
            executors_max=high,
            executors_initial=low if initial is None else initial,
            testing=request.param,
            **changes,  # type: ignore[arg-type]
        )
        return Play(config, now)

    return begin
