"""The change of a stage's time between two runs, cause by cause, without remainder.

The time of a stage, from submission to completion, has three parts: it waits for its first slot, its tasks run, and the
driver completes it. While tasks run, the time is

    run = work / slots + idle          work = amount * (time per amount, by what it is spent on) + wasted

``slots``: those that were there, on average; ``idle`` is what is left: slots that other stages used, slots without a task
because there were fewer tasks than slots, the wait for the last task, and slots that stood free while tasks waited. The
change of ``work / slots`` is divided among amount, time per amount and slots by logarithmic means: for x = a * b * c a
change of x is L * ln(a2/a1) + L * ln(b2/b1) + L * ln(c2/c1) with L = (x2 - x1) / ln(x2/x1). Empty slots and the wait for
the last task grow with the work, so they are taken as shares of it, and the change of the shares is separated from
that of the work in the same way. The rest is divided by differences. So the parts sum to the change.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from math import log
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.comparison.account import HostWork, StageAccount, TaskTime, WorkUnit
from podtide.domain.comparison.causes import OF_TASK_TIME, ChangeCause
from podtide.domain.rerun.ledger.causes import Limit

Part: TypeAlias = tuple[ChangeCause, str]
"""A cause, and what of it: a host, a limit, or nothing."""

SLOW: Final = 1.3
"""How many times as long as elsewhere the same amount takes on a slow host."""

SKEWED: Final = 1.5
"""How many times as many records as the median the longest task has under skew."""

REMOTE: Final = 1.1
"""How many times as long as near its data a task takes that makes locality count."""

TASKS_MIN: Final = 2
"""Tasks of a host, and of the others, that can be compared."""

STAGES_MIN: Final = 2
"""Stages in which a host is slow that has too few tasks in each."""


class Spell(NamedTuple):
    """The time of a stage by the parts of the module's formula, in ms. ``slots``: on average; ``work_ms``: over slots."""

    wait: float
    finish: float
    slots: float
    work: float
    shared: float
    few: float
    tail: float
    gap: float

    @classmethod
    def of(cls, one: StageAccount) -> Spell:
        """Of a stage."""
        run = max(0, one.last_end_ms - one.first_launch_ms)
        work_ms = one.useful_ms + one.wasted_ms
        slots = max(one.slot_ms / run, work_ms / run) if run else 0.0
        slots = slots if slots > 0 else 1.0
        work = min(float(run), work_ms / slots)
        idle = run - work
        shared = min(idle, one.others_ms / slots)
        few = min(idle - shared, run * max(0.0, 1.0 - one.tasks / slots))
        tail = min(idle - shared - few, float(one.last_end_ms - one.last_launch_ms))
        gap = idle - shared - few - tail
        return cls(
            one.first_launch_ms - one.submitted_ms,
            one.completed_ms - one.last_end_ms,
            slots,
            work,
            shared,
            few,
            tail,
            gap,
        )


def stage_change(
    first: StageAccount, second: StageAccount, slow: tuple[Collection[str], Collection[str]] = ((), ())
) -> dict[Part, float]:
    """How many milliseconds longer the second took, by cause; the causes sum to the difference. ``slow``: hosts of each
    run on which everything takes longer (``slow_hosts``)."""
    change: dict[Part, float] = defaultdict(float)
    one, two = Spell.of(first), Spell.of(second)
    for cause, ms in _executors(first, second, one, two, two.wait - one.wait, waiting=True).items():
        change[cause] += ms
    change[ChangeCause.DRIVER, ""] += two.finish - one.finish
    by_tail, tail_of_work = _apart(one.tail, two.tail, one.work, two.work)
    by_few, few_of_work = _apart(one.few, two.few, one.work, two.work)
    _divide_work(change, first, second, one, two, tail_of_work + few_of_work, slow)
    _, worse, its_slow = max(
        ((one.tail, first, slow[0]), (two.tail, second, slow[1])),
        key=lambda side: (side[0], side[1].longest, side[1].longest.host in side[2], _lost(side[1])),
    )
    change[_of_tail(worse, its_slow)] += by_tail
    change[(ChangeCause.LOST, "") if _lost(worse) else (ChangeCause.SCHEDULING, "")] += two.gap - one.gap
    change[ChangeCause.SHARED, ""] += two.shared - one.shared
    if first.tasks == second.tasks:  # so it is the slots that changed
        for cause, ms in _executors(first, second, one, two, by_few, waiting=False).items():
            change[cause] += ms
    else:
        change[ChangeCause.PARTITIONS, ""] += by_few
    return {part: ms for part, ms in change.items() if ms}


def measure_of(first: StageAccount, second: StageAccount) -> WorkUnit:
    """What the work of both is counted in."""
    both = (one for one in WorkUnit if first.amounts.get(one) and second.amounts.get(one))
    return next(both, WorkUnit.TASKS)


