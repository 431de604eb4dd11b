"""Which executor to replace, and when: ExecutorRollPlugin.

Every interval (a fixed rate, first after one interval) the plugin looks at the active executors, leaves out the driver
and those with too few tasks, puts the rest in the order of its policy and asks the scheduler backend to decommission the
first; the target stays, so another executor takes its place. The twelve policies of Config.ExecutorRollPolicy:

- ID and ADD_TIME take the smallest, all others the largest of their number;
- "largest" is a stable ascending sort turned about: among equals the one that is listed *last* goes;
- an outlier exceeds the mean of its number by more than two standard deviations (of the population). OUTLIER takes the
  first outlier of: average task time, total time, GC time, failed tasks, peak heap, peak off-heap, shuffle write, disk;
  without any, the largest total time. OUTLIER_NO_FALLBACK takes none then;
- the average task time is a whole number for outliers, and none for executors without tasks; AVERAGE_DURATION divides
  exactly, and counts no task as one.

All of this is done in Java's 32-bit floats, which hold about seven digits: two sizes that differ by a few bytes are
equal, and sums are rounded at every step. ``float32`` and ``float_of_long`` do the same here.

An executor that never reported its memory has a peak heap of -1 in Spark and a peak off-heap of 0 (ExecutorMetrics
marks empty figures in the first of them, which is the heap): the sensor should say so.

The sensor hands in ``ExecutorsSummarized`` when the timer ``wants`` it (``plugin_timer`` tells how a run and a summary
meet). ``Roll`` is no effect: the engine hands its ``request`` to the backend.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import pmap

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.jvm.exceptions import NUMBER_FORMAT, SparkFault
from podtide.domain.jvm.values import parse_int
from podtide.domain.kubernetes.plugin_timer import Sampler
from podtide.domain.protocol.cluster_config import RollConfig
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, Stopping, Wake
from podtide.domain.protocol.pod_stimuli import ExecutorsSummarized, ExecutorSummary
from podtide.domain.protocol.reasons import Cause, Fact, Remark, Threw, Why

MACHINE: Final = "ExecutorRollDriverPlugin"
NOTHING: Final = "nothing to roll"
DRIVER: Final = "driver"

RollStimulus: TypeAlias = ExecutorsSummarized | Wake | Stopping


@dataclass(frozen=True, slots=True)
class Roll:
    """Decommission this executor, without lowering the target."""

    at: Millis
    executor: ExecutorId
    message: str
    why: Why

    @property
    def request(self) -> DecommissionRequested:
        """What the scheduler backend is asked for."""
        return DecommissionRequested(self.at, (self.executor,), self.message, adjust_target=False)


@dataclass(frozen=True, slots=True)
class RollState:
    """The plugin's timer."""

    timer: Sampler[ExecutorsSummarized]


class Chosen(NamedTuple):
    """An executor and the numbers that chose it."""

    executor: ExecutorId
    facts: Mapping[str, Fact]


def start(config: RollConfig, now: Millis) -> RollState:
    """The plugin as ``init`` leaves it: the first run is one interval away."""
    return RollState(Sampler(now + config.interval_ms))


def roll(
    state: RollState,
    snapshots: Sequence[RollStimulus],
    config: RollConfig,
    now: Millis,
) -> Step[RollState, Roll]:
    """Run the timer as summaries arrive and time passes. Never raises."""
    commands: list[Roll] = []
    reports: list[Report] = []
    timer = state.timer
    for stimulus in snapshots:
        timer, summary = timer.after(stimulus, now, config.interval_ms)
        if summary is None:
            continue
        try:
            chosen = choose(summary.executors, config)
        except ValueError as problem:
            reports.append(Threw(now, MACHINE, str(SparkFault(NUMBER_FORMAT, f'For input string: "{problem}"'))))
            continue
        if chosen is not None:
            message = f"Rolling via {config.policy} at {now}"
            commands.append(Roll(now, chosen.executor, message, Why(Cause.ROLLING, pmap(chosen.facts))))
        elif config.remarks:
            reports.append(Remark(now, MACHINE, NOTHING))
    state = state if timer is state.timer else replace(state, timer=timer)
    return Step(state, tuple(commands), tuple(reports))


# ------------------------------------------------------------------------------------------------------------ the choice

Number: TypeAlias = Callable[[ExecutorSummary], int]

_NUMBERS: Final[Mapping[str, Number]] = {
    "TOTAL_GC_TIME": lambda e: e.gc_ms,
    "TOTAL_DURATION": lambda e: e.duration_ms,
    "FAILED_TASKS": lambda e: e.failed_tasks,
    "PEAK_JVM_ONHEAP_MEMORY": lambda e: e.peak_heap,
    "PEAK_JVM_OFFHEAP_MEMORY": lambda e: e.peak_offheap,
    "TOTAL_SHUFFLE_WRITE": lambda e: e.shuffle_write,
    "DISK_USED": lambda e: e.disk_used,
}
"""The policies that take the executor with the largest whole number."""

