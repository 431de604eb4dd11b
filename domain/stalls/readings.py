"""Facts about stalls, read off the states of an application: what ended well since, and how things stand.

``Successes`` goes over every event of a run, so it keeps to what it needs: the time of the last success of each profile.
``profile_moments`` is asked only when nothing has moved for a while; it costs the stage attempts and the profiles.
``target_moments`` stands in where no tasks are seen. What pods tell besides is ``stalls.pods``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from podtide.domain.base.units import DEFAULT_PROFILE, UNKNOWN_PROFILE, AttemptKey, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.stimuli import (
    ExecutorAdded,
    ExecutorRemoved,
    StageCompleted,
    StageSubmitted,
    TaskEnd,
    TaskOutcome,
    TasksMoved,
    TaskStart,
)
from podtide.domain.recorded.application import Leave
from podtide.domain.recorded.executors import leave_of
from podtide.domain.scaling.load import Load
from podtide.domain.scaling.state import ScalingState
from podtide.domain.stalls.causes import LEAST_MS, ROWS, StallCause
from podtide.domain.stalls.facts import (
    NAMED_MAX,
    ExecutorCame,
    ExecutorWent,
    KeptExecutors,
    ProfileMoment,
    StallInput,
    TasksDone,
)
from podtide.domain.stalls.rules import DEATHS_MIN
from podtide.domain.stalls.stalls import StallState

REASON_MAX: Final = 200


class Successes:
    """Turns the events of a run into facts: successes summed up, all else one by one, in order."""

    def __init__(self, start: Millis) -> None:
        self.last = start
        """When a task last ended well, of any profile; at first when the run began."""
        self._done: dict[ProfileId, Millis] = {}
        self._profiles: dict[AttemptKey, ProfileId] = {}  # of attempts that are not of the default one
        self._rare: list[StallInput] = []

    @property
    def several(self) -> bool:
        """Whether stages of other profiles than the default one are open: one may stand still while another goes on."""
        return bool(self._profiles)

    def take(self, events: Iterable[Any]) -> bool:
        """Hear events in order; tells whether anything but successes is among the facts."""
        done, profiles, success = self._done, self._profiles, TaskOutcome.SUCCESS
        for event in events:
            kind = type(event)
            if kind is TaskStart:
                continue
            if kind is TaskEnd:
                if event[6] is success:
                    profile = profiles.get((event[1], event[2]), DEFAULT_PROFILE) if profiles else DEFAULT_PROFILE
                    self.last = done[profile] = event[0]
            elif kind is TasksMoved:
                for move in event.moves:
                    if move.ended:
                        self.last = done[profiles.get((move.stage, move.attempt), DEFAULT_PROFILE)] = event.at
            else:
                self._hear(event)
        return bool(self._rare)

    def facts(self) -> list[StallInput]:
        """What was heard since this was last asked."""
        self._settle()
        facts, self._rare = self._rare, []
        return facts

    def _settle(self) -> None:
        self._rare += sorted(TasksDone(at, profile) for profile, at in self._done.items())
        self._done.clear()

    def _hear(self, event: Any) -> None:
        match event:
            case StageSubmitted():
                if event.profile != DEFAULT_PROFILE:
                    self._profiles[event.stage, event.attempt] = event.profile
                self._keep(event)
            case StageCompleted():
                self._settle()
                self._profiles.pop((event.stage, event.attempt), None)
                self._keep(event)
            case ExecutorAdded():
                self._keep(ExecutorCame(event.at, event.executor, event.profile))
            case ExecutorRemoved():
                failed = leave_of(event.reason) is Leave.LOST
                self._keep(ExecutorWent(event.at, event.executor, failed, event.reason[:REASON_MAX]))
            case _:
                pass

    def _keep(self, fact: StallInput) -> None:
        self._settle()
        self._rare.append(fact)


def profile_moments(load: Load, scaling: ScalingState, config: ScalingConfig, *, dynamic: bool) -> list[ProfileMoment]:
    """The profiles for which tasks wait. ``dynamic``: dynamic allocation is on; else nobody knows a target."""
    found = []
    for profile, backlog in load.backlogs(NAMED_MAX).items():
        demand = load.demand(profile)
        executors, busy, remaining = scaling.idleness.counts(profile)
        found.append(
            ProfileMoment(
                profile,
                backlog.pending,
                backlog.attempts,
                backlog.hidden if dynamic else 0,
                max(0, demand.running),
                demand.unschedulable,
                executors,
                max(0, remaining - busy),
                scaling.targets.get(profile) if dynamic else None,
                config.executors_max if dynamic else executors or None,
            )
        )
    return found


def target_moments(
    targets: Iterable[tuple[ProfileId, int]], there: Mapping[ProfileId, int], state: StallState, now: Millis
) -> list[ProfileMoment]:
    """The profiles where no tasks are seen: a target above the executors stands for tasks that wait.

    ``there``: executors by profile. Once executors of a profile die one after the other, a new one counts when it has lived
    for ``LEAST_MS``.
    """
    found = []
    for profile, target in targets:
        died, executors = state.deaths.get(profile), there.get(profile, 0)
        if died is not None and died.number >= DEATHS_MIN:
            executors -= sum(one == profile and now - born < LEAST_MS for born, one in state.born.values())
        found.append(ProfileMoment(profile, executors=max(0, executors), target=target, tasks_known=False))
    return found


def kept_executors(scaling: ScalingState, now: Millis) -> tuple[KeptExecutors, ...]:
    """Executors that have been idle for as long as SHUFFLES is patient, and are kept by shuffles that no job needs."""
    found: dict[ProfileId, list[tuple[Millis, ExecutorId]]] = {}
    for one in scaling.idleness.kept_by_shuffles(now - ROWS[StallCause.SHUFFLES].patience_ms):
        if one.profile != UNKNOWN_PROFILE:
            found.setdefault(one.profile, []).append((one.idle_start, one.id))
    return tuple(
        KeptExecutors(profile, len(some), min(some)[0], tuple(id for _, id in islice(sorted(some), NAMED_MAX)))
        for profile, some in sorted(found.items())
    )
