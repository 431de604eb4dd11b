"""One script of requests for two API servers: the value in the domain and a real kube-apiserver.

``SCRIPT`` is data: a name, a request, and what of the answer is compared. ``${name.path}`` in a request stands for what an
earlier answer of the same server held there. ``seen`` reduces an answer to what clients read: code, reason, message, details
and the object without what every server draws for itself. The domain's tests hold the reduced answers to rules; tests/live
holds both servers to one another, with each difference and its reason in ``DIFFERENCES``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
NS: Final = "podtide-script"
HOME: Final = f"/api/v1/namespaces/{NS}"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases"
SETS: Final = f"/apis/apps/v1/namespaces/{NS}"
POLICIES: Final = f"/apis/networking.k8s.io/v1/namespaces/{NS}/networkpolicies"

DRAWN: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"}
)
"""Metadata that no two servers have alike."""

DIFFERENCES: Final[dict[str, str]] = {
    "apply: no key": "1.20 lets an element without its key pass, and refuses the pod for its missing name (422, not 500)",
}
"""Answers that differ from the real server's (1.20), by the name of the request, and why."""


class Ask(NamedTuple):
    """One request of the script."""

    name: str
    method: str
    path: str
    body: Any = None
    media: str = "application/json"


class Told(NamedTuple):
    """An answer, decoded."""

    code: int
    body: Any


