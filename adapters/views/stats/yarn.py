"""What an application on YARN went through, counted as it happens: an observer of the loop with bounded memory.

The counterpart of ``views.stats.kubernetes`` for containers, seen from the driver and its application master:

- a container is *requested* when a request enters the AM client's table, and *cancelled* when it leaves it unanswered;
- it is *allocated* when the resource manager hands it out; what no request wants goes back as *surplus*;
- it is *launched* when an executor is started in it, and its executor is there from the moment its registration is accepted
  until the driver removes it;
- it is *wasted* if it was launched and is gone without its executor ever registering; those still on their way at the end
  are not. So launched = registered + wasted + on the way.

``matched`` says how near to its wish a container was: on a host of its request, on a rack of it, anywhere. ``exits`` counts
what ended containers in which executors had been started, by YARN's exit status; containers that were given back count as
such, whatever their status. What every platform counts - targets, bounds, time - is in ``views.stats.base``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from podtide.adapters.views.stats.base import StatsBase
from podtide.adapters.views.stats.waits import Wait
from podtide.domain.base.units import Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.container_requests import count_of
from podtide.domain.protocol.containers import ANY_HOST, Resource
from podtide.domain.protocol.executor_commands import AnswerRegistration, RemoveExecutor
from podtide.domain.protocol.reasons import Bound, Cause
from podtide.domain.yarn.allocator_state import YarnState

CONTAINERS_MAX: Final = 1_000_000
"""Containers under way of which it is remembered whose they are; a resource manager that never ends any stays bounded."""

HEARTBEATS: Final = "heartbeats"
LAUNCHES: Final = "launches"

STATUSES: Final = {
    0: "ended by itself",
    -100: "aborted",
    -101: "disks failed",
    -102: "preempted",
    -103: "too much virtual memory",
    -104: "too much memory",
    -105: "killed by the application master",
    -106: "killed by the resource manager",
    -107: "killed after the application's end",
    -108: "killed by the node's scheduler",
    -1000: "never started",
}
"""YARN's exit statuses (ContainerExitStatus) as people name them."""

GIVEN_BACK: Final = "given back"
MASTER_ANEW: Final = "a new application master"
_ASKED_TO: Final = "exited from explicit termination request."
"""How Spark's reason ends for an executor whose container was given back."""


def status_words(status: int) -> str:
    """An exit status in words: ``preempted (-102)``, ``exit status 143``."""
    known = STATUSES.get(status)
    return f"exit status {status}" if known is None else f"{known} ({status})"


def gone_words(command: RemoveExecutor) -> str:
    """How an executor came to be removed: by its container's exit status if that is known, else by the command's cause."""
    reason = command.reason
    if reason.message.endswith(_ASKED_TO):
        return GIVEN_BACK
    return command.why.cause.value if reason.exit_code is None else status_words(reason.exit_code)


