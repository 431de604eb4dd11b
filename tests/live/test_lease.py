"""The lease on a real API server: two instances, a killed one, a deleted lease, missing rights, a server that goes away."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.lease.identity import Identity, own_identity
from podtide.adapters.kubernetes.lease.lease import ApplicationLease
from podtide.adapters.kubernetes.lease.record import Acquired, HeldBy, LeaseRefused, LeaseSettings
from podtide.adapters.notices import Notice, Topic
from tests.live.cluster import Cluster, until
from tests.support.project import PROJECT

APP = "spark-5e55e55e55e55e55e55e55e55e55e55e"
ELSEWHERE = Identity("elsewhere", 1, "1", "1", "0f")
"""An instance on another machine: nobody here can prove it dead."""

QUICK = LeaseSettings(duration_s=3, renew_every_s=1.0, retry_s=0.2, margin_s=1.0)
LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}


def lease_of(
    cluster: Cluster,
    namespace: str,
    identity: Identity,
    notices: list[Notice] | None = None,
    settings: LeaseSettings = QUICK,
    who: str = "admin",
) -> ApplicationLease:
    notify = (lambda _: None) if notices is None else notices.append
    return ApplicationLease(cluster.api(who), namespace, APP, identity, SystemClock(), notify, settings)


def _renewed(cluster: Cluster, namespace: str, lease: ApplicationLease) -> str:
    return str(cluster.must("get", "leases", path_of(namespace, lease))["spec"]["renewTime"])


def path_of(namespace: str, lease: ApplicationLease) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease.name}"


def test_a_second_instance_is_refused_until_the_first_releases(cluster: Cluster, namespace: str) -> None:
    first, second = lease_of(cluster, namespace, own_identity()), lease_of(cluster, namespace, ELSEWHERE)
    assert first.acquire() == Acquired({}, 0, 0, None)
    first.start()
    held = second.acquire()
    assert isinstance(held, HeldBy)
    assert held.identity == own_identity()
    assert first.reserve(12)
    assert first.set_fact("pod-name-prefix", "etl-77")
    assert isinstance(second.acquire(wait_s=4), HeldBy), "it is renewed, so it lasts"
    assert first.valid()
    assert first.release(used_id=12) is None
    assert second.acquire() == Acquired({"pod-name-prefix": "etl-77"}, 12, 1, None)
    stored = cluster.must("get", "leases", path_of(namespace, second))
    assert stored["metadata"]["labels"] == {"spark-app-selector": APP, "app.kubernetes.io/managed-by": "podtide"}
    assert second.release(delete=True) is None
    assert cluster.call("get", "leases", path_of(namespace, second)).status == 404


def test_an_instance_that_is_silent_is_followed_after_the_duration(cluster: Cluster, namespace: str) -> None:
    silent, next_one = lease_of(cluster, namespace, ELSEWHERE), lease_of(cluster, namespace, own_identity())
    silent.acquire()
    silent.reserve(1)
    began = time.monotonic()
    found = next_one.acquire(wait_s=20)
    assert isinstance(found, Acquired)
    assert 3 <= time.monotonic() - began < 5
    assert found.last_id == 1_001
    assert not silent.valid()
    assert not silent.reserve(1_002, timeout_s=2)
    assert silent.lost.is_set()


HOLDER = """
import sys
from podtide.adapters.kubernetes.api import connect
from podtide.adapters.kubernetes.lease.lease import ApplicationLease
from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.lease.identity import own_identity
lease = ApplicationLease(connect(sys.argv[1]), sys.argv[2], sys.argv[3], own_identity(), SystemClock(), lambda _: None)
found = lease.acquire()
lease.start()
lease.reserve(found.last_id + 1)
print(found.last_id + 1, flush=True)
sys.stdin.read()
"""


def test_one_that_was_killed_on_this_machine_is_followed_at_once_and_no_id_comes_twice(
    cluster: Cluster, namespace: str
) -> None:
    used = []
    began = time.monotonic()
    for _ in range(10 if cluster.full else 3):
        child = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(cluster.admin), namespace, APP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(PROJECT / ".typing"), "PATH": "/usr/bin:/bin"},
        )
        assert child.stdout is not None
        used.append(int(child.stdout.readline()))
        child.kill()
        child.communicate()
    assert sorted(set(used)) == used
    found = lease_of(cluster, namespace, own_identity()).acquire()
    assert isinstance(found, Acquired)
    assert found.last_id >= used[-1]
    assert time.monotonic() - began < 60, "none of them waited for a lease to end"


def test_of_many_that_start_at_once_one_is_in_charge(cluster: Cluster, namespace: str) -> None:
    leases = [lease_of(cluster, namespace, ELSEWHERE._replace(boot=f"{number:x}")) for number in range(8)]
    found: list[object] = []
    threads = [threading.Thread(target=lambda one=one: found.append(one.acquire())) for one in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(one, Acquired) for one in found) == 1, found
    assert sum(isinstance(one, HeldBy) for one in found) == 7, found
    assert sum(lease.valid() for lease in leases) == 1


@pytest.mark.parametrize("missing", ["get", "create", "update", "delete"])
def test_a_missing_verb_is_named(cluster: Cluster, namespace: str, missing: str) -> None:
    cluster.role(
        namespace, [{**LEASES, "verbs": [verb for verb in ("get", "create", "update", "delete") if verb != missing]}]
    )
    lease = lease_of(cluster, namespace, own_identity(), who="driver")
    if missing == "delete":
        assert isinstance(lease.acquire(), Acquired)
        said = lease.release(delete=True, timeout_s=1)
    elif missing == "update":
        assert isinstance(lease.acquire(), Acquired), "it was made by a create"
        assert not lease.reserve(1, timeout_s=1)
        refused = lease_of(cluster, namespace, own_identity(), who="driver").acquire()
        assert isinstance(refused, LeaseRefused)
        said = refused.why
    else:
        refused = lease.acquire()
        assert isinstance(refused, LeaseRefused)
        said = refused.why
    assert f'(RBAC: verb {missing}, resource leases, API group "coordination.k8s.io")' in str(said)


def test_a_namespace_that_does_not_exist_is_said(cluster: Cluster) -> None:
    refused = lease_of(cluster, "podtide-nowhere", own_identity()).acquire()
    assert isinstance(refused, LeaseRefused)
    assert 'namespaces "podtide-nowhere" not found' in refused.why


def test_a_lease_that_somebody_deleted_is_lost_and_not_made_again(cluster: Cluster, namespace: str) -> None:
    notices: list[Notice] = []
    lease = lease_of(cluster, namespace, own_identity(), notices)
    lease.acquire()
    lease.start()
    cluster.must("delete", "leases", path_of(namespace, lease))
    assert lease.lost.wait(10)
    assert notices[-1].topic is Topic.LEASE_LOST
    assert cluster.call("get", "leases", path_of(namespace, lease)).status == 404
    lease.stop()


def test_what_others_write_into_it_stays(cluster: Cluster, namespace: str) -> None:
    lease = lease_of(cluster, namespace, own_identity())
    lease.acquire()
    patch = {"metadata": {"labels": {"team": "etl"}, "annotations": {"note": "ours"}}}
    cluster.must("patch", "leases", path_of(namespace, lease), patch, content_type="application/merge-patch+json")
    assert lease.reserve(1)
    metadata = cluster.must("get", "leases", path_of(namespace, lease))["metadata"]
    assert metadata["labels"]["team"] == "etl"
    assert metadata["annotations"]["note"] == "ours"
    assert metadata["annotations"]["podtide.io/executor-ids"] == "1001"
    assert not lease.lost.is_set()


def test_while_the_server_is_away_nothing_is_valid_and_afterwards_it_is_again(
    own_cluster: Cluster, namespace: str
) -> None:
    notices: list[Notice] = []
    lease = lease_of(own_cluster, namespace, own_identity(), notices)
    lease.acquire()
    lease.start()
    with own_cluster.apiserver_down():
        until(lambda: not lease.valid(), 10, "the end of its validity")
        assert not lease.reserve(5, timeout_s=0.5)
    until(lease.valid, 20, "the renewal")
    assert not lease.lost.is_set()
    assert lease.reserve(5)
    assert Topic.LEASE_RENEWED_LATE in {one.topic for one in notices}
    assert lease.release() is None


def test_the_steady_state_is_a_put_now_and_then(cluster: Cluster, namespace: str) -> None:
    if cluster.audit is None:
        pytest.skip("this server keeps no audit log that could be read")
    settings = LeaseSettings(duration_s=2, renew_every_s=0.5, retry_s=0.1, margin_s=0.5)
    lease = lease_of(cluster, namespace, own_identity(), settings=settings)
    lease.acquire()
    began = time.time()
    lease.start()
    for _ in range(3):
        before = _renewed(cluster, namespace, lease)
        until(lambda before=before: _renewed(cluster, namespace, lease) != before, 5, "a renewal")  # type: ignore[misc]
    lease.stop()
    counts = cluster.audit.counts(cluster, began, namespace=namespace)
    assert counts["update", "leases"] in (3, 4)
