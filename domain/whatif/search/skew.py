"""Stages with skew: one task that takes so much longer than the others that these are waited out.

A stage has skew where its longest task takes at least ``SKEW`` times the mean of its others (``RecordedStage.skewed``), and
is worth naming where it takes ``LONGER_MS`` and ``LONGER_SHARE`` of the run time longer than the median task. What that
costs is what the run would have taken less had the same work been spread evenly over the stage's tasks: the log's own
config is run again with the stage *evened*, with the recorded luck, and compared with the same without it. A stage that is
waited for by nobody, or that has other stages beside it, costs nothing by its skew.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Final, NamedTuple

from podtide.domain.base.samples import median
from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import NO_TASK, Application, RecordedStage

LONGER_MS: Final[Millis] = 1_000
LONGER_SHARE: Final = 0.01


class Skew(NamedTuple):
    """A stage with skew: its longest task and its median one."""

    stage: RecordedStage
    longest_ms: Millis
    median_ms: Millis

    @property
    def longer_ms(self) -> Millis:
        """By how much the longest task is longer than one of an even stage would be: what the skew can cost the stage."""
        return self.longest_ms - _mean(self.stage)


class SkewCost(NamedTuple):
    """A stage with skew, and what the run would take less without; None where that was not simulated."""

    skew: Skew
    costs_ms: Millis | None = None


def skews(application: Application) -> tuple[Skew, ...]:
    """The stages whose skew is worth naming, those first whose longest task sticks out most. One pass over the tasks."""
    least = max(LONGER_MS, LONGER_SHARE * application.runtime_ms)
    found = []
    for stage in application.stages:
        if not stage.skewed:
            continue
        bodies = [one for one in stage.body_ms if one != NO_TASK]
        one = Skew(stage, max(bodies), median(bodies))
        if one.longest_ms - one.median_ms >= least:
            found.append(one)
    return tuple(sorted(found, key=lambda one: (-one.longer_ms, one.stage.stage)))


def evened(application: Application, stage: int) -> Application:
    """The application with the work of a stage spread evenly over its tasks."""
    return replace(application, stages=tuple(_even(one) if one.stage == stage else one for one in application.stages))


def _even(stage: RecordedStage) -> RecordedStage:
    mean = _mean(stage)
    return replace(stage, body_ms=array("q", [NO_TASK if one == NO_TASK else mean for one in stage.body_ms]))


def _mean(stage: RecordedStage) -> Millis:
    bodies = [one for one in stage.body_ms if one != NO_TASK]
    return round(sum(bodies) / max(1, len(bodies)))
