"""Why: the causes, bounds and numbers that every command and report carries.

Reasons are values: a cause from a closed list and the numbers behind it. A bound is what held something back or kept
it alive. Both lists are documented in docs/reference/formats.md; their texts are the names in every output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from pyrsistent import pmap

from podtide.domain.base.units import ExecutorId, Millis, ProfileId

Fact: TypeAlias = int | float | str | None
"""One number (or name) behind a decision; times in milliseconds, executors and tasks as counts."""


class Cause(Enum):
    """Why a command was given. The texts are the names in every output."""

    # dynamic allocation
    INITIAL = "initial"
    NEW_PROFILE = "new profile"
    BACKLOG = "backlog"
    SUSTAINED_BACKLOG = "sustained backlog"
    LOWERED_NEED = "lowered need"
    MINIMUM = "minimum"
    RESYNC = "resync after removal"
    IDLE = "idle"
    CACHED_IDLE = "cached idle"
    SHUFFLE_IDLE = "shuffle idle"
    # pods
    BELOW_TARGET = "below target"
    ABOVE_TARGET = "above target"
    CREATION_TIMEOUT = "creation timeout"
    CLAIM_FOR_POD = "claim for pod"
    CLAIM_FAILED = "claim failed"
    REUSABLE_CLAIMS = "reusable claims"
    DRIVER_POD = "driver pod"
    TARGET_SET = "target set"
    # how pods ended
    POD_FAILED = "pod failed"
    POD_SUCCEEDED = "pod succeeded"
    POD_DELETED = "pod deleted"
    POD_MISSING = "pod missing"
    TOO_MANY_FAILURES = "too many failures"
    ILLEGAL_ARGUMENT = "illegal argument"
    RESYNCHRONIZE = "resynchronize"
    # the scheduler backend
    KILLED = "killed by the driver"
    DECOMMISSIONED = "decommissioned"
    STILL_RUNNING = "still running after the grace period"
    DECOMMISSION_TIMEOUT = "decommission timeout"
    DISCONNECTED = "disconnected"
    EXITED = "the executor exits"
    HEARTBEAT_TIMEOUT = "heartbeat timeout"
    HOST_EXCLUDED = "host excluded"
    EXCLUDED = "excluded"
    REGISTERED = "registered"
    DUPLICATE = "duplicate"
    STOPPED = "stopped"
    STARTED = "started"
    # containers
    LOCALITY = "locality"
    HEARTBEAT = "heartbeat"
    MATCHED = "matched"
    SURPLUS = "surplus"
    LAUNCH_FAILED = "launch failed"
    CONTAINER_COMPLETED = "container completed"
    NODE_DECOMMISSIONING = "node decommissioning"
    LOSS_ASKED = "loss reason asked"
    # plugins
    ROLLING = "rolling"
    MEMORY_USED = "memory used"
    DISK_USED = "disk used"


class Bound(Enum):
    """What held executors back, kept them alive, or cut an increase. The texts are the names in every output."""

    # dynamic allocation
    NEED = "need"
    RAMP = "ramp"
    RATIO = "ratio"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    TARGET = "target"
    RUNNING_TASK = "running task"
    CACHED_DATA = "cached data"
    SHUFFLE_DATA = "shuffle data"
    UNKNOWN_PROFILE = "unknown profile"
    REFUSED_KILL = "refused kill"
    # pods
    BATCH_SIZE = "batch size"
    PENDING_LIMIT = "pending limit"
    PENDING_LIMIT_PROFILE = "pending limit of the profile"
    UNACKNOWLEDGED = "unacknowledged pods"
    CLAIM_WAIT = "waiting for a volume claim"
    POD_LIMIT = "allocation maximum"
    BACK_OFF = "back-off"
    ROUND_ABORTED = "round aborted"
    IDLE_TIMEOUT = "executor idle timeout"
    SCHEDULER_KNOWN = "known to the scheduler"
    # containers
    RESOURCE_MANAGER = "waiting for the resource manager"
    NODES_EXCLUDED = "all nodes excluded"


class Phase(Enum):
    """A report's place in the life of what it reports."""

    BEGAN = "began"
    CHANGED = "changed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Why:
    """A cause and the numbers behind it."""

    cause: Cause
    facts: Mapping[str, Fact] = field(default_factory=pmap)


@dataclass(frozen=True, slots=True)
class Held:
    """A bound holds something back (or no longer): growth of a profile, or executors that could have gone.

    ``executors`` names the executors where the bound is theirs (cached data, shuffle data); where it is the
    profile's (minimum, maximum, target, ...) ``facts["executors"]`` counts them.
    """

    at: Millis
    phase: Phase
    bound: Bound
    profile: ProfileId
    executors: tuple[ExecutorId, ...] = ()
    facts: Mapping[str, Fact] = field(default_factory=pmap)


@dataclass(frozen=True, slots=True)
class Threw:
    """A round of a machine ended in an exception, as Spark's would.

    ``machine``: the Spark class whose round it was. ``what``: exception class and message. ``fatal``: it ends the
    process (an IllegalArgumentException out of a snapshot subscriber: exit code 1).
    """

    at: Millis
    machine: str
    what: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that Spark would have logged and that no command says.

    ``machine``: the Spark class that says it. ``topic``: which of its lines; the texts and levels are the log
    adapter's (``adapters/spark_words``). ``facts``: what goes into the line.
    """

    at: Millis
    machine: str
    topic: str
    facts: Mapping[str, Fact] = field(default_factory=pmap)
