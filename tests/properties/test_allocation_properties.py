"""The pods allocator under whatever may happen: no input raises, older states answer as before, ``due`` misses nothing."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from hypothesis import assume, example, given, strategies as st

from podtide.domain.base.units import LAST_MS, NEVER, ProfileId
from podtide.domain.kubernetes.allocator import allocator as allocation
from podtide.domain.kubernetes.allocator.state import AllocatorInput, RecoveryNeeded
from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.executor_stimuli import Starting, Stopping, TargetsSet
from podtide.domain.protocol.pod_commands import CountFailure, CreatePod, DeletePods, Deliver
from podtide.domain.protocol.pod_stimuli import CallFailure, Claim, KnownExecutors, Outcome, Reconciled
from podtide.domain.protocol.pods import EXECUTOR_LABEL, PROFILE_LABEL, Pod, PodManifest, PodNumber, PodState, Snapshot
from podtide.domain.protocol.reasons import Cause, Held, Phase, Threw, Why
from tests.properties.allocator_happenings import (
    Act,
    Changed,
    Happening,
    Run,
    Said,
    Shown,
    configs,
    happenings,
    prompt_happenings,
    told,
)
from tests.properties.allocator_model import Call, Literal
from tests.support.pods_play import Api, PodsPlay

LONG_ENOUGH = 30_000  # every timeout of the configurations has come by then


# Pure at the boundary.


@given(configs(), happenings, st.data())
def test_an_older_state_answers_as_before_and_can_be_gone_on_from(
    config: AllocationConfig, story: list[Happening], data: st.DataObject
) -> None:
    run = Run(config)
    kept: list[tuple[Run, dict[str, object], int]] = []
    for happening in story:
        kept.append((run.fork(), told(run.state), len(run.said)))
        run.happen(happening)
    end = told(run.state)
    # Look back in any order, between steps that go on from any of them.
    for place in data.draw(st.lists(st.integers(0, len(story) - 1), max_size=5)):
        then, line, said = kept[place]
        assert told(then.state) == line
        again = then.fork()
        for further, happening in enumerate(story[place:], start=place):
            assert told(again.state) == kept[further][1]
            again.happen(happening)
        assert again.said == run.said[said:]
        assert told(again.state) == end
        assert told(then.state) == line


@given(configs(), happenings, happenings)
def test_two_futures_of_one_state_know_nothing_of_each_other(
    config: AllocationConfig, story: list[Happening], other: list[Happening]
) -> None:
    half = len(story) // 2
    alone = Run(config).live(story)
    run = Run(config).live(story[:half])
    first, second = run.fork(), run.fork()
    for place in range(max(len(story) - half, len(other))):
        for branch, tale in ((first, story[half:]), (second, other)):
            if place < len(tale):
                branch.happen(tale[place])
    assert run.said + first.said == alone.said
    assert told(first.state) == told(alone.state)


@given(configs(), happenings)
def test_commands_do_not_change_after_they_were_given(config: AllocationConfig, story: list[Happening]) -> None:
    run = Run(config)
    then: list[Said] = deepcopy(run.said)
    for happening in story:
        run.happen(happening)
        then.extend(deepcopy(run.said[len(then) :]))
    assert run.said == then


# When it needs time.


@given(configs(), happenings)
def test_skipped_deliveries_would_have_changed_nothing(config: AllocationConfig, story: list[Happening]) -> None:
    eager, lazy = Run(config, eager=True), Run(config)
    for happening in story:
        eager.happen(happening)
        lazy.happen(happening)
        assert lazy.said == eager.said
        assert told(lazy.state) == told(eager.state)
    eager.pass_time(LONG_ENOUGH)
    lazy.pass_time(LONG_ENOUGH)
    assert lazy.said == eager.said
    assert told(lazy.state) == told(eager.state)
    assert lazy.deliveries <= eager.deliveries


@given(configs(), configs(), happenings, happenings)
def test_deliveries_stay_skippable_under_another_config(
    first: AllocationConfig, second: AllocationConfig, story: list[Happening], sequel: list[Happening]
) -> None:
    """A what-if goes on from a state under another configuration; its first round is taken at once."""
    eager, lazy = Run(first, eager=True).live(story), Run(first).live(story)
    for run in (eager, lazy):
        run.config = second
        run.take(Deliver(run.now, "allocator", ()))
    for happening in sequel:
        eager.happen(happening)
        lazy.happen(happening)
        assert lazy.said == eager.said
        assert told(lazy.state) == told(eager.state)


@given(configs(), happenings)
def test_due_costs_nothing_to_ask(config: AllocationConfig, story: list[Happening]) -> None:
    asked, left_alone = Run(config, eager=True), Run(config, eager=True)
    for happening in story:
        allocation.due(asked.state, config)
        asked.happen(happening)
        left_alone.happen(happening)
    assert asked.said == left_alone.said
    assert told(asked.state) == told(left_alone.state)


# What is never done.


class Watched(Run):
    """A run that keeps what was said in each round; the API server answers at once, so a round ends with its delivery."""

    def __post_init__(self) -> None:
        self.checked = 0
        super().__post_init__()

    def take(self, item: AllocatorInput) -> None:
        before = len(self.said)
        unseen = {number for number, _ in self.state.fleet.created()} if self.checked else set()
        super().take(item)
        if isinstance(item, Deliver):
            self.checked += 1
            self._check(self.said[before:], unseen)

    def _check(self, said: list[Said], unseen: set[PodNumber]) -> None:
        state, config = self.state, self.config
        fleet, alone = state.fleet, len(state.targets) <= 1
        sums = {profile: fleet.census(profile, alone=alone) for profile in state.targets}
        refused = {command.executor for command in said if isinstance(command, CountFailure)}
        asked: dict[ProfileId, list[PodNumber]] = {}
        for command in said:
            if isinstance(command, CreatePod):
                asked.setdefault(command.profile, []).append(command.executor)
        for profile, numbers in asked.items():
            failed = len(refused.intersection(numbers))
            assert len(numbers) <= config.batch_size
            assert sums[profile].counted + failed <= state.targets[profile]
            assert sums[profile].not_running + failed <= config.pending_max_per_profile
        aborted = any(isinstance(one, Threw) for one in said)  # what it deleted counts again, if not in its own limits
        if asked and not aborted:
            assert sum(census.not_running for census in sums.values()) + len(refused) <= config.pending_max
        excess = [c for c in said if isinstance(c, DeletePods) and c.phase == "Pending"]
        named = {number for command in excess for number in command.executors or ()}
        running = {number for number, pod in state.fleet.snapshot().items() if pod.state is PodState.RUNNING}
        assert not named & running - unseen  # a pod that was there before its creation is unseen all the same
        assert not named & state.fleet.known_numbers()


@given(configs(), prompt_happenings)
def test_no_round_asks_for_more_than_the_limits_allow_or_deletes_what_is_protected(
    config: AllocationConfig, story: list[Happening]
) -> None:
    run = Watched(config, eager=True)
    run.live(story)
    run.pass_time(LONG_ENOUGH)
    assert run.checked >= LONG_ENOUGH // config.batch_delay_ms


@given(configs(), happenings)
def test_what_is_said_is_in_order(config: AllocationConfig, story: list[Happening]) -> None:
    said = Run(config, eager=True).live(story).said
    numbers = [command.executor for command in said if isinstance(command, CreatePod)]
    assert numbers == sorted(set(numbers))  # none is used twice
    assert all(0 < number < config.pods_max for number in numbers)
    serials = [getattr(command, "serial", None) for command in said]
    assert (given := [serial for serial in serials if serial is not None]) == sorted(set(given))
    assert all(isinstance(getattr(command, "why", None), Why) for command in said if hasattr(command, "serial"))


@given(configs(), happenings)
def test_holds_begin_before_they_change_and_change_before_they_end(
    config: AllocationConfig, story: list[Happening]
) -> None:
    run = Run(config, eager=True).live(story)
    current: dict[object, object] = {}
    for report in run.said:
        if not isinstance(report, Held):
            continue
        key = report.profile, report.bound
        if report.phase is Phase.BEGAN:
            assert key not in current
            current[key] = report.facts
        elif report.phase is Phase.CHANGED:
            assert current[key] != report.facts
            current[key] = report.facts
        else:
            assert current.pop(key) == report.facts
    assert current == dict(run.state.holds)


# The sums.


def calls(said: list[Said]) -> list[Call]:
    found: list[Call] = []
    for one in said:
        if isinstance(one, CreatePod):
            found.append(("create", one.executor, one.profile))
        elif isinstance(one, DeletePods):
            found.append(("delete", one.executors, one.phase))
    return found


def exceptions(said: list[Said]) -> list[str]:
    return [one.what.split(":")[0].split(".")[-1] for one in said if isinstance(one, Threw)]


class Beside(Run):
    """A run with the literal allocator beside it."""

    def __post_init__(self) -> None:
        self.model = Literal(self.config)
        self.whole: dict[int, Pod] = {}
        super().__post_init__()

    def take(self, item: AllocatorInput) -> None:
        outermost = not isinstance(item, Outcome)
        if outermost:
            self.model.creates = lambda number: self.api.answer(_creation(number), 0).failure is None  # type: ignore[union-attr]
            self.model.deletes = self.api.deletes is None
        match item:
            case Deliver():
                batch = []
                for snapshot in item.snapshots:
                    self.whole = {n: p for n, p in self.whole.items() if n not in snapshot.gone}
                    self.whole.update({pod.number: pod for pod in snapshot.changed})
                    batch.append(self.whole)
                self.model.deliver(batch, self.now)
            case TargetsSet():
                self.model.targets.update(item.targets)
            case KnownExecutors():
                self.model.known -= set(item.removed)
                self.model.known |= {number for number, _ in item.added}
            case _:
                pass
        super().take(item)


def _creation(number: int) -> CreatePod:
    return CreatePod(0, 0, PodNumber(number), ProfileId(0), Why(Cause.BELOW_TARGET))


@given(configs(faithful=True), prompt_happenings)
def test_every_round_is_that_of_the_literal_allocator(config: AllocationConfig, story: list[Happening]) -> None:
    run = Beside(config, eager=True)
    for happening in story:
        run.happen(happening)
        state, model = run.state, run.model
        assert calls(run.said) == model.calls
        assert exceptions(run.said) == model.thrown
        assert [(number, tuple(made)) for number, made in state.fleet.created()] == list(model.created.items())
        assert list(state.fleet.joined()) == list(model.joined.items())
        assert state.fleet.deleted_numbers() == model.deleted
        assert state.fleet.snapshot() == model.last
        assert (state.outstanding, state.executors, state.failures) == (
            model.outstanding, model.executors, model.failures,
        )  # fmt: skip


# Calls that come back in any order.


some = st.sets(st.integers(1, 8))


@given(configs(faithful=True), st.integers(1, 8), some, st.permutations(range(10)), st.booleans(), st.data())
def test_answers_in_any_order_end_in_the_same_books(
    config: AllocationConfig, wanted: int, refused: set[int], order: list[int], later: bool, data: st.DataObject
) -> None:
    known = data.draw(some)
    endings = []
    for chosen in (sorted(order), order):
        play = PodsPlay(replace(config, batch_size=8), Api(silent=True), prompt=False)
        play.want(wanted, 2)
        play.deliver()
        creations = play.said(CreatePod)
        assume(len(creations) > 1)
        for place in chosen:
            if place < len(creations):
                play.now += later
                play.answer(creations[place], CallFailure(403) if creations[place].executor in refused else None)
        assert not allocation.busy(play.state)
        play.now = 100
        play.know(*known)
        play.deliver()
        line = told(play.state)
        made = line.pop("created")
        endings.append((line, sorted(number for number, _ in made), made if not later else None))  # type: ignore[attr-defined]
    assert endings[0] == endings[1]


# Whatever comes in.

ints = st.sampled_from([0, 1, 2, -1, 7, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)])
big_numbers = ints.map(PodNumber)
texts = st.sampled_from(["", "0", "1", "x", "-", "+2", "9" * 30, "0" * 5_000 + "1", "١", "é" * 40, "2147483648"])
times = st.none() | st.sampled_from(
    ["", "1970-01-01T00:00:00Z", "+1000000000-12-31T23:59:59Z", "-1000000000-01-01T00:00:00Z"]
)
manifests = st.builds(
    PodManifest, texts, st.dictionaries(st.sampled_from([PROFILE_LABEL, EXECUTOR_LABEL]), texts), times, times,
    claims=st.lists(texts, max_size=2).map(tuple), phase=texts, has_spec=st.booleans(),
)  # fmt: skip
any_pods = st.builds(Pod, big_numbers, st.sampled_from(PodState), manifests)
any_snapshots = st.builds(
    Snapshot, ints, st.lists(any_pods, max_size=3).map(tuple), st.lists(big_numbers, max_size=3).map(tuple)
)
zero = st.just(0)
any_failures = st.none() | st.builds(CallFailure, st.none() | ints, texts, texts)
any_claims = st.lists(st.builds(Claim, texts, st.none() | texts, texts, times), max_size=2).map(tuple)
few_targets = st.sampled_from([0, 1, 5, -1, -(2**63), 3])
extreme: st.SearchStrategy[AllocatorInput] = st.one_of(
    st.builds(Deliver, zero, texts, st.lists(any_snapshots, max_size=3).map(tuple)),
    st.builds(Deliver, zero, texts, st.lists(any_snapshots, min_size=1, max_size=3).map(tuple)),
    st.builds(TargetsSet, zero, st.lists(st.tuples(ints.map(ProfileId), few_targets), max_size=3).map(tuple)),
    st.builds(
        KnownExecutors, zero, st.lists(st.tuples(big_numbers, ints), max_size=3).map(tuple),
        st.lists(big_numbers, max_size=3).map(tuple),
    ),
    st.builds(Outcome, zero, st.integers(0, 40), any_failures, any_claims),
    st.builds(Outcome, zero, st.integers(0, 40), any_failures, any_claims),
    st.builds(RecoveryNeeded, zero),
    st.builds(Reconciled, zero, big_numbers, st.lists(big_numbers, max_size=3).map(tuple), st.booleans()),
    st.builds(Starting, zero),
    st.builds(Stopping, zero),
)  # fmt: skip
leaps = st.sampled_from([0, 1, 1_000, 600_000, LAST_MS // 2])


@given(configs(), st.booleans(), st.lists(st.tuples(leaps, extreme), max_size=40))
@example(AllocationConfig(), True, [(LAST_MS, Deliver(0, "", ())), (LAST_MS, Starting(0)), (NEVER, Deliver(0, "", ()))])
def test_no_input_raises(config: AllocationConfig, remarks: bool, story: list[tuple[int, AllocatorInput]]) -> None:
    config = replace(config, remarks=remarks)
    state = allocation.begin(config)
    now = 0
    for leap, item in story:
        now += leap
        moved = item._replace(at=now) if isinstance(item, tuple) else replace(item, at=now)
        for each in (moved, Deliver(now, "allocator", ())):
            older = state
            state = allocation.allocate(state, (each,), config, now).state
            allocation.due(state, config)
            allocation.due(older, config)
            allocation.is_deleted(state, PodNumber(1))


@given(configs(), happenings)
def test_a_batch_of_inputs_decides_what_they_decide_one_by_one(
    config: AllocationConfig, story: list[Happening]
) -> None:
    """The outcomes of a silent API server never come; what can be taken in one call is taken in one call."""
    run = Run(config)
    items: list[AllocatorInput] = []
    for _, act in story:
        if isinstance(act, Shown):
            items.append(Deliver(0, "allocator", run.queued(act)))
        elif not isinstance(act, Changed) and not _is_answer(act):
            items.append(act)  # type: ignore[arg-type]
    single = batched = allocation.begin(config)
    said: list[object] = []
    for item in items:
        step = allocation.allocate(single, (item,), config, 7)
        single = step.state
        said.extend(step.commands)
    whole = allocation.allocate(batched, items, config, 7)
    assert list(whole.commands) == said
    assert told(whole.state) == told(single)


def _is_answer(act: Act) -> bool:
    return type(act).__name__ == "Answered"
