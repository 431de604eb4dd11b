"""The YARN allocator against real Spark's, and against itself with fifty times the executors.

A round is what the reporter thread does: a beat, and the resource manager's answer with what it brings. Placement is how
many containers to ask for on which hosts. Spark's figures come from ``SparkYarn.java`` beside this file, compiled and run in
the same session: YarnAllocator over Hadoop's own AMRMClientImpl, or its placement strategy alone, warm. Everything is CPU
time of the thread on both sides; of Spark's matching that leaves out the thread that looks up racks.

What differs: Spark's placement is a list of hosts for every request, ours says equal ones once. Where an actuator needs
Spark's form, writing out the groups is measured, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measured import Compared, median_ms
from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.protocol.cluster_config import NegotiationConfig
from podtide.domain.protocol.containers import Completion, Container, ContainerId, ContainerSpec, Resource
from podtide.domain.protocol.yarn_messages import (
    Beat,
    ContainersWanted,
    LaunchEnded,
    LaunchExecutor,
    ResourcesAnswered,
    YarnInput,
)
from podtide.domain.yarn import allocator as yarn
from podtide.domain.yarn.allocator_state import NegotiationCommand
from podtide.domain.yarn.locality import ContainerPlacement, Wish, place
from tests.oracle.judge import JudgeUnavailableError, find_jars, find_tool

pytestmark = pytest.mark.benchmark(timer=time.thread_time)

Rival = Callable[..., dict[str, float]]
HERE = Path(__file__).resolve().parent
OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action",
)  # fmt: skip
SPEC = ContainerSpec(Resource(1_408, 4), 1_024, 4, 4)
FEW, MANY = 1_000, 50_000
CHANGED = 10
REQUESTS, HOSTS = 10_000, 2_000
SPARK_LOCALIZED = 1_000
"""Of as many localized requests a whole beat of Spark's is measured: of ten thousand it took 47 s, and half an hour warm."""
TASKS_EACH = 4
PREEMPTED = -102


def host(number: int) -> str:
    return f"10.0.{number // 40}.{number % 40}"


RACKS = {host(number): f"/rack10.0.{number // 40}" for number in range(HOSTS)}
CONFIG = NegotiationConfig(executors_initial=0, containers=SPEC, racks=RACKS)


def hints(hosts: int) -> dict[str, int]:
    """Ten to thirty tasks on each host, as in SparkYarn.java."""
    return {host(number): 10 + number * 7 % 21 for number in range(hosts)}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Rival:
    """Asks SparkYarn for milliseconds, by what it calls them."""
    classes = tmp_path_factory.mktemp("spark-yarn")
    try:
        jars, java, javac = find_jars(), find_tool("java"), find_tool("javac")
    except JudgeUnavailableError as missing:
        pytest.skip(f"NO COMPARISON WITH SPARK: {missing}")
    quiet = ["-nowarn", "-Xlint:none", "-proc:none"]
    source = str(HERE / "SparkYarn.java")
    subprocess.run([javac, *quiet, "-d", str(classes), "-cp", f"{jars}/*", source], check=True, capture_output=True)
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    log = f"-Dlog4j2.configurationFile={HERE.parent / 'tests' / 'oracle' / 'log4j2.properties'}"
    command = [java, "-Xmx4g", "-XX:+UseSerialGC", *opens, log, "-cp", f"{classes}{os.pathsep}{jars}/*"]

    def ask(*arguments: object) -> dict[str, float]:
        wanted = [*command, "podtide.bench.SparkYarn", *map(str, arguments)]
        told = subprocess.run(wanted, check=True, capture_output=True, text=True).stdout
        rows = [json.loads(line) for line in told.splitlines()]
        return {row["what"]: row["ms"] for row in rows}

    return ask