_OUTLIERS: Final = (
    "TOTAL_DURATION", "TOTAL_GC_TIME", "FAILED_TASKS", "PEAK_JVM_ONHEAP_MEMORY", "PEAK_JVM_OFFHEAP_MEMORY",
    "TOTAL_SHUFFLE_WRITE", "DISK_USED",
)  # fmt: skip
"""In which numbers outliers are looked for, after the average task time."""

AVERAGE: Final = "AVERAGE_DURATION"


def choose(executors: Sequence[ExecutorSummary], config: RollConfig) -> Chosen | None:
    """ExecutorRollDriverPlugin.choose: the executor to roll, None for none.

    ValueError, with the id, where the policy is ID and an id is no number (Spark's NumberFormatException).
    """
    candidates = [e for e in executors if e.executor != DRIVER and e.tasks >= config.tasks_min]
    if not candidates:
        return None
    policy = config.policy
    facts: dict[str, Fact] = {"policy": policy, "candidates": len(candidates)}
    match policy:
        case "ID":
            found = _smallest_id(candidates)
        case "ADD_TIME":
            found = min(candidates, key=lambda e: e.added_at)
            facts["value"] = found.added_at
        case "AVERAGE_DURATION":
            found = _largest(candidates, _average)
            facts["value"] = _average(found)
        case "OUTLIER" | "OUTLIER_NO_FALLBACK":
            outlier = _outlier(candidates, facts)
            if outlier is not None:
                found = outlier
            elif policy == "OUTLIER":
                found = _largest(candidates, _NUMBERS["TOTAL_DURATION"])
                facts["value"] = found.duration_ms
            else:
                return None
        case _:
            number = _NUMBERS[policy]
            found = _largest(candidates, number)
            facts["value"] = number(found)
    return Chosen(found.executor, facts)


def _smallest_id(executors: Sequence[ExecutorSummary]) -> ExecutorSummary:
    """The head of the list sorted by number. A list of one is not sorted, so its id is not read."""
    if len(executors) == 1:
        return executors[0]
    # Java's sort compares the second with the first, so that is the order in which ids are read, and complained about.
    first, second, *others = executors
    numbers = {summary.executor: _numeric_id(summary) for summary in (second, first, *others)}
    return min(executors, key=lambda e: numbers[e.executor])


def _numeric_id(summary: ExecutorSummary) -> int:
    try:
        return parse_int(summary.executor)
    except ValueError:
        raise ValueError(summary.executor) from None


def _largest(executors: Sequence[ExecutorSummary], number: Callable[[ExecutorSummary], float]) -> ExecutorSummary:
    """The head of a stable ascending sort turned about: of equals, the last."""
    return max(reversed(executors), key=number)


def _average(summary: ExecutorSummary) -> float:
    return float32(float_of_long(summary.duration_ms) / float_of_long(max(1, summary.tasks)))


def _outlier(executors: Sequence[ExecutorSummary], facts: dict[str, Fact]) -> ExecutorSummary | None:
    """The first of outliersFromMultipleDimensions; what it stands out by goes into ``facts``."""
    worked = [e for e in executors if e.tasks > 0]
    found = _first_outlier(AVERAGE, worked, [float_of_long(_whole_average(e)) for e in worked], facts)
    for name in _OUTLIERS:
        if found is not None:
            break
        number = _NUMBERS[name]
        found = _first_outlier(name, executors, [float_of_long(number(e)) for e in executors], facts)
    return found


def _whole_average(summary: ExecutorSummary) -> int:
    quotient = abs(summary.duration_ms) // summary.tasks
    return quotient if summary.duration_ms >= 0 else -quotient


def _first_outlier(
    name: str, executors: Sequence[ExecutorSummary], values: Sequence[float], facts: dict[str, Fact]
) -> ExecutorSummary | None:
    """The head of ExecutorRollDriverPlugin.outliers for one number."""
    if not executors:
        return None
    count = float_of_long(len(values))
    mean = float32(_sum(values) / count)
    squares = []
    for value in values:
        distance = float32(value - mean)
        squares.append(float32(distance * distance))
    deviation = math.sqrt(float32(_sum(squares) / count))
    best: int | None = None
    for at, value in enumerate(values):
        if float32(value - mean) > 2 * deviation and (best is None or value >= values[best]):
            best = at
    if best is None:
        return None
    facts.update({"outlier": name, "value": values[best], "mean": mean, "deviation": deviation})
    return executors[best]


def _sum(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total = float32(total + value)
    return total


# ---------------------------------------------------------------------------------------------------------- Java's float

_FLOAT: Final = struct.Struct("<f")
_FLOAT_DIGITS: Final = 24


def float32(value: float) -> float:
    """The nearest 32-bit float: what Java makes of a sum, difference, product or quotient of two floats.

    Doing the arithmetic in 64 bits first and rounding after gives the same, because 53 digits are more than 2 * 24 + 2.
    """
    try:
        rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def float_of_long(value: int) -> float:
    """``(float) long``: rounded once, half to even; going through a double would round twice."""
    size = abs(value)
    surplus = size.bit_length() - _FLOAT_DIGITS
    if surplus <= 0:
        return float(value)
    kept, rest = divmod(size, 1 << surplus)
    half = 1 << surplus - 1
    if rest > half or (rest == half and kept & 1):
        kept += 1
    return math.copysign(float(kept << surplus), value)
