"""A whole application: what it is configured by, what it hears and what it says, whichever cluster manager lies under it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from podtide.domain.protocol.cluster_config import KubernetesConfig, YarnConfig
from podtide.domain.protocol.commands import ScalingCommand
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.pod_commands import PodCommand
from podtide.domain.protocol.pod_stimuli import PodStimulus
from podtide.domain.protocol.stimuli import Stimulus
from podtide.domain.protocol.yarn_messages import YarnCommand, YarnStimulus


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """A whole application: dynamic allocation, if it is on, over one of two sides: YARN if ``yarn`` is there, Kubernetes
    otherwise.
    """

    scaling: ScalingConfig
    kubernetes: KubernetesConfig = field(default_factory=KubernetesConfig)
    dynamic: bool = True
    yarn: YarnConfig | None = None


AnyStimulus: TypeAlias = Stimulus | PodStimulus | YarnStimulus
"""All that can arrive at an application."""

Command: TypeAlias = ScalingCommand | PodCommand | YarnCommand
"""Everything that an application tells somebody else."""
