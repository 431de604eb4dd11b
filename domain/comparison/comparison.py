"""Two accounts compared: the difference of run time and of the bill, each divided among causes that sum to it.

A *part* of the difference is a cause, what of it, a stage, and milliseconds. Pieces of both chains are matched by their
stages; a stage that is on one chain only, although both runs have it, was waited for in one run and ran beside others in
the other one. Parts are gathered by cause; each gathered cause has its evidence (``evidence``) and the settings that
changed and act on it.

*Noise.* Two runs of one config differ: by ``NOISE`` in nine of ten pairs of the truth (docs/explanation/truth.md), or
by what the runs that a baseline is made of say (``baseline``). A difference within it may be noise, whatever its
causes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.comparison.account import Piece, PieceKind, RunAccount, StageAccount
from podtide.domain.comparison.causes import NO_EFFECT, ChangeCause, acts_on
from podtide.domain.comparison.evidence import CauseFigure, evidence_of
from podtide.domain.comparison.matching import StageMatch, matched
from podtide.domain.comparison.stage_change import Part, slow_hosts, stage_change
from podtide.domain.comparison.stalled import StalledTime, stalled_time, with_stall
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.whatif.bill.rules import NO_RULES, BillRules
from podtide.domain.whatif.bill.run_bill import BilledWork, RunBill, bill
from podtide.domain.whatif.prices import Prices

NOISE: Final = 0.13
"""How far nine of ten pairs of real runs of one config are apart, as a share of the first."""

BY_DETAIL: Final = frozenset({ChangeCause.SLOW_HOST})
"""Causes of which each detail is one of its own."""

STAGES_NAMED: Final = 5
"""Stages that are named for a cause."""

SETTINGS_MAX: Final = 200

AFTER_LAST: Final = "after the last stage"
"""What the driver's time there is called."""

WORTH_A_REASON: Final = 0.05
"""The share of the change from which a cause is said to be because of a setting."""


class ConfChange(NamedTuple):
    """A setting that differs. ``before``, ``after``: None where it is not set."""

    key: str
    before: str | None
    after: str | None


class StagePart(NamedTuple):
    """What a cause did to one stage. ``first``, ``second``: its ids in both runs."""

    first: int | None
    second: int | None
    name: str
    ms: float


@dataclass(frozen=True, slots=True)
class CauseOfChange:
    """A cause with its milliseconds: above 0, the second run took so much longer for it. ``details``: what of it (a host,
    limits, what work is counted in), with the milliseconds of each, the most first; ``stages``: likewise; ``because``:
    settings that changed and act on it."""

    cause: ChangeCause
    ms: float
    details: tuple[tuple[str, float], ...]
    stages: tuple[StagePart, ...]
    evidence: tuple[CauseFigure, ...]
    because: tuple[ConfChange, ...]


class StageChange(NamedTuple):
    """A stage that was matched, added or gone, with its time on the chain of each run."""

    first: StageAccount | None
    second: StageAccount | None
    before_ms: Millis
    after_ms: Millis


class BillPart(Enum):
    """What a bill is made of besides the executors' time by cause."""

    OTHER_SIZE = "executors of another size"
    UNUSED = "nodes beside their executors"
    DRIVER = "driver"


class BillChange(NamedTuple):
    """What a cause of the ledger, or another part, costs more: in executor-milliseconds, and in the bill's unit."""

    cause: SpendCause | BillPart
    ms: Millis
    amount: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """``causes`` sum to ``change_ms``, the largest in the direction of the change first. ``bill``: by cause of the
    ledger, then by executors of other sizes and what else is paid for; sums to ``cost[1] - cost[0]``. ``cost``: in
    money with prices, else in core-hours. ``noise``: the share of the run time within which a difference may be
    noise."""

    first: RunAccount
    second: RunAccount
    change_ms: Millis
    causes: tuple[CauseOfChange, ...]
    stages: tuple[StageChange, ...]
    conf: tuple[ConfChange, ...]
    bill: tuple[BillChange, ...]
    cost: tuple[float, float]
    waiting: Mapping[Limit, Millis]
    noise: float = NOISE

    @property
    def share(self) -> float:
        """The change as a share of the first run time."""
        return self.change_ms / self.first.runtime_ms if self.first.runtime_ms else 0.0

    @property
    def within_noise(self) -> bool:
        """Whether the run times differ no more than two runs of one config do."""
        return abs(self.share) <= self.noise

    @property
    def cost_share(self) -> float:
        """The change of the bill as a share of the first."""
        return self.cost[1] / self.cost[0] - 1.0 if self.cost[0] > 0 else 0.0


