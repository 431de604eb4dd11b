"""A run that spilled is told so, with what would have helped; and a recommendation of less says what it saves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from podtide.adapters.views.whatif.findings import headlines
from podtide.adapters.views.whatif.memory import memory_entry, memory_lines
from podtide.adapters.views.whatif.model import Document
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.recorded.memory import MemoryEvidence, Peaks, StageMemory
from podtide.domain.rerun.plan import ExecutorShape
from podtide.domain.whatif.memory import memory_finding
from podtide.domain.whatif.prices import Prices
from tests.adapters.views.whatif.test_findings import document
from tests.support import whatif_play as play

GIB = 1 << 30


def told(stage: StageMemory, **conf: str) -> Document:
    settings = {**play.YARN, **conf}
    app = replace(play.application(settings), memory=MemoryEvidence((stage,)))
    found = memory_finding(app, from_mapping(settings, "log"), ExecutorShape(2, 2, 4_505))
    assert found is not None
    made: Document = document()
    return msgspec.structs.replace(made, memory=memory_entry(found, 10.0, Prices(0.04, 0.005)))


def spilling(need: int, **more: Any) -> StageMemory:
    fields: dict[str, Any] = {
        "tasks": 200,
        "run_ms": 1_000,
        "spilling": 200,
        "memory_spilled": 226 * GIB,
        "disk_spilled": 40 * GIB,
    }
    return StageMemory(0, peak=GIB // 4, spill_need=need, need_sum=200 * need)._replace(**fields, **more)


def test_a_run_that_spilled_is_answered_with_its_spill_first() -> None:
    seen = told(spilling(2 * GIB))
    assert headlines(seen).change.startswith("Tasks spilled 226 GiB: spark.executor.memory=9984m (moderate risk).")
    text = " ".join(memory_lines(seen))
    assert "Tasks spilled 226 GiB of memory (40.0 GiB on disk)" in text
    assert "200 of 200 tasks spilled 226 GiB; its largest task needs about 2.0 GiB" in text
    assert "+144% memory per executor, +14.4 GB-hours, +$0.072" in text


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (spilling(30 * GIB), "38 times as many partitions in stage 0 (7,600)"),
        (spilling(0, peak=0, need_sum=0), "spark.python.worker.memory"),
        (spilling(2 * GIB, failed=3), "3 tasks failed with OutOfMemoryError"),
        (StageMemory(0, tasks=9, run_ms=1_000, peak=GIB), "0% of the task time, too little to recommend less"),
    ],
)
def test_each_case_has_its_words(stage: StageMemory, words: str) -> None:
    assert words in " ".join(memory_lines(told(stage)))


def test_less_memory_says_what_it_saves() -> None:
    quiet = StageMemory(0, 8, 8, 80_000, 80_000, peak=GIB // 8, peaks=Peaks(heap=GIB))
    seen = told(quiet, **{"spark.executor.metrics.pollingInterval": "1s"})
    last = memory_lines(seen)[-1]
    assert last.startswith(
        "Recommended: spark.executor.memory=1152m: −66% memory per executor, −6.6 GB-hours, −$0.033."
    )
    assert headlines(seen).change == "No other config was asked for."
