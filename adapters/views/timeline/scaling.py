"""A replay's decisions and reports, told as moments: runs merged, the weighty ones kept, memory bounded.

Records come in the order of time, one by one, and there may be millions. What belongs together becomes one
``Moment`` as it goes by: a target that rises step by step while a backlog lasts; one that falls step by step as
tasks finish; executors let go for the same cause shortly after each other; a bound from when it began to hold to
when it let go. Spark's repetition of its request after every removal says nothing new and is not a moment.

Of the moments that have ended a bounded number is kept: the first, the last, and between them those of the most
weight (how far a target moved, how many executors went, how long a maximum held). Ties are broken by a fixed
scattering of their numbers, so that a log that repeats itself is sampled evenly rather than at its beginning. Every
moment knows how many of each kind came before it, so what lies between two that are shown can be counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from heapq import heappush, heappushpop
from typing import Any, Final

from podtide.adapters.text.format import IDS_SHOWN
from podtide.adapters.views.timeline.reasons import peak_of
from podtide.domain.base.units import Millis

HEAD: Final = 8
"""Moments at the beginning that are always kept, by their number."""

TAIL: Final = 4
"""Moments at the end that are always kept."""

WEIGHTY: Final = 18
"""Moments in between that are kept for their weight."""

STEPS_KEPT: Final = 8
"""Steps of a rising target that are kept one by one; doubling from 1, that many reach 255."""

KILLS_APART_MAX: Final[Millis] = 30_000
"""Executors let go this long after each other for one cause are told together."""

PROPOSED_MIN: Final = 10_000
"""Open kills from which those that were confirmed are looked for, to be forgotten."""

_SCATTER: Final = 2_654_435_761
"""Knuth's multiplicative hash."""


class MomentKind(Enum):
    """What a moment is."""

    RAISED = "raised"
    LOWERED = "lowered"
    KILLED = "killed"
    HELD = "held"
    THREW = "threw"
    DISPROVED = "disproved"
    """Only of single records: among merged ones a disproved kill is noted at the kill."""
    REQUESTED = "requested"
    """Only of single records: a request that repeats itself."""


@dataclass(slots=True)
class TargetMove:
    """One move of one profile's target."""

    at: Millis
    profile: int
    before: int
    after: int
    cause: str
    facts: Mapping[str, Any]


@dataclass(slots=True)
class Moment:
    """One thing that happened, from ``at`` to ``end``. Which fields are filled depends on ``kind``.

    ``steps``: the first moves of a target, ``moves`` how many there were; ``last`` the latest. ``ids``: the first
    executors concerned, ``executors`` how many. ``disproved`` of them ran tasks afterwards, ``unconfirmed`` were not
    removed before the log ended; ``settled`` whether the log was asked. ``peak``: the most that a bound held at once,
    ``ended`` whether it let go.
    """

    kind: MomentKind
    number: int
    at: Millis
    end: Millis
    earlier: tuple[int, int, int] = (0, 0, 0)
    profile: int = 0
    before: int = 0
    steps: list[TargetMove] = field(default_factory=list)
    moves: int = 0
    last: TargetMove | None = None
    command: str = ""
    cause: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    executors: int = 0
    disproved: int = 0
    disproved_ids: list[str] = field(default_factory=list)
    unconfirmed: int = 0
    settled: bool = True
    peak: int = 0
    now: int = 0
    since: Millis = 0
    executor_ms: Millis = 0
    ended: bool = True
    what: str = ""

    @property
    def after(self) -> int:
        """The target in the end."""
        return self.last.after if self.last else self.before


@dataclass(slots=True)
class HeldTotal:
    """What a bound held over a whole replay."""

    times: int = 0
    held_ms: Millis = 0
    executor_ms: Millis = 0
    peak: int = 0


COUNTED: Final = {MomentKind.RAISED: 0, MomentKind.LOWERED: 1, MomentKind.KILLED: 2}
"""The kinds that are counted where they are left out, and their place in ``Moment.earlier``."""


