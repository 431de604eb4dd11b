"""Whatever may happen to the pods allocator, and a run that it happens to.

The universe is small, so that things meet: fourteen executors, of which some are never asked for, three profiles, a handful
of pod states, labels and specs that cannot be read. An API server refuses, keeps silent, and answers later in any order.

``Run`` lives through such a story with the subscriber's timer beside it, either at every batch.delay or only when
``allocation.due`` says so, and writes down what was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from hypothesis import strategies as st

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.allocator import allocator as allocation
from podtide.domain.kubernetes.allocator.state import AllocatorCommand, AllocatorInput, AllocatorState, RecoveryNeeded
from podtide.domain.protocol.allocation_policies import (
    FIXED_POLICIES,
    SPARK_POLICIES,
    BackOff,
    Batch,
    Consumer,
    Limits,
    Policies,
    Retired,
    Surplus,
    size_by_limits,
)
from podtide.domain.protocol.cluster_config import INT_MAX, AllocationConfig, ClaimTemplate
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.executor_stimuli import Starting, Stopping, TargetsSet
from podtide.domain.protocol.pod_commands import Deliver, NotifySubscribers
from podtide.domain.protocol.pod_stimuli import CallFailure, Claim, KnownExecutors, Outcome
from podtide.domain.protocol.pods import PodManifest, PodNumber, PodRules, Snapshot
from tests.support.pods_play import Api, manifest

RULES = PodRules(check_all_containers=False)
VOLUMES = (ClaimTemplate("a", "OnDemand", 0, "gp2", "10Gi"), ClaimTemplate("b", "OnDemand", 1, "gp2", "5Gi"))


class Shown(NamedTuple):
    """A delivery: pods as a watch shows them one by one, or lists of all pods."""

    snapshots: tuple[tuple[bool, tuple[PodManifest, ...]], ...]


class Changed(NamedTuple):
    """The API server answers otherwise from now on; its claims stay."""

    api: Api


class Answered(NamedTuple):
    """Calls come back that the API server kept to itself, in an order drawn by these numbers."""

    order: tuple[int, ...]


Act: TypeAlias = Shown | Changed | Answered | AllocatorInput
Happening: TypeAlias = tuple[Millis, Act]
"""So many milliseconds later, this; an input says 0 for its own time."""

Said: TypeAlias = AllocatorCommand | Report

numbers = st.sampled_from([1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 14]).map(PodNumber)
profiles = st.sampled_from([0, 0, 0, 1, 1, 2]).map(ProfileId)
phases = st.sampled_from(["Pending", "Pending", "Pending", "Running", "Running", "Failed", "Succeeded", "Odd"])
labels = st.sampled_from([*["0"] * 12, *["1"] * 6, "2", "x", None])
births = st.sampled_from([0, 0, 500, 1_000, 3_000, 9_000, None, "?"])
pods = st.builds(
    manifest,
    numbers,
    phases,
    labels,
    births,
    claims=st.lists(st.sampled_from(["exec-exec-1-pvc-0", "exec-exec-2-pvc-0", "left"]), max_size=1),
    has_spec=st.sampled_from([True] * 40 + [False]),
    deleted_at=st.sampled_from([None, None, None, "1970-01-01T00:00:01Z"]),
)
sound_pods = st.builds(manifest, numbers, phases, profiles, st.sampled_from([0, 0, 1_000, 3_000]))


def _shown(pod: st.SearchStrategy[PodManifest]) -> st.SearchStrategy[Shown]:
    one = st.tuples(st.sampled_from([False, False, True]), st.lists(pod, min_size=1, max_size=6).map(tuple))
    return st.lists(one, min_size=1, max_size=3).map(lambda some: Shown(tuple(some)))


some = st.lists(numbers, max_size=3, unique=True)
targets = st.dictionaries(profiles, st.sampled_from([0, 1, 2, 3, 5, 8, -1]), min_size=1, max_size=3)
setting = targets.map(lambda wanted: TargetsSet(0, tuple(wanted.items())))
knowing = st.builds(
    lambda come, go: KnownExecutors(0, tuple((n, 0) for n in come), tuple(n for n in go if n not in come)), some, some
)
failures = st.sampled_from(
    [CallFailure(403, "no"), CallFailure(None, "boom", "java.lang.IllegalArgumentException"), CallFailure(404)]
)
apis = st.builds(
    Api,
    silent=st.sampled_from([False, False, True]),
    driver=st.sampled_from([None] * 9 + [CallFailure(404)]),
    refused_pods=st.sampled_from([False, False, True]) | st.sets(numbers, max_size=3).map(frozenset),
    refused_claims=st.sampled_from([False, False, True]),
    deletes=st.none() | st.none() | failures,
    listing=st.none() | st.none() | failures,
)
prompt_apis = apis.map(lambda api: replace(api, silent=False))
answering = st.lists(st.integers(0, 9), min_size=1, max_size=8).map(lambda order: Answered(tuple(order)))
stray = st.builds(Outcome, st.just(0), st.integers(0, 30), st.none() | failures)

Acts: TypeAlias = st.SearchStrategy[Act]
_common: list[Acts] = [
    _shown(pods), *[_shown(sound_pods)] * 3, setting, setting, *[knowing] * 3, answering, answering, apis.map(Changed),
]  # fmt: skip
_rare: Acts = st.one_of(
    stray,
    st.just(RecoveryNeeded(0)),
    st.just(Stopping(0)),
    st.just(Starting(0)),
    st.just(Deliver(0, "allocator", ())),
    prompt_apis.map(Changed),
)
gaps = st.sampled_from([0, 0, 0, 1, 400, 999, 1_000, 1_001, 2_000, 3_500, 8_000])


def _stories(acts: list[Acts]) -> st.SearchStrategy[list[Happening]]:
    """Stories of these acts, one as likely as the other. They begin with targets."""
    # An alternative of alternatives would be made flat: the choice comes first, then the act.
    one: st.SearchStrategy[Happening] = st.tuples(gaps, st.sampled_from(acts).flatmap(lambda chosen: chosen))
    # A list of at most 40 has 5 on average, so most examples are told to be longer; a failure still shrinks to a few.
    story = st.one_of(st.lists(one, max_size=40), *[st.lists(one, min_size=18, max_size=40)] * 3)
    return st.tuples(st.tuples(st.just(0), setting), story).map(lambda parts: [parts[0], *parts[1]])


happenings = _stories([*_common, _rare])
prompt_happenings = _stories(
    [_shown(pods), *[_shown(sound_pods)] * 3, setting, setting, knowing, knowing, prompt_apis.map(Changed)]
)


def retire_last(surplus: Surplus) -> Retired:
    """The other way round, and only one at a time."""
    pending = tuple(surplus.pending)[-1:]
    return Retired(() if pending else tuple(surplus.created)[-1:], pending)


def all_to_the_last(consumers: Sequence[Consumer], slots: int) -> Sequence[int]:
    """One profile takes all."""
    return [0] * (len(consumers) - 1) + [slots]


def one_by_one(consumer: Consumer, limits: Limits) -> Batch:
    """A pod at a time."""
    batch = size_by_limits(consumer, limits)
    return Batch(min(1, batch.pods), batch.bound)


BACK_OFF = BackOff(failures=1, window_ms=5_000, first_ms=1_500, longest_ms=6_000, probe=1)
policies = st.sampled_from(
    [
        SPARK_POLICIES,
        SPARK_POLICIES,
        replace(FIXED_POLICIES, back_off=BACK_OFF),
        replace(SPARK_POLICIES, back_off=BACK_OFF),
        Policies(retire_last, all_to_the_last, one_by_one),
        Policies(retire_last, all_to_the_last, one_by_one, BACK_OFF, forget_ghosts=True, delete_excess_running=True),
    ]
)


@st.composite
def configs(draw: st.DrawFn, *, faithful: bool = False) -> AllocationConfig:
    """A valid configuration, with timeouts of seconds. ``faithful``: Spark's policies, no driver pod and no claims."""
    pending_max = draw(st.sampled_from([INT_MAX, INT_MAX, 2, 5]))
    own, reuse = draw(st.sampled_from([True] * 4 + [False])), draw(st.sampled_from([True] * 4 + [False]))
    return AllocationConfig(
        batch_size=draw(st.sampled_from([1, 2, 3, 20])),
        pending_max=pending_max,
        pending_max_per_profile=draw(st.sampled_from([INT_MAX, INT_MAX, min(3, pending_max), 1])),
        pods_max=draw(st.sampled_from([INT_MAX, INT_MAX, INT_MAX, 6])),
        create_timeout_ms=draw(st.sampled_from([5_000, 5_000, 2_000])),
        idle_timeout_ms=draw(st.sampled_from([0, 1_000, 3_000])),
        delete_on_termination=draw(st.booleans()),
        dynamic=draw(st.booleans()),
        driver_pod=None if faithful else draw(st.sampled_from([None, "driver", "driver"])),
        wait_for_driver=draw(st.booleans()),
        claims=() if faithful else VOLUMES[: draw(st.sampled_from([0, 0, 1, 2]))],
        claims_max=draw(st.sampled_from([1, 2, INT_MAX])),
        own_claims=own,
        reuse_claims=reuse,
        wait_for_claims=own and reuse and draw(st.booleans()),
        policies=SPARK_POLICIES if faithful else draw(policies),
    )


