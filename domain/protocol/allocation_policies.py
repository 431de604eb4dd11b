"""The choices inside an allocation round that can be replaced one at a time; Spark's own are the default.

The machines compute what is the case; a policy chooses. Which excess pods go first (``retire``), how free slots are split
over the profiles that want pods (``split``), how a target is turned into a batch (``size``): three pure functions.
The others are fixes that Spark 4.3.0 lacks, each off by default:

- ``back_off`` (SPARK-34519): after repeated start-up failures, ask for pods ever more slowly until one starts.
- ``forget_ghosts`` (SPARK-52589): an executor that registered and left again without its pod ever showing in a
  snapshot is forgotten; in Spark it counts towards the target for ever (schedulerKnownNewlyCreatedExecs has no way back).
- ``delete_excess_running``: an excess pod that turned Running before its delete arrived is deleted too; Spark's delete
  selects Pending pods only, and its books ignore the pod from then on.
- ``repair_pending`` (SPARK-58446): task events of a stage that is over do not touch the books of pending tasks; in Spark a
  late one leaves them negative, and later stages may wait for executors that nobody asks for. (It takes effect in the load,
  through ``ScalingConfig.repair_pending``.)

``replace(SPARK_POLICIES, split=mine)`` changes one choice and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound


class Consumer(NamedTuple):
    """A profile that may ask for pods in this round: it has fewer than its target and none unacknowledged.

    ``pods``: running, pending and created but unseen ones. ``not_running``: of these, all but the running ones.
    """

    profile: ProfileId
    pods: int
    target: int
    not_running: int

    @property
    def missing(self) -> int:
        """Pods short of the target."""
        return self.target - self.pods


class Surplus(NamedTuple):
    """A profile with more pods than its target, and those of them that may go: all older than executorIdleTimeout.

    ``created``: asked for and not seen yet, oldest first. ``pending``: seen pending and unknown to the scheduler, in the
    order in which Spark meets them (its hash order).
    """

    profile: ProfileId
    excess: int
    created: Iterable[PodNumber]
    pending: Iterable[PodNumber]


class Retired(NamedTuple):
    """The pods to let go."""

    created: tuple[PodNumber, ...]
    pending: tuple[PodNumber, ...]


class Limits(NamedTuple):
    """What bounds a batch: batch.size, the profile's share of the free slots, maxPendingPodsPerRp."""

    batch_size: int
    share: int
    pending_max_per_profile: int


class Batch(NamedTuple):
    """How many pods to ask for now, 0 or fewer for none, and what kept it below what is missing (None: nothing)."""

    pods: int
    bound: Bound | None


Retire: TypeAlias = Callable[[Surplus], Retired]
Split: TypeAlias = Callable[[Sequence[Consumer], int], Sequence[int]]
Size: TypeAlias = Callable[[Consumer, Limits], Batch]


def retire_unseen_first(surplus: Surplus) -> Retired:
    """Spark's choice: pods not seen yet, oldest first, then pending ones in hash order (spec: allocation, 4.7)."""
    created = tuple(islice(surplus.created, surplus.excess))
    return Retired(created, tuple(islice(surplus.pending, surplus.excess - len(created))))


def split_evenly(consumers: Sequence[Consumer], slots: int) -> Sequence[int]:
    """Spark's ExecutorPodsAllocator.splitSlots: equal shares, the first ones get the rest; unused shares are lost."""
    share, rest = divmod(slots, len(consumers))
    return [share + 1] * rest + [share] * (len(consumers) - rest)


def size_by_limits(consumer: Consumer, limits: Limits) -> Batch:
    """Spark's choice: the least of what is missing and of the three limits (spec: allocation, 4.9)."""
    choices = (
        (consumer.missing, None),
        (limits.batch_size, Bound.BATCH_SIZE),
        (limits.share, Bound.PENDING_LIMIT),
        (limits.pending_max_per_profile - consumer.not_running, Bound.PENDING_LIMIT_PROFILE),
    )
    count, bound = min(choices, key=lambda choice: choice[0])
    return Batch(count, bound)


@dataclass(frozen=True, slots=True)
class BackOff:
    """When to slow down, and how (SPARK-34519).

    More than ``failures`` start-up failures within ``window_ms`` begin it: creations that failed, pods that failed
    before their executor registered, creations that timed out. From then on a profile gets at most ``probe`` pods at
    a time, ``first_ms`` apart, twice as far each time up to ``longest_ms``; an executor that registers ends it.
    """

    failures: int = 3
    window_ms: Millis = 60_000
    first_ms: Millis = 5_000
    longest_ms: Millis = 300_000
    probe: int = 1


@dataclass(frozen=True, slots=True)
class Policies:
    """One choice each; the default is Spark's."""

    retire: Retire = retire_unseen_first
    split: Split = split_evenly
    size: Size = size_by_limits
    back_off: BackOff | None = None
    forget_ghosts: bool = False
    delete_excess_running: bool = False
    repair_pending: bool = False


SPARK_POLICIES: Final = Policies()
"""What Spark 4.3.0 does."""

FIXED_POLICIES: Final = Policies(
    back_off=BackOff(), forget_ghosts=True, delete_excess_running=True, repair_pending=True
)
"""Spark's choices with every fix on."""
