"""The measurements, each with pods of its own in a namespace of its own, and nothing left in it afterwards.

``create_and_stop``: how fast pods are created, and what is there after the end. On a real cluster kubelets and scheduler
work on other machines, so here the hollow one begins when all pods have been created; in the other rounds it is there all
along. ``steady``: both rivals side by side, as neither has anything to do; then pods vanish; then Spark's driver is killed
and ``podtide stop`` cleans up after it. ``crowd``: what the process costs with thousands of pods.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis
from tests.live.cluster import Cluster
from tests.live.kubelet import Kubelet
from tests.live.proxy import Proxy

from .counting import Creates, Left, Traffic, Usage, creates, left, noticed, settled, traffic, usage
from .rivals import RIGHTS, Podtide, Rival, Spark, podtide_stop

START_MS: Final[Millis] = 1_000
DELETE_MS: Final[Millis] = 500
GRACE_S: Final = 20.0
"""How long terminating pods are waited for before what is left is counted."""

CALM_S: Final = 5.0
"""Between the last pod's start and the beginning of the steady state."""

NOTHING: Final = Left(0, 0)

Make = Callable[[Path, str, Path, int, int], Rival]
"""Kubeconfig, namespace, folder, target, batch size."""


class Stuck(Exception):
    """A rival did not get where it should within the time; says how far it got."""


class Round(NamedTuple):
    """One rival from nothing to its target and back to nothing. ``load``: of the machine, before it began."""

    rival: str
    creates: Creates
    usage: Usage
    stop_s: float
    at_stop: Left
    later: Left
    load: float


@dataclass
class Steady:
    """What both rivals did while there was nothing to do, and when pods vanished, by name."""

    pods: int
    seconds: float
    traffic: dict[str, Traffic] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    noticed: dict[str, list[float]] = field(default_factory=dict)
    killed: Left = NOTHING
    swept: Left = NOTHING
    swept_s: float = 0.0
    load: float = 0.0


class Crowd(NamedTuple):
    """A rival with thousands of pods: while they came up, and over ``seconds`` in the steady state."""

    rival: str
    pods: int
    creates: Creates
    up_s: float
    up: Usage
    seconds: float
    cpu_s: float
    steady: Usage
    stop_s: float
    later: Left
    load: float


