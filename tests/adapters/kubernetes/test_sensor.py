"""The sensor against an API server that says what the test tells it to: every way in which a list or a watch can end.

``Play`` runs the sensor in the test's own thread. The script's steps are the server's answers, in order; after the last one
the sensor is stopped. The clock moves only while a stream lives and while the sensor waits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import given, settings, strategies as st

from podtide.adapters.kubernetes.api import JSON, READ_TIMEOUT_S, ApiAnswer, Query, Unreachable
from podtide.adapters.kubernetes.codec import Event
from podtide.adapters.kubernetes.watch.lists import KnownPods, ListedPods, executors_selector, number_of
from podtide.adapters.kubernetes.watch.sensor import Counters, PodSensor, SensorSettings
from podtide.adapters.kubernetes.watch.stream import Lines, WatchReader
from podtide.adapters.notices import Notice, Topic
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated, WatchStimulus
from podtide.domain.protocol.pods import PodManifest, PodRules
from tests.support.clock import SecondsClock

NOW = 1_800_000_000_000
FAITHFUL = SensorSettings(faithful=True)
ACTING = SensorSettings()


# ------------------------------------------------------------------------------------------- what the server says


def pod(number: int, version: object, phase: str | None = "Running", **meta: Any) -> dict[str, Any]:
    labels = {"spark-exec-id": str(number), "spark-role": "executor", **meta.pop("labels", {})}
    found = {"name": f"exec-{number}", "uid": f"u{number}", "resourceVersion": str(version), "labels": labels, **meta}
    return {"metadata": found, "spec": {}, "status": {"phase": phase} if phase else {}}


class Page(NamedTuple):
    """A list's page. ``meanwhile`` happens before it is answered."""

    version: object
    pods: tuple[dict[str, Any], ...] = ()
    more: str = ""
    meanwhile: Callable[[], object] = lambda: None


class Refuse(NamedTuple):
    """Any other answer, to a call or to a watch."""

    status: int
    message: str = ""
    retry_after_ms: int | None = None
    retry_after_s: int | None = None

    @property
    def body(self) -> bytes:
        details = {"retryAfterSeconds": self.retry_after_s} if self.retry_after_s else {}
        return json.dumps({"message": self.message, "code": self.status, "details": details}).encode()


class Body(NamedTuple):
    """200, and something else than a list."""

    body: bytes


class Lost(NamedTuple):
    """No answer."""

    why: str = "refused"


class Watch(NamedTuple):
    """A watch: its chunks, how long it lives (seconds, at its end), and what breaks it (None: it ends well)."""

    chunks: tuple[bytes, ...] = ()
    lives_s: float = 100.0
    breaks: str | None = None


Step: TypeAlias = Page | Refuse | Body | Lost | Watch


