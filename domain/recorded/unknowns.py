"""What a log does not tell, and what that does to the answers: only what applies to this log, with its numbers.

Whether a log tells enough to run its application again, whatever the model makes of the rest.

A stage that completed well has had an end of each of its tasks. Where those are not in the log (it was sampled, or edited),
what is left can be run again and may even fit, because what is missing looks like the driver's own time: but then nothing
depends on executors any more, and no answer about them would be worth anything. So the share of such tasks is bounded.

A log without an environment is another matter: Spark's defaults are assumed, and the own error says how well that goes. If
it goes badly, that is the first thing to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import NO_TASK, Application, Leave, Unknown
from podtide.domain.recorded.executors import UNANNOUNCED
from podtide.domain.recorded.job_dependencies import MAIN
from podtide.domain.recorded.lifetimes import CAME_UNASKED, STRAY_TASKS, STRAYS

MEMORY_LEAST_MS: Final[Millis] = 30_000
"""Time of all tasks together from which on spilling or collecting garbage is worth a word, however large its share."""

SPILL_BYTES_PER_MS: Final = 100 * 2**20 // 1000
"""What spilling is taken to cost: 100 MiB a second, about what a busy disk writes."""

GC_SHARE: Final = 0.1
"""Of the tasks' run time."""

NOTABLE: Final = 0.05
"""A share of the run time from which on it is worth a word."""


@dataclass(frozen=True, slots=True)
class LogTraits:
    """What there is to know of the log besides the application. ``stages_parentless``: no stage names a parent;
    ``metered``: tasks have metrics; ``partitions``: tasks have partition ids; ``platform``: whose own scaler may have acted;
    ``unread``: lines that could not be used; ``gaps``: places where the log has holes; ``oversized``: stages that claim more
    tasks than were kept; ``dynamic``: dynamic allocation was on."""

    stages_parentless: bool
    metered: bool
    partitions: bool
    block_updates: bool
    compacted: bool
    platform: str | None
    unread: int
    gaps: int
    applications: int
    oversized: int
    dynamic: bool


def unknowns_of(app: Application, traits: LogTraits) -> tuple[Unknown, ...]:
    """What is not known of the application, the weightiest first."""
    return tuple(
        Unknown(what, effect)
        for part in (_log(app, traits), _program(app, traits), _tasks(app, traits), _executors(app, traits))
        for what, effect in part
    )


def _log(app: Application, traits: LogTraits) -> Iterator[tuple[str, str]]:
    if traits.applications > 1:
        yield (
            f"The log holds {traits.applications} applications.",
            "They are taken for one; ids that occur twice are mixed up.",
        )
    if traits.compacted:
        yield (
            "The log was compacted: the stages and tasks of finished jobs are missing.",
            "The run again lacks their work; run time and executor-seconds are those of the rest.",
        )
    if traits.unread or traits.gaps:
        places = f"{_count(traits.unread, 'line')} could not be read" + (
            f", holes in {_count(traits.gaps, 'place')}" if traits.gaps else ""
        )
        yield f"The log is incomplete: {places}.", "Tasks and executors in them are missing."
    if not app.end_known:
        yield (
            "The log has no end of the application.",
            "It is taken to end with the last that its events tell of; what came after that is not in any figure.",
        )
    unended = sum(job.ended_ms is None for job in app.jobs)
    if unended:
        yield (
            f"{_count(unended, 'job')} had not ended when the log did.",
            "What the log shows of their stages is run, no more.",
        )
    if app.counts.get("jobs made up"):
        yield (
            f"Of {_count(app.counts['jobs made up'], 'job')} only the stages are in the log.",
            "What these waited for is guessed from the times of the stages.",
        )