class Field:
    """Where the rounds take place. ``say`` tells people what is going on."""

    def __init__(self, cluster: Cluster, work: Path, spark_python: str, say: Callable[[str], None]) -> None:
        assert cluster.audit is not None
        self.cluster, self.audit, self.work, self.say = cluster, cluster.audit, work, say
        self._python = spark_python
        self._rounds = 0

    def spark(self, kubeconfig: Path, namespace: str, folder: Path, target: int, batch: int) -> Spark:
        """A driver, not yet started."""
        return Spark(self._python, kubeconfig, namespace, folder, target, batch)

    def podtide(self, kubeconfig: Path, namespace: str, folder: Path, target: int, batch: int) -> Podtide:
        """A run, not yet started."""
        return Podtide(kubeconfig, namespace, folder, target, batch)

    @contextmanager
    def place(self) -> Iterator[tuple[str, Path]]:
        """A namespace with its Role, and a folder; what is in the namespace is gone afterwards."""
        self._rounds += 1
        namespace = self.cluster.namespace()
        self.cluster.role(namespace, RIGHTS)
        try:
            yield namespace, self.work / f"round-{self._rounds}"
        finally:
            self.cluster.tidy()

    def kubelet(self, namespace: str) -> AbstractContextManager[Kubelet]:
        """The hollow kubelet of a namespace."""
        return self.cluster.kubelet(namespace, START_MS, DELETE_MS)

    # rounds

    def create_and_stop(self, make: Make, target: int, batch: int) -> Round:
        """From nothing to the target and back."""
        load = os.getloadavg()[0]
        with self.place() as (namespace, folder):
            since = time.time()
            with make(self.cluster.driver, namespace, folder, target, batch) as rival:
                self._created(namespace, rival, target)
                used = usage(rival.pid)
                with self.kubelet(namespace) as kubelet:
                    _up(kubelet, rival, target)
                    stop_s = rival.stop()
                    at_stop = left(self.cluster, namespace)
                    later = settled(self.cluster, namespace, GRACE_S)
                    if later.pods:
                        podtide_stop(rival.app_id, self.cluster.driver, namespace)
            made = creates(self.audit.requests(self.cluster, since, namespace=namespace), target)
            self.say(
                f"{rival.name}: {made.pods} pods in {made.seconds:.1f} s ({made.per_second:.0f}/s), {used.cpu_s:.1f} CPU s; "
                f"stop {stop_s:.1f} s, then {at_stop.pods} there, later {later.abandoned} (load {load:.1f})"
            )
            return Round(rival.name, made, used, stop_s, at_stop, later, load)

    def _created(self, namespace: str, rival: Rival, target: int) -> None:
        """Wait until so many pods exist, whatever they do. Raises Stuck."""
        end = time.monotonic() + _most_s(target)
        path = f"/api/v1/namespaces/{namespace}/pods"
        while True:
            found = self.cluster.must("list", "pods", path, query=[("limit", "1")])
            count = len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))
            if count >= target:
                return
            if time.monotonic() > end:
                raise Stuck(f"{rival.name} created {count} of {target} pods in {_most_s(target):.0f} s")
            usage(rival.pid)  # OSError where it has ended
            time.sleep(0.25)

    def steady(self, target: int, batch: int, seconds: float, vanish: int) -> Steady:
        """Both side by side: their calls while nothing happens, when they notice vanished pods, and the end."""
        result = Steady(target, seconds, load=os.getloadavg()[0])
        with ExitStack() as stack:
            since = time.time()
            there: list[tuple[Rival, str, Kubelet, Proxy]] = []
            spark: Spark | None = None
            makes: tuple[Make, ...] = (self.podtide, self.spark)
            for make in makes:
                namespace, folder = stack.enter_context(self.place())
                kubelet = stack.enter_context(self.kubelet(namespace))
                proxy = stack.enter_context(Proxy(self.cluster.address))
                via = self.cluster.via(proxy.port, "driver")
                rival = stack.enter_context(make(via, namespace, folder, target, batch))
                spark = rival if isinstance(rival, Spark) else spark
                _up(kubelet, rival, target)
                there.append((rival, namespace, kubelet, proxy))
            assert spark is not None
            time.sleep(CALM_S)
            self.say(f"both hold {target} running pods; watching them for {seconds:g} s")
            before = {rival.name: (usage(rival.pid).cpu_s, proxy.sent, proxy.received) for rival, _, _, proxy in there}
            began = time.time()
            time.sleep(seconds)
            ended = time.time()
            bytes_of: dict[str, tuple[int, int]] = {}
            for rival, _, _, proxy in there:
                cpu_s, sent, received = before[rival.name]
                now = usage(rival.pid)
                result.usage[rival.name], result.cpu_s[rival.name] = now, now.cpu_s - cpu_s
                bytes_of[rival.name] = (proxy.sent - sent, proxy.received - received)
            self.say(f"{vanish} pods of each vanish, one after the other")
            gone = self._vanish([(rival.name, namespace) for rival, namespace, _, _ in there], target, vanish)
            for rival, _, kubelet, _ in there:
                _up(kubelet, rival, target)
            spark.die()
            _, spark_namespace, _, _ = there[1]
            time.sleep(1.0)
            result.killed = left(self.cluster, spark_namespace)
            result.swept_s = podtide_stop(spark.app_id, self.cluster.driver, spark_namespace)
            result.swept = left(self.cluster, spark_namespace)
            there[0][0].stop()
            for rival, namespace, _, _ in there:  # a watch stands in the log when it has ended
                requests = self.audit.requests(self.cluster, since, namespace=namespace)
                result.traffic[rival.name] = traffic(requests, began, ended, *bytes_of[rival.name])
                result.noticed[rival.name] = noticed(gone[rival.name], requests)
        return result

    def _vanish(self, rivals: list[tuple[str, str]], target: int, count: int) -> dict[str, list[float]]:
        """Delete running pods without grace, a pod of each rival every 1.7 s; when that was asked, in epoch seconds.

        A rival that has more pods than its target misses none of those: they are deleted before.
        """
        running = {
            name: [
                pod["metadata"]["name"]
                for pod in self.cluster.pods(namespace, "spark-role=executor")
                if pod["status"].get("phase") == "Running"
            ]
            for name, namespace in rivals
        }
        for name, namespace in rivals:
            while len(running[name]) > target:
                self._delete(namespace, running[name].pop())
        gone: dict[str, list[float]] = {name: [] for name, _ in rivals}
        for _ in range(count):
            for name, namespace in rivals:
                gone[name].append(time.time())
                self._delete(namespace, running[name].pop())
            time.sleep(1.7)  # no divisor of anybody's interval
        return gone

    def _delete(self, namespace: str, pod: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        self.cluster.must("delete", "pods", path, query=[("gracePeriodSeconds", "0")])

    def crowd(self, make: Make, target: int, batch: int, seconds: float) -> Crowd:
        """Many pods, and what the process costs."""
        load = os.getloadavg()[0]
        with self.place() as (namespace, folder), self.kubelet(namespace) as kubelet:
            since = time.time()
            with make(self.cluster.driver, namespace, folder, target, batch) as rival:
                up_s = _up(kubelet, rival, target)
                up = usage(rival.pid)
                time.sleep(CALM_S)
                before = usage(rival.pid)
                time.sleep(seconds)
                after = usage(rival.pid)
                stop_s = rival.stop()
            later = settled(self.cluster, namespace, GRACE_S)
            made = creates(self.audit.requests(self.cluster, since, namespace=namespace), target)
            self.say(
                f"{rival.name}: {target} pods up after {up_s:.0f} s with {up.cpu_s:.1f} CPU s ({made.per_second:.0f}/s); "
                f"{after.cpu_s - before.cpu_s:.2f} CPU s in {seconds:g} s; stop {stop_s:.0f} s, {later.pods} left"
            )
            return Crowd(
                rival.name, target, made, up_s, up, seconds, after.cpu_s - before.cpu_s, after, stop_s, later, load
            )  # fmt: skip


def _up(kubelet: Kubelet, rival: Rival, target: int) -> float:
    """Wait until so many pods run; the seconds that took. Raises Stuck."""
    began = time.monotonic()
    most_s = _most_s(target)
    while (running := kubelet.running()) < target:
        if time.monotonic() - began > most_s:
            raise Stuck(f"{rival.name}: {running} instead of {target} running after {most_s:.0f} s")
        usage(rival.pid)  # OSError where it has ended
        time.sleep(0.1)
    return time.monotonic() - began


def _most_s(target: int) -> float:
    """How long so many pods may take: on a machine that is busy Spark makes ten a second."""
    return 120.0 + target / 5.0
