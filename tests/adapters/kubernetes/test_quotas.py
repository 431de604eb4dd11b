"""Quotas as a shadow looks at them: which has no room for one more executor, and what is said where they are hidden."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from podtide.adapters.kubernetes.api import ApiAnswer
from podtide.adapters.kubernetes.watch.quotas import QuotaWatch, SeenQuota, executor_needs, used_up
from podtide.adapters.notices import Notice
from tests.support.live_play import HandClock

NEEDS = executor_needs(Decimal("0.5"), 1 << 30)


def quota(hard: dict[str, str], used: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used}}


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (quota({"pods": "4"}, {"pods": "4"}), "ResourceQuota q: pods 4 of 4 used"),
        (quota({"pods": "4"}, {"pods": "3"}), None),
        (quota({"count/pods": "1"}, {}), None),
        (quota({"requests.cpu": "2"}, {"requests.cpu": "1600m"}), "ResourceQuota q: requests.cpu 1600m of 2 used"),
        (quota({"requests.cpu": "2"}, {"requests.cpu": "1500m"}), None),
        (quota({"memory": "4Gi"}, {"memory": "3500Mi"}), "ResourceQuota q: memory 3500Mi of 4Gi used"),
        (quota({"services": "0", "requests.storage": "1Gi"}, {"requests.storage": "1Gi"}), None),
        (quota({"pods": "much"}, {"pods": "4"}), None),
        (quota({"pods": "0"}, {}, scopes=["BestEffort"]), None),
        (quota({"pods": "0"}, {}, scopeSelector={"matchExpressions": []}), None),
        ({"metadata": {"name": "q"}}, None),
    ],
)
def test_a_quota_without_room_for_one_more_is_named(one: dict[str, Any], text: str | None) -> None:
    assert used_up([msgspec.convert({}, SeenQuota), msgspec.convert(one, SeenQuota)], NEEDS) == text


class QuotaServer:
    """An API server that answers each list alike."""

    def __init__(self, status: int, *items: dict[str, Any]) -> None:
        self.status = status
        self.items = items
        self.paths: list[str] = []

    def call(self, verb: str, resource: str, path: str, **_: Any) -> ApiAnswer:
        self.paths.append(f"{verb} {resource} {path}")
        body = {"items": self.items} if self.status == 200 else {"kind": "Status", "code": self.status, "message": "no"}
        return ApiAnswer(self.status, json.dumps(body).encode(), None)

    def stream(self, resource: str, path: str, **_: Any) -> Any:
        raise NotImplementedError


def watching(server: QuotaServer) -> tuple[QuotaWatch, list[str | None], list[Notice]]:
    heard: list[str | None] = []
    said: list[Notice] = []
    watch = QuotaWatch(server, "data", NEEDS, HandClock(), said.append, lambda: True, heard.append)
    return watch, heard, said


def test_a_look_is_one_list_and_says_what_it_found() -> None:
    full, room = QuotaServer(200, quota({"pods": "0"}, {})), QuotaServer(200)
    watch, heard, _ = watching(full)
    assert watch.look()
    assert (heard, full.paths) == (
        ["ResourceQuota q: pods 0 of 0 used"], ["list resourcequotas /api/v1/namespaces/data/resourcequotas"],
    )  # fmt: skip
    watch, heard, _ = watching(room)
    assert watch.look()
    assert heard == [None]


def test_where_quotas_may_not_be_listed_nothing_is_concluded_and_it_is_said() -> None:
    watch, heard, said = watching(QuotaServer(403))
    assert not watch.look()
    assert heard == []
    assert [one.text for one in said] == ["list resourcequotas: no"]
