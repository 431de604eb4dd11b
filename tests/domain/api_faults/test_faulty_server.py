"""The API server with faults: what a client is answered, when, and what is true of the server afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.api_faults.faulty_server import FaultyState, FaultyStep, WatchCut, begin, due, step, verb_of
from podtide.domain.api_server.messages import ApiResponse, ClockTick, HttpRequest, WatchSent
from podtide.domain.api_server.state import ApiConfig
from podtide.domain.base.randomness import Constant, Uniform
from podtide.domain.fakes.kubernetes.description import Api, Description, Fault, Lost, Verb, Watch
from podtide.domain.fakes.windows import Window
from tests.support.api_play import HOME, NOW
from tests.support.api_script import config_map

CALM = Constant(5)
PROMPT = Watch(delay=Constant(20))


class Client:
    """Sends requests one after the other and keeps all that came of them."""

    def __init__(self, api: Api, watch: Watch = PROMPT, **more: Any) -> None:
        self.state: FaultyState = begin(ApiConfig(), Description(api=api, watch=watch, **more), NOW)
        self.now = NOW
        self.events: list[Any] = []

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> FaultyStep:
        """A request now."""
        made = step(self.state, HttpRequest(method, f"{HOME}/{path}", tuple(query.items()), body), self.now)
        self.state = made.state
        self.events += made.events
        return made

    def tick(self, wait_ms: int) -> None:
        """Time goes on."""
        self.now += wait_ms
        made = step(self.state, ClockTick(), self.now)
        self.state = made.state
        self.events += made.events

    def code(self, method: str, path: str, body: Any = None) -> int:
        """The code of an answer that comes."""
        answer = self.ask(method, path, body).answer
        assert isinstance(answer, ApiResponse)
        return answer.code


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/api/v1/pods", Verb.LIST, "pods"),
        ("GET", "/api/v1/namespaces", Verb.LIST, "namespaces"),
        ("GET", "/api/v1/namespaces/x", Verb.GET, "namespaces"),
        ("GET", "/api/v1/namespaces/x/pods/p", Verb.GET, "pods"),
        ("DELETE", "/api/v1/namespaces/x/pods", Verb.DELETE, "pods"),
        ("PATCH", "/apis/apps/v1/namespaces/x/statefulsets/s/scale", Verb.SCALE, "statefulsets"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/l", Verb.PATCH, "leases"),
        ("GET", "/version", None, ""),
        ("GET", "/apis/apps/v1", None, ""),
    ],
)
def test_a_request_in_the_words_of_a_cluster_file(method: str, path: str, verb: Verb | None, resource: str) -> None:
    assert verb_of(HttpRequest(method, path)) == (verb, resource)


def test_a_refusal_has_no_effect_and_says_when_to_come_again() -> None:
    fault = Fault(status=429, verbs=(Verb.CREATE,), resources=("configmaps",), retry_after_ms=1_500)
    client = Client(Api(faults=(fault,), latency=CALM))
    made = client.ask("POST", "configmaps", config_map("a"))
    assert isinstance(made.answer, ApiResponse)
    assert isinstance(made.answer.body, dict)
    assert (made.answer.code, made.at, made.fault) == (429, NOW + 5, "429")
    assert made.answer.body["details"]["retryAfterSeconds"] == 2
    assert client.code("GET", "configmaps/a") == 404
    assert client.code("POST", "secrets", {"metadata": {"name": "a"}}) == 201


@pytest.mark.parametrize(("lost", "there"), [(Lost.REQUEST, 404), (Lost.ANSWER, 200)])
def test_what_is_lost_is_not_answered_and_only_a_lost_answer_had_an_effect(lost: Lost, there: int) -> None:
    client = Client(Api(faults=(Fault(lost=lost, verbs=(Verb.CREATE,)),), timeout_ms=700, latency=CALM))
    made = client.ask("POST", "configmaps", config_map("a"))
    assert (made.answer, made.at) == (None, NOW + 700)
    assert client.code("GET", "configmaps/a") == there


def test_a_fault_ends_with_its_window_and_with_the_calm() -> None:
    fault = Fault(status=500, during=Window(0, 100))
    client = Client(Api(faults=(fault, Fault(status=403)), latency=CALM), calm_ms=200)
    codes = []
    for _ in range(3):
        codes.append(client.code("GET", "pods"))
        client.now += 100
    assert codes == [500, 403, 200]


def test_a_stale_list_is_an_older_one_and_writes_are_never_stale() -> None:
    client = Client(Api(stale=1.0, stale_age=Constant(1_000), latency=CALM))
    for name in "abc":
        client.ask("POST", "configmaps", config_map(name))
        client.now += 1_000
    made = client.ask("GET", "configmaps")
    assert isinstance(made.answer, ApiResponse)
    assert isinstance(made.answer.body, dict)
    assert [one["metadata"]["name"] for one in made.answer.body["items"]] == ["a", "b", "c"][:3]
    client.ask("DELETE", "configmaps/a")
    made = client.ask("GET", "configmaps")
    assert made.fault == "stale list"
    assert isinstance(made.answer, ApiResponse)
    assert isinstance(made.answer.body, dict)
    assert "a" in [one["metadata"]["name"] for one in made.answer.body["items"]]
    assert client.code("POST", "configmaps", config_map("a")) == 201


def test_a_watch_breaks_is_refused_for_a_while_and_is_told_410_where_history_expired() -> None:
    watch = Watch(delay=Constant(0), outages=(Window(1_000, 2_000),), broken=Constant(3_000), expired=1.0)
    client = Client(Api(latency=CALM), watch)
    client.ask("POST", "configmaps", config_map("a"))
    listed = client.ask("GET", "configmaps").answer
    assert isinstance(listed, ApiResponse)
    assert isinstance(listed.body, dict)
    version = listed.body["metadata"]["resourceVersion"]
    first = client.ask("GET", "configmaps", watch="1", resourceVersion=version).answer
    assert isinstance(first, ApiResponse)
    client.ask("POST", "configmaps", config_map("b"))
    assert due(client.state) == NOW + 1_000
    client.tick(1_000)
    assert client.events[-1].event == WatchCut(first.watch or 0)
    client.now += 1_500
    assert client.ask("GET", "configmaps", watch="1").answer is None
    client.now += 1_500
    made = client.ask("GET", "configmaps", watch="1", resourceVersion=version)
    told = [one.event for one in made.events]
    assert isinstance(told[0], WatchSent)
    assert (told[0].type, told[0].item["code"]) == ("ERROR", 410)


def test_events_are_lost_come_twice_and_late_as_often_as_the_file_says() -> None:
    watch = Watch(delay=Constant(10), loss=0.2, duplicates=0.2, reordered=0.2, late=Constant(500))
    client = Client(Api(latency=CALM), watch)
    client.ask("GET", "configmaps", watch="1")
    for number in range(600):
        client.now += 1
        client.ask("POST", "configmaps", config_map(f"c{number}"))
    sent = [one.event.item["metadata"]["name"] for one in client.events]
    assert 0.75 < len(set(sent)) / 600 < 0.9
    assert 0.05 < (len(sent) - len(set(sent))) / 600 < 0.25
    in_order = sorted(client.events, key=lambda one: one.at)
    versions = [int(one.event.item["metadata"]["resourceVersion"]) for one in in_order]
    assert versions != sorted(versions)


FILES = st.builds(
    lambda probability, status, loss, stale: Description(
        api=Api(
            latency=Uniform(1, 50),
            stale=stale,
            faults=(
                Fault(status=status, probability=probability),
                Fault(lost=Lost.ANSWER, probability=probability / 2),
            ),
        ),
        watch=Watch(delay=Uniform(0, 100), loss=loss, reordered=loss, breaks_per_hour=7_200, broken=Constant(50)),
        seed=7,
    ),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([429, 500]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([0.0, 0.5]),
)
ASKS = st.lists(
    st.tuples(
        st.sampled_from(["POST", "DELETE", "GET", "WATCH", "TICK"]), st.sampled_from("ab"), st.integers(0, 1_000)
    ),
    max_size=25,
)


def run(description: Description, asks: list[tuple[str, str, int]]) -> list[Any]:
    state, now, seen = begin(ApiConfig(), description, NOW), NOW, list[Any]()
    for what, name, wait in asks:
        now += wait
        stimulus: Any = ClockTick()
        if what == "POST":
            stimulus = HttpRequest("POST", f"{HOME}/configmaps", (), config_map(name))
        elif what == "WATCH":
            stimulus = HttpRequest("GET", f"{HOME}/configmaps", (("watch", "1"),))
        elif what != "TICK":
            stimulus = HttpRequest(what, f"{HOME}/configmaps" if what == "GET" else f"{HOME}/configmaps/{name}")
        made = step(state, stimulus, now)
        state = made.state
        assert made.at >= now
        assert all(one.at >= now for one in made.events)
        assert due(state) > now or what != "TICK"
        seen.append((made.answer, made.at, made.events, made.fault))
    assert set(state.watches) == set(state.api.watches)
    return seen


@pytest.mark.uncounted
@settings(max_examples=150)
@given(FILES, ASKS)
def test_the_same_seed_has_the_same_faults_and_nothing_comes_from_the_past(
    description: Description, asks: list[tuple[str, str, int]]
) -> None:
    assert run(description, asks) == run(description, asks)
