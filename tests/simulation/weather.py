"""What a simulation is drawn from: a cluster with faults, a conf, what the driver asks for; all from one source of chance.

A ``Case`` is plain data and can be made again from its seed. Every fault and every setting that differs from the usual is a
*part* with a name, and a case can be drawn without some of them (``without``): the others stay as they were, which is what
makes a failure small. All faults end at ``calm_ms``; what is asked for last fits into the cluster, so that a bound can be
given for how long it may take from then on (``patience``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from podtide.domain.base.randomness import Delay, Uniform
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.fakes.kubernetes.description import (
    STAGES,
    Api,
    Description,
    Executors,
    Fault,
    Life,
    Lost,
    NodeEvent,
    NodeGroup,
    NodeHappening,
    PodShape,
    PodStage,
    Verb,
    Watch,
)
from podtide.domain.fakes.windows import Window
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Policies
from podtide.domain.protocol.application import EngineConfig
from podtide.entrypoints.common.app_config import app_settings

S: Final[Millis] = 1_000
MINUTE: Final[Millis] = 60 * S
K: Final = "spark.kubernetes."
CLAIM: Final = "executor.volumes.persistentVolumeClaim."
ALLOCATOR: Final = K + "allocation.pods.allocator"
APP: Final = "app-1"

PROFILES: Final = (DEFAULT_PROFILE, ProfileId(1))


@dataclass(frozen=True)
class Ask:
    """Something that the driver's other half does at a time: a target, a kill, a decommission, executors busy or idle.

    ``number``: the target; for the others, which of the executors that are registered then (modulo their number).
    """

    at: Millis
    what: str
    profile: ProfileId = DEFAULT_PROFILE
    number: int = 0


@dataclass(frozen=True)
class Case:
    """One simulation. ``parts``: what of it can be left out, by name. ``tasks``: dynamic allocation decides, over tasks."""

    seed: int
    conf: tuple[tuple[str, str], ...]
    description: Description
    asks: tuple[Ask, ...]
    surplus_ms: Millis
    tasks: bool
    parts: tuple[str, ...]

    @property
    def calm_ms(self) -> Millis:
        """When all faults end and the last has been asked for."""
        assert self.description.calm_ms is not None
        return max(self.description.calm_ms, max((ask.at for ask in self.asks), default=0))

    def config(self, policies: Policies = SPARK_POLICIES) -> EngineConfig:
        """The configuration of all machines."""
        return app_settings(from_mapping(dict(self.conf), "a case"), policies).config

    def targets(self) -> dict[ProfileId, int]:
        """What is asked for last."""
        return {ask.profile: ask.number for ask in self.asks if ask.what == "target"}


USUAL: Final = {
    "spark.app.name": "simulation",
    "spark.app.id": APP,
    "spark.kubernetes.container.image": "spark",
    "spark.kubernetes.executor.podNamePrefix": "exec",
    "spark.dynamicAllocation.enabled": "false",
    "spark.executor.instances": "0",
    "spark.executor.maxNumFailures": "2147483647",
}
"""What every case has, unless a part says otherwise."""


class _Drawing:
    """A case in the making."""

    def __init__(self, chance: Random, without: frozenset[str]) -> None:
        self.chance = chance
        self.without = without
        self.parts: list[str] = []
        self.conf = dict(USUAL)
        self.description = Description()
        self.length = chance.choice([2, 4, 8, 15]) * MINUTE

    def sometimes(self, percent: int) -> bool:
        return self.chance.randrange(100) >= 100 - percent

    def part(self, name: str) -> bool:
        """Whether this part is in."""
        self.parts.append(name)
        return name not in self.without

    def setting(self, key: str, value: str) -> None:
        if self.part(f"conf:{key}"):
            self.conf[key] = value

    def often(self, percent: int, key: str, *values: str) -> None:
        value = self.chance.choice(values)
        if self.sometimes(percent):
            self.setting(key, value)

    def world(self, change: Callable[[Description], Description], name: str) -> None:
        if self.part(name):
            self.description = change(self.description)

    def stage(self, stage: PodStage) -> None:
        def added(d: Description) -> Description:
            return replace(d, executors=replace(d.executors, stages=(*d.executors.stages, stage)))

        self.world(added, f"stage:{stage.name}")

    def fault(self, name: str, fault: Fault) -> None:
        self.world(lambda d: replace(d, api=replace(d.api, faults=(*d.api.faults, fault))), f"api:{name}")

    def watch(self, name: str, **changes: object) -> None:
        self.world(lambda d: replace(d, watch=replace(d.watch, **changes)), f"watch:{name}")  # type: ignore[arg-type]

    def window(self) -> Window:
        """Always, or a part of the time, once or again and again."""
        length = self.length
        start, lasts = self.chance.randrange(length), self.chance.randrange(S, length)
        again = lasts + self.chance.randrange(S, length)
        return self.chance.choice([Window(), Window(start, start + lasts), Window(start, start + lasts, again)])

    def ends(self, to: Life, during: Window) -> Window:
        """A process that ends well is no fault to the cluster, and would go on after the calm."""
        return Window(0, self.length) if to is Life.SUCCEEDED else during

    def share(self) -> float:
        return self.chance.choice([0.02, 0.1, 0.5, 1.0])

    def rate(self) -> float:
        """Times an hour; some cases are short."""
        return self.chance.choice([6.0, 60.0, 300.0])


def draw(seed: int, without: frozenset[str] = frozenset(), *, helped: bool = False) -> Case:
    """The case of a seed, but for the parts named. ``helped``: and but for what no fix helps against."""
    return drawn(Random(seed), seed, without, helped=helped)


def drawn(chance: Random, seed: int = 0, without: frozenset[str] = frozenset(), *, helped: bool = False) -> Case:
    """A case from any source of chance."""
    it = _Drawing(chance, without)
    _draw_pace(it)
    _draw_nodes(it)
    _draw_lives(it)
    _draw_api(it)
    _draw_watch(it)
    tasks = it.sometimes(20)
    _draw_conf(it, tasks=tasks)
    asks = _draw_asks(it, tasks=tasks)
    if helped:
        _spare_sets(it)
    calm = replace(it.description, calm_ms=it.length)
    return Case(seed, tuple(it.conf.items()), calm, asks, chance.choice([S, 10 * S, 60 * S]), tasks, tuple(it.parts))


# ------------------------------------------------------------------------------------------------------ the cluster


_PACE: Final[dict[str, tuple[Millis, Millis]]] = {
    "schedule": (5, 100), "pull": (1_000, 8_000), "pulled": (100, 800), "start": (200, 1_500),
    "register": (500, 5_000), "unnamed": (120_000, 120_000), "unanswered": (120_000, 120_000), "refused": (100, 500),
    "drain": (500, 8_000), "exit": (100, 1_000), "give-up": (500, 3_000), "terminate": (100, 2_000),
}  # fmt: skip
"""A healthy life with an upper bound to each stage, so that a bound can be given for all of it."""


def _draw_pace(it: _Drawing) -> None:
    pace = it.chance.choice([1, 1, 1, 4])
    stages = tuple(replace(s, delay=_scaled(_PACE[s.name], 1 if "un" in s.name else pace)) for s in STAGES)
    latency = it.chance.choice([(2, 40), (2, 40), (20, 400), (200, 2_000)])
    delay = it.chance.choice([(1, 60), (1, 60), (100, 3_000)])
    it.description = Description(
        executors=Executors(stages=stages, rpc=Uniform(1, 20), grace_ms=30 * S, silence_ms=30 * S),
        api=Api(latency=Uniform(*latency), serial=it.chance.choice([True, True, False]), timeout_ms=10 * S),
        watch=Watch(delay=Uniform(*delay), late=Uniform(10, 5_000)),
        controllers=Uniform(20, 200),
    )


def _scaled(range_ms: tuple[Millis, Millis], times: int) -> Delay:
    return Uniform(range_ms[0], range_ms[1] * times)


def _draw_nodes(it: _Drawing) -> None:
    chance = it.chance
    arrives = Uniform(5 * S, 40 * S)
    base = NodeGroup("base", 3, 16_000, arrives=arrives, maximum=20, idle_ms=2 * MINUTE)
    spot = NodeGroup("spot", 2, 8_000, arrives=arrives, maximum=6, idle_ms=MINUTE)
    it.description = replace(it.description, groups=(base, spot), scan_ms=5 * S)
    shapes = ((1, PodShape(2_000, 4_096)),)
    it.description = replace(it.description, executors=replace(it.description.executors, profiles=shapes))
    rate, during = it.rate(), it.window()
    drained, notice = chance.choice([True, False]), chance.choice([0, 5 * S, 120 * S])
    if it.sometimes(30):
        it.world(
            lambda d: replace(
                d,
                groups=(
                    d.groups[0],
                    replace(d.groups[1], interruptions_per_hour=rate, during=during, drained=drained, notice_ms=notice),
                ),
            ),
            "nodes:spot",
        )
    if it.sometimes(20):
        it.world(lambda d: replace(d, groups=(replace(d.groups[0], count=0), d.groups[1])), "nodes:scarce")
    for number in range(chance.choice([0, 0, 1, 3, 6])):
        event = NodeEvent(
            chance.randrange(it.length), chance.choice(list(NodeHappening)), chance.choice(["base", "spot"]),
            chance.choice([1, 2, 3]),
        )  # fmt: skip
        it.world(
            lambda d, event=event: replace(d, node_events=(*d.node_events, event)),  # type: ignore[misc]
            f"nodes:{event.what.value} {number}",
        )
    orphaned = chance.choice([S, 40 * S])
    it.description = replace(it.description, orphaned_ms=orphaned)


def _draw_lives(it: _Drawing) -> None:
    """What goes wrong in a pod's life."""
    chance = it.chance
    weighted = (
        ("unschedulable", Life.CREATED, Life.HUNG, ()),
        ("no image", Life.SCHEDULED, Life.HUNG, ()),
        ("bad image", Life.SCHEDULED, Life.FAILED, ((1, 1.0),)),
        ("no start", Life.PULLED, Life.FAILED, ((128, 1.0),)),
        ("hangs", Life.RUNNING, Life.HUNG, ()),
        ("dies early", Life.RUNNING, Life.FAILED, ((1, 1.0), (137, 1.0))),
        ("ends early", Life.RUNNING, Life.SUCCEEDED, ()),
        ("stuck", Life.TERMINATING, Life.STUCK, ()),
    )
    for name, source, to, exits in weighted:
        weight, during, slow = chance.choice([0.05, 0.3, 2.0, 50.0]), it.window(), chance.choice([500, 20_000])
        if it.sometimes(14):
            during = it.ends(to, during)
            stage = PodStage(name, source, to, Uniform(10, slow), weight=weight, exits=exits, during=during)
            it.stage(replace(stage, reason="ImagePullBackOff") if name == "no image" else stage)
    rated = (
        ("crash", Life.REGISTERED, Life.FAILED, ((52, 1.0), (137, 1.0))),
        ("done", Life.REGISTERED, Life.SUCCEEDED, ()),
        ("cut off", Life.REGISTERED, Life.DISCONNECTED, ()),
        ("freezes", Life.REGISTERED, Life.HUNG, ()),
        ("evicted", Life.REGISTERED, Life.EVICTED, ()),
        ("evicted early", Life.SCHEDULED, Life.EVICTED, ()),
    )
    for name, source, to, exits in rated:
        rate, during = it.rate(), it.window()
        if it.sometimes(14):
            it.stage(PodStage(name, source, to, per_hour=rate, exits=exits, during=it.ends(to, during)))


