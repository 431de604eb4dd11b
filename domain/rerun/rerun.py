"""Run an application again, as recorded but under another plan, on virtual time: the clockwork of a what-if.

Three parties step through time together: the application's tasks (``rerun.tasks``), whoever gives executors
(``rerun.plain_manager``, ``rerun.on_kubernetes``, ``rerun.on_yarn``), and the books (``ledger``). The tasks live up to
the next moment at which a decision can be, then the manager takes what they said and decides with the production core,
and so on to the application's end. The same arguments give the same outcome, on every machine; ``seed`` 0 meets the luck
that the log recorded.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final

from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.protocol.config import TICK_INTERVAL_MS
from podtide.domain.recorded.application import Application, RecordedJob
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.ledger.ledger import Ledger
from podtide.domain.rerun.on_kubernetes import Pods
from podtide.domain.rerun.on_yarn import Yarn
from podtide.domain.rerun.outcome import CurvePoint, RerunOutcome, StageTimes
from podtide.domain.rerun.plain_manager import Plain
from podtide.domain.rerun.plan import Plan

PATIENCE_MS: Final[Millis] = 7 * 86_400_000
"""How long tasks may wait while none runs before it is said that nobody comes."""

NEVER_COME: Final = "its tasks wait for executors that never come"

TURNS_AT_ONCE_MAX: Final = 100_000
"""Turns at one moment before the simulation gives up."""

AGAIN_MAX: Final = 10_000
AGAIN_SHARE: Final = 10
"""Tasks that may run again: so many, and so many times the application's. More never comes to an end."""

LOOK_EVERY_MS: Final[Millis] = 1_000
"""How often the books are told while several limits keep executors away."""

POINTS_MAX: Final = 50_000
"""Points of a curve that are kept; a longer curve loses every second one as often as it takes."""


def rerun(
    app: Application,
    behaviour: Behaviour,
    plan: Plan,
    seed: int = 0,
    *,
    watch: bool = False,
    limit_ms: Millis | None = None,
) -> RerunOutcome:
    """Simulate the application under ``plan``; ``watch``: keep the curve, the stages' times and the decisions as well.

    ``limit_ms``: give up (``unfinished``) once the run time passes it. Never raises on a well-formed application and plan.
    """
    return _Rerun(app, behaviour, plan, seed, watch=watch).run(NEVER if limit_ms is None else limit_ms)


