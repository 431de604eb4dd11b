"""A random cluster around the pods allocator, in closed loop with the judge: what becomes of the pods that it asks for.

Pods that Spark creates come up, late or never; those that it deletes go, most of them, some only after a while; the
driver learns of executors, sometimes before any snapshot shows them. Over that ordinary life lie things that a
cluster does seldom: pods that vanish and come back, ids that are there before Spark made them, phases and creation
times that nobody expects, calls that fail.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.oracle.world import Answers, Line, Sink

BEGIN_MS: Final = 1_000_000
K8S: Final = "spark.kubernetes."
CLAIM: Final = K8S + "executor.volumes.persistentVolumeClaim.spark-local-dir-{}."
CODES: Final = (403, 403, 404, 409, 422, 429, 500, 503)
STAMPS: Final = (
    "yesterday",
    None,
    "",
    "1970-13-01T00:00:00Z",
    "1970-01-01T00:16:40.5Z",
    "1970-01-01T01:16:40+01:00",
    "1970-01-01t00:16:40z",
    "2999-01-01T00:00:00Z",
)
"""Creation times of pods: none, not a time, times with fractions and offsets, one in the future."""
FONDNESSES: Final = ("lost", "slow", "failing", "early", "odd", "strangers", "flicker", "churn", "doomed", "refused")


@dataclass(frozen=True)
class PodsSetting:
    """A scenario's header, and what of it the world and the coverage need."""

    header: Line
    delay_ms: int
    real: bool
    profiles: tuple[int, ...]

    def number(self, key: str, default: int) -> int:
        """A whole number of the conf."""
        return int(self.header["conf"].get(key, default))

    def flag(self, key: str, default: bool) -> bool:
        """A flag of the conf."""
        return str(self.header["conf"].get(key, str(default).lower())) == "true"

    def millis(self, key: str, default: int) -> int:
        """A time of the conf, written as the settings below write them."""
        text = str(self.header["conf"].get(key, f"{default}ms"))
        return int(text.removesuffix("ms")) if text.endswith("ms") else int(text.removesuffix("s")) * 1000


def draw_setting(r: random.Random) -> PodsSetting:
    """Draw a conf: limits that are met within a few rounds, now and then one that Spark refuses."""
    conf: dict[str, str] = {}
    options: dict[str, Any] = {}
    conf[K8S + "allocation.batch.size"] = str(r.choice((1, 2, 3, 5, 8, 20)))
    delay = r.choice((1000, 1000, 500, 3000))
    conf[K8S + "allocation.batch.delay"] = f"{delay}ms"
    conf[K8S + "allocation.executor.timeout"] = f"{r.choice((1, 4, 10, 600))}s"
    conf["spark.dynamicAllocation.executorIdleTimeout"] = f"{r.choice((1, 2, 5, 30))}s"
    pending = r.choice((None, None, 1, 2, 4, 7, 12))
    if pending is not None:
        conf[K8S + "allocation.maxPendingPods"] = str(pending)
    if r.random() < 0.35:
        most = pending or 6
        above = 9 if pending is not None and r.random() < 0.06 else 0
        conf[K8S + "allocation.maxPendingPodsPerRp"] = str(r.randint(1, most) + above)
    if r.random() < 0.2:
        conf[K8S + "executor.deleteOnTermination"] = "false"
    if r.random() < 0.12:
        conf[K8S + "allocation.maximum"] = str(r.choice((1, 5, 12, 25)))
    if r.random() < 0.15:
        conf["spark.dynamicAllocation.enabled"] = "false"
        if r.random() < 0.5:
            conf["spark.executor.instances"] = str(r.randint(1, 6))
    elif r.random() < 0.3:
        conf["spark.dynamicAllocation.maxExecutors"] = str(r.choice((2, 4, 8)))
    real = r.random() < 0.35
    if real:
        _draw_claims(r, conf, options)
    shape = r.random()
    profiles: tuple[int, ...] = (0,) if shape < 0.35 else (0, 1) if shape < 0.65 else (0, 1, 2, 5)
    if shape > 0.95:
        profiles = (3,)
    header: Line = {"conf": conf, "appId": r.choice(("app-1", "spark-42")), "startAt": BEGIN_MS}
    if options:
        header["options"] = options
    return PodsSetting(header, delay, real, profiles)


def _draw_claims(r: random.Random, conf: dict[str, str], options: dict[str, Any]) -> None:
    """The real builder, and what it makes of volume claims."""
    options["builder"] = "real"
    if r.random() < 0.9:
        conf[K8S + "driver.pod.name"] = "driver"
        conf[K8S + "driver.service.publishNotReadyAddresses"] = "true"
        if r.random() < 0.04:
            options["driverPod"] = False
    options["pvcCreationTimestamp"] = r.choice(("1970-01-01T00:00:00Z", "2000-06-01T12:00:00Z", "2999-01-01T00:00:00Z"))
    for i in range(1, r.choice((1, 2, 2, 2, 3))):
        volume = CLAIM.format(i)
        conf[volume + "options.claimName"] = "OnDemand" if r.random() < 0.93 else "fixed"
        conf[volume + "options.storageClass"] = r.choice(("gp", "gp", "fast"))
        conf[volume + "options.sizeLimit"] = r.choice(("1Gi", "1Gi", "500M", "2000Mi"))
        conf[volume + "mount.path"] = f"/data{i}"
        conf[volume + "mount.readOnly"] = "false"
    for key, chance in (("ownPersistentVolumeClaim", 0.15), ("reusePersistentVolumeClaim", 0.15)):
        if r.random() < chance:
            conf[K8S + "driver." + key] = "false"
    if r.random() < 0.5:
        conf[K8S + "driver.waitToReusePersistentVolumeClaim"] = "true"


