"""One script of requests to the API server in the domain and to a real one: the answers are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from podtide.adapters.kubernetes.api import METHODS
from tests.live.cluster import Cluster, until
from tests.support.api_play import ApiPlay
from tests.support.api_script import DIFFERENCES, HOME, NS, Ask, Told, play, seen

VERBS = {method: verb for verb, method in METHODS.items() if verb in {"get", "create", "update", "patch", "delete"}}


def test_the_answers_are_those_of_a_real_server(cluster: Cluster) -> None:
    own = ApiPlay()
    expected = {ask.name: seen(answer) for ask, answer in play(own.put)}

    def real(ask: Ask) -> Told:
        url = urlsplit(ask.path)
        pairs = parse_qsl(url.query, keep_blank_values=True)
        answer = cluster.call(VERBS[ask.method], "script", url.path, ask.body, pairs, ask.media)
        return Told(answer.status, json.loads(answer.body))

    def patient(ask: Ask) -> Told:
        answer = real(ask)
        if ask.name.startswith("later"):
            # What controllers do takes them a while; here it is part of the step.
            until(lambda: seen(real(ask)) == expected[ask.name] or None, 30)
            answer = real(ask)
        return answer

    try:
        _compare(play(patient), expected)
    finally:
        for path in (f"{HOME}/pods", f"/api/v1/namespaces/{NS}"):
            cluster.call("delete", "script", path, query=[("gracePeriodSeconds", "0")])


def _compare(answers: Iterator[tuple[Ask, Told]], expected: dict[str, Any]) -> None:
    for ask, answer in answers:
        same = seen(answer) == expected[ask.name]
        assert same or ask.name in DIFFERENCES, f"{ask}\nreal: {seen(answer)}\nown: {expected[ask.name]}"
        assert not same or ask.name not in DIFFERENCES, f"no difference any more: {ask.name}"