@dataclass
class Run:
    """One allocator. ``eager``: an empty delivery every batch.delay; otherwise only when due."""

    config: AllocationConfig
    eager: bool = False

    def __post_init__(self) -> None:
        self.now: Millis = 0
        self.grid: Millis = 0
        self.api = Api(claims={"left": Claim("left", "gp2", "10Gi", "1969-12-31T00:00:00Z")})
        self.owed: list[Outcome] = []
        self.said: list[Said] = []
        self.view = snapshots.empty()
        self.delivered: list[tuple[Snapshot, ...]] = []
        self.deliveries = 0
        self.state: AllocatorState = allocation.begin(self.config)
        self.take(Starting(0))

    def fork(self) -> Run:
        """The same moment once more; nothing has been said yet."""
        twin = Run(self.config, self.eager)
        twin.now, twin.grid, twin.api, twin.owed = self.now, self.grid, deepcopy(self.api), list(self.owed)
        twin.view, twin.state, twin.said = self.view, self.state, []
        return twin

    def live(self, story: Sequence[Happening]) -> Run:
        """Live through a story."""
        for happening in story:
            self.happen(happening)
        return self

    def happen(self, happening: Happening) -> None:
        """Let the time pass, delivering, and the thing happen."""
        gap, act = happening
        self.pass_time(gap)
        match act:
            case Shown():
                self.take(Deliver(self.now, "allocator", self.queued(act)))
            case Changed():
                self.api = replace(act.api, claims=self.api.claims)
                if not self.api.silent:
                    self.answer(range(len(self.owed)))
            case Answered():
                self.answer(act.order)
            case _:
                moved: AllocatorInput = (
                    act._replace(at=self.now) if isinstance(act, tuple) else replace(act, at=self.now)
                )
                self.take(moved)

    def queued(self, shown: Shown) -> tuple[Snapshot, ...]:
        """What the store would queue; pods that Spark cannot read leave no snapshot."""
        found = []
        for is_list, some_pods in shown.snapshots:
            if is_list:
                taken = [snapshots.replace(self.view, some_pods, RULES, self.now)]
            else:
                taken = []
                for pod in some_pods:
                    taken.append(snapshots.update(self.view, pod, RULES))
                    self._see(taken[-1])
            for each in taken:
                if not isinstance(each, SparkFault):
                    self._see(each)
                    found.append(each.snapshot)
        return tuple(found)

    def _see(self, taken: snapshots.Taken | SparkFault) -> None:
        if not isinstance(taken, SparkFault):
            self.view = taken.view

    def answer(self, order: Sequence[int]) -> None:
        """Some of the calls that are owed an answer come back."""
        for place in order:
            if self.owed:
                outcome = self.owed.pop(place % len(self.owed))
                self.take(outcome._replace(at=self.now))

    def pass_time(self, gap: Millis) -> None:
        """Let time pass up to, not including, the deliveries of its last millisecond. An open round holds them up."""
        self.now += gap
        while self.grid < self.now:
            if not allocation.busy(self.state) and (self.eager or allocation.due(self.state, self.config) <= self.grid):
                self.deliveries += 1
                self._take_at(self.grid, Deliver(self.grid, "allocator", ()))
            self.grid += self.config.batch_delay_ms

    def _take_at(self, at: Millis, item: AllocatorInput) -> None:
        now, self.now = self.now, at
        self.take(item)
        self.now = now

    def take(self, item: AllocatorInput) -> None:
        """One step, and the answers to what it led to."""
        step = allocation.allocate(self.state, (item,), self.config, self.now)
        self.state = step.state
        self.said.extend(step.reports)
        for command in step.commands:
            self.said.append(command)
            if isinstance(command, NotifySubscribers):
                self.take(Deliver(self.now, "allocator", ()))
                continue
            outcome = replace(self.api, silent=False).answer(command, self.now)
            if outcome is not None and self.api.silent:
                self.owed.append(outcome)
            elif outcome is not None:
                self.take(outcome)


def told(state: AllocatorState) -> dict[str, object]:
    """All that a state answers, but for whether a round is due at once."""
    fleet = state.fleet
    sums = [fleet.census(ProfileId(profile), alone=alone) for profile in (0, 1, 2) for alone in (False, True)]
    return {
        "created": fleet.created(),
        "joined": fleet.joined(),
        "deleted": fleet.deleted_numbers(),
        "known": fleet.known_numbers(),
        "pods": dict(fleet.snapshot()),
        "sums": sums,
        "claims in use": dict(fleet._tables.claims),
        "is_deleted": [allocation.is_deleted(state, PodNumber(number)) for number in range(1, 15)],
        **{
            name: getattr(state, name)
            for name in (
                "targets", "executors", "claims", "failures", "outstanding", "serial", "driver", "starting", "recovery",
                "recovery_warned", "round", "later", "holds", "slowdown", "unread",
            )
        },
    }  # fmt: skip
