"""Why tries of tasks and attempts of stages did not count, as the log says it: by stage and reason.

A try of a task ends for a reason of Spark's (TaskEndReason): ``Success`` counts; every other is counted here under its name
with what tells such ends apart - the class of the exception (ExceptionFailure), why the executor was lost
(ExecutorLostFailure), why the task was killed (TaskKilled). ``Resubmitted`` is said of a task that had succeeded and whose
output was lost with its executor: it runs again. An attempt of a stage that failed says why in its Failure Reason, of which
the first line counts.

Texts that differ in numbers alone (times, ports, ids of containers and hosts) are one reason; the first that was seen stands
for all. A stage keeps ``REASONS_MAX`` reasons; what comes beyond them is counted under their name without what tells them
apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

REASONS_MAX: Final = 20
DETAIL_MAX: Final = 200
"""Characters that are kept of a text."""

STAGE_FAILED: Final = "StageFailed"
"""What an attempt of a stage that failed counts under, which is none of Spark's task end reasons."""

OTHER: Final = "other"
"""What stands for reasons beyond all that a stage keeps."""

_NUMBER: Final = re.compile(r"[0-9]+")
_KEPT: Final = 4 * DETAIL_MAX
"""Characters of a text that are looked at; one may be megabytes."""


class FailureReason(NamedTuple):
    """How often (``times``) a stage met a reason. ``detail``: what tells it from others of its name, as first seen; may be
    empty."""

    reason: str
    detail: str
    times: int


class StageFailures(NamedTuple):
    """The tries of a stage's tasks, and its attempts, that did not count: ``reasons``, the most frequent first."""

    stage: int
    name: str
    tasks: int
    reasons: tuple[FailureReason, ...]

    @property
    def tries(self) -> int:
        """Tries of tasks that did not count, those among them whose output was lost afterwards."""
        return sum(one.times for one in self.reasons if one.reason != STAGE_FAILED)

    @property
    def failed_attempts(self) -> int:
        """Attempts of the stage that failed."""
        return sum(one.times for one in self.reasons if one.reason == STAGE_FAILED)


@dataclass(slots=True, eq=False)
class _Count:
    """How often a reason was met, and its detail as first seen."""

    detail: str
    count: int = 0


_Known: TypeAlias = dict[tuple[str, str], _Count]
"""By reason, and detail without its numbers."""


@dataclass(slots=True, eq=False)
class FailureReading:
    """What a log has said of failures so far, by stage."""

    stages: dict[int, _Known] = field(default_factory=dict)

    def ended(self, stage: int, reason: str, detail: str) -> None:
        """A try of a task of a stage, or an attempt of it, ended for a reason other than success."""
        known = self.stages.setdefault(stage, {})
        text = detail[:_KEPT].strip().partition("\n")[0][:DETAIL_MAX]
        key = reason[:DETAIL_MAX], _NUMBER.sub("#", text)
        if key not in known and len(known) >= REASONS_MAX:
            key, text = (key[0] if len(known) < 2 * REASONS_MAX else OTHER, ""), ""
        known.setdefault(key, _Count(text)).count += 1

    def evidence(self, stages: Mapping[int, tuple[str, int]]) -> tuple[StageFailures, ...]:
        """All of it, by stage. ``stages``: the name of each and how many tasks it has, as far as that is known."""
        return tuple(
            StageFailures(stage, *stages.get(stage, ("", 0)), _ranked(known))
            for stage, known in sorted(self.stages.items())
        )


def _ranked(known: _Known) -> tuple[FailureReason, ...]:
    rows = [FailureReason(reason, one.detail, one.count) for (reason, _), one in known.items()]
    return tuple(sorted(rows, key=lambda one: (-one.times, one.reason, one.detail)))
