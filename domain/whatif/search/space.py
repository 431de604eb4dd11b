"""What a search may choose from: settings with their values, and the configs that they make.

A ``Space`` is a grid: an ``Axis`` for each setting, with the values worth trying, in order, so that neighbours on an axis
are configs that differ little. A *point* is an index on each axis; a ``Candidate`` is the config that it stands for,
over the conf of every run that is searched over. Two rules tie settings together:

- An executor of another shape keeps its memory per core: with ``spark.executor.cores`` the memory settings that the runs
  have are scaled, unless the space has values for them. Counts of executors on an axis that is ``per_core`` are meant for
  the recorded shape and are converted, rounded up, so that the cores in all stay.
- A config that Spark refuses or half ignores is none: minExecutors <= the first target <= maxExecutors, and an
  initialExecutors below minExecutors, which Spark ignores, would be the same config twice.

What a point sets to the value that every run has anyway is no change and is left out, so that a recommendation says only
what is to be changed. ``static`` counts are no points but candidates of their own: so many executors from start to end.

Points spread evenly over a grid that is too large to be walked.

An additive recurrence in as many dimensions as the grid has axes: the n-th point is (offset + n * alpha) modulo 1 in each,
with alpha the negative powers of the root of x**(d + 1) = x + 1 (Roberts' generalisation of the golden ratio). Such points
leave gaps and clusters far smaller than random ones, every beginning of the sequence is as even as the whole, and it takes
nothing but multiplication. The offsets come from a seed. A coordinate chooses the value of its axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count, product, zip_longest
from math import prod
from typing import Final, TypeAlias

from returns.pipeline import is_successful

from podtide.domain.base.randomness import stream, unit
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.entry_types import Value
from podtide.domain.conf.scaling_config import ENABLED, INITIAL, INSTANCES, MAX, MIN
from podtide.domain.conf.spark_conf import Setting, SparkConf, from_mapping, layered, read
from podtide.domain.conf.spark_versions import SparkVersion
from podtide.domain.jvm.values import BYTE_UNITS
from podtide.domain.rerun.plan import Variant
from podtide.domain.whatif.search.pareto import spread

CORES: Final = "spark.executor.cores"
MEMORY: Final = "spark.executor.memory"
OFF_HEAP: Final = "spark.memory.offHeap.size"
MEMORY_KEYS: Final = (MEMORY, "spark.executor.memoryOverhead", "spark.executor.pyspark.memory", OFF_HEAP)
"""What grows with the cores of an executor; all but the first only where a run sets it."""

AXES_MAX: Final = 24
VALUES_MAX: Final = 200
"""Settings of a space, and values of one."""

POINTS_MAX: Final = 10**18
TRIED: Final = "tried by the search"
"""Where a value of a candidate comes from, as a conf says it."""

WORDS: Final = {
    MAX: "maxExecutors",
    MIN: "minExecutors",
    INITIAL: "initialExecutors",
    "spark.dynamicAllocation.executorIdleTimeout": "executorIdleTimeout",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "cachedExecutorIdleTimeout",
    "spark.dynamicAllocation.shuffleTracking.timeout": "shuffleTracking.timeout",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "schedulerBacklogTimeout",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "sustainedSchedulerBacklogTimeout",
    "spark.dynamicAllocation.executorAllocationRatio": "executorAllocationRatio",
    "spark.kubernetes.allocation.batch.size": "batch.size",
    "spark.kubernetes.allocation.batch.delay": "batch.delay",
    CORES: "executor.cores",
}
"""What settings are called in the names of candidates: the ends of their keys; what follows from another has no name."""

Change: TypeAlias = tuple[str, str | None]
Place: TypeAlias = tuple[int, ...]
"""A point of the grid: an index on each axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A setting and the values to try, at least one, each once; None unsets it. ``per_core``: see the module."""

    key: str
    values: tuple[str | None, ...]
    per_core: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A config: what it changes in the conf of every run, by rising key, or a static count."""

    name: str
    changes: tuple[Change, ...] = ()
    static: int | None = None

    @property
    def as_ran(self) -> bool:
        """Whether it changes nothing."""
        return not self.changes and self.static is None

    def variant(self) -> Variant:
        """The same as a wish that a plan is made of."""
        return Variant(self.name, dict(self.changes), self.static)


AS_RAN: Final = Candidate("as it ran")
"""The config that each run had."""


@dataclass(frozen=True, slots=True)
class Space:
    """The grid. ``confs``: of the runs, at least one. ``always``: what every point changes besides (dynamic allocation
    switched on). ``statics``: counts of executors to compare with, rising."""

    confs: tuple[SparkConf, ...]
    axes: tuple[Axis, ...] = ()
    statics: tuple[int, ...] = ()
    always: tuple[Change, ...] = ()

    @property
    def size(self) -> int:
        """Points of the grid, those included that make no config."""
        return prod(len(axis.values) for axis in self.axes)


