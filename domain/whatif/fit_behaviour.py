"""What a what-if keeps of the place where an application ran, found in its log: ``fit`` makes a ``Behaviour``.

- Start-ups: latencies from request to registration, freed of what starts on one machine do to one another
  (``whatif.fit_start_up``). All executors on one host are one machine; the driver is on it too where it names the same host,
  and then its own start-up shares the machine as well. Executors of several hosts do not disturb one another here.
- Request times come with the application: logged, or found by replaying the log through the core. Where there are none
  (a static count), the first executors were asked for when the driver was up, and each later one when the one before it
  was gone.
- Becoming ready: the time to the first task, where tasks waited, and ``fresh_ms`` for what that task took longer; on one
  machine both are part of the shared work.
- Removal: from being told to go to being gone. No log says when an executor was told; an idle one was told when its
  timeout had passed, so what is left of the time since its last task is the lag - where data kept it longer it is not,
  hence only values near to what its platform does are believed, and that is the default.
- Losses are repeated as they were, counted by registration.
- On YARN, what is left of start-ups and removals without the heartbeats (``whatif.fit_containers``).
- Capacity: a bound is believed in only where tasks wanted more than what was there and allowed for long, and nothing came.

Pure, O(n log n) in executors and stages for a fixed number of tries of ``parallel``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice, pairwise
from operator import itemgetter
from typing import Final

from podtide.domain.base.randomness import DELAY_MAX
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.conf.backend_config import executors_initial
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import INSTANCES, dynamic_allocation_enabled
from podtide.domain.conf.spark_conf import EVENT_LOG, SparkConf, from_mapping
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.jvm.values import parse_time
from podtide.domain.protocol.pods import pod_number
from podtide.domain.recorded.application import Application, Leave, RecordedExecutor, RecordedStage, SumOverTime
from podtide.domain.rerun.behaviour import Behaviour, ContainerBehaviour, Loss, MeasuredStarts, StartUp
from podtide.domain.rerun.start_up import SharedStartUp
from podtide.domain.whatif.fit_containers import fit_containers, status_of
from podtide.domain.whatif.fit_partitions import stages_by_cores
from podtide.domain.whatif.fit_start_up import Beside, Driver, FirstTask, LoggedStart, independent, shared
from podtide.domain.whatif.planning import REGISTERED_WAIT, registered_ratio

START_USUAL_MS: Final[Millis] = 1_000
"""Of an application without executors in its log (it had none, or the log begins too late)."""

STANDALONE_LAG_MS: Final[Millis] = 20
"""On top of spark.standalone.executorRemoveDelayOnDisconnection: 97 removals took 5.00 to 5.15 s, half of them 5.02."""

REMOVAL_USUAL_MS: Final = {"yarn": 8_000, "k8s": 2_000}
"""YARN: 3.4 s in one log and 11 to 14 s in another; Kubernetes: no log with removals is known, assumed."""

REMOVAL_OTHER_MS: Final[Millis] = 1_000
REMOVAL_MOST_MS: Final[Millis] = 20_000
"""An executor that stayed longer after its idle timeout was kept by data, not by the cluster manager."""

CAPACITY_SURE_MS: Final[Millis] = 60_000
CAPACITY_LATENCIES: Final = 4
CAPACITY_WANTED: Final = 2.0
"""A bound of the cluster is believed in when twice the executors that were there were wanted after a minute, and after
four times the usual latency, in which none came."""

CAPACITY_LOOKS: Final = 100
"""So often at most is a plateau looked at."""

_REMOVE_DELAY: Final = "spark.standalone.executorRemoveDelayOnDisconnection"
_REMOVE_DELAY_DEFAULT: Final[Millis] = 5_000
_DRIVERS: Final = frozenset({"driver", "<driver>"})


def fit(application: Application, conf: SparkConf | None = None) -> Behaviour:
    """The behaviour of the place where this application ran. ``conf``: what it ran under, where that is not as logged."""
    if conf is None:
        version = parse_version(application.spark_version or None)
        conf = from_mapping(application.properties, EVENT_LOG, version)
    reads = Reads(conf)
    executors = [one for one in application.executors if one.executor not in _DRIVERS]
    boot = _boot(application)
    if not executors and application.executors:
        return _local(application, boot)
    seen = _seen(application, executors, reads, application.started_ms + boot)
    awaited = _awaited(application, executors, reads, boot)
    beside = _beside(application, executors, _driver(application, executors, conf, boot + awaited))
    startup: StartUp
    fresh = unshared = tuple(max(0, one.extra_ms) for one in application.fresh)
    if not seen:
        startup = StartUp((START_USUAL_MS,))
    elif len({one.host for one in executors}) == 1:
        startup, fresh = shared(seen, beside)
    else:
        startup = independent(seen)
    on_one_machine = isinstance(startup, SharedStartUp) and startup.machines == 1
    measured = MeasuredStarts(independent(seen), unshared) if on_one_machine else None
    removals = _removals(executors, reads)
    return Behaviour(
        startup,
        boot_ms=boot,
        fresh_ms=fresh,
        removal_ms=removals,
        losses=tuple(
            Loss(ordinal, max(0, one.removed_ms - one.added_ms), status_of(one.reason))
            for ordinal, one in enumerate(executors)
            if one.leave is Leave.LOST and one.removed_ms is not None
        ),
        capacity=_capacity(application, executors, reads, [one.added_ms - one.requested_ms for one in seen]),
        containers=_containers(conf, seen, application.started_ms + boot, removals, beside, one_machine=on_one_machine),
        by_cores=stages_by_cores(application, conf),
        measured=measured,
        awaited_ms=awaited,
    )


def _containers(
    conf: SparkConf,
    seen: Sequence[LoggedStart],
    boot_at: Millis,
    removals: Sequence[Millis],
    beside: Beside,
    *,
    one_machine: bool,
) -> ContainerBehaviour | None:
    """On YARN, the same without the heartbeats that were part of it."""
    if not seen or not conf.master.startswith("yarn"):
        return None
    return fit_containers(seen, boot_at, removals, conf, beside=beside, one_machine=one_machine)


def _local(application: Application, boot_ms: Millis) -> Behaviour:
    """A local master: the driver is the one executor, and there when the log says so."""
    added = application.executors[0].added_ms - application.started_ms
    boot = max(0, min(boot_ms, added - 1))
    return Behaviour(StartUp((max(1, added - boot),)), boot, tuple(max(0, one.extra_ms) for one in application.fresh))


def _boot(application: Application) -> Millis:
    """From the application's start to when its first executors are asked for: the driver's block manager is there then."""
    first_job = min((job.submitted_ms for job in application.jobs), default=application.ended_ms)
    if application.driver_ready_ms is not None:
        ready = application.driver_ready_ms
    else:
        requests_ms = (one.requested_ms for one in application.executors if one.requested_ms is not None)
        ready = min(requests_ms, default=application.started_ms)
    return max(0, min(ready, first_job) - application.started_ms)


def _awaited(application: Application, executors: Sequence[RecordedExecutor], reads: Reads, boot_ms: Millis) -> Millis:
    """How long the driver then waited for its first executors (waitBackendReady); its first job came after that."""
    ratio = registered_ratio(reads, reads.conf.master)
    enough = math.ceil(executors_initial(Reads(reads.conf), []) * ratio)
    if enough <= 0:
        return 0
    boot_at = application.started_ms + boot_ms
    added = sorted(one.added_ms for one in executors)
    longest = boot_at + max(0, reads.int(REGISTERED_WAIT))
    ready = added[enough - 1] if enough <= len(added) else longest
    first_job = min((job.submitted_ms for job in application.jobs), default=application.ended_ms)
    return max(0, min(ready, longest, first_job) - boot_at)


def _driver(
    application: Application, executors: Sequence[RecordedExecutor], conf: SparkConf, ready_ms: Millis
) -> Driver | None:
    """The driver's way to its first job, where it went it on the only host of its executors."""
    if not application.jobs or not executors or application.driver_ready_ms is None:
        return None
    if not conf.master.startswith("local-cluster") and conf.raw("spark.driver.host") != executors[0].host:
        return None
    began = application.started_ms + ready_ms
    return Driver(began, max(began, min(job.submitted_ms for job in application.jobs)))


