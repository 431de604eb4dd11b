"""What a live run costs without a server: making a pod's manifest, a creation on its way, and a step of the loop.

The rivals are measured in the same run. Of a manifest: the official client's own way from an object to the body of a
request. Of a creation: sixteen threads that send the same bytes to the same API and do nothing else. Of a step: Spark's
allocator, which goes over all of its pods, measured by ``test_allocation``; here the same step with a hundredth of the pods.
Everything is processor time, of the thread or, where several threads work, of the process.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import msgspec
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measured import Compared
from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.api import ApiAnswer, Stream
from podtide.adapters.kubernetes.apply.actuator import ActuatorSettings, KubernetesActuator
from podtide.adapters.kubernetes.executor_pod.manifests import ExecutorManifests
from podtide.adapters.recording.header import header_of
from podtide.adapters.recording.recorder import Recorder
from podtide.adapters.recording.writer import RecordingWriter
from podtide.adapters.views.live.log_lines import LiveLines
from podtide.adapters.views.live.status import ACT, About
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.live.filters import HeadlessFilter
from podtide.domain.live.headless import HeadlessConfig
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.pod_commands import CreatePod, PodCommand
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated, Reconciled
from podtide.domain.protocol.pods import SPARK_CONTAINER, PodContainer, PodManifest, PodNumber
from podtide.domain.protocol.reasons import Cause, Why
from podtide.entrypoints.common.app_config import AppSettings, policies_with
from podtide.entrypoints.common.app_loop import AppLoop, Observer
from podtide.entrypoints.live.config import live_settings
from podtide.entrypoints.live.loop import Inbox, LiveEnvironment
from podtide.entrypoints.live.manifests import live_manifests

APP, NAMESPACE = "spark-bench", "data"
BATCH = 1_000
FEW, MANY = 50, 5_000
CREATED = b'{"metadata":{"name":"x","uid":"0c6b4ca4-6c4c-4c29-9d4a-6a2a7a3bb6a2"}}'


def settings_for(target: int) -> AppSettings:
    """Those of a run that acts without a driver."""
    given = {
        "spark.kubernetes.container.image": "registry.example/spark:4.3.0", "spark.driver.host": "driver.data.svc",
        "spark.driver.port": "7078", "spark.kubernetes.allocation.batch.size": str(BATCH),
    }  # fmt: skip
    return live_settings(
        [from_mapping(given, "given")], policies_with(()), app_id=APP, namespace=NAMESPACE, acting=True, dynamic=False,
        target=target,
    )  # fmt: skip


def manifests() -> ExecutorManifests:
    return live_manifests(settings_for(BATCH), None, None, SystemClock(), {"SPARK_USER": "spark"})


def creation(number: int) -> CreatePod:
    return CreatePod(0, number * 8, PodNumber(number), DEFAULT_PROFILE, Why(Cause.BELOW_TARGET))


def median_s(benchmark: BenchmarkFixture) -> float:
    """What the benchmark saw; skips where benchmarks are switched off."""
    if benchmark.stats is None:
        pytest.skip("benchmarks are switched off")
    return float(benchmark.stats.stats.median)


# manifests


@pytest.mark.benchmark(timer=time.thread_time)
def test_a_manifest(benchmark: BenchmarkFixture, compared: Compared) -> None:
    client = pytest.importorskip("kubernetes.client", reason="NO COMPARISON: the kubernetes package is not installed")
    made = manifests()
    commands = [creation(number) for number in range(1, 201)]
    bodies = benchmark.pedantic(lambda: [made.pod(one) for one in commands], rounds=30, warmup_rounds=3)
    assert len({*bodies}) == len(commands)
    api = client.ApiClient(client.Configuration(host="https://localhost"))
    trees = [msgspec.json.decode(body) for body in bodies]
    began = time.thread_time()
    for tree in trees:
        msgspec.json.encode(api.sanitize_for_serialization(tree))
    theirs_us = (time.thread_time() - began) * 1e6 / len(trees)
    us = median_s(benchmark) * 1e6 / len(commands)
    compared(
        f"a manifest of {len(bodies[0]) / 1000:.1f} KB, from the command to the bytes", f"{us:.1f} us",
        f"the client's serialization alone: {theirs_us:.0f} us", f"{theirs_us / us:.1f} x",
    )  # fmt: skip
    assert us <= theirs_us


# creations


class PromptApi:
    """Answers at once."""

    def call(self, *_: object, **__: object) -> ApiAnswer:
        return ApiAnswer(201, CREATED)

    def stream(self, *_: object, **__: object) -> Stream:
        raise NotImplementedError


@pytest.mark.benchmark(timer=time.process_time)
def test_a_thousand_creations(benchmark: BenchmarkFixture, compared: Compared) -> None:
    made = manifests()
    bodies = [made.pod(creation(number)) for number in range(1, BATCH + 1)]

    def ours() -> None:
        heard: list[Outcome] = []
        actuator = KubernetesActuator(
            PromptApi(), NAMESPACE, APP, made, heard.append, SystemClock(), lambda _news: None, ActuatorSettings(),
            jitter=lambda: 0.0,
        )  # fmt: skip
        for number in range(1, BATCH + 1):
            actuator.apply(creation(number))
        assert actuator.settle(60.0).done
        assert len(heard) == BATCH

    benchmark.pedantic(ours, rounds=10, warmup_rounds=1)
    api = PromptApi()
    began = time.process_time()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda body: api.call("create", "pods", "/pods", body=body), bodies))
    theirs_us = (time.process_time() - began) * 1e6 / len(answers)
    us = median_s(benchmark) * 1e6 / BATCH
    compared(
        "a creation through the actuator, manifest included, no network", f"{us:.0f} us",
        f"16 threads that only send: {theirs_us:.0f} us", f"{theirs_us / us:.2f} x",
    )  # fmt: skip


# steps


class HandClock:
    """Time stands still until somebody moves it."""

    def __init__(self) -> None:
        self.at = 1_800_000_000_000

    def now(self) -> Millis:
        return self.at

    def monotonic(self) -> float:
        return self.at / 1000


class Agreeable:
    """CommandSink that carry everything out at once."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def apply(self, command: Command | PodCommand, now: Millis) -> None:
        if (serial := getattr(command, "serial", None)) is not None:
            self._inbox.hear(Outcome(now, serial))