def event(kind: str, shown: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": shown}).encode() + b"\n"


def added(number: int, version: object, phase: str = "Running", **meta: Any) -> bytes:
    return event("ADDED", pod(number, version, phase, **meta))


def modified(number: int, version: object, phase: str = "Running", **meta: Any) -> bytes:
    return event("MODIFIED", pod(number, version, phase, **meta))


def deleted(number: int, version: object, phase: str = "Running", **meta: Any) -> bytes:
    return event("DELETED", pod(number, version, phase, **meta))


def bookmark(version: object) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def error(code: int, message: str = "too old resource version") -> bytes:
    return event("ERROR", {"kind": "Status", "code": code, "message": message})


# ------------------------------------------------------------------------------------------------------ the play


class FakeStream:
    def __init__(self, play: Play, step: Watch | Refuse) -> None:
        self._play, self._step = play, step
        self.status = step.status if isinstance(step, Refuse) else 200
        self.closed = False

    def chunks(self) -> Iterator[bytes]:
        if isinstance(self._step, Refuse):
            yield self._step.body
            return
        yield from self._step.chunks
        if self.closed:
            return
        self._play.clock.seconds += self._step.lives_s
        if self._step.breaks is not None:
            raise Unreachable(self._step.breaks)

    def close(self) -> None:
        self.closed = True


class Play:
    """A sensor and its server. ``queries``: what was asked, in order, as text; ``waits``: for how long it waited."""

    host = "https://fake"

    def __init__(self, *script: Step, settings: SensorSettings = ACTING) -> None:
        self.script = list(script)
        self.clock = SecondsClock(1_000.0, NOW - 1_000_000)
        self.heard: list[WatchStimulus] = []
        self.notices: list[Notice] = []
        self.waits: list[float] = []
        self.queries: list[dict[str, str]] = []
        self.streams: list[FakeStream] = []
        self.sensor = PodSensor(
            self,
            "ns",
            executors_selector("app"),
            self.heard.append,
            self.clock,
            self.notices.append,
            settings,
            lambda: 0.0,
            wait=self.wait,
        )

    def run(self) -> Play:
        self.sensor.run()
        assert not self.script
        return self

    def poll(self, version: str | None = None, serial: int = 7) -> Outcome:
        """A list that the core asks for, in this thread."""
        self.sensor.answer_list(serial, version)
        outcome = self.heard[-1]
        assert isinstance(outcome, Outcome)
        return outcome

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.clock.seconds += seconds
        return False

    def _next(self, query: Query) -> Step:
        self.queries.append(dict(query))
        if not self.script:
            self.sensor.stop()
            raise Unreachable("the end of the script")
        step = self.script.pop(0)
        if isinstance(step, Lost):
            raise Unreachable(step.why)
        return step

    def call(
        self, verb: str, resource: str, path: str, *, query: Query = (), body: bytes | None = None,
        content_type: str = JSON, timeout_s: float = READ_TIMEOUT_S, headers: Mapping[str, str] | None = None,
    ) -> ApiAnswer:  # fmt: skip
        assert (verb, resource, path) == ("list", "pods", "/api/v1/namespaces/ns/pods")
        assert (body, content_type, timeout_s, headers) == (None, JSON, 30.0, None)
        step = self._next(query)
        if isinstance(step, Refuse):
            return ApiAnswer(step.status, step.body, step.retry_after_ms)
        if isinstance(step, Body):
            return ApiAnswer(200, step.body)
        assert isinstance(step, Page), step
        step.meanwhile()
        meta = {"resourceVersion": str(step.version), "continue": step.more}
        return ApiAnswer(200, json.dumps({"metadata": meta, "items": step.pods}).encode())

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> FakeStream:
        assert (resource, path, silence_s) == ("pods", "/api/v1/namespaces/ns/pods", 90.0)
        step = self._next(query)
        assert isinstance(step, Watch | Refuse), step
        self.streams.append(FakeStream(self, step))
        return self.streams[-1]

    # what came of it

    @property
    def brief(self) -> list[str]:
        """What was heard, briefly: ``=`` replaced, ``+`` updated, then number@version and how Spark reads the pod."""
        return [_brief(stimulus) for stimulus in self.heard]

    @property
    def topics(self) -> list[Topic]:
        return [notice.topic for notice in self.notices]

    @property
    def watched_from(self) -> list[str | None]:
        return [query.get("resourceVersion") for query in self.queries if "watch" in query]


def _brief(stimulus: WatchStimulus) -> str:
    sign = {PodsReplaced: "=", PodsUpdated: "+", Outcome: "?"}[type(stimulus)]
    return " ".join([sign, *(_one(manifest) for manifest in stimulus.pods)])


def _one(manifest: PodManifest) -> str:
    read = snapshots.read(manifest, PodRules(check_all_containers=False))
    assert read is not None
    state = "?" if isinstance(read, SparkFault) else read.state.value.removeprefix("Pod")
    return f"{manifest.labels['spark-exec-id']}@{manifest.version}:{state}"


START = (Page(10, (pod(1, 3), pod(2, 5, "Pending"))),)


# ------------------------------------------------------------------------------------------------- lists and watches


def test_a_list_and_a_watch_from_its_version() -> None:
    play = Play(*START, Watch((modified(2, 11) + added(3, 12, "Pending"), modified(3, 13)))).run()
    assert play.brief == ["= 1@3:Running 2@5:Pending", "+ 2@11:Running 3@12:Pending", "+ 3@13:Running"]
    assert play.queries[0] == {
        "labelSelector": "spark-app-selector=app,spark-role=executor,spark-exec-inactive!=true", "limit": "1000",
    }  # fmt: skip
    assert play.queries[1] == {
        "labelSelector": play.queries[0]["labelSelector"], "watch": "1", "allowWatchBookmarks": "true",
        "timeoutSeconds": "900", "resourceVersion": "10",
    }  # fmt: skip
    assert play.topics[:2] == [Topic.LISTED, Topic.WATCHING]


def test_pages_are_one_list() -> None:
    play = Play(Page(10, (pod(1, 3),), "t1"), Page(10, (pod(2, 4),), "t2"), Page(10, (pod(3, 5),)), Watch()).run()
    assert play.brief == ["= 1@3:Running 2@4:Running 3@5:Running"]
    assert [query.get("continue") for query in play.queries[:3]] == [None, "t1", "t2"]
    assert play.watched_from[0] == "10"


def test_a_token_that_is_too_old_begins_the_list_again_in_one_piece() -> None:
    """Pages of two moments would not add up."""
    play = Play(Page(10, (pod(1, 3),), "t1"), Refuse(410, "expired"), Page(20, (pod(1, 13), pod(2, 4))), Watch()).run()
    assert play.brief == ["= 1@13:Running 2@4:Running"]
    assert "limit" not in play.queries[2]
    assert play.watched_from[0] == "20"


@pytest.mark.parametrize("tokens", [("t", "t"), ("a", "b", "a")])
def test_a_list_without_an_end_is_not_believed(tokens: tuple[str, ...]) -> None:
    play = Play(*[Page(10, (pod(1, 3),), token) for token in tokens], *START, Watch()).run()
    assert Topic.INPUT_REFUSED in play.topics
    assert play.brief == ["= 1@3:Running 2@5:Pending"]


def test_a_watch_that_ends_goes_on_without_a_list() -> None:
    play = Play(*START, Watch((modified(2, 11),)), Watch((modified(2, 14, "Failed"),)), Watch()).run()
    assert play.watched_from[:3] == ["10", "11", "14"]
    assert play.sensor.counters.lists == 1
    assert play.topics == [Topic.LISTED, Topic.WATCHING]
    assert play.waits == []


def test_bookmarks_count_and_are_not_heard() -> None:
    play = Play(*START, Watch((bookmark(40),)), Watch()).run()
    assert play.watched_from[:2] == ["10", "40"]
    assert len(play.heard) == 1
    assert play.sensor.counters.bookmarks == 1


def test_events_of_a_chunk_are_heard_together_however_they_are_cut() -> None:
    text = added(3, 11) + added(4, 12) + added(5, 13)
    play = Play(*START, Watch((text[:20], text[20:-1], text[-1:]))).run()
    assert play.brief[1:] == ["+ 3@11:Running 4@12:Running", "+ 5@13:Running"]


def test_half_an_event_at_the_end_of_a_watch_is_nothing() -> None:
    play = Play(*START, Watch((added(3, 11) + added(4, 12)[:50],)), Watch((added(4, 12),))).run()
    assert play.brief[1:] == ["+ 3@11:Running", "+ 4@12:Running"]


def test_a_list_without_a_version_is_watched_from_now() -> None:
    play = Play(Page("", (pod(1, 3),)), Watch((added(1, "x"),))).run()
    assert play.watched_from[0] is None
    assert play.brief == ["= 1@3:Running", "+ 1@x:Running"]


# -------------------------------------------------------------------------------------------------- deleted pods

STAMP = {"deletionTimestamp": "2026-11-21T00:00:00Z"}


@pytest.mark.parametrize(
    ("line", "acting", "faithful"),
    [
        (deleted(1, 11, "Running", **STAMP), "1@11:Deleted", "1@11:Running"),
        (deleted(1, 11, "Running"), "1@11:Deleted", "1@11:Running"),
        (deleted(1, 11, "Pending"), "1@11:Deleted", "1@11:Pending"),
        (deleted(1, 11, "Pending", **STAMP), "1@11:Deleted", "1@11:Deleted"),
        (deleted(1, 11, "Failed"), "1@11:Deleted", "1@11:Failed"),
        (deleted(1, 11, "Failed", labels={"spark-exec-inactive": "true"}), "1@11:Failed", "1@11:Failed"),
        (modified(1, 11, "Running", **STAMP), "1@11:Running", "1@11:Running"),
    ],
)
def test_deleted_pods(line: bytes, acting: str, faithful: str) -> None:
    assert Play(*START, Watch((line,)), settings=ACTING).run().brief[1] == f"+ {acting}"
    assert Play(*START, Watch((line,)), settings=FAITHFUL).run().brief[1] == f"+ {faithful}"


def test_a_deleted_pod_keeps_when_and_how_it_ended() -> None:
    ended = pod(1, 11, "Running", **STAMP)
    ended["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": 137}}}]
    play = Play(*START, Watch((event("DELETED", ended), deleted(2, 12)))).run()
    first, second = [stimulus.pods[0] for stimulus in play.heard[1:]]
    assert first.deleted_at == STAMP["deletionTimestamp"]
    assert first.containers[0].state is not None
    assert first.containers[0].state.exit_code == 137
    assert second.deleted_at == "2027-01-15T08:00:00Z"  # nobody said: now


