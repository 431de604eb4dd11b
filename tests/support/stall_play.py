"""An application against the fake cluster in virtual time, with the watch over stalls beside its loop as in a live run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any

from podtide.adapters.recording.app_stalls import AppStalls
from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, Millis, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.fakes.driver.script import Jobs, ScriptJob, ScriptStage, Targets, Workload
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.stimuli import StageSubmitted, Stimulus
from podtide.domain.stalls.stalls import StallNews
from podtide.entrypoints.common.app_config import app_settings
from podtide.entrypoints.simulate.driver_scripts import WorkloadScript
from podtide.entrypoints.simulate.run import Setup, Simulation

S: Millis = 1_000
M: Millis = 60 * S
K = "spark.kubernetes."
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "4",
}


def one_stage(tasks: int, length: Millis, **script: object) -> Jobs:
    """A job of one stage; ``length``: of a task."""
    return Jobs((ScriptJob("job", (ScriptStage("only", tasks, Constant(length)),)),), **script)  # type: ignore[arg-type]


def target(executors: int) -> Targets:
    """So many executors from the beginning."""
    return Targets(((0, ((ProfileId(0), executors),)),))


class IdleDriver:
    """A driver that has submitted a stage of two tasks and starts none. ``besides``: what it says then."""

    def __init__(self, *besides: Stimulus) -> None:
        self._said: Sequence[AnyStimulus] = (StageSubmitted(0, 0, 0, 2, DEFAULT_PROFILE), *besides)

    def due(self) -> Millis:
        """At the beginning."""
        return 0 if self._said else NEVER

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """All that it ever says."""
        del now
        said, self._said = self._said, ()
        return said

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        """It does nothing about it."""

    def done(self) -> bool:
        """Never."""
        return False

    def summary(self) -> dict[str, Any]:
        """Nothing."""
        return {}


def watched(
    wanted: Workload | IdleDriver,
    cluster: Description,
    until: Millis,
    conf: Mapping[str, str] = MappingProxyType({}),
    blind: Callable[[], bool] = lambda: False,
) -> tuple[AppStalls, list[StallNews]]:
    """The watch at the end, and all that it was told of."""
    dynamic = {"spark.executor.instances": "0"} if isinstance(wanted, Targets) else DYNAMIC
    given = {"spark.app.id": "app", f"{K}container.image": "x", f"{K}executor.podNamePrefix": "mine", **dynamic, **conf}
    config = app_settings(from_mapping(given, "a test")).config
    rules = config.scaling.profile_rules
    script = copy(wanted) if isinstance(wanted, IdleDriver) else WorkloadScript(wanted, 1, 0, rules)
    news: list[StallNews] = []
    stalls = AppStalls(config, 0, news.append, blind)
    setup = Setup(config, cluster, 1, 0, until, "app", until, until)
    Simulation(setup, script, [stalls], stalls.passed).run()
    return stalls, news