def _program(app: Application, traits: LogTraits) -> Iterator[tuple[str, str]]:
    thinking = sum(job.think_ms for job in app.jobs if job.after)
    if thinking > NOTABLE * max(1, app.runtime_ms):
        yield (
            f"Between jobs the driver took {thinking / 1000:.0f} s in all; whether it computed or waited for other systems "
            "is not logged.",
            "These times are kept as they are under every config.",
        )
    threads = {job.thread for job in app.jobs}
    if any(thread.startswith(f"{MAIN} #") for thread in threads):
        yield (
            "Jobs ran side by side and nothing names their threads (no pool, no job group).",
            "What they waited for is guessed from the times at which they ended and began.",
        )
    pools = {job.pool for job in app.jobs}
    if app.properties.get("spark.scheduler.mode", "FIFO").upper() == "FAIR" and len(pools) > 1:
        yield (
            f"Weights and minimum shares of {len(pools)} FAIR pools come from a file that is not logged.",
            "All pools are taken for equal, unless --fair-scheduler gives the file.",
        )
    if app.counts.get("streamed jobs"):
        yield (
            f"The clock started {_count(app.counts['streamed jobs'], 'job')}: micro-batches of a stream.",
            "They begin when they did; how much data they would have found at another time is not known.",
        )
    if traits.stages_parentless and len(app.stages) > len(app.jobs):
        yield (
            "Stage parents are not logged.",
            "Which stages wait for which is not known; each job's stages run one after another or at once as submitted.",
        )


def _tasks(app: Application, traits: LogTraits) -> Iterator[tuple[str, str]]:
    missing = app.counts.get(HOLES, 0)
    if missing:
        yield (
            f"{_count(missing, 'task')} of stages that completed cannot be found in the log.",
            "They are not run again; the rest of their stages' time is not accounted for.",
        )
    lost = sum(stage.body_ms.count(NO_TASK) for stage in app.stages) - missing
    if lost > 0:
        yield f"{_count(lost, 'task')} never succeeded in the log.", "How long they would take is not known."
    if traits.oversized:
        yield (
            f"Far fewer tasks ran of {_count(traits.oversized, 'stage')} than the log claims.",
            "Only those that ran are run again.",
        )
    if not traits.metered:
        yield (
            "Tasks have no metrics.",
            "What a fresh executor adds cannot be told from the tasks' own work, and sizes are not known.",
        )
    retried = sum(stage.attempts > 1 for stage in app.stages)
    if retried and not traits.partitions:
        yield (
            f"There were further attempts of {_count(retried, 'stage')}, and partition ids are not logged.",
            "Which tasks those were is guessed by their order.",
        )
    copies = sum(len(stage.copies) for stage in app.stages)
    if copies:
        yield (
            f"{_count(copies, 'task')} had speculative copies; how long a killed original would have taken is not known.",
            "Such a task is taken to end when its copy did.",
        )
    stored = {rdd for stage in app.stages for rdd in stage.stores}
    if stored and not traits.block_updates:
        yield (
            f"Which executors held cached partitions ({_count(len(stored), 'RDD')}), and until when, is not logged.",
            "Every executor that computed one of them is taken to hold it until it is unpersisted.",
        )
    if any(stage.shuffle is not None for stage in app.stages) and traits.dynamic:
        yield (
            "When Spark cleaned a shuffle is not logged.",
            "Executors with shuffle data may be kept longer, or let go earlier, than they would be.",
        )
    run, collected = sum(s.run_ms for s in app.stages), sum(s.gc_ms for s in app.stages)
    spilled = app.memory.spilled
    costs = []
    if spilled / SPILL_BYTES_PER_MS >= MEMORY_LEAST_MS:
        costs.append(f"spilled {spilled / 2**30:.1f} GiB of memory")
    if collected > GC_SHARE * run and collected >= MEMORY_LEAST_MS:
        share = 100 * collected / max(1, run)
        costs.append(f"spent {share:.0f}% of their time ({collected / 1000:.0f} s) collecting garbage")
    if costs:
        yield (
            f"Tasks {' and '.join(costs)}.",
            "With other memory, or other tasks beside them, they would take another time; it is kept as it is.",
        )
    if any(stage.read_bytes for stage in app.stages) and not _is_local(app):
        yield (
            "Where tasks preferred to run is not logged.",
            "Those that read cached partitions wait for who holds them (spark.locality.wait); all others start wherever "
            "a slot is free, and no read becomes remote.",
        )