def _draw_api(it: _Drawing) -> None:
    chance = it.chance
    verbs: tuple[tuple[Verb, ...], ...] = ((), (Verb.CREATE,), (Verb.DELETE,), (Verb.LIST,), (Verb.PATCH,))
    for number in range(chance.choice([0, 0, 1, 2, 4])):
        status, lost = chance.choice([403, 409, 422, 429, 500]), chance.choice(list(Lost))
        which, share, during = chance.choice(verbs), it.share(), it.window()
        after = chance.choice([None, 1_000]) if status == 429 else None
        if it.sometimes(60):
            it.fault(f"{status} {number}", Fault(status, None, share, which, retry_after_ms=after, during=during))
        else:
            it.fault(f"lost {lost.value} {number}", Fault(None, lost, share, which, during=during))
    retries, stale, age = chance.choice([1, 3]), it.share(), Uniform(S, chance.choice([5, 60]) * S)
    if it.sometimes(20):
        it.world(lambda d: replace(d, api=replace(d.api, retries=retries)), "api:retries")
    if it.sometimes(20):
        it.world(lambda d: replace(d, api=replace(d.api, stale=stale, stale_age=age)), "api:stale lists")


def _draw_watch(it: _Drawing) -> None:
    for name in ("loss", "duplicates", "reordered"):
        share = it.share()
        if it.sometimes(15):
            it.watch(name, **{name: share})
    rate, broken, expired = it.rate(), Uniform(S, it.chance.choice([5, 90]) * S), it.share()
    relists, outage = it.chance.choice([True, False]), it.window()
    if it.sometimes(20):
        it.watch("breaks", breaks_per_hour=rate, broken=broken)
    if it.sometimes(15):
        it.watch("expired", expired=expired, relists=relists)
    if outage.until_ms is not None and it.sometimes(15):
        it.watch("outage", outages=(outage,))
    during = it.window()
    if it.sometimes(30):
        it.watch("at times", during=during)


