"""The lifecycle manager against a literal reading of Spark's, which walks over every pod of every snapshot.

Stories of pods that appear, fail, are deleted, labelled, vanish from lists and come back; executors that register; patches
that are refused; rounds that throw. Besides: older states answer as before, and an executor is one failure at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.hash_order import SMALL
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.lifecycle import exit_reasons, lifecycle_manager as lifecycle
from podtide.domain.kubernetes.lifecycle.lifecycle_manager import (
    ActiveExecutors,
    Delivery,
    LifecycleCommand,
    LifecycleInput,
    LifecycleState,
)
from podtide.domain.kubernetes.lifecycle.tables import map_order
from podtide.domain.protocol.cluster_config import LifecycleConfig
from podtide.domain.protocol.executor_commands import RemoveExecutor, StopApplication
from podtide.domain.protocol.pod_commands import DeletePod, MarkInactive
from podtide.domain.protocol.pod_stimuli import CallFailure, CreationFailed, KnownExecutors, Outcome
from podtide.domain.protocol.pods import (
    EXECUTOR_LABEL,
    INACTIVE_LABEL,
    SPARK_CONTAINER,
    TERMINATED,
    ContainerState,
    Pod,
    PodContainer,
    PodManifest,
    PodNumber,
    PodRules,
    PodState,
    Snapshot,
)
from podtide.domain.protocol.reasons import Threw

RULES = PodRules()
REFUSED = CallFailure(403, "Forbidden")

# ------------------------------------------------------------------------------------------------------- stories


@dataclass(frozen=True)
class Round:
    """Time passes, the backend changes, and a batch is delivered: updates (with None) or lists, oldest first."""

    pause: int
    batch: tuple[tuple[int | None, tuple[PodManifest, ...]], ...]
    registered: dict[int, int]
    active: frozenset[int]
    creations_failed: int
    refused: frozenset[int]


def manifest(number: int, phase: str, codes: tuple[int | None, ...], deleted: bool, inactive: bool) -> PodManifest:
    states = [None if code == BROKEN else ContainerState(TERMINATED, code) for code in codes]
    return PodManifest(
        name=f"exec-{number}",
        labels={EXECUTOR_LABEL: str(number)} | ({INACTIVE_LABEL: "true"} if inactive else {}),
        deleted_at="2024-01-01T00:00:00Z" if deleted else None,
        phase=phase,
        containers=tuple(PodContainer(SPARK_CONTAINER, None, state) for state in states),
    )


BROKEN = 99
NUMBERS = st.integers(1, 9)
manifests = st.builds(
    manifest,
    NUMBERS,
    st.sampled_from(["Pending", "Running", "Running", "Failed", "Failed", "Succeeded", "Unknown"]),
    st.lists(st.sampled_from([0, 1, None, BROKEN]), max_size=1).map(tuple),
    st.booleans(),
    st.sampled_from([False, False, True]),
)


def one_each(pods: list[PodManifest]) -> tuple[PodManifest, ...]:
    return tuple({pod.name: pod for pod in pods}.values())


rounds = st.builds(
    Round,
    st.sampled_from([0, 1, 500, 1_000, 3_000, 10_000]),
    st.lists(
        st.tuples(st.sampled_from([None, None, 0, 1_000, 5_000, 9_000]), st.lists(manifests, max_size=8).map(one_each)),
        max_size=4,
    ).map(tuple),
    st.dictionaries(NUMBERS, st.sampled_from([0, 1_000, 4_000]), max_size=4),
    st.frozensets(NUMBERS, max_size=3),
    st.sampled_from([0, 0, 0, 2]),
    st.frozensets(NUMBERS, max_size=4),
)
stories = st.lists(rounds, min_size=1, max_size=12)
configs = st.builds(
    LifecycleConfig,
    removed_cache_ms=st.sampled_from([0, 1_000, 3_000, 180_000]),
    missing_delta_ms=st.sampled_from([1, 2_000, 30_000]),
    delete_on_termination=st.booleans(),
    failures_max=st.sampled_from([0, 2, 100]),
    failures_window_ms=st.sampled_from([None, 2_000]),
)

# -------------------------------------------------------------------------------------------- Spark's, literally

Line = tuple[object, ...]


@dataclass
class Literal:
    """ExecutorPodsLifecycleManager, statement by statement, with whole maps of pods."""

    config: LifecycleConfig
    now: int = 0
    pods: dict[PodNumber, Pod] = field(default_factory=dict)
    full_ts: int = 0
    polled_at: int = 0
    cache: dict[PodNumber, int] = field(default_factory=dict)
    inactivated: set[PodNumber] = field(default_factory=set)
    failed: set[PodNumber] = field(default_factory=set)
    failures: list[int] = field(default_factory=list)
    said: list[Line] = field(default_factory=list)

    def cached(self, number: PodNumber) -> bool:
        return number in self.cache and self.now - self.cache[number] < self.config.removed_cache_ms

    def round(self, story: Round) -> None:
        self.said = []
        removed: set[PodNumber] = set()
        batch = []
        for full, listed in story.batch:
            if full is not None:
                self.pods, self.full_ts = {}, full
            for item in listed:
                pod = snapshots.read(item, RULES)
                if isinstance(pod, Pod):
                    self.pods[pod.number] = pod
            batch.append(dict(self.pods))
        for pods in batch:
            fault = self.look(pods, removed, story)
            if fault is not None:
                self.said.append(("threw", str(fault)))
                return
        if batch:
            last = batch[-1]
            self.inactivated = {number for number in self.inactivated if number in last}
            if self.polled_at != self.full_ts:
                self.polled_at = self.full_ts
                for key, at in story.registered.items():
                    number = PodNumber(key)
                    late = self.polled_at - at > self.config.missing_delta_ms
                    if number not in last and number not in removed and not self.cached(number) and late:
                        self.said.append(("lost", number, at))
        window = self.config.failures_window_ms
        self.failures = [at for at in self.failures if window is None or at >= self.now - window]
        if len(self.failures) > self.config.failures_max:
            self.said.append(("exit", 11))

    def look(self, pods: dict[PodNumber, Pod], removed: set[PodNumber], story: Round) -> SparkFault | None:
        fresh = {n for n, pod in pods.items() if pod.state is PodState.FAILED} - self.failed
        self.failures += [self.now] * len(fresh)
        self.failed |= fresh
        for number in map_order({number: place for place, number in enumerate(pods)}):
            pod = pods[number]
            if pod.manifest.labels.get(INACTIVE_LABEL) == "true":
                self.inactivated.discard(number)
                continue
            if pod.state not in (PodState.DELETED, PodState.FAILED, PodState.SUCCEEDED):
                continue
            first = number not in removed
            removed.add(number)
            if not self.cached(number):
                self.cache[number] = self.now
                reason = exit_reasons.of_pod(pod, SPARK_CONTAINER)
                if isinstance(reason, SparkFault):
                    return reason
                self.said.append(("removed", number, reason.exit_code, reason.message))
            if pod.state is PodState.DELETED:
                self.inactivated.discard(number)
            elif first and self.config.delete_on_termination:
                if pod.manifest.deleted_at is None:
                    self.said.append(("delete", number))
            elif first and number not in self.inactivated:
                self.said.append(("patch", number))
                if number not in story.refused:
                    self.inactivated.add(number)
        return None


# ------------------------------------------------------------------------------------------------- ours, played


@dataclass
class Played:
    """The machine under way, and what each of its states was asked."""

    config: LifecycleConfig
    state: LifecycleState = field(default_factory=lifecycle.empty)
    view: snapshots.View = field(default_factory=snapshots.empty)
    now: int = 0
    registered: tuple[int, ...] = ()
    active: frozenset[int] = frozenset()
    said: list[Line] = field(default_factory=list)
    steps: list[tuple[LifecycleState, LifecycleInput, int, tuple[LifecycleCommand, ...], Line]] = field(
        default_factory=list
    )

    def answer_of(self, state: LifecycleState, now: int) -> Line:
        config = self.config
        return (
            state.removed(config, now),
            state.inactivated(),
            state.failed(),
            state.failures(config, now).count,
            state.polled_at,
            lifecycle.busy(state),
            lifecycle.due(state, config),
            lifecycle.next_change(state, config),
        )

    def take(self, item: LifecycleInput) -> tuple[LifecycleCommand, ...]:
        before = self.state
        asked = self.answer_of(before, self.now)
        step = lifecycle.reap(before, [item], self.config, self.now)
        self.state = step.state
        self.steps.append((before, item, self.now, step.commands, asked))
        self.said += [("threw", report.what) for report in step.reports if isinstance(report, Threw)]
        return step.commands

    def round(self, story: Round) -> None:
        added = tuple((PodNumber(number), at) for number, at in story.registered.items())
        self.take(KnownExecutors(self.now, added, tuple(map(PodNumber, self.registered))))
        self.registered = tuple(story.registered)
        gone, come = self.active - story.active, story.active - self.active
        self.take(ActiveExecutors(self.now, tuple(map(PodNumber, come)), tuple(map(PodNumber, gone))))
        self.active = story.active
        for _ in range(story.creations_failed):
            self.take(CreationFailed(self.now, PodNumber(0)))
        self.said = []
        commands = self.take(Delivery(self.now, tuple(self.snapshot(*item) for item in story.batch)))
        threw, self.said = self.said, []
        for command in commands:
            self.say(command, story)
        self.said += threw
        assert lifecycle.busy(self.state) == any(isinstance(c, MarkInactive) for c in commands)
        for command in commands:
            if isinstance(command, MarkInactive):
                failure = REFUSED if command.executor in story.refused else None
                assert self.take(Outcome(self.now, command.serial, failure)) == ()
        assert not lifecycle.busy(self.state)

    def say(self, command: LifecycleCommand, story: Round) -> None:
        match command:
            case RemoveExecutor() if command.round_index is None:
                number = PodNumber(int(command.executor))
                self.said.append(("lost", number, command.why.facts["registered_at"]))
            case RemoveExecutor():
                number, reason = PodNumber(int(command.executor)), command.reason
                self.said.append(("removed", number, reason.exit_code, reason.message))
                assert command.active in (None, number in story.active)
            case DeletePod():
                self.said.append(("delete", command.executor))
            case MarkInactive():
                self.said.append(("patch", command.executor))
            case StopApplication():
                self.said.append(("exit", command.exit_code))

    def snapshot(self, full: int | None, listed: tuple[PodManifest, ...]) -> Snapshot:
        if full is not None:
            taken = snapshots.replace(self.view, listed, RULES, full)
            assert not isinstance(taken, SparkFault)
            self.view = taken.view
            if len(self.view) > SMALL:
                return taken.snapshot
            pods = [pod for item in listed if isinstance(pod := snapshots.read(item, RULES), Pod)]
            return taken.snapshot._replace(changed=tuple(pods))
        changed: list[Pod] = []
        for item in listed:
            taken = snapshots.update(self.view, item, RULES)
            assert not isinstance(taken, SparkFault)
            self.view = taken.view
            changed += taken.snapshot.changed
        return Snapshot(self.view.full_ts, tuple(changed))


def by_executor(said: list[Line]) -> list[Line]:
    """Within a round, each executor's own lines in order: whom a round meets first is no decision."""
    return sorted(said, key=lambda line: (line[0] in ("exit", "threw"), line[0] == "lost", str(line[1])))


