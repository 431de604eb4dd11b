"""Random configurations for generated scenarios, and the resource arithmetic that the generated world needs.

``draw`` returns the header of a scenario that Spark accepts, with every setting that dynamic allocation reads
somewhere in its range: ordinary values most of the time, and the ends of the range often enough (a timeout of
zero, of more seconds than a long of nanoseconds holds, an initial count above the maximum, fractions of a core).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

DA: Final = "spark.dynamicAllocation."
HUGE_S: Final = ("2147483647s", "9000000000s", "9223372036s")
"""Seconds; as nanoseconds the second overflows when added to a present-day clock, the third nearly by itself."""


@dataclass(frozen=True)
class Profile:
    """A resource profile: amounts by resource name, as in SparkListenerResourceProfileAdded."""

    executor: dict[str, int] = field(default_factory=dict)
    task: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """A scenario's header, and what the world needs to know of it."""

    header: dict[str, Any]
    cores: int
    cpus: str
    cores_limit: bool
    tracking: bool
    default: Profile

    def slots(self, profile: Profile) -> int:
        """Tasks that fit an executor of the profile at once, at least 1; the world's own arithmetic."""
        fits: list[int] = []
        if self.cores_limit:
            cores = Decimal(profile.executor.get("cores", self.cores))
            cpus = Decimal(str(profile.task.get("cpus", self.cpus)))
            fits.append(int(cores / cpus))
        for name, amount in profile.executor.items():
            wanted = profile.task.get(name, 0)
            if name != "cores" and wanted > 0:
                parts = math.floor(1 / wanted) if wanted <= 1 else 1
                fits.append(amount * parts // math.ceil(wanted))
        return max(1, min(fits, default=1))


def draw(r: random.Random) -> Setting:
    """Draw a header that Spark's constructor accepts."""
    conf: dict[str, str] = {}
    master = r.choices(("k8s", "yarn", "spark://master:7077"), (8, 1, 1))[0]
    explicit = r.random() < (0.5 if master.startswith("spark") else 0.9)
    cores = r.choice((1, 1, 2, 3, 4, 5, 8)) if explicit else 1
    cpus = r.choice(("1", "1", "1", "2", "0.5", "0.3", "0.25", "0.333333333", "1.5", "0.1", "3"))
    if Decimal(cpus) > cores:
        cpus = "1"
    if explicit:
        conf["spark.executor.cores"] = str(cores)
    if cpus != "1" or r.random() < 0.5:
        conf["spark.task.cpus"] = cpus
    if master != "k8s":
        conf["spark.master"] = master
    executor: dict[str, int] = {}
    task: dict[str, float] = {}
    if r.random() < (0.25 if explicit else 0.6):
        for name in r.sample(("gpu", "fpga"), r.choice((1, 1, 2))):
            executor[name], task[name] = _resource(r)
            conf[f"spark.executor.resource.{name}.amount"] = str(executor[name])
            conf[f"spark.task.resource.{name}.amount"] = str(task[name])
    _bounds(r, conf)
    _timeouts(r, conf)
    conf[DA + "executorAllocationRatio"] = r.choice(
        ("1", "1", "1.0", "0.5", "0.33", "0.7", "0.1", "0.385", "0.3333333333333333", "0.999")
    )
    options: dict[str, Any] = {}
    tracking = _storage(r, conf, options)
    if r.random() < 0.07:
        options["active"] = "always"
    if r.random() < 0.06:
        conf[DA + "testing"] = "true"
    header: dict[str, Any] = {"conf": conf}
    if start := r.choice((0, 0, 1_000, 1_700_000_000_000)):
        header["startAt"] = start
    if options:
        header["options"] = options
    limit = explicit or master in ("k8s", "yarn")
    return Setting(header, cores, cpus, limit, tracking, Profile(executor, task))


def _resource(r: random.Random) -> tuple[int, float]:
    """An executor's amount of a custom resource and a task's share of it; the share is at most the amount."""
    amount = r.choice((1, 2, 3, 4, 5, 8))
    share = r.choice((0.5, 0.25, 0.3333, 0.1, 0.125, 1, 1, 2, 3))
    return amount, min(share, amount)


def _bounds(r: random.Random, conf: dict[str, str]) -> None:
    low = r.choice((0, 0, 0, 1, 2, 5))
    high = r.choice((None, None, 3, 8, 20, 50, low))
    if high is not None:
        high = max(high, low, 1)
        conf[DA + "maxExecutors"] = str(high)
    if low or r.random() < 0.3:
        conf[DA + "minExecutors"] = str(low)
    if r.random() < 0.4:
        conf[DA + "initialExecutors"] = str(r.randint(0, 12))  # may exceed the maximum: nobody checks that here
    if r.random() < 0.2:
        conf["spark.executor.instances"] = str(r.randint(0, 6))


def _timeouts(r: random.Random, conf: dict[str, str]) -> None:
    conf[DA + "schedulerBacklogTimeout"] = r.choice(("1s", "1s", "1", "2s", "1500ms", "3s"))
    if r.random() < 0.6:
        conf[DA + "sustainedSchedulerBacklogTimeout"] = r.choice(("1s", "2s", "4s", "1min"))
    conf[DA + "executorIdleTimeout"] = r.choice(("0s", "1s", "1s", "2s", "3s", "5s", "60s"))
    if r.random() < 0.5:
        conf[DA + "cachedExecutorIdleTimeout"] = r.choice(("0s", "1s", "3s", "10s", HUGE_S[0]))
    if r.random() < 0.5:
        conf[DA + "shuffleTracking.timeout"] = r.choice(("0ms", "1s", "2500ms", "10s", "9223372036854775807ms"))
    if r.random() < 0.1:
        conf[DA + r.choice(("schedulerBacklogTimeout", "executorIdleTimeout"))] = r.choice(HUGE_S)


def _storage(r: random.Random, conf: dict[str, str], options: dict[str, Any]) -> bool:
    """How shuffle data outlives executors: one of the ways that Spark accepts. Returns whether it is tracked."""
    way = r.choices(("service", "tracking", "default", "decommission", "reliable"), (30, 35, 15, 10, 10))[0]
    if way == "service":
        conf["spark.shuffle.service.enabled"] = "true"
    elif way == "tracking":
        conf[DA + "shuffleTracking.enabled"] = "true"
    elif way == "decommission":
        conf[DA + "shuffleTracking.enabled"] = r.choice(("true", "false"))
        conf["spark.decommission.enabled"] = "true"
        conf["spark.storage.decommission.shuffleBlocks.enabled"] = "true"
    elif way == "reliable":
        conf[DA + "shuffleTracking.enabled"] = r.choice(("true", "false"))
        options["reliableShuffleStorage"] = True
    if r.random() < (0.5 if way == "service" else 0.1):
        conf["spark.shuffle.service.fetch.rdd.enabled"] = "true"
    if r.random() < 0.2:
        conf["spark.decommission.enabled"] = "true"
        conf["spark.storage.decommission.enabled"] = "true"
    return way != "service" and conf.get(DA + "shuffleTracking.enabled", "true") == "true"


def draw_profile(r: random.Random, setting: Setting) -> Profile:
    """Draw a further resource profile: cores or cpus may be missing, custom resources may be there."""
    executor: dict[str, int] = {}
    task: dict[str, float] = {}
    if r.random() < 0.8:
        executor["cores"] = r.choice((1, 2, 4))
    cores = executor.get("cores", setting.cores)
    if r.random() < 0.8:
        task["cpus"] = min(float(cores), r.choice((1.0, 1.0, 2.0, 0.5, 0.25, 1.5)))
    elif Decimal(setting.cpus) > cores:
        task["cpus"] = 1.0
    if r.random() < 0.3:
        executor["gpu"], task["gpu"] = _resource(r)
    elif r.random() < 0.1:
        executor["gpu"] = 2  # offered, and asked for by no task
    return Profile(executor, task)