class _Rerun:
    def __init__(self, app: Application, behaviour: Behaviour, plan: Plan, seed: int, *, watch: bool) -> None:
        self.app = app
        self.plan = plan
        self.seed = seed
        self.watch = watch
        self.ledger = Ledger(0, TICK_INTERVAL_MS)
        kind = Yarn if plan.yarn is not None else Pods if plan.kubernetes is not None else Plain
        self.manager: Plain | Pods | Yarn = kind(app, plan, behaviour, seed, self.ledger)
        self.tasks = self.manager.tasks
        if self.manager.core is not None:
            self.manager.core.watch = watch
        self.curve: list[CurvePoint] = []
        self.mixed = False
        completed = {stage.stage: stage.completed_ms for stage in app.stages}
        last = max((_last(job, completed) for job in app.jobs), default=app.started_ms)
        self.end_lag = max(0, app.ended_ms - last)

    def run(self, limit_ms: Millis) -> RerunOutcome:
        tasks, manager = self.tasks, self.manager
        now, at_once, end, why = 0, 0, NEVER, None
        fed = 0  # when a task ran last, or none waited
        again_max = AGAIN_MAX + AGAIN_SHARE * self.app.tasks
        while True:
            if tasks.dag.done and end == NEVER:
                end = (tasks.dag.ended_ms or 0) + self.end_lag
            due = min(manager.due(), end, limit_ms)
            before = now
            if end != NEVER:
                now = max(now, due)
                tasks.now = max(tasks.now, now)
            else:
                if due == NEVER and tasks.due() == NEVER:
                    why = NEVER_COME
                    break
                if self.mixed:  # the shares of the limits move with the need: look often enough
                    due = min(due, now + LOOK_EVERY_MS)
                now = tasks.advance(max(now, due), manager.slack())
            manager.take(now)
            self._account(now)
            if now >= end:
                break
            if tasks.dag.aborted is not None:
                why = tasks.dag.aborted
                break
            if manager.stopped is not None:
                why = manager.stopped
                break
            if tasks.tasks_again > again_max:
                why = "executors are lost faster than its stages can end"
                break
            if now >= limit_ms:
                why = "the run time passed the limit"
                break
            if tasks.busy or not any(tasks.waiting.values()):
                fed = now
            elif now - fed > PATIENCE_MS:  # heartbeats and pods tried again go on for ever
                why = NEVER_COME
                break
            at_once = at_once + 1 if now == before else 0
            if at_once > TURNS_AT_ONCE_MAX:
                why = "time does not go on"
                break
        return self._outcome(now, why)

    def _account(self, now: Millis) -> None:
        missing = self.manager.shortage()
        self.mixed = sum(map(bool, missing)) > 1
        self.ledger.shortage(now, missing)
        if self.watch:
            needs = self.manager.needs()
            point = CurvePoint(
                now,
                sum(one.needed for one in needs),
                sum(self.manager.target().values()),
                sum(one.coming for one in needs),
                self.manager.accounts.registered,
                self.tasks.busy,
            )
            if not self.curve or self.curve[-1][1:] != point[1:]:
                self.curve.append(point)
                if len(self.curve) > POINTS_MAX:
                    del self.curve[1::2]

    def _outcome(self, end: Millis, why: str | None) -> RerunOutcome:
        tasks, manager = self.tasks, self.manager
        slot_ms = task_ms = 0
        billed: dict[ProfileId, Millis] = {}
        lives = array("q")
        for executor in tasks.executors:
            tasks.settle(executor, end)
            slot_ms += executor.slots * max(0, executor.until - executor.since)
            task_ms += executor.work_ms
        sums = self.ledger.close(end, each=True)
        for ordinal, profile in enumerate(manager.accounts.profiles):
            bill = sums.by_executor.get(ordinal)
            if bill is not None:  # else it was refused
                billed[profile] = billed.get(profile, 0) + bill.ended - bill.requested
                lives.extend((bill.requested, bill.ended, profile))
        return RerunOutcome(
            seed=self.seed,
            runtime_ms=end,
            executor_ms=sums.executor_ms,
            billed_ms=sums.billed_ms,
            peak_executors=manager.accounts.peak,
            executors_started=manager.accounts.started,
            executors_lost=manager.accounts.lost,
            slot_ms=slot_ms,
            task_ms=task_ms,
            waited_ms=sums.waited_ms,
            requests=manager.requests,
            ledger=sums.ledger,
            waiting=sums.waiting,
            billed_by_profile=billed,
            filled_ms=sums.filled_ms,
            curve=tuple(self.curve),
            stages=tuple(self._stages()) if self.watch else (),
            decisions=() if manager.core is None else tuple(manager.core.decisions),
            tasks_run=tasks.tasks_run,
            tasks_again=tasks.tasks_again,
            unfinished=why,
            notes=_notes(tasks.dag.cut_anew),
            lives=lives,
        )

    def _stages(self) -> list[StageTimes]:
        return [
            StageTimes(row.recorded.stage, row.submitted_ms, row.completed_ms)
            for row in self.tasks.dag.stages.values()
            if row.completed_ms != NEVER
        ]


def _notes(cut_anew: int) -> tuple[str, ...]:
    if not cut_anew:
        return ()
    text = "stage has another number of tasks" if cut_anew == 1 else "stages have other numbers of tasks"
    return (f"{cut_anew} {text} than in the log: Spark cuts them for the registered cores.",)


def _last(job: RecordedJob, completed: Mapping[int, Millis]) -> Millis:
    """When the job ended; one without an end in the log is over when the last of its stages is."""
    if job.ended_ms is not None:
        return job.ended_ms
    return max((completed[stage] for stage in job.stages if stage in completed), default=job.submitted_ms)
