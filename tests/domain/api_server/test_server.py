"""The API server by its requests. That its answers are the real server's is tested in tests/live, by one script for both."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import jsonschema
import pytest

from podtide.domain.api_server.messages import ApiResponse, LogRequest
from podtide.domain.api_server.server import due
from podtide.domain.api_server.state import ApiConfig
from tests.support.api_play import HOME, NOW, ApiPlay
from tests.support.api_script import JSON_PATCH, STRATEGIC, config_map, play, pod

ALL = "/api/v1/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def cm(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name} | metadata}


def owner(item: Any, **more: Any) -> dict[str, Any]:
    metadata = item["metadata"]
    return {"apiVersion": "v1", "kind": item["kind"], "name": metadata["name"], "uid": metadata["uid"]} | more


def test_the_same_requests_give_the_same_answers_and_never_change_what_was_given() -> None:
    script = [(ask, copy.deepcopy(ask), answer) for ask, answer in play(ApiPlay().put)]
    assert [answer for _, _, answer in script] == [answer for _, answer in play(ApiPlay().put)]
    assert all(ask == before for ask, before, _ in script)
    assert all(json.dumps(answer.body) for _, _, answer in script)


def test_what_is_stored_cannot_be_changed_by_who_reads_it_or_sent_it() -> None:
    server, body = ApiPlay(), pod("p")
    stored = server.call("POST", "pods", body)
    body["spec"]["containers"][0]["image"] = "other"
    assert server.call("GET", "pods/p") is stored
    with pytest.raises(TypeError):
        stored["spec"]["restartPolicy"] = "Always"
    assert pickle.loads(pickle.dumps(stored)) == stored == copy.deepcopy(stored)


def test_an_old_state_answers_as_before() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    then = server.state
    server.call("DELETE", "pods/p")
    server.state = then
    assert server.names("pods") == ["p"]


# watches


def test_a_watch_without_a_version_begins_with_what_is_there() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    watch = server.watch("pods")
    server.call("PATCH", "pods/p", {"metadata": {"labels": {"a": "b"}}})
    server.call("DELETE", "pods/p")
    kinds = [kind for kind, _, _ in server.watched[watch]]
    assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    versions = [version for _, _, version in server.watched[watch]]
    assert versions == sorted(set(versions))


def test_an_object_that_leaves_or_enters_a_selector_is_deleted_or_added() -> None:
    server = ApiPlay()
    active = server.watch("pods?labelSelector=inactive!=true")
    running = server.watch("/api/v1/pods?fieldSelector=status.phase=Running")
    server.call("POST", "pods", pod("p"))
    server.call("PATCH", "pods/p/status", {"status": {"phase": "Running"}})
    server.call("PATCH", "pods/p", {"metadata": {"labels": {"inactive": "true"}}})
    server.call("PATCH", "pods/p/status", {"status": {"phase": "Succeeded"}})
    assert [kind for kind, _, _ in server.watched[active]] == ["ADDED", "MODIFIED", "DELETED"]
    assert [kind for kind, _, _ in server.watched[running]] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_watch_hears_of_its_kind_and_namespace_alone() -> None:
    server = ApiPlay()
    here, everywhere = server.watch("pods"), server.watch(ALL)
    server.call("POST", "/api/v1/namespaces/kube-system/pods", pod("q"))
    server.call("POST", "configmaps", cm("c"))
    assert server.watched[here] == []
    assert [name for _, name, _ in server.watched[everywhere]] == ["q"]


def test_a_watch_from_a_version_replays_what_came_after_it_and_410_beyond_the_history() -> None:
    server = ApiPlay(ApiConfig(history_max=5))
    version = server.call("GET", "configmaps")["metadata"]["resourceVersion"]
    for number in range(5):
        server.call("POST", "configmaps", cm(f"c{number}"))
    watch = server.watch(f"configmaps?resourceVersion={version}")
    assert [name for _, name, _ in server.watched[watch]] == ["c0", "c1", "c2", "c3", "c4"]
    server.call("POST", "configmaps", cm("c5"))
    late = server.watch(f"configmaps?resourceVersion={version}")
    assert [(kind, name) for kind, name, _ in server.watched[late]] == [("ERROR", "410"), ("OVER", "")]
    answer = server.refused("GET", f"configmaps?resourceVersion={version}&resourceVersionMatch=Exact")
    assert answer[0] == 410
    assert "too old resource version" in answer[1]
    server.call("POST", "configmaps", cm("c6"))
    assert server.watched[late][-1][0] == "OVER"


def test_bookmarks_come_when_asked_for_and_a_watch_ends_at_its_time() -> None:
    server = ApiPlay(ApiConfig(bookmark_every_ms=60_000))
    silent = server.watch("pods?timeoutSeconds=90")
    marked = server.watch("pods?allowWatchBookmarks=true&timeoutSeconds=90")
    assert due(server.state) == NOW + 60_000
    server.call("POST", "configmaps", cm("c"))
    server.tick(60_000)
    assert [(kind, version) for kind, _, version in server.watched[marked]] == [("BOOKMARK", server.state.revision)]
    assert due(server.state) == NOW + 90_000
    server.tick(30_000)
    assert [kind for kind, _, _ in server.watched[silent]] == ["OVER"]
    assert [kind for kind, _, _ in server.watched[marked]] == ["BOOKMARK", "BOOKMARK", "OVER"]
    assert not server.state.watches
    assert not server.state.watching


def test_a_client_that_hangs_up_is_told_nothing_more() -> None:
    server = ApiPlay()
    watch = server.watch("pods")
    server.hang_up(watch)
    server.hang_up(watch)
    server.call("POST", "pods", pod("p"))
    assert server.watched[watch] == []


# lists


def test_pages_show_the_version_of_the_first_one_and_410_brings_a_fresh_token() -> None:
    server = ApiPlay(ApiConfig(history_max=20))
    for number in range(5):
        server.call("POST", "configmaps", cm(f"c{number}"))
    first = server.call("GET", "configmaps?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    server.call("DELETE", "configmaps/c3")
    token = first["metadata"]["continue"]
    second = server.call("GET", f"configmaps?limit=2&continue={token}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c2", "c3"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    for number in range(20):
        server.call("POST", "secrets", cm(f"s{number}"))
    late = server.answer("GET", f"{HOME}/configmaps?limit=2&continue={token}")
    assert isinstance(late, ApiResponse)
    assert late.code == 410
    assert isinstance(late.body, dict)
    fresh = late.body["metadata"]["continue"]
    assert server.names(f"configmaps?continue={fresh}") == ["c2", "c4"]


def test_a_list_of_all_namespaces_goes_on_where_it_stopped() -> None:
    server = ApiPlay()
    for namespace in ("a", "a-b"):
        server.call("POST", "/api/v1/namespaces", cm(namespace))
        for name in ("x", "y"):
            server.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod(name))
    found, token = [], ""
    for _ in range(3):
        page = server.call("GET", f"{ALL}?limit=3&continue={token}")
        found += [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    # etcd's order: "a-b/" stands before "a/".
    assert found == [("a-b", "x"), ("a-b", "y"), ("a", "x"), ("a", "y")]


# what is refused


@pytest.mark.parametrize(
    ("method", "path", "body", "what"),
    [
        ("GET", "pods?sendInitialEvents=true&watch=1", None, "sendInitialEvents"),
        ("GET", "pods?foo=bar", None, "foo"),
        ("POST", "configmaps?fieldValidation=Strict", config_map("c") | {"dat": {}}, '"dat"'),
        ("POST", "configmaps", config_map("c") | {"dat": {}}, '"dat"'),
        ("POST", "configmaps", cm("c", lables={}), '"metadata.lables"'),
        ("POST", "pods", pod("p", restartpolicy="Never"), '"spec.restartpolicy"'),
        ("POST", "pods", pod("p", containers=[{"name": "c", "image": "i", "comand": []}]), "comand"),
        ("DELETE", "pods/p", {"grace": 1}, "grace"),
        ("DELETE", "pods?limit=5", None, "pages"),
    ],
)
def test_what_would_be_ignored_is_refused(method: str, path: str, body: Any, what: str) -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    code, message = server.refused(method, path, body)
    assert code == 400
    assert "does not support" in message
    assert what in message


@pytest.mark.parametrize(
    "query", ["gracePeriodSeconds=--5", "gracePeriodSeconds=²", "dryRun=Some", "propagationPolicy=x"]
)
def test_a_query_that_cannot_be_read_is_refused(query: str) -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    assert server.refused("DELETE", f"pods/p?{query}")[0] in {400, 422}


@pytest.mark.parametrize(
    "body", [None, [], "x", {"metadata": []}, {"metadata": {"name": 1}}, {"metadata": {"labels": {"a": 1}}}]
)
def test_what_is_no_object_is_refused(body: Any) -> None:
    assert ApiPlay().refused("POST", "configmaps", body)[0] == 400


# patches


def test_strategic_merge_knows_keys_orders_sets_and_directives() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p", metadata={"finalizers": ["a/1", "a/2"]}))
    patch = {
        "metadata": {
            "finalizers": ["a/3"],
            "$deleteFromPrimitiveList/finalizers": ["a/1"],
            "labels": {"$patch": "replace", "only": "this"},
        },
        "spec": {"containers": [{"name": "executor", "image": "new:1"}]},
    }
    item = server.call("PATCH", "pods/p", patch, STRATEGIC)
    assert item["metadata"]["finalizers"] == ("a/3", "a/2")
    assert item["metadata"]["labels"] == {"only": "this"}
    assert item["spec"]["containers"][0]["image"] == "new:1"
    assert item["spec"]["containers"][0]["args"] == ("executor",)
    conditions = [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]
    server.call("PATCH", "pods/p/status", {"status": {"conditions": conditions}}, STRATEGIC)
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "B"}, {"type": "A"}],
            "conditions": [{"type": "A", "status": "False"}],
        }
    }
    item = server.call("PATCH", "pods/p/status", patch, STRATEGIC)
    assert item["status"]["conditions"] == ({"type": "B", "status": "True"}, {"type": "A", "status": "False"})


def test_json_patch_moves_copies_and_counts_from_the_end() -> None:
    server = ApiPlay()
    server.call(
        "POST", "configmaps", config_map("c", a="1") | {"metadata": {"name": "c", "finalizers": ["x/1", "x/3"]}}
    )
    operations = [
        {"op": "move", "from": "/data/a", "path": "/data/b"},
        {"op": "copy", "from": "/data/b", "path": "/data/c"},
        {"op": "add", "path": "/metadata/finalizers/1", "value": "x/2"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "x/4"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    item = server.call("PATCH", "configmaps/c", operations, JSON_PATCH)
    assert item["data"] == {"b": "1", "c": "1"}
    assert item["metadata"]["finalizers"] == ("x/2", "x/3", "x/4")
    for operation in (
        {"op": "nope", "path": "/a"},
        {"op": "add", "path": "a"},
        {"op": "add", "path": "/metadata/finalizers/9"},
    ):
        assert server.refused("PATCH", "configmaps/c", [operation | {"value": "v"}], JSON_PATCH)[0] == 422


# owners, claims, namespaces


def test_dependents_go_with_their_last_owner_and_lose_one_that_is_gone() -> None:
    server = ApiPlay()
    one, two = (server.call("POST", "configmaps", cm(name)) for name in ("o1", "o2"))
    server.call("POST", "configmaps", cm("d", ownerReferences=[owner(one), owner(two)]))
    grandchild = server.call("GET", "configmaps/d")
    server.call("POST", "secrets", cm("dd", ownerReferences=[owner(grandchild)]))
    server.call("DELETE", "configmaps/o1")
    assert [one["name"] for one in server.call("GET", "configmaps/d")["metadata"]["ownerReferences"]] == ["o2"]
    server.call("DELETE", "configmaps/o2")
    assert server.names("configmaps") == []
    assert server.names("secrets") == []
    assert not server.state.dependents


def test_an_object_whose_owner_never_was_or_lives_elsewhere_goes() -> None:
    server = ApiPlay()
    elsewhere = server.call("POST", "/api/v1/namespaces/kube-system/configmaps", cm("o"))
    watch = server.watch("configmaps")
    server.call("POST", "configmaps", cm("d1", ownerReferences=[owner(elsewhere)]))
    server.call("POST", "configmaps", cm("d2", ownerReferences=[owner(elsewhere) | {"uid": "nobody"}]))
    assert [kind for kind, _, _ in server.watched[watch]] == ["ADDED", "DELETED"] * 2


def test_the_foreground_waits_for_blocking_dependents_that_a_kubelet_holds() -> None:
    server = ApiPlay()
    driver = server.call("POST", "configmaps", cm("driver"))
    references = [owner(driver, blockOwnerDeletion=True)]
    server.call("POST", "pods", pod("p", nodeName="n1", metadata={"ownerReferences": references}))
    server.call("DELETE", "configmaps/driver", {"propagationPolicy": "Foreground"})
    assert server.call("GET", "configmaps/driver")["metadata"]["finalizers"] == ("foregroundDeletion",)
    assert "deletionTimestamp" in server.call("GET", "pods/p")["metadata"]
    server.call("DELETE", "pods/p", {"gracePeriodSeconds": 0})
    assert server.names("configmaps") == []


def test_orphans_stay_without_their_owner() -> None:
    server = ApiPlay()
    driver = server.call("POST", "configmaps", cm("driver"))
    server.call("POST", "pods", pod("p", metadata={"ownerReferences": [owner(driver)]}))
    server.call("DELETE", "configmaps/driver?propagationPolicy=Orphan")
    assert server.names("configmaps") == []
    assert "ownerReferences" not in server.call("GET", "pods/p")["metadata"]


def test_a_claim_in_use_goes_after_its_last_pod() -> None:
    server = ApiPlay()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    server.call("POST", "persistentvolumeclaims", cm("c") | {"spec": spec})
    volumes = [{"name": "local", "persistentVolumeClaim": {"claimName": "c"}}]
    server.call("POST", "pods", pod("p", volumes=volumes))
    server.call("DELETE", "persistentvolumeclaims/c")
    assert server.names("persistentvolumeclaims") == ["c"]
    server.call("DELETE", "pods/p")
    assert server.names("persistentvolumeclaims") == []


def test_a_namespace_goes_when_its_last_pod_has_gone() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p", nodeName="n1"))
    server.call("POST", "pods", pod("q"))
    server.call("DELETE", "/api/v1/namespaces/default")
    assert server.names("pods") == ["p"]
    server.call("DELETE", "pods/p?gracePeriodSeconds=0")
    assert server.refused("GET", "/api/v1/namespaces/default")[0] == 404


def test_a_refused_collection_delete_changes_nothing() -> None:
    server = ApiPlay()
    for name in ("p", "q"):
        server.call("POST", "pods", pod(name))
    uid = server.call("GET", "pods/p")["metadata"]["uid"]
    assert server.refused("DELETE", "pods", {"preconditions": {"uid": uid}})[0] == 409
    assert server.names("pods") == ["p", "q"]
    server.call("DELETE", "pods?labelSelector=app=spark")
    assert server.names("pods") == []


@pytest.mark.parametrize(
    "spec", [{"scopes": ["Terminating"]}, {"hard": {"requests.nvidia.com/gpu": "1"}}, {"hard": {"pods": "x"}}]
)
def test_a_quota_that_nobody_would_enforce_is_refused(spec: Any) -> None:
    assert ApiPlay().refused("POST", "resourcequotas", cm("q") | {"spec": spec})[0] == 400


def test_a_quota_counts_what_is_there_when_it_comes_and_when_its_bounds_change() -> None:
    server = ApiPlay()
    for name in ("p", "q"):
        server.call("POST", "pods", pod(name))
    server.call("POST", "resourcequotas", cm("bound") | {"spec": {"hard": {"count/pods": "9"}}})
    server.call("PATCH", "pods/p/status", {"status": {"phase": "Failed"}})
    watch = server.watch("resourcequotas")
    server.call("PATCH", "resourcequotas/bound", {"spec": {"hard": {"pods": "2", "limits.memory": "9Gi"}}})
    used = server.call("GET", "resourcequotas/bound")["status"]["used"]
    assert used == {"count/pods": "2", "pods": "1", "limits.memory": "1408Mi"}
    server.call("DELETE", "pods")
    assert [kind for kind, _, _ in server.watched[watch]] == ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED"]
    assert server.call("GET", "resourcequotas/bound")["status"]["used"] == dict.fromkeys(used, "0")


# what clients ask besides


def test_discovery_names_what_is_served_and_its_verbs_work() -> None:
    server = ApiPlay()
    groups = [one["preferredVersion"]["groupVersion"] for one in server.call("GET", "/apis")["groups"]]
    for base in ["/api/v1", *(f"/apis/{group}" for group in groups)]:
        for row in server.call("GET", base)["resources"]:
            if "/" not in row["name"]:
                assert server.call("GET", f"{base}/{row['name']}")["kind"] == f"{row['kind']}List"
    assert server.call("GET", "/version")["gitVersion"].startswith("v1.32")
    assert server.call("GET", "/readyz") == "ok"
    assert server.refused("GET", "/apis/batch/v1/jobs")[0] == 404
    assert server.refused("GET", "/openapi/v2")[0] == 404


def test_what_is_stored_fits_the_schemas_that_clients_are_shown() -> None:
    """Everything that the script makes; and what a schema leaves no room for is what the server refuses."""
    server = ApiPlay()
    paths = server.call("GET", "/openapi/v3")["paths"]
    documents = [server.call("GET", paths[place]["serverRelativeURL"]) for place in paths]
    schemas: dict[tuple[str, str], jsonschema.Draft202012Validator] = {}
    for document in documents:
        for path, item in document["paths"].items():
            names = {row["name"] for row in item.get("patch", {}).get("parameters", ())}
            assert names >= {"fieldValidation"} or not path.endswith("{name}")  # kubectl looks for it there
        for schema in json.loads(json.dumps(document["components"]["schemas"])).values():
            (kind,) = schema["x-kubernetes-group-version-kind"]
            schemas["/".join(filter(None, (kind["group"], kind["version"]))), kind["kind"]] = (
                jsonschema.Draft202012Validator(_closed(schema))
            )
    rows = [row for place in paths for row in server.call("GET", f"/{place}")["resources"] if "/" not in row["name"]]
    assert sorted(row["kind"] for row in rows) == sorted(kind for _, kind in schemas)
    seen = set()
    for _, answer in play(ApiPlay().put):
        body = json.loads(json.dumps(answer.body))
        name = (body.get("apiVersion", ""), body.get("kind", "")) if isinstance(body, dict) else ("", "")
        if name in schemas:
            schemas[name].validate(body)
            seen.add(name[1])
            if name[1] == "Pod":
                body["spec"]["containers"][0]["comand"] = []
                assert not schemas[name].is_valid(body)
    assert {"Pod", "ConfigMap", "Service", "Deployment", "StatefulSet", "ResourceQuota", "Lease"} <= seen


def _closed(schema: Any) -> Any:
    """A schema in which what is not open has no other fields than those that it names."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _closed(one) for name, one in schema.items()}
    if "properties" in made and not made.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    return made


