"""Spark's executor allocation as pure functions: the part of podtide to import.

A decision goes from (state, stimulus, config, now) to a ``Step``: the new state, the commands to carry out, and reports
of what was held back. ``start`` begins, ``step`` goes on, ``due`` says when the timer next matters; a command that asks
something is answered by an ``Answer`` with its ``serial``. ``scaling_config`` makes the configuration of a ``SparkConf``.
"""

from podtide.domain.base.units import ALWAYS, DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.conf.scaling_config import ScalingSettings, scaling_config
from podtide.domain.conf.settings import Refused
from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_arguments, from_mapping, layered
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.engine import State, due, start, step
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.commands import (
    Command,
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
