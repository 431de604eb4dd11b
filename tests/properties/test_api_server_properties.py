"""Whatever is asked of the API server: lists, watches and indexes tell the same story.

- a list at a version and the watch from it make up the list of now, for every selector;
- a request is either refused, and changes nothing, or what it says is there is there;
- the indexes say what a look at every object says, so nothing is left behind when all is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podtide.domain.api_server.messages import ApiResponse
from podtide.domain.api_server.state import ApiConfig, claims_of, owners
from tests.support.api_play import HOME, ApiPlay
from tests.support.api_script import JSON_PATCH, MERGE, SCRIPT, STRATEGIC, Ask, pod

NAMES = st.sampled_from(["a", "b", "c", "d"])
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
SELECTORS = (
    "",
    "labelSelector=x",
    "labelSelector=x=1",
    "labelSelector=x!=1",
    "labelSelector=y+in+(1,2)",
    "fieldSelector=spec.nodeName=n",
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
POLICIES = st.sampled_from([None, "Background", "Foreground", "Orphan"])


class Clients(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = ApiPlay(ApiConfig(history_max=400))
        self.server.call(
            "POST", "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3", "cpu": "1k"}}}
        )
        self.seen: dict[int, tuple[str, dict[str, int]]] = {}

    # writers

    def send(self, method: str, path: str, body: Any = None) -> ApiResponse:
        before = self.server.state
        answer = self.server.answer(method, f"{HOME}/{path}", body, MERGE)
        assert isinstance(answer, ApiResponse)
        assert isinstance(answer.body, dict)
        if answer.code >= 400:
            assert self.server.state is before
            assert answer.body["kind"] == "Status"
        elif method in {"POST", "PUT", "PATCH"} and "dryRun" not in path and answer.body["kind"] == "Pod":
            now = self.server.answer("GET", f"{HOME}/pods/{answer.body['metadata']['name']}")
            assert isinstance(now, ApiResponse)
            gone = "deletionTimestamp" in answer.body["metadata"] or "ownerReferences" in answer.body["metadata"]
            assert now.body == answer.body or (gone and now.code == 404) or gone
        return answer

    @rule(
        name=NAMES, labels=LABELS, bound=st.booleans(), owner=st.none() | NAMES, held=st.booleans(), claim=st.booleans()
    )
    def create(
        self, name: str, labels: dict[str, str], bound: bool, owner: str | None, held: bool, claim: bool
    ) -> None:
        metadata: dict[str, Any] = {"labels": labels}
        if held:
            metadata["finalizers"] = ["x.y/z"]
        if owner is not None:
            found = self.send("GET", f"pods/{owner}").body
            assert isinstance(found, dict)
            uid = found["metadata"].get("uid", "nobody")
            reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid, "blockOwnerDeletion": held}
            metadata["ownerReferences"] = [reference]
        more: dict[str, Any] = {"nodeName": "n"} if bound else {}
        if claim:
            more["volumes"] = [{"name": "local", "persistentVolumeClaim": {"claimName": "c"}}]
        self.send("POST", "pods", pod(name, metadata=metadata, **more))

    @rule(name=NAMES, labels=LABELS, stale=st.booleans())
    def relabel(self, name: str, labels: dict[str, str], stale: bool) -> None:
        metadata: dict[str, Any] = {"labels": {"x": None, "y": None} | labels}
        if stale:
            metadata["resourceVersion"] = "1"
        answer = self.send("PATCH", f"pods/{name}", {"metadata": metadata})
        assert answer.code in ({409, 404} if stale else {200, 404})

    @rule(name=NAMES)
    def let_go(self, name: str) -> None:
        self.send("PATCH", f"pods/{name}", {"metadata": {"finalizers": None}})

    @rule(name=NAMES, grace=st.none() | st.integers(0, 40), policy=POLICIES)
    def delete(self, name: str, grace: int | None, policy: str | None) -> None:
        body = {"gracePeriodSeconds": grace, "propagationPolicy": policy}
        self.send("DELETE", f"pods/{name}", {key: value for key, value in body.items() if value is not None})

    @rule(selector=st.sampled_from(SELECTORS))
    def delete_collection(self, selector: str) -> None:
        self.send("DELETE", f"pods?{selector}")

    @rule()
    def claim(self) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        self.send("POST", "persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})

    @rule()
    def drop_claim(self) -> None:
        self.send("DELETE", "persistentvolumeclaims/c")

    @rule(name=NAMES)
    def dry_run(self, name: str) -> None:
        before = self.server.state
        self.send("DELETE", f"pods/{name}?dryRun=All")
        assert self.server.state is before

    # readers

    @precondition(lambda self: len(self.seen) < 6)
    @rule(selector=st.sampled_from(SELECTORS))
    def watch(self, selector: str) -> None:
        listed = self.send("GET", f"pods?{selector}").body
        assert isinstance(listed, dict)
        items = {one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) for one in listed["items"]}
        number = self.server.watch(f"pods?{selector}&resourceVersion={listed['metadata']['resourceVersion']}")
        self.seen[number] = (selector, items)

    @invariant()
    def a_list_and_its_watch_are_the_list_of_now(self) -> None:
        for number, (selector, items) in self.seen.items():
            for kind, name, version in self.server.watched.pop(number, []):
                assert kind in ({"DELETED", "MODIFIED"} if name in items else {"ADDED"})
                if kind == "DELETED":
                    del items[name]
                else:
                    assert version > items.get(name, 0)
                    items[name] = version
            listed = self.send("GET", f"pods?{selector}").body
            assert isinstance(listed, dict)
            now = {one["metadata"]["name"]: int(one["metadata"]["resourceVersion"]) for one in listed["items"]}
            assert now == items

    @invariant()
    def a_quota_is_what_there_is(self) -> None:
        used = self.server.call("GET", "resourcequotas/q")["status"]["used"]
        pods = len(self.server.names("pods"))
        assert pods <= 3
        assert used == {"pods": str(pods), "cpu": str(pods)}

    @invariant()
    def the_indexes_are_those_of_the_objects(self) -> None:
        state = self.server.state
        labels: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
        dependents: dict[str, set[Any]] = defaultdict(set)
        uids = set()
        for (resource, namespace), names in state.tables.objects.items():
            for name, item in names.items():
                uids.add(item["metadata"]["uid"])
                for label in (item["metadata"].get("labels") or {}).items():
                    labels[resource, namespace, *label].add(name)
                for claim in claims_of(item):
                    labels[resource, namespace, "claim of a volume", claim].add(name)
                for owner in owners(item):
                    dependents[owner].add((resource, namespace, name))
        assert {key: set(names) for key, names in state.tables.labels.items()} == labels
        assert {uid: set(keys) for uid, keys in state.dependents.items()} == dependents
        assert set(state.uids) == uids
        # Whoever has an owner has one that is there, or is on the way out itself.
        for uid in dependents.keys() - uids:
            for resource, namespace, name in dependents[uid]:
                assert "deletionTimestamp" in state.tables.objects[resource, namespace][name]["metadata"]


TestClients = Clients.TestCase


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from _places(one, (*path, name))


def _with(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    if not path:
        return leaf
    made = value.copy()
    made[path[0]] = _with(value[path[0]], path[1:], leaf)
    return made


BODIES = [ask for ask in SCRIPT if ask.method in {"POST", "PATCH", "PUT", "DELETE"} and ask.body]
STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1.5, "", "x", [], [None], ["x"], [{}], [[]], {}, {"x": None}, {"x": []}, {"name": 1}]
)


@settings(max_examples=400)
@given(st.sampled_from(BODIES), st.data(), STRANGE)
def test_a_strange_value_anywhere_in_a_body_is_stored_or_refused_with_a_status(
    ask: Ask, data: st.DataObject, strange: Any
) -> None:
    path = data.draw(st.sampled_from(list(_places(ask.body))))
    server = ApiPlay()
    for setup in SCRIPT[:2]:
        server.put(setup)
    answer = server.put(ask._replace(body=_with(ask.body, path, strange)))
    assert answer.code < 300 or answer.body["kind"] == "Status"
    for plural in ("pods", "services", "configmaps", "events", "persistentvolumeclaims"):
        for accept in ("", TABLE):
            shown = server.answer("GET", f"/api/v1/{plural}", accept=accept)
            assert isinstance(shown, ApiResponse)
            assert shown.code == 200


NAMED = st.sampled_from(
    ["name", "containers", "labels", "metadata", "spec", "finalizers", "conditions", "env", "$patch"]
)
DIRECTIVES = st.sampled_from(["$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"])
PATCHES = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["replace", "delete", "merge", "executor", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMED | DIRECTIVES, inner, max_size=3),
    max_leaves=8,
)
POINTERS = st.sampled_from(
    ["", "/", "/metadata/labels", "/metadata/labels/app", "/spec/containers/0/env/-", "/spec/x/y", 7]
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", 1])},
    optional={"path": POINTERS, "from": POINTERS, "value": PATCHES},
)


@settings(max_examples=400)
@given(st.sampled_from(["", "/status"]), PATCHES, st.lists(OPERATIONS, max_size=3), st.sampled_from([MERGE, STRATEGIC]))
def test_any_patch_is_made_or_refused_with_a_status(place: str, patch: Any, operations: list[Any], media: str) -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("p"))
    bodies = [(patch, media), ({"metadata": patch}, media), ({"spec": patch}, media), ({"status": patch}, media)]
    for body, kind in [*bodies, (operations, JSON_PATCH), (patch, JSON_PATCH)]:
        answer = server.put(Ask("patch", "PATCH", f"{HOME}/pods/p{place}", body, kind))
        assert answer.body["kind"] == ("Pod" if answer.code == 200 else "Status")
        assert server.put(Ask("get", "GET", f"{HOME}/pods/p")).body["spec"]["containers"]
