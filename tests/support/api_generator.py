"""Requests by chance, for two API servers: the same seed gives the same requests.

All that is made carries the label ``gen``, and every collection is asked for by it: a real cluster has things of its own.
Names come from a small pool, so that requests meet what is there, what is gone and what others changed.
``${@KIND NAME.PATH}`` in a request stands for what the last answer about that object held there (1 where there was none).

Left out is what a real server's controllers do in their own time: owners, quotas, ends of namespaces, claims that are
deleted, sets with replicas. The script (``api_script``) and ``graphs`` ask for these, and wait. Left out, too, is what 1.20
does otherwise than later servers and what makes other objects: no collection of services can be deleted, a policy is of the
group "extensions" where it is deleted, a JSON patch copies what is not there, a Service is only put with its version, and an
apply drops no field of a map that another manager made. Where only the answer is another one, ``expected`` says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Final

from tests.support.api_script import (
    APPLY,
    HOME,
    JSON_PATCH,
    LEASES,
    MERGE,
    POLICIES,
    SETS,
    STRATEGIC,
    Ask,
    Told,
    pod,
    pod_set,
    seen,
)

NAMES: Final = ("a", "b", "c", "d")
LABELS: Final = ("1", "2")
_PLACES: Final = {
    "Pod": f"{HOME}/pods",
    "ConfigMap": f"{HOME}/configmaps",
    "Secret": f"{HOME}/secrets",
    "Service": f"{HOME}/services",
    "ServiceAccount": f"{HOME}/serviceaccounts",
    "Event": f"{HOME}/events",
    "Lease": LEASES,
    "NetworkPolicy": POLICIES,
    "PersistentVolumeClaim": f"{HOME}/persistentvolumeclaims",
    "ReplicaSet": f"{SETS}/replicasets",
    "StatefulSet": f"{SETS}/statefulsets",
    "Deployment": f"{SETS}/deployments",
}
_SETS: Final = frozenset({"ReplicaSet", "StatefulSet", "Deployment"})
_STAYS: Final = frozenset({"PersistentVolumeClaim"})
_WEIGHTS: Final = [8, 6, 2, 3, 1, 1, 3, 1, 2, 1, 1, 1]
"""How often each kind is asked for: what Spark and podtide use most."""


class Requests:
    """A stream of requests; ``next(ask)`` from ``chosen``."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._count = 0

    def chosen(self) -> Ask:
        """The next request."""
        self._count += 1
        kind = self._random.choices(list(_PLACES), _WEIGHTS)[0]
        acts: list[tuple[Callable[[str, str], tuple[str, str, Any, str]], int]] = [
            (self._create, 8),
            (self._get, 3),
            (self._list, 6),
            (self._put, 4),
            (self._patch, 9),
            (self._delete, 4),
            (self._collection, 1),
        ]
        if kind == "Pod":
            acts += [(self._status, 6), (self._bind, 2), (self._evict, 1)]
        if kind in _SETS:
            acts += [(self._scale, 3)]
        act = self._random.choices([one for one, _ in acts], [weight for _, weight in acts])[0]
        method, path, body, media = act(kind, self._random.choice(NAMES))
        return Ask(f"{self._count} {kind}", method, path, body, media)

    # objects

    def _labels(self) -> dict[str, str]:
        labels = {"gen": "1"}
        for key in ("x", "y"):
            if self._random.random() < 0.5:
                labels[key] = self._random.choice(LABELS)
        if self._random.random() < 0.03:
            labels["x"] = "not valid!"
        return labels

    def _metadata(self, name: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "labels": self._labels()}
        draw = self._random.random()
        if draw < 0.15:
            made["annotations"] = {"note": self._random.choice(LABELS)}
        elif draw < 0.2:
            made["finalizers"] = ["x.y/z"]
        elif draw < 0.22:
            made["name"] = "Not-Valid"
        elif draw < 0.24:
            made["namespace"] = "other"
        return made

    def _object(self, kind: str, name: str) -> dict[str, Any]:
        draw = self._random.choice
        metadata = self._metadata(name)
        made: dict[str, Any] = {"metadata": metadata}
        match kind:
            case "Pod":
                made = pod(name, metadata=metadata, restartPolicy=draw(["Never", "Always", "Always", "Sometimes"]))
                if draw([0, 0, 1]):
                    made["spec"]["nodeName"] = "n1"
                if draw([0, 0, 0, 1]):
                    made["spec"]["containers"][0]["resources"] = {
                        "requests": {"cpu": draw(["1", "2"])},
                        "limits": {"cpu": "1"},
                    }
                made["metadata"]["labels"] = metadata["labels"]
            case "ConfigMap":
                made |= {"data": {key: draw(LABELS) for key in draw([("k",), ("k", "l"), ("bad key",), ()])}}
                if draw([0] * 9 + [1]):
                    made["immutable"] = True
            case "Secret":
                made |= {draw(["data", "stringData"]): {draw(["k", "l"]): "eHg="}}
            case "Service":
                ports = [{"name": f"p{number}", "port": draw([80, 81, 82, 0])} for number in range(draw([0, 1, 1, 2]))]
                made["spec"] = {"clusterIP": "None", "selector": {"x": draw(LABELS)}}
                if len({port["port"] for port in ports}) == len(ports):
                    made["spec"]["ports"] = ports
            case "Lease":
                made["spec"] = {"holderIdentity": draw(LABELS), "leaseDurationSeconds": draw([15, 15, 0])}
            case "Event":
                made |= {"involvedObject": {"kind": "Pod", "name": "a", "namespace": HOME.rpartition("/")[2]}}
                made |= {"reason": draw(["Started", "Killed"]), "type": "Normal"}
            case "NetworkPolicy":
                made["spec"] = {"podSelector": {"matchLabels": {"x": draw(LABELS)}}}
            case "PersistentVolumeClaim":
                size = draw(["1Gi", "1Gi", "0", "many"])
                made["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
            case kind if kind in _SETS:
                more = {"podManagementPolicy": "Parallel", "serviceName": "s"} if kind == "StatefulSet" else {}
                made = pod_set(name, replicas=draw([0, 0, 0, -1]), **more) | {"metadata": metadata}
        return made

    # acts

    def _create(self, kind: str, name: str) -> tuple[str, str, Any, str]:
        dry = self._random.choice(["", "", "", "", "?dryRun=All"])
        return "POST", _PLACES[kind] + dry, self._object(kind, name), "application/json"

    def _get(self, kind: str, name: str) -> tuple[str, str, Any, str]:
        return "GET", f"{_PLACES[kind]}/{name}", None, "application/json"

    def _list(self, kind: str, _: str) -> tuple[str, str, Any, str]:
        return "GET", f"{_PLACES[kind]}?{self._selector(kind)}{self._random.choice(['', '', '&limit=2'])}", None, MERGE

    def _selector(self, kind: str) -> str:
        labels = [
            "",
            ",x",
            ",!x",
            ",x=1",
            ",x!=1",
            ",x in (1,2)",
            ",y notin (2)",
            ",x=1,y=2",
            ",x==2",
            ",x in (",
            ",x>0",
        ]
        made = f"labelSelector=gen{self._random.choice(labels)}"
        fields = ["", "", "metadata.name=a", "metadata.name!=a"]
        if kind == "Pod":
            fields += [
                "status.phase=Running",
                "spec.nodeName=n1",
                "status.phase!=Pending,spec.nodeName=n1",
                "spec.foo=1",
            ]
        field = self._random.choice(fields)
        made += f"&fieldSelector={field}" if field else ""
        return (
            made.replace(",", "%2C").replace(" ", "+").replace("!", "%21").replace(">", "%3E").replace("==", "%3D%3D")
        )

    def _put(self, kind: str, name: str) -> tuple[str, str, Any, str]:
        body = self._object(kind, name)
        if kind in {"Lease", "Service"} or (kind not in _SETS and self._random.random() < 0.6):
            body["metadata"]["resourceVersion"] = self._version(kind, name)
        return "PUT", f"{_PLACES[kind]}/{name}", body, "application/json"

    def _version(self, kind: str, name: str) -> str:
        return self._random.choice([f"${{@{kind} {name}.metadata.resourceVersion}}"] * 4 + ["1"])

    def _patch(self, kind: str, name: str) -> tuple[str, str, Any, str]:
        path = f"{_PLACES[kind]}/{name}"
        draw = self._random.random()
        labels: dict[str, Any] = {"x": self._random.choice([*LABELS, None, "no!"]), "gen": "1"}
        metadata: dict[str, Any] = {"labels": labels}
        if kind not in _SETS and self._random.random() < 0.2:
            metadata["resourceVersion"] = self._version(kind, name)
        if self._random.random() < 0.3:
            metadata["finalizers"] = None
        if draw < 0.4:
            return "PATCH", path, {"metadata": metadata}, self._random.choice([MERGE, STRATEGIC])
        if draw < 0.6:
            value = self._random.choice(LABELS)
            ops = [
                {"op": "replace", "path": "/metadata/labels/gen", "value": "1"},
                {"op": "add", "path": "/metadata/labels/y", "value": value},
                {"op": "remove", "path": "/metadata/labels/y"},
                {"op": "test", "path": "/metadata/labels/x", "value": value},
                {"op": "move", "from": "/metadata/labels/x", "path": "/metadata/labels/y"},
                {"op": "remove", "path": "/metadata/finalizers"},
                {"op": "add", "path": "/metadata/finalizers/-", "value": "x.y/w"},
            ]
            return "PATCH", path, self._random.sample(ops, self._random.choice([1, 1, 2, 3])), JSON_PATCH
        if draw < 0.8:
            return "PATCH", path, self._spec_patch(kind, name), STRATEGIC
        body = self._object(kind, name)
        body |= {"kind": kind, "apiVersion": _version_of(kind)}
        if kind == "PersistentVolumeClaim":
            # What is no quantity is found elsewhere by 1.20's apply (500).
            body["spec"]["resources"] = {"requests": {"storage": self._random.choice(["1Gi", "0"])}}
        for container in body.get("spec", {}).get("containers", ()):
            for port in container.get("ports", ()):
                port["protocol"] = "TCP"
        for port in body.get("spec", {}).get("ports", ()):
            port["protocol"] = "TCP"
        manager = self._random.choice(["one", "two"])
        if kind == "ConfigMap":
            # What an apply drops of a map that another manager made stays in 1.20, if that was all the other owned of it.
            body["data"] = {"k" if manager == "one" else "l": self._random.choice(LABELS)}
        return "PATCH", f"{path}?fieldManager={manager}&force=true", body, APPLY

    def _spec_patch(self, kind: str, name: str) -> Any:
        value = self._random.choice(LABELS)
        container: dict[str, Any] = {"name": "executor", "image": f"spark:{value}"}
        if self._random.random() < 0.3:
            container["env"] = [{"name": "A", "value": value}]
        match kind:
            case "Pod":
                return {"spec": {"containers": [container]}}
            case "ConfigMap":
                return {"data": {self._random.choice(["k", "l"]): self._random.choice([value, None])}}
            case "Service":
                return {"spec": {"ports": [{"port": self._random.choice([80, 81]), "name": f"q{value}"}]}}
            case "Lease":
                return {"spec": {"holderIdentity": value}}
            case "PersistentVolumeClaim":
                return {"spec": {"storageClassName": value}}
            case kind if kind in _SETS:
                return {"spec": {"replicas": self._random.choice([0, -1]), "selector": {"matchLabels": {"set": name}}}}
        return {"metadata": {"annotations": {"note": value}}}

    def _delete(self, kind: str, name: str) -> tuple[str, str, Any, str]:
        if kind in _STAYS:
            return self._get(kind, name)
        body: dict[str, Any] = {}
        draw = self._random.random()
        if draw < 0.2 and kind != "NetworkPolicy":
            body["preconditions"] = (
                {"resourceVersion": self._version(kind, name)} if kind not in _SETS else {"uid": "7"}
            )
        elif draw < 0.3:
            body["dryRun"] = ["All"]
        grace = self._random.choice(["", "", "?gracePeriodSeconds=0", "?gracePeriodSeconds=5"])
        # With a version as a precondition 1.20 answers with the pod as it was before its grace was shortened.
        grace = "" if "preconditions" in body else grace
        return "DELETE", f"{_PLACES[kind]}/{name}{grace}", body or None, "application/json"

    def _collection(self, kind: str, name: str) -> tuple[str, str, Any, str]:
        if kind in _STAYS | {"Service"}:
            return self._list(kind, name)
        # The first pod's grace counts for all of a collection in 1.20.
        chosen = f"labelSelector=gen&fieldSelector=metadata.name={name}" if kind == "Pod" else self._selector(kind)
        return "DELETE", f"{_PLACES[kind]}?{chosen}", None, "application/json"

    def _status(self, _: str, name: str) -> tuple[str, str, Any, str]:
        phase = self._random.choice(["Running", "Running", "Failed", "Succeeded"])
        ready = {
            "type": self._random.choice(["Ready", "Initialized"]),
            "status": self._random.choice(["True", "False"]),
        }
        body = {"status": {"phase": phase, "conditions": [ready]}}
        return "PATCH", f"{HOME}/pods/{name}/status", body, self._random.choice([MERGE, STRATEGIC])

    def _bind(self, _: str, name: str) -> tuple[str, str, Any, str]:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
        return "POST", f"{HOME}/pods/{name}/binding", body, "application/json"

    def _evict(self, _: str, name: str) -> tuple[str, str, Any, str]:
        return "POST", f"{HOME}/pods/{name}/eviction", {"metadata": {"name": name}}, "application/json"

    def _scale(self, kind: str, name: str) -> tuple[str, str, Any, str]:
        body = {"spec": {"replicas": self._random.choice([0, 0, -1])}}
        return "PATCH", f"{_PLACES[kind]}/{name}/scale", body, MERGE


def _version_of(kind: str) -> str:
    place = _PLACES[kind]
    return "/".join(place.split("/")[2:4]) if place.startswith("/apis") else "v1"


def generated(server: Callable[[Ask], Told], seed: int, count: int) -> Iterator[tuple[Ask, Told]]:
    """Put ``count`` requests to a server, one after the other."""
    requests = Requests(seed)
    return asked_in_turn(server, (requests.chosen() for _ in range(count)))


def asked_in_turn(server: Callable[[Ask], Told], asks: Iterable[Ask]) -> Iterator[tuple[Ask, Told]]:
    """Put requests to a server, one after the other, each with what the answers before it held."""
    last: dict[str, Any] = {}
    for one in asks:
        ask = _filled(one, last)
        answer = server(ask)
        body = answer.body
        if ask.method != "DELETE" and isinstance(body, dict) and body.get("kind") in _PLACES:
            last[f"{body['kind']} {body['metadata'].get('name')}"] = body
        yield ask, answer


def _unattended(item: Any) -> Any:
    notes = {key: value for key, value in item["metadata"].get("annotations", {}).items() if "deployment" not in key}
    metadata = {**item["metadata"], "annotations": notes or None, "generation": None}
    return {**item, "status": None, "metadata": {key: one for key, one in metadata.items() if one is not None}}


def outline(answer: Told) -> Any:
    """What is compared of an answer: of a set not what controllers write."""
    body = answer.body
    if isinstance(body, dict) and str(body.get("kind", "")).removesuffix("List") in _SETS:
        items = [_unattended(one) for one in body["items"]] if "items" in body else None
        body = _unattended(body) if items is None else {**body, "items": items}
    return seen(Told(answer.code, body))


def expected(ask: Ask, own: Any, real: Any) -> bool:
    """Whether two outlines differ as docs/reference/api-server.md says, and nothing but the answer differs."""
    kind, codes = ask.name.split()[1], (own["code"], real["code"])
    if kind == "Service" and ask.method == "DELETE":
        return codes == (200, 200) and real["kind"] == "Status"
    if kind == "Service":
        return ask.method in {"PUT", "PATCH"} and codes == (409, 422)
    if kind == "ConfigMap":
        return codes == (200, 422) and own.get("immutable") is True and not own.get("data")
    if kind == "Pod" and ask.method == "DELETE" and isinstance(ask.body, dict) and ask.body.get("dryRun"):
        grace = "deletionGracePeriodSeconds"
        one, other = ({**body, "metadata": {**body["metadata"], grace: 0}} for body in (own, real))
        return codes == (200, 200) and one == other
    return False


def _filled(ask: Ask, last: dict[str, Any]) -> Ask:
    def value(found: re.Match[str]) -> str:
        name, *path = found[1].split(".")
        here = last.get(name)
        for part in path:
            here = here.get(part, "1") if isinstance(here, dict) else "1"
        return str(here)

    return ask._replace(body=json.loads(re.sub(r"\$\{@(.*?)\}", value, json.dumps(ask.body))))


def graphs(seed: int, count: int) -> Iterator[Ask]:
    """Owners and dependents by chance, then deletions: what is left when the collector is done is to be compared."""
    random = Random(seed)
    for graph in range(count):
        names = [f"g{graph}-{number}" for number in range(random.choice([2, 3, 4, 5]))]
        for number, name in enumerate(names):
            owners = random.sample(names[:number], min(number, random.choice([0, 1, 1, 2])))
            references = [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner,
                    "uid": f"${{@ConfigMap {owner}.metadata.uid}}",
                    "blockOwnerDeletion": random.choice([True, False]),
                }
                for owner in owners
            ]
            body = {"metadata": {"name": name, "labels": {"graph": "1"}, "ownerReferences": references}}
            yield Ask(f"make {name}", "POST", f"{HOME}/configmaps", body)
        policy = random.choice(["Background", "Foreground", "Orphan"])
        yield Ask(f"delete {names[0]}", "DELETE", f"{HOME}/configmaps/{names[0]}", {"propagationPolicy": policy})
