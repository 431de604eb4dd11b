"""What one step of a live run decided, in few lines: five hundred creations are one, and a line can grow.

A step may hold hundreds of commands that say the same about other executors. ``lines_of`` joins them: one ``Line`` for
each kind of decision, cause and profile, with the executors as ranges (``101-600``). Lines of later steps that say the same
may be joined to it (``Line.join``), which is how a view keeps a ramp of fifty batches on one line. The words are those of
``views.timeline.decisions``, so a decision reads the same live, in a recording and in a file.

Targets are lines too, though a target that is set from outside is no command: ``TargetWatch`` says what moved, and who
moved it.

How much a line matters (``level``): ``debug`` for what repeats by the clock and changes nothing (full lists, asking for
the totals again) and for bounds that only change their numbers, ``warning`` for pods that ended although no decision asked
for it, ``error`` for rounds that threw and for the end of the application; everything else is ``info``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, NamedTuple

from podtide.adapters.recording.records.commands import command_name, command_record
from podtide.adapters.recording.records.decisions import report_record
from podtide.adapters.text.format import lasting, some
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.timeline.decisions import bound_words, decided_rows, exit_words
from podtide.adapters.views.timeline.reasons import BACKEND, OUTSIDE, profile_words
from podtide.domain.base.units import Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, ScheduleThrew, Step
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.reasons import Cause, Held, Phase, Remark, Threw

RANGES_MAX: Final = 64
"""Stretches of executor ids that a line remembers; what lies outside of them is only counted."""

RANGES_SHOWN: Final = 4
OTHERS_SHOWN: Final = 4
ID_SHOWN_MAX: Final = 24
_DIGITS_MAX: Final = 18

DEBUG: Final = "debug"
INFO: Final = "info"
WARNING: Final = "warning"
ERROR: Final = "error"
LEVELS: Final = (DEBUG, INFO, WARNING, ERROR)
"""How much a line matters, in rising order."""

DECISION: Final = "decision"
HELD: Final = "held"
REPORT: Final = "report"
"""What kinds of lines there are."""

_ROUTINE: Final = (pc.ListPods, pc.ListClaims, pc.GetDriverPod, pc.AwaitDriverReady, ec.StopSource)
_TROUBLES: Final = frozenset(
    {
        Cause.POD_FAILED, Cause.POD_MISSING, Cause.CREATION_TIMEOUT, Cause.CLAIM_FAILED,
        Cause.TOO_MANY_FAILURES, Cause.ILLEGAL_ARGUMENT, Cause.STILL_RUNNING, Cause.DECOMMISSION_TIMEOUT,
        Cause.DISCONNECTED, Cause.HEARTBEAT_TIMEOUT, Cause.HOST_EXCLUDED,
    }
)  # fmt: skip
"""Causes that nobody wished for."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ExecutorRanges:
    """Executors as ranges of their numbers. ``number``: how many there are, the forgotten ones included."""

    __slots__ = ("_named", "_others", "_ranges", "number")

    def __init__(self, executors: Iterable[object] = ()) -> None:
        self.number = 0
        self._named = 0
        self._ranges: list[list[int]] = []
        self._others: list[str] = []
        for executor in executors:
            self.add(str(executor))

    def add(self, executor: str) -> None:
        """One more; an id that is among them already counts once."""
        if not (executor.isascii() and executor.isdigit() and len(executor) <= _DIGITS_MAX):
            if executor in self._others:
                return
            self.number += 1
            if len(self._others) < OTHERS_SHOWN:
                self._others.append(executor)
                self._named += 1
            return
        one = int(executor)
        ranges = self._ranges
        place = bisect_right(ranges, one, key=lambda span: span[0])
        if place and one <= ranges[place - 1][1]:
            return
        self.number += 1
        after = place < len(ranges) and ranges[place][0] == one + 1
        if place and ranges[place - 1][1] == one - 1:
            ranges[place - 1][1] = ranges.pop(place)[1] if after else one
        elif after:
            ranges[place][0] = one
        elif len(ranges) < RANGES_MAX:
            ranges.insert(place, [one, one])
        else:
            return
        self._named += 1

    def join(self, more: ExecutorRanges) -> None:
        """Those of another line as well."""
        before = self.number
        for low, high in more._ranges:
            for one in range(low, high + 1):
                self.add(str(one))
        for other in more._others:
            self.add(other)
        if more.number > more._named:  # what the other has forgotten is counted, perhaps a second time
            self.number = max(self.number, before + more.number)

    def words(self) -> str:
        """``101-600``, ``1, 4-9 and 12 more``."""
        parts = [f"{low}" if low == high else f"{low}-{high}" for low, high in self._ranges[:RANGES_SHOWN]]
        shown = sum(high - low + 1 for low, high in self._ranges[:RANGES_SHOWN])
        others = self._others[: max(0, RANGES_SHOWN - len(parts))]
        parts += [escaped(other, ID_SHOWN_MAX) for other in others]
        return some(parts, len(parts), len(parts) + self.number - shown - len(others))


