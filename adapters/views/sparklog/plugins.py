"""The executor plugins in Spark's words: ExecutorRollPlugin, ExecutorResizePlugin, ExecutorPVCResizePlugin.

``lines`` gives the lines that Spark 4.3.0's drivers of these plugins (and the reporter on the executors) would log for a
command, report or remark of ``rolling`` and ``resizing``, for an executor's ``DiskReport``, and for what the settings say
about a plugin that does or does not start (``Notice``). Everything else has no line here. Stack traces, which Spark prints
below some of them, are left out.
"""

from __future__ import annotations

from typing import Final

from podtide.adapters.views.sparklog.line import Level, SparkLine
from podtide.domain.conf import settings
from podtide.domain.conf.settings import Notice
from podtide.domain.jvm.values import double_text
from podtide.domain.kubernetes import resize_plugins as resizing, roll_plugin as rolling
from podtide.domain.kubernetes.roll_plugin import Roll
from podtide.domain.protocol.pod_commands import ResizeClaim, ResizePod
from podtide.domain.protocol.pod_stimuli import DiskReport
from podtide.domain.protocol.reasons import Remark, Threw

ROLL: Final = rolling.MACHINE
MEMORY: Final = resizing.MEMORY_MACHINE
CLAIMS: Final = resizing.CLAIM_MACHINE
REPORTER: Final = "ExecutorPVCResizeExecutorPlugin"

_THREW: Final = {
    ROLL: "Error in rolling thread",
    MEMORY: "Error in memory check thread",
    CLAIMS: "Error in PVC resize thread",
}
_NOTICES: Final = (
    ("Disabled due to invalid interval value,", ROLL),
    ("Disabled because spark.decommission.enabled is false.", ROLL),
    ("ExecutorResizePlugin ", MEMORY),
    ("ExecutorPVCResizePlugin ", CLAIMS),
    ("PVCResizePlugin disabled", CLAIMS),
    ("ExecutorPVCResizeDriverPlugin is scheduled", CLAIMS),
)
"""How the settings' notices about plugins begin, and who says them in Spark."""


def lines(item: object) -> tuple[SparkLine, ...]:
    """What Spark logs for it; () for anything that is not the plugins', and where a number is missing that a line needs."""
    try:
        return _lines(item)
    except KeyError:
        return ()


def _lines(item: object) -> tuple[SparkLine, ...]:
    match item:
        case Roll():
            return (SparkLine("INFO", ROLL, f"Ask to decommission executor {item.executor}"),)
        case ResizePod():
            before, used = item.why.facts["limit"], item.why.facts["used"]
            text = (
                f"Increase executor {item.executor} container memory from {before} to {item.memory_bytes} as usage {used} "
                "exceeded threshold."
            )
            return (SparkLine("INFO", MEMORY, text),)
        case ResizeClaim():
            before = item.why.facts["requested"]
            text = (
                f"Increase PVC {item.claim} storage from {before} to {item.storage_bytes} as usage ratio exceeded "
                "threshold."
            )
            return (SparkLine("INFO", CLAIMS, text),)
        case DiskReport():
            ratio = double_text(item.ratio)
            text = f"Reporting max PVC disk usage ratio for executor {item.executor}: {ratio}"
            return (SparkLine("INFO", REPORTER, text),)
        case Threw() if item.machine in _THREW:
            return (SparkLine("ERROR", item.machine, _THREW[item.machine]),)
        case Remark():
            return _remark(item)
        case Notice():
            return _notice(item)
        case _:
            return ()


def _remark(remark: Remark) -> tuple[SparkLine, ...]:
    facts = remark.facts
    level: Level = "INFO"
    match remark.machine, remark.topic:
        case rolling.MACHINE, rolling.NOTHING:
            text = "There is nothing to roll."
        case resizing.MEMORY_MACHINE, resizing.WITHIN:
            level, text = "DEBUG", f"Executor {facts['executor']} limit {facts['limit']}, usage {facts['used']}"
        case resizing.MEMORY_MACHINE, resizing.UPDATE_FAILED:
            text = f"Failed to update {facts['executor']}"
        case resizing.CLAIM_MACHINE, resizing.REPORTS:
            text = f"Latest PVC usage reports: {facts['reports']}"
        case resizing.CLAIM_MACHINE, resizing.TRYING:
            ratio, threshold = (_double(facts[name]) for name in ("ratio", "threshold"))
            text = (
                f"Try to resize executor {facts['executor']} PVC {facts['claim']} with ratio {ratio} (threshold "
                f"{threshold})."
            )
        case resizing.CLAIM_MACHINE, resizing.IN_PROGRESS:
            text = (
                f"PVC {facts['claim']} resize is in progress or failed (spec={facts['requested']}, "
                f"status={facts['capacity']}); skip."
            )
        case resizing.CLAIM_MACHINE, resizing.EXPANSION_FAILED:
            text = f"Failed to expand PVC {facts['claim']}; will skip subsequent attempts."
        case _:
            return ()
    return (SparkLine(level, remark.machine, text),)


def _double(value: object) -> str:
    return double_text(value) if isinstance(value, float) else str(value)


def _notice(notice: Notice) -> tuple[SparkLine, ...]:
    if notice.spark:
        level: Level = "WARN" if notice.level is settings.Level.WARNING else "INFO"
        for beginning, logger in _NOTICES:
            if notice.text.startswith(beginning):
                return (SparkLine(level, logger, notice.text),)
    return ()
