"""The watch over the stalls of a log, beside the loop that replays it (``common.event_loop``)."""

from __future__ import annotations

from typing import Final

from podtide.adapters.recording.run_stalls import RunStalls
from podtide.domain.base.units import Millis
from podtide.domain.conf.spark_conf import read
from podtide.domain.scaling.load import Load
from podtide.domain.stalls.facts import StallConfig
from podtide.domain.stalls.readings import profile_moments
from podtide.domain.stalls.stalls import Stall
from podtide.entrypoints.common.event_loop import Loop
from podtide.entrypoints.common.log_config import SettledConf

JUMP_MS: Final[Millis] = 30 * 86_400_000
"""A gap in a log's times from which on it is worth a word."""


class LoopStalls:
    """Watches the first lane of a loop; ``observe`` is what the loop calls with every moment that it comes to."""

    def __init__(self, settled: SettledConf, start: Millis) -> None:
        self._run = RunStalls(StallConfig(start, _poll_ms(settled)))
        self._dynamic = settled.enabled
        self._reflected: Load | None = None

    @property
    def left_out(self) -> int:
        """Stalls that are not among those that are told."""
        return self._run.left_out

    def observe(self, loop: Loop, now: Millis, *, last: bool = False) -> None:
        """Whether anything moved until ``now``; ``last``: the log ends."""
        run, load, scaling = self._run, loop.load, loop.lanes[0].state
        if load is not self._reflected:
            self._reflected = load
            run.hear(load.recent, loop.now)
        if (last or run.due(now)) and (load.tasks_wait() or run.state.open):
            run.look(profile_moments(load, scaling, loop.config, dynamic=self._dynamic), now)
        if loop.config.shuffle_tracking and self._dynamic:
            run.look_at_kept(scaling, now, last=last)

    def stalls(self, end: Millis) -> list[Stall]:
        """The stalls; not those of months, which only a log's clock makes when it jumps. ``end``: of the log."""
        return [stall for stall in self._run.all() if (stall.until or end) - stall.since <= JUMP_MS]


def _poll_ms(settled: SettledConf) -> Millis | None:
    """How long a pod may live and never be seen; None where executors are no pods, or its setting cannot be used."""
    master = settled.conf.setting("spark.master")
    if master is None or not master.value.startswith("k8s"):
        return None
    poll = read(settled.conf, "spark.kubernetes.executor.apiPollingInterval").value_or(None)
    return poll.value if poll is not None and isinstance(poll.value, int) else None
