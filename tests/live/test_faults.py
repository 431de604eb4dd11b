"""The cluster refuses, throttles, loses answers, forgets, restarts; what is asked for comes about all the same, once.

What a server answers of itself is had by a Role without a verb (403), a quota (403), a name that somebody else has (409) and
a manifest that it refuses (422); what a server answers under stress by podtide's own, under a cluster file
(``faulty_cluster``). After each: the books equal the cluster, no executor id was used twice, nothing is left behind, the
recording is decided again as it was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.cluster import Cluster
from tests.live.faulty_cluster import FaultyCluster
from tests.live.kubelet import Kubelet
from tests.live.life import (
    Census,
    Life,
    at_rest,
    left,
    many,
    names,
    patience,
    replays,
    swept,
    truth,
    vanish,
    whole_only,
)
from tests.live.waiting import until
from tests.support.project import PROJECT


def finished(run: Life, census: Census, record: Path) -> None:
    """It ends well and leaves nothing."""
    assert run.stop() == 0, run.complaints()
    run.ended_as_listed()
    at_rest(run.cluster, run.namespace, census, [record])


# --------------------------------------------------------------------------------------- what the server itself refuses


def rules(without: tuple[str, str] | None = None) -> list[dict[str, Any]]:
    """The Role of deploy/ for acting, without a verb of a resource."""
    documents = list(yaml.safe_load_all((PROJECT / "deploy" / "rbac.yaml").read_text()))
    roles = [one for one in documents if one["kind"] == "Role" and "act" in one["metadata"]["name"]]
    return [
        {**rule, "verbs": [verb for verb in rule["verbs"] if (resource, verb) != without], "resources": [resource]}
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
    ]


def test_a_verb_is_missing_and_then_granted(
    cluster: Cluster, namespace: str, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    record = tmp_path / "life.jsonl"
    cluster.role(namespace, rules(without=("pods", "create")))
    with Life(
        cluster, namespace, tmp_path, "--on-exit", "delete", target=10, record=record, kubeconfig=cluster.driver
    ) as run:
        until(lambda: run.news("call refused"), 30, "a refusal")
        assert "verb create, resource pods" in run.news("call refused")[0]
        assert truth(cluster, namespace) == {}
        cluster.role(namespace, rules())
        run.agrees(10)
        finished(run, census, record)


def test_a_run_that_may_not_list_says_so_and_ends(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    whole_only(cluster)
    cluster.role(namespace, rules(without=("pods", "list")))
    with Life(cluster, namespace, tmp_path, target=10, kubeconfig=cluster.driver) as run:
        assert run.ended(40) == 4
        assert "verb list" in run.complaints()
        assert "Traceback" not in run.complaints()


def test_a_quota_that_is_raised(
    cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    record, allowed, base = tmp_path / "life.jsonl", size // 5, f"/api/v1/namespaces/{namespace}/resourcequotas"
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(allowed)}}}
    cluster.must("create", "resourcequotas", base, quota)
    read = f"{base}/few"
    until(lambda: cluster.must("get", "resourcequotas", read)["status"].get("used"), 30, "the quota's books")
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=size, record=record) as run:
        until(lambda: truth(cluster, namespace) == {"running": allowed}, patience(size), "as many as are allowed")
        until(lambda: run.news("call refused"), 30, "a refusal")
        assert "quota" in run.news("call refused")[0]
        quota["spec"] = {"hard": {"pods": str(2 * size)}}
        cluster.must("update", "resourcequotas", read, quota)
        run.agrees(size, patience(size))
        print(f"quota: {census.ids} ids, highest {census.highest}, for {size} pods")
        finished(run, census, record)


def test_names_that_somebody_else_has(
    cluster: Cluster, namespace: str, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    record, path = tmp_path / "life.jsonl", f"/api/v1/namespaces/{namespace}/pods"
    theirs = [f"life-exec-{number}" for number in (1, 3, 4)]
    for name in theirs:
        pod = {
            "metadata": {"name": name, "labels": {"whose": "theirs"}},
            "spec": {"containers": [{"name": "c", "image": "n"}]},
        }
        cluster.must("create", "pods", path, pod)
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=6, record=record) as run:
        run.agrees(6)
        assert {"1", "3", "4"} & set(census.uids) == set()
        finished(run, census, record)
    assert sorted(pod["metadata"]["name"] for pod in cluster.pods(namespace, "whose=theirs")) == theirs


def test_manifests_that_the_server_refuses(
    cluster: Cluster, namespace: str, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    record = tmp_path / "life.jsonl"
    conf = {"spark.kubernetes.node.selector.bad": "no label, this"}
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=6, record=record, conf=conf) as run:
        until(lambda: run.news("call refused"), 30, "a refusal")
        assert "node" in run.news("call refused")[0].lower()
        began, before = time.monotonic(), asked(run)
        until(lambda: time.monotonic() - began > 2, 10, "a while")
        assert asked(run) - before < 80, "it hammers the server with what it refuses"
        assert truth(cluster, namespace) == {}
        finished(run, census, record)


def asked(run: Life) -> int:
    """Pods asked for."""
    return sum(one.get("command") == "createPod" for one in run.lines())


# ----------------------------------------------------------------------------------------------- a server under stress


STRESS = {
    "throttled": "faults: [{status: 429, probability: 0.02, verbs: [create], resources: [pods], retry-after: 1s}]",
    "errors": """
  faults:
    - {status: 500, probability: 0.3, verbs: [create], resources: [pods]}
    - {status: 500, probability: 0.2, verbs: [list], resources: [pods]}
