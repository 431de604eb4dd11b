"""The decisions of the staging server: who is let in, what fits, and when a bundle goes. Ids R1 to R15: the scenarios of the
staging server's specification (auxiliary, section 4.2); those that need a disk or a socket are in tests/adapters/staging."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.base.units import NEVER
from podtide.domain.staging.bundles import (
    LABELS_MAX,
    Bundle,
    BundleId,
    BundleOwner,
    BundlePublished,
    BundleRemoved,
    CollectionAsked,
    DiscardUpload,
    DownloadAsked,
    FindOwners,
    OwnersFound,
    OwnersUnknown,
    PublishBundle,
    ReceiveBundle,
    RecordUse,
    RefusalStatus,
    RefuseClient,
    RemovalCause,
    RemovalFailed,
    RemoveBundle,
    SendBundle,
    StagingCommand,
    StagingConfig,
    StagingStimulus,
    StagingTick,
    UploadArrived,
    UploadAsked,
    UploadBroken,
    owner_of,
)
from podtide.domain.staging.staging import StagingState, StagingStep, advance, begin, due

CONFIG = StagingConfig(bundle_max=1_000, total_max=2_000, free_min=100, uploads_max=2)
LABELS = (("app", "a"),)
SEARCH = FindOwners("ns", ("app",))
SECRET = hashlib.sha256(b"secret").digest()
WRONG = hashlib.sha256(b"Secret").digest()
FREE = 10_000


def name_of(number: int) -> BundleId:
    return BundleId(f"{number:032x}")


ONE = name_of(1)


class Play:
    """A server whose disk does what it is told; commands are kept."""

    def __init__(self, *bundles: Bundle, config: StagingConfig = CONFIG) -> None:
        self.config = config
        self.now = 0
        self.state: StagingState = begin(bundles, config, 0)
        self.step = StagingStep(self.state)

    def hear(self, stimulus: StagingStimulus) -> tuple[StagingCommand, ...]:
        self.step = advance(self.state, stimulus, self.config, self.now)
        self.state = self.step.state
        return self.step.commands

    def ask(self, size: int | None, bundle: BundleId = ONE, free: int = FREE, namespace: str = "ns") -> StagingCommand:
        (command,) = self.hear(UploadAsked(bundle, SECRET, namespace, LABELS, size, free))
        return command

    def stage(self, bundle: BundleId = ONE, size: int = 100) -> None:
        assert self.ask(size, bundle) == ReceiveBundle(bundle, size)
        (publish,) = self.hear(UploadArrived(bundle, b"d" * 32))
        assert isinstance(publish, PublishBundle)
        assert self.hear(DownloadAsked(bundle, SECRET)) == (refusal(RefusalStatus.NOT_FOUND, self),)
        self.hear(BundlePublished(bundle))

    def fetch(self, secret: bytes | None = SECRET, bundle: str = ONE) -> tuple[StagingCommand, ...]:
        return self.hear(DownloadAsked(bundle, secret))

    def collect(self, *, alive: bool = False, ended: bool = False) -> tuple[StagingCommand, ...]:
        """A pass whose only question has this answer."""
        assert self.hear(CollectionAsked()) == (SEARCH,)
        pods = frozenset({("a",)})
        return self.hear(OwnersFound(SEARCH, pods if alive else frozenset(), pods if ended else frozenset()))


def refusal(status: RefusalStatus, play: Play) -> RefuseClient:
    """The refusal that the play's last step made, which has this status."""
    (command,) = play.step.commands
    assert isinstance(command, RefuseClient)
    assert command.status is status
    return command


def staged(*, used: bool = False) -> Play:
    play = Play()
    play.stage()
    if used:
        play.fetch()
    play.now = 1
    return play


