"""The lease on a real API server: two instances, a killed one, a deleted lease, missing rights, a server that goes away."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

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


def test_a_namespace_that_does_not_exist_is_said(cluster: Cluster) -> None:
    refused = lease_of(cluster, "podtide-nowhere", own_identity()).acquire()
    assert isinstance(refused, LeaseRefused)
    assert 'namespaces "podtide-nowhere" not found' in refused.why


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