def pod(name: str, **more: Any) -> dict[str, Any]:
    """A small executor pod."""
    metadata = {"name": name, "labels": {"app": "spark", "role": "executor"}} | more.pop("metadata", {})
    container = {
        "name": "executor",
        "image": "spark:4.3.0",
        "args": ["executor"],
        "ports": [{"containerPort": 7079, "name": "blockmanager"}],
        "env": [{"name": "SPARK_EXECUTOR_CORES", "value": "1"}, {"name": "SPARK_USER", "value": "spark"}],
        "resources": {"limits": {"memory": "1408Mi"}, "requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "local", "mountPath": "/tmp/spark"}],
    }
    spec = {"containers": [container], "restartPolicy": "Never", "volumes": [{"name": "local", "emptyDir": {}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | more}


def owned(name: str, owner: str, **more: Any) -> dict[str, Any]:
    """A config map with an owner of the script."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": f"${{{owner}.metadata.uid}}"} | more
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A config map."""
    return {"metadata": {"name": name}, "data": data}


def pod_set(name: str, **more: Any) -> dict[str, Any]:
    """A ReplicaSet, StatefulSet or Deployment of two small pods."""
    template = {
        "metadata": {"labels": {"set": name}},
        "spec": {"containers": [{"name": "executor", "image": "spark:4.3.0"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"set": name}}, "template": template}
    return {"metadata": {"name": name}, "spec": spec | more}


def stateful_set(name: str, **more: Any) -> dict[str, Any]:
    """A StatefulSet as Spark's allocator makes it, with a claim for each pod."""
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": size}]}
    return pod_set(name, **{"podManagementPolicy": "Parallel", "serviceName": "svc"} | claims | more)


def _set_script() -> Iterator[Ask]:
    """Sets with their pods. Names are drawn: what is compared of a ReplicaSet's pods is their number, by its status."""
    makers = {"replicasets": pod_set, "deployments": pod_set, "statefulsets": stateful_set}
    bound = {"target": {"kind": "Node", "name": "n1"}}
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for plural, maker in makers.items():
        title = plural.removesuffix("s")
        home, one = f"{SETS}/{plural}", f"{SETS}/{plural}/{plural[0]}"
        bad: dict[str, dict[str, Any]] = {
            "no selector": {"selector": None},
            "empty selector": {"selector": {"matchLabels": {}}},
            "other selector": {"selector": {"matchLabels": {"x": "y"}}},
            "negative": {"replicas": -1},
            "restarts": {
                "template": {
                    "metadata": {"labels": {"set": "bad"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]},
                }
            },
        }
        for name, more in bad.items():
            yield Ask(f"{title}: {name}", "POST", home, maker("bad", **more))
        yield Ask(title, "POST", home, maker(plural[0]))
        yield Ask(f"later: {title} made", "GET", one)
        yield Ask(f"{title}: scale", "GET", f"{one}/scale")
        yield Ask(f"{title}: more", "PATCH", f"{one}/scale", {"spec": {"replicas": 4}}, MERGE)
        yield Ask(f"later: {title} is more", "GET", one)
        yield Ask(f"{title}: scale below 0", "PATCH", f"{one}/scale", {"spec": {"replicas": -1}}, MERGE)
        yield Ask(f"{title}: scale of nothing", "GET", f"{home}/nope/scale")
        yield Ask(f"{title}: scale by another name", "PUT", f"{one}/scale", {"metadata": {"name": "x"}})
        other = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": plural[0]}}
        yield Ask(f"{title}: scale by another kind", "PUT", f"{one}/scale", other)
        fixed = {"spec": {"selector": {"matchLabels": {"set": plural[0], "x": "y"}}}}
        yield Ask(f"{title}: fixed selector", "PATCH", one, fixed, MERGE)
    for number in (0, 3):
        name = f"s-{number}"
        yield Ask(f"{name} bound", "POST", f"{HOME}/pods/{name}/binding", {"metadata": {"name": name}, **bound})
        yield Ask(f"{name} ready", "PATCH", f"{HOME}/pods/{name}/status", {"status": ready}, MERGE)
    yield Ask("later: two are ready", "GET", f"{SETS}/statefulsets/s")
    yield Ask("statefulset: less", "PATCH", f"{SETS}/statefulsets/s", {"spec": {"replicas": 1}}, MERGE)
    yield Ask("later: one terminates", "GET", f"{SETS}/statefulsets/s")
    yield Ask("later: and is still there", "GET", f"{HOME}/pods?labelSelector=set%3Ds")
    yield Ask("s-3 gone", "DELETE", f"{HOME}/pods/s-3?gracePeriodSeconds=0")
    yield Ask("s-0 failed", "PATCH", f"{HOME}/pods/s-0/status", {"status": {"phase": "Failed"}}, MERGE)
    yield Ask("later: made anew", "GET", f"{HOME}/pods?labelSelector=set%3Ds")
    yield Ask("later: claims stay", "GET", f"{HOME}/persistentvolumeclaims?labelSelector=set%3Ds")
    orphan = pod("orphan", metadata={"labels": {"set": "r"}})
    yield Ask("less of r", "PATCH", f"{SETS}/replicasets/r/scale", {"spec": {"replicas": 0}}, MERGE)
    yield Ask("later: none of r", "GET", f"{SETS}/replicasets/r")
    yield Ask("orphan", "POST", f"{HOME}/pods", orphan)
    yield Ask("later: too many", "GET", f"{HOME}/pods/orphan")
    for plural in makers:
        for policy in ("Foreground",) if plural == "deployments" else ("Background",):
            body = {"propagationPolicy": policy}
            yield Ask(f"{plural} away", "DELETE", f"{SETS}/{plural}/{plural[0]}", body)
        yield Ask(f"later: no {plural}", "GET", f"{SETS}/{plural}")
    yield Ask("later: no pods of sets", "GET", f"{HOME}/pods?labelSelector=set")
    yield Ask("claims of the set away", "DELETE", f"{HOME}/persistentvolumeclaims?labelSelector=set%3Ds")
    yield Ask("later: no claims of sets", "GET", f"{HOME}/persistentvolumeclaims?labelSelector=set")


def _apply_script() -> Iterator[Ask]:
    """Server-side apply by several managers."""

    def ask(name: str, body: Any, query: str, what: str = "configmaps/applied", media: str = APPLY) -> Ask:
        return Ask(f"apply: {name}", "PATCH", f"{HOME}/{what}?fieldManager={query}", body, media)

    def data(**values: str) -> dict[str, Any]:
        return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "applied"}, "data": values}

    yield ask("no manager", data(a="1"), "")
    yield ask("force is for apply", {"data": {"a": "1"}}, "one&force=true", "configmaps/cm", MERGE)
    yield ask("makes it", data(a="1", b="2"), "one")
    yield ask("again", data(a="1", b="2"), "one")
    yield ask("gives up b", data(a="1"), "one")
    yield ask("a is taken", data(a="2"), "two")
    yield ask("the same a", data(a="1", c="3"), "two")
    yield ask("two conflicts", data(a="5"), "three")
    yield ask("forced", data(a="5"), "three&force=true")
    yield ask("no a any more", data(c="3"), "two")
    yield ask("a write", {"data": {"a": "7", "z": "1"}}, "four", media=MERGE)
    yield ask("nothing", data(), "three")
    yield ask("against a write", data(z="2", a="3"), "two")
    yield ask("all of two", {"kind": "ConfigMap", "apiVersion": "v1"}, "two")
    yield ask("no version", {"metadata": {"name": "applied"}}, "two")
    yield ask("other name", data() | {"metadata": {"name": "other"}}, "two")
    yield ask("own managers", data() | {"metadata": {"name": "applied", "managedFields": []}}, "two")
    yield ask("old version", data(q="1") | {"metadata": {"resourceVersion": "1"}}, "two")
    yield ask("dry", data(q="1"), "two&dryRun=All")
    yield Ask("apply: left", "GET", f"{HOME}/configmaps/applied")
    ports = [{"name": "driver", "port": 7078, "protocol": "TCP"}, {"name": "bm", "port": 7079, "protocol": "TCP"}]
    service: dict[str, Any] = {"kind": "Service", "apiVersion": "v1"}
    service["metadata"] = {"name": "applied", "labels": {"a": "b"}}
    service["spec"] = {"clusterIP": "None", "selector": {"x": "y"}, "ports": ports}
    yield ask("service", service, "fabric8&force=true", "services/applied")
    less = service | {"spec": service["spec"] | {"ports": [ports[1] | {"targetPort": 9}]}}
    yield ask("one port less", less, "fabric8&force=true", "services/applied")
    made = pod("applied", tolerations=[{"key": "k", "operator": "Exists"}])
    made["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"
    labels = made["metadata"]["labels"]
    made["metadata"] |= {"annotations": {"x": "1"}, "finalizers": ["a.b/c"]}
    yield ask("pod", made, "one", "pods/applied")
    image = {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "executor", "image": "spark:9"}]}}
    yield ask("image", image, "two", "pods/applied")
    yield ask("image forced", image, "two&force=true", "pods/applied")
    container = made["spec"]["containers"][0] | {"image": "spark:9"}
    bare = made | {
        "metadata": {"name": "applied", "labels": labels},
        "spec": made["spec"] | {"containers": [container]},
    }
    yield ask("without notes", bare, "one", "pods/applied")
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    yield ask("status", running, "kubelet", "pods/applied/status", STRATEGIC)
    failed = {"kind": "Pod", "apiVersion": "v1", "status": {"phase": "Failed"}}
    yield ask("status conflict", failed, "killer", "pods/applied/status")
    yield ask("status forced", failed, "killer&force=true", "pods/applied/status")
    yield ask("status of nothing", failed | {"metadata": {"name": "nope"}}, "killer", "pods/nope/status")
    twice: dict[str, Any] = {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "c"}, {"name": "c"}]}}
    yield ask("no name", twice, "one", "pods/twice")
    twice["metadata"] = {"name": "twice"}
    yield ask("twice the same", twice, "one", "pods/twice")
    yield ask("no key", twice | {"spec": {"containers": [{"image": "i"}]}}, "one", "pods/twice")
    policy: dict[str, Any] = {"kind": "NetworkPolicy", "apiVersion": "networking.k8s.io/v1"}
    policy |= {"metadata": {"name": "applied"}}
    policy["spec"] = {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": [{}]}
    path = f"{POLICIES}/applied?fieldManager=fabric8&force=true"
    yield Ask("apply: policy", "PATCH", path, policy, APPLY)
    yield Ask("apply: policy again", "PATCH", path, policy, APPLY)
    for what in ("configmaps", "services", "pods"):
        yield Ask(f"apply: {what} away", "DELETE", f"{HOME}/{what}/applied")


SCRIPT: Final = (
    Ask("ns", "POST", "/api/v1/namespaces", {"metadata": {"name": NS}}),
    # creating
    Ask("p1", "POST", f"{HOME}/pods", pod("p1")),
    Ask("p1 twice", "POST", f"{HOME}/pods", pod("p1")),
    Ask("bad name", "POST", f"{HOME}/pods", pod("P_1")),
    Ask("bad label", "POST", f"{HOME}/pods", pod("p2", metadata={"labels": {"a b": "x"}})),
    Ask("bad value", "POST", f"{HOME}/pods", pod("p2", metadata={"labels": {"ok": "!!"}})),
    Ask("no containers", "POST", f"{HOME}/pods", pod("p2", containers=[])),
    Ask("bad containers", "POST", f"{HOME}/pods", pod("p2", containers=[{"name": "c"}, {"name": "c", "image": "i"}])),
    Ask("no name", "POST", f"{HOME}/pods", pod("p2", metadata={"name": ""})),
    Ask("no such mount", "POST", f"{HOME}/pods", pod("p2", volumes=[])),
    Ask("bad restart", "POST", f"{HOME}/pods", pod("p2", restartPolicy="Sometimes")),
    Ask(
        "request over limit",
        "POST",
        f"{HOME}/pods",
        pod(
            "p2",
            volumes=[],
            containers=[
                {"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
            ],
        ),
    ),
    Ask("other kind", "POST", f"{HOME}/pods", config_map("p2") | {"kind": "ConfigMap", "apiVersion": "v1"}),
    Ask("other namespace", "POST", f"{HOME}/pods", pod("p2", metadata={"namespace": "other"})),
    Ask("with version", "POST", f"{HOME}/pods", pod("p2", metadata={"resourceVersion": "7"})),
    Ask("no namespace", "POST", "/api/v1/namespaces/nope-nope/pods", pod("p2")),
    Ask("empty owner", "POST", f"{HOME}/pods", pod("p2", metadata={"ownerReferences": [{"kind": "Pod", "name": "b"}]})),
    Ask("dry", "POST", f"{HOME}/pods?dryRun=All", pod("dry")),
    Ask("dry was dry", "GET", f"{HOME}/pods/dry"),
    # paths and methods
    Ask("p1 again", "GET", f"{HOME}/pods/p1"),
    Ask("no pod", "GET", f"{HOME}/pods/nope"),
    Ask("no lease", "GET", f"{LEASES}/nope"),
    Ask("no kind", "GET", f"{HOME}/foos"),
    Ask("no kind at all", "GET", "/api/v1/foos/x"),
    Ask("post to a name", "POST", f"{HOME}/pods/p1", pod("p1")),
    Ask("put a collection", "PUT", f"{HOME}/pods", pod("p1")),
    # patches
    Ask("labels", "PATCH", f"{HOME}/pods/p1", {"metadata": {"labels": {"inactive": "true", "role": None}}}, MERGE),
    Ask("no change", "PATCH", f"{HOME}/pods/p1", {"metadata": {"labels": {"inactive": "true"}}}, MERGE),
    Ask(
        "env",
        "PATCH",
        f"{HOME}/pods/p1",
        {"spec": {"containers": [{"name": "executor", "image": "spark:4.3.1"}]}},
        STRATEGIC,
    ),
    Ask("spec", "PATCH", f"{HOME}/pods/p1", {"spec": {"nodeName": "n9"}}, MERGE),
    Ask("old version", "PATCH", f"{HOME}/pods/p1", {"metadata": {"resourceVersion": "1", "labels": {"z": "y"}}}, MERGE),
    Ask("other name", "PATCH", f"{HOME}/pods/p1", {"metadata": {"name": "q"}}, MERGE),
    Ask(
        "json",
        "PATCH",
        f"{HOME}/pods/p1",
        [
            {"op": "test", "path": "/metadata/labels/app", "value": "spark"},
            {"op": "add", "path": "/metadata/labels/a~1b", "value": "c"},
            {"op": "replace", "path": "/metadata/labels/app", "value": "other"},
            {"op": "remove", "path": "/metadata/labels/inactive"},
        ],
        JSON_PATCH,
    ),
    Ask(
        "json test fails",
        "PATCH",
        f"{HOME}/pods/p1",
        [{"op": "test", "path": "/metadata/name", "value": "x"}],
        JSON_PATCH,
    ),
    Ask("json remove fails", "PATCH", f"{HOME}/pods/p1", [{"op": "remove", "path": "/metadata/labels/x"}], JSON_PATCH),
    Ask("patch of nothing", "PATCH", f"{HOME}/pods/nope", {"metadata": {"labels": {"z": "y"}}}, MERGE),
    Ask("status by the object", "PATCH", f"{HOME}/pods/p1", {"status": {"phase": "Failed"}}, MERGE),
    Ask(
        "status",
        "PATCH",
        f"{HOME}/pods/p1/status",
        {
            "spec": {"nodeName": "n9"},
            "status": {
                "phase": "Running",
                "podIP": "10.1.1.1",
                "conditions": [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}],
            },
        },
        STRATEGIC,
    ),
    Ask(
        "condition",
        "PATCH",
        f"{HOME}/pods/p1/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Up"}]}},
        STRATEGIC,
    ),
    Ask(
        "condition away",
        "PATCH",
        f"{HOME}/pods/p1/status",
        {"status": {"conditions": [{"type": "Initialized", "$patch": "delete"}]}},
        STRATEGIC,
    ),
    Ask("get status", "GET", f"{HOME}/pods/p1/status"),
    # whole objects
    Ask("cm", "POST", f"{HOME}/configmaps", config_map("cm", a="1", b="2")),
    Ask("put", "PUT", f"{HOME}/configmaps/cm", config_map("cm", a="2")),
    Ask(
        "put old",
        "PUT",
        f"{HOME}/configmaps/cm",
        {"metadata": {"name": "cm", "resourceVersion": "${cm.metadata.resourceVersion}"}, "data": {"a": "3"}},
    ),
    Ask("put other name", "PUT", f"{HOME}/configmaps/cm", config_map("cn")),
    Ask("put other uid", "PUT", f"{HOME}/configmaps/cm", {"metadata": {"name": "cm", "uid": "7"}}),
    Ask("put nothing", "PUT", f"{HOME}/configmaps/nope", config_map("nope")),
    Ask("bad key", "POST", f"{HOME}/configmaps", {"metadata": {"name": "bad"}, "data": {"a b": "1"}}),
    Ask("immutable", "POST", f"{HOME}/configmaps", config_map("fixed", a="1") | {"immutable": True}),
    Ask("immutable data", "PATCH", f"{HOME}/configmaps/fixed", {"data": {"a": "2"}}, MERGE),
    Ask("mutable again", "PATCH", f"{HOME}/configmaps/fixed", {"immutable": False}, MERGE),
    Ask("secret", "POST", f"{HOME}/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "1"}}),
    Ask("secret type", "PATCH", f"{HOME}/secrets/s", {"type": "other"}, MERGE),
    Ask(
        "service",
        "POST",
        f"{HOME}/services",
        {
            "metadata": {"name": "driver-svc"},
            "spec": {
                "clusterIP": "None",
                "selector": {"a": "b"},
                "ports": [{"name": "driver", "port": 7078}, {"name": "bm", "port": 7079}],
            },
        },
    ),
    Ask("bad service", "POST", f"{HOME}/services", {"metadata": {"name": "9t"}, "spec": {}}),
    Ask(
        "nameless ports",
        "POST",
        f"{HOME}/services",
        {"metadata": {"name": "t"}, "spec": {"ports": [{"port": 0}, {"name": "y", "port": 2}]}},
    ),
    Ask(
        "claim",
        "POST",
        f"{HOME}/persistentvolumeclaims",
        {
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    ),
    Ask("bad claim", "POST", f"{HOME}/persistentvolumeclaims", {"metadata": {"name": "d"}, "spec": {}}),
    Ask("bigger claim", "PATCH", f"{HOME}/persistentvolumeclaims/c", {"spec": {"storageClassName": "x"}}, MERGE),
    Ask(
        "lease",
        "POST",
        LEASES,
        {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}},
    ),
    Ask("bad lease", "POST", LEASES, {"metadata": {"name": "m"}, "spec": {"leaseDurationSeconds": 0}}),
    Ask("lease without version", "PUT", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}),
    Ask(
        "lease taken",
        "PUT",
        f"{LEASES}/l",
        {
            "metadata": {"name": "l", "resourceVersion": "${lease.metadata.resourceVersion}"},
            "spec": {"holderIdentity": "b"},
        },
    ),
    Ask(
        "lease too late",
        "PUT",
        f"{LEASES}/l",
        {
            "metadata": {"name": "l", "resourceVersion": "${lease.metadata.resourceVersion}"},
            "spec": {"holderIdentity": "c"},
        },
    ),
    Ask("lease by put", "PUT", f"{LEASES}/new", {"metadata": {"name": "new"}, "spec": {"holderIdentity": "b"}}),
    Ask("account", "POST", f"{HOME}/serviceaccounts", {"metadata": {"name": "driver"}}),
    Ask(
        "event",
        "POST",
        f"{HOME}/events",
        {
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "namespace": NS, "name": "p1"},
            "reason": "X",
            "type": "Normal",
        },
    ),
    Ask("bad event", "POST", f"{HOME}/events", {"metadata": {"name": "f"}, "involvedObject": {"kind": "Pod"}}),
    Ask(
        "policy",
        "POST",
        POLICIES,
        {"metadata": {"name": "np"}, "spec": {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": [{}]}},
    ),
    Ask("policy changed", "PATCH", f"{POLICIES}/np", {"spec": {"egress": [{}]}}, MERGE),
    # lists
    Ask("p2", "POST", f"{HOME}/pods", pod("p2", metadata={"labels": {"id": "2"}})),
    Ask("p3", "POST", f"{HOME}/pods", pod("p3", metadata={"labels": {"id": "3", "inactive": "true"}})),
    Ask("list", "GET", f"{HOME}/pods"),
    *(
        Ask(f"select {text}", "GET", f"{HOME}/pods?labelSelector={text}")
        for text in (
            "id%3D2",
            "id",
            "%21id",
            "id+in+%282%2C3%29",
            "id+notin+%282%29",
            "id%21%3D2",
            "id%2Cinactive%21%3Dtrue",
            "id%3E2",
            "id%3D",
            "a%3Db%3Dc",
            "a+in+%28x",
        )
    ),
    *(
        Ask(f"field {text}", "GET", f"{HOME}/pods?fieldSelector={text}")
        for text in (
            "status.phase%3DRunning",
            "status.phase%21%3DRunning",
            "metadata.name%3Dp2",
            "spec.nodeName%3D",
            "spec.foo%3D1",
            "foo",
        )
    ),
    Ask("page 1", "GET", f"{HOME}/pods?limit=2"),
    Ask("p4", "POST", f"{HOME}/pods", pod("p4")),
    Ask("page 2", "GET", f"{HOME}/pods?limit=2&continue=${{page 1.metadata.continue}}"),
    Ask(
        "at a version",
        "GET",
        f"{HOME}/pods?resourceVersion=${{list.metadata.resourceVersion}}&resourceVersionMatch=Exact",
    ),
    Ask("bad limit", "GET", f"{HOME}/pods?limit=abc"),
    Ask("bad version", "GET", f"{HOME}/pods?resourceVersion=abc"),
    Ask("match alone", "GET", f"{HOME}/pods?resourceVersionMatch=Exact"),
    Ask("bad match", "GET", f"{HOME}/pods?resourceVersionMatch=Foo&resourceVersion=1"),
    Ask("exactly 0", "GET", f"{HOME}/pods?resourceVersionMatch=Exact&resourceVersion=0"),
    Ask("of the future", "GET", f"{HOME}/pods?resourceVersion=99999999"),
    # deleting
    Ask("wrong uid", "DELETE", f"{HOME}/pods/p2", {"preconditions": {"uid": "7"}}),
    Ask("wrong version", "DELETE", f"{HOME}/pods/p2", {"preconditions": {"resourceVersion": "7"}}),
    Ask("bad policy", "DELETE", f"{HOME}/pods/p2", {"propagationPolicy": "Foo"}),
    Ask("two policies", "DELETE", f"{HOME}/pods/p2", {"propagationPolicy": "Orphan", "orphanDependents": True}),
    Ask("dry delete", "DELETE", f"{HOME}/pods/p2", {"dryRun": ["All"]}),
    Ask("delete", "DELETE", f"{HOME}/pods/p2"),
    Ask("deleted", "GET", f"{HOME}/pods/p2"),
    Ask("delete again", "DELETE", f"{HOME}/pods/p2"),
    Ask(
        "bind",
        "POST",
        f"{HOME}/pods/p3/binding",
        {"metadata": {"name": "p3"}, "target": {"kind": "Node", "name": "n1"}},
    ),
    Ask("bind again", "POST", f"{HOME}/pods/p3/binding", {"metadata": {"name": "p3"}, "target": {"name": "n2"}}),
    Ask("bind nobody", "POST", f"{HOME}/pods/p4/binding", {"target": {"name": "n2"}}),
    Ask("grace", "DELETE", f"{HOME}/pods/p3?gracePeriodSeconds=20"),
    Ask("longer grace", "DELETE", f"{HOME}/pods/p3?gracePeriodSeconds=30"),
    Ask("shorter grace", "DELETE", f"{HOME}/pods/p3", {"gracePeriodSeconds": 2}),
    Ask("bind too late", "POST", f"{HOME}/pods/p3/binding", {"metadata": {"name": "p3"}, "target": {"name": "n2"}}),
    Ask("terminating", "GET", f"{HOME}/pods/p3"),
    Ask("kubelet done", "DELETE", f"{HOME}/pods/p3", {"gracePeriodSeconds": 0}),
    Ask("gone", "GET", f"{HOME}/pods/p3"),
    Ask("evict", "POST", f"{HOME}/pods/p4/eviction", {"metadata": {"name": "p4"}}),
    Ask("evicted", "GET", f"{HOME}/pods/p4"),
    Ask("held", "POST", f"{HOME}/configmaps", {"metadata": {"name": "held", "finalizers": ["x.y/z"]}}),
    Ask("delete held", "DELETE", f"{HOME}/configmaps/held"),
    Ask("still held", "GET", f"{HOME}/configmaps/held"),
    Ask("let go", "PATCH", f"{HOME}/configmaps/held", {"metadata": {"finalizers": None}}, MERGE),
    Ask("not held", "GET", f"{HOME}/configmaps/held"),
    Ask("delete a service", "DELETE", f"{HOME}/services/driver-svc"),
    Ask("delete a lease", "DELETE", f"{LEASES}/l"),
    # owners
    *(Ask(name, "POST", f"{HOME}/configmaps", config_map(name)) for name in ("o1", "o2", "o3")),
    Ask("d1", "POST", f"{HOME}/configmaps", owned("d1", "o1")),
    Ask("d2", "POST", f"{HOME}/configmaps", owned("d2", "o2", blockOwnerDeletion=True)),
    Ask("d3", "POST", f"{HOME}/configmaps", owned("d3", "o3")),
    Ask("background", "DELETE", f"{HOME}/configmaps/o1", {"propagationPolicy": "Background"}),
    Ask("foreground", "DELETE", f"{HOME}/configmaps/o2", {"propagationPolicy": "Foreground"}),
    Ask("orphans", "DELETE", f"{HOME}/configmaps/o3", {"propagationPolicy": "Orphan"}),
    Ask("later: what is left", "GET", f"{HOME}/configmaps"),
    Ask("collection", "DELETE", f"{HOME}/configmaps?fieldSelector=metadata.name%3Dd3"),
    Ask("no collection", "DELETE", f"{HOME}/pods?labelSelector=app%3Dnobody"),
    Ask("claim away", "DELETE", f"{HOME}/persistentvolumeclaims/c"),
    Ask("later: claims", "GET", f"{HOME}/persistentvolumeclaims"),
    # apply
    *_apply_script(),
    # sets
    *_set_script(),
    # quotas
    Ask(
        "quota",
        "POST",
        f"{HOME}/resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2", "requests.cpu": "1500m", "requests.memory": "4Gi"}}},
    ),
    Ask("later: quota counted", "GET", f"{HOME}/resourcequotas/q"),
    Ask("q1", "POST", f"{HOME}/pods", pod("q1")),
    Ask("later: quota used", "GET", f"{HOME}/resourcequotas/q"),
    Ask("over quota", "POST", f"{HOME}/pods", pod("q2")),
    Ask("nothing said", "POST", f"{HOME}/pods", pod("q2", volumes=[], containers=[{"name": "c", "image": "i:1"}])),
    Ask("q1 ends", "PATCH", f"{HOME}/pods/q1/status", {"status": {"phase": "Succeeded"}}, MERGE),
    Ask("later: quota free", "GET", f"{HOME}/resourcequotas/q"),
    Ask("q2", "POST", f"{HOME}/pods", pod("q2")),
    Ask("quota away", "DELETE", f"{HOME}/resourcequotas/q"),
    # the end of a namespace
    Ask("last pod", "POST", f"{HOME}/pods", pod("last", nodeName="n1")),
    Ask("namespace away", "DELETE", f"/api/v1/namespaces/{NS}"),
    Ask("too late", "POST", f"{HOME}/configmaps", config_map("late")),
    Ask("later: last pod terminates", "GET", f"{HOME}/pods/last"),
    Ask("last pod away", "DELETE", f"{HOME}/pods/last?gracePeriodSeconds=0"),
    Ask("later: no namespace", "GET", f"/api/v1/namespaces/{NS}"),
)


