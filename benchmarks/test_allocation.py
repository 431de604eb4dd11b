"""Rounds of the pods allocator against those of real Spark, and against themselves at a hundred times the size.

A round here is what an operator's loop does: pods seen go into the view (``snapshots``), what is new in it is delivered to
the allocator, and the allocator decides. Nothing is created or deleted: every pod runs and the targets are met, as in the
rounds of Spark that it is compared with, where ExecutorPodsAllocator.onNewSnapshots is given a whole snapshot. A state is
always gone on from, never gone back to, as a loop does it.

Spark's figures come from the program ``Bench pods`` of the conformance kit beside this project (``../shared/oracle``),
compiled and run in the same session: milliseconds of CPU time of its thread. Ours are CPU time of the thread too, so that
whatever else runs on the machine matters as little to the one as to the other.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measured import Compared, median_ms
from podtide.domain.base.units import ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.allocator import allocator as allocation
from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import Starting, TargetsSet
from podtide.domain.protocol.pod_commands import Deliver
from podtide.domain.protocol.pod_stimuli import KnownExecutors
from podtide.domain.protocol.pods import SPARK_CONTAINER, PodContainer, PodManifest, PodNumber, PodRules, Snapshot
from tests.oracle.judge import JudgeUnavailableError, find_jars, find_tool

pytestmark = pytest.mark.benchmark(timer=time.thread_time)

ORACLE = Path(__file__).resolve().parent.parent.parent / "shared" / "oracle"
OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action",
)  # fmt: skip
RULES = PodRules()
CONFIG = AllocationConfig(batch_size=1)
FEW, MANY = 1_000, 100_000
SIZE = 10_000


@pytest.fixture(scope="session")
def spark_rounds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Spark's figures in milliseconds, by what Bench calls them."""
    if not (ORACLE / "src" / "Bench.java").exists():
        pytest.skip(f"NO COMPARISON WITH SPARK: the conformance kit is not at {ORACLE}")
    classes = tmp_path_factory.mktemp("bench")
    try:
        jars, java, javac = find_jars(), find_tool("java"), find_tool("javac")
    except JudgeUnavailableError as missing:
        pytest.skip(f"NO COMPARISON WITH SPARK: {missing}")
    sources = map(str, sorted((ORACLE / "src").rglob("*.java")))
    quiet = ["-nowarn", "-Xlint:none", "-proc:none"]
    subprocess.run([javac, *quiet, "-d", str(classes), "-cp", f"{jars}/*", *sources], check=True, capture_output=True)
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    log = f"-Dlog4j2.configurationFile={ORACLE / 'log4j2.properties'}"
    command = [java, "-Xmx3g", "-XX:+UseSerialGC", *opens, "-Djdk.reflect.useDirectMethodHandle=false", log]
    command += ["-Dwarm=1.0", "-Dmeas=0.6", "-cp", f"{classes}:{ORACLE}:{jars}/*", "Bench", "pods"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {
        re.sub(r"\s+", " ", name): float(ms) for name, ms in re.findall(r"^(.*?): ([0-9.]+) ms$", told, re.MULTILINE)
    }


def manifest(number: int, version: int, profiles: int) -> PodManifest:
    """A running executor pod, as the API server would show it."""
    labels = {
        "spark-exec-id": str(number), "spark-role": "executor", "spark-app-selector": "app-1",
        "spark-exec-resourceprofile-id": str(number % profiles),
    }  # fmt: skip
    return PodManifest(
        f"exec-{number}", labels, "2026-01-01T00:00:00Z", phase="Running", containers=(PodContainer(SPARK_CONTAINER),),
        version=str(version), uid=f"uid-{number}",
    )  # fmt: skip


class Loop:
    """A settled application: all of its pods run and are registered."""

    def __init__(self, pods: int, profiles: int = 1) -> None:
        self.pods, self.profiles = pods, profiles
        self.now = 1_800_000_000_000
        self.version = 1
        self.place = 0
        self.view = snapshots.empty()
        self.state = allocation.begin(CONFIG)
        counts = [0] * profiles
        for number in range(1, pods + 1):
            counts[number % profiles] += 1
        executors = tuple((PodNumber(number), self.now) for number in range(1, pods + 1))
        targets = tuple((ProfileId(profile), count) for profile, count in enumerate(counts))
        self.listed = [manifest(number, 1, profiles) for number in range(1, pods + 1)]
        self._take(Starting(self.now), TargetsSet(self.now, targets), KnownExecutors(self.now, executors))
        self.full_list(self.listed)
        assert self.deliver(()).commands == ()

    def _take(self, *items: Starting | TargetsSet | KnownExecutors | Deliver) -> Step[object, object]:
        step = allocation.allocate(self.state, items, CONFIG, self.now)
        self.state = step.state
        return step  # type: ignore[return-value]

    def deliver(self, queued: Sequence[Snapshot]) -> Step[object, object]:
        """A round."""
        self.now += 1_000
        return self._take(Deliver(self.now, "allocator", tuple(queued)))

    def news(self, pods: int) -> list[PodManifest]:
        """The next pods, each in a new version."""
        self.version += 1
        numbers = [(self.place + offset) % self.pods + 1 for offset in range(pods)]
        self.place += pods
        return [manifest(number, self.version, self.profiles) for number in numbers]

    def watch(self, events: Sequence[PodManifest]) -> Step[object, object]:
        """Watch events come in, and a round."""
        queued = []
        for event in events:
            taken = snapshots.update(self.view, event, RULES)
            assert not isinstance(taken, SparkFault)
            self.view = taken.view
            queued.append(taken.snapshot)
        return self.deliver(queued)

    def full_list(self, pods: Sequence[PodManifest]) -> Step[object, object]:
        """A list comes in, and a round."""
        taken = snapshots.replace(self.view, pods, RULES, self.now)
        assert not isinstance(taken, SparkFault)
        self.view = taken.view
        return self.deliver((taken.snapshot,))

    def list_with(self, changes: int) -> list[PodManifest]:
        """The next list: new objects, as a decoder makes them, some in a new version."""
        for pod in self.news(changes):
            self.listed[int(pod.labels["spark-exec-id"]) - 1] = pod
        return [pod._replace() for pod in self.listed]


_SEEN: dict[int, float] = {}


@pytest.mark.parametrize("pods", [FEW, MANY])
def test_a_round_after_ten_watch_events(benchmark: BenchmarkFixture, pods: int, compared: Compared) -> None:
    loop = Loop(pods)
    step = benchmark.pedantic(
        loop.watch, setup=lambda: ((loop.news(10),), {}), rounds=2_000, iterations=1, warmup_rounds=100
    )
    assert step.commands == ()
    _SEEN[pods] = median_ms(benchmark)
    if pods == MANY and FEW in _SEEN:
        ratio = f"{_SEEN[MANY] / _SEEN[FEW]:.2f} x"
        name = f"round after 10 watch events, {MANY:,} pods against {FEW:,}"
        compared(name, f"{_SEEN[MANY]:.4f} ms", f"itself: {_SEEN[FEW]:.4f} ms", ratio)


@pytest.mark.parametrize("profiles", [1, 3])
def test_a_round_after_one_watch_event(
    benchmark: BenchmarkFixture, profiles: int, spark_rounds: dict[str, float], compared: Compared
) -> None:
    loop = Loop(SIZE, profiles)
    step = benchmark.pedantic(
        loop.watch, setup=lambda: ((loop.news(1),), {}), rounds=2_000, iterations=1, warmup_rounds=100
    )
    assert step.commands == ()
    theirs = spark_rounds[f"onNewSnapshots rps={profiles} pods= {SIZE} 1 snapshot"]
    ours = median_ms(benchmark)
    compared(
        f"round after a watch event, {SIZE:,} pods, {profiles} profile(s)", f"{ours:.4f} ms", f"Spark: {theirs:.4f} ms",
        f"{theirs / ours:.1f} x",
    )  # fmt: skip
    assert ours <= theirs / 10


@pytest.mark.parametrize("changes", [0, SIZE // 100], ids=["unchanged", "1% changed"])
def test_a_full_list(
    benchmark: BenchmarkFixture, changes: int, spark_rounds: dict[str, float], compared: Compared
) -> None:
    loop = Loop(SIZE)
    step = benchmark.pedantic(
        loop.full_list, setup=lambda: ((loop.list_with(changes),), {}), rounds=60, iterations=1, warmup_rounds=5
    )
    assert step.commands == ()
    apply = spark_rounds[f"ExecutorPodsSnapshot.apply (replaceSnapshot) pods= {SIZE}"]
    theirs = apply + spark_rounds[f"onNewSnapshots rps=1 pods= {SIZE} 1 snapshot"]
    ours = median_ms(benchmark)
    compared(
        f"full list of {SIZE:,} pods, {changes} changed, and a round", f"{ours:.3f} ms",
        f"Spark: {theirs:.3f} ms ({apply:.3f} of it the snapshot)", f"{theirs / ours:.2f} x",
    )  # fmt: skip