@dataclass(slots=True)
class Line:
    """One thing that was decided, perhaps of many executors, perhaps in several steps from ``at`` to ``end``.

    ``key``: lines with the same one say the same. ``kind``: decision, held or report. ``name``: the command, bound or
    report, as in records. ``one`` and ``many``: what it says, with ``{}`` where the executors go.
    """

    key: tuple[object, ...]
    at: Millis
    end: Millis
    level: str
    mark: str
    name: str
    one: str
    many: str = ""
    why: list[str] = field(default_factory=list)
    ids: ExecutorRanges | None = None
    times: int = 1
    kind: str = DECISION

    def join(self, later: Line) -> None:
        """The same again, later, perhaps of other executors: the newest reason counts."""
        self.end = max(self.end, later.end)
        self.times += later.times
        self.why = later.why
        if self.ids is not None and later.ids is not None:
            self.ids.join(later.ids)

    @property
    def what(self) -> str:
        """What was decided, in a few words."""
        if self.ids is None:
            return self.one
        return (self.many if self.ids.number > 1 else self.one).format(self.ids.words())

    @property
    def parts(self) -> list[str]:
        """Why, and in how many steps."""
        if self.times == 1:
            return self.why
        span = f" over {lasting(self.end - self.at)}" if self.end > self.at else ""
        return [*self.why, f"in {self.times:,} steps{span}"]


def stamp(at: Millis) -> str:
    """A moment in UTC to the millisecond, as ISO 8601 has it: ``2026-11-21T09:44:23.105Z``."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at)
    except OverflowError:  # beyond the year 9999
        return f"{at}"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03}Z"


def cause_of(command: Command) -> Cause:
    """The leading reason."""
    return command.departures[0].why.cause if isinstance(command, Kill | Decommission) else command.why.cause


def command_level(command: Command) -> str:
    """How much a command matters."""
    if isinstance(command, _ROUTINE) or (isinstance(command, RequestTotal) and not command.changes):
        return DEBUG
    if isinstance(command, ec.StopApplication):
        return ERROR if command.exit_code else INFO
    if isinstance(command, ec.AnswerRegistration) and not command.accepted:
        return WARNING
    return WARNING if cause_of(command) in _TROUBLES else INFO


def report_level(report: Report) -> str:
    """How much a report matters."""
    match report:
        case Threw():
            return ERROR
        case ScheduleThrew(repeated=repeated):
            return DEBUG if repeated else ERROR
        case Remark() | Held(phase=Phase.CHANGED):
            return DEBUG  # a bound that still holds: how much, the status says
        case _:
            return INFO


def lines_of(now: Millis, commands: Sequence[Command], reports: Sequence[Report]) -> list[Line]:
    """A step's commands and reports as lines, in the order in which each kind first appears."""
    lines: dict[tuple[object, ...], Line] = {}
    for command in commands:
        shape = _shape(command)
        if shape is None:
            record, level = command_record(command), command_level(command)
            for line in _rows(now, record, level, command_name(type(command)), DECISION):
                _put(lines, line)
            continue
        key, one, many, executors = shape
        known = lines.get(key)
        if known is not None and known.ids is not None:
            for executor in executors:
                known.ids.add(str(executor))
            if isinstance(command, ec.AnswerRegistration):  # how many there are now, not how many there were
                known.why = _reason(command)[1]
            continue
        mark, why = _reason(command)
        name, level = command_name(type(command)), command_level(command)
        lines[key] = Line(key, now, now, level, mark, name, one, many, why, ExecutorRanges(executors))
    for report in reports:
        for line in _reported(now, report):
            _put(lines, line)
    return list(lines.values())