class YarnStats(StatsBase):
    """Watches the steps of an application; ``document`` says what it was. ``start``: when it began."""

    unit: ClassVar[str] = "container"

    def __init__(self, start: Millis) -> None:
        super().__init__(start)
        self.matched: Counter[str] = Counter({"host": 0, "rack": 0, "anywhere": 0})
        self.released: Counter[str] = Counter()
        self.exits: Counter[str] = Counter()
        self.ending: dict[str, str] | None = None
        self._executor_of: dict[str, str] = {}
        self._given_back: set[str] = set()
        self._looked_at: YarnState | None = None
        self._pending = 0
        self._room: Resource | None = None  # what the queue has left, as far as it was said
        self._sizes: dict[int, Resource] = {}  # of containers, by profile
        self._master = False
        self._refused = False  # the last heartbeat failed

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """See one step. Costs what it says, and the profiles."""
        self._pass(now)
        hosts: dict[str, str] = {}
        for stimulus in stimuli:
            match stimulus:
                case ym.ResourcesAnswered(allocated=allocated):
                    self.counts["allocated"] += len(allocated)
                    hosts.update((container.id, container.host) for container in allocated)
                    self._sizes.update((container.profile, container.resource) for container in allocated)
                    self._room, self._refused = stimulus.available, False
                case ym.ResourcesRefused(what=what):
                    self.failed_calls[f"{HEARTBEATS}: {what.partition(':')[0][:80]}"] += 1
                    self._refused = True
                case ym.LaunchEnded(failure=None):
                    self._underway.reach(str(stimulus.executor), Wait.PROCESS)
                case ym.LaunchEnded():
                    self.failed_calls[LAUNCHES] += 1
                    self._lose((str(stimulus.executor),), Cause.LAUNCH_FAILED.value)
                case ym.MasterRegistered():
                    # The containers of the one before are killed with it, and nobody tells the new one of them.
                    self._lose(tuple(self._coming), MASTER_ANEW)
                    self._executor_of.clear()
                    self._given_back.clear()
                    self._master, self._room, self._refused = True, None, False
                case ym.MasterLost():
                    self._master = False
                case _:
                    pass
        side = taken.state.yarn
        assert side is not None, "these statistics are of an application on YARN"
        for command in taken.commands:
            if isinstance(command, AnswerRegistration) and command.accepted:
                self._joined(command.executor, side.backend.registry)
            else:
                self._command(command, hosts)
        for stimulus in stimuli:  # who ran in a container is known by now, even if it came and went in one answer
            if isinstance(stimulus, ym.ResourcesAnswered):
                for one in stimulus.completed:
                    self._completed(one.container, one.status)
        self._reported(taken.reports)
        self._look(now, side.allocator)

    def document(self) -> dict[str, Any]:
        """The summary as plain data: counts, seconds and milliseconds since the epoch, as docs/reference/formats.md says."""
        counts = self.counts
        return {
            **self._began(),
            "containers": {
                "requested": counts["requested"],
                "localized": counts["localized"],
                "cancelled": counts["cancelled"],
                "pending": self._pending,
                "allocated": counts["allocated"],
                "surplus": self.released[Cause.SURPLUS.value],
                "launched": counts["launched"],
                "launches_failed": self.failed_calls[LAUNCHES],
                "registered": counts["registered"],
                "removed": sum(self.removals.values()),
                "wasted": sum(self.wastes.values()),
                "on_the_way": len(self._coming),
                "executor_seconds": self._executor_ms / 1000,
                "waiting_seconds": self._waiting_ms / 1000,
                "matched": dict(self.matched),
                "released": dict(sorted(self.released.items())),
                "exits": dict(sorted(self.exits.items())),
            },
            "hosts": {
                "excluded": counts["excluded"],
                "included": counts["included"],
                "decommissioning": counts["decommissioning"],
            },
            **self._ended(),
            "ending": self.ending,
            "series": self.history.document(),
        }

    # ------------------------------------------------------------------------------------------------------ containers

    def _command(self, command: Command, hosts: dict[str, str]) -> None:
        match command:
            case ym.RequestContainers():
                self.counts["requested"] += command.count
                self.counts["localized"] += command.count - command.anywhere
                self._sizes.setdefault(command.profile, command.resource)
            case ym.CancelRequests(spans=spans):
                self.counts["cancelled"] += count_of(spans)
            case ym.CallResourceManager():
                self.calls[HEARTBEATS] += 1
            case ym.TakeRequests(matches=matches):
                for match in matches:
                    self.matched[nearness(match.location, hosts.get(match.container))] += 1
            case ym.ReleaseContainers(containers=containers):
                cause = command.why.cause
                self.released[cause.value] += len(containers)
                self._given_back.update(one for one in containers if one in self._executor_of)
            case ym.LaunchExecutor():
                self.calls[LAUNCHES] += 1
                self.counts["launched"] += 1
                if len(self._executor_of) < CONTAINERS_MAX:
                    self._executor_of[command.container] = command.executor
                self._coming.add(command.executor)
                self._underway.begin(command.executor, command.profile, Wait.LAUNCH)
            case RemoveExecutor():
                self._left(str(command.executor), gone_words(command))
            case ym.UpdateExclusions(added=added, removed=removed):
                self.counts["excluded"] += len(added)
                self.counts["included"] += len(removed)
            case ym.DecommissionHost():
                self.counts["decommissioning"] += 1
            case ym.EndApplication():
                self.exit_code = command.exit_code
                self.ending = {"status": command.status, "message": command.message}
            case _:
                pass

    def _completed(self, container: str, status: int) -> None:
        executor = self._executor_of.pop(container, None)
        if executor is None:
            return
        back = container in self._given_back
        self._given_back.discard(container)
        self.exits[GIVEN_BACK if back else status_words(status)] += 1
        self._lose((executor,), Cause.CONTAINER_COMPLETED.value)

    # ----------------------------------------------------------------------------------------------------- over time

    def _look(self, now: Millis, allocator: YarnState) -> None:
        """Read where the application stands."""
        if allocator is self._looked_at and len(self._there) == self._values[3]:
            return
        before, self._looked_at = self._looked_at, allocator
        if before is None or allocator.targets is not before.targets:
            for profile, target in allocator.targets.items():
                if target != self._targets.get(profile, 0):
                    self._aim(now, profile, target)
        self._pending = allocator.pending
        self._stand(now, self._pending + allocator.containers.started)

    def _unasked(self, profile: int, target: int) -> str:  # noqa: ARG002 - the allocator asks for all at once
        if not self._master:
            return Wait.MASTER.value
        bound = self._bound_on(profile)
        if self._refused:
            return Wait.REFUSED.value
        if bound != Bound.RESOURCE_MANAGER.value:
            # Whoever is not asked for now will be with the next heartbeat.
            return bound or Wait.ROUND.value
        size, room = self._sizes.get(profile), self._room
        if size is None or room is None:
            return bound
        full = size.memory_mib > room.memory_mib or size.vcores > room.vcores
        return Wait.QUEUE.value if full else Wait.OFFER.value


def nearness(location: str, host: str | None) -> str:
    """How near to its request's wish a container was: ``host``, ``rack`` or ``anywhere``."""
    return "anywhere" if location == ANY_HOST else "host" if location == host else "rack"