def test_r2_a_wrong_secret_gets_nothing_and_the_bundle_stays_unused() -> None:
    play = staged()
    for secret in (WRONG, None):
        play.fetch(secret)
        refusal(RefusalStatus.UNAUTHORIZED, play)
    for unknown in (name_of(2), "../../etc", ""):
        play.fetch(SECRET, unknown)
        refusal(RefusalStatus.NOT_FOUND, play)
    assert not play.state.bundles[ONE].used
    record, send = play.fetch()
    assert isinstance(record, RecordUse)
    assert isinstance(send, SendBundle)
    assert send.bundle.used
    assert play.fetch() == (send,)


def test_a_hash_that_is_missing_is_no_hash_of_zeros() -> None:
    play = Play(Bundle(ONE, BundleOwner("ns", LABELS), SECRET, b"", 1, 0))
    play.fetch(None)
    refusal(RefusalStatus.UNAUTHORIZED, play)


@pytest.mark.parametrize(("now", "goes"), [(1_799_999, False), (1_800_000, True)])
def test_r3_an_unused_bundle_goes_when_its_time_is_over(now: int, goes: bool) -> None:
    play = staged()
    play.now = now
    assert play.collect() == ((RemoveBundle(ONE, RemovalCause.NEVER_USED, 0),) if goes else ())
    play.fetch()
    assert isinstance(play.step.commands[0], RefuseClient if goes else RecordUse)


def test_an_unused_bundle_waits_for_pods_that_are_there() -> None:
    """A driver may wait for a node for hours; the fork's bundle was gone by then."""
    play = staged()
    play.now = 10 * 1_800_000
    assert play.collect(alive=True) == ()
    assert play.collect(ended=True) == (RemoveBundle(ONE, RemovalCause.NEVER_USED, 0),)


def test_r4_two_passes_without_pods_remove_a_bundle() -> None:
    play = staged(used=True)
    assert play.collect(alive=True) == ()
    assert play.collect() == ()
    assert play.step.report is not None
    assert play.step.report.doubted == 1
    assert play.collect() == (RemoveBundle(ONE, RemovalCause.PODS_GONE, 1),)


def test_a_list_without_the_pods_is_forgotten_when_the_next_has_them() -> None:
    play = staged(used=True)
    for alive in (False, True, False, True):
        assert play.collect(alive=alive) == ()


def test_pods_that_ended_keep_a_bundle_for_a_while() -> None:
    play = staged(used=True)
    assert play.collect(ended=True) == ()
    play.now += CONFIG.ended_ms - 1
    assert play.collect(ended=True) == ()
    play.now += 1
    assert play.collect(ended=True) == (RemoveBundle(ONE, RemovalCause.PODS_ENDED, 1),)


def test_r5_a_late_executor_is_served_after_many_passes() -> None:
    play = staged(used=True)
    for _ in range(100):
        play.now += CONFIG.pass_ms
        assert play.collect(alive=True, ended=True) == ()
    assert [type(command) for command in play.fetch()] == [SendBundle]


def test_an_answer_that_is_older_than_the_first_fetch_proves_nothing() -> None:
    play = staged()
    play.now = CONFIG.unused_ms
    assert play.hear(CollectionAsked()) == (SEARCH,)
    play.fetch()
    assert play.hear(OwnersFound(SEARCH, frozenset(), frozenset())) == ()
    play.now += 1
    assert play.collect() == ()  # the first of two


def test_r11_an_api_server_that_does_not_answer_removes_nothing_and_passes_go_on() -> None:
    play = staged(used=True)
    assert play.collect() == ()
    for _ in range(20):
        play.now = max(play.now, due(play.state))
        assert play.hear(StagingTick()) == (SEARCH,)
        assert due(play.state) == NEVER
        assert play.hear(OwnersUnknown(SEARCH, "403")) == ()
        assert play.step.report is not None
        assert [unknown.why for unknown in play.step.report.unknown] == ["403"]
        assert due(play.state) == play.now + CONFIG.pass_ms
    assert play.hear(StagingTick()) == ()  # too early
    assert play.collect(alive=True) == ()


