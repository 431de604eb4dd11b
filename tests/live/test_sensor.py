"""The sensor on a real API server: pods that come, go and vanish; connections cut and frozen; compaction; restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.api import MERGE_PATCH, KubernetesApi, Unreachable
from podtide.adapters.kubernetes.watch.lists import executors_selector
from podtide.adapters.kubernetes.watch.sensor import PodSensor, SensorSettings
from podtide.adapters.notices import Notice, Topic
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated, WatchStimulus
from podtide.domain.protocol.pods import PodRules, PodState
from tests.live.cluster import Cluster
from tests.live.proxy import Proxy
from tests.live.waiting import until

APP = "spark-aaaabbbbccccddddeeeeffff00001111"
NOTICED_S = 1.0
REPAIRED_S = 5.0
PODS = 200
ACTING = SensorSettings()


def pod(number: int, **metadata: Any) -> dict[str, Any]:
    labels = {
        "spark-app-selector": APP, "spark-role": "executor", "spark-exec-id": str(number),
        "spark-exec-resourceprofile-id": "0",
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"app-exec-{number}", "labels": labels, **metadata},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "spark-kubernetes-executor", "image": "none"}]},
    }


class Watcher:
    """A sensor, and what it makes of the cluster: the view that the core would have."""

    def __init__(self, api: KubernetesApi, namespace: str, settings: SensorSettings) -> None:
        self.notices: list[Notice] = []
        self.view = snapshots.empty()
        self.heard: list[WatchStimulus] = []
        self.outcomes: list[Outcome] = []
        self.backwards: list[str] = []
        self._versions: dict[str, int] = {}
        self._api = api
        self._lock = threading.Lock()
        self.sensor = PodSensor(
            api, namespace, executors_selector(APP), self._hear, SystemClock(), self.notices.append, settings
        )

    def _hear(self, stimulus: WatchStimulus) -> None:
        with self._lock:
            self.heard.append(stimulus)
            for manifest in stimulus.pods:
                version = int(manifest.version or 0)
                if version and version < self._versions.get(manifest.uid, 0):
                    self.backwards.append(f"{manifest.name}: {version} after {self._versions[manifest.uid]}")
                self._versions[manifest.uid] = max(version, self._versions.get(manifest.uid, 0))
            if isinstance(stimulus, PodsUpdated):
                for manifest in stimulus.pods:
                    taken = snapshots.update(self.view, manifest, PodRules())
                    assert not isinstance(taken, SparkFault)
                    self.view = taken.view
                return
            if isinstance(stimulus, Outcome):
                self.outcomes.append(stimulus)
                if stimulus.failure is not None:
                    return
            full = snapshots.replace(self.view, stimulus.pods, PodRules(), int(time.monotonic() * 1000))
            assert not isinstance(full, SparkFault)
            self.view = full.view

    def count(self, state: PodState) -> int:
        with self._lock:
            return sum(one.state is state for one in self.view.pods())

    def state(self, number: int) -> PodState | None:
        with self._lock:
            found = [one for one in self.view.pods() if one.number == number]
        return found[0].state if found else None

    def topics(self) -> list[Topic]:
        return [notice.topic for notice in self.notices]

    def lists(self) -> int:
        return sum(isinstance(stimulus, PodsReplaced) for stimulus in self.heard)

    def live(self) -> dict[str, str]:
        """Names and phases of pods that are not deleted."""
        with self._lock:
            return {
                one.manifest.name: str(one.manifest.phase)
                for one in self.view.pods()
                if one.state is not PodState.DELETED
            }


@contextmanager
def watching(
    cluster: Cluster,
    namespace: str,
    settings: SensorSettings = ACTING,
    kubeconfig: Path | None = None,
) -> Iterator[Watcher]:
    api = cluster.api(kubeconfig=kubeconfig)
    watcher = Watcher(api, namespace, settings)
    watcher.sensor.start()
    try:
        until(lambda: watcher.sensor.watching, 10, "a watch")
        yield watcher
        assert watcher.backwards == []
    finally:
        assert watcher.sensor.stop(10)
        api.close()


def create(cluster: Cluster, namespace: str, numbers: range, **metadata: Any) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    with ThreadPoolExecutor(8) as many:
        list(many.map(lambda number: cluster.must("create", "pods", path, pod(number, **metadata)), numbers))


def delete(cluster: Cluster, namespace: str, number: int, **query: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/app-exec-{number}"
    cluster.must("delete", "pods", path, query=list(query.items()))


def truth(cluster: Cluster, namespace: str) -> dict[str, str]:
    return {one["metadata"]["name"]: one["status"]["phase"] for one in cluster.pods(namespace)}


def noticed(watcher: Watcher, number: int, state: PodState) -> float:
    """Seconds until a pod is in a state."""
    began = time.monotonic()
    until(lambda: watcher.state(number) is state, 10, f"pod {number} as {state.value}", every_s=0.01)
    return time.monotonic() - began


def test_two_hundred_pods_come_and_one_that_vanishes_is_noticed_at_once(cluster: Cluster, namespace: str) -> None:
    with (
        cluster.kubelet(namespace, delete_ms=50),
        watching(cluster, namespace, SensorSettings(page=70)) as watcher,
    ):
        create(cluster, namespace, range(1, PODS + 1))
        until(lambda: watcher.count(PodState.RUNNING) == PODS, 60, "all pods running")
        delete(cluster, namespace, 7, gracePeriodSeconds="1")
        assert noticed(watcher, 7, PodState.DELETED) < NOTICED_S
        delete(cluster, namespace, 8, gracePeriodSeconds="0")  # by force: no deletionTimestamp is ever seen
        assert noticed(watcher, 8, PodState.DELETED) < NOTICED_S
        watcher.sensor.request_list(17)
        outcome = until(lambda: watcher.outcomes, what="the list")[0]
        assert (outcome.serial, outcome.found, outcome.failure) == (17, PODS - 2, None)
        assert watcher.live() == truth(cluster, namespace)
        assert watcher.lists() == 1
        assert watcher.topics() == [Topic.LISTED, Topic.WATCHING]


def test_in_shadow_a_pod_that_vanishes_runs_on_until_the_next_list(cluster: Cluster, namespace: str) -> None:
    with (
        cluster.kubelet(namespace, 0, 0),
        watching(cluster, namespace, SensorSettings(faithful=True)) as watcher,
    ):
        create(cluster, namespace, range(1, 4))
        until(lambda: watcher.count(PodState.RUNNING) == 3, 20, "all pods running")
        delete(cluster, namespace, 2, gracePeriodSeconds="0")
        until(lambda: len(truth(cluster, namespace)) == 2, what="the pod's end")
        watcher.sensor.request_list(1)
        until(lambda: watcher.outcomes, what="the list")
        last = [
            one
            for stimulus in watcher.heard
            if isinstance(stimulus, PodsUpdated)
            for one in stimulus.pods
            if one.name == "app-exec-2"
        ][-1]
        assert last.phase == "Running"
        assert watcher.state(2) is None


def test_a_finished_pod_that_is_labelled_inactive_is_looked_after_no_more(cluster: Cluster, namespace: str) -> None:
    with cluster.kubelet(namespace, 0) as kubelet, watching(cluster, namespace) as watcher:
        create(cluster, namespace, range(1, 2))
        until(lambda: watcher.state(1) is PodState.RUNNING, 20, "a running pod")
        kubelet.finish("app-exec-1", "Failed", 1)
        until(lambda: watcher.state(1) is PodState.FAILED, 20, "a failed pod")
        label = {"metadata": {"labels": {"spark-exec-inactive": "true"}}}
        path = f"/api/v1/namespaces/{namespace}/pods/app-exec-1"
        cluster.must("patch", "pods", path, label, content_type=MERGE_PATCH)
        assert noticed(watcher, 1, PodState.DELETED) < NOTICED_S


def test_a_cut_connection_is_repaired_and_no_event_is_lost(cluster: Cluster, namespace: str) -> None:
    with (
        Proxy(cluster.address) as proxy,
        watching(cluster, namespace, kubeconfig=cluster.via(proxy.port)) as watcher,
    ):
        create(cluster, namespace, range(1, 6))
        until(lambda: len(watcher.live()) == 5, what="five pods")
        for turn in range(5):
            proxy.refuse()
            assert proxy.cut() >= 1
            create(cluster, namespace, range(10 * (turn + 1), 10 * (turn + 1) + 3))
            delete(cluster, namespace, turn + 1, gracePeriodSeconds="0")
            until(lambda: not watcher.sensor.watching, what="a broken watch")
            began = time.monotonic()
            proxy.resume()
            until(lambda: watcher.live() == truth(cluster, namespace), 10, "the truth")
            assert time.monotonic() - began < REPAIRED_S
        assert watcher.lists() == 1, "it goes on where it was"
        until(lambda: watcher.topics()[-1] is Topic.WATCH_REPAIRED, what="the repair said aloud")
        assert watcher.topics().count(Topic.WATCH_BROKEN) == watcher.topics().count(Topic.WATCH_REPAIRED) <= 5


def test_a_frozen_connection_is_found_by_its_silence(cluster: Cluster, namespace: str) -> None:
    settings = SensorSettings(silence_s=2.0, list_timeout_s=2.0)
    with (
        Proxy(cluster.address) as proxy,
        watching(cluster, namespace, settings, cluster.via(proxy.port)) as watcher,
    ):
        create(cluster, namespace, range(1, 4))
        until(lambda: len(watcher.live()) == 3, what="three pods")
        proxy.freeze()
        create(cluster, namespace, range(4, 7))
        until(lambda: Topic.WATCH_BROKEN in watcher.topics(), 4, "silence noticed")
        watcher.sensor.request_list(5)
        failed = until(lambda: watcher.outcomes, 20, "the list's failure")[0]
        assert failed.failure is not None
        assert failed.failure.status is None
        began = time.monotonic()
        proxy.cut()
        proxy.resume()
        until(lambda: watcher.live() == truth(cluster, namespace), 10, "the truth")
        assert time.monotonic() - began < REPAIRED_S
        assert watcher.lists() == 1


def test_a_place_that_no_history_has_ends_in_a_fresh_list(cluster: Cluster, namespace: str) -> None:
    with Proxy(cluster.address) as proxy, watching(cluster, namespace, kubeconfig=cluster.via(proxy.port)) as watcher:
        create(cluster, namespace, range(1, 3))
        until(lambda: len(watcher.live()) == 2, what="two pods")
        # A place that no history has: the next watch goes on from there.
        watcher.sensor._known.version = "not-a-version"
        watcher.sensor._known.floor = None
        proxy.cut()
        until(lambda: watcher.lists() == 2, REPAIRED_S, "a fresh list")
        create(cluster, namespace, range(3, 4))
        until(lambda: watcher.live() == truth(cluster, namespace), REPAIRED_S, "the truth")


def test_compacted_history_ends_in_a_fresh_list(own_cluster: Cluster) -> None:
    cluster, namespace = own_cluster, own_cluster.namespace()
    with Proxy(cluster.address) as proxy, watching(cluster, namespace, kubeconfig=cluster.via(proxy.port)) as watcher:
        create(cluster, namespace, range(1, 6))
        until(lambda: len(watcher.live()) == 5, what="five pods")
        proxy.refuse()
        proxy.cut()
        until(lambda: not watcher.sensor.watching, what="a broken watch")
        delete(cluster, namespace, 2, gracePeriodSeconds="0")
        create(cluster, namespace, range(6, 9))
        cluster.compact()
        cluster.restart_apiserver()  # its cache remembers what etcd has forgotten
        began = time.monotonic()
        proxy.resume()
        until(lambda: watcher.live() == truth(cluster, namespace), 10, "the truth")
        assert time.monotonic() - began < 2 * REPAIRED_S
        assert watcher.sensor.counters.expired == 1
        assert watcher.lists() == 2
        vanished, listed = watcher.heard[-2:]  # the pod that went is said to be deleted before a list is without it
        assert isinstance(vanished, PodsUpdated)
        assert isinstance(listed, PodsReplaced)
        assert [(one.name, one.phase) for one in vanished.pods] == [("app-exec-2", None)]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_an_api_server_that_is_restarted_under_a_watch(own_cluster: Cluster, kill: bool) -> None:
    cluster, namespace = own_cluster, own_cluster.namespace()
    if not kill and not cluster.full:
        pytest.skip(
            "an API server that is asked to stop takes a minute to end its watches: PODTIDE_LIVE=full does this"
        )
    with watching(cluster, namespace) as watcher:
        create(cluster, namespace, range(1, 6))
        until(lambda: len(watcher.live()) == 5, what="five pods")
        with cluster.apiserver_down(kill=kill):
            until(lambda: Topic.API_UNREACHABLE in watcher.topics(), 20, "the server's absence")
            with pytest.raises(Unreachable):
                cluster.call("list", "pods", "/api/v1/pods")
        create(cluster, namespace, range(6, 9))
        delete(cluster, namespace, 3, gracePeriodSeconds="0")
        until(lambda: watcher.live() == truth(cluster, namespace), 2 * REPAIRED_S, "the truth")
        assert watcher.topics().count(Topic.WATCH_BROKEN) == 1
        assert [Topic.API_BACK in watcher.topics(), Topic.WATCH_REPAIRED in watcher.topics()] == [True, True]
