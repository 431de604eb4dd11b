"""Where the executors of a rerun come from: a plain resource manager, asked by dynamic allocation or for a static count.

``Plain`` gives what it is asked for, as far as there is room: each executor takes its start-up (``startup``), stays until it
is told to go or is taken, and a moment longer. What is on its way is not called back when the target falls; it comes, idles
and is let go, as on a standalone cluster. The decisions are the production core's (``engine.step`` of a
``ScalingConfig``); nothing here decides how many executors there should be.

It also says what keeps executors away from tasks that wait (``shortage``): those on their way, those that there is no room
for, and those that nobody has asked for yet, by the rule that held the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from podtide.domain import engine
from podtide.domain.base.randomness import HOUR_MS, log, split, stream, unit
from podtide.domain.base.units import DEFAULT_PROFILE, LAST_MS, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.engine import State
from podtide.domain.protocol.commands import Command, Decommission, Kill, Report, RequestTotal
from podtide.domain.protocol.config import TICK_INTERVAL_MS, ScalingConfig
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase
from podtide.domain.protocol.stimuli import (
    Answer,
    ExecutorAdded,
    ExecutorRemoved,
    ListenerEvent,
    ResourceProfileAdded,
    Stimulus,
    Tick,
)
from podtide.domain.recorded.application import Application, main_profile, peaks
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.ledger.causes import Cause as Spent, Limit
from podtide.domain.rerun.ledger.ledger import Book
from podtide.domain.rerun.outcome import Decision
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.rows import Standing
from podtide.domain.rerun.start_up import Starts
from podtide.domain.rerun.tasks import Tasks

NO_END: Final = 2**62
"""Tasks that may end before anything depends on it: as many as there are."""

LIMITS: Final = tuple(Limit)
_HELD: Final = {Bound.CACHED_DATA: Spent.CACHED, Bound.SHUFFLE_DATA: Spent.SHUFFLE}
_RAMPED: Final = frozenset({Cause.BACKLOG, Cause.SUSTAINED_BACKLOG})

_SPOT: Final = 11
_REMOVAL: Final = 12


class Leaving(NamedTuple):
    """An executor's removal to come. ``lost``: by nobody's wish."""

    at: Millis
    row: int
    lost: bool


class Needs(NamedTuple):
    """Executors of a profile: that its tasks could keep busy, that the ratio allows, asked for, on their way, there."""

    needed: int
    allowed: int
    target: int
    coming: int
    there: int


def missing_by_limit(needs: Iterable[Needs], most: int, *, ramped: bool) -> tuple[int, ...]:
    """How many executors each limit keeps away from tasks that wait, in the order of ``Limit``.

    The missing ones are, in this order: those on their way (start-up); those asked for that do not come (capacity); those
    above the maximum; those that the ratio forgoes; the rest is the ramp's, or before its first step the backlog timeout's.
    """
    counts = dict.fromkeys(LIMITS, 0)
    for needed, allowed, target, coming, there in needs:
        left = needed - there
        if left <= 0:
            continue
        for limit, count in (
            (Limit.START_UP, coming),
            (Limit.CAPACITY, target - there - coming),
            (Limit.MAXIMUM, needed - max(most, target)),
            (Limit.RATIO, min(needed, most) - max(allowed, target)),
        ):
            part = min(left, max(0, count))
            counts[limit] += part
            left -= part
        counts[Limit.RAMP if ramped else Limit.BACKLOG_TIMEOUT] += left
    return tuple(counts.values())


def needs_of(
    tasks: Tasks,
    ratio: float,
    targets: Mapping[ProfileId, int],
    coming: Mapping[ProfileId, int],
    there: Mapping[ProfileId, int],
    slots: Mapping[ProfileId, int],
) -> list[Needs]:
    """The executors of each profile: needed, allowed, asked for, coming and there."""
    found = []
    for profile in tasks.waiting.keys() | targets.keys():
        count = tasks.waiting.get(profile, 0) + tasks.running.get(profile, 0)
        each = slots.get(profile, 1) or 1
        needed = -(-count // each)
        allowed = needed if ratio >= 1.0 else -int(-(count * ratio / each) // 1)
        found.append(Needs(needed, allowed, targets.get(profile, 0), coming.get(profile, 0), there.get(profile, 0)))
    return found


def static_counts(app: Application, count: int) -> dict[ProfileId, int]:
    """How many executors of each profile a static count amounts to.

    Without dynamic allocation all executors are of one profile, which a log names as it likes; tasks of any other run on
    them (TaskResourceProfile). A log with executors of several keeps as many of the others as it had at once.
    """
    most = main_profile(app)
    return {most: count, **{profile: held for profile, held in peaks(app).items() if profile != most}}


def profiles_of(app: Application, now: Millis) -> tuple[ResourceProfileAdded, ...]:
    """What the driver is told of the application's resource profiles; the default one is the conf's."""
    return tuple(one._replace(at=now) for one in app.profiles if one.profile != DEFAULT_PROFILE)


class Core:
    """Dynamic allocation under way: the production core, its timer, and what it asked for."""

    def __init__(self, config: ScalingConfig, tasks: Tasks, book: Book) -> None:
        self.config = config
        self.tasks = tasks
        self.book = book
        self.targets: dict[ProfileId, int] = {}
        self.ramped = False
        self.decisions: list[Decision] = []
        self.watch = False
        self.state: State | None = None
        self.next_tick: Millis = NEVER
        self.place: Millis = 0

    def begin(self, now: Millis) -> Sequence[Command]:
        """ExecutorAllocationManager.start()."""
        begun = engine.start(self.config, now)
        self.state, self.place = begun.state, now
        self.note(begun.commands, now)
        self.plan(now)
        return begun.commands

    def hear(self, events: Sequence[Stimulus], now: Millis) -> Sequence[Command]:
        """Fold events and decide; the answers to its commands are heard by ``answer``."""
        assert self.state is not None
        taken = engine.step(self.state, events, self.config, now)
        self.state = taken.state
        if taken.reports:
            self.reported(taken.reports)
        if taken.commands:
            self.note(taken.commands, now)
        return taken.commands

    def plan(self, now: Millis) -> None:
        """When the timer may next do something: the first place on its grid that is not behind."""
        assert self.state is not None
        due = engine.due(self.state, self.config)
        at = max(due, now, self.place)
        self.next_tick = (
            NEVER if due == NEVER else self.place + -(-(at - self.place) // TICK_INTERVAL_MS) * TICK_INTERVAL_MS
        )
        if self.state.scaling.add_time == NEVER:
            self.ramped = False

    def ticked(self, now: Millis) -> None:
        """The timer ran."""
        self.place = now + TICK_INTERVAL_MS

    def reported(self, reports: Iterable[Report]) -> None:
        """Data begins or ceases to keep executors."""
        for report in reports:
            if isinstance(report, Held) and report.bound in _HELD:
                by = None if report.phase is Phase.ENDED else _HELD[report.bound]
                for executor in report.executors:
                    known = self.tasks.by_id.get(executor)
                    if known is not None:
                        self.book.held(known.key, max(report.at, self.tasks.now), by)

    def note(self, commands: Iterable[Command], now: Millis) -> None:
        """Remember targets and, if somebody watches, why they moved."""
        for command in commands:
            if isinstance(command, RequestTotal):
                self.targets = dict(command.targets)
                self.ramped = self.ramped or any(change.why.cause in _RAMPED for change in command.changes)
                if self.watch:
                    self.decisions.extend(
                        Decision(
                            now, "target", change.why.cause.value, change.why.facts, int(change.profile),
                            change.before, change.after,
                        )
                        for change in command.changes
                    )  # fmt: skip
            elif self.watch and isinstance(command, Kill | Decommission):
                why = command.departures[0].why
                self.decisions.append(
                    Decision(now, "release", why.cause.value, why.facts, executors=tuple(command.executors))
                )

    def slack(self, shapes: dict[ProfileId, int]) -> int:
        """How many tasks may end before the need for executors falls below a target."""
        tasks, ratio, least = self.tasks, self.config.ratio, NO_END
        for profile, target in self.targets.items():
            if target <= self.config.executors_min:
                continue
            count = tasks.waiting.get(profile, 0) + tasks.running.get(profile, 0)
            kept = int((target - 1) * shapes.get(profile, 1) / ratio) if ratio > 0 else 0
            least = min(least, count - kept - 1)
        return max(1, least)


class Plain:
    """Executors from a plain resource manager. Keys in the ledger are ordinals of requests."""

    def __init__(self, app: Application, plan: Plan, behaviour: Behaviour, seed: int, book: Book) -> None:
        self._starts = Starts(behaviour.startup, seed, extra_ms=plan.faults.start_extra_ms)
        self._thinking = self._starts.shares_driver
        static = static_counts(app, plan.static) if plan.dynamic is None else None
        tasks = Tasks(app, plan, behaviour, seed, book, thinks=self._thinking, homes=static)
        self._static = static or {}
        self.plan = plan
        self.behaviour = behaviour
        self.tasks = tasks
        self.book = book
        self.requests = 0
        self.stopped: str | None = None  # why Spark itself ended the application
        self.started = 0
        self.lost = 0
        self.there: dict[ProfileId, int] = {}
        self.coming: dict[ProfileId, int] = {}
        self.present = 0  # room that is taken: by those on their way or there
        self.peak = 0
        self.registered = 0
        self.core = None if plan.dynamic is None else Core(plan.dynamic, tasks, book)
        self._boot = behaviour.boot_ms
        self._booted = False
        self.profiles: list[ProfileId] = []  # by ordinal of request
        self._row: dict[int, int] = {}  # ordinal of request to row
        self._leaving: list[Leaving] = []
        self._losses = {loss.ordinal: loss.after_ms for loss in behaviour.losses}
        self._removals = 0
        self._removal_luck = split(stream(seed), _REMOVAL)
        self._seed = seed
        self._spot_luck = split(stream(seed), _SPOT)
        bounds = [bound for bound in (behaviour.capacity, plan.faults.quota) if bound is not None]
        self.capacity = min(bounds) if bounds else NO_END
        self._slots = {profile: shape.slots for profile, shape in plan.shapes.items()}

    def target(self) -> dict[ProfileId, int]:
        """What is asked for, by profile."""
        if not self._booted:
            return {}
        return self._static if self.core is None else self.core.targets

    def due(self) -> Millis:
        """When it next does something by itself."""
        if not self._booted:
            return self._boot
        first = self._starts.due()
        if self._leaving:
            first = min(first, self._leaving[0].at)
        return first if self.core is None else min(first, self.core.next_tick)

    def slack(self) -> int:
        """How many tasks may end before a decision may depend on it."""
        return NO_END if self.core is None or not self._booted else self.core.slack(self._slots)

    def take(self, now: Millis) -> None:
        """All that is due at ``now``: what was heard is folded, executors come and go, the timer runs."""
        core, tasks = self.core, self.tasks
        if not self._booted and now >= self._boot:
            self._booted = True
            tasks.grid = now  # of a static count nothing is decided, but the books are kept
            if core is not None:
                self._obey(core.begin(now), now)
                self._obey(core.hear(profiles_of(tasks.app, now), now), now)
            self._provide(now)
            if self._starts.shares_driver:
                self._starts.think(now)
        events: list[ListenerEvent] = tasks.hear()
        if self._booted:
            events.extend(self._register(ordinal, now) for ordinal in self._starts.advance(now))
            if self._thinking and self._starts.thought_ms is not None:
                self._thinking = False
                tasks.thought(now)
            for ordinal in self._starts.ready():
                row = self._row.get(ordinal)
                if row is not None and tasks.executors[row].standing is not Standing.GONE:
                    tasks.ready(tasks.executors[row], now)
                    events.extend(tasks.hear())
            while self._leaving and self._leaving[0].at <= now:
                events.extend(self._remove(heappop(self._leaving), now))
        if core is not None and self._booted:
            if events:
                self._obey(core.hear(events, now), now)
                core.plan(now)
            if core.next_tick <= now:
                self._obey(core.hear((Tick(now),), now), now)
                core.ticked(now)
                core.plan(now)
        if self._booted:
            self._provide(now)

    def _obey(self, commands: Sequence[Command], now: Millis) -> None:
        """Carry out what the core commands, and answer it."""
        core = self.core
        assert core is not None
        queue = list(commands)
        while queue:
            command = queue.pop(0)
            self.requests += 1
            match command:
                case RequestTotal():
                    answer = Answer(now, command.serial)
                case Kill() | Decommission():
                    granted = tuple(one for one in command.executors if self._let_go(one, now))
                    answer = Answer(now, command.serial, granted)
                case _:
                    continue
            queue.extend(core.hear((answer,), now))

    def _let_go(self, executor: ExecutorId, now: Millis) -> bool:
        """killExecutors(force = false): not one that is at work."""
        known = self.tasks.by_id.get(executor)
        if known is None or known.running or known.standing is not Standing.ACTIVE:
            return False
        self.tasks.stand_aside(known)
        self.book.told_to_go(known.key, now)
        self.there[known.profile] -= 1
        self.present -= 1  # its room is free when it is told to go; the driver hears of it later
        heappush(self._leaving, Leaving(now + self._removal_ms(), known.row, lost=False))
        return True

    def _removal_ms(self) -> Millis:
        samples = self.behaviour.removal_ms
        if not samples:
            return 1
        ordinal = self._removals
        self._removals += 1
        if not self._seed:
            return max(1, samples[ordinal % len(samples)])
        u, _ = unit(split(self._removal_luck, ordinal))
        return max(1, samples[int(u * len(samples))])

    def _provide(self, now: Millis) -> None:
        """Begin the starts that are asked for and that there is room for."""
        for profile, target in self.target().items():
            while self.there.get(profile, 0) + self.coming.get(profile, 0) < target and self.present < self.capacity:
                ordinal = len(self.profiles)
                self.profiles.append(profile)
                self.coming[profile] = self.coming.get(profile, 0) + 1
                self.present += 1
                self.started += 1
                self.book.requested(ordinal, now)
                self._starts.request(now, ordinal)

    def _register(self, ordinal: int, now: Millis) -> ListenerEvent:
        profile = self.profiles[ordinal]
        row = len(self.tasks.executors)
        self._row[ordinal] = row
        executor = ExecutorId(str(row))
        self.coming[profile] -= 1
        self.there[profile] = self.there.get(profile, 0) + 1
        self.registered += 1
        self.peak = max(self.peak, self.registered)
        slots = self._slots.get(profile, self._slots[DEFAULT_PROFILE])
        self.tasks.join(row, executor, profile, slots, now, key=ordinal)
        loss = self._losses.get(row)
        if self.plan.faults.spot_per_hour > 0:
            u, _ = unit(split(self._spot_luck, row))
            spot = int(-log(1.0 - u) / self.plan.faults.spot_per_hour * HOUR_MS)
            loss = spot if loss is None else min(loss, spot)
        if loss is not None and now + loss < LAST_MS:
            heappush(self._leaving, Leaving(now + max(1, loss), row, lost=True))
        ratio = self.plan.registered_ratio
        first = self.plan.static if self.plan.dynamic is None else self.plan.dynamic.executors_initial
        if self.registered >= first * ratio:
            self.tasks.open(now)
        return ExecutorAdded(now, executor, profile)

    def _remove(self, leaving: Leaving, now: Millis) -> list[ListenerEvent]:
        tasks = self.tasks
        executor = tasks.executors[leaving.row]
        if executor.standing is Standing.GONE:
            return []
        if executor.standing is Standing.ACTIVE:
            self.there[executor.profile] -= 1
            self.present -= 1
        self.registered -= 1
        self.lost += leaving.lost
        tasks.remove(executor, now, lost=leaving.lost)
        return [*tasks.hear(), ExecutorRemoved(now, executor.id, "lost" if leaving.lost else "released")]

    def needs(self) -> list[Needs]:
        """The executors of each profile: needed, allowed, asked for, coming and there."""
        ratio = 1.0 if self.plan.dynamic is None else self.plan.dynamic.ratio
        return needs_of(self.tasks, ratio, self.target(), self.coming, self.there, self._slots)

    def shortage(self) -> tuple[int, ...]:
        """How many executors each limit keeps away from tasks that wait."""
        if not any(self.tasks.waiting.values()):
            return (0,) * len(LIMITS)
        dynamic = self.plan.dynamic
        most = self.plan.static if dynamic is None else dynamic.executors_max
        return missing_by_limit(self.needs(), most, ramped=self.core is not None and self.core.ramped)
