"""The YARN side of an application at a moment: its machines' states, and when one of them next needs time.

The driver's scheduler backend, and in the application master the allocator and the reporter thread, do not know one
another; ``router`` carries from one to the next what they say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from podtide.domain.backend import heartbeat_receiver as heartbeats
from podtide.domain.backend.heartbeat_receiver import HeartbeatState
from podtide.domain.base.units import Millis
from podtide.domain.protocol import backend_messages as messages, yarn_messages
from podtide.domain.protocol.cluster_config import YarnConfig
from podtide.domain.protocol.pod_commands import PodCommand
from podtide.domain.protocol.pod_stimuli import PodStimulus
from podtide.domain.protocol.stimuli import Reset
from podtide.domain.protocol.yarn_messages import YarnStimulus
from podtide.domain.yarn import allocator as yarn, reporter, scheduler_backend as yarn_backend
from podtide.domain.yarn.allocator_state import YarnState
from podtide.domain.yarn.reporter import ReporterState
from podtide.domain.yarn.scheduler_backend import YarnBackendState

SideStimulus: TypeAlias = (
    YarnStimulus | PodStimulus | messages.RequestTotals | messages.RequestMore | messages.HostsExcluded
)
"""All that may arrive; what only Kubernetes knows (pods, measurements, outcomes of calls) changes nothing here."""

News: TypeAlias = messages.BackendNews | Reset
"""What is told to the driver's other half, and that dynamic allocation is to begin anew."""

SideCommand: TypeAlias = PodCommand | yarn_messages.YarnCommand | News


class AllocatorCall(NamedTuple):
    """Something for the allocator; ``serial``: of the backend's call that it is, if somebody waits for the answer."""

    item: yarn_messages.YarnInput
    serial: int | None = None


@dataclass(frozen=True, slots=True)
class YarnSideState:
    """All machines at a moment.

    ``beating``: a round is under way that the reporter waits for. ``held``: what waits for the allocator until it is over.
    """

    allocator: YarnState
    backend: YarnBackendState
    reporter: ReporterState
    heartbeats: HeartbeatState
    beating: bool = False
    held: tuple[AllocatorCall, ...] = ()


def begin(config: YarnConfig, now: Millis) -> YarnSideState:
    """An application that has been made and not started: hand it ``Starting``, and then ``MasterRegistered``."""
    return YarnSideState(
        yarn.begin(config.allocator, now).state,
        yarn_backend.begin(config.backend, now),
        reporter.begin(config.reporter),
        heartbeats.begin(now),
    )


def due(state: YarnSideState, config: YarnConfig) -> Millis:
    """When a ``Wake`` could change anything; NEVER if only a stimulus can."""
    return min(
        heartbeats.due(state.heartbeats, config.heartbeats),
        yarn_backend.due(state.backend, config.backend),
        reporter.due(state.reporter, config.reporter),
    )
