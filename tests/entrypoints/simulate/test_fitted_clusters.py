"""A cluster that is fitted to a recording behaves like the recorded one, under the recorded config and under another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.commands import answer, document
from tests.support.samples import indistinguishable

SEEDS: Final = 7
DISTINGUISHED: Final = 0.05
NEVER: Final = 1e9

PODS: Final = ("--conf", "spark.executor.maxNumFailures=100000")
BATCH: Final = "spark.kubernetes.allocation.batch.size"
CONTAINERS: Final = (
    "--conf", "spark.shuffle.service.enabled=true", "--conf", "spark.executor.cores=2",
    "--conf", "spark.dynamicAllocation.executorIdleTimeout=10s", "--conf", "spark.executor.maxNumFailures=100000",
)  # fmt: skip

CLUSTERS: Final[Mapping[str, str]] = {
    "late nodes": """
nodes:
  groups: [{name: w, count: 3, cpu: 2, maximum: 60, arrives: {median: 90s, p90: 3m}}]
""",
    "a quota": """
nodes:
  groups: [{name: w, count: 12, cpu: 4}]
stages:
  crash: {from: running, next: failed, weight: 0.2, delay: {from: 1s, to: 20s}}
  fails: {from: registered, next: failed, per-hour: 4}
api: {quota: 20}
""",
    "slow images": """
nodes:
  groups: [{name: w, count: 12, cpu: 4}]
stages:
  pull: {delay: {median: 40s, p90: 90s}}
""",
    "spot nodes": """
nodes:
  groups:
    - {name: base, count: 3, cpu: 2}
    - {name: spot, count: 0, maximum: 40, cpu: 2, arrives: {median: 45s, p90: 90s}, interruptions-per-hour: 6}
""",
    "preemption in bursts": """
kind: yarn
nodes:
  groups: [{name: w, count: 10, memory: 16Gi, vcores: 8, racks: [/a, /b]}]
queue:
  memory: 120Gi
  vcores: 60
  preempts: true
  tenants:
    - {name: reports, memory: 60Gi, vcores: 30, during: {from: 2m, until: 4m}}
    - {name: nightly, memory: 80Gi, vcores: 40, during: {from: 6m, until: 7m}}
""",
    "data locality": """
kind: yarn
nodes:
  groups: [{name: w, count: 8, memory: 16Gi, vcores: 8, racks: [/east, /west]}]
manager: {node-delay: 40}
executors:
  localize: {median: 8s, p90: 20s}
""",
}

NEAR: Final = """
outputs: service
jobs:
  load:
    times: 2
    think: 15s
    stages:
      read: {tasks: 80, duration: {median: 10s, p90: 30s}, data: {hosts: [w-1, w-3, w-5], copies: 2}}
      write: {tasks: 10, duration: 5s, parents: [read]}
"""

PLAYS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "late nodes": (("--schedule", "0:40", "--conf", f"{BATCH}=5"), ("--schedule", "0:60", "--conf", f"{BATCH}=20")),
    "a quota": (
        ("--schedule", "0:18,120:24", "--duration", "4m"),
        ("--schedule", "0:15,120:30", "--duration", "4m", "--conf", f"{BATCH}=3"),
    ),
    "slow images": (("--schedule", "0:40"), ("--schedule", "0:30", "--conf", f"{BATCH}=2")),
    "spot nodes": (
        ("--schedule", "0:30,600:31", "--duration", "12m"),
        ("--schedule", "0:20,600:21", "--duration", "12m", "--conf", f"{BATCH}=3"),
    ),
    "preemption in bursts": (
        ("--schedule", "0:20,200:28,500:29", "--duration", "9m"),
        ("--schedule", "0:28,270:29,500:30", "--duration", "9m"),
    ),
    "data locality": (("--workload", "near"), ("--workload", "near", "--conf", "spark.executor.cores=4")),
}
"""The config that is recorded, and another."""


def figures(told: Any) -> dict[str, float]:
    """What is compared: time to each target and the most executors that it had, time of the jobs, executors lost."""
    pods = told.get("pods") or told["containers"]
    jobs = told["workload"].get("jobs")
    compared: dict[str, float] = {"lost": pods["removed"] + pods["wasted"]}
    if jobs:
        return compared | {"time of the jobs": sum(job["ended_ms"] - job["began_ms"] for job in jobs)}
    for place, goal in enumerate(told["targets"]):
        compared[f"target {place}"] = NEVER if goal["duration_s"] is None else goal["duration_s"]
        compared[f"most of target {place}"] = goal["most"]
    return compared


@pytest.mark.uncounted
@pytest.mark.parametrize("name", CLUSTERS)
def test_fitted_clusters_behave_like_the_recorded_one(name: str, tmp_path: Path) -> None:
    """Seven recordings of a cluster, a cluster fitted to each: what both give under a config comes from one distribution."""
    near, cluster = tmp_path / "near.yaml", tmp_path / "cluster.yaml"
    near.write_text(NEAR)
    cluster.write_text(CLUSTERS[name])
    common = CONTAINERS if "kind: yarn" in CLUSTERS[name] else PODS

    def played(path: Path, play: int, seed: int, *more: str | Path) -> dict[str, float]:
        arguments = [near if one == "near" else one for one in PLAYS[name][play]]
        return figures(document("simulate", "--cluster", path, *common, *arguments, "--seed", str(seed), *more))

    truth: list[list[dict[str, float]]] = [[], []]
    again: list[list[dict[str, float]]] = [[], []]
    for seed in range(SEEDS):
        recording, fitted = tmp_path / f"{seed}.jsonl", tmp_path / f"{seed}.yaml"
        truth[0].append(played(cluster, 0, seed, "--record", recording))
        truth[1].append(played(cluster, 1, seed))
        assert answer("fit", recording, "--out", fitted).code == 0
        for play in (0, 1):
            again[play].append(played(fitted, play, 100 + seed))
    for play in (0, 1):
        for figure in truth[play][0]:
            sides = [[one[figure] for one in side[play]] for side in (truth, again)]
            alike = indistinguishable(*sides)
            assert alike >= DISTINGUISHED, (play, figure, alike, sides)


def test_samples_that_are_apart_are_told_apart() -> None:
    ten = list(range(10))
    assert indistinguishable(ten, ten) == 1
    assert indistinguishable(ten, [n + 5.5 for n in ten]) == pytest.approx(0.0524, abs=1e-4)
    assert indistinguishable(ten, [n + 6.5 for n in ten]) == pytest.approx(0.0123, abs=1e-4)