class Run:
    """A run whose target is met, recorded and told line by line, as ``podtide run --record`` does it."""

    def __init__(self, pods: int, folder: Path, lines: IO[str]) -> None:
        self.clock, self.inbox, self.pods = HandClock(), Inbox(), pods
        settings = settings_for(pods)
        self.tracker = LiveTracker(About(APP, NAMESPACE, ACT, "1", "https://10.0.0.1", "a number", False), self.clock)
        self.lines = LiveLines(self.tracker, lines, self.clock, as_json=True)
        header = header_of(APP, settings.conf, self.clock.now(), "live")
        self.writer = RecordingWriter(str(folder / f"{pods}.jsonl"), header)
        self.environment = LiveEnvironment(
            self.inbox, self.clock, Agreeable(self.inbox), self.tracker, [HeadlessFilter(HeadlessConfig())]
        )
        observers: list[Observer] = [Recorder(self.writer), self.tracker, self.lines]
        self.loop = AppLoop(settings.config, self.clock.now(), self.environment, observers)
        self._version, self._place = 1, 0
        self.loop.launch()
        self.inbox.hear(Reconciled(0, PodNumber(pods)))
        self.inbox.hear(PodsReplaced(0, tuple(self._pod(number) for number in range(1, pods + 1))))
        self.inbox.hear(TargetsSet(0, ((DEFAULT_PROFILE, pods),)))
        for _ in range(5):
            self.turn()
        assert self.tracker.snapshot().total.pods["running"] == pods

    def _pod(self, number: int) -> PodManifest:
        labels = {
            "spark-exec-id": str(number), "spark-role": "executor", "spark-app-selector": APP,
            "spark-exec-resourceprofile-id": "0",
        }  # fmt: skip
        return PodManifest(
            f"exec-{number}", labels, "2026-01-01T00:00:00Z", phase="Running", containers=(PodContainer(SPARK_CONTAINER),),
            version=str(self._version), uid=f"uid-{number}",
        )  # fmt: skip

    def news(self, count: int) -> PodsUpdated:
        """The next pods, each in a new version."""
        self._version += 1
        first, self._place = self._place, self._place + count
        return PodsUpdated(0, tuple(self._pod((first + i) % self.pods + 1) for i in range(count)))

    def turn(self) -> int:
        """A second later: what the loop does with what was heard; how many commands it decided."""
        self.clock.at += 1_000
        now, stimuli = self.environment.wait(self.clock.at)
        before = self.loop.steps
        self.loop.take(stimuli, now)
        self.lines.pump()
        return self.loop.steps - before


@pytest.mark.benchmark(timer=time.thread_time)
def test_a_step_of_a_live_loop(benchmark: BenchmarkFixture, compared: Compared, tmp_path: Path) -> None:
    with (tmp_path / "lines").open("w") as lines:
        few, many = Run(FEW, tmp_path, lines), Run(MANY, tmp_path, lines)

        def timed(run: Run) -> float:
            run.inbox.hear(run.news(10))
            began = time.thread_time()
            run.turn()
            return time.thread_time() - began

        small = sorted(timed(few) for _ in range(200))[100]

        def prepared() -> tuple[tuple[()], dict[str, object]]:
            many.inbox.hear(many.news(10))
            return (), {}

        benchmark.pedantic(many.turn, setup=prepared, rounds=200, iterations=1)
        large = median_s(benchmark)
        compared(
            f"a step of a live run after 10 watch events, {MANY:,} pods, recorded and told", f"{large * 1e3:.2f} ms",
            f"with {FEW} pods: {small * 1e3:.2f} ms", f"{small / large:.2f} x",
        )  # fmt: skip
        many.writer.close("done")
        few.writer.close("done")
        assert large <= 3 * small
