"""Moments as rows for people: when, what, and why in words with the numbers.

A row is plain text in three fields, and a mark for the view to colour. The mark of a kill tells what the log knows of
it: executors that were removed confirm it, executors that went on working disprove it, and what the log never
mentions stays a proposal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from podtide.adapters.text.format import count, ids, lasting
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.timeline.reasons import holding, why_killed, why_lowered, why_raised, why_ramped
from podtide.adapters.views.timeline.scaling import Moment, MomentKind, TargetMove
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis

IDS_WIDTH: Final = 12
"""Characters up to which the ids of a kill stand in for their number."""


NAMED_MAX: Final = 3
"""Executors up to which those that disprove a kill are named."""


Words: TypeAlias = tuple[str, str, list[str]]
"""What a row says apart from its time: mark, what and why."""


SIGNS: Final = {"raised": "▲", "lowered": "▼", "killed": "×", "proposed": "?", "held": "■", "threw": "!", "quiet": " "}
"""What stands before a row, by its mark."""


class TimelineRow(NamedTuple):
    """``mark``: one of ``SIGNS``. ``why`` in parts."""

    at: Millis
    mark: str
    what: str
    why: list[str]


class Rows:
    """Turns moments into rows. ``waits``: cause to the timeout behind it; ``profiles``: those that have a target.

    ``proposed``: for single records, the executors whose kill the log left open, and when it was decided.
    """

    def __init__(
        self, waits: Mapping[str, Millis], profiles: set[int], proposed: Mapping[ExecutorId, Millis] | None = None
    ) -> None:
        self._waits = waits
        self._proposed: Mapping[Any, Millis] = proposed or {}
        self._named = profiles - {DEFAULT_PROFILE} != set()

    def of(self, moment: Moment, *, steps: bool) -> list[TimelineRow]:
        """The rows of a moment; with ``steps`` a rising target is told step by step, as far as they are kept."""
        match moment.kind:
            case MomentKind.RAISED:
                if steps and moment.moves > 1:
                    rows = [self._raised(step) for step in moment.steps]
                    if (left := moment.moves - len(moment.steps)) > 0:
                        rows.append(self._ramp(moment, moment.steps[-1].after, left))
                    return rows
                if moment.moves == 1:
                    return [self._raised(moment.steps[0])]
                return [self._ramp(moment, moment.before, moment.moves)]
            case MomentKind.LOWERED:
                return [self._lowered(moment)]
            case MomentKind.KILLED:
                if not moment.settled:
                    moment.unconfirmed = sum(self._proposed.get(one) == moment.at for one in moment.ids)
                return [_killed(moment)]
            case MomentKind.HELD:
                return [_single_hold(moment) if moment.what else _held(moment)]
            case MomentKind.THREW:
                span = [f"for {lasting(moment.end - moment.at)}"] if moment.end > moment.at else []
                return [TimelineRow(moment.at, "threw", "schedule() threw", [escaped(moment.what), *span])]
            case MomentKind.DISPROVED:
                why = ["it started a task: its kill was only proposed"]
                return [TimelineRow(moment.at, "proposed", f"{ids(moment.ids)} lives", why)]
            case MomentKind.REQUESTED:
                return [TimelineRow(moment.at, "quiet", "asked again", [_again(moment)])]

    def left_out(self, kinds: Counter[MomentKind]) -> str:
        """What is not shown between two rows."""
        names = {MomentKind.RAISED: "raise", MomentKind.LOWERED: "fall", MomentKind.KILLED: "round of kills"}
        many = {MomentKind.KILLED: "rounds of kills"}
        return ", ".join(count(kinds[kind], name, many.get(kind)) for kind, name in names.items() if kinds[kind])

    def _raised(self, step: TargetMove) -> TimelineRow:
        what = self._target(step.profile, step.before, step.after)
        if step.after == step.before:
            what = what.partition(" → ")[0]
        elif step.cause == "initial":
            what = self._target(step.profile, None, step.after)
        why = why_raised(step.cause, step.facts, step.before, step.after, self._waits)
        return TimelineRow(step.at, "raised", what, why)

    def _ramp(self, moment: Moment, before: int, moves: int) -> TimelineRow:
        last = moment.last
        assert last is not None
        why = why_ramped(last.facts, before, last.after, moves, moment.end - moment.at)
        return TimelineRow(moment.at, "raised", self._target(moment.profile, before, last.after), why)

    def _lowered(self, moment: Moment) -> TimelineRow:
        last = moment.last
        assert last is not None
        span = moment.end - moment.at
        why = why_lowered(last.cause, last.facts, moment.before, last.after, moment.moves, span)
        return TimelineRow(moment.at, "lowered", self._target(moment.profile, moment.before, last.after), why)

    def _target(self, profile: int, before: int | None, after: int) -> str:
        name = f"profile {profile}:" if self._named else "target"
        return f"{name} {after:,}" if before is None else f"{name} {before:,} → {after:,}"


def _killed(moment: Moment) -> TimelineRow:
    verb = "decommission" if moment.command == "decommissionExecutors" else "kill"
    named = ids(moment.ids) if moment.executors <= len(moment.ids) else ""
    short = named and len(named) <= IDS_WIDTH
    what = f"{verb} {named}" if short else f"{verb} {count(moment.executors, 'executor')}"
    parts = [why_killed(moment.cause, moment.facts, moment.at)]
    if moment.moves > 1:
        parts[0] += f", within {lasting(moment.end - moment.at)}"
    if named and not short:
        parts.append(f"ids {named}")
    open_ends = moment.disproved + moment.unconfirmed
    if moment.settled:
        confirmed = moment.executors - open_ends
        confirmation = (
            "confirmed" if not open_ends else f"{confirmed:,} confirmed" if confirmed > 0 else "only proposed"
        )
        parts.append(confirmation)
    if moment.disproved:
        named = f": {ids(moment.disproved_ids)}" if moment.disproved <= NAMED_MAX else ", they"
        parts.append(f"{moment.disproved:,} disproved{named} ran another task")
    if moment.unconfirmed:
        parts.append(f"{moment.unconfirmed:,} still there when the log ends")
    return TimelineRow(moment.at, "proposed" if open_ends else "killed", what, parts)


def _held(moment: Moment) -> TimelineRow:
    what, why = holding(moment.cause, moment.facts, moment.peak)
    span = lasting(moment.end - moment.at)
    return TimelineRow(moment.at, "held", what, [*why, f"for {span}" if moment.ended else f"to the end, {span}"])


def _single_hold(moment: Moment) -> TimelineRow:
    what, why = holding(moment.cause, moment.facts, moment.peak)
    if moment.ids:
        why = [*why, f"{'id' if len(moment.ids) == 1 else 'ids'} {ids(moment.ids)}"]
    return TimelineRow(moment.at, "quiet" if moment.what == "ended" else "held", what, [moment.what, *why])


def _again(moment: Moment) -> str:
    removed: Any = moment.facts.get("removed")
    return f"{moment.cause}: {count(removed, 'executor')}" if isinstance(removed, int) else escaped(moment.cause)