def _apart(before: float, after: float, work_before: float, work_after: float) -> tuple[float, float]:
    """The change of what grows with the work: by its share of it, and by the work."""
    if min(before, after, work_before, work_after) <= 0:
        return after - before, 0.0
    by_work = _log_mean(before, after) * log(work_after / work_before)
    return after - before - by_work, by_work


def _divide_work(
    total: dict[Part, float],
    first: StageAccount,
    second: StageAccount,
    one: Spell,
    two: Spell,
    along: float,
    slow: tuple[Collection[str], Collection[str]],
) -> None:
    """The change of work over slots, and of so much that goes ``along`` with it: amount, time per amount, slots, waste."""
    change: dict[Part, float] = defaultdict(float)
    measure = measure_of(first, second)
    amounts = (max(1, first.amounts.get(measure, 0)), max(1, second.amounts.get(measure, 0)))
    more = log(amounts[1] / amounts[0])
    scales = (_scale(first, one), _scale(second, two))
    slower: dict[ChangeCause, float] = defaultdict(float)
    by_slots = 0.0
    for kind in TaskTime:
        before, after = first.time_ms.get(kind, 0) * scales[0], second.time_ms.get(kind, 0) * scales[1]
        if before <= 0 or after <= 0:
            slower[OF_TASK_TIME[kind]] += after - before
            continue
        mean = _log_mean(before, after)
        slots = mean * log(scales[1] / scales[0])
        amount = mean * more
        by_slots += slots
        change[ChangeCause.INPUT, measure.value] += amount
        slower[OF_TASK_TIME[kind]] += after - before - slots - amount
    before, after = first.wasted_ms * scales[0], second.wasted_ms * scales[1]
    if before > 0 and after > 0:
        slots = _log_mean(before, after) * log(scales[1] / scales[0])
        by_slots += slots
        after -= slots
    change[ChangeCause.LOST, ""] += after - before
    for cause, ms in _executors(first, second, one, two, by_slots, waiting=False).items():
        change[cause] += ms
    hosts: dict[Part, float] = defaultdict(float)
    for stage, scale, names in ((second, scales[1], slow[1]), (first, -scales[0], slow[0])):
        for host in names:
            hosts[ChangeCause.SLOW_HOST, host] += host_cost_ms(stage, host) * scale
    _divide_slower(change, slower, first, second, scales, hosts)
    grown = two.work - one.work
    factor = 1.0 + along / grown if abs(grown) > 1e-9 else 1.0
    for part, ms in change.items():
        total[part] += ms * factor
    if factor == 1.0:
        total[ChangeCause.SCHEDULING, ""] += along


def _scale(stage: StageAccount, spell: Spell) -> float:
    """What a millisecond of task time adds to the stage's: one over its slots."""
    work_ms = stage.useful_ms + stage.wasted_ms
    return spell.work / work_ms if work_ms and spell.work > 0 else 1.0 / spell.slots


def _divide_slower(
    change: dict[Part, float],
    slower: dict[ChangeCause, float],
    first: StageAccount,
    second: StageAccount,
    scales: tuple[float, float],
    hosts: Mapping[Part, float],
) -> None:
    """More time for the same amount: what a slow host explains of it, and tasks away from their data."""
    total = sum(slower.values())
    explained = dict(hosts)
    away = _remote_ms(second) * scales[1] - _remote_ms(first) * scales[0]
    explained[ChangeCause.LOCALITY, ""] = away
    same = {part: ms for part, ms in explained.items() if ms * total > 0}
    explained_ms = sum(same.values())
    share = min(1.0, total / explained_ms) if explained_ms else 0.0
    for part, ms in same.items():
        change[part] += ms * share
    left = 1.0 - explained_ms * share / total if total else 1.0
    more, less = (second, first) if total > 0 else (first, second)
    spills = total != 0 and more.spilled_bytes > 2 * less.spilled_bytes
    for cause, ms in slower.items():
        blamed = ChangeCause.SPILL if spills and cause in _SPILLING else cause
        change[blamed, ""] += ms * left


_SPILLING: Final = frozenset({ChangeCause.CPU, ChangeCause.BLOCKED})


def slow_hosts(stages: Sequence[StageAccount]) -> frozenset[str]:
    """Hosts of a run on which the same amount took ``SLOW`` times as long as on the others of the stage: in most of the
    stages that they had tasks of, two at least, or for two tasks of a stage besides its longest one."""
    slow: Counter[str] = Counter()
    there: Counter[str] = Counter()
    sure: set[str] = set()
    for stage in stages:
        usual = _usual_ms(stage)
        for one in stage.hosts:
            if usual is None:
                continue
            there[one.host] += 1
            if stage.longest.units and one.task_ms >= SLOW * usual * _units(one):
                slow[one.host] += 1
            rest = _without_longest(one, stage)
            if rest.tasks >= TASKS_MIN and rest.units >= 0 and rest.task_ms >= SLOW * usual * max(1, _units(rest)):
                sure.add(one.host)
    often = {host for host, count in slow.items() if count >= STAGES_MIN and 2 * count > there[host]}
    return frozenset(host for host in often | sure if 2 * slow[host] > there[host] or host in sure)


