"""The parts of a live run, put together: lease, sensor, actuator, command sink, filters and the loop's environment.

Nothing is decided here, and nothing starts but the lease and the thread that marks executor ids. The order matters: the
lease comes first, so that nobody else acts; the actuator writes only while the lease holds.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from podtide.adapters.clock import SystemClock
from podtide.adapters.driver.schedule import TargetError, read_schedule
from podtide.adapters.driver.target_sources import LineSource, NumberSource, ScheduleSource, TargetSource
from podtide.adapters.kubernetes.api import ApiClient, CallSeen, ConnectionRefused, KubernetesApi, connect
from podtide.adapters.kubernetes.apply.actuator import ActuatorSettings, KubernetesActuator, Policy
from podtide.adapters.kubernetes.executor_pod.manifests import ExecutorManifests
from podtide.adapters.kubernetes.guarded import GuardedApi
from podtide.adapters.kubernetes.lease.identity import own_identity
from podtide.adapters.kubernetes.lease.lease import ApplicationLease
from podtide.adapters.kubernetes.lease.record import HeldBy, LeaseRefused, LeaseSettings
from podtide.adapters.kubernetes.ratelimit import Rate
from podtide.adapters.kubernetes.watch.lists import executors_selector
from podtide.adapters.kubernetes.watch.sensor import PodSensor, SensorSettings
from podtide.adapters.notices import Level, Notice, Topic
from podtide.adapters.text.format import lasting
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.live.filters import (
    AdoptFilter,
    FollowFilter,
    GoneFilter,
    HeadlessFilter,
    MarkFilter,
    ReadableFilter,
    RegistrationFilter,
    ShadowFilter,
)
from podtide.domain.live.headless import HeadlessConfig
from podtide.domain.live.shadow import Difference, Same, ShadowConfig
from podtide.domain.protocol.pods import PodNumber
from podtide.entrypoints.common.app_config import AppSettings
from podtide.entrypoints.common.output import ClusterRefused, Misused, refused_as
from podtide.entrypoints.live.audience import Audience
from podtide.entrypoints.live.command_sinks import ActingSink, ShadowSink
from podtide.entrypoints.live.control import RunControl
from podtide.entrypoints.live.driver_link import DriverLink
from podtide.entrypoints.live.loop import CommandSink, Hear, Inbox, LiveEnvironment, StimulusFilter
from podtide.entrypoints.live.manifests import DriverPodRefused, NoManifests, driver_pod, live_manifests
from podtide.entrypoints.live.options import RunOptions

FIRST_LIST_S: Final = 30.0
"""How long the first list may take."""

LIST_REFUSALS: Final = (401, 403, 404)


@dataclass(frozen=True, slots=True)
class Survivors:
    """The filters of a run that acts without a driver: what they know outlives the process, in its recording."""

    gone: GoneFilter
    headless: HeadlessFilter


@dataclass(frozen=True, slots=True)
class LiveSystem:
    """A live run, assembled. ``writing``: the API server as far as this run may write to it. ``sink`` is None in shadow."""

    options: RunOptions
    namespace: str
    settings: AppSettings
    clock: SystemClock
    inbox: Inbox
    audience: Audience
    control: RunControl
    lease: ApplicationLease | None
    driver: DriverLink | None
    source: TargetSource | None
    writing: ApiClient
    sensor: PodSensor
    actuator: KubernetesActuator
    sink: ActingSink | None
    filters: tuple[StimulusFilter, ...]
    survivors: Survivors | None
    environment: LiveEnvironment

    def list_pods_first(self) -> None:
        """Start the sensor and wait for its first list, before anything is decided. Raises ClusterRefused."""
        self.sensor.start()
        app_id, until = self.options.app_id, self.clock.monotonic() + FIRST_LIST_S
        pause = threading.Event()
        while self.sensor.last_list_at is None:
            failure = self.sensor.failure
            if failure is not None and failure.status in LIST_REFUSALS:
                raise ClusterRefused(f"the pods of {app_id} cannot be listed: {failure.message}")
            if self.clock.monotonic() >= until:
                raise ClusterRefused(f"the pods of {app_id} could not be listed in {FIRST_LIST_S:.0f} s")
            pause.wait(0.02)

    def start_sources(self) -> None:
        """Begin to hear how many executors are wanted."""
        if self.source is not None:
            self.source.start()
        if self.driver is not None:
            self.driver.start(self.control.stop)

    def stop_sources(self) -> None:
        """Hear nothing more of what is wanted, and mark no more ids."""
        if self.driver is not None:
            self.driver.sensor.stop()
        if self.sink is not None:
            self.sink.stop()
        if self.source is not None:
            self.source.stop()


def connected(options: RunOptions, clock: SystemClock, audience: LateAudience, resources: ExitStack) -> KubernetesApi:
    """The API server of the options, closed by ``resources``. Raises Misused."""
    with refused_as(Misused, ConnectionRefused):
        api = connect(options.kubeconfig, options.context_name, clock=clock, watcher=audience.seen)
    resources.callback(api.close)
    return api


class LateAudience:
    """Stands in for the audience, which names the API server and so comes to be after the first that is said to it."""

    def __init__(self) -> None:
        self.audience: Audience | None = None

    def seen(self, call: CallSeen) -> None:
        """Count a call to the API server that has ended. From any thread."""
        if self.audience is not None:
            self.audience.tracker.seen(call)

    def notify(self, notice: Notice) -> None:
        """Pass a notice on. From any thread."""
        if self.audience is not None:
            self.audience.notify(notice)

    def say_status(self) -> None:
        """Pass the present figures on. From any thread."""
        if self.audience is not None:
            self.audience.say_status()


def target_source(
    options: RunOptions, hear: Hear, clock: SystemClock, audience: LateAudience, control: RunControl
) -> TargetSource | None:
    """Who says how many executors there are to be; None: the driver, or the pods. Raises Misused."""
    with refused_as(Misused, TargetError):
        if options.target is not None:
            return NumberSource(options.target, hear)
        if options.schedule is not None:
            return ScheduleSource(read_schedule(options.schedule), hear, clock, audience.notify)
    if not options.lines:
        return None
    if sys.stdin is None:
        raise Misused("--lines: standard input is closed")
    return LineSource(
        sys.stdin.fileno(), hear, clock, audience.notify, control.stop, audience.say_status,
        stop_at_end=options.stop_at_end_of_input,
    )  # fmt: skip


def taken_lease(
    options: RunOptions,
    api: ApiClient,
    namespace: str,
    clock: SystemClock,
    audience: Audience,
    control: RunControl,
    resources: ExitStack,
) -> ApplicationLease | None:
    """The lease of the application, for a run that acts. Raises ClusterRefused."""
    if not options.acting:
        return None
    lease = ApplicationLease(
        api, namespace, options.app_id, own_identity(), clock, audience.notify, lease_settings(options.lease_ms),
        jitter=random.random, on_lost=control.lose,
    )  # fmt: skip
    taken = lease.acquire(options.lease_wait_ms / 1000)
    if isinstance(taken, HeldBy):
        waits = "" if options.lease_wait_ms else "; --lease-wait waits for it"
        raise ClusterRefused(
            f"another instance acts for {options.app_id}: {taken.spoken} holds {lease.name} for at least "
            f"{taken.free_in_s:.0f} s more{waits}"
        )
    if isinstance(taken, LeaseRefused):
        raise ClusterRefused(taken.why)
    control.note_id(PodNumber(taken.last_id))
    lease.start()
    resources.callback(lease.release)  # where it does not come to an orderly end
    return lease


def lease_settings(lease_ms: Millis) -> LeaseSettings:
    """How a lease of this length is kept."""
    seconds = lease_ms / 1000
    return LeaseSettings(
        duration_s=max(1, round(seconds)),
        renew_every_s=seconds * 2 / 3,
        retry_s=min(2.0, seconds / 8),
        margin_s=min(10.0, seconds / 6),
    )


def assemble(
    options: RunOptions,
    namespace: str,
    settings: AppSettings,
    api: KubernetesApi,
    clock: SystemClock,
    inbox: Inbox,
    audience: Audience,
    control: RunControl,
    lease: ApplicationLease | None,
    driver: DriverLink | None,
    source: TargetSource | None,
    resources: ExitStack,
) -> LiveSystem:
    """Put the run together; ``resources`` stops what was started. Raises Misused, ClusterRefused."""
    config, app_id, hear = settings.config.kubernetes, options.app_id, inbox.hear
    sensor = PodSensor(
        api,
        namespace,
        executors_selector(app_id),
        hear,
        clock,
        audience.notify,
        SensorSettings(faithful=not options.acting),
        random.random,
    )
    writing: ApiClient = api
    if lease is not None:
        margin_s = lease_settings(options.lease_ms).margin_s
        writing = GuardedApi(api, lease.valid, lease.lost.is_set, threading.Event().wait, margin_s)
    manifests = _manifests(options, settings, api, namespace, clock) if options.acting else NoManifests()
    if driver is not None and isinstance(manifests, ExecutorManifests):
        driver.manifests = manifests
    actuator = KubernetesActuator(
        writing, namespace, app_id, manifests, hear, clock, audience.notify,
        ActuatorSettings(
            policy=Policy.ONE_AT_A_TIME if options.one_at_a_time or not options.acting else Policy.CONCURRENT,
            workers=options.api_concurrency, rate=Rate(options.create_rate), drain=options.drain,
            driver_pod=config.allocation.driver_pod or "",
        ),
        jitter=random.random,
    )  # fmt: skip
    filters: list[StimulusFilter] = []
    acting_sink: ActingSink | None = None
    survivors: Survivors | None = None
    if lease is not None:

        def saw(number: PodNumber) -> None:
            """Somebody else gave this id out: it is used, and stays so when its pod is gone."""
            control.note_id(number)
            lease.saw(number)

        def refused(text: str) -> None:
            audience.say(Level.ERROR, Topic.INPUT_REFUSED, text)

        filters += [ReadableFilter(control.highest, refused), MarkFilter(control.highest, saw)]
    if driver is not None:
        filters.append(RegistrationFilter())
    sink: CommandSink
    if lease is not None:
        if options.lines:
            filters.append(AdoptFilter())
        sink = acting_sink = ActingSink(actuator, sensor.request_list, lease, hear, control.note_id)
        acting_sink.start()
        if driver is None:
            survivors = Survivors(GoneFilter(app_id), HeadlessFilter(HeadlessConfig(config.pods.spark_container)))
            filters += [survivors.gone, survivors.headless]
    else:
        sink = ShadowSink(actuator, sensor.request_list, hear)
        if options.follows_pods:
            filters.append(FollowFilter())
        patience_ms = max(ShadowConfig().patience_ms, 3 * config.allocation.batch_delay_ms)
        filters.append(ShadowFilter(ShadowConfig(patience_ms), _comparison(control, audience)))
    environment = LiveEnvironment(
        inbox, clock, sink, audience.tracker, filters,
        NEVER if options.duration_ms is None else clock.now() + options.duration_ms,
        (lambda: False) if driver is None else (lambda: driver.blind),
    )  # fmt: skip
    control.attach(environment)
    audience.tracker.ask_when_heard(lambda: sensor.last_heard)
    resources.callback(sensor.stop)
    return LiveSystem(
        options=options,
        namespace=namespace,
        settings=settings,
        clock=clock,
        inbox=inbox,
        audience=audience,
        control=control,
        lease=lease,
        driver=driver,
        source=source,
        writing=writing,
        sensor=sensor,
        actuator=actuator,
        sink=acting_sink,
        filters=tuple(filters),
        survivors=survivors,
        environment=environment,
    )


def _manifests(
    options: RunOptions, settings: AppSettings, api: ApiClient, namespace: str, clock: SystemClock
) -> ExecutorManifests:
    name = settings.config.kubernetes.allocation.driver_pod
    with refused_as(ClusterRefused, DriverPodRefused):
        driver = None if name is None else driver_pod(api, namespace, name)
    return live_manifests(settings, driver, options.conf_dir, clock)


def _comparison(control: RunControl, audience: Audience) -> Callable[[Difference | Same], None]:
    """Counts whether the shadow and Spark did the same, and says where they did not."""

    def compare(outcome: Difference | Same) -> None:
        control.compare(outcome)
        if isinstance(outcome, Difference):
            ago = lasting(outcome.at - outcome.since)
            text = f"executor {outcome.executor}: {outcome.deed.value}, {ago} ago"
            audience.say(Level.WARNING, Topic.DIFFERENCE, text)

    return compare