@given(configs, stories)
def test_agrees_with_a_literal_reading(config: LifecycleConfig, story: list[Round]) -> None:
    theirs, ours = Literal(config), Played(config)
    for happening in story:
        theirs.now = ours.now = ours.now + happening.pause
        theirs.failures += [theirs.now] * happening.creations_failed
        theirs.round(happening)
        ours.round(happening)
        assert by_executor(ours.said) == by_executor(theirs.said)
        assert ours.state.inactivated() == tuple(sorted(theirs.inactivated))
        assert ours.state.failed() == tuple(sorted(theirs.failed))
        assert ours.state.removed(config, ours.now) == tuple(sorted(filter(theirs.cached, theirs.cache)))
        assert ours.state.polled_at == theirs.polled_at


@given(configs, stories, st.data())
def test_older_states_answer_as_before_and_can_be_gone_on_from(
    config: LifecycleConfig, story: list[Round], data: st.DataObject
) -> None:
    played = Played(config)
    for happening in story:
        played.now += happening.pause
        played.round(happening)
    last = played.answer_of(played.state, played.now)
    for place in data.draw(st.lists(st.integers(0, len(played.steps) - 1), max_size=5)):
        state = played.steps[place][0]
        for _, item, now, commands, asked in played.steps[place:]:
            assert played.answer_of(state, now) == asked
            step = lifecycle.reap(state, [item], config, now)
            assert step.commands == commands
            state = step.state
        assert played.answer_of(state, played.now) == last
    assert played.answer_of(played.state, played.now) == last