def _put(lines: dict[tuple[object, ...], Line], line: Line) -> None:
    known = lines.get(line.key)
    if known is None:
        lines[line.key] = line
    elif line.ids is not None and known.ids is not None:
        known.ids.join(line.ids)
    else:
        lines[*line.key, len(lines)] = line


class CommandWords(NamedTuple):
    """What commands of one type say about one executor and about several; ``{}`` is where the executors go.

    ``key``: what else commands of one line have in common, besides their type and cause.
    """

    one: str
    many: str
    key: Callable[[Any], object] = lambda _: None


_SHAPES: Final[Mapping[type, CommandWords]] = {
    # The target is part of the key: the numbers of one line belong together.
    pc.CreatePod: CommandWords("create pod {}", "create pods {}", lambda c: (c.profile, c.why.facts.get("target"))),
    pc.CreateClaim: CommandWords("create a claim of pod {}", "create claims of pods {}"),
    pc.DeletePods: CommandWords("delete pod {}", "delete pods {}", attrgetter("phase")),
    pc.DeletePod: CommandWords("delete pod {}", "delete pods {}"),
    pc.MarkInactive: CommandWords("label pod {} inactive", "label pods {} inactive"),
    pc.MarkPods: CommandWords("mark pod {}", "mark pods {}", attrgetter("key", "value")),
    ec.RemoveExecutor: CommandWords(
        "executor {} is gone", "executors {} are gone", attrgetter("reason.kind", "reason.exit_code")
    ),
    pc.AssignExecutorId: CommandWords("a pod becomes executor {}", "pods become executors {}"),
    ec.DecommissionExecutors: CommandWords(
        "tell executor {} to decommission", "tell executors {} to decommission", attrgetter("message")
    ),
    pc.ResizePod: CommandWords("resize pod {}", "resize pods {}", attrgetter("memory_bytes")),
    pc.ResizeClaim: CommandWords("resize the claim of {}", "resize the claims of {}", attrgetter("storage_bytes")),
    Kill: CommandWords("kill executor {}", "kill executors {}"),
    Decommission: CommandWords("decommission executor {}", "decommission executors {}"),
}


def _shape(command: Command) -> tuple[tuple[object, ...], str, str, Sequence[object]] | None:
    """What commands that say the same have in common, their words and their executors; None for what stands alone."""
    if isinstance(command, ec.AnswerRegistration):
        key = (type(command), True) if command.accepted else (type(command), False, command.message)
        verb = "registered" if command.accepted else "refused"
        return key, f"executor {{}} {verb}", f"executors {{}} {verb}", (command.executor,)
    shape = _SHAPES.get(type(command))
    if shape is None:
        return None
    target: Any = command
    executors = target.executors if hasattr(target, "executors") else (target.executor,)
    if executors is None:  # all pods
        return None
    return (type(command), cause_of(command), shape.key(command)), shape.one, shape.many, executors


def _reason(command: Command) -> tuple[str, list[str]]:
    """How to colour a command of one executor or more, and why it is given, in parts that hold for each of them."""
    row = decided_rows(command_record(command))[0]
    match command:
        case ec.AnswerRegistration(accepted=True):
            there = command.why.facts.get("registered")
            return row.mark, [f"{there:,} in all"] if isinstance(there, int) else []
        case ec.RemoveExecutor(executor=executor, reason=reason):
            shortened = reason._replace(message=reason.message.replace(f" with id {executor}", ""))
            return row.mark, [exit_words(shortened._asdict()), command.why.cause.value]
        case Kill() | Decommission():
            return row.mark, [part for part in row.why if not part.startswith("ids ")]
        case _:
            return row.mark, [part for part in row.why if part != "profile 0"]