class Timeline:
    """Takes records as they come; ``finish`` and ``moments`` at the end."""

    def __init__(self) -> None:
        self.held: dict[str, HeldTotal] = {}
        self.profiles: set[int] = set()
        self.total = 0
        self.kept_all = True
        self.counts = (0, 0, 0)
        self._rising: dict[int, Moment] = {}
        self._falling: dict[int, Moment] = {}
        self._killing: Moment | None = None
        self._throwing: Moment | None = None
        self._holding: dict[tuple[str, int], Moment] = {}
        self._keeper: dict[str, tuple[str, int]] = {}
        self._proposed: dict[str, Moment] = {}
        self._prune_at = PROPOSED_MIN
        self._head: list[Moment] = []
        self._tail: deque[Moment] = deque()
        self._weighty: list[tuple[float, int, int, Moment]] = []

    def take(self, record: Mapping[str, Any]) -> None:
        """Take the next record."""
        command = record.get("command")
        if command == "requestTotalExecutors":
            for change in changes(record):
                self._change(change)
        elif command is not None:
            self._kill(record)
        elif record["report"] == "held":
            self._hold(record)
        elif record["report"] == "kill disproved":
            self._disproved(record["ids"])
        elif record["report"] == "schedule threw":
            self._threw(record)

    def prune(self, proposed: Container[str]) -> None:
        """Forget the kills that are no longer open; ``proposed``: those that are. Cheap enough to be called often."""
        if len(self._proposed) > self._prune_at:
            self._proposed = {executor: moment for executor, moment in self._proposed.items() if executor in proposed}
            self._prune_at = max(PROPOSED_MIN, 2 * len(self._proposed))

    def finish(self, end: Millis, proposed: Iterable[str]) -> None:
        """The replay ended; ``proposed`` are the executors whose kill the log neither confirmed nor disproved."""
        for executor in proposed:
            if (moment := self._proposed.get(executor)) is not None:
                moment.unconfirmed += 1
        self._proposed.clear()
        for key in list(self._holding):
            self._let_go(key, end, ended=False)
        still = [*self._rising.values(), *self._falling.values(), self._killing, self._throwing]
        for moment in sorted((m for m in still if m is not None), key=lambda m: m.number):
            self._keep(moment)

    def moments(self) -> list[Moment]:
        """The moments that were kept, in order. ``kept_all``: none was left out."""
        kept = {m.number: m for m in (*self._head, *self._tail, *(entry[-1] for entry in self._weighty))}
        return [kept[number] for number in sorted(kept)]

    def _new(self, kind: MomentKind, at: Millis, **fields: Any) -> Moment:
        moment = Moment(kind, self.total, at, at, self.counts, **fields)
        self.total += 1
        if (place := COUNTED.get(kind)) is not None:
            counts = list(self.counts)
            counts[place] += 1
            self.counts = (counts[0], counts[1], counts[2])
        return moment

    def _keep(self, moment: Moment | None) -> None:
        """A moment has ended: keep it if it is among the first, the last or the weightiest."""
        if moment is None or _quiet(moment):
            return
        if moment.number < HEAD:
            self._head.append(moment)
            return
        self._tail.append(moment)
        if len(self._tail) > TAIL:
            older = self._tail.popleft()
            entry = (_weight(older), older.number * _SCATTER % 2**32, older.number, older)
            if len(self._weighty) < WEIGHTY:
                heappush(self._weighty, entry)
            else:
                heappushpop(self._weighty, entry)
                self.kept_all = False

    def _change(self, change: TargetMove) -> None:
        profile = change.profile
        self.profiles.add(profile)
        rises = change.after >= change.before
        runs = self._rising if rises else self._falling
        self._keep((self._falling if rises else self._rising).pop(profile, None))
        run = runs.get(profile)
        if run is None or (rises and change.cause != "sustained backlog"):
            self._keep(runs.pop(profile, None))
            kind = MomentKind.RAISED if rises else MomentKind.LOWERED
            run = runs[profile] = self._new(kind, change.at, profile=profile, before=change.before)
        if rises:
            self._keep(self._killing)
            self._killing = None
        run.moves += 1
        run.last = change
        run.end = change.at
        if len(run.steps) < STEPS_KEPT:
            run.steps.append(change)

    def _kill(self, record: Mapping[str, Any]) -> None:
        at, executors = record["at_ms"], record["ids"]
        run = self._killing
        same = run is not None and (run.command, run.cause) == (record["command"], record["cause"])
        if run is None or not same or at - run.end > KILLS_APART_MAX:
            self._keep(run)
            run = self._killing = self._new(
                MomentKind.KILLED, at, command=record["command"], cause=record["cause"], facts=record["facts"]
            )
        run.end = at
        run.moves += 1
        run.executors += len(executors)
        run.ids.extend(executors[: IDS_SHOWN - len(run.ids)])
        for executor in executors:
            self._proposed[executor] = run

    def _disproved(self, executors: Iterable[str]) -> None:
        for executor in executors:
            moment = self._proposed.pop(executor, None)
            if moment is not None:
                moment.disproved += 1
                if len(moment.disproved_ids) < IDS_SHOWN:
                    moment.disproved_ids.append(executor)

    def _threw(self, record: Mapping[str, Any]) -> None:
        run = self._throwing
        if run is None or run.what != record["what"] or not record["repeated"]:
            self._keep(run)
            run = self._throwing = self._new(MomentKind.THREW, record["at_ms"], what=record["what"])
        run.end = record["at_ms"]
        run.moves += 1

    def _hold(self, record: Mapping[str, Any]) -> None:
        at, phase = record["at_ms"], record["phase"]
        key = (record["bound"], record["profile"])
        if not record["ids"]:
            if phase == "ended":
                self._let_go(key, at)
            else:
                self._holds(key, at, peak_of(record["bound"], record["facts"]), record["facts"])
            return
        for executor in record["ids"]:  # these bounds hold executors one by one: count them in and out
            old = self._keeper.pop(executor, None)
            if old is not None and (moment := self._holding.get(old)) is not None:
                if moment.now <= 1:
                    self._let_go(old, at)
                else:
                    _hold_from(moment, at, moment.now - 1)
            if phase != "ended":
                self._keeper[executor] = key
                current = self._holding.get(key)
                self._holds(key, at, 1 if current is None else current.now + 1, record["facts"])

    def _holds(self, key: tuple[str, int], at: Millis, number: int, facts: Mapping[str, Any]) -> None:
        moment = self._holding.get(key)
        if moment is None:
            bound, profile = key
            moment = self._new(MomentKind.HELD, at, cause=bound, profile=profile, since=at, facts=facts)
            self._holding[key] = moment
        elif number >= moment.peak:
            moment.facts = facts
        _hold_from(moment, at, number)

    def _let_go(self, key: tuple[str, int], at: Millis, *, ended: bool = True) -> None:
        moment = self._holding.pop(key, None)
        if moment is None:
            return
        _hold_from(moment, at, 0)
        moment.end, moment.ended = at, ended
        total = self.held.setdefault(key[0], HeldTotal())
        total.times += 1
        total.held_ms += at - moment.at
        total.executor_ms += moment.executor_ms
        total.peak = max(total.peak, moment.peak)
        self._keep(moment)