""",
    "unavailable": "faults: [{status: 503, probability: 0.02, resources: [pods]}]",
    "lost answers": "faults: [{lost: answer, probability: 0.4, verbs: [create, delete], resources: [pods]}]",
    "cut": "faults: [{lost: request, probability: 0.3, resources: [pods, leases]}]",
    "slow": "latency: {median: 100ms, p90: 1s}",
    "everything": """
  latency: {median: 10ms, p90: 200ms}
  faults:
    - {status: 429, probability: 0.02, verbs: [create], resources: [pods], retry-after: 1s}
    - {lost: answer, probability: 0.2, verbs: [create, delete], resources: [pods]}
    - {status: 500, probability: 0.1, verbs: [create], resources: [pods]}
    - {status: 503, probability: 0.1, verbs: [get, list], resources: [pods]}
    - {lost: answer, probability: 0.3, verbs: [patch], resources: [leases]}
    - {status: 500, probability: 0.2, verbs: [get], resources: [leases]}
""",
}
"""What the parts ``api`` of cluster files say; no answer comes after a tenth of a second."""


QUICK = ("everything",)


@pytest.fixture
def faulty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FaultyCluster]:
    """A cluster under the stress that the test's parameter names."""
    with FaultyCluster(tmp_path / "faulty", STRESS[request.param]) as cluster:
        yield cluster