def _reported(now: Millis, report: Report) -> list[Line]:
    level = report_level(report)
    match report:
        case Held(executors=executors) if executors:
            key = (Held, report.bound, report.profile, report.phase)
            mark, words = ("quiet", "kept no longer") if report.phase is Phase.ENDED else ("held", "kept idle")
            why = [report.phase.value, f"by {bound_words(report.bound.value)}", *profile_words(report.profile)]
            one, many = f"executor {{}} {words}", f"executors {{}} {words}"
            return [
                Line(
                    key, now, now, level, mark, report.bound.value, one, many, why, ExecutorRanges(executors), kind=HELD
                )
            ]
        case Held():
            return _rows(now, report_record(report), level, report.bound.value, HELD)
        case Remark():
            return _rows(now, report_record(report), level, report.topic, REPORT)
        case _:
            record = report_record(report)
            return _rows(now, record, level, record["report"], REPORT)


def _rows(now: Millis, record: dict[str, Any], level: str, name: str, kind: str) -> list[Line]:
    return [
        Line((name, row.what, tuple(row.why)), now, now, level, row.mark, name, row.what, why=list(row.why), kind=kind)
        for row in decided_rows(record)
    ]


def held_words(report: Held) -> tuple[str, ...]:
    """A bound in force, in parts: what it holds, and by what; without the phase, which is that it lasts."""
    row = decided_rows(report_record(report))[0]
    why = row.why[1:] if row.why and row.why[0] == report.phase.value else row.why
    return (row.what, *why)


# --------------------------------------------------------------------------------------------------------------- targets


@dataclass(frozen=True, slots=True)
class OutsideMove:
    """A target that somebody else than dynamic allocation moved."""

    at: Millis
    profile: int
    before: int
    after: int
    cause: str

    def line(self) -> Line:
        """In words."""
        mark = "raised" if self.after >= self.before else "lowered"
        what = f"target {self.before:,} → {self.after:,}"
        key = ("target", self.profile, self.before, self.after)
        why = [self.cause, *profile_words(self.profile)]
        return Line(key, self.at, self.at, INFO, mark, "target", what, why=why, kind=REPORT)

    def record(self) -> dict[str, Any]:
        """As a record."""
        return {
            "at_ms": self.at, "report": "target", "profile": self.profile, "before": self.before, "after": self.after,
            "cause": self.cause,
        }  # fmt: skip


class TargetWatch:
    """The targets as they are told to whoever allocates, and who moved them. ``known``: the last of each profile."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        self._targets: dict[int, int] = {}  # what was asked for or told of last
        self._seen: object = None

    def moved(
        self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]
    ) -> list[OutsideMove]:
        """What moved in this step that no ``RequestTotal`` of it says. Costs the profiles, and only if any moved."""
        moves: list[OutsideMove] = []
        for command in taken.commands:
            if isinstance(command, RequestTotal):
                self._targets.update((change.profile, change.after) for change in command.changes)
        for stimulus in stimuli:
            if isinstance(stimulus, TargetsSet):
                for profile, target in stimulus.targets:
                    self._move(moves, now, profile, target, OUTSIDE)
        side = taken.state.kubernetes
        if side is None:
            return moves
        source: object = side.backend.requested if side.allocator is None else side.allocator.targets
        if source is not self._seen:
            self._seen = source
            pairs = side.backend.requested if side.allocator is None else side.allocator.targets.items()
            for profile, target in pairs:
                if self.known.get(profile, 0) != target:
                    self._move(moves, now, profile, target, BACKEND)
                self.known[profile] = target
        return moves

    def _move(self, moves: list[OutsideMove], now: Millis, profile: int, target: int, cause: str) -> None:
        before = self._targets.get(profile, self.known.get(profile, 0))
        self._targets[profile] = target
        if before != target:
            moves.append(OutsideMove(now, profile, before, target, cause))
