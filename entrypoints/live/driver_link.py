"""The Spark driver behind ``--driver-url``: its conf before the run begins, its news while it lasts.

A thread of its own looks at the driver's REST API; what it learns goes to the inbox. The run ends when the driver ends.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Sequence
from typing import Final

from podtide.adapters.clock import Clock, SystemClock
from podtide.adapters.driver.driver_client import Access, DriverHttp, DriverRefused, Get
from podtide.adapters.driver.driver_sensor import DriverSensor, DriverSettings, DriverSilent, ask_conf
from podtide.adapters.kubernetes.executor_pod.manifests import ExecutorManifests
from podtide.adapters.notices import Level, Topic
from podtide.domain.base.units import Millis
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.engine import EngineState
from podtide.domain.kubernetes import side as kubernetes_side
from podtide.domain.live.driver_snapshot import ViewConfig
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.cluster_config import KubernetesConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.resource_profiles import from_added
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.entrypoints.common.output import ClusterRefused, Misused, refused_as
from podtide.entrypoints.live.audience import Audience
from podtide.entrypoints.live.loop import Hear
from podtide.entrypoints.live.options import RunOptions

DRIVER_WITHIN_S: Final = 30.0
"""How long a driver that does not answer is waited for at the start."""

ANSWER_TIMEOUT_S: Final = 5.0
CONF_TIMEOUT_S: Final = 30.0
"""How long a driver may take to show its conf: the first answer of a driver that has just begun is slow."""

POD_KEYS: Final = ("spark.executorEnv.", "spark.executor.", "spark.kubernetes.executor.", "spark.kubernetes.container.")
"""Settings that executors' pods are made from begin like this."""

HIDDEN_SHOWN: Final = 10


class DriverLink:
    """A driver that has shown its conf. ``manifests``: pods of a resource profile can be built once the driver named it."""

    def __init__(self, options: RunOptions, url: str, hear: Hear, clock: SystemClock, audience: Audience) -> None:
        """Ask for the driver's conf, waiting for a driver that has not begun to listen. Raises Misused, ClusterRefused."""
        self.manifests: ExecutorManifests | None = None
        self.hidden: list[str] = []
        self._hear = hear
        prefix = f"--driver-url {url}: "
        with refused_as(Misused, DriverRefused, prefix=prefix), refused_as(ClusterRefused, DriverSilent, prefix=prefix):
            get = DriverHttp(url, _access(options, ANSWER_TIMEOUT_S), clock, os.environ)
            patient = DriverHttp(url, _access(options, CONF_TIMEOUT_S), clock, os.environ)
            self.conf = conf_of(patient, options.app_id, self.hidden, clock, audience, threading.Event().wait)
        view = ViewConfig(shuffle_linger_ms=options.shuffle_linger_ms)
        settings = DriverSettings(options.driver_interval_ms / 1000, view=view)
        self.sensor = DriverSensor(get, options.app_id, self._take, clock, audience.notify, settings, random.random)

    @property
    def ended(self) -> bool:
        """Whether the driver is known to be gone."""
        return self.sensor.ended.is_set()

    @property
    def blind(self) -> bool:
        """Whether the driver does not answer and is not known to be gone."""
        return self.sensor.silent and not self.ended

    def start(self, on_end: Callable[[], None]) -> None:
        """Look at the driver from now on; ``on_end`` is called, on another thread, when the driver has ended."""

        def wait_for_end() -> None:
            self.sensor.ended.wait()
            on_end()

        self.sensor.start()
        threading.Thread(target=wait_for_end, name="driver-end", daemon=True).start()

    def refuse_hidden(self, layers: Sequence[SparkConf]) -> None:
        """Pods are not made without what the driver's REST API hides: secrets, and what looks like them. Raises Misused."""
        given = {key for layer in layers for key in layer.settings}
        lacking = sorted(key for key in self.hidden if key.startswith(POD_KEYS) and key not in given)
        if lacking:
            shown = ", ".join(lacking[:HIDDEN_SHOWN])
            raise Misused(
                f"the driver hides the values of {shown} (spark.redaction.regex), which its executors' pods are made from: "
                "give them in --properties-file or --conf"
            )

    def _take(self, stimulus: AnyStimulus) -> None:
        """Called on the driver's thread."""
        if isinstance(stimulus, ResourceProfileAdded) and self.manifests is not None:
            self.manifests.learn(from_added(stimulus))
        self._hear(stimulus)


class SummaryObserver:
    """Answers the executor roll plugin, when it begins to wait, with what the driver knows of its executors."""

    def __init__(self, config: KubernetesConfig, driver: DriverSensor, hear: Hear) -> None:
        self._config, self._driver, self._hear = config, driver, hear
        self._waits = False

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """See whether it begins to wait."""
        del stimuli
        side = taken.state.kubernetes
        assert side is not None
        waits = kubernetes_side.wants(side, self._config, now).summary
        if waits and not self._waits:
            summary = self._driver.summary(now)
            if summary is None:
                return
            self._hear(summary)
        self._waits = waits


def conf_of(
    get: Get, app_id: str, hidden: list[str], clock: Clock, audience: Audience, pause: Callable[[float], object]
) -> dict[str, str]:
    """The driver's own conf, waiting for a driver that is not ready. ``hidden``: gets the keys whose values Spark hides.

    ``pause``: waits so many seconds. Raises DriverSilent.
    """
    began = clock.monotonic()
    silent = False
    while True:
        try:
            conf = ask_conf(get, app_id, hidden)
        except DriverSilent as problem:
            if clock.monotonic() - began >= DRIVER_WITHIN_S:
                raise
            if not silent:
                text = f"{problem}; waiting {DRIVER_WITHIN_S:.0f} s for it"
                audience.say(Level.WARNING, Topic.DRIVER_UNREACHABLE, text)
            silent = True
            pause(1.0)
            continue
        if silent:
            text = f"the driver answers, after {clock.monotonic() - began:.1f} s"
            audience.say(Level.INFO, Topic.DRIVER_BACK, text)
        return conf


def _access(options: RunOptions, timeout_s: float) -> Access:
    return Access(timeout_s=timeout_s, credential_env=options.driver_auth)
