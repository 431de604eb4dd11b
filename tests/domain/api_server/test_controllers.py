"""ReplicaSets, StatefulSets and Deployments: which pods they make and delete, and what they say of them.

That a real cluster's controllers come to the same is tested in tests/live, by one script for both.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from podtide.domain.api_server.server import due
from podtide.domain.base.units import NEVER
from tests.support.api_play import ApiPlay
from tests.support.api_script import MERGE, pod, pod_set, stateful_set

APPS = "/apis/apps/v1/namespaces/default"
COST = "controller.kubernetes.io/pod-deletion-cost"


def made(plural: str, name: str, **more: Any) -> ApiPlay:
    server = ApiPlay()
    maker = stateful_set if plural == "statefulsets" else pod_set
    server.call("POST", f"{APPS}/{plural}", maker(name, **more))
    return server


def scale(server: ApiPlay, what: str, replicas: int) -> None:
    server.call("PATCH", f"{APPS}/{what}/scale", {"spec": {"replicas": replicas}}, MERGE)


def run(
    server: ApiPlay, name: str, *, ready: bool = True, node: str = "n", since: str = "", phase: str = "Running"
) -> None:
    if node:
        server.call("POST", f"pods/{name}/binding", {"metadata": {"name": name}, "target": {"name": node}})
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since or None}
    server.call("PATCH", f"pods/{name}/status", {"status": {"phase": phase, "conditions": [condition]}}, MERGE)


def test_spark_scales_a_deployment_down_by_deletion_cost() -> None:
    server = made("deployments", "d", replicas=4)
    pods = server.names("pods")
    for name in pods:
        run(server, name)
    for name, cost in zip(pods, ("5", "-7", "no number", "-8"), strict=True):
        server.call("PATCH", f"pods/{name}", {"metadata": {"annotations": {COST: cost}}}, MERGE)
    scale(server, "deployments/d", 2)
    going = [
        one["metadata"]["name"] for one in server.call("GET", "pods")["items"] if "deletionTimestamp" in one["metadata"]
    ]
    assert going == [pods[1], pods[3]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"node": ""}, {"phase": "Pending", "ready": False}),
        ({"phase": "Pending", "ready": False}, {"ready": False}),
        ({"ready": False}, {}),
        ({"since": "2025-11-13T02:00:09Z"}, {"since": "2025-11-13T02:00:08Z"}),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_pod_that_is_worth_least_goes_first(first: dict[str, Any], second: dict[str, Any], swapped: bool) -> None:
    server = made("replicasets", "r")
    pods = server.names("pods")[:: -1 if swapped else 1]
    for name, state in zip(pods, (first, second), strict=True):
        run(server, name, **state)
    scale(server, "replicasets/r", 1)
    kept = [
        one["metadata"]["name"]
        for one in server.call("GET", "pods")["items"]
        if "deletionTimestamp" not in one["metadata"]
    ]
    assert kept == [pods[1]]


def test_a_pod_on_a_crowded_node_goes_before_one_that_is_alone() -> None:
    server = made("replicasets", "r", replicas=3)
    pods = server.names("pods")
    for name, node in zip(pods, ("alone", "crowd", "crowd"), strict=True):
        run(server, name, node=node)
    scale(server, "replicasets/r", 2)
    assert "deletionTimestamp" not in server.call("GET", f"pods/{pods[0]}")["metadata"]


def test_what_a_quota_refuses_is_said_and_tried_again() -> None:
    server = ApiPlay()
    server.call("POST", "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}})
    for plural, maker in (("replicasets", pod_set), ("statefulsets", stateful_set)):
        server.call("POST", f"{APPS}/{plural}", maker(plural[0], replicas=2))
    assert len(server.names("pods")) == 2
    assert server.call("GET", f"{APPS}/statefulsets/s")["status"]["replicas"] == 0
    told = server.call("GET", "events")["items"]
    assert [one["involvedObject"]["kind"] for one in told] == ["StatefulSet"]
    assert "exceeded quota: q" in told[0]["message"]
    for _ in range(3):
        server.tick(1_000)
    assert len(server.call("GET", "events")["items"]) == 1
    server.call("DELETE", f"{APPS}/replicasets/r")
    assert due(server.state) == server.now + 1_000
    server.tick(1_000)
    assert server.names("pods") == ["s-0", "s-1"]
    assert due(server.state) == NEVER


def test_pods_are_adopted_and_released_by_their_labels() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("early", metadata={"labels": {"set": "r"}}))
    server.call("POST", f"{APPS}/replicasets", pod_set("r"))
    assert server.call("GET", "pods/early")["metadata"]["ownerReferences"][0]["name"] == "r"
    assert len(server.names("pods")) == 2
    server.call("PATCH", "pods/early", {"metadata": {"labels": {"set": "x"}}}, MERGE)
    assert "ownerReferences" not in server.call("GET", "pods/early")["metadata"]
    assert len(server.names("pods?labelSelector=set=r")) == 2
    server.call("PATCH", "pods/early", {"metadata": {"labels": {"set": "r"}}}, MERGE)
    # Three are too many: one that just came back is not worth less than the others, but one of them went.
    assert len(server.names("pods?labelSelector=set=r")) == 2


def test_a_name_that_is_taken_is_waited_for() -> None:
    server = ApiPlay()
    server.call("POST", "pods", pod("s-0"))
    server.call("POST", f"{APPS}/statefulsets", stateful_set("s", replicas=1))
    assert "already exists" in server.call("GET", "events")["items"][0]["message"]
    server.call("DELETE", "pods/s-0")
    server.tick(1_000)
    assert server.call("GET", "pods/s-0")["metadata"]["ownerReferences"][0]["name"] == "s"


def test_orphans_of_a_deployment_are_taken_up_by_the_next_one() -> None:
    server = made("deployments", "d")
    pods = server.names("pods")
    server.call("DELETE", f"{APPS}/deployments/d", {"propagationPolicy": "Orphan"})
    assert server.names("pods") == pods
    server.call("POST", f"{APPS}/deployments", pod_set("d"))
    assert server.names("pods") == pods
    server.call("DELETE", f"{APPS}/deployments/d")
    assert server.names("pods") == server.names(f"{APPS}/replicasets") == []


@pytest.mark.parametrize(
    ("plural", "more"),
    [
        ("statefulsets", {"podManagementPolicy": "OrderedReady"}),
        ("statefulsets", {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}),
        ("statefulsets", {"ordinals": {"start": 3}}),
        ("deployments", {"paused": True}),
        ("deployments", {"minReadySeconds": 3}),
        ("replicasets", {"strategy": {}}),
    ],
)
def test_what_no_controller_here_does_is_refused(plural: str, more: dict[str, Any]) -> None:
    body = (stateful_set if plural == "statefulsets" else pod_set)("x", **more)
    code, message = ApiPlay().refused("POST", f"{APPS}/{plural}", body)
    assert code == 400
    assert "podtide's API server does not support" in message


def test_a_roll_out_is_refused() -> None:
    server = made("deployments", "d")
    template = {"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}}
    assert "another template" in server.refused("PATCH", f"{APPS}/deployments/d", template)[1]


class Sets(RuleBasedStateMachine):
    """Whatever happens to pods, a set comes to its replicas, and its status is what a look at its pods says."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ApiPlay()
        self.wanted = {"replicasets/r": 2, "statefulsets/s": 2, "deployments/d": 2}
        for what in self.wanted:
            plural, name = what.split("/")
            maker = stateful_set if plural == "statefulsets" else pod_set
            self.server.call("POST", f"{APPS}/{plural}", maker(name))

    def some(self, place: int) -> str | None:
        names = self.server.names("pods")
        return names[place % len(names)] if names else None

    @rule(what=st.sampled_from(["replicasets/r", "statefulsets/s", "deployments/d"]), replicas=st.integers(0, 5))
    def scale(self, what: str, replicas: int) -> None:
        scale(self.server, what, replicas)
        self.wanted[what] = replicas

    @rule(place=st.integers(0, 20), phase=st.sampled_from(["Pending", "Running", "Failed"]), ready=st.booleans())
    def moves(self, place: int, phase: str, ready: bool) -> None:
        name = self.some(place)
        if name is not None:
            bound = "nodeName" in self.server.call("GET", f"pods/{name}")["spec"]
            deleting = "deletionTimestamp" in self.server.call("GET", f"pods/{name}")["metadata"]
            run(self.server, name, node="" if bound or deleting else "n", phase=phase, ready=ready)

    @rule(place=st.integers(0, 20), grace=st.sampled_from(["", "?gracePeriodSeconds=0"]))
    def delete(self, place: int, grace: str) -> None:
        name = self.some(place)
        if name is not None:
            self.server.call("DELETE", f"pods/{name}{grace}")

    @rule(place=st.integers(0, 20), owner=st.sampled_from(["r", "s", "x"]))
    def relabel(self, place: int, owner: str) -> None:
        name = self.some(place)
        if name is not None:
            self.server.call("PATCH", f"pods/{name}", {"metadata": {"labels": {"set": owner}}}, MERGE)

    @rule(name=st.sampled_from(["o", "s-1", "s-3"]), owner=st.sampled_from(["r", "s"]))
    def orphan(self, name: str, owner: str) -> None:
        self.server.answer("POST", "/api/v1/namespaces/default/pods", pod(name, metadata={"labels": {"set": owner}}))

    @invariant()
    def sets_have_what_they_want_and_say_so(self) -> None:
        # What could not be made because a name was taken is made when it is free.
        self.server.tick(1_000)
        items = self.server.call("GET", "pods")["items"]
        for what, wanted in self.wanted.items():
            item = self.server.call("GET", f"{APPS}/{what}")
            if item["kind"] == "Deployment":
                child = self.server.call(
                    "GET", f"{APPS}/replicasets/{self.server.state.sets[item['metadata']['uid']].child}"
                )
                assert child["spec"]["replicas"] == wanted
                assert item["status"].get("replicas", 0) == child["status"]["replicas"]
                item = child
            uid = item["metadata"]["uid"]
            own = [one for one in items if any(o["uid"] == uid for o in one["metadata"].get("ownerReferences", ()))]
            assert all(one["metadata"]["labels"]["set"] == item["metadata"]["name"][0] for one in own if alive(one))
            active = [one for one in own if alive(one) and one["status"]["phase"] not in {"Failed", "Succeeded"}]
            if item["kind"] == "StatefulSet":
                assert item["status"]["replicas"] == len(own)
                assert all(int(one["metadata"]["name"][2:]) < wanted for one in active)
                there = {one["metadata"]["name"] for one in items}
                assert {f"s-{number}" for number in range(wanted)} <= there
                active = [one for one in own if one["status"]["phase"] == "Running"]
            else:
                assert len(active) == wanted == item["status"]["replicas"]
            ready = [one for one in active if one["status"].get("conditions", [{}])[0].get("status") == "True"]
            assert item["status"].get("readyReplicas", 0) == len(ready)


def alive(one: Any) -> bool:
    return "deletionTimestamp" not in one["metadata"]


TestSets = pytest.mark.uncounted(Sets.TestCase)


def test_a_stateful_set_mounts_the_claims_of_its_pods() -> None:
    made = stateful_set("s", replicas=1)
    made["spec"]["volumeClaimTemplates"] = [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    ]
    made["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    server = ApiPlay()
    server.call("POST", f"{APPS}/statefulsets", made)
    (pod_made,) = server.call("GET", "pods")["items"]
    assert [volume["name"] for volume in pod_made["spec"]["volumes"]] == ["data"]
