"""The record of an embedded cluster: what is in it, and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.api_server.front import ServedStep
from podtide.adapters.api_server.serving import USER
from podtide.adapters.recording.cluster_record import ClusterRecord
from podtide.domain.api_faults.faulty_server import begin, step
from podtide.domain.api_server.messages import ClockTick, HttpRequest
from podtide.domain.api_server.state import ApiConfig
from podtide.domain.base.randomness import Constant
from podtide.domain.fakes.kubernetes.description import Api, Description, Fault, Verb, Watch
from podtide.domain.fakes.windows import Window

NOW = 1_763_000_000_000
HOME = "/api/v1/namespaces/default"


def test_calls_changes_and_watch_events_are_lines_and_no_body_is(tmp_path: Path) -> None:
    refused = Fault(status=429, verbs=(Verb.DELETE,))
    watch = Watch(delay=Constant(30), outages=(Window(5_000, 6_000),))
    described = Description(api=Api(latency=Constant(4), faults=(refused,)), watch=watch)
    state, path = begin(ApiConfig(), described, NOW), tmp_path / "record"
    with ClusterRecord(str(path), "default", NOW) as record:
        for now, stimulus in (
            (1, HttpRequest("GET", f"{HOME}/secrets", (("watch", "1"),), agent="kubectl")),
            (2, HttpRequest("POST", f"{HOME}/secrets", body={"metadata": {"name": "s"}, "data": {"k": "aHVzaA=="}})),
            (3, HttpRequest("DELETE", f"{HOME}/secrets/s")),
            (5_000, ClockTick()),
        ):
            made = step(state, stimulus, NOW + now)
            events, fault = made.events, made.fault
            record(
                ServedStep(USER, stimulus, state.api, made.state.api, made.answer, events, NOW + now, made.at, fault)
            )
            state = made.state
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert "aHVzaA" not in text
    header, *lines, end = [json.loads(line) for line in text.splitlines()]
    assert header == {"podtide": 1, "kind": "cluster", "started_at_ms": NOW, "namespace": "default"}
    assert end == {"at_ms": NOW + 5_000, "end": {"lines": len(lines) + 1}}
    named: dict[str, Any] = {"namespace": "default", "name": "s", "version": lines[2]["version"]}
    call = {"path": f"{HOME}/secrets", "user": USER, "agent": "", "late_ms": 4}
    assert lines == [
        {"at_ms": NOW + 1, "call": "GET", **call, "agent": "kubectl", "code": 200, "query": {"watch": "1"}, "watch": 1},
        {"at_ms": NOW + 2, "call": "POST", **call, "code": 201},
        {"at_ms": NOW + 2, "change": "ADDED", "resource": "secrets", **named},
        {"at_ms": NOW + 2, "watch": 1, "event": "ADDED", **named, "late_ms": 30},
        {"at_ms": NOW + 3, "call": "DELETE", **call, "path": f"{HOME}/secrets/s", "code": 429, "fault": "429"},
        {"at_ms": NOW + 5_000, "watch": 1, "event": "CUT"},
    ]
    with pytest.raises(FileExistsError):
        ClusterRecord(str(path), "default", NOW)