def static(count: int) -> Candidate:
    """So many executors from start to end."""
    return Candidate(f"static {count}", (), count)


def places(space: Space) -> Iterator[Place]:
    """Every point of the grid; the last axis moves fastest."""
    return product(*(range(len(axis.values)) for axis in space.axes))


def neighbours(space: Space, place: Place, reach: float = 0.0) -> Iterator[Place]:
    """The points one step away on one axis, in order of the axes, the lower first. ``reach``: the share of an axis that a
    step takes; 0: from one value to the next."""
    for at, axis in enumerate(space.axes):
        step = max(1, int(reach * len(axis.values)))
        for other in (place[at] - step, place[at] + step):
            if 0 <= other < len(axis.values):
                yield (*place[:at], other, *place[at + 1 :])


def sweep(space: Space, place: Place, most: int) -> Iterator[Place]:
    """The points that differ from this one on one axis, with at most so many values of each, evenly spread."""
    for at, axis in enumerate(space.axes):
        for other in spread(range(len(axis.values)), most):
            if other != place[at]:
                yield (*place[:at], other, *place[at + 1 :])


def alone(space: Space, most: int) -> Iterator[Candidate]:
    """Configs that change one setting (and what goes with it: ``space.always``, ``at_most``) each, at most so many values of
    it, the axes in turn."""
    by_axis = [
        [replace(axis, values=(axis.values[at],)) for at in spread(range(len(axis.values)), most)]
        for axis in space.axes
    ]
    for axes in zip_longest(*by_axis):
        for axis in axes:
            one = None if axis is None else _by_itself(space, axis)
            if one is not None and not one.as_ran:
                yield one


def _by_itself(space: Space, axis: Axis) -> Candidate | None:
    """The config of an axis of one value."""
    (text,) = axis.values
    if axis.key == MAX and text is not None:
        return at_most(space, int(text))
    return candidate(replace(space, axes=(axis,)), (0,))


def at_most(space: Space, count: int) -> Candidate | None:
    """The config with at most so many executors: a minimum and a first target above it come down to it."""
    lowered = [key for key in (MIN, INITIAL) if any(whole(conf, key) > count for conf in space.confs)]
    axes = tuple(Axis(key, (str(count),)) for key in (MAX, *lowered))
    return candidate(replace(space, axes=axes), (0,) * len(axes))


def candidate(space: Space, place: Place) -> Candidate | None:
    """The config of a point; None where there is none (see the module)."""
    chosen = {axis.key: axis.values[at] for axis, at in zip(space.axes, place, strict=True)}
    cores = chosen.get(CORES)
    if cores is not None:
        for axis in space.axes:
            text = chosen[axis.key]
            if axis.per_core and text is not None:
                chosen[axis.key] = _converted(space.confs[0], text, int(cores))
    changes = {key: text for key, text in space.always if key not in chosen} | {
        key: text for key, text in chosen.items() if not all(same(conf, key, text) for conf in space.confs)
    }
    if CORES in changes and cores is not None:
        changes |= {key: text for key, text in _memory(space.confs, int(cores)).items() if key not in chosen}
    if not all(_sensible(over(conf, changes), chosen) for conf in space.confs):
        return None
    listed = tuple(sorted(changes.items()))
    return Candidate(named(listed), listed)


def named(changes: Sequence[Change]) -> str:
    """What a config is called: its changes in words, those first that matter most; "as it ran" without any."""
    given = dict(changes)
    order = [*WORDS, *(key for key in given if key not in WORDS and key not in MEMORY_KEYS)]
    parts = [f"{WORDS.get(key, key.removeprefix('spark.'))} {_shown(given[key])}" for key in order if key in given]
    if CORES not in given:
        parts += [f"{key.removeprefix('spark.')} {_shown(given[key])}" for key in MEMORY_KEYS if key in given]
    hidden = {f"{ENABLED.removeprefix('spark.')} true", f"{INSTANCES.removeprefix('spark.')} unset"}
    return ", ".join([part for part in parts if part not in hidden] or parts) or AS_RAN.name


def without(whole: Candidate, key: str) -> Candidate:
    """The same config but for one setting (of the cores: and the memory that went with them)."""
    left = tuple(
        change for change in whole.changes if change[0] != key and not (key == CORES and change[0] in MEMORY_KEYS)
    )
    return Candidate(named(left), left)


def over(conf: SparkConf, changes: dict[str, str | None]) -> SparkConf:
    """A conf with these changes; None unsets."""
    settings = conf.settings.update({key: Setting(text, TRIED) for key, text in changes.items() if text is not None})
    for key, text in changes.items():
        if text is None:
            settings = settings.discard(key)
    return SparkConf(settings, conf.version)


