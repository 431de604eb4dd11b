"""The document of a comparison of two runs: ``podtide compare --json`` prints it, its fields are the keys, in their order.

Times are seconds. A change is the second run less the first: above zero, the second took so much longer or cost so much
more. ``causes`` sum to the change of the run time, ``bill`` to that of the cost. Texts that come from logs are escaped when
they are shown, here they are as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from podtide.adapters.text.documents import schema_name
from podtide.adapters.views.bill import bill_notes
from podtide.domain.comparison.account import RunAccount
from podtide.domain.comparison.baseline import Baseline
from podtide.domain.comparison.comparison import CauseOfChange, Comparison, ConfChange
from podtide.domain.comparison.evidence import CauseFigure, Unit
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.domain.stalls.causes import ROWS
from podtide.domain.whatif.prices import Prices

CORE_HOURS: Final = "core-hours"
STAGES_MAX: Final = 50
NOTES_MAX: Final = 20


class ComparedStall(Struct, frozen=True):
    """Tasks waited and nothing moved, from ``began_s`` on since the start; ``lasts``: to the end of the log."""

    cause: str
    profile: int
    began_s: float
    ended_s: float
    lasts: bool
    meaning: str
    advice: str


class ComparedRun(Struct, frozen=True):
    """A run. ``log``: where it was read from; ``cost``: in the unit of the document; ``executors``: that registered."""

    log: str
    id: str
    name: str
    spark_version: str
    started_ms: int
    finished: bool
    runtime_s: float
    executor_seconds: float
    billed_seconds: float
    cost: float
    executors: int
    peak_executors: int
    lost_executors: int
    tasks: int
    stalls: tuple[ComparedStall, ...] = ()


class BaselineEntry(Struct, frozen=True):
    """What the first run stands for: so many runs, the median of their run times."""

    runs: int
    median_runtime_s: float


class ChangeEntry(Struct, frozen=True):
    """What changed in all; ``noise``: the share of the run time by which runs of one config differ."""

    runtime_s: float
    runtime: float
    noise: float
    within_noise: bool
    cost: float
    cost_share: float
    unit: str


class SettingEntry(Struct, frozen=True):
    """A setting that differs; null: not set."""

    key: str
    before: str | None
    after: str | None


class FigureEntry(Struct, frozen=True):
    """A figure of both runs. ``unit``: count, s, bytes or ratio; ``stage``: of which one, empty: of the whole run."""

    what: str
    before: float
    after: float
    unit: str
    stage: str


class CausedStage(Struct, frozen=True):
    """What a cause did to a stage; the ids in both runs, null where one has none."""

    first: int | None
    second: int | None
    name: str
    runtime_s: float


class CauseEntry(Struct, frozen=True):
    """A cause. ``share``: of the change of the run time; ``details``: seconds by host, by limit, or by what the work is
    counted in; ``because``: settings that changed and act on it."""

    cause: str
    runtime_s: float
    share: float | None
    details: dict[str, float]
    stages: tuple[CausedStage, ...]
    evidence: tuple[FigureEntry, ...]
    because: tuple[SettingEntry, ...]


class ComparedStage(Struct, frozen=True):
    """A stage with its part of the run time in both runs."""

    first: int | None
    second: int | None
    name: str
    before_s: float
    after_s: float
    tasks_before: int | None
    tasks_after: int | None


class BillEntry(Struct, frozen=True):
    """What a cause of the ledger, or another part of the bill (``domain.comparison.comparison.BillPart``), changed."""

    cause: str
    executor_seconds: float
    cost: float


class LedgerEntry(Struct, frozen=True):
    """Executor-seconds of both runs under one cause of the ledger; each run's sum to what is billed."""

    cause: str
    before_s: float
    after_s: float


class ComparisonDocument(Struct, frozen=True):
    """Two runs compared."""

    schema: str
    first: ComparedRun
    second: ComparedRun
    baseline: BaselineEntry | None
    change: ChangeEntry
    causes: tuple[CauseEntry, ...]
    bill: tuple[BillEntry, ...]
    ledger: tuple[LedgerEntry, ...]
    waiting: dict[str, float]
    stages: tuple[ComparedStage, ...]
    stages_left_out: int
    conf: tuple[SettingEntry, ...]
    gates: tuple[GateEntry, ...]
    notes: tuple[str, ...]


