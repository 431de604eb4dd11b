"""The conf that a driver shows."""

from __future__ import annotations

import json

import pytest

from podtide.adapters.driver_conf import NoConf, driver_conf
from podtide.adapters.driver_rest_http import NoAnswer, Reply
from podtide.domain.redaction import REDACTED


def shown(settings: list[list[str]]) -> dict[str, str]:
    def get(path: str) -> Reply:
        assert path == "applications/spark%201/environment"
        return Reply(200, json.dumps({"sparkProperties": settings, "runtime": {"javaVersion": "17"}}).encode())

    return driver_conf(get, "spark 1")


def test_settings_but_for_what_is_hidden() -> None:
    settings = [["spark.executor.cores", "4"], ["spark.my.password", REDACTED], ["java.version", "17"]]
    assert shown(settings) == {"spark.executor.cores": "4"}


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(404, b"no such app"), "status 404"),
        (Reply(200, b"<html>"), "cannot be read"),
        (Reply(200, b'{"sparkProperties": [["a"]]}'), "cannot be read"),
        (Reply(200, b"[" * 100_000), "cannot be read"),
        (Reply(200, json.dumps({"sparkProperties": [["spark.a", "1"]] * 10_001}).encode()), "10001 settings"),
    ],
)
def test_answers_that_are_none(reply: Reply, why: str) -> None:
    def get(path: str) -> Reply:
        del path
        return reply

    with pytest.raises(NoConf, match=why):
        driver_conf(get, "a")


def test_no_answer() -> None:
    def get(path: str) -> Reply:
        raise NoAnswer(f"nobody listens for {path}")

    with pytest.raises(NoConf, match="nobody listens"):
        driver_conf(get, "a")