def same(conf: SparkConf, key: str, text: str | None) -> bool:
    """Whether a conf amounts to this value of the key already, by itself or by a default."""
    if text is None:
        return conf.setting(key) is None
    if key not in KEYS:
        set_to = conf.setting(key)
        return set_to is not None and set_to.value == text
    value = settled(conf, key)
    return value is not None and value == settled(layered(conf, from_mapping({key: text}, TRIED)), key)


def settled(conf: SparkConf, key: str) -> Value | None:
    """The value of a key of the table; None where it is unset or cannot be read."""
    reading = read(conf, key)
    return reading.unwrap().value if is_successful(reading) else None


def refusal(key: str, text: str, version: SparkVersion) -> str | None:
    """Why a value cannot be tried: what was expected instead; None where it can."""
    if key not in KEYS:
        return "a setting that executor allocation knows"
    reading = read(from_mapping({key: text}, TRIED, version), key)
    return None if is_successful(reading) else reading.failure().expected


def in_order(key: str, texts: Iterable[str | None]) -> tuple[str | None, ...]:
    """Values by size where they have one (an unset one first), each once; otherwise as given."""
    found: dict[object, str | None] = {}
    for text in texts:
        value = None if text is None else text if key not in KEYS else settled(from_mapping({key: text}, TRIED), key)
        found.setdefault(text if value is None else value, text)
    sized = {value: text for value, text in found.items() if isinstance(value, (int, float, Decimal))}
    others = [text for value, text in found.items() if value not in sized]
    return (*others, *(sized[value] for value in sorted(sized)))


def whole(conf: SparkConf, key: str) -> int:
    """A whole number of the conf; 0 where it is unset or cannot be read."""
    value = settled(conf, key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def first_target(conf: SparkConf) -> int:
    """Utils.getDynamicAllocationInitialExecutors."""
    return max(whole(conf, MIN), whole(conf, INITIAL), whole(conf, INSTANCES))


def _sensible(conf: SparkConf, chosen: dict[str, str | None]) -> bool:
    if settled(conf, ENABLED) is not True:
        return True
    least, most = whole(conf, MIN), whole(conf, MAX)
    if chosen.get(INITIAL) is not None and whole(conf, INITIAL) < least:
        return False
    return least <= first_target(conf) <= most


def _converted(conf: SparkConf, text: str, cores: int) -> str:
    """A count of executors of the recorded shape as one of executors with so many cores, rounded up."""
    return str(-(-int(text) * max(1, whole(conf, CORES)) // max(1, cores)))


def _memory(confs: Sequence[SparkConf], cores: int) -> dict[str, str | None]:
    """The memory settings of an executor with so many cores, as much for each as it was; {} where the runs differ."""
    scaled: list[dict[str, str | None]] = []
    for conf in confs:
        before = max(1, whole(conf, CORES))
        texts: dict[str, str | None] = {}
        for key in MEMORY_KEYS:
            set_to = conf.setting(key)
            if key != MEMORY and set_to is None:
                continue
            size = _mib(conf, key)
            if size > 0:
                texts[key] = f"{-(-size * cores // before)}m"
        scaled.append(texts)
    return scaled[0] if all(texts == scaled[0] for texts in scaled) else {}


def _mib(conf: SparkConf, key: str) -> int:
    """A size in MiB, rounded up; the table knows every key that is asked for."""
    size = whole(conf, key)
    return -(-size // BYTE_UNITS["m"]) if KEYS[key].type.unit == "b" else size


def _shown(text: str | None) -> str:
    return "unset" if text is None else text


NEWTON_STEPS: Final = 64


def spread_out(space: Space, seed: int) -> Iterator[Place]:
    """Points without end, evenly spread; they repeat when the grid is small."""
    offsets, state = [], stream(seed)
    for _ in space.axes:
        offset, state = unit(state)
        offsets.append(offset)
    steps = _steps(len(space.axes))
    for number in count():
        yield tuple(
            int(((offset + number * step) % 1.0) * len(axis.values))
            for offset, step, axis in zip(offsets, steps, space.axes, strict=True)
        )


def _steps(dimensions: int) -> list[float]:
    """The negative powers of the root of x**(d + 1) = x + 1, by Newton's method from above."""
    root = 2.0
    for _ in range(NEWTON_STEPS):
        power = 1.0
        for _ in range(dimensions):
            power *= root
        root -= (power * root - root - 1.0) / ((dimensions + 1) * power - 1.0)
    steps, step = [], 1.0
    for _ in range(dimensions):
        step /= root
        steps.append(step)
    return steps
