"""Everything that enters the core and everything that it decides, as lines of a recording and back.

Stimuli are objects that open with ``stimulus``, the name of their class; ``at_ms`` is left out where it is the line's
own. Pods in them go through the table of ``recording.pods``. A stimulus with many pods is cut into pieces: the object
that follows as ``MorePods`` holds further pods of the one before it, so that no line grows without bound.

What was decided are decision records (``recording.records.decisions``) with what those leave out, so that the very
command can be made of them again: ``serial``; of a request the locality hints and every change by itself; of kills and
decommissions the profile and the facts of each id; doubles that JSON has no word for. A record of a recording is
therefore a decision record too, and whoever reads those reads these.

Nothing is taken on trust: every line is decoded against the types of the domain, unknown names and fields are refused,
and what only fits together (pods that are ``same``, lists of equal length) is checked. All complaints are
``UnreadableLine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from pyrsistent import pmap

from podtide.adapters.recording.pods import STEP_PODS_MAX, PodsDamaged, PodTable, PodWire, whole
from podtide.adapters.recording.records.codec import FactsWire, Form, Plain, Record, one_of, spelled_facts, why_of
from podtide.adapters.recording.records.commands import command_record, pod_command_forms
from podtide.adapters.recording.records.decisions import report_record
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol import stimuli
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import (
    Decommission,
    Departure,
    Kill,
    Report,
    RequestTotal,
    ScheduleThrew,
    TargetChange,
)
from podtide.domain.protocol.pod_stimuli import (
    CreationFailed,
    KnownExecutors,
    Outcome,
    PodsReplaced,
    PodStimulus,
    PodsUpdated,
)
from podtide.domain.protocol.pods import PodManifest
from podtide.domain.protocol.reasons import Cause, Held, Remark, Threw
from podtide.domain.protocol.yarn_messages import YarnStimulus

RecordedStimulus: TypeAlias = stimuli.Stimulus | PodStimulus | KnownExecutors | CreationFailed | YarnStimulus
"""What a step may take: all that arrives from outside, and what one machine tells another."""

Decided: TypeAlias = Command | Report

MORE_PODS: Final = "MorePods"

_REPORTS: Final = {"held": Held, "schedule threw": ScheduleThrew, "round threw": Threw, "remark": Remark}


class UnreadableLine(Exception):
    """A line, or a part of it, that is not what a recording holds; the message says what is wrong, and where in it."""


class MorePods(Struct, frozen=True, forbid_unknown_fields=True, tag_field="stimulus", tag=MORE_PODS):
    """Further pods of the stimulus before."""

    pods: list[PodWire | int]


class ViewWire(Struct, frozen=True, forbid_unknown_fields=True):
    """What the writer knew before a full snapshot: pods, and how many of the snapshot are not known or otherwise."""

    known: int
    differ: int


class EndWire(Struct, frozen=True):
    """The last line: the recording is complete."""

    steps: int
    reason: str = ""


class ChangeWire(Struct, frozen=True, forbid_unknown_fields=True):
    """One target of a request."""

    profile: int
    before: int
    after: int
    cause: Cause
    facts: FactsWire


class RequestWire(Struct, frozen=True, forbid_unknown_fields=True, tag_field="command", tag="requestTotalExecutors"):
    """RequestTotal. ``reason``: the facts of the leading reason, where one change has others."""

    at_ms: int
    serial: int
    targets: dict[int, int]
    changes: list[ChangeWire]
    cause: Cause
    facts: FactsWire
    locality_tasks: dict[int, int] = {}
    host_tasks: dict[int, dict[str, int]] = {}
    reason: FactsWire | UnsetType = UNSET


class KillWire(Struct, frozen=True, forbid_unknown_fields=True, tag_field="command", tag="killExecutors"):
    """Kill. ``profiles`` and ``reasons`` (facts) are those of each id, as ``causes`` are."""

    at_ms: int
    serial: int
    ids: list[str]
    cause: Cause
    facts: FactsWire
    causes: list[Cause]
    profiles: list[int]
    reasons: list[FactsWire]


class DecommissionWire(KillWire, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="decommissionExecutors"):
    """Decommission."""

    message: str


# --------------------------------------------------------------------------------------------------------------- stimuli


@cache
def stimulus_forms() -> dict[type, Record]:
    """The plain form of every stimulus, by its class."""
    kinds = [kind for part in get_args(RecordedStimulus) for kind in (get_args(part) or (part,))]
    pods = {tuple[PodManifest, ...]: Form(list[PodWire | int])}
    return {
        kind: Record(kind, tag=("stimulus", kind.__name__), optional=frozenset({"at"}), forms=pods) for kind in kinds
    }


def written(stimulus: RecordedStimulus, now: Millis, table: PodTable) -> tuple[Plain, list[Any] | None]:
    """A stimulus as plain data for a line of ``now``, without its pods; and these, if it is one that has some."""
    plain = stimulus_forms()[type(stimulus)].plain(stimulus)
    if plain["at_ms"] == now:
        del plain["at_ms"]
    match stimulus:
        case PodsUpdated():
            del plain["pods"]
            return plain, list(table.written(stimulus.pods))
        case PodsReplaced() | Outcome():
            if plain.pop("pods", None) is None:
                return plain, None
            return plain, table.list_written(stimulus.pods)
        case _:
            return plain, None


class StimulusBatch:
    """The stimuli of one step while its lines are read; ``add`` takes what a line holds."""

    def __init__(self, at: Millis, table: PodTable) -> None:
        self.at = at
        self._table = table
        self._wires: list[Any] = []
        self._more: dict[int, list[Any]] = {}

    def add(self, wires: list[Any]) -> None:
        """The stimuli of one more line."""
        for wire in wires:
            if not isinstance(wire, MorePods):
                self._wires.append(wire)
                continue
            pods = getattr(self._wires[-1], "pods", UNSET) if self._wires else UNSET
            if pods is UNSET or not _of_pods(self._wires[-1]):
                raise UnreadableLine(f"{MORE_PODS}, and no stimulus with pods before it")
            self._more.setdefault(len(self._wires) - 1, list(pods)).extend(wire.pods)

    def values(self) -> tuple[RecordedStimulus, ...]:
        """All of them, in order; their pods enter the table."""
        room = STEP_PODS_MAX
        values: list[RecordedStimulus] = []
        for index, wire in enumerate(self._wires):
            kind = _kinds()[type(wire)]
            record = stimulus_forms()[kind]
            if not _of_pods(wire):
                values.append(_made(record, wire, at=self.at))
                continue
            given = {"at": self.at, **record.given(wire)}
            parts = self._more.get(index, given.get("pods", []))
            try:
                # The outcome of a call that lists nothing leaves the table alone.
                listing = parts if kind is PodsReplaced or (kind is Outcome and parts) else None
                pods = self._table.read(parts) if listing is None else self._table.list_read(listing, room)
            except PodsDamaged as problem:
                raise UnreadableLine(f"stimulus {index + 1}: {problem}") from None
            room -= len(pods)
            if room < 0:
                raise UnreadableLine(f"more than {STEP_PODS_MAX:,} pods in one step")
            values.append(kind(**{**given, "pods": pods}))
        for index, stimulus in enumerate(values):
            if stimulus.at > self.at:
                raise UnreadableLine(f"stimulus {index + 1}: at_ms {stimulus.at} is later than the line's")
        return tuple(values)


def _made(record: Record, wire: Any, **known: Any) -> Any:
    try:
        return record.value(wire, **known)
    except ValueError as problem:
        raise UnreadableLine(f"{record.kind.__name__}: {problem}") from None


def _of_pods(wire: Any) -> bool:
    return _kinds()[type(wire)] in (PodsUpdated, PodsReplaced, Outcome)


@cache
def _kinds() -> dict[type, type]:
    return {record.wire: kind for kind, record in stimulus_forms().items()}


# --------------------------------------------------------------------------------------------------------------- decided


def decided_record(item: Decided) -> Plain:
    """A command or a report as a record of a recording: its decision record, and what that leaves out."""
    record: Plain
    match item:
        case RequestTotal():
            record = {
                **command_record(item),
                "serial": item.serial,
                "changes": [
                    {"profile": c.profile, "before": c.before, "after": c.after, "cause": c.why.cause.value,
                     "facts": spelled_facts(c.why.facts)}
                    for c in item.changes
                ],
            }  # fmt: skip
            if item.locality_tasks:
                record["locality_tasks"] = {str(profile): tasks for profile, tasks in item.locality_tasks.items()}
            if item.host_tasks:
                record["host_tasks"] = {str(profile): dict(hosts) for profile, hosts in item.host_tasks.items()}
            if len(item.changes) == 1 and item.changes[0].why.facts != item.why.facts:
                record["reason"] = spelled_facts(item.why.facts)
        case Kill() | Decommission():
            record = {
                **command_record(item),
                "serial": item.serial,
                "profiles": [departure.profile for departure in item.departures],
                "reasons": [spelled_facts(departure.why.facts) for departure in item.departures],
            }
            if isinstance(item, Decommission):
                record["message"] = item.message
        case Held() | ScheduleThrew() | Threw() | Remark():
            record = report_record(item)
        case _:
            record = command_record(item)
    if "facts" in record:
        record["facts"] = spelled_facts(record["facts"])
    return record


def decided_value(record: Plain) -> Decided:
    """The command or report that a record of a recording stands for. Raises UnreadableLine."""
    if "command" not in record and "report" not in record:
        raise UnreadableLine("neither command nor report; a decision record was expected")
    forms = _commands() if "command" in record else _reports()
    try:
        wire = msgspec.convert(record, forms.wire, str_keys=True)
    except msgspec.ValidationError as problem:
        raise UnreadableLine(str(problem)) from None
    if isinstance(wire, RequestWire):
        return _request(wire)
    if isinstance(wire, KillWire):
        return _departing(wire)
    made: Decided = _made(forms.records[type(wire)], wire)
    return made


class _Forms(NamedTuple):
    wire: Any
    records: dict[type, Record]


@cache
def _commands() -> _Forms:
    records = {record.wire: record for record in pod_command_forms().values()}
    return _Forms(one_of((RequestWire, KillWire, DecommissionWire, *records)), records)


@cache
def _reports() -> _Forms:
    records = {}
    for name, kind in _REPORTS.items():
        record = Record(kind, tag=("report", name), names={"executors": "ids"})
        records[record.wire] = record
    return _Forms(one_of(records), records)


def _request(wire: RequestWire) -> RequestTotal:
    changes = tuple(
        TargetChange(ProfileId(c.profile), c.before, c.after, why_of(c.cause, c.facts)) for c in wire.changes
    )
    facts = wire.facts if wire.reason is UNSET else wire.reason
    if len(changes) == 1 and wire.reason is UNSET:
        facts = wire.changes[0].facts
    return RequestTotal(
        wire.at_ms,
        wire.serial,
        pmap({ProfileId(profile): count for profile, count in wire.targets.items()}),
        {ProfileId(profile): tasks for profile, tasks in wire.locality_tasks.items()},
        {ProfileId(profile): hosts for profile, hosts in wire.host_tasks.items()},
        changes,
        why_of(wire.cause, facts),
    )


def _departing(wire: KillWire) -> Kill | Decommission:
    counts = {len(column) for column in (wire.ids, wire.causes, wire.profiles, wire.reasons)}
    if counts == {0} or len(counts) > 1:
        raise UnreadableLine("ids, causes, profiles and reasons of equal length, at least one, were expected")
    departures = tuple(
        Departure(ExecutorId(executor), ProfileId(profile), why_of(cause, facts))
        for executor, profile, cause, facts in zip(wire.ids, wire.profiles, wire.causes, wire.reasons, strict=True)
    )
    if isinstance(wire, DecommissionWire):
        return Decommission(wire.at_ms, wire.serial, departures, wire.message)
    return Kill(wire.at_ms, wire.serial, departures)


# ----------------------------------------------------------------------------------------------------------------- lines


@cache
def line_type() -> Any:
    """What a line after the header may hold, as a type to decode."""
    stimulus: Any = one_of([record.wire for record in stimulus_forms().values()] + [MorePods])
    return msgspec.defstruct(
        "Line",
        [
            ("at_ms", int),
            ("stimuli", list[stimulus] | UnsetType, UNSET),
            ("decided", list[dict[str, Any]] | UnsetType, UNSET),
            ("view", ViewWire | UnsetType, UNSET),
            ("full", list[PodWire] | UnsetType, UNSET),
            ("end", EndWire | UnsetType, UNSET),
            ("more", bool, False),
        ],
        frozen=True,
        forbid_unknown_fields=True,
    )


def manifests(wires: Iterable[Any]) -> tuple[PodManifest, ...]:
    """The pods of a full snapshot, each whole. Raises UnreadableLine."""
    try:
        return tuple(map(whole, wires))
    except PodsDamaged as problem:
        raise UnreadableLine(f"full: {problem}") from None


def decided_values(records: Sequence[Plain], first: int) -> Iterator[Decided]:
    """What records stand for; ``first``: the place of the first of them in its step, for complaints."""
    for index, record in enumerate(records):
        try:
            yield decided_value(record)
        except UnreadableLine as problem:
            raise UnreadableLine(f"decided[{first + index}]: {problem}") from None