def compare(first: RunAccount, second: RunAccount, *, prices: Prices | None = None, noise: float = NOISE) -> Comparison:
    """How run time and bill changed from the first run to the second."""
    match = matched(first.stages, second.stages)
    parts = _parts(first, second, match)
    conf = conf_changes(first, second)
    by_cause: dict[Part, list[tuple[str, StagePart]]] = defaultdict(list)
    for (cause, detail), stage in parts:
        by_cause[cause, detail if cause in BY_DETAIL else ""].append((detail, stage))
    pairs = {(one.stage, two.stage): (one, two) for one, two in match.pairs}
    change = second.runtime_ms - first.runtime_ms
    causes = []
    for (cause, _), own in by_cause.items():
        by_stage: dict[tuple[int | None, int | None, str], float] = defaultdict(float)
        details: dict[str, float] = defaultdict(float)
        for detail, part in own:
            details[detail] += part.ms
            by_stage[part[:3]] += part.ms
        ranked = sorted(by_stage.items(), key=lambda item: -abs(item[1]))[:STAGES_NAMED]
        top = tuple(StagePart(*which, ms) for which, ms in ranked)
        seen = [pairs[which[0], which[1]] for which, _ in ranked if (which[0], which[1]) in pairs]  # type: ignore[index]  # both ids
        ms = sum(details.values())
        worth = abs(ms) >= WORTH_A_REASON * abs(change)
        because = tuple(one for one in conf if worth and cause in acts_on(one.key))
        listed = tuple(sorted(details.items(), key=lambda item: -abs(item[1])))
        evidence = evidence_of(cause, first, second, seen)
        causes.append(CauseOfChange(cause, ms, listed, top, evidence, because))
    sign = -1 if change < 0 else 1
    causes.sort(key=lambda one: (one.ms * sign <= 0, -abs(one.ms)))
    cost, bill = _bill(first, second, prices)
    waiting = {
        limit: second.waiting_ms.get(limit, 0) - first.waiting_ms.get(limit, 0)
        for limit in Limit
        if limit in first.waiting_ms or limit in second.waiting_ms
    }
    return Comparison(
        first, second, change, tuple(causes), _stages(first, second, match), conf, bill, cost, waiting, noise
    )


def conf_changes(first: RunAccount, second: RunAccount) -> tuple[ConfChange, ...]:
    """Settings that differ, and the version of Spark, without those that differ from run to run."""
    found = []
    if first.spark_version != second.spark_version:
        found.append(ConfChange("Spark version", first.spark_version, second.spark_version))
    for key in sorted({*first.conf, *second.conf}):
        before, after = _shown(key, first.conf), _shown(key, second.conf)
        if before != after and not key.startswith(NO_EFFECT):
            found.append(ConfChange(key, before, after))
    return tuple(found[:SETTINGS_MAX])


def _shown(key: str, conf: Mapping[str, str]) -> str | None:
    """A setting as it is compared: of the address of a master, the cluster manager alone."""
    text = conf.get(key)
    return text.partition("://")[0] if text is not None and key == "spark.master" and "://" in text else text