# --------------------------------------------------------------------------------------------------------- the conf


def _draw_conf(it: _Drawing, *, tasks: bool) -> None:
    chance = it.chance
    it.often(80, K + "allocation.batch.size", "1", "2", "3", "5", "10")
    it.often(50, K + "allocation.batch.delay", "200ms", "3s")
    pending = chance.choice([1, 2, 3, 5, 10])
    each = chance.randrange(1, pending + 1)
    if it.sometimes(40):
        it.setting(K + "allocation.maxPendingPods", str(pending))
    if it.sometimes(30):
        it.setting(K + "allocation.maxPendingPodsPerRp", str(each))
    it.often(8, K + "allocation.maximum", "12", "60", "300")
    it.often(70, "spark.dynamicAllocation.executorIdleTimeout", "1s", "5s", "20s")
    it.often(80, K + "allocation.executor.timeout", "3s", "20s", "60s")
    it.often(60, K + "executor.missingPodDetectDelta", "1s", "10s")
    it.often(70, K + "executor.apiPollingInterval", "2s", "5s", "10s")
    it.often(30, K + "executor.eventProcessingInterval", "200ms", "4s")
    it.often(20, K + "executor.deletedExecutorsCacheTimeout", "0s", "5s")
    it.often(40, K + "dynamicAllocation.deleteGracePeriod", "500ms", "20s")
    it.often(20, K + "executor.deleteOnTermination", "false")
    it.often(20, K + "executor.enablePollingWithResourceVersion", "true")
    it.often(8, K + "executor.enableApiWatcher", "false")
    it.often(20, "spark.executor.failuresValidityInterval", "30s")
    it.often(5, "spark.executor.maxNumFailures", "5", "50")
    it.often(30, K + "driver.pod.name", "driver")
    if it.sometimes(20) and not tasks:
        it.setting(ALLOCATOR, chance.choice(["statefulset", "deployment"]))
        it.conf[K + "driver.pod.name"] = "driver"  # without it their sets cannot be owned, and Spark ends
    if it.sometimes(20):
        _draw_claims(it)
    if it.conf.get(ALLOCATOR) == "deployment":  # it refuses claims, and ends the application
        it.conf = {key: value for key, value in it.conf.items() if CLAIM not in key}
    if it.sometimes(30):
        it.setting("spark.decommission.enabled", "true")
        it.world(lambda d: replace(d, executors=replace(d.executors, decommission=True)), "drains")
        it.often(60, "spark.executor.decommission.forceKillTimeout", "2s", "20s")
        it.often(40, K + "executor.decommissionLabel", "decommissioning")
    if tasks:
        it.conf["spark.dynamicAllocation.enabled"] = "true"
        it.conf["spark.dynamicAllocation.maxExecutors"] = str(chance.choice([2, 8, 25]))
        it.often(50, "spark.dynamicAllocation.minExecutors", "1", "2")
        it.often(50, "spark.executor.cores", "2", "4")


