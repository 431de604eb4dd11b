"""The end of a live run, in order: sources first, then the core's own end, calls on their way, and the lease.

With ``--on-exit delete`` the core ends as KubernetesClusterSchedulerBackend.stop does, and a sweep goes on until a list says
that no pod is left. Without the lease nothing is written any more, so nothing is waited for.
"""

from __future__ import annotations

from typing import Final

from podtide.adapters.kubernetes.cleanup import leftovers_of
from podtide.adapters.notices import Level, Topic
from podtide.domain.backend.state import BackendPhase
from podtide.domain.base.units import Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol.executor_stimuli import Stopping
from podtide.entrypoints.common.app_loop import AppLoop
from podtide.entrypoints.live.assembly import LiveSystem
from podtide.entrypoints.live.loop import TURN_MS

SETTLE_S: Final = 20.0
"""How long calls on their way are waited for at the end (Spark's executorSnapshotsSubscribersShutdownGracePeriod)."""

STOP_S: Final = 60.0
"""How long the core's own end may take, its waits for deletions included."""

SWEEP_S: Final = 300.0
LAST_NEWS_S: Final = 3.0
"""How long the end waits for news of pods that are gone, as a list has said."""

LAST_NEWS_TURN_MS: Final[Millis] = 50

SWEPT: Final = ("pods", "configmaps")
"""What ``--on-exit delete`` leaves none of; and no sets, where an allocator makes sets."""

SETS: Final = {"statefulset": ("statefulsets",), "deployment": ("deployments",)}


def end(system: LiveSystem, loop: AppLoop) -> bool:
    """Stop in order and say how it ended; returns whether something is left that should not be."""
    options, audience, lease = system.options, system.audience, system.lease
    audience.tracker.ending()
    in_charge = lease is not None and not lease.lost.is_set()
    audience.say(Level.INFO, Topic.STOPPING, _parting(system, in_charge))
    system.stop_sources()
    deletes = in_charge and options.delete_on_exit
    left = deletes and _delete_all(system, loop)
    settled = system.actuator.settle(0.0 if lease is not None and lease.lost.is_set() else SETTLE_S)
    system.sensor.stop()
    if lease is not None:
        # A driver that lives on knows the executors that there were: their ids must be remembered for it.
        driver_gone = system.driver is None or system.driver.ended
        problem = lease.release(delete=deletes and not left and driver_gone, used_id=system.control.highest)
        if problem is not None and in_charge:
            audience.say(Level.WARNING, Topic.STOPPED, f"the lease was not given back: {problem}")
    calls = f"; {settled.left} calls were not carried out" if settled.left else ""
    remains = "nothing is left" if deletes and not left else f"pods left: {audience.pods_seen() or 'none'}"
    audience.say(Level.INFO, Topic.STOPPED, f"stopped; {remains}{calls}{_comparison(system)}")
    return left


def is_over(state: EngineState) -> bool:
    """Whether the scheduler backend has gone through its end."""
    side = state.kubernetes
    return side is not None and side.backend.phase in (BackendPhase.STOPPED, BackendPhase.ABANDONED)


def _parting(system: LiveSystem, in_charge: bool) -> str:
    if not system.options.acting:
        return "stopping"
    if not in_charge:
        return "stopping: somebody else is in charge, nothing more is written"
    return "stopping: all executors are deleted" if system.options.delete_on_exit else "stopping: executors are kept"


def _comparison(system: LiveSystem) -> str:
    if system.options.acting:
        return ""
    return f"; {system.control.same} creates and deletes as Spark's, {system.control.differences} differences"


def _delete_all(system: LiveSystem, loop: AppLoop) -> bool:
    """The core's own end, and a sweep until a list says zero; returns whether something is left."""
    clock, audience = system.clock, system.audience
    system.environment.go_on()
    now = clock.now()
    loop.take((Stopping(now),), now)
    until = clock.monotonic() + STOP_S
    while clock.monotonic() < until and not system.environment.stopping:
        loop.run(clock.now() + TURN_MS)
        if system.actuator.in_flight == 0 and is_over(loop.state):
            break
    app_id = system.options.app_id
    leftovers = leftovers_of(system.writing, system.namespace, app_id, SWEEP_S, clock, audience.notify, "sweep")
    sets = SETS.get(system.settings.config.kubernetes.backend.allocator, ())
    remains = leftovers.delete((*sets, *SWEPT), lambda _kind, _count: None, executors_only=True)
    for kind in remains:
        if not kind.clean:
            names = ", ".join(kind.swept.names)
            why = kind.refusal or f"{kind.swept.left} are there still: {names}"
            audience.say(Level.ERROR, Topic.LEFT_BEHIND, f"{kind.kind}: {why}")
    _hear_last_news(system, loop)
    return not all(kind.clean for kind in remains)


def _hear_last_news(system: LiveSystem, loop: AppLoop) -> None:
    """Let the state hear of the last pods' ends, which are on their way: what is said at the end shall be so."""
    clock = system.clock
    until = clock.monotonic() + LAST_NEWS_S
    while clock.monotonic() < until:
        pods = system.audience.tracker.snapshot().total.pods
        if not any(count for state, count in pods.items() if state != "deleted"):
            return
        loop.run(clock.now() + LAST_NEWS_TURN_MS)
