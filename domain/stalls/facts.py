"""What the watch over stalls is told: facts that the replay of a log and a live run can both give.

What happens (``StallInput``): tasks of a profile end well, a stage comes or completes, an executor comes or goes, the API
server refuses a pod or makes one. A ``StallMoment`` is how things stood for a while; it is only needed when nothing has
moved for some time, so that a run that moves costs nothing but its successes.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import DEFAULT_PROFILE, AttemptKey, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.stimuli import StageCompleted, StageSubmitted

NAMED_MAX: Final = 10
"""Executors, pods or stage attempts that a fact names; of more only the number."""


class TasksDone(NamedTuple):
    """A task of a profile ended well, the last one at ``at``."""

    at: Millis
    profile: ProfileId


class ExecutorCame(NamedTuple):
    """An executor registered with the driver."""

    at: Millis
    executor: ExecutorId
    profile: ProfileId


class ExecutorWent(NamedTuple):
    """An executor is gone, or failed before it registered. ``failed``: nobody let it go.

    ``profile``: of one that never registered.
    """

    at: Millis
    executor: ExecutorId
    failed: bool
    reason: str = ""
    profile: ProfileId = DEFAULT_PROFILE


class PodRefused(NamedTuple):
    """The API server refused to create a pod. ``status``: of HTTP."""

    at: Millis
    status: int
    message: str


class PodMade(NamedTuple):
    """The API server created a pod: what it refused before is no reason any more."""

    at: Millis


class ProfileMoment(NamedTuple):
    """One resource profile for a while.

    ``pending``: its tasks that wait, over all attempts that have any; ``attempts``: the first of these attempts.
    ``hidden``: pending tasks below zero of other attempts, as a positive number. ``running``: its tasks that run.
    ``executors``: those that are there, of which ``free`` have no task and are not on their way out. ``target``: executors
    wanted, None where nobody knows. ``maximum``: the most that may be wanted. ``tasks_known``: whether tasks are seen at
    all; else a target above the executors stands for tasks that wait. ``pods_waiting``: pods on no node, some of them in
    ``pods``; ``pods_placed``: pods on a node whose executors did not register, some of them in ``placed``. ``ghosts``:
    executors that count and are not there. ``ids_over``: no more of them may be made
    (spark.kubernetes.allocation.maximum).
    """

    profile: ProfileId
    pending: int = 0
    attempts: tuple[AttemptKey, ...] = ()
    hidden: int = 0
    running: int = 0
    unschedulable: int = 0
    executors: int = 0
    free: int = 0
    target: int | None = None
    maximum: int | None = None
    tasks_known: bool = True
    pods_waiting: int = 0
    pods: tuple[str, ...] = ()
    pods_placed: int = 0
    placed: tuple[str, ...] = ()
    ghosts: tuple[ExecutorId, ...] = ()
    ids_over: bool = False

    @property
    def waits(self) -> bool:
        """Whether work waits for executors."""
        return self.pending > 0 if self.tasks_known else self.missing > 0

    @property
    def works(self) -> bool:
        """Whether anything of it runs; where no tasks are seen, an executor that is there stands for tasks that run."""
        return self.running > 0 if self.tasks_known else self.executors > 0

    @property
    def missing(self) -> int:
        """Executors that are wanted and not there."""
        return 0 if self.target is None else max(0, self.target - self.executors)


class KeptExecutors(NamedTuple):
    """Idle executors of a profile that data of shuffles keeps which no running job needs.

    ``since``: when the first of them fell idle. ``executors``: some of the ``number``.
    """

    profile: ProfileId
    number: int
    since: Millis
    executors: tuple[ExecutorId, ...]


class StallMoment(NamedTuple):
    """How the profiles stood from ``since`` to ``at``. One that is not among them waits for nothing."""

    at: Millis
    since: Millis
    profiles: tuple[ProfileMoment, ...]


class KeptMoment(NamedTuple):
    """The executors that old shuffles kept from ``since`` to ``at``."""

    at: Millis
    since: Millis
    profiles: tuple[KeptExecutors, ...]


StallInput: TypeAlias = (
    TasksDone
    | StageSubmitted
    | StageCompleted
    | ExecutorCame
    | ExecutorWent
    | PodRefused
    | PodMade
    | StallMoment
    | KeptMoment
)
"""All that the watch hears of, in order of ``at``."""


class StallConfig(NamedTuple):
    """``start``: when the run began. ``poll_ms``: how long a pod may live and never be seen
    (spark.kubernetes.executor.apiPollingInterval); None where executors are not pods, or where ghosts are seen themselves.
    """

    start: Millis
    poll_ms: Millis | None = None
