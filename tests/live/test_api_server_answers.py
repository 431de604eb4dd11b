"""The same requests to the API server in the domain and to a real one: the answers are the same.

One script that asks for everything once, thousands of requests by chance with watches beside, and graphs of owners.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from podtide.adapters.kubernetes.api import METHODS
from podtide.domain.api_server.state import ApiState
from tests.live.cluster import Cluster, until
from tests.support.api_generator import asked_in_turn, expected, generated, graphs, outline
from tests.support.api_play import ApiPlay
from tests.support.api_script import DIFFERENCES, HOME, LEASES, MERGE, NS, POLICIES, SETS, Ask, Told, play, seen

REQUESTS = 3_000
GRAPHS = 40
MORE = range(2, 8)
"""Seeds besides the first, where the whole of the tests is asked for."""

VERBS = {method: verb for verb, method in METHODS.items() if verb in {"get", "create", "update", "patch", "delete"}}


def test_the_answers_are_those_of_a_real_server(cluster: Cluster) -> None:
    own = ApiPlay()
    answers = {ask.name: seen(answer) for ask, answer in play(own.put)}

    def patient(ask: Ask) -> Told:
        answer = _real(cluster, ask)
        if ask.name.startswith("later"):
            # What controllers do takes them a while; here it is part of the step.
            until(lambda: seen(_real(cluster, ask)) == answers[ask.name] or None, 30)
            answer = _real(cluster, ask)
        return answer

    try:
        _compare(play(patient), answers)
    finally:
        _tidy(cluster)


WATCHED = (
    "services?labelSelector=gen",
    "secrets?labelSelector=gen",
    "serviceaccounts?labelSelector=gen",
    "pods?labelSelector=gen",
    "pods?labelSelector=gen%2Cx%3D1",
    "pods?fieldSelector=status.phase%3DRunning",
    "configmaps?labelSelector=gen%2C%21y",
)


def test_requests_by_chance_are_answered_and_watched_alike(cluster: Cluster) -> None:
    for seed in (1, *(MORE if cluster.full else ())):
        _play_by_chance(cluster, seed)


def _play_by_chance(cluster: Cluster, seed: int) -> None:
    own = _Recorded()
    begin = Ask("ns", "POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    own.put(begin)
    assert _real(cluster, begin).code == 201
    # A real server remembers the last hundred or so events of a kind: the watches are open before.
    heard = {path: own.watch(f"{HOME}/{path}") for path in WATCHED}
    streams = {path: _Heard(cluster, path) for path in WATCHED}
    try:
        with cluster.controllers_behind(300):
            asked = generated(lambda ask: _real(cluster, ask), seed, REQUESTS)
            for (ask, mine), (_, answer) in zip(generated(own.put, seed, REQUESTS), asked, strict=True):
                ours, theirs = outline(mine), outline(answer)
                assert ours == theirs or expected(ask, ours, theirs), f"{seed} {ask}\nreal: {theirs}\nown: {ours}"
            for path, number in heard.items():
                news = _news(own.items[number])
                assert until(lambda told=streams[path].events, last=news[-1]: last in _news(told), 20)  # type: ignore[misc]
                assert _news(streams[path].events) == news
    finally:
        for stream in streams.values():
            stream.close()
        _tidy(cluster)


def test_the_collector_leaves_the_same(cluster: Cluster) -> None:
    own = ApiPlay()
    begin = Ask("ns", "POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    own.put(begin)
    assert _real(cluster, begin).code == 201
    left = Ask("left", "GET", f"{HOME}/configmaps?labelSelector=graph")
    try:
        asked = asked_in_turn(lambda ask: _real(cluster, ask), graphs(1, GRAPHS))
        for (ask, mine), (_, answer) in zip(asked_in_turn(own.put, graphs(1, GRAPHS)), asked, strict=True):
            if ask.name.startswith("make"):
                assert seen(mine) == seen(answer)
        kept = seen(own.put(left))
        assert kept["items"]
        until(lambda: seen(_real(cluster, left)) == kept, 40, "what the collector leaves")
    finally:
        _tidy(cluster)


def _real(cluster: Cluster, ask: Ask) -> Told:
    url = urlsplit(ask.path)
    pairs = parse_qsl(url.query, keep_blank_values=True)
    answer = cluster.call(VERBS[ask.method], "script", url.path, ask.body, pairs, ask.media)
    return Told(answer.status, json.loads(answer.body))


class _Recorded(ApiPlay):
    """A server of our own that keeps the objects of events, too."""

    def __init__(self) -> None:
        self.items: dict[int, list[tuple[str, Any]]] = defaultdict(list)
        super().__init__()

    def _hear(self, state: ApiState, events: Any) -> None:
        for event in events:
            self.items[event.watch].append((event.type, event.item))
        super()._hear(state, events)


def _news(events: list[tuple[str, Any]]) -> list[tuple[str, str, Any]]:
    """Events, but for those in which only the owners of fields are others: the real server keeps account of every object."""
    last: dict[str, Any] = {}
    news = []
    for kind, item in list(events):
        name, shown = item["metadata"]["name"], seen(Told(200, item))
        if kind != "MODIFIED" or last.get(name) != shown:
            news.append((kind, name, shown))
        last[name] = shown
    return news


class _Heard:
    """What a watch of the real server is sent, read by a thread of its own."""

    def __init__(self, cluster: Cluster, path: str) -> None:
        url = urlsplit(f"{HOME}/{path}&watch=1")
        self.events: list[tuple[str, Any]] = []
        query = parse_qsl(url.query, keep_blank_values=True)
        self._stream = cluster.api().stream("script", url.path, query=query, silence_s=120)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        rest = b""
        with suppress(Exception):  # the stream is closed under it
            for chunk in self._stream.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    self.events.append((event["type"], event["object"]))

    def close(self) -> None:
        """Hang up."""
        self._stream.close()


def _tidy(cluster: Cluster) -> None:
    """Take the namespace away, with what holds things in it."""
    for what in ("pods", "configmaps", "secrets", "services", "serviceaccounts", "events", "persistentvolumeclaims"):
        _let_go(cluster, f"{HOME}/{what}")
    for path in (LEASES, POLICIES, *(f"{SETS}/{what}" for what in ("deployments", "replicasets", "statefulsets"))):
        _let_go(cluster, path)
    cluster.call("delete", "script", f"/api/v1/namespaces/{NS}")
    until(lambda: cluster.call("get", "script", f"/api/v1/namespaces/{NS}").status == 404, 30, "the namespace's end")


def _let_go(cluster: Cluster, path: str) -> None:
    items = json.loads(cluster.call("get", "script", path).body)["items"]
    for name in (one["metadata"]["name"] for one in items):
        nothing = {"metadata": {"finalizers": None}}
        cluster.call("patch", "script", f"{path}/{name}", nothing, (), MERGE)
        cluster.call("delete", "script", f"{path}/{name}", query=[("gracePeriodSeconds", "0")])


def _compare(answers: Iterator[tuple[Ask, Told]], expected: dict[str, Any]) -> None:
    for ask, answer in answers:
        same = seen(answer) == expected[ask.name]
        assert same or ask.name in DIFFERENCES, f"{ask}\nreal: {seen(answer)}\nown: {expected[ask.name]}"
        assert not same or ask.name not in DIFFERENCES, f"no difference any more: {ask.name}"
