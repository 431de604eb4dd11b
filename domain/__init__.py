"""Spark's executor allocation as pure functions: the part of podtide to import.

A decision goes from (state, stimulus, config, now) to a ``Step``: the new state, the commands to carry out, and reports
of what was held back. ``start`` begins, ``step`` goes on, ``due`` says when the timer next matters; a command that asks
something is answered by an ``Answer`` with its ``serial``. ``scaling_config`` makes the configuration of a ``SparkConf``.

A name is loaded from its room when it is first asked for, and nothing else with it: whoever imports the configuration does
not pay for the machines.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from podtide.domain.base.units import ALWAYS, DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
    from podtide.domain.conf.scaling_config import ScalingSettings, scaling_config
    from podtide.domain.conf.settings import Refused
    from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_arguments, from_mapping, layered
    from podtide.domain.conf.spark_versions import parse_version
    from podtide.domain.jvm.exceptions import SparkFault
    from podtide.domain.protocol.application import Command
    from podtide.domain.protocol.commands import (
        Decommission,
        Departure,
        Kill,
        Report,
        RequestTotal,
        ScheduleThrew,
        Step,
        TargetChange,
    )
    from podtide.domain.protocol.config import TICK_INTERVAL_MS, ProfileRules, ScalingConfig
    from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Why
    from podtide.domain.protocol.resource_profiles import ResourceProfile, tasks_per_executor
    from podtide.domain.protocol.stimuli import (
        Answer,
        BlockUpdated,
        ExecutorAdded,
        ExecutorRemoved,
        ExecutorsActive,
        ExecutorsInactive,
        JobEnd,
        JobStage,
        JobStart,
        KillDisproved,
        ListenerEvent,
        RddBlock,
        Reset,
        ResourceProfileAdded,
        ShuffleCleaned,
        ShuffleDataBlock,
        ShuffleRegistered,
        ShuffleUnneeded,
        SpeculativeTaskSubmitted,
        StageCompleted,
        StageSubmitted,
        Stimulus,
        Stop,
        TaskEnd,
        TaskOutcome,
        TaskStart,
        Tick,
        UnpersistRDD,
        UnschedulableTaskSetAdded,
        UnschedulableTaskSetRemoved,
    )
    from podtide.domain.scaling.dynamic_allocation import State, due, start, step
    from podtide.domain.scaling.load import Load
    from podtide.domain.scaling.manager import scale
    from podtide.domain.scaling.metrics import metrics
    from podtide.domain.scaling.rules import need
    from podtide.domain.scaling.state import ScalingState

__all__ = [
    "ALWAYS",
    "DEFAULT_PROFILE",
    "NEVER",
    "TICK_INTERVAL_MS",
    "Answer",
    "BlockUpdated",
    "Bound",
    "Cause",
    "Command",
    "ConfError",
    "Decommission",
    "Departure",
    "ExecutorAdded",
    "ExecutorId",
    "ExecutorRemoved",
    "ExecutorsActive",
    "ExecutorsInactive",
    "Held",
    "JobEnd",
    "JobStage",
    "JobStart",
    "Kill",
    "KillDisproved",
    "ListenerEvent",
    "Load",
    "Millis",
    "Phase",
    "ProfileId",
    "ProfileRules",
    "RddBlock",
    "Refused",
    "Report",
    "RequestTotal",
    "Reset",
    "ResourceProfile",
    "ResourceProfileAdded",
    "ScalingConfig",
    "ScalingSettings",
    "ScalingState",
    "ScheduleThrew",
    "ShuffleCleaned",
    "ShuffleDataBlock",
    "ShuffleRegistered",
    "ShuffleUnneeded",
    "SparkConf",
    "SparkFault",
    "SpeculativeTaskSubmitted",
    "StageCompleted",
    "StageSubmitted",
    "State",
    "Step",
    "Stimulus",
    "Stop",
    "TargetChange",
    "TaskEnd",
    "TaskOutcome",
    "TaskStart",
    "Tick",
    "UnpersistRDD",
    "UnschedulableTaskSetAdded",
    "UnschedulableTaskSetRemoved",
    "Why",
    "due",
    "from_arguments",
    "from_mapping",
    "layered",
    "metrics",
    "need",
    "parse_version",
    "scale",
    "scaling_config",
    "start",
    "step",
    "tasks_per_executor",
]

_NAMES: Final = {
    "base.units": "ALWAYS DEFAULT_PROFILE NEVER ExecutorId Millis ProfileId",
    "conf.scaling_config": "ScalingSettings scaling_config",
    "conf.settings": "Refused",
    "conf.spark_conf": "ConfError SparkConf from_arguments from_mapping layered",
    "conf.spark_versions": "parse_version",
    "jvm.exceptions": "SparkFault",
    "protocol.application": "Command",
    "protocol.commands": "Decommission Departure Kill Report RequestTotal ScheduleThrew Step TargetChange",
    "protocol.config": "TICK_INTERVAL_MS ProfileRules ScalingConfig",
    "protocol.reasons": "Bound Cause Held Phase Why",
    "protocol.resource_profiles": "ResourceProfile tasks_per_executor",
    "protocol.stimuli": (
        "Answer BlockUpdated ExecutorAdded ExecutorRemoved ExecutorsActive ExecutorsInactive JobEnd JobStage "
        "JobStart KillDisproved ListenerEvent RddBlock Reset ResourceProfileAdded ShuffleCleaned ShuffleRegistered "
        "ShuffleUnneeded "
        "ShuffleDataBlock SpeculativeTaskSubmitted StageCompleted StageSubmitted Stimulus Stop TaskEnd "
        "TaskOutcome TaskStart Tick UnpersistRDD UnschedulableTaskSetAdded UnschedulableTaskSetRemoved"
    ),
    "scaling.dynamic_allocation": "State due start step",
    "scaling.load": "Load",
    "scaling.manager": "scale",
    "scaling.metrics": "metrics",
    "scaling.rules": "need",
    "scaling.state": "ScalingState",
}
"""The names that each room of the domain gives."""

_ROOMS: Final = {name: room for room, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # or type checkers would believe that every name is there

    def __getattr__(name: str) -> Any:
        """A name of the library, loaded from its room (PEP 562)."""
        room = _ROOMS.get(name)
        if room is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{room}"), name)
        return value


def __dir__() -> list[str]:
    """The names of the library."""
    return __all__
