"""What an application on a cluster went through, told as moments: runs merged, the middle left out, memory bounded.

An observer of the loop, like ``views.stats.kubernetes``, which counts; this one tells in order of time. What belongs
together is one moment: pods asked for in batch after batch for the same target, executors gone for the same reason
shortly after each other, a target that moves step by step for one cause, a bound from when it began to hold until it let
go. Of many moments the first and the last are kept, and how many lie between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from podtide.adapters.text.format import count, ids, lasting
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.timeline.decisions import (
    SIDE_BOUNDS,
    bound_words,
    exit_words,
    facts_words,
    failure_words,
    side_size,
)
from podtide.adapters.views.timeline.reasons import (
    BACKEND,
    OUTSIDE,
    holding,
    peak_of,
    why_killed,
    why_lowered,
    why_raised,
)
from podtide.adapters.views.timeline.scaling_rows import Row, Words
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.engine import AnyStimulus, State
from podtide.domain.protocol import pod_commands as pc
from podtide.domain.protocol.commands import Command, Decommission, Kill, RequestTotal, ScheduleThrew, Step
from podtide.domain.protocol.pod_stimuli import Outcome, TargetsSet
from podtide.domain.protocol.reasons import Fact, Held, Phase, Threw

HEAD: Final = 60
TAIL: Final = 60
"""Moments at the beginning and at the end that are kept."""

APART_MAX: Final[Millis] = 5_000
"""Things of one kind this long after each other are told together."""

IDS_KEPT: Final = 8
CALLS_MAX: Final = 100_000
"""Creations under way whose outcomes are waited for."""

_SAID: Final = ("profile", "missing", "excess", "executors", "snapshot", "pod", "executor")
"""Facts that a row says in other words, or that are of one pod among several."""


@dataclass
class Told:
    """One moment. ``ids``: the first of ``number`` executors; ``moves``: in how many steps."""

    order: int
    kind: str
    at: Millis
    end: Millis
    profile: int = 0
    cause: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    number: int = 0
    moves: int = 1
    ids: list[str] = field(default_factory=list)
    last_id: str = ""
    before: int = 0
    after: int = 0
    failed: int = 0
    text: str = ""
    held: bool = False

    @property
    def span(self) -> str:
        """How long it took, if it took any time."""
        return f"over {lasting(self.end - self.at)}" if self.end > self.at else ""

    @property
    def lasted(self) -> str:
        """How long a bound held."""
        return f"{'to the end,' if self.held else 'for'} {lasting(self.end - self.at)}"

    @property
    def few(self) -> str:
        """The executors, or how many they are."""
        return ids(self.ids) if self.number <= len(self.ids) else count(self.number, "executor")

    def repeated(self, unit: str = "times") -> list[str]:
        """In how many steps, if in several."""
        return [f"{self.moves:,} {unit} {self.span}".strip()] if self.moves > 1 else []

    def extend(self, executors: Sequence[object]) -> None:
        """More executors."""
        self.number += len(executors)
        self.ids.extend(str(one) for one in executors[: IDS_KEPT - len(self.ids)])
        if executors:
            self.last_id = str(executors[-1])


class PodTimeline:
    """Watches the steps of an application; ``rows`` after ``finish``."""

    def __init__(self) -> None:
        self.total = 0
        self._head: list[Told] = []
        self._tail: deque[Told] = deque(maxlen=TAIL)
        self._open: dict[tuple[Any, ...], Told] = {}
        self._calls: dict[int, Told] = {}
        self._targets: dict[int, int] = {}
        self._asked: dict[int, tuple[int, str, Mapping[str, Fact]]] = {}  # what was last asked for, and why
        self._known: object = None
        self._named = False

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[State, Command]) -> None:
        """See one step."""
        for stimulus in stimuli:
            self._hear(now, stimulus)
        self._aims(now, stimuli, taken)
        created: list[pc.CreatePod] = []
        for command in taken.commands:
            if isinstance(command, pc.CreatePod):
                created.append(command)
            else:
                self._decided(now, command)
        if created:
            self._created(now, created)
        for report in taken.reports:
            if isinstance(report, Held):
                self._holds(report)
            elif isinstance(report, Threw | ScheduleThrew):
                self._threw(now, report.machine if isinstance(report, Threw) else "schedule()", report.what)

    def finish(self, end: Millis) -> None:
        """The application has ended."""
        for told in self._open.values():
            if told.held:
                told.end = max(end, told.at)
        for told in sorted(self._open.values(), key=lambda told: told.order):
            self._keep(told)
        self._open.clear()

    def rows(self) -> tuple[list[Row], int, list[Row]]:
        """The first moments, how many are left out, and the last ones."""
        head = sorted(self._head, key=lambda told: (told.at, told.order))
        tail = sorted(self._tail, key=lambda told: (told.at, told.order))
        left = self.total - len(head) - len(tail)
        return [self._row(told) for told in head], left, [self._row(told) for told in tail]

    # ---------------------------------------------------------------------------------------------------- collecting

    def _hear(self, now: Millis, stimulus: AnyStimulus) -> None:
        """Something that arrived."""
        del now
        if isinstance(stimulus, Outcome):
            self._answered(stimulus)

    def _decided(self, now: Millis, command: Command) -> None:
        """One command, but for the creation of a pod."""
        match command:
            case pc.DeletePods(executors=executors):
                told = self._run(now, ("delete", command.why.cause, executors is None))
                self._why(told, command.why.cause.value, command.why.facts)
                told.extend(executors or ())
            case pc.DeletePod(executor=executor):
                told = self._run(now, ("delete", command.why.cause, False))
                self._why(told, command.why.cause.value, command.why.facts)
                told.extend((executor,))
            case pc.RemoveExecutor(executor=executor, reason=reason):
                told = self._run(now, ("gone", command.why.cause, reason.kind, reason.exit_code))
                told.text = told.text or exit_words(reason._asdict())
                self._why(told, command.why.cause.value, command.why.facts)
                told.extend((executor,))
            case Kill() | Decommission():
                cause = command.departures[0].why.cause
                told = self._run(now, ("let go", type(command), cause))
                told.text = "kill" if isinstance(command, Kill) else "decommission"
                self._why(told, cause.value, command.departures[0].why.facts)
                told.extend(command.executors)
            case pc.CreateSet(replicas=replicas, kind=kind) | pc.ScaleSet(replicas=replicas, kind=kind):
                told = self._run(now, ("set", kind, command.profile))
                told.profile, told.after, told.text = command.profile, replicas, kind
            case pc.StopApplication(exit_code=code):
                told = self._run(now, ("exit", code))
                self._why(told, command.why.cause.value, command.why.facts)
                told.after = code
            case _:
                pass

    def _threw(self, now: Millis, machine: str, what: str) -> None:
        """A round ended in an exception."""
        told = self._run(now, ("threw", machine, what[:200]))
        told.text, told.cause = machine, what

    def _run(self, now: Millis, key: tuple[Any, ...], *, fresh: bool = False) -> Told:
        """The moment that something of this kind belongs to."""
        told = self._open.get(key)
        if told is not None and not fresh and now - told.end <= APART_MAX:
            told.moves += 1
            told.end = now
            return told
        if told is not None:
            self._keep(told)
        told = self._open[key] = Told(self._next(), str(key[0]), now, now)
        if len(self._open) > HEAD + TAIL:
            oldest = next((k for k, one in self._open.items() if not one.held and one is not told), None)
            if oldest is not None:
                self._keep(self._open.pop(oldest))
        return told

    def _next(self) -> int:
        self.total += 1
        return self.total

    def _keep(self, told: Told) -> None:
        if told.order <= HEAD:
            self._head.append(told)
        else:
            self._tail.append(told)

    @staticmethod
    def _why(told: Told, cause: str, facts: Mapping[str, Fact]) -> None:
        if told.moves == 1 and not told.number:
            told.cause, told.facts = cause, facts

    def _aims(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[State, Command]) -> None:
        """Targets that moved, and why: as the pods allocator knows them, or as they were asked for where it has none."""
        asked = self._asked
        for stimulus in stimuli:
            if isinstance(stimulus, TargetsSet):
                for wanted, target in stimulus.targets:
                    asked[wanted] = target, OUTSIDE, {}
        for command in taken.commands:
            if isinstance(command, RequestTotal):
                for change in command.changes:
                    asked[change.profile] = change.after, change.why.cause.value, change.why.facts
        aimed = self._targets_in(taken.state)
        if aimed is None:
            targets = {profile: target for profile, (target, _, _) in asked.items()}
        elif aimed is self._known:
            return
        else:
            self._known = aimed
            targets = {int(profile): target for profile, target in aimed.items()}
        for profile, after in targets.items():
            before = self._targets.get(profile)
            if before == after or (before is None and not after):
                continue
            self._targets[profile] = after
            self._named = self._named or profile != DEFAULT_PROFILE
            wanted_target, cause, facts = asked.get(profile, (-1, BACKEND, {}))
            if wanted_target != after:
                cause, facts = BACKEND, {}
            key = ("target", profile)
            run = self._open.get(key)
            turned = run is not None and (run.cause != cause or (run.after < run.before) != (after < (before or 0)))
            told = self._run(now, key, fresh=turned or cause in (OUTSIDE, BACKEND))
            if told.moves == 1:
                told.before = before or 0
            told.profile, told.after, told.cause, told.facts = profile, after, cause, facts

    def _targets_in(self, state: State) -> Mapping[ProfileId, int] | None:
        """The targets that the side works towards; None where it keeps none of its own."""
        side = state.kubernetes
        return None if side is None or side.allocator is None else side.allocator.targets

    def _created(self, now: Millis, created: Sequence[pc.CreatePod]) -> None:
        by_profile: dict[int, list[pc.CreatePod]] = {}
        for command in created:
            by_profile.setdefault(command.profile, []).append(command)
        for profile, commands in by_profile.items():
            facts = commands[0].why.facts
            key = ("create", profile)
            run = self._open.get(key)
            told = self._run(now, key, fresh=run is not None and run.facts.get("target") != facts.get("target"))
            self._why(told, commands[0].why.cause.value, facts)
            told.profile = profile
            told.extend([command.executor for command in commands])
            for command in commands:
                if len(self._calls) < CALLS_MAX:
                    self._calls[command.serial] = told

    def _answered(self, outcome: Outcome) -> None:
        told = self._calls.pop(outcome.serial, None)
        if told is not None and outcome.failure is not None:
            told.failed += 1
            told.text = failure_words(outcome.failure.status, outcome.failure.message)

    def _holds(self, report: Held) -> None:
        if report.executors:  # bounds of single executors come and go by the hundred
            return
        key = ("held", report.bound, report.profile)
        told = self._open.get(key)
        if report.phase is Phase.ENDED:
            if told is not None:
                told.held, told.end = False, report.at
            return
        if told is None or not told.held:
            told = self._run(report.at, key)
            told.held, told.profile, told.cause = True, report.profile, report.bound.value
        size = side_size(report.bound.value, report.facts)
        if not isinstance(size, int):
            size = peak_of(report.bound.value, report.facts)
        if size >= told.number:
            told.number, told.facts = size, report.facts

    # --------------------------------------------------------------------------------------------------------- words

    def _row(self, told: Told) -> Row:
        of = [f"profile {told.profile}"] if self._named and told.profile >= 0 else []
        return Row(told.at, *self._words(told, of))

    def _words(self, told: Told, of: Sequence[str]) -> Words:
        """What a moment says. ``of``: its profile, where there is more than one."""
        numbers = facts_words(told.facts, _SAID)
        match told.kind:
            case "target":
                mark = "raised" if told.after >= told.before else "lowered"
                return mark, f"target {told.before:,} → {told.after:,}", [*_moved(told), *told.repeated("steps"), *of]
            case "create":
                batches = [f"{told.moves:,} batches {told.span}"] if told.moves > 1 else []
                failed = [f"{count(told.failed, 'creation')} failed: {escaped(told.text, 80)}"] if told.failed else []
                return "raised", f"+ {_range(told)}", [_aim(told), *batches, *failed, *of]
            case "delete":
                whom = ids(told.ids) if told.number <= len(told.ids) else count(told.number, "pod")
                return "killed", f"− {whom or 'all pods'}", [told.cause, *numbers, *told.repeated()]
            case "gone":
                some = [] if told.number <= len(told.ids) else [ids(told.ids)]
                return "killed", f"gone {told.few}", [*some, escaped(told.text, 100), told.cause, *told.repeated()]
            case "let go":
                why = why_killed(told.cause, told.facts, told.at)
                return "killed", f"{told.text} {told.few}", [why, *told.repeated()]
            case "set":
                return "quiet", f"{told.text} of {told.after:,}", [*told.repeated(), *of]
            case "exit":
                return "threw", f"exit code {told.after}", [told.cause, *numbers]
            case "threw":
                return "threw", f"{escaped(told.text, 40)} threw", [escaped(told.cause, 120), *told.repeated()]
            case _ if told.cause in SIDE_BOUNDS:
                verb = "kept" if "excess" in told.facts else "held"
                return "held", f"{verb} {told.number:,}", [f"by {bound_words(told.cause)}", told.lasted, *numbers, *of]
            case _:
                what, by = holding(told.cause, told.facts, told.number)
                return "held", what, [*by, told.lasted, *of]


def _moved(told: Told) -> list[str]:
    """Why a target moved; what dynamic allocation decided reads as in a replay of its event log."""
    if told.cause in (OUTSIDE, BACKEND):
        return [told.cause]
    if told.after >= told.before:
        return why_raised(told.cause, told.facts, told.before, told.after, {})
    return why_lowered(told.cause, told.facts, told.before, told.after, 1, 0)


def _range(told: Told) -> str:
    if told.number == 1:
        return f"pod {told.ids[0]}"
    return f"{told.number:,} pods ({told.ids[0]} to {told.last_id})"


def _aim(told: Told) -> str:
    facts = told.facts
    missing, target = facts.get("missing"), facts.get("target")
    if isinstance(missing, int) and isinstance(target, int):
        return f"{missing:,} missing of {target:,}"
    return told.cause
