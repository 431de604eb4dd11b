"""The state of the core as bytes and back, so that tests can stop a run and go on with it in another process.

That holds the core to its promise: everything that a decision depends on is in the state.

The bytes are one JSON object: ``podtide_state`` (the version of the form), ``sha256`` of the text of ``state`` as it
stands, and ``state``. Every field that a later decision may read is in it; what can be derived from others is
derived anew, and what has just happened (the signals of the last step) is of the past. The config is not part of
a state: who resumes a run brings it along.

A reader trusts nothing. The digest finds damage, the types of the records below are checked while they are decoded,
and references between the parts are checked before a state is made of them; whatever is wrong raises ``StateError``
with the place and what was expected there.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct
from pyrsistent import pmap

from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.jvm.hash_order import walk_order
from podtide.domain.protocol.commands import Departure
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.reasons import Bound, Cause, Fact, Why
from podtide.domain.protocol.resource_profiles import from_added
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.scaling import executor_monitor, load as loads
from podtide.domain.scaling.dynamic_allocation import State
from podtide.domain.scaling.executor_monitor import Idleness
from podtide.domain.scaling.executor_trackers import SCALARS, Limits, MonitorTables, Removals, Tracker
from podtide.domain.scaling.load import Load
from podtide.domain.scaling.load_tables import Attempt, Hint, LoadTables
from podtide.domain.scaling.state import Awaiting, Removing, Resyncing, ScalingState, TargetUpdate, Updating

STATE_VERSION: Final = 1
"""The version of the form that ``encode`` writes and ``decode`` reads."""


Part = TypeVar("Part")


class StateError(Exception):
    """Bytes that are no state: what was found, where, and what was expected."""


Double: TypeAlias = float | Literal["NaN", "Infinity", "-Infinity"]
"""A double; JSON has no word for the last three, so they are spelled as Spark's JSON spells them."""

Pairs: TypeAlias = list[tuple[int, int]]
Amounts: TypeAlias = list[tuple[str, Double]]
FactValue: TypeAlias = int | float | str | None

AttemptRow: TypeAlias = tuple[
    int, int, int | None, int, list[int] | None, list[int] | None, list[int] | None, list[int], bool
]
"""stage, attempt, tasks, running, started, speculative started, speculative pending, profiles, unschedulable."""

HintRow: TypeAlias = tuple[int, int, int, list[tuple[str, int]], int]
"""stage, attempt, tasks with preferences, tasks per host, profile."""

TrackerRow: TypeAlias = tuple[str, int, int, int, int, bool, bool, bool, bool, list[tuple[int, list[int]]], list[int]]
"""executor, profile, running, idle since, deadline, timed out, pending removal, decommissioning, shuffle active,
cached splits per RDD, shuffles."""


