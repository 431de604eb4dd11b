"""The lease against a server that keeps versions as the real one does, loses answers and is away when told to."""

# ruff: noqa: ARG002 - a fake server takes all that the real one does

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.adapters.kubernetes.api import JSON, READ_TIMEOUT_S, ApiAnswer, Query, Stream, Unreachable
from podtide.adapters.kubernetes.lease.identity import Identity, own_identity
from podtide.adapters.kubernetes.lease.lease import ApplicationLease
from podtide.adapters.kubernetes.lease.record import (
    ID_MAX,
    Acquired,
    HeldBy,
    LeaseRecord,
    LeaseRefused,
    LeaseSettings,
    UnreadableLease,
    lease_name,
)
from podtide.adapters.notices import Level, Notice, Topic
from tests.support.clock import SecondsClock

APP = "spark-0123456789abcdef"
NAME = f"podtide-{APP}"
A = Identity("host-a", 7, "100", "4026531836", "aaaa")
B = Identity("host-b", 8, "200", "4026531837", "bbbb")


class Leases:
    """The leases of a server: versions, conflicts, preconditions, and whatever ``troubles`` says of the next calls."""

    def __init__(self, clock: SecondsClock) -> None:
        self.clock = clock
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.calls: list[str] = []
        self.troubles: list[object] = []
        self.lock = threading.Lock()

    def call(
        self,
        verb: str,
        resource: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_s: float = READ_TIMEOUT_S,
        headers: Mapping[str, str] | None = None,
    ) -> ApiAnswer:
        with self.lock:
            assert resource == "leases"
            assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/spark/leases")
            self.calls.append(verb)
            self.clock.move(0.01)
            trouble = self.troubles.pop(0) if self.troubles else None
            if isinstance(trouble, ApiAnswer):
                return trouble
            if trouble == "away":
                self.clock.move(1)
                raise Unreachable("no route", sent=False)
            answer = self._answer(verb, path.rpartition("/")[2], json.loads(body) if body else {})
            if trouble == "answer lost":
                raise Unreachable("cut off")
            return answer

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> Stream:
        raise AssertionError("a lease is not watched")

    def _answer(self, verb: str, name: str, sent: dict[str, Any]) -> ApiAnswer:
        there = self.objects.get(name)
        if verb == "create":
            name = sent["metadata"]["name"]
            return (
                self._status(409)
                if name in self.objects
                else self._store(name, {**sent["metadata"], "uid": f"u{self.version}"}, sent)
            )
        if there is None:
            return self._status(404)
        if verb == "get":
            return ApiAnswer(200, json.dumps(there).encode())
        if verb == "delete":
            if sent["preconditions"] != {key: there["metadata"][key] for key in ("uid", "resourceVersion")}:
                return self._status(409)
            del self.objects[name]
            return self._status(200)
        assert verb == "update"
        if (sent["metadata"]["resourceVersion"], sent["metadata"]["uid"]) != (
            there["metadata"]["resourceVersion"],
            there["metadata"]["uid"],
        ):
            return self._status(409)
        return self._store(name, sent["metadata"], sent)

    def _store(self, name: str, metadata: dict[str, Any], sent: dict[str, Any]) -> ApiAnswer:
        self.version += 1
        self.objects[name] = {**sent, "metadata": {**metadata, "resourceVersion": str(self.version)}}
        return ApiAnswer(200, json.dumps(self.objects[name]).encode())

    @staticmethod
    def _status(code: int, message: str = "said the server") -> ApiAnswer:
        return ApiAnswer(code, json.dumps({"kind": "Status", "code": code, "message": message}).encode())

    # what a test does to them

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Somebody else writes the lease."""
        change(self.objects[NAME])
        self._store(NAME, self.objects[NAME]["metadata"], self.objects[NAME])

    @property
    def mark(self) -> int:
        return int(self.objects[NAME]["metadata"]["annotations"]["podtide.io/executor-ids"])

    @property
    def holder(self) -> str:
        return str(self.objects[NAME]["spec"]["holderIdentity"])


class Party:
    """An instance: its lease and what it was told."""

    def __init__(self, api: Leases, clock: SecondsClock, identity: Identity, **terms: Any) -> None:
        self.notices: list[Notice] = []
        self.lost: list[str] = []
        self.lease = ApplicationLease(
            api,
            "spark",
            APP,
            identity,
            clock,
            self.notices.append,
            LeaseSettings(**terms),
            on_lost=self.lost.append,
            pause=clock.move,
        )

    def told(self, topic: Topic) -> list[Level]:
        return [one.level for one in self.notices if one.topic is topic]


@pytest.fixture
def clock() -> SecondsClock:
    return SecondsClock(1_000.0, 1_700_000_000_000)


@pytest.fixture
def api(clock: SecondsClock) -> Leases:
    return Leases(clock)


@pytest.fixture
def a(api: Leases, clock: SecondsClock) -> Party:
    return Party(api, clock, A)


@pytest.fixture
def b(api: Leases, clock: SecondsClock) -> Party:
    return Party(api, clock, B)


# names


@pytest.mark.parametrize(
    ("app", "name"),
    [
        (APP, NAME),
        ("spark-" + "f" * 32, "podtide-spark-" + "f" * 32),
        ("app-1", "podtide-app-1"),
    ],
)
def test_the_name_of_a_plain_application_is_readable(app: str, name: str) -> None:
    assert lease_name(app) == name


@given(st.text(max_size=300), st.text(max_size=300))
def test_every_application_has_a_name_of_its_own(one: str, other: str) -> None:
    for name in (lease_name(one), lease_name(other)):
        assert len(name) <= 63
        assert all(c in "abcdefghijklmnopqrstuvwxyz0123456789-" for c in name)
        assert name[-1] != "-"
    assert (lease_name(one) == lease_name(other)) is (one == other)


@pytest.mark.parametrize(
    ("one", "other"), [("App-1", "app-1"), ("a_b", "a-b"), ("x" * 70 + "1", "x" * 70 + "2"), ("", "-")]
)
def test_what_is_lost_in_cleaning_a_name_is_kept_in_a_hash(one: str, other: str) -> None:
    assert lease_name(one) != lease_name(other)


# taking it


def test_a_lease_that_nobody_has_is_made(api: Leases, a: Party) -> None:
    assert a.lease.acquire() == Acquired({}, 0, 0, None)
    made = api.objects[NAME]
    assert made["metadata"]["labels"] == {"spark-app-selector": APP, "app.kubernetes.io/managed-by": "podtide"}
    assert made["spec"] == {
        "holderIdentity": str(A),
        "leaseDurationSeconds": 60,
        "renewTime": "2023-11-14T22:30:00.010000Z",
        "acquireTime": "2023-11-14T22:30:00.010000Z",
        "leaseTransitions": 0,
    }
    assert a.lease.valid()
    assert a.told(Topic.LEASE_TAKEN) == [Level.INFO]


def test_a_second_instance_is_refused_at_once_and_told_by_whom(api: Leases, a: Party, b: Party) -> None:
    a.lease.acquire()
    found = b.lease.acquire()
    assert isinstance(found, HeldBy)
    assert found.identity == A
    assert "process 7 on host-a" in str(found)
    assert 59 < found.free_in_s <= 60
    assert not b.lease.valid()
    assert api.calls == ["get", "create", "get"]


def test_a_released_lease_is_taken_at_once_and_remembers(a: Party, b: Party) -> None:
    a.lease.acquire()
    assert a.lease.reserve(3)
    assert a.lease.set_fact("pod-name-prefix", "etl-1")
    assert a.lease.release() is None
    assert not a.lease.valid()
    assert b.lease.acquire() == Acquired({"pod-name-prefix": "etl-1"}, 1_003, 2 - 1, None)


def test_a_release_gives_back_ids_that_were_never_used(a: Party, b: Party, api: Leases, clock: SecondsClock) -> None:
    a.lease.acquire()
    a.lease.reserve(30)
    assert a.lease.release(used_id=17) is None
    assert api.mark == 17
    b.lease.acquire()
    b.lease.reserve(18)
    assert b.lease.release(used_id=0) is None  # used none itself; those before it did
    assert api.mark == 17


def test_a_lease_that_is_not_renewed_is_taken_after_it_was_watched_for_its_duration(
    a: Party, b: Party, clock: SecondsClock
) -> None:
    a.lease.acquire()
    began = clock.seconds
    found = b.lease.acquire(wait_s=100)
    assert isinstance(found, Acquired)
    assert found.taken_from is not None
    assert "did not renew it" in found.taken_from
    assert 60 <= clock.seconds - began < 63
    assert found.transitions == 1
    assert not a.lease.valid()


def test_a_lease_that_is_renewed_is_never_taken(a: Party, b: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    for _ in range(20):
        assert isinstance(b.lease.acquire(), HeldBy)
        clock.move(25)
        a.lease.tick()
    assert a.lease.valid()


def test_the_clock_of_the_holder_does_not_matter(api: Leases, a: Party, b: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    api.edit(lambda lease: lease["spec"].update(renewTime="1999-01-01T00:00:00.000000Z"))
    assert isinstance(b.lease.acquire(wait_s=30), HeldBy)
    api.edit(lambda lease: lease["spec"].update(renewTime="2999-01-01T00:00:00.000000Z"))
    assert isinstance(b.lease.acquire(wait_s=70), Acquired)


def test_the_duration_that_counts_is_the_holders(api: Leases, a: Party, b: Party) -> None:
    a.lease.acquire()
    api.edit(lambda lease: lease["spec"].update(leaseDurationSeconds=300))
    found = b.lease.acquire(wait_s=100)
    assert isinstance(found, HeldBy)
    assert 199 < found.free_in_s < 201


def test_the_lease_of_a_dead_process_of_this_machine_is_taken_at_once(api: Leases, clock: SecondsClock) -> None:
    here = own_identity()
    dead = Party(api, clock, here._replace(pid=2**22 - 5))
    dead.lease.acquire()
    found = Party(api, clock, here).lease.acquire()
    assert isinstance(found, Acquired)
    assert found.taken_from == f"process {2**22 - 5} on {here.host}, which has ended"


def test_the_lease_of_a_living_process_of_this_machine_is_respected(api: Leases, clock: SecondsClock) -> None:
    here = own_identity()
    Party(api, clock, here).lease.acquire()
    found = Party(api, clock, here._replace(pid=os.getppid())).lease.acquire()
    assert isinstance(found, HeldBy)


@pytest.mark.parametrize("verb", ["get", "create", "update"])
def test_a_missing_permission_is_named(api: Leases, a: Party, b: Party, verb: str) -> None:
    if verb == "update":
        a.lease.acquire()
        a.lease.release()
    denied = Leases._status(403, f'leases is forbidden: User "x" cannot {verb} resource "leases"')
    api.troubles = [denied] if verb == "get" else [None, denied]
    found = b.lease.acquire(wait_s=60)
    assert isinstance(found, LeaseRefused)
    assert found.status == 403
    assert f"RBAC: verb {verb}, resource leases" in found.why


@pytest.mark.parametrize(
    ("troubles", "wait_s", "says"),
    [
        ([None, Leases._status(403, "no new content: the namespace is being terminated")], 0, "being terminated"),
        ([None, Leases._status(404, 'namespaces "spark" not found')], 20, 'namespaces "spark" not found'),
        (["away"], 0, "no route"),
    ],
    ids=["no missing permission", "no namespace", "away, and nobody waits"],
)
def test_a_refusal_is_quoted(api: Leases, a: Party, troubles: list[object], wait_s: float, says: str) -> None:
    api.troubles = troubles
    found = a.lease.acquire(wait_s=wait_s)
    assert isinstance(found, LeaseRefused)
    assert says in found.why


def test_a_server_that_is_away_is_waited_for(api: Leases, a: Party) -> None:
    api.troubles = ["away", "away", ApiAnswer(503, b"")]
    assert isinstance(a.lease.acquire(wait_s=20), Acquired)


@pytest.mark.parametrize(
    "answer", [ApiAnswer(500, b""), ApiAnswer(503, b""), ApiAnswer(429, b"", 1_000), "answer lost"]
)
def test_a_server_that_says_not_now_is_asked_again_unasked(api: Leases, a: Party, answer: object) -> None:
    api.troubles = [answer, answer]
    assert isinstance(a.lease.acquire(), Acquired)


def test_a_server_that_stays_broken_is_given_up(api: Leases, a: Party, clock: SecondsClock) -> None:
    api.troubles = [ApiAnswer(500, b"")] * 1_000
    began = clock.monotonic()
    refused = a.lease.acquire()
    assert isinstance(refused, LeaseRefused)
    assert refused.status == 500
    assert clock.monotonic() - began < 20


def test_of_two_that_write_at_once_one_is_in_charge(api: Leases, a: Party, b: Party) -> None:
    a.lease.acquire()
    a.lease.release()
    read = api._answer("get", NAME, {})
    b.lease.acquire()
    api.troubles = [read]  # a read it while it was free; b was faster
    assert isinstance(a.lease.acquire(), HeldBy)
    assert api.holder == str(B)


def test_a_lost_answer_to_the_taking_is_found_out(api: Leases, a: Party) -> None:
    api.troubles = [None, "answer lost"]
    found = a.lease.acquire(wait_s=10)
    assert isinstance(found, Acquired)
    assert found.transitions == 0


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda lease: lease["metadata"]["annotations"].update({"podtide.io/executor-ids": "many"}), "executor-ids"),
        (lambda lease: lease["metadata"]["annotations"].update({"podtide.io/executor-ids": "-1"}), "executor-ids"),
        (
            lambda lease: lease["metadata"]["annotations"].update({"podtide.io/executor-ids": str(2**31)}),
            "executor-ids",
        ),
        (lambda lease: lease["metadata"]["labels"].update({"spark-app-selector": "another"}), "application another"),
        (lambda lease: lease.update(spec=[]), "spec is no object"),
        (lambda lease: lease["spec"].update(leaseDurationSeconds="x"), "leaseDurationSeconds"),
        (lambda lease: lease["spec"].update(holderIdentity=5), "holderIdentity"),
        (lambda lease: lease.update(kind="Pod"), "no Lease"),
    ],
)
def test_a_lease_that_makes_no_sense_is_refused_by_field(
    api: Leases, a: Party, b: Party, change: Callable[[dict[str, Any]], None], word: str
) -> None:
    a.lease.acquire()
    api.edit(change)
    found = b.lease.acquire(wait_s=100)
    assert isinstance(found, LeaseRefused)
    assert word in found.why


@given(st.binary(max_size=200))
def test_any_bytes_are_a_lease_or_are_refused(body: bytes) -> None:
    with pytest.raises(UnreadableLease):
        LeaseRecord.read(body, NAME, APP)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"kind":"Lease"}', b'{"kind":"Lease","metadata":{"resourceVersion":"1"}}']
)
def test_a_hostile_answer_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableLease):
        LeaseRecord.read(body, NAME, APP)


# keeping it


def test_the_steady_state_is_one_small_write_each_forty_seconds(api: Leases, a: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    api.calls.clear()
    began = clock.seconds
    while clock.seconds < began + 3_600:
        clock.move(a.lease.tick())
        assert a.lease.valid()
    assert len(api.calls) in (89, 90)
    assert set(api.calls) == {"update"}


def test_it_is_ours_until_a_margin_before_its_end_counted_from_before_the_call(a: Party, clock: SecondsClock) -> None:
    a.lease.acquire()  # the call that took it was sent a hundredth of a second ago
    clock.move(49.98)
    assert a.lease.valid()
    clock.move(0.02)
    assert not a.lease.valid()


def test_a_renewal_that_fails_is_tried_again_soon_and_told(api: Leases, a: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    clock.move(40)
    api.troubles = ["away", "away"]
    assert a.lease.tick() == 2.0
    clock.move(2)
    assert a.lease.tick() == 2.0
    clock.move(2)
    assert 39 < a.lease.tick() <= 40
    assert a.lease.valid()
    assert a.told(Topic.LEASE_RENEWED_LATE) == [Level.WARNING, Level.WARNING]
    assert "2 failures" in a.notices[-1].text


def test_while_it_cannot_be_renewed_it_is_not_valid_and_afterwards_it_is_again(
    api: Leases, a: Party, clock: SecondsClock
) -> None:
    a.lease.acquire()
    clock.move(40)
    api.troubles = ["away"] * 20
    for _ in range(20):
        clock.move(a.lease.tick())
    assert not a.lease.valid()
    assert a.told(Topic.LEASE_RENEWED_LATE).count(Level.ERROR) == 1
    a.lease.tick()
    assert a.lease.valid()
    assert not a.lease.lost.is_set()


@pytest.mark.parametrize(
    "answer", [ApiAnswer(500, b""), ApiAnswer(429, b"", 1_000), ApiAnswer(403, b"{}"), ApiAnswer(200, b"<html>")]
)
def test_an_answer_that_is_no_renewal_is_none(api: Leases, a: Party, clock: SecondsClock, answer: ApiAnswer) -> None:
    a.lease.acquire()
    clock.move(45)
    api.troubles = [answer]
    a.lease.tick()
    clock.move(5)
    assert not a.lease.valid()
    assert not a.lease.lost.is_set()


def test_one_that_somebody_else_took_is_lost_for_good(a: Party, b: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    assert isinstance(b.lease.acquire(wait_s=100), Acquired)
    a.lease.tick()
    assert a.lease.lost.is_set()
    assert a.told(Topic.LEASE_LOST) == [Level.ERROR]
    assert a.lost == [f"lease {NAME} is held by process 8 on host-b"]
    assert not a.lease.reserve(1)
    assert not a.lease.set_fact("x", "y")
    assert a.lease.release() == "the lease is not held"
    b.lease.release()
    assert isinstance(a.lease.acquire(), LeaseRefused)
    assert not a.lease.valid()
    assert len(a.lost) == 1


def test_one_that_was_deleted_is_lost(api: Leases, a: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    api.objects.clear()
    clock.move(41)
    a.lease.tick()
    assert a.lost == [f"lease {NAME} was deleted"]


def test_one_that_was_deleted_and_made_anew_is_lost(api: Leases, a: Party, b: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    api.objects.clear()
    Party(api, clock, A).lease.acquire()
    clock.move(41)
    a.lease.tick()
    assert "made anew" in a.lost[0]


@pytest.mark.parametrize("trouble", ["answer lost", None])
def test_a_conflict_with_ourselves_or_with_somebodys_label_is_none(
    api: Leases, a: Party, clock: SecondsClock, trouble: str | None
) -> None:
    a.lease.acquire()
    api.edit(lambda lease: lease["metadata"]["labels"].update(team="etl"))
    clock.move(40)
    api.troubles = [None, None, trouble]
    clock.move(a.lease.tick())
    a.lease.tick()
    assert a.lease.valid()
    assert not a.lease.lost.is_set()
    assert api.objects[NAME]["metadata"]["labels"]["team"] == "etl"


def test_renewals_are_spread(api: Leases, clock: SecondsClock) -> None:
    lease = ApplicationLease(api, "spark", APP, A, clock, lambda _: None, jitter=lambda: 0.5)
    lease.acquire()
    assert 37.9 < lease.tick() <= 38


@pytest.mark.parametrize("terms", [{"margin_s": 0.0}, {"margin_s": 60.0}, {"renew_every_s": 55.0}, {"duration_s": 30}])
def test_terms_that_cannot_hold_are_refused(api: Leases, clock: SecondsClock, terms: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="renewed before its margin"):
        Party(api, clock, A, **terms)


def test_a_thread_renews_it_until_it_is_released(api: Leases) -> None:
    clock = SecondsClock(1_000.0, 1_700_000_000_000)
    enough = threading.Event()

    def pause(seconds: float) -> None:
        clock.move(seconds)
        if len(api.calls) > 20:
            enough.set()

    lease = ApplicationLease(api, "spark", APP, A, clock, lambda _: None, pause=pause)
    lease.acquire()
    lease.start()
    assert enough.wait(10)
    assert lease.release() is None
    assert api.holder == ""


# the ids


def test_ids_are_reserved_in_blocks(api: Leases, a: Party) -> None:
    a.lease.acquire()
    api.calls.clear()
    for number in range(1, 5_001):
        assert a.lease.reserve(number)
        assert api.mark >= number
        assert a.lease.reserved == api.mark
    assert len(api.calls) == 5


def test_those_who_ask_at_once_share_a_call(api: Leases, a: Party) -> None:
    a.lease.acquire()
    api.calls.clear()
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda n=n: answers.append(a.lease.reserve(n))) for n in range(1, 33)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 32
    assert len(api.calls) == 1


def test_a_reservation_waits_for_a_server_that_comes_back(api: Leases, a: Party) -> None:
    a.lease.acquire()
    api.troubles = ["away", "answer lost", ApiAnswer(503, b"")]
    assert a.lease.reserve(7, timeout_s=60)
    assert api.mark >= 7


def test_a_reservation_ends_in_time(api: Leases, a: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    api.troubles = ["away"] * 100
    began = clock.seconds
    assert not a.lease.reserve(7, timeout_s=5)
    assert clock.seconds - began < 8
    assert a.lease.reserved == 0


def test_ids_beyond_what_spark_can_count_are_not_reserved(api: Leases, a: Party) -> None:
    a.lease.acquire()
    assert a.lease.reserve(ID_MAX)
    api.calls.clear()
    assert not a.lease.reserve(ID_MAX + 1)
    assert api.calls == []


def test_without_a_lease_nothing_is_reserved(api: Leases, a: Party) -> None:
    assert not a.lease.reserve(1)
    assert api.calls == []


def test_marks_that_were_set_back_are_no_lease_to_go_on_with(api: Leases, a: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    a.lease.reserve(5)
    api.edit(lambda lease: lease["metadata"]["annotations"].update({"podtide.io/executor-ids": "3"}))
    clock.move(41)
    a.lease.tick()
    assert a.lease.lost.is_set()


# facts


def test_facts_are_written_once(api: Leases, a: Party) -> None:
    a.lease.acquire()
    assert a.lease.set_fact("pod-name-prefix", "etl-7")
    api.calls.clear()
    assert a.lease.set_fact("pod-name-prefix", "etl-7")
    assert api.calls == []
    assert a.lease.facts == {"pod-name-prefix": "etl-7"}
    assert api.objects[NAME]["metadata"]["annotations"]["podtide.io/pod-name-prefix"] == "etl-7"


@pytest.mark.parametrize(
    ("name", "value"), [("", "x"), ("a b", "x"), ("executor-ids", "5"), ("a/b", "x"), ("x", "y" * 5_000)]
)
def test_what_is_no_fact_is_refused(a: Party, name: str, value: str) -> None:
    a.lease.acquire()
    with pytest.raises(ValueError, match="fact"):
        a.lease.set_fact(name, value)


# giving it up


@pytest.mark.parametrize("troubles", [[], ["away"], ["answer lost"], [ApiAnswer(503, b"")], [ApiAnswer(409, b"{}")]])
def test_a_release_is_tried_until_it_is_one(api: Leases, a: Party, troubles: list[object]) -> None:
    a.lease.acquire()
    api.troubles = troubles
    assert a.lease.release() is None
    assert api.holder == ""
    assert api.objects[NAME]["spec"]["leaseDurationSeconds"] == 1


@pytest.mark.parametrize("troubles", [[], ["away"], ["answer lost"], [ApiAnswer(409, b"{}")]])
def test_with_the_application_gone_the_lease_is_deleted(api: Leases, a: Party, troubles: list[object]) -> None:
    a.lease.acquire()
    api.troubles = troubles
    assert a.lease.release(delete=True) is None
    assert api.objects == {}


def test_a_release_that_fails_says_why_in_time(api: Leases, a: Party, clock: SecondsClock) -> None:
    a.lease.acquire()
    api.troubles = ["away"] * 100
    began = clock.seconds
    assert a.lease.release(timeout_s=6) == "no route"
    assert clock.seconds - began < 10
    assert not a.lease.valid()


def test_what_somebody_else_holds_is_not_released(api: Leases, a: Party, b: Party) -> None:
    a.lease.acquire()
    b.lease.acquire(wait_s=100)
    assert "is held by" in str(a.lease.release())
    assert api.holder == str(B)


# everything at once


STEPS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["acquire", "tick", "reserve", "kill", "release"]),
        st.sampled_from([0.0, 1.0, 20.0, 45.0]),
        st.lists(st.sampled_from([None, "away", "answer lost", ApiAnswer(500, b"")]), max_size=3),
    ),
    max_size=40,
)


def _names() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


@given(STEPS)
@settings(max_examples=300)
def test_never_two_in_charge_and_no_id_twice(steps: list[tuple[str, str, float, list[object]]]) -> None:
    clock = SecondsClock(1_000.0, 1_700_000_000_000)
    api = Leases(clock)
    births = _names()

    def born(who: str) -> Party:
        # A name that this machine has never heard of: nobody can prove its death.
        return Party(api, clock, (A if who == "a" else B)._replace(pid=next(births)), block=3)

    parties = {"a": born("a"), "b": born("b")}
    next_id = {"a": 1, "b": 1}
    used: set[int] = set()
    for who, what, wait, troubles in steps:
        clock.move(wait)
        api.troubles = list(troubles)
        party = parties[who]
        match what:
            case "acquire":
                found = party.lease.acquire(wait_s=wait * 2)
                if isinstance(found, Acquired):
                    next_id[who] = max(next_id[who], found.last_id + 1)
            case "tick":
                party.lease.tick()
            case "reserve":
                number = next_id[who]
                if party.lease.reserve(number, timeout_s=3) and party.lease.valid():
                    assert number not in used
                    used.add(number)
                    next_id[who] += 1
            case "kill":
                parties[who] = born(who)
                next_id[who] = 1
            case "release":
                party.lease.release(used_id=next_id[who] - 1, timeout_s=3)
                parties[who] = born(who)
                next_id[who] = 1
        assert not (parties["a"].lease.valid() and parties["b"].lease.valid())
