"""Whatever is asked of the API server: lists, watches and indexes tell the same story.

- a list at a version and the watch from it make up the list of now, for every selector;
- a request is either refused, and changes nothing, or what it says is there is there;
- the indexes say what a look at every object says, so nothing is left behind when all is gone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from podtide.domain.api_server.messages import ApiResponse
from podtide.domain.api_server.state import ApiConfig, claims_of, owners
from tests.support.api_play import HOME, ApiPlay
from tests.support.api_script import MERGE, pod

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
POLICIES = st.sampled_from([None, "Background", "Foreground", "Orphan"])


class Clients(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = ApiPlay(ApiConfig(history_max=400))
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
