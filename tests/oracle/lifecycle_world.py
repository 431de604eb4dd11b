"""A random cluster around the lifecycle manager, in closed loop with the judge: pods that end in every way.

Watches bring single pods, polls whole lists, and either may miss something. The driver registers executors, and forgets
those that the manager removes, soon or late. Pods that cannot be described (a container without a state, a pod without a
status) make a round throw; which other pods came before it is then an accident of hashing, so they stand only in scenarios
of four pods at most, where Spark's map keeps its order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.world import Answers, Line, Sink

BEGIN_MS: Final = 1_000_000
SPARK: Final = "spark-kubernetes-executor"
EXECUTOR: Final = "spark.kubernetes.executor."
CODES: Final = (0, 1, 1, 10, 42, 50, 52, 53, 126, 137, 137, 139, 143, 255, -1)
REASONS: Final = ("Evicted", "NodeLost", "OOMKilled", "", "UnexpectedAdmissionError")
MESSAGES: Final = ("The node was low on resource: memory.", "", "a\n   | b\n|c", "pod | pipe", "tab\t|x", "ünïcode")
ORDERED_MAX: Final = 4
"""So many entries keep the order of their insertion in Scala's immutable map."""


@dataclass(frozen=True)
class LifecycleSetting:
    """A scenario's header, and what of it the world and the coverage need."""

    header: Line
    container: str
    few: bool
    delta_ms: int
    deletes: bool


def draw_setting(r: random.Random) -> LifecycleSetting:
    """Draw a conf."""
    conf: dict[str, str] = {}
    few = r.random() < 0.25
    how = r.random()
    if how < 0.45:
        conf["spark.executor.maxNumFailures"] = str(r.choice((1, 1, 2, 3) if few else (1, 2, 5, 15, 100)))
    elif how < 0.65:
        conf["spark.dynamicAllocation.enabled"] = "true"
        conf["spark.dynamicAllocation.maxExecutors"] = str(r.choice((1, 4, 20, 1_073_741_824)))
    elif how < 0.8:
        conf["spark.executor.instances"] = str(r.choice((1, 3, 9)))
    if r.random() < 0.5:
        conf["spark.executor.failuresValidityInterval"] = f"{r.choice((3, 10, 60))}s"
    deletes = r.random() < 0.65
    if not deletes:
        conf[EXECUTOR + "deleteOnTermination"] = "false"
    if r.random() < 0.75:
        conf[EXECUTOR + "deletedExecutorsCacheTimeout"] = f"{r.choice((0, 2, 5, 20, 180))}s"
    delta = r.choice((1_000, 4_000, 30_000))
    if r.random() < 0.75:
        conf[EXECUTOR + "missingPodDetectDelta"] = f"{delta}ms"
    else:
        delta = 30_000
    if r.random() < 0.3:
        conf[EXECUTOR + "checkAllContainers"] = "false"
    if r.random() < 0.15:
        conf[EXECUTOR + "eventProcessingInterval"] = r.choice(("500ms", "2s"))
    container = SPARK
    if r.random() < 0.2:
        container = conf[EXECUTOR + "podTemplateContainerName"] = "main"
    header: Line = {"conf": conf, "appId": r.choice(("app-1", "spark-7")), "startAt": BEGIN_MS}
    return LifecycleSetting(header, container, few, delta, deletes)