def play(server: Callable[[Ask], Told]) -> Iterator[tuple[Ask, Told]]:
    """Put the script to a server, step by step."""
    told: dict[str, Any] = {}
    for ask in SCRIPT:
        answer = server(_filled(ask, told))
        told[ask.name] = answer.body
        yield ask, answer


def _filled(ask: Ask, told: dict[str, Any]) -> Ask:
    def value(found: re.Match[str]) -> str:
        name, *path = found[1].split(".")
        here = told[name]
        for part in path:
            here = here[part]
        return str(here)

    return ask._replace(
        path=re.sub(r"\$\{(.*?)\}", value, ask.path),
        body=json.loads(re.sub(r"\$\{(.*?)\}", value, json.dumps(ask.body))),
    )


def seen(answer: Told) -> Any:
    """What of an answer is compared: ids, versions and Go's listings of a whole spec in messages are not."""
    # Go's cmp writes blanks in two ways, by chance, so that nobody compares what it writes.
    text = json.dumps(answer.body).replace("\\u00a0", " ")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text)
    # Names of a template's revision, and what servers newer than 1.20 write.
    text = re.sub(r'(?<=[ds]-)[bcdfghjklmnpqrstvwxz2456789]{8,10}(?=[-\\"])', "HASH", text)
    text = re.sub(r'(-hash": ")([ds]-)?[bcdfghjklmnpqrstvwxzHAS2456789]{4,10}(?=")', r"\1HASH", text)
    text = re.sub(r', "apps.kubernetes.io/pod-index": "[0-9]+"', "", text)
    text = re.sub(r'"availableReplicas": [0-9]+, (?="currentReplicas)', "", text)
    # 1.20 keeps policies under the group that they came from.
    text = text.replace("NetworkPolicy.extensions", "NetworkPolicy.networking.k8s.io")
    text = text.replace('"group": "extensions"', '"group": "networking.k8s.io"')
    # How Go's decoders say where they are.
    decoding = r'(in version \\"[\w/]+\\" cannot be handled as a \w+: )(?!converting|no kind).*?(?=", "reason)'
    text = re.sub(decoding, r"\1WHY", text)
    text = re.sub(r"(current: |in record \(|in the precondition \()[0-9]+", r"\g<1>N", text)
    text = re.sub(r"\\n  core\.\w+\{.*?\\n  \}\\n", "", text)
    return {"code": answer.code} | _plain(json.loads(text))


