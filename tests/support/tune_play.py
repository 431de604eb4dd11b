"""A world for tuning and comparing in which time and price can be worked out by hand.

An application is work of ``WORK_MS``; N executors share it evenly, after a boot of ten seconds. Under dynamic allocation
each executor is paid for its share of the work and an idle timeout, a static one from start to end. Logs are names: what is
read of ``good-...`` ran so under eight executors at most and an idle timeout of a minute; others cannot be read, or do not
fit.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Final

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.conf.scaling_config import ENABLED, MAX
from podtide.domain.recorded.application import Application, Leave, RecordedExecutor, RecordedJob, RecordedStage
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.domain.rerun.outcome import CurvePoint, Decision, RerunOutcome, StageTimes
from podtide.domain.rerun.plan import Plan
from podtide.entrypoints.common.log_config import NothingToReplay

START: Final = 1_700_000_000_000
WORK_MS: Final = 640_000
BOOT_MS: Final = 10_000
IDLE: Final = "spark.dynamicAllocation.executorIdleTimeout"
CONF: Final = {
    ENABLED: "true",
    MAX: "8",
    IDLE: "60s",
    "spark.master": "yarn",
    "spark.executor.cores": "1",
    "spark.app.name": "play",
    "spark.hadoop.fs.s3a.secret.key": "hush",
}


def application(name: str = "good-0", conf: dict[str, str] | None = None, *, tasks: int = 64) -> Application:
    """What the log of this name tells."""
    number = int(name.rpartition("-")[2]) if name.rpartition("-")[2].isdigit() else 0
    runtime, paid = BOOT_MS + WORK_MS // 8, WORK_MS + 8 * 60_000
    end = START + number + runtime
    stage = RecordedStage(0, 0, "count <b>", ProfileId(0), START + BOOT_MS, end, array("q", [WORK_MS // 64] * tasks))
    lives = [(START + number, START + number + runtime)] * (paid // runtime)
    lives.append((end - paid % runtime, end))
    return Application(
        f"app-{number}",
        "play",
        "4.3.0",
        START + number,
        end,
        True,
        {**CONF, **(conf or {})},
        (RecordedJob(0, START, end, True, (0,), (), think_ms=0),),
        (stage,),
        tuple(
            RecordedExecutor(
                ExecutorId(str(one)), "host", ProfileId(0), 1, added, None if removed == end else removed, Leave.STAYED
            )
            for one, (added, removed) in enumerate(lives)
        ),
    )


def rerun(
    app: Application,
    behaviour: Behaviour,
    plan: Plan,
    seed: int = 0,
    *,
    watch: bool = False,
    limit_ms: Millis | None = None,
) -> RerunOutcome:
    """A run again, by the formula; seeds add a second each. An application of 63 tasks takes twice as long as it should,
    one of 62 never ends with more than eight executors."""
    dynamic = plan.dynamic
    slots = plan.shapes[DEFAULT_PROFILE].slots
    count = plan.static if dynamic is None else min(dynamic.executors_max, 1_000)
    runtime = BOOT_MS + WORK_MS // (count * slots) + 1_000 * seed
    paid = count * runtime if dynamic is None else WORK_MS // slots + count * dynamic.idle_timeout_ms
    if app.tasks == 63:
        runtime *= 2
    unfinished = "its tasks wait for executors that never come" if app.tasks == 62 and count > 8 else None
    if limit_ms is not None and runtime > limit_ms:
        runtime, unfinished = limit_ms, "the run time passed the limit"
    decisions = tuple(
        Decision(1_000 * step, "target", "backlog", {}, 0, step, step + 1) for step in range(min(count, 20))
    )
    return RerunOutcome(
        seed,
        runtime,
        paid,
        paid,
        count,
        count,
        0,
        paid * slots,
        WORK_MS,
        5_000,
        3,
        {SpendCause.RUNNING: WORK_MS // slots, SpendCause.IDLE_TIMEOUT: paid - WORK_MS // slots},
        {},
        {ProfileId(0): paid},
        (CurvePoint(0, count, count, 0, count, count),) if watch else (),
        (StageTimes(0, BOOT_MS, runtime),) if watch else (),
        decisions if watch else (),
        unfinished=unfinished,
        filled_ms=WORK_MS // slots,
    )


def read(log: str) -> Application:
    """The application of a log, by the log's name."""
    kind = log.partition("-")[0]
    if kind == "good":
        return application(log)
    if kind == "evil":
        return replace(application(log), name="\x1b[31m<script>alert(1)</script>")
    if kind == "misfit":
        return application(log, tasks=63)
    if kind == "endless":
        return application(log, tasks=62)
    if kind == "deadly":
        raise SystemExit(9)
    if kind == "nothing":
        raise NothingToReplay("no task ended well")
    raise LogError(log, "there is no such file or folder")
