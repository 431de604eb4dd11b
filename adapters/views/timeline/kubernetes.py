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
from podtide.adapters.views.timeline import decisions, reasons
from podtide.adapters.views.timeline.scaling_rows import TimelineRow, Words
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal, ScheduleThrew, Step
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.reasons import Fact, Held, Phase, Threw, Why

HEAD: Final = 60
TAIL: Final = 60
"""Moments at the beginning and at the end that are kept."""

APART_MAX: Final[Millis] = 5_000
"""Things of one kind this long after each other are told together."""

IDS_KEPT: Final = 8
CALLS_MAX: Final = 100_000
"""Creations under way whose outcomes are waited for."""

_SHOWN_FACTS: Final = ("profile", "missing", "excess", "executors", "snapshot", "pod", "executor")
"""Facts that a row says in other words, or that are of one pod among several."""


@dataclass
class MergedMoment:
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
        self._head: list[MergedMoment] = []
        self._tail: deque[MergedMoment] = deque(maxlen=TAIL)
        self._open: dict[tuple[Any, ...], MergedMoment] = {}
        self._calls: dict[int, MergedMoment] = {}
        self._targets: dict[int, int] = {}
        self._requests: dict[int, tuple[int, str, Mapping[str, Fact]]] = {}  # what was last asked for, and why
        self._known: object = None
        self._named = False

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
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
        for moment in self._open.values():
            if moment.held:
                moment.end = max(end, moment.at)
        for moment in sorted(self._open.values(), key=lambda moment: moment.order):
            self._keep(moment)
        self._open.clear()

    def rows(self) -> tuple[list[TimelineRow], int, list[TimelineRow]]:
        """The first moments, how many are left out, and the last ones."""
        head = sorted(self._head, key=lambda moment: (moment.at, moment.order))
        tail = sorted(self._tail, key=lambda moment: (moment.at, moment.order))
        left = self.total - len(head) - len(tail)
        return [self._row(moment) for moment in head], left, [self._row(moment) for moment in tail]

    # ---------------------------------------------------------------------------------------------------- collecting

    def _hear(self, now: Millis, stimulus: AnyStimulus) -> None:  # noqa: ARG002 - on YARN it becomes a moment
        if isinstance(stimulus, Outcome):
            self._answered(stimulus)

    def _decided(self, now: Millis, command: Command) -> None:
        """One command, but for the creation of a pod."""
        match command:
            case pc.DeletePods(executors=executors):
                self._merge(now, ("delete", command.why.cause, executors is None), command.why, executors or ())
            case pc.DeletePod(executor=executor):
                self._merge(now, ("delete", command.why.cause, False), command.why, (executor,))
            case ec.RemoveExecutor(executor=executor, reason=reason):
                key = ("gone", command.why.cause, reason.kind, reason.exit_code)
                moment = self._merge(now, key, command.why, (executor,))
                moment.text = moment.text or decisions.exit_words(reason._asdict())
            case Kill() | Decommission():
                why = command.departures[0].why
                moment = self._merge(now, ("let go", type(command), why.cause), why, command.executors)
                moment.text = "kill" if isinstance(command, Kill) else "decommission"
            case pc.CreateSet(replicas=replicas, kind=kind) | pc.ScaleSet(replicas=replicas, kind=kind):
                moment = self._run(now, ("set", kind, command.profile))
                moment.profile, moment.after, moment.text = command.profile, replicas, kind
            case ec.StopApplication(exit_code=code):
                self._merge(now, ("exit", code), command.why).after = code
            case _:
                pass

    def _threw(self, now: Millis, machine: str, what: str) -> None:
        moment = self._run(now, ("threw", machine, what[:200]))
        moment.text, moment.cause = machine, what

    def _merge(
        self, now: Millis, key: tuple[Any, ...], why: Why, executors: Sequence[object] = (), *, fresh: bool = False
    ) -> MergedMoment:
        """The moment that something of this kind belongs to, with these executors more; the first one's reason counts."""
        moment = self._run(now, key, fresh=fresh)
        if moment.moves == 1 and not moment.number:
            moment.cause, moment.facts = why.cause.value, why.facts
        moment.extend(executors)
        return moment

    def _run(self, now: Millis, key: tuple[Any, ...], *, fresh: bool = False) -> MergedMoment:
        """The moment that something of this kind belongs to."""
        moment = self._open.get(key)
        if moment is not None and not fresh and now - moment.end <= APART_MAX:
            moment.moves += 1
            moment.end = now
            return moment
        if moment is not None:
            self._keep(moment)
        self.total += 1
        moment = self._open[key] = MergedMoment(self.total, str(key[0]), now, now)
        if len(self._open) > HEAD + TAIL:
            oldest = next((k for k, one in self._open.items() if not one.held and one is not moment), None)
            if oldest is not None:
                self._keep(self._open.pop(oldest))
        return moment

    def _keep(self, moment: MergedMoment) -> None:
        if moment.order <= HEAD:
            self._head.append(moment)
        else:
            self._tail.append(moment)

    def _aims(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """Targets that moved, and why: as the pods allocator knows them, or as they were asked for where it has none."""
        requests = self._requests
        for stimulus in stimuli:
            if isinstance(stimulus, TargetsSet):
                for wanted, target in stimulus.targets:
                    requests[wanted] = target, reasons.OUTSIDE, {}
        for command in taken.commands:
            if isinstance(command, RequestTotal):
                for change in command.changes:
                    requests[change.profile] = change.after, change.why.cause.value, change.why.facts
        aimed = self._targets_in(taken.state)
        if aimed is None:
            targets = {profile: target for profile, (target, _, _) in requests.items()}
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
            wanted_target, cause, facts = requests.get(profile, (-1, reasons.BACKEND, {}))
            if wanted_target != after:
                cause, facts = reasons.BACKEND, {}
            key = ("target", profile)
            run = self._open.get(key)
            turned = run is not None and (run.cause != cause or (run.after < run.before) != (after < (before or 0)))
            moment = self._run(now, key, fresh=turned or cause in (reasons.OUTSIDE, reasons.BACKEND))
            if moment.moves == 1:
                moment.before = before or 0
            moment.profile, moment.after, moment.cause, moment.facts = profile, after, cause, facts

    def _targets_in(self, state: EngineState) -> Mapping[ProfileId, int] | None:
        """The targets that the side works towards; None where it keeps none of its own."""
        side = state.kubernetes
        return None if side is None or side.allocator is None else side.allocator.targets

    def _created(self, now: Millis, created: Sequence[pc.CreatePod]) -> None:
        by_profile: dict[int, list[pc.CreatePod]] = {}
        for command in created:
            by_profile.setdefault(command.profile, []).append(command)
        for profile, commands in by_profile.items():
            why, key = commands[0].why, ("create", profile)
            run = self._open.get(key)
            fresh = run is not None and run.facts.get("target") != why.facts.get("target")
            moment = self._merge(now, key, why, [command.executor for command in commands], fresh=fresh)
            moment.profile = profile
            for command in commands:
                if len(self._calls) < CALLS_MAX:
                    self._calls[command.serial] = moment

    def _answered(self, outcome: Outcome) -> None:
        moment = self._calls.pop(outcome.serial, None)
        if moment is not None and outcome.failure is not None:
            moment.failed += 1
            moment.text = decisions.failure_words(outcome.failure.status, outcome.failure.message)

    def _holds(self, report: Held) -> None:
        if report.executors:  # bounds of single executors come and go by the hundred
            return
        key = ("held", report.bound, report.profile)
        moment = self._open.get(key)
        if report.phase is Phase.ENDED:
            if moment is not None:
                moment.held, moment.end = False, report.at
            return
        if moment is None or not moment.held:
            moment = self._run(report.at, key)
            moment.held, moment.profile, moment.cause = True, report.profile, report.bound.value
        size = decisions.side_size(report.bound.value, report.facts)
        if not isinstance(size, int):
            size = reasons.peak_of(report.bound.value, report.facts)
        if size >= moment.number:
            moment.number, moment.facts = size, report.facts

    # --------------------------------------------------------------------------------------------------------- words

    def _row(self, moment: MergedMoment) -> TimelineRow:
        of = [f"profile {moment.profile}"] if self._named and moment.profile >= 0 else []
        return TimelineRow(moment.at, *self._words(moment, of))

    def _words(self, moment: MergedMoment, of: Sequence[str]) -> Words:
        """What a moment says. ``of``: its profile, where there is more than one."""
        numbers = decisions.facts_words(moment.facts, _SHOWN_FACTS)
        match moment.kind:
            case "target":
                mark = "raised" if moment.after >= moment.before else "lowered"
                parts = [*_moved(moment), *moment.repeated("steps"), *of]
                return mark, f"target {moment.before:,} → {moment.after:,}", parts
            case "create":
                batches = [f"{moment.moves:,} batches {moment.span}"] if moment.moves > 1 else []
                creations = count(moment.failed, "creation")
                failed = [f"{creations} failed: {escaped(moment.text, 80)}"] if moment.failed else []
                return "raised", f"+ {_range(moment)}", [_aim(moment), *batches, *failed, *of]
            case "delete":
                whom = ids(moment.ids) if moment.number <= len(moment.ids) else count(moment.number, "pod")
                return "killed", f"− {whom or 'all pods'}", [moment.cause, *numbers, *moment.repeated()]
            case "gone":
                some = [] if moment.number <= len(moment.ids) else [ids(moment.ids)]
                parts = [*some, escaped(moment.text, 100), moment.cause, *moment.repeated()]
                return "killed", f"gone {moment.few}", parts
            case "let go":
                cause = reasons.why_killed(moment.cause, moment.facts, moment.at)
                return "killed", f"{moment.text} {moment.few}", [cause, *moment.repeated()]
            case "set":
                return "quiet", f"{moment.text} of {moment.after:,}", [*moment.repeated(), *of]
            case "exit":
                return "threw", f"exit code {moment.after}", [moment.cause, *numbers]
            case "threw":
                return "threw", f"{escaped(moment.text, 40)} threw", [escaped(moment.cause, 120), *moment.repeated()]
            case _ if moment.cause in decisions.SIDE_BOUNDS:
                verb = "kept" if "excess" in moment.facts else "held"
                parts = [f"by {decisions.bound_words(moment.cause)}", moment.lasted, *numbers, *of]
                return "held", f"{verb} {moment.number:,}", parts
            case _:
                what, by = reasons.holding(moment.cause, moment.facts, moment.number)
                return "held", what, [*by, moment.lasted, *of]


def _moved(moment: MergedMoment) -> list[str]:
    """Why a target moved; what dynamic allocation decided reads as in a replay of its event log."""
    if moment.cause in (reasons.OUTSIDE, reasons.BACKEND):
        return [moment.cause]
    if moment.after >= moment.before:
        return reasons.why_raised(moment.cause, moment.facts, moment.before, moment.after, {})
    return reasons.why_lowered(moment.cause, moment.facts, moment.before, moment.after, 1, 0)


def _range(moment: MergedMoment) -> str:
    if moment.number == 1:
        return f"pod {moment.ids[0]}"
    return f"{moment.number:,} pods ({moment.ids[0]} to {moment.last_id})"


def _aim(moment: MergedMoment) -> str:
    facts = moment.facts
    missing, target = facts.get("missing"), facts.get("target")
    if isinstance(missing, int) and isinstance(target, int):
        return f"{missing:,} missing of {target:,}"
    return moment.cause