@given(configs, stories)
def test_an_executor_is_one_failure_at_most(config: LifecycleConfig, story: list[Round]) -> None:
    played = Played(replace(config, failures_window_ms=None))
    creations = 0
    for happening in story:
        played.now += happening.pause
        creations += happening.creations_failed
        played.round(happening)
        count = played.state.failures(played.config, played.now).count
        assert count == len(played.state.failed()) + creations


@given(configs, stories, st.integers(1, 3))
def test_telling_the_same_again_changes_nothing_but_the_rounds(
    config: LifecycleConfig, story: list[Round], times: int
) -> None:
    """Pods are evidence, not events: a snapshot may name pods that have not changed."""
    once, again = Played(config), Played(config)
    for happening in story:
        once.now = again.now = once.now + happening.pause
        once.round(happening)
        doubled = tuple((full, listed * (times if full is None else 1)) for full, listed in happening.batch)
        again.round(replace(happening, batch=doubled))
        assert by_executor(again.said) == by_executor(once.said)
        assert again.answer_of(again.state, again.now) == once.answer_of(once.state, once.now)


@pytest.mark.parametrize("item", [Outcome(0, 0), Outcome(0, -5, REFUSED), KnownExecutors(0, (), (PodNumber(3),))])
def test_strange_input_is_harmless(item: LifecycleInput) -> None:
    state = lifecycle.empty()
    step = lifecycle.reap(state, [item], LifecycleConfig(), 0)
    assert (step.state, step.commands, step.reports) == (state, (), ())