class Application:
    """An application on YARN whose resource manager gives what the test says; launches end at once."""

    def __init__(self) -> None:
        self.state = yarn.begin(CONFIG, 0).state
        self.now = 0
        self.containers = 0
        self.oldest = 0

    def take(self, *items: YarnInput) -> tuple[NegotiationCommand, ...]:
        step = yarn.negotiate(self.state, items, CONFIG, self.now)
        self.state = step.state
        return step.commands

    def want(self, executors: int, hosts: int = 0) -> None:
        tasks = {DEFAULT_PROFILE: executors * TASKS_EACH}
        self.take(ContainersWanted(self.now, ((DEFAULT_PROFILE, executors),), tasks, {DEFAULT_PROFILE: hints(hosts)}))

    def beat(self) -> tuple[NegotiationCommand, ...]:
        return self.take(Beat(self.now))

    def given(self, count: int, hosts: int = HOSTS) -> tuple[Container, ...]:
        """So many containers, on one host after the other."""
        begun = self.containers
        self.containers += count
        return tuple(
            Container(
                ContainerId(f"container_1_0001_01_{number:06}"), host(number % hosts), DEFAULT_PROFILE, SPEC.resource
            )
            for number in range(begun, self.containers)
        )

    def ended(self, count: int) -> tuple[Completion, ...]:
        """The oldest ones were preempted."""
        begun = self.oldest
        self.oldest += count
        numbers = range(begun, self.oldest)
        return tuple(Completion(ContainerId(f"container_1_0001_01_{number:06}"), PREEMPTED) for number in numbers)

    def answer(self, allocated: tuple[Container, ...] = (), completed: tuple[Completion, ...] = ()) -> None:
        said = self.take(ResourcesAnswered(self.now, self.state.serial, allocated, completed, (), 100))
        launches = [LaunchEnded(self.now, one.executor) for one in said if isinstance(one, LaunchExecutor)]
        if launches:
            self.take(*launches)

    def round(self, allocated: tuple[Container, ...], completed: tuple[Completion, ...]) -> None:
        """A beat, and what the answer brings."""
        self.now += 3_000
        self.beat()
        self.answer(allocated, completed)

    @property
    def running(self) -> int:
        return len(self.state.rows.running_by_profile()[DEFAULT_PROFILE])


def settled(executors: int) -> Application:
    """So many run; the changed ones of one round are already missing."""
    application = Application()
    application.want(executors)
    application.round(application.given(executors), ())
    assert application.running == executors
    application.round((), application.ended(CHANGED))
    return application


_SEEN: dict[int, float] = {}


@pytest.mark.parametrize("executors", [FEW, MANY])
def test_a_round_with_ten_changed_containers(
    benchmark: BenchmarkFixture, executors: int, spark: Rival, compared: Compared
) -> None:
    application = settled(executors)
    benchmark.pedantic(
        application.round,
        setup=lambda: ((application.given(CHANGED), application.ended(CHANGED)), {}),
        rounds=2_000,
        iterations=1,
        warmup_rounds=100,
    )
    assert application.running == executors - CHANGED
    ours = _SEEN[executors] = median_ms(benchmark)
    theirs = spark("round", executors, CHANGED, 2_000)["round"]
    compared(
        f"YARN round, {CHANGED} of {executors:,} containers changed", f"{ours:.3f} ms", f"Spark: {theirs:.3f} ms",
        f"{theirs / ours:.2f} x",
    )  # fmt: skip
    if executors == MANY and FEW in _SEEN:
        name = f"YARN round, {CHANGED} changed, {MANY:,} executors against {FEW:,}"
        compared(name, f"{ours:.3f} ms", f"itself: {_SEEN[FEW]:.3f} ms", f"{ours / _SEEN[FEW]:.2f} x")