class LifecycleWorld:
    """One scenario being made."""

    def __init__(self, r: random.Random, sink: Sink, setting: LifecycleSetting) -> None:
        self.r = r
        self.now = BEGIN_MS
        self._sink = sink
        self._setting = setting
        self._most = ORDERED_MAX if setting.few else r.choice((3, 8, 16))
        self._missed = r.choice((0, 0.1, 0.4))
        self._polls = r.choice((0.1, 0.3, 0.6))
        self._deaths = r.choice((0.04, 0.12, 0.3))
        self._pods: dict[int, Line] = {}
        self._news: list[Line] = []
        self._last = 0
        self._registered: dict[int, int] = {}
        self._active: set[int] = set()
        self._told: tuple[dict[int, int], set[int]] = ({}, set())
        self._leaving: set[int] = set()
        self._failing: set[str] = set()
        self._poll_at = 0
        self._exited = False

    def run(self, steps: int) -> None:
        """Play the scenario; once Spark wants to exit, only a few rounds more."""
        self._ask(self._setting.header)
        left = steps
        while left > 0:
            left -= 1
            self.now += self.r.choice(
                (1000, 1000, 1000, 500, 2000, 2000, 5000, 25_000 if self.r.random() < 0.2 else 1000)
            )
            self._cluster()
            line: Line = {"at": self.now}
            self._driver(line)
            self._api(line)
            if self.r.random() < 0.02:
                line["registerFailures"] = self.r.randint(1, 3)
            snapshots = self._snapshots()
            if snapshots or self.r.random() < 0.6:
                line["snapshots"] = snapshots
            self._ask(line)
            if self._exited:
                left = min(left, 3)

    # ---- the cluster

    def _cluster(self) -> None:
        r = self.r
        while (
            len(self._pods) < self._most and r.random() < 0.6 and not (self._setting.few and self._last >= ORDERED_MAX)
        ):
            self._last += 1
            pod: Line = {"id": self._last, "phase": "Pending"}
            if r.random() < 0.7:
                pod["restartPolicy"] = "Never"
            if r.random() < 0.1:
                pod["rp"] = r.choice((1, 2))
            self._pods[self._last] = pod
            self._tell(self._last)
        for number, pod in list(self._pods.items()):
            if pod["phase"] == "Pending" and "deletionTimestamp" not in pod:
                if r.random() < 0.5:
                    pod["phase"] = "Running"
                    if r.random() < 0.8:
                        pod["containers"] = self._containers(None)
                    self._tell(number)
            elif pod["phase"] == "Running" and "deletionTimestamp" not in pod:
                if number not in self._registered and number not in self._leaving and r.random() < 0.7:
                    self._registered[number] = self.now - r.choice((0, 0, 300, 2_000))
                    self._active.add(number)
                if r.random() < self._deaths:
                    self._end(pod)
                    self._tell(number)
                elif r.random() < 0.04:
                    del self._pods[number]  # and no watch tells
            elif r.random() < 0.2:
                if r.random() < 0.5:
                    pod["deletionTimestamp"] = self.now // 1000 * 1000
                    self._tell(number)
                else:
                    del self._pods[number]

    def _tell(self, number: int) -> None:
        if self.r.random() >= self._missed:
            self._news.append(dict(self._pods[number]))

    def _end(self, pod: Line) -> None:
        r = self.r
        if r.random() < 0.35:
            pod["reason"] = r.choice(REASONS)
        if r.random() < 0.35:
            pod["message"] = r.choice(MESSAGES)
        if r.random() < 0.03:
            pod["inactive"] = True  # by somebody else: Spark labels only what has ended
        ways: list[Any] = [self._failed, self._failed, self._succeeded, self._container_ended, self._sidecar_failed]
        ways += [self._odd_phase, self._deleted, self._deleted]
        if self._setting.few:
            ways += [self._indescribable] * 2
        r.choice(ways)(pod)

    def _failed(self, pod: Line) -> None:
        pod["phase"] = "Failed"
        pod["containers"] = self._containers(self.r.choice(CODES)) if self.r.random() < 0.85 else []

    def _succeeded(self, pod: Line) -> None:
        pod["phase"] = "Succeeded"
        pod["containers"] = self._containers(0)

    def _container_ended(self, pod: Line) -> None:
        pod["containers"] = self._containers(self.r.choice(CODES))
        if self.r.random() < 0.3:
            pod["deletionTimestamp"] = self.now // 1000 * 1000

    def _sidecar_failed(self, pod: Line) -> None:
        pod["restartPolicy"] = "Never"
        code = self.r.choice((0, 1, 2, None if self._setting.few else 3))
        pod["containers"] = [*self._containers(None), {"name": "sidecar", "state": "terminated", "exitCode": code}]

    def _odd_phase(self, pod: Line) -> None:
        pod["phase"] = self.r.choice(("Unknown", "Terminating", "FAILED", "succeeded"))

    def _deleted(self, pod: Line) -> None:
        pod["deletionTimestamp"] = self.now // 1000 * 1000
        if self.r.random() < 0.7:
            pod["phase"] = self.r.choice(("Failed", "Succeeded", "Pending"))
        if self.r.random() < 0.4:
            pod["containers"] = self._containers(self.r.choice(CODES))

    def _indescribable(self, pod: Line) -> None:
        """What makes Spark throw, in a round or while the snapshot is made."""
        match self.r.randrange(4):
            case 0:
                pod["deletionTimestamp"] = self.now
                pod["noStatus"] = True
            case 1:
                pod["phase"] = "Failed"
                pod["containers"] = [{"name": self._setting.container, "state": None}]
            case 2:
                pod["phase"] = "Failed"
                pod["containers"] = [{"name": self._setting.container, "state": "terminated", "exitCode": None}]
            case _:
                pod["noStatus"] = True

    def _containers(self, code: int | None) -> list[Line]:
        """The Spark container, ended with a code or not, and perhaps others before or after it."""
        r = self.r
        ours: Line = {"name": self._setting.container, "image": "img:1"}
        if code is not None:
            ours |= {"exitCode": code, "startedAt": "2024-01-01T00:00:00Z"}
            ours["reason"] = r.choice(("Error", "OOMKilled", "Completed", None))
            ours["finishedAt"] = r.choice(("2024-01-01T00:01:00Z", None))
        elif r.random() < 0.75:
            ours |= {"state": "running", "startedAt": r.choice(("2024-01-01T00:00:00Z", None))}
        else:
            ours |= {"state": r.choice(("waiting", "none")), "reason": "CrashLoopBackOff"}
        containers = [ours]
        while r.random() < 0.35:
            other: Line = {"name": f"side{len(containers)}", "image": r.choice(("s:1", None))}
            match r.randrange(4):
                case 0:
                    other["exitCode"] = r.choice((0, 0, 3))
                case 1:
                    other |= {"state": "waiting", "reason": r.choice(("ImagePullBackOff", None))}
                case 2:
                    other["state"] = "none"
                case _:
                    other["state"] = "running"
            containers.append(other)
        if r.random() < 0.2:
            containers.append({"name": self._setting.container, "exitCode": 77})  # the name twice: the first counts
        if r.random() < 0.25:
            r.shuffle(containers)
        return containers

    # ---- what is put into a line

    def _driver(self, line: Line) -> None:
        r = self.r
        for number in list(self._leaving):
            if r.random() < 0.6:
                self._leaving.discard(number)
                self._registered.pop(number, None)
                self._active.discard(number)
        if self._active and r.random() < 0.06:
            self._active.discard(r.choice(sorted(self._active)))
        if r.random() < 0.02:
            self._registered[900 + r.randint(0, 3)] = self.now - r.randint(0, 40_000)  # a pod that nobody has seen
        registered, active = dict(self._registered), set(self._active)
        if registered != self._told[0]:
            line["registered"] = {str(number): at for number, at in registered.items()}
        if active != self._told[1]:
            line["active"] = [str(number) for number in sorted(active)]
        self._told = (registered, active)

    def _api(self, line: Line) -> None:
        r = self.r
        for key in ("failGets", "failDeletes", "failPatches"):
            if key in self._failing:
                if r.random() < 0.5:
                    self._failing.discard(key)
                    line[key] = []
            elif r.random() < 0.04:
                self._failing.add(key)
                line[key] = r.choice((["*"], sorted(self._pods)[:3]))
                if r.random() < 0.5:
                    line["failCode"] = r.choice((403, 404, 409, 500, 503))
        if self._pods and r.random() < 0.05:
            line["api"] = {str(r.choice(sorted(self._pods))): r.choice(("gone", "deleting", "present"))}

    def _snapshots(self) -> list[Line]:
        r = self.r
        snapshots: list[Line] = []
        for i in range(r.choices((0, 1, 2, 3), (12, 58, 20, 10))[0]):
            if r.random() < self._polls:
                if r.random() < 0.85 or not self._poll_at:
                    self._poll_at = max(
                        1, self.now - r.choice((0, 0, 0, 700, 2_500, 45_000 if r.random() < 0.1 else 0))
                    )
                seen = [pod for pod in self._pods.values() if not (pod.get("inactive") and r.random() < 0.7)]
                snapshots.append({"full": self._poll_at, "pods": [dict(pod) for pod in seen]})
            else:
                taken = r.randint(0, len(self._news)) if i == 0 else len(self._news)
                snapshots.append({"full": None, "pods": self._news[:taken]})
                del self._news[:taken]
        return snapshots

    # ---- what Spark did

    def _ask(self, line: Line) -> Answers:
        self._sink.put(line)
        answers = self._sink.settle()[-1][1]
        for answer in answers:
            self._exited |= "exit" in answer
            if "remove" in answer:
                self._leaving.add(int(answer["remove"]))
            if "podDelete" in answer and answer["code"] == 200:
                self._going(int(answer["podDelete"].removeprefix("exec-")))
            if "podPatch" in answer and answer["code"] == 200:
                number = int(answer["podPatch"].removeprefix("exec-"))
                if number in self._pods and self.r.random() < 0.85:
                    self._pods[number]["inactive"] = True
                    self._tell(number)
        return answers

    def _going(self, number: int) -> None:
        if number not in self._pods:
            return
        if self.r.random() < 0.5:
            self._pods[number]["deletionTimestamp"] = self.now // 1000 * 1000
            self._tell(number)
        if self.r.random() < 0.6:
            del self._pods[number]
