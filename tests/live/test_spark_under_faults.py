"""Real Spark on ``podtide cluster`` whose cluster file breaks everything at once, with podtide in shadow and in charge.

A third of the creates is refused: some so that the client asks again (429), some for good (403). Of three executors one is
killed every 20 s or so, every watch breaks every ten seconds, and a node is taken back with notice. All the same the
answers are right, the books of podtide equal the cluster, no executor id is used twice, nothing is doubled and nothing is
left; what podtide recorded is decided again as it was. In shadow it does what Spark does, but for what a fault explains, one
by one. Needs PODTIDE_SPARK_PYTHON; it takes about five minutes.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.live.cluster import Cluster
from tests.live.cluster_process import ClusterProcess
from tests.live.life import command, left, truth
from tests.live.real_run import Run, replays
from tests.live.spark_driver import ASLEEP, SparkDriver, spark_python
from tests.live.waiting import until

FAULTS = """
seed: 11
nodes:
  groups:
    - {name: base, count: 1, cpu: 8, memory: 16Gi, pods: 2}
    - {name: spot, count: 1, cpu: 8, memory: 16Gi, pods: 2, arrives: 5s, notice: 10s}
  events: [{at: 70s, what: take back, group: spot}]
stages:
  killed: {from: registered, next: failed, delay: {from: 20s, to: 100s}, exits: {137: 1}}
api:
  faults:
    - {status: 429, probability: 0.2, verbs: [create], resources: [pods], retry-after: 1s}
    - {status: 403, probability: 0.15, verbs: [create], resources: [pods]}
watch: {breaks-per-hour: 360, broken: 500ms, expired: 0.2}
"""
NAMESPACE = "default"
EXECUTORS = 3
TASKS = 40
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "4s",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "4s",
    "spark.executor.maxNumFailures": "100",
    "spark.decommission.enabled": "true",
    "spark.ui.liveUpdate.period": "0",
}
ROWS = 60
NAP = "java_method('java.lang.Thread', 'sleep', 100L) is not null"
GROUPED = f"select id % 3 k, sum(id) from (select id from range(0, {ROWS}, 1, 12) where {NAP}) group by 1 order by 1"
SUMS = [[rest, sum(range(rest, ROWS, 3))] for rest in range(3)]

KILLED = re.compile(r"executor with id (\d+) exited with exit code 137")
CREATED = re.compile(r"Requested executor with id (\d+) from Kubernetes\.")
DIFFERENCE = re.compile(r" difference +executor (\d+): (.+), \d+ s ago")
KUBELETS = "system:nodes"


def test_in_shadow(tmp_path: Path) -> None:
    python = spark_python()
    with ClusterProcess(tmp_path / "cluster", python, FAULTS) as process:
        cluster, kubeconfig = process.cluster, str(process.cluster.admin)
        with (
            SparkDriver(python, kubeconfig, NAMESPACE, tmp_path / "driver", DYNAMIC) as driver,
            Run(cluster, NAMESPACE, tmp_path / "run", driver, {}) as run,
        ):
            jobs_under_faults(cluster, driver, run)
            assert run.stop() == 0, run.said()
            driver.quit()
            nothing_left(cluster, driver)
        process.stop()
    story = ClusterStory(process)
    story.has_every_fault()
    story.has_nothing_doubled_or_left()
    explained(run, driver, story)
    assert replays(run.recording)


def test_in_charge(tmp_path: Path) -> None:
    python = spark_python()
    with ClusterProcess(tmp_path / "cluster", python, FAULTS) as process:
        cluster, kubeconfig = process.cluster, str(process.cluster.admin)
        with (
            SparkDriver(python, kubeconfig, NAMESPACE, tmp_path / "driver", ASLEEP) as driver,
            Run(cluster, NAMESPACE, tmp_path / "run", driver, DYNAMIC, "--mode", "act", "--on-exit", "delete") as run,
        ):
            jobs_under_faults(cluster, driver, run)
            assert run.stop() == 0, run.said()
            driver.quit()
            # The lease of an application whose driver lives on remembers executor ids; podtide stop takes it away.
            swept = command("stop", "--app-id", driver.app_id, "--namespace", NAMESPACE, "--kubeconfig", kubeconfig)
            assert swept.returncode == 0, swept.stdout + swept.stderr
            nothing_left(cluster, driver)
        process.stop()
    story = ClusterStory(process)
    story.has_every_fault()
    story.has_nothing_doubled_or_left()
    assert not CREATED.search("\n".join(driver.log_lines())), "the driver created executors itself"
    assert replays(run.recording)


# ---------------------------------------------------------------------------------------------------- while it goes on


def jobs_under_faults(cluster: Cluster, driver: SparkDriver, run: Run) -> None:
    """Jobs until each fault was met, each with the right answer; then executors go, come back, and go."""
    spot = {name for name in nodes(cluster) if name.startswith("spot")}
    end = time.monotonic() + 300
    while len(killed(driver)) < 2 or spot & nodes(cluster):
        assert time.monotonic() < end, f"not every fault was met: {killed(driver)} were killed, nodes {nodes(cluster)}"
        assert driver.job(TASKS, 0.5, 180) == sum(range(1, TASKS + 1))
        driver.tell(f"sql {GROUPED}")
        assert driver.answer("sql", 180)["rows"] == SUMS
    nobody_is_there(cluster, driver)
    driver.tell(f"start 2 {TASKS} 1")
    until(lambda: books(cluster, driver, run), 120, "books that equal the cluster while it works", every_s=0.2)
    for _ in range(2):
        assert driver.answer("job", 180)["answer"] == sum(range(1, TASKS + 1))
    nobody_is_there(cluster, driver)
    until(lambda: not stands(run), 30, "books that say so")


def nobody_is_there(cluster: Cluster, driver: SparkDriver) -> None:
    """Wait until it is so."""
    until(lambda: not driver.executors(), 90, "an application without executors")
    until(lambda: not cluster.pods(NAMESPACE), 90, "a namespace without pods")


def books(cluster: Cluster, driver: SparkDriver, run: Run) -> bool:
    """Whether podtide says what a list of the pods says, and all executors are there."""
    listed = truth(cluster, NAMESPACE, driver.app_id)
    return listed == {"running": EXECUTORS} and stands(run) == {**listed, "registered": EXECUTORS, "target": EXECUTORS}


def stands(run: Run) -> dict[str, int]:
    """What podtide says of pods that are there, and of executors."""
    return {state: count for state, count in run.figures().items() if state != "deleted"}


def nodes(cluster: Cluster) -> set[str]:
    """The nodes' names."""
    return {node["metadata"]["name"] for node in cluster.must("list", "nodes", "/api/v1/nodes")["items"]}