def _parts(first: RunAccount, second: RunAccount, match: StageMatch) -> list[tuple[Part, StagePart]]:
    """The difference of run times in parts."""
    found: list[tuple[Part, StagePart]] = []
    slow = slow_hosts(first.stages), slow_hosts(second.stages)
    there = {one.stage: two for one, two in match.pairs}
    back = {two.stage: one for one, two in match.pairs}
    own = {one.stage: one for one in first.stages}
    new = {one.stage: one for one in second.stages}
    before = {piece.stage: piece for piece in first.chain if piece.kind is PieceKind.STAGE}
    for piece in second.chain:
        if piece.kind is not PieceKind.STAGE or piece.stage is None:
            continue
        two, one = new.get(piece.stage), back.get(piece.stage)
        name = "" if two is None else two.label
        if two is None or one is None:
            found.append(((ChangeCause.ADDED, ""), StagePart(None, piece.stage, name, piece.length_ms)))
            continue
        stall = _stall_change(first, second, one, two, before.get(one.stage), piece)
        found += _of_pair(one, two, before.pop(one.stage, None), piece, slow, stall)
    for stage, piece in before.items():
        one = own.get(stage)  # type: ignore[arg-type]  # a piece of a stage
        two = None if one is None else there.get(one.stage)
        name = "" if one is None else one.label
        if one is None or two is None:
            found.append(((ChangeCause.GONE, ""), StagePart(stage, None, name, -piece.length_ms)))
        else:
            stall = _stall_change(first, second, one, two, piece, None)
            found += _of_pair(one, two, piece, None, slow, stall)
    found += _driver_parts(first, second, back)
    return found


def _of_pair(
    one: StageAccount,
    two: StageAccount,
    before: Piece | None,
    after: Piece | None,
    slow: tuple[frozenset[str], frozenset[str]],
    stall: StalledTime,
) -> list[tuple[Part, StagePart]]:
    """A stage of both runs that is on a chain; ``before``, ``after``: its pieces. Where it is on one chain alone, it changed
    as it did, and besides its time on the other chain came or went. ``stall``: by how much longer nothing moved."""
    lengths = one.completed_ms - one.submitted_ms, two.completed_ms - two.submitted_ms
    there = lengths[0] if before is None else before.length_ms
    here = lengths[1] if after is None else after.length_ms
    whole, change = lengths[1] - lengths[0], here - there
    parts = stage_change(one, two, slow)
    factor = change / whole if whole else 0.0
    scaled = with_stall({part: ms * factor for part, ms in parts.items() if ms * factor}, stall)
    found = [(part, StagePart(one.stage, two.stage, two.label, ms)) for part, ms in scaled.items()]
    beside = (0 if whole else change) + (there if before is None else 0) - (here if after is None else 0)
    if beside:
        found.append(((ChangeCause.BESIDE, ""), StagePart(one.stage, two.stage, two.label, beside)))
    return found


def _stall_change(
    first: RunAccount,
    second: RunAccount,
    one: StageAccount,
    two: StageAccount,
    before: Piece | None,
    after: Piece | None,
) -> StalledTime:
    """For how much longer nothing moved during a stage in the second run; below zero: in the first one."""
    was = stalled_time(first, *((one.submitted_ms, one.completed_ms) if before is None else before[1:3]))
    now = stalled_time(second, *((two.submitted_ms, two.completed_ms) if after is None else after[1:3]))
    return StalledTime(now.ms - was.ms, now.cause if now.ms > was.ms else was.cause)


def _driver_parts(
    first: RunAccount, second: RunAccount, back: Mapping[int, StageAccount]
) -> list[tuple[Part, StagePart]]:
    """The driver's time, by the stage that follows it."""
    change: Counter[tuple[Part, int | None, int | None]] = Counter()
    for run, sign in ((first, -1), (second, 1)):
        for piece in run.chain:
            if piece.kind is PieceKind.STAGE:
                continue
            if piece.kind is PieceKind.STARTING:
                waited = first_wait_ms(run, piece)
                change[(ChangeCause.FIRST_EXECUTORS, ""), None, None] += sign * waited
                change[(ChangeCause.STARTING, ""), None, None] += sign * (piece.length_ms - waited)
                continue
            mine: tuple[int | None, int | None]
            if run is second and piece.stage is not None:
                mine = (back[piece.stage].stage, None) if piece.stage in back else (None, piece.stage)
            else:
                mine = (piece.stage, None)
            change[(ChangeCause.DRIVER, ""), *mine] += sign * piece.length_ms
    labels = {one.stage: one.label for one in first.stages}
    newer = {two.stage: two.label for two in second.stages}
    found = []
    for (part, one, two), ms in change.items():
        name = labels.get(one, "") if one is not None else newer.get(two, "") if two is not None else ""
        if part[0] is ChangeCause.DRIVER and one is None and two is None:
            name = AFTER_LAST
        if ms:
            found.append((part, StagePart(one, two, name, float(ms))))
    return found