@dataclass(eq=False)
class ClusterPod:
    """One pod as the cluster knows it."""

    profile: Any
    stamp: Any
    runs_at: int
    joins_after: int
    claims: list[str] = field(default_factory=list)
    phase: str = "Pending"
    exit_code: int | None = None
    deleting: bool = False
    joins_at: int | None = None
    gone_at: int | None = None
    hidden_until: int = 0


class PodsWorld:
    """One scenario being made."""

    def __init__(self, r: random.Random, sink: Sink, setting: PodsSetting) -> None:
        self.r = r
        self.now = BEGIN_MS
        self._sink = sink
        self._setting = setting
        self._fond = set(r.sample(FONDNESSES, r.choice((0, 1, 1, 2, 3))))
        self._most = r.choice((2, 5, 12, 30))
        self._pods: dict[int, ClusterPod] = {}
        self._coming: list[tuple[int, int, ClusterPod]] = []
        self._known: list[str] = []
        self._nothing_more = False

    def _chance(self, fondness: str, fond: float, otherwise: float) -> bool:
        return self.r.random() < (fond if fondness in self._fond else otherwise)

    def run(self, steps: int) -> None:
        """Play the scenario; a conf that Spark refuses ends it at once."""
        r = self.r
        if any("error" in answer for answer in self._ask(self._setting.header)):
            return
        for step in range(steps):
            line: Line = {"at": self.now}
            if step == 0 or self._chance("churn", 0.5, 0.12):
                self._retarget(line)
            self._fail(line)
            self._learn(line)
            if r.random() < 0.3 and len(line) > 1:
                self._ask(line)  # what came so far in a line of its own
                line = {"at": self.now}
            self._look(line)
            self._ask(line)
            if r.random() < 0.08:
                last = max([*self._pods, 3])
                self._ask({"at": self.now, "isDeleted": sorted({r.randint(1, last) for _ in range(4)})})
            self.now += self._pause()
        if r.random() < 0.3:
            self._ask({"at": self.now, "stop": True} | ({"failDeletes": 1} if r.random() < 0.3 else {}))

    def _pause(self) -> int:
        delay = self._setting.delay_ms
        kind = self.r.random()
        if kind < 0.8:
            return delay
        return self.r.randint(1, delay) if kind < 0.9 else self.r.randint(2, 12) * delay

    # ---- what is put into a line

    def _retarget(self, line: Line) -> None:
        r = self.r
        wanted = {
            str(p): int(r.random() ** 1.5 * (self._most + 1)) for p in self._setting.profiles if r.random() < 0.75
        }
        if not wanted:
            wanted = {str(self._setting.profiles[0]): r.randint(1, self._most)}
        line["targets"] = wanted
        if r.random() < 0.1:
            line["deliverOnNotify"] = False

    def _fail(self, line: Line) -> None:
        r = self.r
        if self._chance("failing", 0.25, 0.02):
            line["failCreates"] = r.randint(1, 4)
        if self._chance("refused", 0.3, 0.02):
            line["failDeletes"] = r.randint(1, 2)
        if self._setting.real and self._chance("failing", 0.2, 0.02):
            line["failPvcs"] = r.randint(1, 3)
        if len(line.keys() & {"failCreates", "failDeletes", "failPvcs"}) and r.random() < 0.6:
            line["failCode"] = r.choice(CODES)

    def _learn(self, line: Line) -> None:
        """The driver's executors: those that registered, some too early, some that the cluster has lost since."""
        r = self.r
        known = [str(i) for i, pod in self._pods.items() if pod.joins_at is not None and pod.joins_at <= self.now]
        for _, number, _ in self._coming:
            if str(number) in self._known or self._chance("early", 0.3, 0.01):
                known.append(str(number))
        for number, pod in self._pods.items():
            if pod.phase == "Pending" and self._chance("early", 0.15, 0.01):
                known.append(str(number))
        known = list(dict.fromkeys(known))
        if known != self._known and r.random() < 0.9:
            self._known = known
            line["knownIds"] = known

    def _look(self, line: Line) -> None:
        r = self.r
        shown: list[list[Line]] = []
        for _ in range(r.choices((0, 1, 2, 3), (20, 60, 14, 6))[0]):
            self._advance()
            shown.append(self._snapshot())
            if r.random() < 0.5:
                self.now += r.randint(1, max(1, self._setting.delay_ms // 4))
        line["at"] = self.now
        if shown and r.random() < 0.03:
            shown.insert(r.randint(0, len(shown)), [])
        line["snapshots"] = shown

    # ---- the cluster

    def _snapshot(self) -> list[Line]:
        shown = []
        for number, pod in self._pods.items():
            if pod.hidden_until > self.now:
                continue
            line: Line = {"id": number, "phase": pod.phase}
            if pod.profile != 0:
                line["rp"] = pod.profile
            line["createdAt"] = pod.stamp
            if pod.deleting:
                line["deletionTimestamp"] = self.now
            if pod.claims:
                line["pvcs"] = pod.claims
            if pod.exit_code is not None:
                line["exitCode"] = pod.exit_code
            shown.append(line)
        if self._chance("odd", 0.2, 0.01):
            self.r.shuffle(shown)
        return shown

    def _advance(self) -> None:
        r = self.r
        arrived = [coming for coming in self._coming if coming[0] <= self.now]
        self._coming = [coming for coming in self._coming if coming[0] > self.now]
        for _, number, pod in arrived:
            self._pods[number] = pod
        for number, pod in list(self._pods.items()):
            if pod.gone_at is not None and pod.gone_at <= self.now:
                del self._pods[number]
            elif pod.phase == "Pending":
                if not pod.deleting and pod.runs_at <= self.now:
                    pod.phase = "Running"
                    pod.joins_at = self.now + pod.joins_after
                elif self._chance("odd", 0.03, 0.003):
                    pod.phase = r.choice(("Unknown", "pending", "Failed", "Terminating", "Weird"))
            elif pod.phase == "Running" and self._chance("doomed", 0.12, 0.015):
                self._end(pod)
            elif pod.phase == "Running" and self._chance("odd", 0.02, 0):
                pod.phase = r.choice(("RUNNING", "Unknown"))
            if self._chance("flicker", 0.05, 0):
                pod.hidden_until = self.now + r.randint(1, 4) * self._setting.delay_ms
        if self._chance("strangers", 0.15, 0.002):
            self._stranger()

    def _end(self, pod: ClusterPod) -> None:
        """A running pod ends: failed or done, by its container alone, or deleted by somebody."""
        r = self.r
        pod.gone_at = self.now + r.choice((0, 1, 5, 20)) * self._setting.delay_ms
        match r.randrange(4):
            case 0:
                pod.phase = r.choice(("Failed", "Succeeded"))
            case 1:
                pod.exit_code = r.choice((0, 1, 137))
            case 2:
                pod.deleting = True
            case _:
                pod.deleting = True
                pod.phase = r.choice(("Failed", "Terminating", "Pending"))

    def _stranger(self) -> None:
        """A pod with an id that Spark has not given out yet, or long ago; its profile may be none.

        Never a pod without the label: the text of that exception is the JVM's, and differs between its versions.
        """
        r = self.r
        number = r.randint(1, 3 + 2 * max([*self._pods, 1]))
        if r.random() < 0.1:
            number = r.choice((70_000, 2**31, 5_000_000_000))
        profile: Any = r.choice((0, 0, 1, 7))
        if r.random() < 0.04:
            profile = "x"
        if number not in self._pods:
            runs = self.now + r.choice((0, 3, 100)) * self._setting.delay_ms
            self._pods[number] = ClusterPod(profile, self._stamp(), runs, 0)
            if r.random() < 0.5:
                self._pods[number].gone_at = self.now + r.randint(2, 10) * self._setting.delay_ms

    def _stamp(self) -> Any:
        if self._chance("odd", 0.4, 0.01):
            return self.r.choice(STAMPS)
        return self.now // 1000 * 1000

    # ---- what Spark did

    def _ask(self, line: Line) -> Answers:
        self._sink.put(line)
        answers = self._sink.settle()[-1][1]
        for answer in answers:
            for made in answer.get("create", ()):
                self._created(made)
            for number in answer.get("delete", ()):
                if not answer.get("failed"):
                    self._deleted(number, answer["phaseSelector"])
            if str(answer.get("http", "")).startswith("DELETE ") and answer["code"] < 300:
                number = int(answer["http"].rpartition("-")[2])
                self._coming = [coming for coming in self._coming if coming[1] != number]
                self._pods.pop(number, None)
        return answers

    def _created(self, made: Line) -> None:
        r, delay = self.r, self._setting.delay_ms
        if made.get("failed") or self._chance("lost", 0.3, 0.02):
            return
        runs = self.now + int(r.expovariate(1 / ((12 if "slow" in self._fond else 2) * delay)))
        pod = ClusterPod(made["rp"], self._stamp(), runs, r.choice((0, 0, 1, 4)) * delay, made.get("pvcs", []))
        late = 8 if "lost" in self._fond else 2
        self._coming.append((self.now + r.choice((0, 0, 0, 1, late)) * delay, made["id"], pod))

    def _deleted(self, number: int, phase: str | None) -> None:
        r = self.r
        pod = self._pods.get(number)
        if pod is None or (phase is not None and pod.phase != phase) or r.random() < 0.15:
            return
        pod.gone_at = self.now + r.choice((0, 1, 4)) * self._setting.delay_ms
        pod.deleting = r.random() < 0.5