@pytest.mark.parametrize("namespace", ["../../etc", "", "A", "a" * 64, "a\n", "ns/x", "a."])
def test_r7_a_namespace_that_is_none_is_refused(namespace: str) -> None:
    play = Play()
    play.ask(10, namespace=namespace)
    refusal(RefusalStatus.BAD_REQUEST, play)
    assert not play.state.uploads


@pytest.mark.parametrize(
    "labels",
    [(), (("a", ""),), (("a", "b,c=d"),), (("a b", "c"),), (("x/y/z", "c"),), (("a", "1"), ("a", "2")),
     (("/a", "b"),), (("a" * 64, "b"),), (("a", "b" * 64),), (("a", "b\n"),), tuple((f"k{i}", "v") for i in range(9))],
)  # fmt: skip
def test_labels_that_are_none_are_refused(labels: tuple[tuple[str, str], ...]) -> None:
    play = Play()
    play.hear(UploadAsked(ONE, SECRET, "ns", labels, 1, FREE))
    refusal(RefusalStatus.BAD_REQUEST, play)


@pytest.mark.parametrize(
    ("size", "free", "status"),
    [(None, FREE, RefusalStatus.LENGTH_REQUIRED), (0, FREE, RefusalStatus.BAD_REQUEST),
     (1_001, FREE, RefusalStatus.TOO_LARGE), (801, FREE, RefusalStatus.NO_ROOM), (700, 1_299, RefusalStatus.NO_ROOM)],
)  # fmt: skip
def test_r8_what_does_not_fit_is_refused(size: int | None, free: int, status: RefusalStatus) -> None:
    play = Play()
    play.stage(size=700)
    play.ask(500, name_of(2))
    play.ask(size, name_of(3), free)
    refusal(status, play)
    play.ask(800, name_of(3), 1_400)
    assert play.step.commands == (ReceiveBundle(name_of(3), 800),)
    play.ask(1, name_of(4))
    refusal(RefusalStatus.BUSY, play)


def test_r9_an_upload_that_breaks_leaves_its_room() -> None:
    play = Play()
    for _ in range(3):
        play.ask(1_000)
        assert play.hear(UploadBroken(ONE)) == (DiscardUpload(ONE),)
    play.ask(1_000)
    play.hear(UploadArrived(ONE, b""))
    assert play.hear(UploadBroken(ONE)) == (DiscardUpload(ONE),)  # the disk did not take the index
    assert (play.state.reserved, play.state.stored, len(play.state.bundles)) == (0, 0, 0)


def test_a_removal_that_failed_is_tried_again() -> None:
    play = staged()
    play.now = CONFIG.unused_ms
    (removal,) = play.collect()
    assert play.hear(CollectionAsked()) == ()  # nothing is left to judge
    play.hear(RemovalFailed(ONE))
    assert play.collect() == (removal,)
    play.hear(BundleRemoved(ONE))
    assert (play.state.stored, len(play.state.bundles), len(play.state.marks)) == (0, 0, 0)


def test_one_question_for_all_owners_with_the_same_keys() -> None:
    owners = [BundleOwner("ns", (("app", value),)) for value in "abc"] + [
        BundleOwner("other", (("app", "a"), ("b", "c")))
    ]
    play = Play(*(Bundle(name_of(i), owner, SECRET, b"", 1, 0, used=True) for i, owner in enumerate(owners)))
    other = FindOwners("other", ("app", "b"))
    assert play.hear(CollectionAsked()) == (SEARCH, other)
    for _ in range(2):
        play.hear(CollectionAsked())
        assert play.hear(OwnersUnknown(other, "away")) == ()
        removed = play.hear(OwnersFound(SEARCH, frozenset({("b",)}), frozenset()))
    assert removed == tuple(RemoveBundle(name_of(i), RemovalCause.PODS_GONE, 0) for i in (0, 2))


def test_a_server_without_bundles_asks_nobody_and_looks_again_later() -> None:
    play = Play()
    assert due(play.state) == CONFIG.pass_ms
    play.now = CONFIG.pass_ms
    assert play.hear(StagingTick()) == ()
    assert play.step.report == (0, (), 0, ())
    assert due(play.state) == 2 * CONFIG.pass_ms


