"""Dynamic allocation in a rerun: the production core, its timer, and what it asked for.

``Core`` steps the engine of a ``ScalingConfig`` alone, for a plain resource manager. Where a whole application's engine
decides (``rerun.engine_manager``), ``Core`` only keeps what its commands and reports come to: targets, the ramp, and the
data that keeps executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, Millis, ProfileId, next_on_grid
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal
from podtide.domain.protocol.config import TICK_INTERVAL_MS, ScalingConfig
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase
from podtide.domain.protocol.stimuli import ResourceProfileAdded, Stimulus
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.domain.rerun.ledger.ledger import Ledger
from podtide.domain.rerun.outcome import Decision
from podtide.domain.rerun.tasks import Tasks
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.dynamic_allocation import State

NO_END: Final = 2**62
"""Tasks that may end before anything depends on it: as many as there are."""

_HELD: Final = {Bound.CACHED_DATA: SpendCause.CACHED, Bound.SHUFFLE_DATA: SpendCause.SHUFFLE}
_RAMPED: Final = frozenset({Cause.BACKLOG, Cause.SUSTAINED_BACKLOG})


def profiles_of(app: Application, now: Millis) -> tuple[ResourceProfileAdded, ...]:
    """What the driver is told of the application's resource profiles; the default one is the conf's."""
    return tuple(one._replace(at=now) for one in app.profiles if one.profile != DEFAULT_PROFILE)


class Core:
    """Dynamic allocation under way: the production core, its timer, and what it asked for."""

    def __init__(self, config: ScalingConfig, tasks: Tasks, ledger: Ledger) -> None:
        self.config = config
        self.tasks = tasks
        self.ledger = ledger
        self.targets: dict[ProfileId, int] = {}
        self.ramped = False
        self.decisions: list[Decision] = []
        self.watch = False
        self.state: State | None = None
        self.next_tick: Millis = NEVER
        self.place: Millis = 0

    def begin(self, now: Millis) -> Sequence[Command]:
        """ExecutorAllocationManager.start()."""
        begun = dynamic_allocation.start(self.config, now)
        self.state, self.place = begun.state, now
        self.note(begun.commands, now)
        self.plan(now)
        return begun.commands

    def hear(self, events: Sequence[Stimulus], now: Millis) -> Sequence[Command]:
        """Fold events and decide; the answers to its commands are heard by ``answer``."""
        assert self.state is not None
        taken = dynamic_allocation.step(self.state, events, self.config, now)
        self.state = taken.state
        if taken.reports:
            self.reported(taken.reports)
        if taken.commands:
            self.note(taken.commands, now)
        return taken.commands

    def plan(self, now: Millis) -> None:
        """When the timer may next do something: the first place on its grid that is not behind."""
        assert self.state is not None
        due = dynamic_allocation.due(self.state, self.config)
        at = max(due, now, self.place)
        self.next_tick = NEVER if due == NEVER else next_on_grid(self.place, TICK_INTERVAL_MS, at)
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
                        self.ledger.held(known.key, max(report.at, self.tasks.now), by)

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