class GateEntry(Struct, frozen=True):
    """A gate and its outcome."""

    gate: str
    failed: bool


def document(
    found: Comparison,
    logs: tuple[str, str],
    prices: Prices | None,
    baseline: Baseline | None = None,
    gates: Sequence[GateEntry] = (),
) -> ComparisonDocument:
    """The document of a comparison."""
    first, second = found.first, found.second
    unit = CORE_HOURS if prices is None else prices.currency
    notes = [*bill_notes(prices)]
    notes += [f"{which} run: {note}" for which, run in (("first", first), ("second", second)) for note in _notes(run)]
    return ComparisonDocument(
        schema_name("compare"),
        _run(first, logs[0], found.cost[0]),
        _run(second, logs[1], found.cost[1]),
        None if baseline is None else BaselineEntry(baseline.runs, baseline.median_ms / 1000),
        ChangeEntry(
            found.change_ms / 1000,
            found.share,
            found.noise,
            found.within_noise,
            found.cost[1] - found.cost[0],
            found.cost_share,
            unit,
        ),
        tuple(_cause(one, found.change_ms) for one in found.causes),
        tuple(BillEntry(one.cause.value, one.ms / 1000, one.amount) for one in found.bill),
        tuple(
            LedgerEntry(cause.value, first.bill.get(cause, 0) / 1000, second.bill.get(cause, 0) / 1000)
            for cause in SpendCause
            if first.bill.get(cause) or second.bill.get(cause)
        ),
        {limit.value: ms / 1000 for limit, ms in found.waiting.items()},
        tuple(
            ComparedStage(
                None if one.first is None else one.first.stage,
                None if one.second is None else one.second.stage,
                (one.second or one.first).label,  # type: ignore[union-attr]  # one of them is there
                one.before_ms / 1000,
                one.after_ms / 1000,
                None if one.first is None else one.first.tasks,
                None if one.second is None else one.second.tasks,
            )
            for one in found.stages[:STAGES_MAX]
        ),
        max(0, len(found.stages) - STAGES_MAX) + first.left_out + second.left_out,
        tuple(map(_setting, found.conf)),
        tuple(gates),
        tuple(notes[:NOTES_MAX]),
    )


def _run(run: RunAccount, log: str, cost: float) -> ComparedRun:
    executors = run.executors
    return ComparedRun(
        log,
        run.id,
        run.name,
        run.spark_version,
        run.started_ms,
        run.finished,
        run.runtime_ms / 1000,
        executors.executor_ms / 1000,
        run.billed_ms / 1000,
        cost,
        executors.registered,
        executors.peak,
        sum(executors.lost.values()),
        run.tasks,
        tuple(
            ComparedStall(
                one.cause.value,
                one.profile,
                one.began_ms / 1000,
                one.ended_ms / 1000,
                one.lasts,
                ROWS[one.cause].meaning,
                ROWS[one.cause].advice,
            )
            for one in run.stalls
        ),
    )


def _notes(run: RunAccount) -> list[str]:
    notes = list(run.notes)
    if not run.finished:
        notes.insert(0, "the log has no end: what came after it is not known")
    return notes


def _cause(one: CauseOfChange, change_ms: int) -> CauseEntry:
    return CauseEntry(
        one.cause.value,
        one.ms / 1000,
        one.ms / change_ms if change_ms else None,
        {detail: ms / 1000 for detail, ms in one.details if detail},
        tuple(CausedStage(part.first, part.second, part.name, part.ms / 1000) for part in one.stages),
        tuple(map(_evidence, one.evidence)),
        tuple(map(_setting, one.because)),
    )


def _evidence(one: CauseFigure) -> FigureEntry:
    if one.unit is Unit.MS:
        return FigureEntry(one.what, one.before / 1000, one.after / 1000, "s", one.stage)
    return FigureEntry(one.what, one.before, one.after, one.unit.value, one.stage)


def _setting(one: ConfChange) -> SettingEntry:
    return SettingEntry(one.key, one.before, one.after)