def host_cost_ms(stage: StageAccount, host: str) -> float:
    """Task time that a host took longer for its tasks of a stage than the others would have."""
    usual = _usual_ms(stage)
    own = next((one for one in stage.hosts if one.host == host), None)
    return 0.0 if own is None or usual is None else max(0.0, own.task_ms - usual * _units(own))


def _usual_ms(stage: StageAccount) -> float | None:
    """What a unit of work takes on the middle one of the stage's hosts; None where there are not two to compare."""
    rates = sorted(one.task_ms / _units(one) for one in stage.hosts if one.tasks and _units(one) > 0)
    return rates[(len(rates) - 1) // 2] if len(rates) > 1 else None


def _without_longest(one: HostWork, stage: StageAccount) -> HostWork:
    longest = stage.longest
    if one.host != longest.host:
        return one
    return HostWork(one.host, one.tasks - 1, one.task_ms - longest.task_ms, one.units - longest.units)


def _units(one: HostWork) -> int:
    return one.units if one.units > 0 else one.tasks


def _remote_ms(stage: StageAccount) -> float:
    """Task time that tasks took longer than those near their data, for the same amount."""
    far = stage.remote
    tasks, ms, units = ([getattr(one, field) for one in stage.hosts] for field in ("tasks", "task_ms", "units"))
    near = HostWork("", sum(tasks) - far.tasks, sum(ms) - far.task_ms, sum(units) - far.units)
    if min(far.tasks, near.tasks) < TASKS_MIN or min(far.units, near.units) <= 0:
        return 0.0
    usual = near.task_ms / near.units
    return far.task_ms - usual * far.units if far.task_ms >= REMOTE * usual * far.units else 0.0


def _lost(stage: StageAccount) -> bool:
    return stage.wasted_ms > 0 and stage.lost_slot_ms > 0


def _of_tail(stage: StageAccount, slow: Collection[str]) -> Part:
    """Why its last task was waited for: it had more to do, its host is slow, or neither."""
    longest = stage.longest
    expected = longest.median_ms * max(1.0, longest.units / longest.median_units if longest.median_units > 0 else 1.0)
    if longest.host in slow and longest.task_ms >= SLOW * expected:
        return ChangeCause.SLOW_HOST, longest.host
    if longest.units >= SKEWED * longest.median_units > 0 and longest.task_ms >= SKEWED * longest.median_ms:
        return ChangeCause.SKEW, ""
    if _lost(stage):
        return ChangeCause.LOST, ""
    return ChangeCause.STRAGGLER, ""


def _executors(
    first: StageAccount, second: StageAccount, one: Spell, two: Spell, ms: float, *, waiting: bool
) -> dict[Part, float]:
    """A change by other slots, divided among the size of executors and what kept them away."""
    if not ms:
        return {}
    parts: dict[Part, float] = {}
    rest = ms
    if not waiting and first.slots_each != second.slots_each and one.slots != two.slots:
        share = log(two.slots / one.slots)
        by_size = log(second.slots_each / first.slots_each) / share if share else 0.0
        parts[ChangeCause.SHAPE, ""] = ms * min(1.0, max(0.0, by_size))
        rest = ms - parts[ChangeCause.SHAPE, ""]
    fewer = 1.0 if ms > 0 else -1.0
    before, after = _kept_away(first), _kept_away(second)
    weights = {part: max(0.0, fewer * (after.get(part, 0.0) - before.get(part, 0.0))) for part in {**before, **after}}
    total = sum(weights.values())
    if total <= 0:
        blamed = (
            (ChangeCause.SHARED if second.others_ms or first.others_ms else ChangeCause.SCHEDULING)
            if waiting
            else ChangeCause.EXECUTORS
        )
        parts[blamed, ""] = rest
        return parts
    for part, weight in weights.items():
        if weight:
            parts[part] = parts.get(part, 0.0) + rest * weight / total
    return parts


def _kept_away(stage: StageAccount) -> Mapping[Part, float]:
    """Slots that were missing on average, by what kept them away; replacements of lost executors count as lost."""
    length = max(1, stage.last_end_ms - stage.submitted_ms)
    lost = stage.lost_slot_ms / length
    found: dict[Part, float] = {(ChangeCause.LOST, ""): lost}
    for limit, ms in stage.missing_ms.items():
        slots = ms * stage.slots_each / length
        found[ChangeCause.EXECUTORS, limit.value] = max(0.0, slots - lost) if limit is Limit.START_UP else slots
    return found


def _log_mean(one: float, two: float) -> float:
    """The logarithmic mean of two positive numbers."""
    return one if abs(two - one) < 1e-12 * one else (two - one) / log(two / one)
