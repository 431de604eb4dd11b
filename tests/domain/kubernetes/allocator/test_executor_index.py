"""The fleet: who counts as what, in which order, and that an older fleet answers as before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.base.units import ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.allocator.executor_index import (
    ExecutorIndex,
    ProfileCensus,
    empty_index,
    hash_order,
    profile_of,
)
from podtide.domain.kubernetes.allocator.executor_index_step import IndexDraft, has_specless
from podtide.domain.protocol.pods import Pod, PodManifest, PodNumber, PodRules, Snapshot
from tests.support.pods_play import manifest

steady = settings(deadline=None, derandomize=True, max_examples=120, database=None)
ZERO, ONE = ProfileId(0), ProfileId(1)
RULES = PodRules(check_all_containers=False)


def number(value: int) -> PodNumber:
    return PodNumber(value)


def pod(
    value: int, phase: str = "Running", profile: object = 0, created_at: int | str | None = 0, **more: object
) -> Pod:
    return read(manifest(value, phase, profile, created_at, **more))  # type: ignore[arg-type]


def read(shown: PodManifest) -> Pod:
    found = snapshots.read(shown, RULES)
    assert isinstance(found, Pod) and not isinstance(found, SparkFault)  # noqa: PT018 - one belief: it can be read
    return found


def changed(*pods: Pod, gone: Sequence[int] = ()) -> Snapshot:
    return Snapshot(0, pods, tuple(map(number, gone)))


Act = Callable[[IndexDraft], object]


def stepped(fleet: ExecutorIndex, *acts: Act) -> ExecutorIndex:
    draft = IndexDraft(fleet)
    for act in acts:
        act(draft)
    return draft.done()


def delivery(*batch: Snapshot) -> Act:
    return lambda draft: draft.deliver(batch)


def creation(value: int, profile: int = 0, at: int = 0) -> Act:
    def act(draft: IndexDraft) -> None:
        draft.create(number(value), ProfileId(profile), at)

    return act


def knowing(come: Sequence[int], go: Sequence[int] = ()) -> Act:
    def act(draft: IndexDraft) -> None:
        draft.know(map(number, come), map(number, go))

    return act


def joining(draft: IndexDraft) -> None:
    draft.join()


def retiring(value: int) -> Act:
    return lambda draft: draft.retire(number(value))


def reinstating(value: int) -> Act:
    def act(draft: IndexDraft) -> None:
        if value in draft.tables.deleted:
            draft.reinstate(number(value))

    return act


def forgetting(value: int) -> Act:
    def act(draft: IndexDraft) -> None:
        if value in draft.tables.created:
            draft.forget_created(number(value))
        if value in draft.tables.joined:
            draft.forget_joined(number(value))

    return act


def acknowledging(*batch: Snapshot) -> Act:
    def act(draft: IndexDraft) -> None:
        draft.acknowledge(batch)

    return act


def census(fleet: ExecutorIndex, profile: ProfileId = ZERO, *, alone: bool = False) -> ProfileCensus:
    return fleet.census(profile, alone=alone)


def delivered(*pods: Pod) -> ExecutorIndex:
    return stepped(empty_index(), delivery(changed(*pods)))


@pytest.mark.parametrize(
    ("label", "profile"),
    [
        ("0", 0), ("7", 7), ("+7", 7), ("-3", -3), ("007", 7), ("0" * 5_000, 0), ("-" + "0" * 5_000 + "1", -1),
        ("2147483647", 2**31 - 1), ("2147483648", None), ("-2147483648", -(2**31)), ("-2147483649", None),
        ("", None), ("+", None), ("-", None), ("+-1", None), ("1_0", None), (" 1", None), ("1.0", None), ("x", None),
        ("9" * 5_000, None), ("²", None), (None, None),
    ],
    ids=lambda value: repr(value)[:12],
)  # fmt: skip
def test_the_profile_of_a_label(label: str | None, profile: int | None) -> None:
    assert profile_of(pod(1, profile=label)) == profile


def test_ripe_pods_follow_the_time_back_and_forth() -> None:
    fleet = delivered(
        *(pod(n, "Pending", created_at=n * 1_000) for n in range(1, 6)), pod(6, "Pending", created_at="?")
    )
    draft = IndexDraft(fleet)
    for before, ripe in (
        (2_001, [1, 2, 6]),
        (9_000, [1, 2, 3, 4, 5, 6]),
        (3_000, [1, 2, 6]),
        (0, [6]),
        (4_001, [1, 2, 3, 4, 6]),
    ):
        assert sorted(draft.ripe_of(ZERO, before, alone=False)) == ripe
    assert draft.undated_of(ZERO, alone=False) == [6]


def test_pods_that_change_for_ever_leave_no_trace() -> None:
    fleet = delivered(pod(1, "Pending"), pod(2, "Pending"))
    for turn in range(2_000):
        fleet = stepped(fleet, delivery(changed(pod(1, "Pending", created_at=turn))))
    (bucket,) = fleet._tables.buckets.values()
    assert len(bucket.young) < 200
    fleet = stepped(fleet, delivery(changed(gone=[1, 2])))
    assert fleet._tables.buckets == {}


def test_the_first_unreadable_label_by_number_that_counts() -> None:
    fleet = stepped(delivered(pod(9, profile="c"), pod(5, profile="b"), pod(2, profile="a"), pod(1)), retiring(2))
    found = fleet.unreadable()
    assert found is not None
    assert found.number == 5
    assert delivered(pod(1)).unreadable() is None


def test_deliveries_with_a_pod_that_has_no_spec() -> None:
    bare, whole = pod(1, "Pending", has_spec=False), pod(1, "Pending")
    assert not has_specless([changed(whole)])
    assert has_specless([changed(whole), changed(bare)])
    assert not has_specless([changed(bare), changed(whole)])  # as it is shown last
    assert has_specless([changed(bare), changed(gone=[1])])


# An older fleet answers as before.


def told(fleet: ExecutorIndex) -> object:
    """All that a fleet answers."""
    counts = [fleet.census(ProfileId(profile), alone=alone) for profile in (0, 1, 2) for alone in (False, True)]
    ripe = [fleet.ripe_of(ProfileId(profile), at, alone=False) for profile in (0, 1, 2) for at in (5, 2, 8)]
    books = fleet._tables
    return (
        fleet.created(), fleet.joined(), fleet.deleted_numbers(), fleet.known_numbers(), dict(fleet.snapshot()),
        counts, ripe, dict(books.claims), set(books.unseen), set(books.returning), set(books.overrun), set(books.met),
        set(books.veterans),
    )  # fmt: skip


few = st.integers(1, 5)
pods = st.builds(
    pod, few, st.sampled_from(["Running", "Pending", "Pending", "Failed"]), st.sampled_from([0, 0, 1, "x"]),
    st.integers(0, 9) | st.none(), claims=st.lists(st.sampled_from("ab"), max_size=2),
)  # fmt: skip


@st.composite
def shown(draw: st.DrawFn) -> Snapshot:
    several = {each.number: each for each in draw(st.lists(pods, max_size=3))}
    return changed(*several.values(), gone=sorted(draw(st.sets(few, max_size=2)) - several.keys()))


acts: st.SearchStrategy[Act] = st.one_of(
    st.lists(shown(), min_size=1, max_size=3).map(lambda batch: delivery(*batch)),
    st.builds(knowing, st.lists(few, max_size=2), st.lists(few, max_size=2)),
    st.just(joining),
    st.builds(creation, few, st.integers(0, 1), st.just(9)),
    few.map(forgetting),
    few.map(retiring),
    few.map(reinstating),
    st.lists(shown(), min_size=1, max_size=2).map(lambda batch: acknowledging(*batch)),
)


@steady
@given(st.lists(st.lists(acts, min_size=1, max_size=3), max_size=12), st.data())
def test_an_older_fleet_answers_as_before(story: list[list[Act]], data: st.DataObject) -> None:
    fleet = empty_index()
    kept = []
    for step in story:
        kept.append((fleet, told(fleet)))
        fleet = stepped(fleet, *step)
    kept.append((fleet, told(fleet)))
    for place in data.draw(st.permutations(range(len(kept)))):
        older, then = kept[place]
        assert told(older) == then
        if place < len(story):  # and can be gone on from
            assert told(stepped(older, *story[place])) == kept[place + 1][1]


def test_negative_numbers_come_first_in_their_bucket() -> None:
    """As scala-library 2.13 itself walks mutable.HashMap[Long, _] with these keys."""
    assert hash_order([number(value) for value in (0, 16, -17, -1, 32)]) == [-1, -17, 0, 16, 32]


@steady
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 200), unique=True, max_size=60))
def test_the_order_of_a_hash_map(numbers: list[int]) -> None:
    """Scala's mutable.HashMap, literally: a table of chains by hash, doubled when it is three quarters full."""

    def signed(value: int) -> int:
        value &= 0xFFFFFFFF
        return value - 2**32 if value >= 2**31 else value

    def improved(value: int) -> int:
        wide = value & (2**64 - 1)
        an_int = signed(value) == value  # Scala's ## of such a Long is that of the Int
        code = (wide if an_int else wide ^ (wide >> 32)) & 0xFFFFFFFF
        return signed(code ^ (code >> 16))

    table: list[list[int]] = [[] for _ in range(16)]
    for count, each in enumerate(numbers):
        if count + 1 >= 0.75 * len(table):
            held = [value for chain in table for value in chain]
            table = [[] for _ in range(2 * len(table))]
            for value in held:
                table[improved(value) & len(table) - 1].append(value)
        table[improved(each) & len(table) - 1].append(each)
    walked = [value for chain in table for value in sorted(chain, key=improved)]
    got = hash_order([number(value) for value in numbers])
    assert sorted(got) == sorted(numbers)
    for one, other in combinations(range(len(walked)), 2):
        if improved(walked[one]) != improved(walked[other]):  # of equal hashes, whichever came first
            assert got.index(number(walked[one])) < got.index(number(walked[other]))
