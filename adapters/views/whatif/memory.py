"""What the log says of memory (``domain.whatif.memory``), as an entry of the document and as sentences.

The sentences say in order: what an executor had, what spilled and what it would have taken, what ended for want of memory,
and what is recommended with its risk and its price - or why nothing is. Names are as they are in the document; whoever shows
the sentences escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from podtide.adapters.text.format import count
from podtide.adapters.views.whatif.figures import change, money, number, percent
from podtide.adapters.views.whatif.model import Document, MemoryEntry, MemoryStageEntry
from podtide.domain.conf.advice.effects import TABLE
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.whatif.memory import GC_SHARE_MAX, MIB, POLLED_SHARE, MemoryFinding
from podtide.domain.whatif.prices import Prices

STAGES_SHOWN: Final = 3
METERS: Final = ("spark.executor.metrics.pollingInterval", "spark.executor.processTreeMetrics.enabled")
"""What makes a run log the memory that it uses."""

_RISKS: Final = {
    "low": "measured, with a tenth to spare",
    "moderate": "an estimate: try it on one run first",
    "high": "something ended for want of memory, and the log does not tell how much more it wanted",
}


def memory_entry(found: MemoryFinding, gb_hours: float | None, prices: Prices | None) -> MemoryEntry:
    """The entry of a finding. ``gb_hours``: what the run took, of which the recommendation takes more or less."""
    more = None if gb_hours is None else -found.saved_share * gb_hours
    paid = None if more is None or prices is None else more * prices.gb_hour * prices.factor
    fields: dict[str, Any] = {
        name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(found).items()
    }
    made: dict[str, Any] = {
        **fields,
        "stages": tuple(MemoryStageEntry(**one) for one in fields["stages"]),
        "losses": found.losses._asdict(),
        "risk": None if found.risk is None else found.risk.value,
        "gb_hours_change": None if more is None else round(more, 6),
        "cost_change": None if paid is None else round(paid, 6),
    }
    return MemoryEntry(**made)


def memory_lines(document: Document) -> tuple[str, ...]:
    """What there is to say; () where the log says nothing of memory."""
    found = document.memory
    if found is None:
        return ()
    return (
        _had(found),
        *_spilled(found),
        *_lost(found),
        _recommended(found, document.currency) if found.changes else _nothing(found, document.app.spark_version),
    )


def memory_headline(document: Document) -> str:
    """What to change in the memory, where something is wrong with it; nothing otherwise."""
    found = document.memory
    if found is None or not (found.memory_spilled or any(found.losses.values())):
        return ""
    lead = f"Tasks spilled {size(found.memory_spilled / MIB)}" if found.memory_spilled else "Memory ran out"
    if found.changes:
        return f"{lead}: {_settings(found)} ({found.risk} risk)."
    remedies = [_partitions(one) for one in found.stages if one.partitions]
    return f"{lead}: {remedies[0]}." if remedies else f"{lead}: see Memory."


def size(mib: float) -> str:
    """A size in binary units: ``512 MiB``, ``1.5 GiB``, ``226 GiB``."""
    if mib < 1024:
        return f"{mib:,.0f} MiB"
    return f"{mib / 1024:,.1f} GiB" if mib < 102_400 else f"{mib / 1024:,.0f} GiB"


def _had(found: MemoryEntry) -> str:
    parts = [f"heap {size(found.heap_mib)}", f"overhead {size(found.overhead_mib)}"]
    parts += [f"off-heap {size(found.off_heap_mib)}"] if found.off_heap_mib else []
    text = (
        f"An executor had {size(found.total_mib)} ({', '.join(parts)}) for {count(found.slots, 'task')} at once, "
        f"{size(found.pool_mib)} of it for execution and storage."
    )
    if found.used_heap_mib:
        text += f" At most {size(found.used_heap_mib)} of the heap were in use, garbage included"
        text += f", {size(found.storage_mib)} by cached data and broadcasts" if found.storage_mib >= 16 else ""
        text += f"; its processes held {size(found.resident_mib)}." if found.resident_mib else "."
    return text


def _spilled(found: MemoryEntry) -> Iterator[str]:
    if not found.memory_spilled:
        return
    yield (
        f"Tasks spilled {size(found.memory_spilled / MIB)} of memory ({size(found.disk_spilled / MIB)} on disk). The stages "
        f"that spilled are {percent(found.spill_share)} of the task time, which is the most that can be won."
    )
    for one in found.stages[:STAGES_SHOWN]:
        lead = (
            f"Stage {one.stage}{f' ({one.name})' if one.name else ''}: {one.spilling:,} of {count(one.tasks, 'task')} "
            f"spilled {size(one.memory_spilled / MIB)}"
        )
        if one.heap_mib is None:
            yield f"{lead} in Python workers: spark.python.worker.memory decides, or more partitions; not the heap."
            continue
        kind = "off-heap memory" if found.off_heap_mib else "heap"
        text = f"{lead}; its largest task needs about {size(one.need_mib)}."
        text += f" None would spill with {size(one.heap_mib)} of {kind}"
        if one.uneven:
            yield f"{text}; more partitions would not help, for that task needs far more than the others (skew)."
        else:
            yield f"{text}{f', or with {_partitions(one)}' if one.partitions else ''}."
    if (more := len(found.stages) - STAGES_SHOWN) > 0:
        yield f"{count(more, 'more stage')} spilled."
    if found.enough_cores is not None:
        yield (
            f"With the memory that there was, executors of {count(found.enough_cores, 'core')} instead of {found.cores} "
            "would not have spilled."
        )


def _partitions(one: MemoryStageEntry) -> str:
    times = one.partitions or 1
    key = ", spark.sql.shuffle.partitions" if one.exchanged else ""
    return f"{times} times as many partitions in stage {one.stage} ({times * one.tasks:,}{key})"


def _lost(found: MemoryEntry) -> Iterator[str]:
    losses = found.losses
    if heap := losses.get("heap"):
        yield f"{count(heap, 'executor')} ended with OutOfMemoryError (exit code 52): the heap was too small."
    if tasks := losses.get("tasks"):
        yield f"{count(tasks, 'task')} failed with OutOfMemoryError."
    if over := losses.get("container"):
        yield f"{count(over, 'executor')} went beyond the memory of the container: the overhead was too small."
    if killed := losses.get("killed"):
        yield (
            f"{count(killed, 'executor')} got SIGKILL (exit code 137), which is what a container beyond its memory limit "
            "gets; the log does not say whether that was it."
        )


def _recommended(found: MemoryEntry, currency: str | None) -> str:
    share = found.total_after_mib / found.total_mib - 1 if found.total_mib else 0.0
    text = f"Recommended: {_settings(found)}: {change(share)} memory per executor"
    if found.gb_hours_change is not None:
        text += f", {'+' if found.gb_hours_change > 0 else ''}{number(found.gb_hours_change)} GB-hours"
    if found.cost_change is not None:
        text += f", {'+' if found.cost_change > 0 else '−'}{money(abs(found.cost_change), currency)}"
    return f"{text}. Risk {found.risk}: {_RISKS[found.risk or 'high']}."


def _settings(found: MemoryEntry) -> str:
    return ", ".join(f"{key}={value}" for key, value in found.changes.items())


def _nothing(found: MemoryEntry, spark_version: str) -> str:
    """Why no other memory is recommended."""
    if found.of_node:
        enough = "" if found.enough_mib is None else f"; a heap of {size(found.enough_mib)} would have sufficed"
        return f"On this platform the type of the node decides an executor's memory{enough}."
    if found.memory_spilled:
        if any(one.heap_mib is not None for one in found.stages):
            return "Memory alone does not mend that: it would take more than four times as much."
        return "No other memory of executors is recommended."
    if found.polled_share < POLLED_SHARE:
        lead = f"What was in use is logged for {percent(found.polled_share)} of the task time, too little to recommend less."
        written = parse_version(spark_version).written
        if written is None or written < max(TABLE[key].since for key in METERS):
            return f"{lead} From Spark 3.0 on a run with {METERS[0]} would tell."
        return f"{lead} One run with {METERS[0]}=1s and {METERS[1]}=true would tell."
    if any(found.losses.values()):
        return "What ended may have been for want of memory, so no less is recommended."
    if found.gc_share > GC_SHARE_MAX:
        return f"{percent(found.gc_share)} of the task time is garbage collection, so no smaller heap is recommended."
    return "Nothing spilled, and what was in use leaves no room for much less."