def killed(driver: SparkDriver) -> set[str]:
    """The executors of which the driver says that they were killed."""
    return {found[1] for line in driver.log_lines() if (found := KILLED.search(line))}


def nothing_left(cluster: Cluster, driver: SparkDriver) -> None:
    """No object of the application, and no process."""
    assert left(cluster, NAMESPACE, driver.app_id) == []
    processes = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
    assert not [line for line in processes if b"KubernetesExecutorBackend" in line and driver.app_id.encode() in line]


# ------------------------------------------------------------------------------------------------------ what happened


class ClusterStory:
    """What the cluster's record tells: its pods, the most that lived at once, and the faults that were met.

    ``evicted``: executors whose pods the kubelets deleted first, because their node was taken back.
    """

    def __init__(self, process: ClusterProcess) -> None:
        self.refused: Counter[str] = Counter()
        self.killed: set[str] = set()
        self.evicted: set[str] = set()
        self.made: Counter[str] = Counter()
        self.nodes_gone = self.watches_cut = self.most = 0
        self.pods: dict[str, bool] = {}
        caller = ""
        for line in process.record():
            if "call" in line:
                caller = line["user"]
                if line["call"] == "POST" and "fault" in line:
                    self.refused[line["fault"]] += 1
            elif line.get("event") == "CUT":
                self.watches_cut += 1
            elif line.get("resource") == "nodes":
                self.nodes_gone += line["change"] == "DELETED"
            elif line.get("resource") == "pods":
                self._change(line, caller)

    def _change(self, line: dict[str, Any], caller: str) -> None:
        name, kind = line["name"], line["change"]
        self.made[name] += kind == "ADDED"
        if 137 in line.get("exit_codes", ()):
            self.killed.add(name)
        if kind == "DELETED":
            del self.pods[name]
            return
        lives = line.get("phase", "Pending") in ("Pending", "Running") and "deleted_at" not in line
        if self.pods.get(name) and "deleted_at" in line and caller == KUBELETS:
            self.evicted.add(executor_of(name))
        self.pods[name] = lives
        self.most = max(self.most, sum(self.pods.values()))

    def has_every_fault(self) -> None:
        """Whether each was met: otherwise nothing was proved."""
        print(f"{self.made.total()} pods, refused {dict(self.refused)}, killed {len(self.killed)}, ", end="")
        print(f"evicted {len(self.evicted)}, watches cut {self.watches_cut}")
        assert self.refused
        assert len(self.killed) >= 2
        assert self.nodes_gone == 1
        assert self.watches_cut >= 4

    def has_nothing_doubled_or_left(self) -> None:
        """One pod for each name, never more of them at once than are wanted, and none at the end."""
        assert set(self.made.values()) == {1}
        assert len({executor_of(name) for name in self.made}) == len(self.made)
        assert self.most == EXECUTORS
        assert not self.pods


def executor_of(pod: str) -> str:
    """The executor id in a pod's name."""
    return pod.rpartition("-")[2]


def explained(run: Run, driver: SparkDriver, story: ClusterStory) -> None:
    """The shadow did what Spark did, but for what a fault explains.

    A create that is refused for good takes an executor id with it: Spark goes on with the next one, while the shadow, which
    sees no refusal, waits for the pod and then gives it up. So the ids that Spark skipped are as many as there were
    refusals; the shadow alone created them, and Spark alone what came in their place. The shadow sees the driver's tasks
    half a second later: an executor that is killed as a job ends is replaced by one of the two, and not by the other. What
    was deleted without a decision was on the node that was taken back.
    """
    found: dict[str, list[int]] = {}
    for number, what in DIFFERENCE.findall(run.said()):
        found.setdefault(what, []).append(int(number))
    created = {int(number) for number in CREATED.findall("\n".join(driver.log_lines()))}
    skipped = set(range(1, max(created) + 1)) - created
    assert len(skipped) == story.refused["403"]
    alone, instead = found.pop("created by the shadow alone", []), found.pop("created by Spark alone", [])
    replaced_by_one = len(set(alone) - skipped) + max(0, len(instead) - len(skipped))
    assert replaced_by_one <= len(story.killed)
    assert {str(number) for number in found.pop("deleted without a decision here", [])} <= story.evicted
    assert not found
    agreed = re.search(r"(\d+) creates and deletes as Spark's, (\d+) differences", run.said())
    assert agreed is not None
    print(
        f"{agreed[0]}: ids {sorted(skipped)} were refused, {instead} came instead, {replaced_by_one} killed at an end"
    )
    assert int(agreed[1]) >= len(created)