def _executors(app: Application, traits: LogTraits) -> Iterator[tuple[str, str]]:
    if _is_local(app):
        yield (
            "The application ran inside its driver (a local master): nothing is known of executors and how they start.",
            "What is answered about executors is assumed, not seen.",
        )
    elif app.counts.get("executors not announced"):
        yield (
            f"Only tasks or block managers tell of {_count(app.counts['executors not announced'], 'executor')}.",
            "They are taken to have come with the first of these; cores are guessed.",
        )
    tasks = app.counts.get(STRAY_TASKS, 0)
    if tasks:
        yield (
            f"No job lists the stages of {_count(tasks, 'task')} that ran, as they claim, before the application began or "
            "after it ended.",
            "They are left out.",
        )
    strays = app.counts.get(STRAYS, 0)
    if strays:
        yield (
            f"By the log {_count(strays, 'executor')} came before the application began or after it ended, and ran no task "
            "in between.",
            "They are left out; the log was edited, or put together from several.",
        )
    came = app.counts.get(CAME_UNASKED, 0)
    if came:
        yield (
            f"{_count(came, 'executor')} came at the start, though nothing in the log had asked for most of them.",
            "They are taken for the platform's own initial executors, asked for when the driver was ready, under every "
            "config that does not say otherwise (spark.dynamicAllocation.initialExecutors).",
        )
    unannounced = app.counts.get(UNANNOUNCED, 0)
    if unannounced:
        yield (
            f"The log does not describe {_count(unannounced, 'resource profile')} that its executors have.",
            "Their executors have the cores that were logged; what their tasks ask for is taken from the conf.",
        )
    if traits.platform is not None:
        yield (
            f"{traits.platform} may have scaled the cluster by rules of its own.",
            "They are not simulated: executors come and go as Spark's dynamic allocation, or a static count, has it.",
        )
    unasked = sum(one.requested_ms is None for one in app.executors)
    if unasked and not _is_local(app):
        yield (
            f"When {unasked} of {len(app.executors)} executors were asked for is not known.",
            "How long they took to start is taken from the others.",
        )
    taken = sum(one.leave is Leave.LOST for one in app.executors)
    if taken:
        yield (
            f"The application lost {_count(taken, 'executor')}; whether that would happen again, or sooner with more "
            "executors, is not known.",
            "The same ones are lost after the same time.",
        )
    if app.driver_ready_ms is None:
        yield (
            "When the driver was ready is not logged.",
            "The first executors are taken to be asked for when the application starts.",
        )


def _count(number: int, what: str) -> str:
    """``1 job``, ``1,024 jobs``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _is_local(app: Application) -> bool:
    master = app.properties.get("spark.master", "")
    return master.startswith("local") and not master.startswith("local-cluster")


HOLES: Final = "tasks not in the log"
"""In ``Application.counts``: tasks of stages that completed well, without an end of theirs."""


HOLES_MAX: Final = 0.25
"""The share of an application's tasks that may be missing from its log."""


def holes(application: Application) -> str | None:
    """Why too little is left of the application in its log; None where enough is."""
    missing, tasks = application.counts.get(HOLES, 0), application.tasks
    if missing <= HOLES_MAX * tasks:
        return None
    return (
        f"{missing:,} of {tasks:,} tasks are not in the log, although their stages completed: what they took, and where, is "
        "not known, so nothing can be said about other executors"
    )


def nothing_to_run(application: Application) -> str | None:
    """Why there is nothing to run again; None where there is a task."""
    if application.tasks:
        return None
    return lost_parts(application) or "no task of the application is in the log: there is nothing to run"


def unknown_conf(application: Application) -> str | None:
    """What to say of a misfit where the log does not tell under which conf the application ran."""
    if application.properties:
        return None
    return (
        "the log has no environment (SparkListenerEnvironmentUpdate), so it is not known under which config the application "
        "ran, and Spark's defaults were assumed: --recorded-conf or --recorded-properties-file can say what it was"
    )


LATE_START: Final = "begins late"
"""In ``Application.counts``: 1 where what came before the first line of the log is missing."""

MISSING_PARTS: Final = "gaps between parts"
"""In ``Application.counts``: where a part of a log in parts does not follow the one before."""


def lost_parts(application: Application) -> str | None:
    """Why an application is not whole whose log came in parts; None where it is.

    What a missing part tells of is neither in the bill nor in the run time, and executors whose tasks it holds look idle: a
    setting that lets them go would seem to save what they cost.
    """
    if application.counts.get(LATE_START):
        return (
            "the log begins in the middle of its application: what came before, and what it cost, is not known (the parts "
            "of a log are read as one from the folder that holds them)"
        )
    if places := application.counts.get(MISSING_PARTS):
        where = "in one place" if places == 1 else f"in {places:,} places"
        return f"parts of the log are missing or out of order {where}: what happened in between is not known"
    return None