def _draw_claims(it: _Drawing) -> None:
    prefix = K + CLAIM + "data."
    if it.part("claims"):
        it.conf[prefix + "mount.path"] = "/data"
        it.conf[prefix + "options.claimName"] = "OnDemand"
        it.conf[prefix + "options.storageClass"] = "fast"
        it.conf[prefix + "options.sizeLimit"] = "1Gi"
    it.often(30, K + "driver.reusePersistentVolumeClaim", "false")
    it.often(30, K + "driver.ownPersistentVolumeClaim", "false")


def _spare_sets(it: _Drawing) -> None:
    """Leave out what keeps a StatefulSet or Deployment from its target for good under Spark's rules and under every fix.

    A scale that was refused is not repeated, a pod that restarts is never seen again once it is labelled inactive, and
    executors are declared lost when the labels that name their pods take longer than missingPodDetectDelta.
    """
    if it.conf.get(ALLOCATOR, "direct") != "direct":
        it.conf.pop(K + "executor.deleteOnTermination", None)
        it.conf.pop(K + "executor.missingPodDetectDelta", None)
        api = replace(it.description.api, latency=Uniform(2, 40))
        faults = tuple(replace(fault, resources=("pods", "persistentvolumeclaims")) for fault in api.faults)
        it.description = replace(it.description, api=replace(api, faults=faults))


