"""The API server's JSON as values: what a pod, a list, an event and a refusal come to, and what nonsense does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.kubernetes.api import ApiAnswer
from podtide.adapters.kubernetes.codec import Event, read_event, read_pods
from podtide.adapters.kubernetes.status import (
    TEXT_MAX,
    UnreadableBody,
    call_failure,
    message_of,
    no_answer,
    read_status,
)
from podtide.domain.protocol.pod_stimuli import CallFailure
from podtide.domain.protocol.pods import ContainerState, PodContainer, PodManifest

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p-exec-7",
        "namespace": "spark",
        "uid": "u-7",
        "resourceVersion": "29157",
        "creationTimestamp": "2026-11-21T07:29:09Z",
        "labels": {"spark-exec-id": "7", "spark-role": "executor"},
        "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}],
    },
    "spec": {
        "restartPolicy": "Never",
        "nodeName": "node-1",
        "containers": [{"name": "spark-kubernetes-executor", "env": [{"name": "A", "value": "b"}]}],
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "claim-a"}},
            {"name": "b", "emptyDir": {}},
            {"name": "c", "persistentVolumeClaim": {}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "claim-d"}},
        ],
    },
    "status": {
        "phase": "Running",
        "reason": "Why",
        "message": "what",
        "containerStatuses": [
            {"name": "spark-kubernetes-executor", "image": "i", "state": {"running": {"startedAt": "t1"}}}
        ],
    },
}
MANIFEST = PodManifest(
    "p-exec-7",
    {"spark-exec-id": "7", "spark-role": "executor"},
    "2026-11-21T07:29:09Z",
    None,
    "Never",
    ("claim-a", "claim-d"),
    "Running",
    "Why",
    "what",
    (PodContainer("spark-kubernetes-executor", "i", ContainerState("running", started_at="t1")),),
    True,
    True,
    "spark",
    "29157",
    "u-7",
    "node-1",
)


def raw(value: object) -> bytes:
    return json.dumps(value).encode()


def changed(**parts: Any) -> bytes:
    return raw({**POD, **parts})


def read_pod(body: bytes) -> PodManifest | UnreadableBody | None:
    """The pod of an event."""
    event = read_event(b'{"type":"ADDED","object":' + body + b"}")
    return event if isinstance(event, UnreadableBody) else event.pod


def test_a_pod() -> None:
    assert read_pod(raw(POD)) == MANIFEST


@pytest.mark.parametrize(
    ("body", "field", "expected"),
    [
        (changed(spec=None), "has_spec", False),
        (changed(status=None), "has_status", False),
        (changed(status={}), "has_status", True),
        (changed(status={}), "phase", None),
        (changed(metadata=None), "name", ""),
        (changed(metadata={}), "labels", {}),
        (changed(metadata={}), "namespace", "default"),
        (changed(metadata={"deletionTimestamp": "t"}), "deleted_at", "t"),
        (changed(spec={}), "restart_policy", None),
        (changed(spec={"volumes": None}), "claims", ()),
    ],
)
def test_what_is_not_there_stays_absent(body: bytes, field: str, expected: object) -> None:
    pod = read_pod(body)
    assert getattr(pod, field) == expected


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, None),
        ({}, ContainerState(None)),
        ({"running": {}}, ContainerState("running")),
        ({"waiting": {"reason": "ImagePullBackOff"}}, ContainerState("waiting", reason="ImagePullBackOff")),
        (
            {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "a", "finishedAt": "b"}},
            ContainerState("terminated", 137, "OOMKilled", "a", "b"),
        ),
        ({"terminated": {}}, ContainerState("terminated")),
        ({"running": {}, "terminated": {"exitCode": 1}}, ContainerState("terminated", 1)),
    ],
)
def test_states_of_a_container(state: object, expected: ContainerState | None) -> None:
    pod = read_pod(changed(status={"phase": "Running", "containerStatuses": [{"name": "c", "state": state}]}))
    assert isinstance(pod, PodManifest)
    assert pod.containers == (PodContainer("c", None, expected),)


def test_a_list_is_read_with_its_version_and_its_token() -> None:
    page = read_pods(raw({"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [POD, POD]}))
    assert page == ((MANIFEST, MANIFEST), "9", "more")


@pytest.mark.parametrize("body", [{"items": []}, {"items": None}, {"items": None, "metadata": None}])
def test_an_empty_list(body: object) -> None:
    assert read_pods(raw(body)) == ((), "", "")


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_events_of_pods(kind: str) -> None:
    assert read_event(raw({"type": kind, "object": POD})) == (kind, "29157", MANIFEST, None)


def test_the_type_of_an_event_may_come_last() -> None:
    event = read_event(b'{"object":{"kind":"Pod","metadata":{"resourceVersion":"12"}},"type":"BOOKMARK"}')
    assert event == Event("BOOKMARK", "12")


def test_an_error_event() -> None:
    event = read_event(raw({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}))
    assert isinstance(event, Event)
    assert event.kind == "ERROR"
    assert event.status is not None
    assert event.status[:3] == (410, "Expired", "too old")


HOSTILE = [
    (b"", "malformed"),
    (b"\xff\xfe", "malformed"),
    (b"null", "Expected `object`"),
    (b"[]", "Expected `object`"),
    (b'"text"', "Expected `object`"),
    (b'{"metadata":{}', "truncated"),
    (b'{"metadata":{"name":4}}', "$.object.metadata.name"),
    (b'{"metadata":{"labels":{"a":1}}}', "$.object.metadata.labels"),
    (b'{"metadata":{"labels":[]}}', "$.object.metadata.labels"),
    (b'{"status":[]}', "$.object.status"),
    (b'{"status":{"containerStatuses":[{"state":{"terminated":{"exitCode":' + b"9" * 5_000 + b"}}}]}}", "exitCode"),
    (b'{"status":{"containerStatuses":[{"state":{"terminated":{"exitCode":1.5}}}]}}', "exitCode"),
    (b'{"x":' * 100_000, "recursion"),
    (b'{"x":' + b"[" * 100_000, "recursion"),
    (b'{"metadata":{"name":"\\ud800"}}', "truncated"),
]


@pytest.mark.parametrize(("body", "says"), HOSTILE, ids=range(len(HOSTILE)))
def test_nonsense_is_a_value_that_says_what_is_wrong(body: bytes, says: str) -> None:
    pod = read_pod(body)
    assert isinstance(pod, UnreadableBody)
    assert says in pod.why
    assert len(pod.why) < 500
    assert pod.why.isprintable()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"type":"ADDED"}',
        b'{"type":"NEWKIND","object":{}}',
        b'{"type":3,"object":{}}',
        b'{"type":"ERROR","object":"x"}',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":7}}}',
    ],
)
def test_lines_that_are_no_events(line: bytes) -> None:
    assert isinstance(read_event(line), UnreadableBody)


def test_a_list_says_which_pod_is_wrong() -> None:
    page = read_pods(raw({"items": [POD, {"metadata": {"uid": True}}]}))
    assert isinstance(page, UnreadableBody)
    assert "$.items[1].metadata.uid" in page.why


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(raw))
def test_no_bytes_raise(body: bytes) -> None:
    for read in (read_pod, read_pods, read_event, read_status):
        read(body)
    call_failure(ApiAnswer(500, body), "list", "/p")


# What fabric8 7.6.1 prints of these bodies, from its own classes.
FABRIC8 = [
    (
        422,
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"Invalid","details":'
        b'{"name":"n","kind":"Pod","group":"","causes":[{"reason":"R","message":"cm","field":"f"}],"retryAfterSeconds":3,'
        b'"uid":"u"},"code":422}',
        "Message: m. Received status: Status(apiVersion=v1, code=422, details=StatusDetails(causes=[StatusCause(field=f, "
        "message=cm, reason=R, additionalProperties={})], group=, kind=Pod, name=n, retryAfterSeconds=3, uid=u, "
        "additionalProperties={}), kind=Status, message=m, metadata=ListMeta(_continue=null, remainingItemCount=null, "
        "resourceVersion=null, selfLink=null, additionalProperties={}), reason=Invalid, status=Failure, "
        "additionalProperties={}).",
        3_000,
    ),
    (
        410,
        b'{"kind":"Status","apiVersion":"v1","metadata":{"continue":"c","resourceVersion":"7"},"status":"Failure",'
        b'"code":410}',
        "Received status: Status(apiVersion=v1, code=410, details=null, kind=Status, message=null, metadata=ListMeta("
        "_continue=c, remainingItemCount=null, resourceVersion=7, selfLink=null, additionalProperties={}), reason=null, "
        "status=Failure, additionalProperties={}).",
        None,
    ),
    (
        500,
        b"{}",
        "Received status: Status(apiVersion=v1, code=500, details=null, kind=Status, message=null, metadata=null, "
        "reason=null, status=null, additionalProperties={}).",
        None,
    ),
    (503, b"<html>down</html>", "Message: Service Unavailable.", None),
    (404, b"", "Message: Not Found.", None),
    (599, b"", "", None),
]


@pytest.mark.parametrize(("status", "body", "text", "retry_after_ms"), FABRIC8)
def test_a_refusal_in_the_words_of_sparks_client(
    status: int, body: bytes, text: str, retry_after_ms: int | None
) -> None:
    failure = call_failure(ApiAnswer(status, body), "create", "/api/v1/pods", [("a", "b,c")], "https://h:1")
    begins = "Failure executing: POST at: https://h:1/api/v1/pods?a=b%2Cc."
    assert failure == CallFailure(status, f"{begins} {text}".rstrip(), retry_after_ms=retry_after_ms)


def test_the_header_says_how_long_to_wait_before_the_body_does() -> None:
    answer = ApiAnswer(429, b'{"details":{"retryAfterSeconds":3}}', 1_000)
    assert call_failure(answer, "list", "/p").retry_after_ms == 1_000


@pytest.mark.parametrize("seconds", [0, -1, 10**9])
def test_an_absurd_time_to_wait_is_none(seconds: int) -> None:
    answer = ApiAnswer(429, raw({"details": {"retryAfterSeconds": seconds}}))
    assert call_failure(answer, "list", "/p").retry_after_ms is None


def test_a_long_message_is_cut_and_stays_one_line() -> None:
    failure = call_failure(ApiAnswer(403, raw({"message": "a\n\x1b[31m" * 100_000})), "list", "/p")
    assert len(failure.message) < 5 * TEXT_MAX
    assert failure.message.isprintable()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ApiAnswer(403, raw({"message": "pods is forbidden"})), "pods is forbidden"),
        (ApiAnswer(403, b"no"), "403 Forbidden"),
        (ApiAnswer(599, b""), "599 without a word"),
    ],
)
def test_what_a_refusal_says(answer: ApiAnswer, message: str) -> None:
    assert message_of(answer) == message


def test_a_call_without_an_answer_in_the_words_of_sparks_client() -> None:
    failure = no_answer("cut off", "list", "Pod", None, "spark")
    assert failure.status is None
    assert failure.message == (
        "Operation: [list]  for kind: [Pod]  with name: [null]  in namespace: [spark]  failed. Reason: cut off"
    )