@pytest.mark.parametrize(("faulty", "stress"), [(name, name) for name in STRESS], indirect=["faulty"])
def test_under_stress(faulty: FaultyCluster, tmp_path: Path, stress: str) -> None:
    cluster, namespace, size = faulty, faulty.namespace(), many(faulty)
    if stress not in QUICK:
        whole_only(cluster)
    record, some = tmp_path / "life.jsonl", size // 5
    took = []
    with (
        cluster.kubelet(namespace),
        Census(cluster, namespace) as census,
        Life(cluster, namespace, tmp_path, "--on-exit", "delete", record=record, kubeconfig=cluster.driver) as run,
    ):
        for target in (some, size, some, size)[: None if cluster.full else 3]:
            run.tell(f"target {target}")
            took.append(run.agrees(target, patience(size)))
            assert census.most <= size, f"{census.most} live pods at once, {size} wanted"
        vanish(cluster, namespace, names(cluster, namespace)[: some // 2])
        took.append(run.agrees(target, patience(size)))
        assert run.stop(300) == 0, run.complaints()
        run.ended_as_listed()
        print(f"{stress}: {dict(cluster.met)}, {census.ids} ids; seconds {', '.join(f'{s:.1f}' for s in took)}")
        assert cluster.met or stress == "slow"
        at_rest(cluster, namespace, census, [record])


@pytest.mark.parametrize("faulty", ["lost answers"], indirect=True)
def test_a_pod_whose_creation_was_lost_and_which_vanished_is_not_made_again_under_its_id(
    faulty: FaultyCluster, tmp_path: Path
) -> None:
    cluster, namespace, record = faulty, faulty.namespace(), tmp_path / "life.jsonl"
    with (
        cluster.kubelet(namespace),
        Census(cluster, namespace) as census,
        cluster.taking_away_lost_pods(namespace) as taken,
        Life(
            cluster, namespace, tmp_path, "--on-exit", "delete", target=10, record=record, kubeconfig=cluster.driver
        ) as run,
    ):
        run.agrees(10)
        assert taken
        finished(run, census, record)


@pytest.mark.parametrize("faulty", ["everything"], indirect=True)
def test_killed_under_stress(faulty: FaultyCluster, tmp_path: Path) -> None:
    """Answers are lost, and then the process."""
    cluster, namespace, size = faulty, faulty.namespace(), many(faulty)
    whole_only(cluster)
    record = tmp_path / "life.jsonl"

    def life(target: int, *options: str) -> Life:
        return Life(cluster, namespace, tmp_path, *options, target=target, record=record, kubeconfig=cluster.driver)

    with cluster.kubelet(namespace), Census(cluster, namespace) as census:
        for target in (size, size // 5, size, size + 5):
            before = census.ids
            with life(target) as run:
                if target > len(cluster.pods(namespace)):
                    until(lambda before=before: census.ids > before + 2, patience(size), "creations", 0.005)  # type: ignore[misc]
                else:
                    until(lambda: census.now < size, patience(size), "deletions", 0.005)
                run.kill()
        with life(size, "--on-exit", "delete") as run:
            run.agrees(size, patience(size))
            finished(run, census, record)


# --------------------------------------------------------------------------------------- a server that restarts, forgets


def test_the_api_server_restarts_in_mid_flight(
    own_cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    cluster, record, some = own_cluster, tmp_path / "life.jsonl", size // 5
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", "--create-rate", "40", record=record) as run:
        run.tell(f"target {size}")
        until(lambda: census.ids >= some, 60, "some of them", 0.005)
        with cluster.apiserver_down():
            run.tell(f"target {size + some}")
            until(lambda: run.news("api unreachable"), 30, "the server's absence")
        took = run.agrees(size + some, patience(size))
        assert run.news("api back")
        assert run.news("watch repaired")
        if cluster.full:
            with cluster.apiserver_down():  # things are decided while it is away, and pods vanish on its return
                run.tell(f"target {some}")
        run.tell(f"target {some}")
        vanish(cluster, namespace, names(cluster, namespace)[: some // 2])
        run.agrees(some, patience(size))
        print(f"restart: {census.ids} ids for {size + some} pods; the target {took:.1f} s after the server was back")
        finished(run, census, record)


def test_killed_while_the_api_server_is_away(
    own_cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    cluster, record = own_cluster, tmp_path / "life.jsonl"
    whole_only(cluster)
    with Life(cluster, namespace, tmp_path, "--create-rate", "40", target=size, record=record) as run:
        until(lambda: census.ids >= size // 5, 60, "some of them", 0.005)
        with cluster.apiserver_down():
            run.kill()
            with Life(cluster, namespace, tmp_path, target=size, record=record) as early:
                assert early.ended(60) == 4
                assert "Traceback" not in early.complaints()
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=size, record=record) as run:
        run.agrees(size, patience(size))
        finished(run, census, record)


def test_etcd_compacted_under_a_watch(
    own_cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    cluster, record, some = own_cluster, tmp_path / "life.jsonl", size // 5
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=size, record=record) as run:
        run.agrees(size, patience(size))
        cluster.compact()
        vanish(cluster, namespace, names(cluster, namespace)[:some])
        run.agrees(size, patience(size))
        with run.frozen():  # it sleeps while history is made, and forgotten
            vanish(cluster, namespace, names(cluster, namespace)[:some])
            until(lambda: truth(cluster, namespace)["running"] == size - some, 30, "fewer pods")
            cluster.compact()
            cluster.restart_apiserver()
        run.agrees(size, patience(size))
        finished(run, census, record)


def test_a_namespace_that_is_taken_away(
    cluster: Cluster, namespace: str, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    whole_only(cluster)
    with Life(cluster, namespace, tmp_path, target=10) as run:
        run.agrees(10)
        cluster.must("delete", "namespaces", f"/api/v1/namespaces/{namespace}")
        until(lambda: not cluster.pods(namespace), 60, "an empty namespace")
        assert run.process.poll() in (None, 4)
        if run.process.poll() is None:
            assert run.stop() in (0, 4)
        assert "Traceback" not in run.complaints()
    census.no_id_twice()


def test_stop_works_on_what_a_killed_run_left(
    cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    whole_only(cluster)
    record = tmp_path / "life.jsonl"
    with Life(cluster, namespace, tmp_path, target=size, record=record) as run:
        until(lambda: census.ids >= size // 2, 60, "half of them", 0.005)
        run.kill()
    assert left(cluster, namespace)
    swept(cluster, namespace, "--force")
    census.no_id_twice()
    replays(record)
