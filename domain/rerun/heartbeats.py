"""A rerun's application on YARN through time: the engine, its cluster, and the heartbeats between them.

``Heartbeats`` steps the engine of a whole application (``engine.advance``) for whoever plays the rest of it. A heartbeat
every three seconds of a day would be 28,800 of them, and nearly all say nothing. Where a beat provably changes nothing -
nothing to ask for, to cancel, to release or to exclude, nobody waits for a reason, nothing new on the other side, the
intervals settled - the reporter is *parked*: it keeps its place on the grid of its heartbeats, and goes on from there when
anything happens. Decisions are the same as with every beat made; only calls that say nothing are not made, and do not wear
out the cluster's chance.

``DescribedCluster`` is a cluster that somebody described, as a place to ask: what it hears, when it is due, whether it is
idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from podtide.domain import engine
from podtide.domain.base.units import NEVER, ExecutorId, Millis, next_on_grid
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.fakes.yarn import cluster as worlds
from podtide.domain.fakes.yarn.cluster import ClusterCommand, ClusterStimulus
from podtide.domain.fakes.yarn.description import YarnDescription
from podtide.domain.fakes.yarn.outlook import Outlook, idle, outlook
from podtide.domain.protocol.application import Command, EngineConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.yarn_messages import MasterRegistered
from podtide.domain.rerun.engine_manager import EngineSteps
from podtide.domain.rerun.start_up import SETTLED, WarmUp
from podtide.domain.yarn import allocator as yarn
from podtide.domain.yarn.reporter import ReporterStage
from podtide.domain.yarn.side import YarnSideState

DEPLOY_MODE: Final = "spark.submit.deployMode"


def is_client(conf: SparkConf) -> bool:
    """Whether the driver runs outside of the application master (spark.submit.deployMode)."""
    return conf.master != "yarn-cluster" and (conf.raw(DEPLOY_MODE) or "").strip().lower() != "cluster"


def is_reset_at_start(conf: SparkConf) -> bool:
    """Whether dynamic allocation is reset as the application begins: on YARN in cluster mode.

    There the application master waits for the driver and registers when dynamic allocation has started; in client mode the
    driver waits for the master. The reset leaves addTime at 0, so the first backlog needs no timeout.
    """
    return conf.master.startswith("yarn") and not is_client(conf)


class DescribedCluster:
    """A cluster that was given. ``shares_driver``: the driver's first job waits for work that starts slow down."""

    shares_driver = False

    def __init__(self, description: YarnDescription, seed: int, now: Millis) -> None:
        self.world = worlds.begin(description, seed, now)
        self.beat_ms = description.manager.latency.quantile(0.5)
        self._known: list[ExecutorId] = []

    def due(self) -> Millis:
        """When something happens there next."""
        return worlds.due(self.world)

    def idle(self) -> bool:
        """Whether a heartbeat would bring nothing, as long as nothing else happens."""
        return idle(self.world)

    def outlook(self) -> Outlook:
        """What keeps containers away."""
        return outlook(self.world)

    def apply(self, command: ClusterCommand, now: Millis) -> None:
        """The application asks for something."""
        self.world = worlds.apply(self.world, command, now)

    def advance(self, now: Millis) -> Iterable[ClusterStimulus]:
        """Let time pass; returns what reaches the application."""
        self.world, stimuli = worlds.advance(self.world, now)
        return stimuli

    def registered(self, executor: ExecutorId, now: Millis) -> None:  # noqa: ARG002 - others know more
        """The driver took an executor in."""
        self._known.append(executor)

    def ready(self) -> list[ExecutorId]:
        """Executors that can be given tasks since this was last asked."""
        known, self._known = self._known, []
        return known

    def warm_up(self, now: Millis, work: Millis) -> WarmUp:  # noqa: ARG002 - others know more
        """An executor begins its first task, which takes so much work longer."""
        return WarmUp(SETTLED, work)

    def warms(self, now: Millis, number: int) -> Millis:  # noqa: ARG002 - the same
        """How long a first task still takes what it takes longer."""
        return 0

    def think(self, now: Millis) -> None:
        """The driver begins its own work before its first job."""

    def thought(self) -> bool:
        """Whether the driver's own work before its first job is done."""
        return True


class Heartbeats(EngineSteps):
    """An application on YARN. ``client``: its driver runs outside of the application master."""

    def __init__(self, config: EngineConfig, place: DescribedCluster, *, client: bool) -> None:
        assert config.yarn is not None
        super().__init__(config, place)
        self.place = place
        self._client = client
        self._yarn = config.yarn
        self._period = max(1, config.yarn.reporter.heartbeat_ms + place.beat_ms)
        self._parked: Millis | None = None  # when the reporter would have beaten next

    def begin(self, now: Millis) -> Sequence[Step[engine.EngineState, Command]]:
        """The driver starts and its master registers, before dynamic allocation does (client mode) or after it.

        The master is one that the cluster lets register at ``now``; if there is none yet, it comes by and by.
        """
        met = [one for one in self.place.advance(now) if isinstance(one, MasterRegistered)]
        steps = [engine.launch(self.config, now, master_registered=bool(met) and self._client)]
        self._state = steps[0].state
        if met and not self._client:
            steps.append(self.advance(met, now))
        return steps

    def wakes(self, now: Millis) -> bool:
        """Whether a Wake at ``now`` would change anything; a beat that would not is passed over."""
        if engine.wake_due(self.state, self.config) > now:
            return False
        if (self._side.reporter.until or NEVER) <= now and self._quiet(now):
            self._beat_later(now + 1)
            return engine.wake_due(self.state, self.config) <= now
        return True

    def resume(self, now: Millis) -> None:
        """Time is ``now``: put the reporter where it would be had it made every beat."""
        if self._parked is not None:
            self._beat_at(self._parked)
            self._parked = None
            self._beat_later(now)

    def rest(self, now: Millis) -> Millis:
        """Nothing else happens at ``now``; returns when something does."""
        if self._quiet(now):
            self._parked = self._side.reporter.until
            self._beat_at(None)
        return min(self.place.due(), max(now + 1, engine.wake_due(self.state, self.config)))

    @property
    def _side(self) -> YarnSideState:
        side = self.state.yarn
        assert side is not None
        return side

    def _beat_at(self, until: Millis | None) -> None:
        self._state = engine.with_next_heartbeat(self.state, until)

    def _beat_later(self, now: Millis) -> None:
        """The reporter's next beat is on its grid, not before ``now``."""
        until = self._side.reporter.until
        assert until is not None
        if until < now:
            self._beat_at(next_on_grid(until, self._period, now))

    def _quiet(self, now: Millis) -> bool:
        """Whether the reporter's next beats change nothing, as long as nothing else happens."""
        side = self._side
        allocator, reporter = side.allocator, side.reporter
        if reporter.stage is not ReporterStage.SLEEPING or reporter.until is None or side.beating or side.held:
            return False
        if (allocator.pending or allocator.rows.loss_asked) and reporter.interval_ms < self._yarn.reporter.heartbeat_ms:
            return False
        for profile in allocator.targets:
            short = yarn.missing(allocator, profile)
            if short > 0 or (short < 0 and allocator.rows.requests[profile].waiting):
                return False
        limits, health = self._yarn.allocator, allocator.health
        if health.all_excluded or health.failures_at(limits.exclusion, now) >= limits.failures_max:
            return False
        return self.place.idle()