def single(record: Mapping[str, Any]) -> list[Moment]:
    """One record by itself, as moments: a request that moves several profiles is several."""
    command = record.get("command")
    moment = partial(Moment, number=0, at=record["at_ms"], end=record["at_ms"])
    if command == "requestTotalExecutors":
        moved = changes(record)
        if not moved:
            return [moment(MomentKind.REQUESTED, cause=record["cause"], facts=record["facts"])]
        return [
            moment(
                MomentKind.RAISED if c.after >= c.before else MomentKind.LOWERED,
                profile=c.profile, before=c.before, steps=[c], moves=1, last=c,
            )
            for c in moved
        ]  # fmt: skip
    named = record.get("ids", [])
    if command is not None:
        return [
            moment(
                MomentKind.KILLED, command=command, cause=record["cause"], facts=record["facts"], ids=named,
                executors=len(named), settled=False,
            )
        ]  # fmt: skip
    match record["report"]:
        case "held":
            peak = len(named) or peak_of(record["bound"], record["facts"])
            return [
                moment(
                    MomentKind.HELD, profile=record["profile"], cause=record["bound"], facts=record["facts"], ids=named,
                    peak=peak, what=record["phase"],
                )
            ]  # fmt: skip
        case "kill disproved":
            return [moment(MomentKind.DISPROVED, ids=named, executors=len(named))]
        case "schedule threw":
            return [moment(MomentKind.THREW, moves=1, what=record["what"])]
        case _:
            return []


def changes(record: Mapping[str, Any]) -> list[TargetMove]:
    """The moves of targets in a request; none where Spark repeats itself."""
    moved = record.get("changes")
    if moved is None:
        facts = record["facts"]
        if "profile" not in facts:
            return []
        return [TargetMove(record["at_ms"], facts["profile"], facts["before"], facts["after"], record["cause"], facts)]
    return [TargetMove(record["at_ms"], c["profile"], c["before"], c["after"], c["cause"], c["facts"]) for c in moved]


def between(earlier: Moment | None, later: Moment | None, timeline: Timeline) -> Counter[MomentKind]:
    """How many moments of each counted kind lie between two that are shown (or before, or after them all)."""
    until = timeline.counts if later is None else later.earlier
    left: Counter[MomentKind] = Counter()
    for kind, place in COUNTED.items():
        seen = 0 if earlier is None else earlier.earlier[place] + (earlier.kind is kind)
        left[kind] = until[place] - seen
    return +left


def _hold_from(moment: Moment, at: Millis, number: int) -> None:
    """From ``at`` on the bound holds ``number``."""
    if moment.cause not in ("maximum", "ratio"):
        moment.executor_ms += max(0, at - moment.since) * moment.now
    moment.now, moment.since = number, at
    moment.peak = max(moment.peak, number)


def _quiet(moment: Moment) -> bool:
    """Too common to be told: a target that tasks outlive for a while, a bound that let go at once."""
    return moment.kind is MomentKind.HELD and (moment.cause == "running task" or moment.end - moment.at < 1000)


def _weight(moment: Moment) -> float:
    seconds = (moment.end - moment.at) / 1000
    match moment.kind:
        case MomentKind.RAISED | MomentKind.LOWERED:
            return abs(moment.after - moment.before)
        case MomentKind.KILLED:
            return moment.executors
        case MomentKind.THREW:
            return 100
        case _:
            held = seconds / 30 if moment.cause in ("maximum", "ratio") else moment.executor_ms / 300_000
            return 1 + min(20.0, held)