def _beside(application: Application, executors: Sequence[RecordedExecutor], driver: Driver | None) -> Beside:
    """What else went on on the machine of all executors."""
    began = {one.executor: one.first_task_ms for one in executors if one.first_task_ms is not None}
    extras: dict[ExecutorId, list[Millis]] = {}
    for one in application.fresh:
        if one.executor in began:
            extras.setdefault(one.executor, []).append(max(0, one.extra_ms))
    # The slots of an executor load its classes together.
    return Beside(driver, [FirstTask(began[one], sum(of) // len(of)) for one, of in extras.items()])


def _seen(
    application: Application, executors: Sequence[RecordedExecutor], reads: Reads, boot_at: Millis
) -> list[LoggedStart]:
    """The starts by request, those of one moment by the executors' numbers. A request that is not known is put where the
    config puts it, or the usual time before."""
    requests = _requests(executors, reads, boot_at)
    # At most so many executors are waited for as the stages under way have tasks.
    wanted = SumOverTime((stage.submitted_ms, stage.completed_ms, stage.tasks) for stage in application.stages)
    cpus = max(1.0, float(reads.decimal("spark.task.cpus")))
    offered, coming, before = 0, 0, -1
    leaving: list[tuple[Millis, int]] = []
    seen = []
    for executor, (requested, known) in zip(executors, requests, strict=True):
        if executor.added_ms > before:  # those that come together do not take one another's tasks
            offered, coming, before = offered + coming, 0, executor.added_ms
        while leaving and leaving[0][0] <= executor.added_ms:
            offered -= heappop(leaving)[1]
        first = executor.first_task_ms if wanted(executor.added_ms) > offered else None
        slots = max(1, int(executor.cores / cpus))
        coming += slots
        if executor.removed_ms is not None:
            heappush(leaving, (executor.removed_ms, slots))
        start = LoggedStart(requested, executor.added_ms, first, known, executor.profile)
        seen.append((requested, pod_number(executor.executor) or 0, executor.added_ms, start))
    return [start for *_, start in sorted(seen, key=itemgetter(0, 1, 2))]


def _requests(executors: Sequence[RecordedExecutor], reads: Reads, boot_at: Millis) -> list[tuple[Millis, bool]]:
    """When each was asked for, and whether that is more than a guess."""
    latencies = sorted(
        one.added_ms - one.requested_ms
        for one in executors
        if one.requested_ms is not None and one.requested_ms < one.added_ms
    )
    usual = latencies[len(latencies) // 2] if latencies else START_USUAL_MS
    static = not dynamic_allocation_enabled(reads)
    left = sorted(one.removed_ms for one in executors if one.removed_ms is not None)
    first = max(reads.int(INSTANCES), sum(one.added_ms <= left[0] for one in executors) if left else len(executors))
    requests: list[tuple[Millis, bool]] = []
    for place, one in enumerate(executors):
        known = True
        if one.requested_ms is not None and one.requested_ms < one.added_ms:
            request = one.requested_ms
        elif static and place < first:
            request = boot_at
        elif static and place - first < len(left):  # in the place of one that was lost
            request = left[place - first]
        else:
            request, known = one.added_ms - usual, False
        requests.append((request, known) if request < one.added_ms else (one.added_ms - 1, False))
    return requests


def _removals(executors: Sequence[RecordedExecutor], reads: Reads) -> tuple[Millis, ...]:
    master = reads.conf.master
    if master.startswith(("spark://", "local-cluster")):
        return (_remove_delay(reads.conf) + STANDALONE_LAG_MS,)
    timeout = reads.int("spark.dynamicAllocation.executorIdleTimeout") * 1000
    if dynamic_allocation_enabled(reads) and timeout > 0:
        found = tuple(
            lag
            for one in executors
            if one.leave is Leave.RELEASED and one.removed_ms is not None
            if 0 <= (lag := one.removed_ms - max(one.added_ms, one.last_task_ms or 0) - timeout) <= REMOVAL_MOST_MS
        )
        if found:
            return found
    return (next((ms for name, ms in REMOVAL_USUAL_MS.items() if master.startswith(name)), REMOVAL_OTHER_MS),)


def _remove_delay(conf: SparkConf) -> Millis:
    setting = conf.setting(_REMOVE_DELAY)
    if setting is None:
        return _REMOVE_DELAY_DEFAULT
    try:
        return min(max(0, parse_time(setting.value, "ms")), DELAY_MAX)
    except ValueError:
        return _REMOVE_DELAY_DEFAULT


def _capacity(
    application: Application, executors: Sequence[RecordedExecutor], reads: Reads, latencies: Sequence[Millis]
) -> int | None:
    """The peak, where it was a bound that neither the conf nor a want of tasks explains."""
    peak = application.peak_executors
    if not peak or not dynamic_allocation_enabled(reads) or peak >= reads.int("spark.dynamicAllocation.maxExecutors"):
        return None
    usual = sorted(latencies)[len(latencies) * 9 // 10] if latencies else START_USUAL_MS
    sustained = reads.int("spark.dynamicAllocation.sustainedSchedulerBacklogTimeout") * 1000
    sure = max(CAPACITY_SURE_MS, CAPACITY_LATENCIES * usual) + 10 * max(0, sustained)
    cores = max((one.cores for one in executors), default=1)
    slots = max(1, int(cores / max(1.0, float(reads.decimal("spark.task.cpus")))))
    ratio = min(1.0, max(0.0, reads.double("spark.dynamicAllocation.executorAllocationRatio")))
    curve = [*application.executors_over_time(), (application.runtime_ms, 0)]
    looks = (since + sure for (since, count), (until, _) in pairwise(curve) if count == peak and until - since > sure)
    for look in islice(looks, CAPACITY_LOOKS):
        wanted = sum(_left(stage, application.started_ms + look) for stage in application.stages) * ratio / slots
        if wanted >= CAPACITY_WANTED * peak:
            return peak
    return None


def _left(stage: RecordedStage, at: Millis) -> float:
    """How many of a stage's tasks are still to be done, were they done evenly."""
    if not stage.submitted_ms <= at < stage.completed_ms:
        return 0.0
    return stage.tasks * (stage.completed_ms - at) / (stage.completed_ms - stage.submitted_ms)