# ----------------------------------------------------------------------------------------------------------- the asks


def _draw_asks(it: _Drawing, *, tasks: bool) -> tuple[Ask, ...]:
    chance, length = it.chance, it.length
    most = chance.choice([1, 4, 12, 30])
    profiles = PROFILES if it.sometimes(50) else PROFILES[:1]
    asks: list[Ask] = []
    kinds = ["target"] * 6 + ["kill", "kill", "force", "decommission", "busy", "idle"]
    if tasks:
        kinds = ["tasks"] * 4 + ["abort", "decommission"]
    for _ in range(chance.choice([1, 3, 8, 20])):
        at, what, number = chance.randrange(length), chance.choice(kinds), chance.randrange(most + 1)
        asks.append(Ask(at, what, chance.choice(profiles), number))
    if not tasks:
        asks.append(Ask(0, "target", profiles[0], chance.randrange(most + 1)))
        ends = length + chance.choice([-10 * S, 0, 10 * S])
        asks.extend(Ask(ends, "target", profile, chance.randrange(most + 1)) for profile in profiles)
        last = {ask.profile: ask.number for ask in sorted(asks, key=_time) if ask.what == "target"}
        quota = chance.randrange(most + 1) + sum(last.values()) + 1
        if it.sometimes(15):
            it.world(lambda d: replace(d, api=replace(d.api, quota_pods=quota)), "api:quota")
    return tuple(sorted(asks, key=_time))


def _time(ask: Ask) -> Millis:
    return ask.at


# ----------------------------------------------------------------------------------------------------------- the bound


def patience(case: Case, config: EngineConfig, calls_open: int) -> Millis:
    """How long after the last fault and the last request the target has to be reached, and the books to be true.

    What may have to pass one after the other, each at its longest: calls under way; the news of what is gone (silence, the
    garbage collector, two polls, the missing delta); pods that nobody ever saw given up; excess pods old enough to go; the
    grace of those told to go; the back-off's longest wait; and then, in batches as small as the limits make them, pods
    created, placed, started and registered. ``calls_open``: calls under way at the calm, which come one after the other.
    """
    d, side = case.description, config.kubernetes
    allocation, lifecycle, sources, backend = side.allocation, side.lifecycle, side.sources, side.backend
    latency = d.api.latency.quantile(1.0)
    calls = calls_open * latency + d.api.timeout_ms + d.api.retries * (latency + 3_200)
    poll = sources.poll_interval_ms + latency
    news = d.executors.silence_ms + d.orphaned_ms + 2 * poll + lifecycle.missing_delta_ms
    news += (
        d.watch.delay.quantile(1.0)
        + d.watch.late.quantile(1.0)
        + 2 * lifecycle.interval_ms
        + lifecycle.removed_cache_ms
    )
    unseen = allocation.create_timeout_ms + allocation.idle_timeout_ms
    going = backend.grace_ms + d.executors.grace_ms + (backend.force_kill_timeout_ms or 0) + case.surplus_ms
    back_off = allocation.policies.back_off
    slow = 0 if back_off is None else back_off.longest_ms
    start = sum(s.delay.quantile(1.0) for s in d.executors.stages if s.source in _START and not s.fault)
    nodes = d.scan_ms * 2 + max(g.arrives.quantile(1.0) for g in d.groups)
    total = config.scaling.executors_max if case.tasks else sum(case.targets().values())
    profiles = len(PROFILES)
    wave = min(allocation.batch_size, allocation.pending_max // profiles, allocation.pending_max_per_profile)
    waves = -(-total // max(1, wave)) + profiles
    each = 2 * allocation.batch_delay_ms + (allocation.batch_size + 2) * 2 * latency + poll + start
    if not sources.watch or d.watch.expired or d.watch.loss:
        each += poll
    return calls + 2 * (news + unseen + going) + slow + nodes + waves * each


_START: Final = frozenset({Life.CREATED, Life.SCHEDULED, Life.PULLED, Life.RUNNING})