def test_placement(benchmark: BenchmarkFixture, spark: Rival, compared: Compared) -> None:
    wish = Wish(REQUESTS * TASKS_EACH, hints(HOSTS), TASKS_EACH)
    placed = benchmark.pedantic(
        lambda: place(REQUESTS, wish, lambda _: 0, (), RACKS.__getitem__), rounds=200, iterations=1, warmup_rounds=20
    )
    assert placed.layout is not None
    assert placed.anywhere == 0
    assert placed.layout.size == REQUESTS
    theirs = spark("placement", REQUESTS, HOSTS, 4)["placement"]
    ours = median_ms(benchmark)
    name = f"placement of {REQUESTS:,} requests over {HOSTS:,} hosts"
    compared(name, f"{ours:.2f} ms", f"Spark: {theirs:,.0f} ms", f"{theirs / ours:,.0f} x")
    assert ours <= theirs


def test_placement_with_every_group_written_out(benchmark: BenchmarkFixture, compared: Compared) -> None:
    wish = Wish(REQUESTS * TASKS_EACH, hints(HOSTS), TASKS_EACH)

    def written() -> ContainerPlacement:
        placed = place(REQUESTS, wish, lambda _: 0, (), RACKS.__getitem__)
        assert placed.layout is not None
        assert sum(count for count, _, _ in placed.layout.groups()) == REQUESTS
        return placed

    benchmark.pedantic(written, rounds=100, iterations=1, warmup_rounds=10)
    compared("the same, hosts and racks of each group written out", f"{median_ms(benchmark):.2f} ms", "", "")


@pytest.mark.parametrize(
    ("requests", "hosts"),
    [(REQUESTS, 0), (SPARK_LOCALIZED, HOSTS), (REQUESTS, HOSTS)],
    ids=["anywhere", "fewer", "localized"],
)
def test_a_beat_with_much_missing(
    benchmark: BenchmarkFixture, requests: int, hosts: int, spark: Rival, compared: Compared
) -> None:
    def asked() -> tuple[tuple[Application], dict[str, object]]:
        application = Application()
        application.want(requests, hosts)
        return (application,), {}

    def beat(application: Application) -> None:
        application.beat()
        assert application.state.pending == requests

    benchmark.pedantic(beat, setup=asked, rounds=200, iterations=1, warmup_rounds=20)
    _against_spark(benchmark, "beat", f"beat with {requests:,} missing", requests, hosts, spark, compared)


@pytest.mark.parametrize(
    ("requests", "hosts"),
    [(REQUESTS, 0), (SPARK_LOCALIZED, HOSTS), (REQUESTS, HOSTS)],
    ids=["anywhere", "fewer", "localized"],
)
def test_matching(benchmark: BenchmarkFixture, requests: int, hosts: int, spark: Rival, compared: Compared) -> None:
    """As many containers as were asked for: matched, launched, and in the books."""

    def asked() -> tuple[tuple[Application, tuple[Container, ...]], dict[str, object]]:
        application = Application()
        application.want(requests, hosts)
        application.beat()
        return (application, application.given(requests)), {}

    def answer(application: Application, given: tuple[Container, ...]) -> None:
        application.answer(given)
        assert application.running == requests

    benchmark.pedantic(answer, setup=asked, rounds=8, iterations=1, warmup_rounds=1)
    _against_spark(benchmark, "matching", f"matching {requests:,} containers", requests, hosts, spark, compared)


def _against_spark(
    benchmark: BenchmarkFixture, mode: str, name: str, requests: int, hosts: int, spark: Rival, compared: Compared
) -> None:
    """Note both; Spark is left out where it takes too long."""
    ours = median_ms(benchmark)
    name = f"{name}, {f'over {hosts:,} hosts' if hosts else 'anywhere'}"
    if hosts and requests > SPARK_LOCALIZED:
        compared(name, f"{ours:.1f} ms", "", "")
        return
    theirs = spark(mode, requests, hosts, 4 if hosts else 40)[mode]
    compared(name, f"{ours:.2f} ms", f"Spark: {theirs:,.1f} ms", f"{theirs / ours:,.2f} x")