def _plain(body: Any) -> Any:
    if not isinstance(body, dict):
        return {"body": body}
    if body.get("kind") == "Status":
        details = body.get("details") or {}
        details.pop("uid", None)
        if "causes" in details:
            # At a change 1.20 checks metadata and sets' specs twice, and names the same causes twice.
            causes = {json.dumps(cause): cause for cause in details["causes"]}
            details["causes"] = list(causes.values())
        if _is_apply_conflict(details):
            # The order of managers is that of a Go map.
            details["causes"].sort(key=lambda cause: (cause["field"], cause["message"]))
        return body
    body = {name: _item(value) if isinstance(value, dict) else value for name, value in body.items()}
    body = {name: value for name, value in body.items() if value not in (None, {}, "")}
    if isinstance(body.get("items"), list):
        body["items"] = [_plain(one) for one in body["items"]]
        body["metadata"].pop("continue", None)
    body["metadata"] = {name: value for name, value in body.get("metadata", {}).items() if name not in DRAWN}
    return body


def _is_apply_conflict(details: Any) -> bool:
    """Whether a Status tells of fields that others own."""
    return any(cause.get("reason") == "FieldManagerConflict" for cause in details.get("causes") or ())


def _item(value: Any) -> Any:
    """Without empty values, moments and what a server draws by itself: a service's address."""
    if isinstance(value, list):
        return [_item(one) for one in value]
    if isinstance(value, dict):
        kept = {
            name: _item(one)
            for name, one in value.items()
            if name not in {"lastTransitionTime", "lastUpdateTime", "uid"}
        }
        return {name: one for name, one in kept.items() if one not in (None, {}, [], "")}
    return value
