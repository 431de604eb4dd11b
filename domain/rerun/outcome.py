"""What comes of running an application again: figures, the ledger, the waiting, and the curve of executors.

An ``RerunOutcome`` is one simulated run under one plan and one seed; ``CurvePoint``s are its curve. Times count from the
application's start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.rerun.ledger.causes import Limit, SpendCause


class CurvePoint(NamedTuple):
    """The application at a moment; each holds until the next. Sums over all resource profiles.

    ``needed``: executors that its tasks could keep busy; ``target``: asked for; ``pending``: on their way; ``running``:
    registered and not gone; ``busy``: with a task.
    """

    at_ms: Millis
    needed: int
    target: int
    pending: int
    running: int
    busy: int


class ExecutorSpan(NamedTuple):
    """An executor of the bill: from its request to its end, with its profile."""

    began_ms: Millis
    ended_ms: Millis
    profile: ProfileId


class StageTimes(NamedTuple):
    """A stage's first submission and last completion."""

    stage: int
    submitted_ms: Millis
    completed_ms: Millis


class Decision(NamedTuple):
    """One decision of the core: what changed and why (``cause`` and ``facts`` as in every output of decisions).

    ``kind``: "target" (``before`` to ``after`` executors of ``profile``) or "release" (``executors``)."""

    at_ms: Millis
    kind: str
    cause: str
    facts: Mapping[str, Any]
    profile: int = 0
    before: int = 0
    after: int = 0
    executors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RerunOutcome:
    """One run again.

    ``executor_ms``: from registration to removal or the application's end; ``billed_ms``: from request to the same
    (``billed_by_profile`` divides it); ``filled_ms``: what tasks whose result counted fill of that, a slot being its share
    of its executor; ``slot_ms``: what executors offered to tasks, ``task_ms``: what was used of it; ``waited_ms``: how long
    tasks waited for executors, which ``waiting`` divides. ``requests``: calls that the allocation would have made (pods:
    create, delete, label; otherwise request totals and kills). ``lives``: begin, end and profile of each executor that is
    billed, one after the other (``spans``). ``unfinished``: why it did not come to its end, if so.
    """

    seed: int
    runtime_ms: Millis
    executor_ms: Millis
    billed_ms: Millis
    peak_executors: int
    executors_started: int
    executors_lost: int
    slot_ms: Millis
    task_ms: Millis
    waited_ms: Millis
    requests: int
    ledger: Mapping[SpendCause, Millis]
    waiting: Mapping[Limit, float]
    billed_by_profile: Mapping[ProfileId, Millis] = field(default_factory=dict)
    curve: tuple[CurvePoint, ...] = ()
    stages: tuple[StageTimes, ...] = ()
    decisions: tuple[Decision, ...] = ()
    tasks_run: int = 0
    tasks_again: int = 0
    unfinished: str | None = None
    notes: tuple[str, ...] = field(default=())
    filled_ms: Millis = 0
    lives: Sequence[int] = field(default=())

    @property
    def spans(self) -> Iterator[ExecutorSpan]:
        """The executors that are billed, in the order of their requests."""
        numbers = iter(self.lives)
        for began, ended, profile in zip(numbers, numbers, numbers, strict=True):
            yield ExecutorSpan(began, ended, ProfileId(profile))