def test_a_table_holds_of_its_objects_what_was_asked_for() -> None:
    """``kubectl get --sort-by`` wants them whole."""
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    held = []
    for include in ("", "None", "Metadata", "Object"):
        answer = server.answer("GET", f"{HOME}/pods?includeObject={include}", accept=TABLE)
        assert isinstance(answer, ApiResponse)
        assert isinstance(answer.body, dict)
        held.append(set(answer.body["rows"][0].get("object", ())))
    partial = {"apiVersion", "kind", "metadata"}
    assert held == [partial, set(), partial, partial | {"spec", "status"}]
    answer = server.answer("GET", f"{HOME}/pods?includeObject=All", accept=TABLE)
    assert isinstance(answer, ApiResponse)
    assert answer.code == 400


def test_a_table_has_a_row_per_object_with_a_cell_per_column() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    server.call("POST", "services", cm("s") | {"spec": {"ports": [{"port": 1}]}})
    server.now += 200_000
    for plural, cells in (("pods", ("p", "0/1", "Pending", "0", "3m20s")), ("services", ("s", "ClusterIP"))):
        answer = server.answer("GET", f"{HOME}/{plural}", accept=TABLE)
        assert isinstance(answer, ApiResponse)
        assert isinstance(answer.body, dict)
        (row,) = answer.body["rows"]
        assert len(row["cells"]) == len(answer.body["columnDefinitions"])
        assert row["cells"][: len(cells)] == cells
        ages = [c for c, d in zip(row["cells"], answer.body["columnDefinitions"], strict=True) if d["name"] == "Age"]
        assert ages == ["3m20s"]


def test_logs_are_the_kubelets_to_tell() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    assert server.answer("GET", f"{HOME}/pods/p/log") == ApiResponse(200, "")
    assert server.refused("GET", "pods/p/log?container=other")[0] == 400
    server.call("POST", "pods/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n1"}})
    answer = server.answer("GET", f"{HOME}/pods/p/log?tailLines=5")
    assert answer == LogRequest("n1", "default", "p", "executor", (("tailLines", "5"),))


def test_names_are_drawn_for_who_gives_a_prefix() -> None:
    server = ApiPlay()
    names = {
        server.call("POST", "pods", pod("", metadata={"generateName": "x-"}))["metadata"]["name"] for _ in range(50)
    }
    assert len(names) == 50
    assert all(name.startswith("x-") and len(name) == 7 for name in names)


def test_a_node_selector_is_made_of_labels() -> None:
    body = pod("p")
    body["spec"]["nodeSelector"] = {"bad": "no label, this"}
    code, message = ApiPlay().refused("POST", "pods", body)
    assert code == 422
    assert 'spec.nodeSelector: Invalid value: "no label, this"' in message
