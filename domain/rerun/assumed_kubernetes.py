"""The cluster that a Kubernetes variant runs on: the one that was given, or one that starts executors as the log's did.

Nobody who has only an event log knows the nodes behind it. So the assumed cluster has room for everything up to the
``capacity`` that was seen, and the time from an executor's request to its registration is drawn from those that were
logged. Half of the shortest, four seconds at most, is taken for the executor's own start (its pod is Running: it no longer
counts as pending), the rest for scheduling, node and image (Pending). Starts do not disturb one another there: what they
did to each other in the log is part of what was measured.

What may go wrong besides (``plan.Faults``) is built into it: an extra delay before a pod is scheduled, a stage that
evicts registered executors at the rate of interruptions, and a quota of pods, which the API server refuses beyond.

Whatever cluster it is, its pods request what the plan's executors are: a cluster file says where they run, the conf what
they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain, count
from typing import Final, assert_never

from podtide.domain.base.randomness import DELAY_MAX, Constant, Delay, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.fakes.kubernetes.description import KIND, STAGES, Description, Life, NodeGroup, PodShape, PodStage
from podtide.domain.jvm.quantities import parse_quantity
from podtide.domain.rerun import plan as plans
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.plan import Faults

PROCESS_MAX: Final[Millis] = 4_000
"""The longest that an executor's own start is taken for: a JVM and its registration."""

ROOM: Final = 1_000_000
"""Pods of the assumed node, where no bound was seen."""

REQUEST_CORES: Final = "spark.kubernetes.executor.request.cores"

_POINTS: Final = 20
_SPOT: Final = "spot"
_TAKEN: Final = "The node was taken back."
_HUGE: Final = 2**40


def assumed_cluster(behaviour: Behaviour) -> Description:
    """A cluster whose executors start and stop as ``behaviour`` says, each on a machine of its own."""
    startup = behaviour.apart().startup
    waits_ms = startup.wait_ms or (0,) * len(startup.work_ms)
    starts = startup.given or tuple(wait + work for wait, work in zip(waits_ms, startup.work_ms, strict=True))
    total = sorted(max(0, min(DELAY_MAX, ms)) for ms in starts) or [0]
    process = min(PROCESS_MAX, total[0] // 2)
    waits = _quantiles([ms - process for ms in total])
    delays: dict[str, Delay] = {
        "schedule": Constant(0),
        "pull": waits,
        "pulled": waits,
        "start": Constant(0),
        "register": Constant(process),
    }
    if behaviour.removal_ms:
        delays["exit"] = _quantiles(sorted(max(0, min(DELAY_MAX, ms)) for ms in behaviour.removal_ms))
    stages = tuple(replace(stage, delay=delays.get(stage.name, stage.delay)) for stage in STAGES)
    room = ROOM if behaviour.capacity is None else max(1, behaviour.capacity)
    node = NodeGroup("assumed", 1, cpu_millis=_HUGE, memory_mib=_HUGE, pods=room, image_present=True)
    return replace(KIND, groups=(node,), executors=replace(KIND.executors, stages=stages))


def fitted_to(
    cluster: Description, conf: SparkConf, shapes: Mapping[ProfileId, plans.ExecutorShape], *, decommission: bool
) -> Description:
    """The cluster with pods that request what the plan's executors are."""
    amount = parse_quantity((conf.raw(REQUEST_CORES) or "").strip())
    cpu_millis = None if amount is None or not 0 < amount <= _HUGE else max(1, int(amount * Decimal(1000)))
    pods = {profile: PodShape(shape.cores * 1_000, max(1, shape.memory_mib)) for profile, shape in shapes.items()}
    if cpu_millis is not None:  # Spark asks the conf for the default profile alone
        pods[DEFAULT_PROFILE] = replace(pods[DEFAULT_PROFILE], cpu_millis=cpu_millis)
    executors = replace(
        cluster.executors,
        shape=pods[DEFAULT_PROFILE],
        profiles=tuple(sorted((profile, pod) for profile, pod in pods.items() if profile != DEFAULT_PROFILE)),
        decommission=decommission,
    )
    return replace(cluster, executors=executors)


def with_faults(cluster: Description, faults: Faults) -> Description:
    """The cluster with these faults besides its own."""
    stages = cluster.executors.stages
    if faults.start_extra_ms > 0:
        stages = tuple(
            replace(stage, delay=shifted(stage.delay, faults.start_extra_ms)) if stage.source is Life.CREATED else stage
            for stage in stages
        )
    if faults.spot_per_hour > 0:
        taken = {stage.name for stage in stages}
        name = next(name for name in chain((_SPOT,), (f"{_SPOT}-{n}" for n in count(2))) if name not in taken)
        evicted = PodStage(name, Life.REGISTERED, Life.EVICTED, per_hour=faults.spot_per_hour, message=_TAKEN)
        stages = (*stages, evicted)
    api = cluster.api
    if faults.quota is not None:
        room = faults.quota if api.quota_pods is None else min(faults.quota, api.quota_pods)
        api = replace(api, quota_pods=room)
    return replace(cluster, executors=replace(cluster.executors, stages=stages), api=api)


def shifted(delay: Delay, extra: Millis) -> Delay:
    """The delay, and ``extra`` more."""
    match delay:
        case Constant(ms):
            return Constant(min(DELAY_MAX, ms + extra))
        case Uniform(low, high):
            return Uniform(min(DELAY_MAX, low + extra), min(DELAY_MAX, high + extra))
        case Quantiles(points):
            return Quantiles(tuple((percent, min(DELAY_MAX, ms + extra)) for percent, ms in points))
        case Exponential() | LogNormal():  # a long tail, as far as one in a thousand
            percents = (0.1, *range(1, 100), 99.9)
            return Quantiles(tuple((p, min(DELAY_MAX, delay.quantile(p / 100) + extra)) for p in percents))
        case _:
            assert_never(delay)


def _quantiles(ordered: Sequence[Millis]) -> Delay:
    """Samples in rising order as a distribution."""
    if ordered[0] == ordered[-1]:
        return Constant(ordered[0])
    last = len(ordered) - 1
    steps = min(_POINTS, last)
    return Quantiles(tuple((100.0 * step / steps, ordered[round(last * step / steps)]) for step in range(steps + 1)))