class _Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A record whose keys are all there and all known."""


class LoadPart(_Strict, frozen=True):
    """A load: its attempts, hints and announced profiles."""

    attempts: list[AttemptRow]
    hints: list[HintRow]
    hinted: bool
    seen: list[int]
    profiles: list[tuple[int, list[tuple[str, int]], Amounts]]


class IdlenessPart(_Strict, frozen=True):
    """An idleness: its trackers, shuffles and jobs, and the cached list."""

    limits: tuple[int, int, int, bool, bool]
    trackers: list[TrackerRow]
    active: list[str]
    next_timeout: int
    listed: list[tuple[str, int]]
    shuffle_jobs: list[tuple[int, list[int]]]
    stage_shuffle: Pairs
    job_stages: list[tuple[int, list[int]]]
    removals: tuple[int, int, int, int]
    kept: list[tuple[str, Bound, int]]


class Reason(_Strict, frozen=True):
    """A cause and its facts."""

    cause: Cause
    facts: dict[str, FactValue]


class UpdatePart(_Strict, frozen=True):
    """One target in the request under way."""

    profile: int
    before: int
    after: int
    why: Reason


class DeparturePart(_Strict, frozen=True):
    """One executor to let go."""

    executor: str
    profile: int
    why: Reason


class UpdatingPart(_Strict, frozen=True, tag="updating", tag_field="stage"):
    """The round waits for the answer to the request that moves targets."""

    serial: int
    at: int
    updates: list[UpdatePart]


class RemovingPart(_Strict, frozen=True, tag="removing", tag_field="stage"):
    """The round waits to hear which executors will go."""

    serial: int
    at: int
    departures: list[DeparturePart]


class ResyncingPart(_Strict, frozen=True, tag="resyncing", tag_field="stage"):
    """The round waits for the answer to the request after a removal."""

    serial: int
    at: int
    asked: list[DeparturePart]
    removed: list[str]


class RulesPart(_Strict, frozen=True):
    """The profile rules under which ``slots`` were worked out."""

    executor_cores: int
    cores_limit_known: bool
    task_cpus: Decimal
    executor_resources: list[tuple[str, int]]
    task_resources: Amounts
    profiles_supported: bool


class ScalingPart(_Strict, frozen=True):
    """The fields of ``ScalingState``. The order of the profiles follows from their numbers and the buckets."""

    targets: Pairs
    to_add: Pairs
    idleness: IdlenessPart
    add_time: int
    initializing: bool
    sustained: bool
    stopped: bool
    serial: int
    awaiting: UpdatingPart | RemovingPart | ResyncingPart | None
    thrown: str | None
    holds: list[tuple[Bound, int, list[tuple[str, FactValue]]]]
    slots: Pairs
    rules: RulesPart | None
    buckets: int


class StatePart(_Strict, frozen=True):
    """Everything."""

    load: LoadPart
    scaling: ScalingPart


class _Envelope(Struct, frozen=True):
    podtide_state: int
    sha256: str
    state: Raw


# ------------------------------------------------------------------------------------------------------------ encode


def encode(state: State) -> bytes:
    """The state as JSON, UTF-8, one line without its end."""
    scaling = state.scaling
    bounds = [(bound, profile, list(facts)) for (bound, profile), facts in scaling.bounds.items()]
    part = ScalingPart(
        targets=sorted(scaling.targets.items()),
        to_add=sorted(scaling.to_add.items()),
        idleness=idleness_part(scaling.idleness),
        add_time=scaling.add_time,
        initializing=scaling.initializing,
        sustained=scaling.sustained,
        stopped=scaling.stopped,
        serial=scaling.serial,
        awaiting=None if scaling.awaiting is None else _awaiting_part(scaling.awaiting),
        thrown=scaling.thrown,
        holds=sorted(bounds, key=lambda row: (row[0].value, row[1])),
        slots=sorted(scaling.slots.items()),
        rules=None if scaling.rules is None else _rules_part(scaling.rules),
        buckets=scaling.buckets,
    )
    body = msgspec.json.encode(StatePart(load_part(state.load), part))
    digest = sha256(body).hexdigest()
    return msgspec.json.encode(_Envelope(STATE_VERSION, digest, Raw(body)))


def load_part(load: Load) -> LoadPart:
    """The load as it is stored. Signals and recent stimuli are of the past: left out."""
    tables = load.tables()
    return LoadPart(
        attempts=[
            (*a.key, a.tasks, a.running, _sorted(a.started), _sorted(a.spec_started), _sorted(a.spec_pending),
             list(a.profiles), a.unschedulable)
            for a in tables.attempts.values()
        ],
        hints=[(*key, hint.tasks, list(hint.hosts), hint.profile) for key, hint in tables.hints.items()],
        hinted=tables.hinted,
        seen=sorted(tables.seen),
        profiles=[
            (profile.id, list(profile.executor), _amounts(profile.task))
            for announced in tables.profiles.values()
            for profile in announced
        ],
    )  # fmt: skip


def _sorted(indices: set[int] | None) -> list[int] | None:
    return None if indices is None else sorted(indices)


def idleness_part(idleness: Idleness) -> IdlenessPart:
    """The idleness as it is stored."""
    tables = idleness.tables()
    shuffles: dict[ExecutorId, list[int]] = {executor: [] for executor in tables.trackers}
    for shuffle in sorted(tables.holders):
        for tracker in tables.holders_of(shuffle):
            shuffles[tracker.id].append(shuffle)
    return IdlenessPart(
        limits=tables.limits,
        trackers=[
            (t.id, t.profile, t.running, t.idle_start, t.timeout_at, t.timed_out, t.pending_removal, t.decommissioning,
             t.active_shuffle, [(rdd, sorted(splits)) for rdd, splits in t.cached.items()], shuffles[t.id])
            for t in tables.trackers.values()
        ],
        active=sorted(tables.active),
        next_timeout=tables.next_timeout,
        listed=list(tables.listed.items()),
        shuffle_jobs=[(shuffle, list(jobs)) for shuffle, jobs in tables.shuffle_jobs.items()],
        stage_shuffle=list(tables.stage_shuffle.items()),
        job_stages=[(job, list(stages)) for job, stages in tables.job_stages.items()],
        removals=tables.removals,
        kept=[(executor, bound, profile) for executor, (bound, profile) in tables.kept.items()],
    )  # fmt: skip


def _awaiting_part(awaiting: Awaiting) -> UpdatingPart | RemovingPart | ResyncingPart:
    match awaiting:
        case Updating(serial, at, updates):
            return UpdatingPart(serial, at, [UpdatePart(u.profile, u.before, u.after, _reason(u.why)) for u in updates])
        case Removing(serial, at, departures):
            return RemovingPart(serial, at, _departure_parts(departures))
        case Resyncing(serial, at, asked, removed):
            return ResyncingPart(serial, at, _departure_parts(asked), list(removed))


def _departure_parts(departures: tuple[Departure, ...]) -> list[DeparturePart]:
    return [DeparturePart(d.executor, d.profile, _reason(d.why)) for d in departures]


def _reason(why: Why) -> Reason:
    return Reason(why.cause, dict(sorted(why.facts.items())))


def _rules_part(rules: ProfileRules) -> RulesPart:
    return RulesPart(
        rules.executor_cores,
        rules.cores_limit_known,
        rules.task_cpus,
        list(rules.executor_resources),
        _amounts(rules.task_resources),
        rules.profiles_supported,
    )


def _amounts(amounts: Any) -> Amounts:
    return [(name, _spelled(amount)) for name, amount in amounts]


def _spelled(amount: float) -> Double:
    if isfinite(amount):
        return amount
    if amount != amount:  # noqa: PLR0124 - NaN
        return "NaN"
    return "Infinity" if amount > 0 else "-Infinity"


# ------------------------------------------------------------------------------------------------------------ decode


def decode(data: bytes) -> State:
    """The state that ``encode`` wrote. Raises StateError on anything else; memory in proportion to ``data``."""
    envelope = _parsed(data, _Envelope, "a stored state")
    if envelope.podtide_state != STATE_VERSION:
        raise StateError(
            f"podtide_state: expected version {STATE_VERSION}, got {envelope.podtide_state}: "
            "written by another version of podtide"
        )
    body = bytes(envelope.state)
    digest = sha256(body).hexdigest()
    if digest != envelope.sha256:
        raise StateError(f"state: expected text with the sha256 {envelope.sha256!r}, got {digest!r}: damaged or edited")
    part = _parsed(body, StatePart, "state")
    _check(part)
    try:
        load = load_of(part.load)
        idleness = idleness_of(part.scaling.idleness)
    except (KeyError, TypeError, ValueError, ArithmeticError) as fault:
        raise StateError(f"state: expected parts that fit together, got {fault!r}") from fault
    scaling = part.scaling
    targets = pmap(_profiles(scaling.targets))
    return State(
        load,
        ScalingState(
            targets=targets,
            to_add=pmap(_profiles(scaling.to_add)),
            order=walk_order(targets, scaling.buckets),
            buckets=scaling.buckets,
            idleness=idleness,
            add_time=scaling.add_time,
            initializing=scaling.initializing,
            sustained=scaling.sustained,
            stopped=scaling.stopped,
            serial=scaling.serial,
            awaiting=None if scaling.awaiting is None else _awaiting(scaling.awaiting),
            thrown=scaling.thrown,
            bounds=pmap({(bound, ProfileId(p)): tuple(facts) for bound, p, facts in scaling.holds}),
            slots=pmap(_profiles(scaling.slots)),
            rules=None if scaling.rules is None else _rules(scaling.rules),
        ),
    )


def _parsed(data: bytes, kind: type[Part], what: str) -> Part:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as fault:
        raise StateError(f"{what}: {fault}") from fault
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise StateError(
            f"{what}: expected JSON that podtide wrote, got {len(data)} bytes of which: {fault}"
        ) from fault


def _check(part: StatePart) -> None:
    """What the types cannot say: parts that refer to each other do."""
    scaling, idleness = part.scaling, part.scaling.idleness
    increments = {profile for profile, _ in scaling.to_add}
    targets = {profile for profile, _ in scaling.targets}
    _expect(bool(targets), "state.scaling.targets: expected at least one profile, got none")
    for profile in sorted(targets - increments):
        _expect(False, f"state.scaling.to_add: expected an increment for profile {profile}, got none")
    if scaling.rules is not None:
        cpus = scaling.rules.task_cpus
        _expect(cpus.is_finite(), f"state.scaling.rules.task_cpus: expected a number, got {cpus}")
    if isinstance(scaling.awaiting, UpdatingPart):
        _expect(bool(scaling.awaiting.updates), "state.scaling.awaiting.updates: expected at least one, got none")
        for update in scaling.awaiting.updates:
            _expect(
                update.profile in targets,
                f"state.scaling.awaiting.updates: expected profiles with a target, got {update.profile}",
            )
    for name, rows in (
        ("load.attempts", [row[:2] for row in part.load.attempts]),
        ("load.hints", [row[:2] for row in part.load.hints]),
        ("scaling.targets", [row[0] for row in scaling.targets]),
        ("scaling.idleness.trackers", [row[0] for row in idleness.trackers]),
        ("scaling.idleness.listed", [row[0] for row in idleness.listed]),
        ("scaling.idleness.kept", [row[0] for row in idleness.kept]),
    ):
        _expect(len(set(rows)) == len(rows), f"state.{name}: expected every key once, got one twice")
    for row in part.load.attempts:
        _expect(row[3] >= 0, f"state.load.attempts: expected running tasks from 0 on, got {row[3]}")
    for tracker in idleness.trackers:
        _expect(tracker[2] >= 0, f"state.scaling.idleness.trackers: expected running tasks from 0 on, got {tracker[2]}")


def _expect(holds: bool, complaint: str) -> None:
    if not holds:
        raise StateError(complaint)


def load_of(part: LoadPart) -> Load:
    """The load that ``load_part`` stored. Raises KeyError, TypeError or ValueError if its rows do not fit together."""
    tables = LoadTables()
    for stage, number, tasks, running, started, spec_started, spec_pending, profiles, unschedulable in part.attempts:
        attempt = Attempt((stage, number), tasks, running, _set(started), _set(spec_started), _set(spec_pending))
        attempt.profiles, attempt.unschedulable = tuple(map(ProfileId, profiles)), unschedulable
        tables.attempts.put(attempt.key, attempt)
    for stage, number, tasks, hosts, profile in part.hints:
        tables.hints.put((stage, number), Hint(tasks, tuple(hosts), ProfileId(profile)))
    tables.hinted = part.hinted
    tables.seen.update(map(ProfileId, part.seen))
    for profile, executor, task in part.profiles:
        known = ProfileId(profile)
        amounts = tuple((name, float(amount)) for name, amount in task)
        announced = from_added(ResourceProfileAdded(0, known, tuple(executor), amounts))
        tables.profiles.put(known, (*tables.profiles.get(known, ()), announced))
    return loads.restored(tables)


def _set(indices: list[int] | None) -> set[int] | None:
    return None if indices is None else set(indices)


def idleness_of(part: IdlenessPart) -> Idleness:
    """The idleness that ``idleness_part`` stored. Raises as ``load_of`` does."""
    tables = MonitorTables(Limits(*part.limits))
    for executor, profile, *scalars, cached, shuffles in part.trackers:
        tracker = Tracker(ExecutorId(executor), ProfileId(profile))
        for name, value in zip(SCALARS, scalars, strict=True):
            setattr(tracker, name, value)
        tracker.cached = {rdd: set(splits) for rdd, splits in cached}
        tracker.shuffles = len(shuffles)
        tables.name(tracker)
        tables.trackers.put(tracker.id, tracker)
        for shuffle in shuffles:
            tables.holders.put(shuffle, tables.holders.get(shuffle, 0) | tracker.mark)
    tables.active.update(map(ExecutorId, part.active))
    tables.next_timeout = part.next_timeout
    tables.listed.update((ExecutorId(executor), ProfileId(profile)) for executor, profile in part.listed)
    tables.shuffle_jobs.update((shuffle, tuple(jobs)) for shuffle, jobs in part.shuffle_jobs)
    tables.stage_shuffle.update(part.stage_shuffle)
    tables.job_stages.update((job, tuple(stages)) for job, stages in part.job_stages)
    tables.removals = Removals(*part.removals)
    tables.kept.update((ExecutorId(executor), (bound, ProfileId(profile))) for executor, bound, profile in part.kept)
    return executor_monitor.restored(tables)


def _profiles(pairs: Pairs) -> Mapping[ProfileId, int]:
    return {ProfileId(profile): number for profile, number in pairs}


def _awaiting(part: UpdatingPart | RemovingPart | ResyncingPart) -> Awaiting:
    match part:
        case UpdatingPart():
            updates = (TargetUpdate(ProfileId(u.profile), u.before, u.after, _why(u.why)) for u in part.updates)
            return Updating(part.serial, part.at, tuple(updates))
        case RemovingPart():
            return Removing(part.serial, part.at, _departures(part.departures))
        case ResyncingPart():
            removed = tuple(map(ExecutorId, part.removed))
            return Resyncing(part.serial, part.at, _departures(part.asked), removed)


def _departures(parts: list[DeparturePart]) -> tuple[Departure, ...]:
    return tuple(Departure(ExecutorId(d.executor), ProfileId(d.profile), _why(d.why)) for d in parts)


def _why(reason: Reason) -> Why:
    facts: dict[str, Fact] = dict(reason.facts)
    return Why(reason.cause, pmap(facts))


def _rules(part: RulesPart) -> ProfileRules:
    return ProfileRules(
        part.executor_cores,
        part.cores_limit_known,
        part.task_cpus,
        tuple(part.executor_resources),
        tuple((name, float(amount)) for name, amount in part.task_resources),
        part.profiles_supported,
    )