def test_pods_that_ended_are_not_waited_for_where_that_is_said() -> None:
    play = staged(used=True)
    play.config = replace(CONFIG, ended_ms=0)
    assert play.collect(ended=True) == (RemoveBundle(ONE, RemovalCause.PODS_ENDED, 1),)
    assert play.step.report is not None
    assert (play.step.report.doubted, len(play.step.report.removed)) == (0, 1)


def test_a_bundle_that_is_removed_for_missing_pods_is_not_in_doubt_any_more() -> None:
    play = staged(used=True)
    play.collect()
    play.collect()
    assert play.step.report is not None
    assert (play.step.report.doubted, len(play.step.report.removed)) == (0, 1)


def test_as_many_and_as_long_labels_as_kubernetes_takes_are_taken() -> None:
    labels = [(f"{'p' * 253}/{'k' * 63}", "v" * 63), *((f"k{i}", "v") for i in range(LABELS_MAX - 1))]
    assert owner_of("n" * 63, labels) == BundleOwner("n" * 63, tuple(sorted(labels)))


OWNERS = tuple(BundleOwner("ns", (("app", value),)) for value in "ab")


@pytest.mark.uncounted
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_happens_books_balance_and_nothing_goes_that_pods_use(data: st.DataObject) -> None:
    play = Play(config=CONFIG)
    arriving: set[BundleId] = set()
    publishing: set[BundleId] = set()
    removing: set[BundleId] = set()
    made = 0
    for _ in range(data.draw(st.integers(1, 40))):
        play.now += data.draw(st.sampled_from([0, 1, CONFIG.pass_ms, CONFIG.unused_ms, CONFIG.ended_ms]))
        before = play.state
        kind = data.draw(st.sampled_from(["ask", "arrive", "break", "publish", "fetch", "remove", "fail", "pass"]))
        if kind == "ask":
            made += 1
            owner, size = data.draw(st.sampled_from(OWNERS)), data.draw(st.integers(1, 1_100))
            play.hear(UploadAsked(name_of(made), SECRET, owner.namespace, owner.labels, size, FREE))
            if isinstance(play.step.commands[0], ReceiveBundle):
                arriving.add(name_of(made))
        elif kind == "arrive" and arriving:
            arriving.remove(bundle := min(arriving))
            publishing.add(bundle)
            play.hear(UploadArrived(bundle, b""))
        elif kind == "break" and arriving | publishing:
            bundle = data.draw(st.sampled_from(sorted(arriving | publishing)))
            arriving.discard(bundle)
            publishing.discard(bundle)
            play.hear(UploadBroken(bundle))
        elif kind == "publish" and publishing:
            publishing.remove(bundle := min(publishing))
            play.hear(BundlePublished(bundle))
        elif kind == "fetch" and before.bundles:
            play.fetch(SECRET, data.draw(st.sampled_from(sorted(before.bundles))))
        elif kind in {"remove", "fail"} and removing:
            removing.remove(bundle := min(removing))
            play.hear(BundleRemoved(bundle) if kind == "remove" else RemovalFailed(bundle))
        elif kind == "pass":
            for search in play.hear(CollectionAsked()):
                assert isinstance(search, FindOwners)
                alive = frozenset(data.draw(st.sets(st.sampled_from([("a",), ("b",)]))))
                for removal in play.hear(OwnersFound(search, alive, frozenset())):
                    assert isinstance(removal, RemoveBundle)
                    bundle = removal.bundle
                    assert play.state.bundles[bundle].owner.labels[0][1:] not in alive
                    removing.add(bundle)
        state = play.state
        assert state.stored == sum(bundle.size for bundle in state.bundles.values())
        assert state.reserved == sum(upload.size for upload in state.uploads.values())
        assert state.stored + state.reserved <= CONFIG.total_max
        assert set(state.removing) == removing
        assert set(state.uploads) == arriving | publishing
        assert set(state.marks) | set(state.used_at) <= set(state.bundles)