def test_pods_that_vanished_while_nobody_watched() -> None:
    script = (*START, Watch((error(410),)), Page(30, (pod(2, 25),)), Watch())
    assert Play(*script).run().brief[1:] == ["+ 1@:Deleted", "= 2@25:Running"]
    assert Play(*script, settings=FAITHFUL).run().brief[1:] == ["= 2@25:Running"]


# -------------------------------------------------------------------------------------------------- fresh lists


@pytest.mark.parametrize(
    ("end", "expired"),
    [
        (Watch((error(410),)), 1),
        (Watch((error(500, "etcd is away"),)), 0),
        (Watch((event("ERROR", {}),)), 0),
        (Watch((b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n',)), 0),
        (Watch((b"nonsense\n",)), 0),
        (Watch((bookmark(9),)), 0),
        (Watch((modified(1, 9),)), 0),
        (Refuse(410, "gone"), 1),
        (Refuse(504, "Too large resource version"), 0),
        (Refuse(400, "invalid resource version"), 0),
        (Refuse(500, 'resourceVersion: Invalid value: "x": strconv.ParseUint'), 0),
    ],
    ids=range(11),
)
def test_a_place_in_the_history_that_is_gone_needs_a_fresh_list(end: Step, expired: int) -> None:
    play = Play(*START, Watch((modified(1, 11),)), end, Page(30, (pod(1, 11), pod(2, 5))), Watch()).run()
    assert play.brief[2:] == ["= 1@11:Running 2@5:Running"]
    assert play.watched_from[1:3] == ["11", "30"]
    assert play.sensor.counters.expired == expired
    assert play.topics[2:5] == [Topic.WATCH_BROKEN, Topic.LISTED, Topic.WATCH_REPAIRED]
    assert play.waits == []  # what it needs is plain


def test_a_line_that_is_too_long_needs_a_fresh_list() -> None:
    play = Play(
        *START, Watch((b"x" * 600, b"x" * 600)), *START, Watch(), settings=ACTING._replace(line_max=1_000)
    ).run()
    assert play.sensor.counters.lists == 2
    assert "longer than 1000 bytes" in play.notices[2].text


def test_events_before_the_error_are_heard() -> None:
    play = Play(*START, Watch((modified(1, 11) + error(410) + modified(1, 12),)), *START, Watch()).run()
    assert play.brief[1] == "+ 1@11:Running"
    assert len(play.heard) == 3


def test_an_api_server_that_was_restored_from_a_backup() -> None:
    """Versions went back; a fresh list is the truth all the same."""
    play = Play(*START, Watch((bookmark(4),)), Page(4, (pod(1, 2),)), Watch((modified(1, 5, "Failed"),))).run()
    assert play.brief[1:] == ["+ 2@:Deleted", "= 1@2:Running", "+ 1@5:Failed"]
    assert any("history went back from version 10 to 4" in notice.text for notice in play.notices)


# --------------------------------------------------------------------------------------------- broken connections


def test_a_broken_watch_goes_on_at_once_and_is_told_once() -> None:
    play = Play(*START, Watch((modified(1, 11),), breaks="cut off"), Watch((modified(1, 12),))).run()
    assert play.watched_from[:2] == ["10", "11"]
    assert play.waits == []
    assert play.topics == [Topic.LISTED, Topic.WATCHING, Topic.WATCH_BROKEN, Topic.WATCH_REPAIRED]
    assert "cut off" in play.notices[2].text
    assert play.sensor.counters.lists == 1


def test_back_off_doubles_up_to_its_bound_and_begins_anew_after_a_good_watch() -> None:
    down = [Lost()] * 9
    play = Play(*START, Watch(breaks="cut off"), *down, Watch(breaks="cut off"), Lost(), Lost(), Watch()).run()
    assert play.waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5, 2.5, 0.05, 0.1]
    told = [Topic.WATCH_BROKEN, Topic.API_UNREACHABLE, Topic.API_BACK, Topic.WATCH_REPAIRED]
    assert play.topics == [Topic.LISTED, Topic.WATCHING, *told, *told]
    assert play.notices[5].facts == (("lasted_ms", 10_649),)
    assert play.sensor.counters.unreachable == 11


def test_silence_is_a_broken_watch() -> None:
    play = Play(*START, Watch(lives_s=90, breaks="did not answer in time"), Watch()).run()
    assert play.topics[2:] == [Topic.WATCH_BROKEN, Topic.WATCH_REPAIRED]
    assert play.waits == []


def test_watches_that_end_at_once_are_broken_ones_and_told_once() -> None:
    play = Play(*START, *[Watch(lives_s=0.0)] * 5, Watch((bookmark(11),))).run()
    assert play.waits == [0.05, 0.1, 0.2, 0.4]
    assert play.topics[2:] == [Topic.WATCH_BROKEN, Topic.WATCH_REPAIRED]


def test_watches_that_say_something_and_end_at_once_do_not_spin() -> None:
    play = Play(*START, *[Watch((modified(1, 11 + place),), lives_s=0.1) for place in range(5)], Watch()).run()
    assert play.waits == [0.05, 0.1, 0.2, 0.4]
    assert len(play.heard) == 6


def test_a_start_without_an_api_server() -> None:
    play = Play(Lost("no route"), Lost("no route"), *START, Watch()).run()
    assert play.topics == [Topic.API_UNREACHABLE, Topic.API_BACK, Topic.LISTED, Topic.WATCHING]
    assert "no route" in play.notices[0].text
    assert play.waits == [0.05]


def test_a_fault_of_our_own_does_not_end_the_watch() -> None:
    play = Play(*START, Watch((modified(1, 11),)), *START, Watch())
    hear = play.heard.append

    def hear_badly(stimulus: WatchStimulus) -> None:
        if isinstance(stimulus, PodsUpdated) and len(play.heard) == 1:
            hear(stimulus)
            raise ZeroDivisionError("a bug")
        hear(stimulus)

    play.sensor._hear = hear_badly
    play.run()
    assert play.sensor.counters.lists == 2
    assert "a fault of podtide itself, ZeroDivisionError" in play.notices[2].text
    assert "a bug" not in play.notices[2].text


# ------------------------------------------------------------------------------------------------------- refusals

NO_LIST = 'pods is forbidden: User "driver" cannot list resource "pods" in API group "" in the namespace "ns"'
NO_WATCH = NO_LIST.replace("list", "watch")


@pytest.mark.parametrize(
    ("refusals", "verb", "says"),
    [
        ([Refuse(403, NO_LIST)] * 3, "GET", "may not list pods in namespace ns"),
        ([*START, *[Refuse(403, NO_WATCH)] * 3], "GET", "may not watch pods in namespace ns"),
        ([Refuse(401, "Unauthorized")] * 3, "GET", "list pods: Unauthorized"),
    ],
)
def test_a_missing_permission_is_told_once_and_tried_again(refusals: list[Step], verb: str, says: str) -> None:
    play = Play(*refusals).run()
    refused = [notice for notice in play.notices if notice.topic is Topic.CALL_REFUSED]
    assert [says in notice.text for notice in refused] == [True]
    failure = play.sensor.failure
    assert failure is not None
    assert failure.status in {401, 403}
    assert failure.message.startswith(f"Failure executing: {verb} at: /api/v1/namespaces/ns/pods?")
    assert play.waits[:3] == [0.05, 0.1, 0.2]


def test_a_permission_that_comes_late() -> None:
    play = Play(Refuse(403, NO_LIST), *START, Refuse(403, NO_WATCH), Watch()).run()
    assert play.sensor.failure is None
    assert play.brief == ["= 1@3:Running 2@5:Pending"]
    assert play.watched_from[:2] == ["10", "10"]


@pytest.mark.parametrize(
    ("refusal", "waited"),
    [
        (Refuse(429, "slow down", retry_after_ms=7_000), 7.0),
        (Refuse(429, "slow down", retry_after_s=4), 4.0),
        (Refuse(429, "slow down", retry_after_ms=9_000_000), 60.0),
        (Refuse(429, "slow down"), 0.05),
        (Refuse(503, "not ready", retry_after_ms=2_000), 2.0),
        (Refuse(500, "etcdserver: leader changed"), 0.05),
    ],
)
@pytest.mark.parametrize("place", ["list", "watch"])
def test_a_server_that_asks_for_less_is_obeyed(refusal: Refuse, waited: float, place: str) -> None:
    if place == "watch":  # a stream has no headers to show
        refusal = refusal._replace(retry_after_ms=None, retry_after_s=(refusal.retry_after_ms or 0) // 1000 or None)
    script = (*START, refusal, refusal, Watch()) if place == "watch" else (refusal, refusal, *START, Watch())
    play = Play(*script).run()
    assert play.waits[0] == pytest.approx(waited if place == "list" or refusal.retry_after_s else 0.05)
    assert play.sensor.failure is None
    assert play.brief == ["= 1@3:Running 2@5:Pending"]
    if refusal.status == 429:
        assert play.topics.count(Topic.THROTTLED) == 1


def test_a_list_that_cannot_be_read_is_told_once() -> None:
    play = Play(Body(b"<html>"), Body(b'{"items":7}'), *START, Watch()).run()
    assert play.topics[:2] == [Topic.INPUT_REFUSED, Topic.LISTED]
    assert play.waits == [0.05, 0.1]


# ------------------------------------------------------------------------------------------- lists that are asked for


def playing(*script: Step, settings: SensorSettings = ACTING) -> Play:
    """A sensor that has listed and watched, and has been told no more since; it is not stopped."""
    play = Play(*script, settings=settings)
    while play.script:
        trouble = play.sensor._watch() if play.sensor._placed else play.sensor._list()
        assert trouble is None
    play.heard.clear()
    return play


def test_a_list_that_is_asked_for() -> None:
    play = playing(*START)
    play.script = [Page(20, (pod(1, 15, "Failed"), pod(2, 5, "Pending"), pod(3, 16)))]
    outcome = play.poll()
    assert play.brief == ["? 1@15:Failed 2@5:Pending 3@16:Running"]
    assert outcome[:6] == (0, 7, None, (), 3, "20")
    assert "resourceVersion" not in play.queries[-1]
    assert play.sensor.counters.polls == 1


def test_a_list_of_the_cache() -> None:
    play = playing(*START)
    play.script = [Page(10, (pod(1, 3), pod(2, 5)), "t"), Page(10, (pod(3, 7),))]
    assert play.poll("0").found == 3
    assert [query.get("resourceVersion") for query in play.queries[-2:]] == ["0", None]


@pytest.mark.parametrize(
    ("watched", "what"),
    [
        (modified(1, 11, "Failed"), "1@11:Failed 2@5:Pending"),
        (added(3, 11), "1@3:Running 2@5:Pending 3@11:Running"),
        (deleted(1, 11), "2@5:Pending"),
        (modified(1, 11, "Failed") + deleted(2, 12) + added(4, 13), "1@11:Failed 4@13:Running"),
        (bookmark(11), "1@3:Running 2@5:Pending"),
    ],
)
@pytest.mark.parametrize("version", ["0", None])
def test_a_list_that_the_watch_has_overtaken_turns_nothing_back(watched: bytes, what: str, version: str | None) -> None:
    """The list was answered before the events came, and arrives after them."""
    play = playing(*START)

    def overtake() -> None:
        play.script = [Watch((watched,))]
        play.sensor._watch()

    play.script = [Page(10, (pod(1, 3), pod(2, 5, "Pending")), meanwhile=overtake)]
    assert play.poll(version).version == "10"
    assert play.brief[-1] == f"? {what}"
    assert play.sensor.counters.stale_lists == 1


def test_events_that_a_list_has_overtaken_turn_nothing_back() -> None:
    play = playing(*START)
    play.script = [Page(20, (pod(1, 18, "Failed"), pod(4, 19)))]
    play.poll()
    assert play.brief == ["+ 2@:Deleted", "? 1@18:Failed 4@19:Running"]
    late = modified(1, 11, "Running") + modified(2, 12) + deleted(2, 13) + modified(1, 18, "Failed") + added(5, 21)
    play.heard.clear()
    play.sensor._known.version = "10"  # the watch that was open meanwhile
    play.script = [Watch((late,))]
    play.sensor._watch()
    assert play.brief == ["+ 5@21:Running"]
    assert play.sensor.counters.stale_events == 4


def test_a_watch_goes_on_from_a_list_that_went_ahead() -> None:
    play = playing(*START)
    play.script = [Page(20, (pod(1, 18),)), Watch((modified(1, 21),))]
    play.poll()
    play.sensor._watch()
    assert play.watched_from == ["20"]


def test_vanished_pods_in_a_list_that_is_asked_for() -> None:
    play = playing(*START, settings=FAITHFUL)
    play.script = [Page(20, (pod(1, 3),))]
    play.poll()
    assert play.brief == ["? 1@3:Running"]


@pytest.mark.parametrize("version", ["0", None])
def test_a_list_of_another_history(version: str | None) -> None:
    """Without a version it is the truth; the cache of some API server may be old."""
    play = playing(*START)
    play.script = [Page(4, (pod(1, 2),))]
    play.poll(version)
    assert play.brief[-1] == ("? 1@3:Running 2@5:Pending" if version else "? 1@2:Running")
    assert play.sensor._placed == (version is not None)


@pytest.mark.parametrize(
    ("step", "status", "says"),
    [
        (Refuse(403, NO_LIST), 403, "cannot list resource"),
        (Refuse(429, "later", retry_after_ms=3_000), 429, "later"),
        (Refuse(500, "oh"), 500, "oh"),
        (Refuse(504, "Too large resource version"), 504, "Too large"),
        (Lost("no route"), None, "no route"),
        (Body(b"[]"), None, "a list of pods cannot be read"),
    ],
)
def test_a_list_that_is_asked_for_and_fails(step: Step, status: int | None, says: str) -> None:
    play = playing(*START)
    play.script = [step]
    failure = play.poll().failure
    assert failure is not None
    assert failure.status == status
    assert says in failure.message
    assert failure.retry_after_ms == (3_000 if status == 429 else None)
    assert play.sensor.failure is None  # the watch goes on
    assert play.waits == []  # the core asks again


# --------------------------------------------------------------------------------------------- health, start and stop


def test_health() -> None:
    play = Play(*START, Watch((modified(1, 11),), lives_s=20.0), Watch((bookmark(12),)))
    assert play.sensor.last_heard is None
    assert play.sensor.last_list_at is None
    play.run()
    assert play.sensor.last_heard == 1_020.0
    assert play.sensor.last_list_at == NOW
    assert not play.sensor.watching
    assert play.sensor.counters == Counters(lists=1, watches=2, events=1, bookmarks=1)


def test_watching_is_said_while_a_watch_is_open() -> None:
    play = Play(*START, Watch((modified(1, 11),), breaks="cut off"), Lost(), Watch((modified(1, 12),)))
    seen: list[bool] = []
    play.sensor._hear = lambda _: seen.append(play.sensor.watching)
    notify = play.notices.append
    broken: list[bool] = []
    play.sensor._troubles._notify = lambda notice: (
        broken.append(play.sensor.watching) if notice.topic is Topic.WATCH_BROKEN else notify(notice)
    )
    play.run()
    assert seen == [False, True, True]
    assert broken == [False]


class Waiting(Play):
    """A server whose watch says nothing, until it is closed; its threads are real ones."""

    def __init__(self, *script: Step, settings: SensorSettings = ACTING) -> None:
        super().__init__(*script, settings=settings)
        self.open = threading.Event()
        self.answered = threading.Event()
        play = self

        class Silent(FakeStream):
            def __init__(self) -> None:
                super().__init__(play, Watch())
                self._end = threading.Event()

            def chunks(self) -> Iterator[bytes]:
                play.open.set()
                self._end.wait(20)
                yield from ()

            def close(self) -> None:
                self._end.set()

        self._silent = Silent

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> FakeStream:
        assert (resource, path, silence_s) == ("pods", "/api/v1/namespaces/ns/pods", 90.0)
        self.queries.append(dict(query))
        return self._silent()


def test_stop_wakes_a_watch_and_nothing_is_heard_after_it() -> None:
    play = Waiting(*START, Page(20, (pod(1, 15),)))
    heard = play.heard

    def hear(stimulus: WatchStimulus) -> None:
        heard.append(stimulus)
        if isinstance(stimulus, Outcome):
            play.answered.set()

    play.sensor._hear = hear
    play.sensor.start()
    assert play.open.wait(20)
    assert play.sensor.watching
    play.sensor.request_list(3)
    assert play.answered.wait(20)
    assert play.sensor.stop(20)
    count = len(heard)
    play.script = [Page(30)]
    play.sensor.answer_list(4, None)
    assert len(heard) == count
    assert not play.sensor.watching


def test_without_a_watch_only_requests_are_answered() -> None:
    play = Waiting(Page(20, (pod(1, 15),)), settings=ACTING._replace(watch=False))

    def hear(stimulus: WatchStimulus) -> None:
        play.heard.append(stimulus)
        play.answered.set()

    play.sensor._hear = hear
    play.sensor.start()
    play.sensor.request_list(3)
    assert play.answered.wait(20)
    assert play.sensor.stop(20)
    assert play.brief == ["? 1@15:Running"]


# ------------------------------------------------------------------------------------------------------- properties


@given(st.lists(st.binary(max_size=20) | st.just(b"\n"), max_size=30))
def test_lines_are_the_same_however_they_are_cut(chunks: list[bytes]) -> None:
    lines = Lines()
    got = [line for chunk in chunks for line in lines.feed(chunk)]
    assert got == [line for line in b"".join(chunks).split(b"\n")[:-1] if line]


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_any_bytes_are_read_or_refused(chunks: list[bytes]) -> None:
    reader = WatchReader("5", 300)
    for chunk in chunks:
        if reader.read(chunk).end is not None:
            return


@pytest.mark.parametrize(
    ("text", "number"),
    [("17", 17), ("0", 0), ("", None), ("x", None), ("-1", None), ("1.5", None), ("٣", None), ("9" * 21, None)],
)
def test_versions_that_are_numbers(text: str, number: int | None) -> None:
    assert number_of(text) == number


class History:
    """The pods of a cluster over time: at each version, all of them, and the event that led there."""

    def __init__(self, steps: list[tuple[int, bool]]) -> None:
        self.events: list[Event] = []
        self.states: list[dict[str, PodManifest]] = [{}]
        for place, (number, removes) in enumerate(steps):
            version = str(place + 1)
            pods = dict(self.states[-1])
            uid = f"u{number}"
            shown = PodManifest(f"exec-{number}", {"spark-exec-id": str(number)}, version=version, uid=uid)
            if removes and uid in pods:
                self.events.append(Event("DELETED", version, shown))
                del pods[uid]
            else:
                self.events.append(Event("MODIFIED", version, shown))
                pods[uid] = shown
            self.states.append(pods)

    def listed(self, version: int) -> ListedPods:
        return ListedPods(tuple(self.states[version].values()), str(version), 1)


@settings(max_examples=300)
@given(st.data())
def test_what_is_known_is_a_state_of_the_cluster_and_never_goes_back(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=30))
    history = History(steps)
    known, watched = KnownPods(), 0
    asked: int | None = None
    for _ in range(data.draw(st.integers(0, 40))):
        before = known.floor or 0
        if known.floor is None or data.draw(st.booleans()):
            # A list of any moment: of the cache, so it may be older than everything.
            version = data.draw(st.integers(0, len(steps)))
            merged = known.take_list(history.listed(version), floor=asked, fresh=False)
            assert merged.stale == (version < before)
            assert {pod.uid for pod in merged.vanished}.isdisjoint(history.states[known.floor or 0])
        elif watched < len(steps):
            known.take_event(history.events[watched])
            watched += 1
        floor = known.floor or 0
        assert floor >= before
        assert known._pods == history.states[floor] or watched < floor or floor == 0
        asked = known.floor
