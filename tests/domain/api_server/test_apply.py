"""Server-side apply: what holds whoever applies what. That its answers are a real server's: tests/live."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.api_server.messages import ApiResponse, HttpRequest
from podtide.domain.api_server.patches.field_paths import field_set, fields_v1
from podtide.domain.api_server.server import step
from tests.support.api_play import HOME, ApiPlay
from tests.support.api_script import APPLY, MERGE, pod

PATHS = st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"c"}', 'v:"x"']), min_size=1, max_size=4).map(tuple)
MANAGERS = st.sampled_from(["one", "two", "three"])
ENV = st.dictionaries(st.sampled_from(["A", "B", "C"]), st.sampled_from(["1", "2"]), max_size=3)
CONFIGS = st.fixed_dictionaries({"env": ENV, "labels": ENV, "finalizers": st.booleans()})
ACTS = st.lists(st.tuples(MANAGERS, CONFIGS, st.sampled_from(["", "force", "patch"])), min_size=1, max_size=8)


@given(st.frozensets(PATHS))
def test_a_set_of_fields_survives_being_written_down(paths: frozenset[tuple[str, ...]]) -> None:
    assert field_set(fields_v1(paths)) == paths


def values(item: Any) -> dict[str, str]:
    """The fields that the configs of this test are about, by name."""
    found = {f"label {key}": value for key, value in item["metadata"].get("labels", {}).items()}
    found |= {f"data {key}": value for key, value in item.get("data", {}).items()}
    return found | {f"finalizer {one}": "" for one in item["metadata"].get("finalizers", ())}


def cm(fields: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": "ConfigMap", "apiVersion": "v1", "data": fields["env"]}
    made["metadata"] = {"name": "c", "labels": fields["labels"]}
    if fields["finalizers"]:
        made["metadata"]["finalizers"] = ["x.y/z"]
    return made


@pytest.mark.uncounted
@settings(max_examples=200)
@given(ACTS)
def test_an_apply_is_there_and_takes_nothing_that_it_was_not_allowed(acts: list[tuple[str, Any, str]]) -> None:
    server = ApiPlay()
    server.call("POST", "configmaps", {"metadata": {"name": "c"}, "data": {"untouched": "x"}})
    wants: dict[str, dict[str, str]] = {}
    patched: set[str] = set()
    for manager, fields, way in acts:
        body, before = cm(fields), values(server.call("GET", "configmaps/c"))
        wanted = values(body)
        if way == "patch":
            server.call("PATCH", f"configmaps/c?fieldManager={manager}", body, MERGE)
            patched |= {name for name, value in wanted.items() if before.get(name) != value}
            for own in wants.values():
                for name in {name for name, value in wanted.items() if before.get(name) != value}:
                    own.pop(name, None)
            continue
        taken = {
            n for n, v in wanted.items() if before.get(n) != v and any(n in w for m, w in wants.items() if m != manager)
        }
        answer = server.answer(
            "PATCH", f"{HOME}/configmaps/c?fieldManager={manager}&force={way == 'force'}", body, APPLY
        )
        assert isinstance(answer, ApiResponse)
        if answer.code == 409:
            assert not way
            assert values(server.call("GET", "configmaps/c")) == before
            continue
        assert answer.code == 200
        assert way == "force" or not taken
        now = values(answer.body)
        assert now.items() >= wanted.items()
        for other, own in wants.items():
            if other != manager:
                for name in taken:
                    own.pop(name, None)
                assert now.items() >= own.items()
        given_up = wants.get(manager, {}).keys() - wanted.keys()
        patched -= {name for name, value in wanted.items() if before.get(name) != value}
        for name in given_up:
            held = name in patched or any(name in own for other, own in wants.items() if other != manager)
            assert held or name not in now
        wants[manager] = wanted
        again = server.call("PATCH", f"configmaps/c?fieldManager={manager}", body, APPLY)
        assert again is server.call("GET", "configmaps/c")
        assert again["metadata"]["resourceVersion"] == answer.body["metadata"]["resourceVersion"]  # type: ignore[index]
    assert server.call("GET", "configmaps/c")["data"]["untouched"] == "x"


def test_what_a_manager_gives_up_goes_unless_another_wants_it() -> None:
    server = ApiPlay()
    for manager in ("one", "two"):
        body = cm({"env": {"A": "1", manager: "1"}, "labels": {}, "finalizers": False})
        server.call("PATCH", f"configmaps/c?fieldManager={manager}", body, APPLY)
    nothing = {"kind": "ConfigMap", "apiVersion": "v1"}
    assert server.call("PATCH", "configmaps/c?fieldManager=one", nothing, APPLY)["data"] == {"A": "1", "two": "1"}
    assert "data" not in server.call("PATCH", "configmaps/c?fieldManager=two", nothing, APPLY)
    assert "managedFields" not in server.call("GET", "configmaps/c")["metadata"]


def test_an_object_that_was_there_belongs_to_who_made_it() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    assert "managedFields" not in server.call("GET", "pods/p")["metadata"]
    image = {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "executor", "image": "i:2"}]}}
    code, message = server.refused("PATCH", "pods/p?fieldManager=me", image, APPLY)
    assert (code, message.partition(": ")[2]) == (
        409,
        'conflict with "before-first-apply" using v1: .spec.containers[name="executor"].image',
    )
    changed = server.call("PATCH", "pods/p?fieldManager=me&force=true", image, APPLY)
    assert changed["spec"]["containers"][0]["image"] == "i:2"
    assert changed["spec"]["containers"][0]["env"]
    gone = server.call("PATCH", "pods/p", {"metadata": {"managedFields": [{}]}}, MERGE)
    assert "managedFields" not in gone["metadata"]


def test_a_write_is_known_by_its_agent() -> None:
    server = ApiPlay()
    server.call("PATCH", "configmaps/c?fieldManager=one", cm({"env": {}, "labels": {}, "finalizers": False}), APPLY)
    body = {"data": {"A": "1"}}
    request = HttpRequest("PATCH", f"{HOME}/configmaps/c", (), body, MERGE, agent="kubectl/v1.32 (linux)")
    answer = step(server.state, request, server.now).response
    assert isinstance(answer, ApiResponse)
    assert isinstance(answer.body, dict)
    assert [one["manager"] for one in answer.body["metadata"]["managedFields"]] == ["one", "kubectl"]


def test_a_scale_cannot_be_applied() -> None:
    server = ApiPlay()
    code, message = server.refused(
        "PATCH", "/apis/apps/v1/namespaces/default/replicasets/r/scale?fieldManager=x", {}, APPLY
    )
    assert (code, "does not support" in message) == (400, True)
