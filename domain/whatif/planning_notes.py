"""What there is to say about the changes of a variant: which cannot matter, and which matter to the bill alone.

Somebody who tries ``batch.size`` on YARN should hear that it decides nothing there, not that it made no difference; and
somebody who halves the memory should know that the tasks were not asked whether they can live with that. One note for
each change that says less than it seems to, in the order of the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from returns.pipeline import is_successful

from podtide.domain.conf.advice.effects import TABLE, Place, place_of, why_not
from podtide.domain.conf.entries import KEYS, RENAMED
from podtide.domain.conf.entry_types import Use, Value
from podtide.domain.conf.scaling_config import ENABLED
from podtide.domain.conf.spark_conf import SparkConf, read
from podtide.domain.whatif.planning_retries import RETRY_KEYS

MEMORY_KEYS: Final = frozenset({
    "spark.executor.memory", "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor",
    "spark.executor.minMemoryOverhead", "spark.executor.pyspark.memory", "spark.memory.offHeap.enabled",
    "spark.memory.offHeap.size", "spark.kubernetes.memoryOverheadFactor",
})  # fmt: skip
"""They change what is billed; what they do to a task cannot be known from a log."""

CORES_MAX: Final = "spark.cores.max"
"""Limits that end a job; a log's failures are repeated as they were, and none of them ended more than it did."""

SHAPE_KEYS: Final = ("spark.executor.cores", "spark.task.cpus")

NOTES_MAX: Final = 50
"""A variant may change any number of keys: so many notes are given, the rest is counted."""

_DYNAMIC: Final = "spark.dynamicAllocation."
_KUBERNETES: Final = "spark.kubernetes."
_YARN: Final = "spark.yarn."
_FAMILIES: Final = ("spark.executor.resource.", "spark.task.resource.")
_SPECULATION: Final = "spark.speculation"


def change_notes(
    before: SparkConf, after: SparkConf, changes: Mapping[str, str | None], *, master: str, dynamic: bool
) -> tuple[str, ...]:
    """What to say about ``changes`` that lead from ``before`` to ``after``; ``dynamic``: dynamic allocation is on after."""
    notes = []
    place = place_of(before)
    stays = before.master == after.master
    for key in sorted(changes):
        note = (_ruled(key, place) if stays else None) or _note(
            before, after, key, changes[key], master, dynamic=dynamic
        )
        if note is not None:
            notes.append(note)
    notes = list(dict.fromkeys(notes))
    if (more := len(notes) - NOTES_MAX) > 0:
        notes[NOTES_MAX:] = [f"and {more} more notes of this kind"]
    return tuple(notes)


def touches(keys: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether any of the changed ``keys`` is one of ``wanted``, under this or another name, or in a family of them."""
    names = {RENAMED[key].name if key in RENAMED else key for key in keys}
    return any(name in names or (name.endswith(".") and any(key.startswith(name) for key in names)) for name in wanted)


def _ruled(key: str, place: Place) -> str | None:
    """What to say of a setting where the platform decides on executors by rules of its own."""
    why = why_not(key, place) if place.own_rules and key in TABLE else None
    return None if why is None else f"{key}: {why}; this is what Spark's own would make of it."


def _note(
    before: SparkConf, after: SparkConf, key: str, value: str | None, master: str, *, dynamic: bool
) -> str | None:
    name = RENAMED[key].name if key in RENAMED else key
    if value is None and before.setting(name) is None:
        return f"{key} is not set in the log's config: unsetting it changes nothing."
    if name in KEYS and _same(before, after, name):
        return f"{key} has this value in the log's config already."
    if name.startswith(_KUBERNETES) and name not in MEMORY_KEYS and not master.startswith("k8s://"):
        return f"{key} decides nothing with master {_shown(master)}."
    if name.startswith(_YARN) and not master.startswith("yarn"):
        return f"{key} decides nothing with master {_shown(master)}."
    if name.startswith(_DYNAMIC) and name != ENABLED and not dynamic:
        return f"{key} decides nothing without dynamic allocation."
    if name == CORES_MAX:
        return None if master.startswith("spark://") else f"{key} decides nothing with master {_shown(master)}."
    if name in RETRY_KEYS:
        return None
    if name in MEMORY_KEYS:
        return f"{key} changes the bill alone: tasks take as long as they took, spilled and collected as they did."
    if name in SHAPE_KEYS or name.startswith(_FAMILIES):
        return f"{key}: tasks take as long on executors of another shape as they took."
    if name == _SPECULATION:
        return f"{key}: speculative copies are made where the log has them, or not at all."
    if name not in KEYS or KEYS[name].use is not Use.DECIDES:
        return f"{key} is not part of the simulation: tasks take as long as they took."
    row = KEYS[name]
    if not row.known_to(after.version.release):
        since = ".".join(map(str, row.since))
        return (
            f"Spark {after.version.name} does not know {key} (it came with {since}); its effect is that of Spark 4.3."
        )
    return None


def _same(before: SparkConf, after: SparkConf, name: str) -> bool:
    return _value(before, name) == _value(after, name)


def _value(conf: SparkConf, name: str) -> tuple[bool, Value | str | None]:
    reading = read(conf, name)
    return (True, reading.unwrap().value) if is_successful(reading) else (False, reading.failure().value)


def _shown(master: str) -> str:
    """A master without its address."""
    if not master:
        return "unknown"
    return master.partition("://")[0] if "://" in master else master[:40]