def first_wait_ms(run: RunAccount, piece: Piece) -> Millis:
    """Of the time before the first job, that in which the driver was ready and no executor had registered."""
    ready, came = run.driver_ready_ms, run.executors.first_ms
    if ready is None or came is None or came <= ready:
        return 0
    return max(0, min(came, piece.ended_ms) - ready) if ready < piece.ended_ms else 0


def _stages(first: RunAccount, second: RunAccount, match: StageMatch) -> tuple[StageChange, ...]:
    """Every stage, with its time on the chains; the largest change first."""
    before = _on_chain(first)
    after = _on_chain(second)
    rows = [StageChange(one, two, before[one.stage], after[two.stage]) for one, two in match.pairs]
    rows += [StageChange(one, None, before[one.stage], 0) for one in match.gone]
    rows += [StageChange(None, two, 0, after[two.stage]) for two in match.added]
    return tuple(sorted(rows, key=lambda row: -abs(row.after_ms - row.before_ms)))


def _on_chain(run: RunAccount) -> Mapping[int | None, Millis]:
    times: Counter[int | None] = Counter()
    for piece in run.chain:
        if piece.kind is PieceKind.STAGE:
            times[piece.stage] += piece.length_ms
    return times


def _bill(
    first: RunAccount, second: RunAccount, prices: Prices | None
) -> tuple[tuple[float, float], tuple[BillChange, ...]]:
    """Both costs, and their difference by the causes of the ledger: executor-time at the mean of both prices, what
    executors of other sizes make of the mean of both times, and what else the prices' rules have in the bill."""
    rates = (_rate(first, prices), _rate(second, prices))
    parts = (_other_parts(first, prices), _other_parts(second, prices))
    mean = (rates[0] + rates[1]) / 2
    rows = [
        BillChange(cause, ms, ms * mean)
        for cause in SpendCause
        if (ms := second.bill.get(cause, 0) - first.bill.get(cause, 0))
    ]
    rows.sort(key=lambda row: -abs(row.amount))
    by_size = (rates[1] - rates[0]) * (first.billed_ms + second.billed_ms) / 2
    amounts = (by_size, *(after - before for before, after in zip(*parts, strict=True)))
    rows += [BillChange(part, 0, one) for part, one in zip(BillPart, amounts, strict=True) if one]
    costs = (first.billed_ms * rates[0] + sum(parts[0]), second.billed_ms * rates[1] + sum(parts[1]))
    return costs, tuple(rows)


def _rate(run: RunAccount, prices: Prices | None) -> float:
    """What a billed executor-millisecond costs on average: money, or core-hours without prices."""
    total = sum(ms for _, _, ms in run.executors.shapes)
    if not total:
        return 0.0
    taken = account_bill(run, NO_RULES if prices is None else prices.rules).executors
    return (taken.core_hours if prices is None else taken.cost(prices)) / total


def _other_parts(run: RunAccount, prices: Prices | None) -> tuple[float, float]:
    """What nodes beside their executors, and the driver, cost."""
    return (0.0, 0.0) if prices is None else account_bill(run, prices.rules).parts(prices)[1:]


def account_bill(run: RunAccount, rules: BillRules) -> RunBill:
    """The bill of a run that an account tells of, as recorded."""
    spans: dict[int, list[tuple[Millis, Millis]]] = defaultdict(list)
    for place, began, ended in run.executors.spans:
        spans[place].append((began, ended))
    work = (
        BilledWork(cores, memory, ms, spans.get(place, ()))
        for place, (cores, memory, ms) in enumerate(run.executors.shapes)
    )
    return bill(work, run.conf.get, run.runtime_ms, rules)
