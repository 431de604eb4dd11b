"""A live run, from its options to its end: what is put together, in which order it starts, and how it stops.

The order of a start is what makes a restart safe. The lease comes first: from then on nobody else acts. It remembers the
executor ids that were given out and the prefix of pod names. Then the pods are listed, and only then the core is started,
so that its first decision knows every pod that is there. A recording of an earlier run is decided again before that, and
what it had asked for and never heard of is asked for again (``live.resume``).

The end goes the other way: the core stops deciding, calls on their way are waited for, then the lease is given back. With
``--on-exit delete`` the core's own end comes in between (KubernetesClusterSchedulerBackend.stop), and a sweep that goes on
until a list says that no pod is left.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Final

from pyrsistent import pmap

from podtide import __version__
from podtide.adapters.clock import SystemClock
from podtide.adapters.driver.driver_client import Access, DriverHttp, DriverRefused
from podtide.adapters.driver.driver_sensor import DriverSensor, DriverSettings, DriverSilent, ask_conf
from podtide.adapters.driver.schedule import TargetError, read_schedule
from podtide.adapters.driver.target_sources import LineSource, NumberSource, ScheduleSource, TargetSource
from podtide.adapters.kubernetes.api import Api, CallSeen, ConnectionRefused, KubernetesApi, connect
from podtide.adapters.kubernetes.apply.actuator import ActuatorSettings, KubernetesActuator, Policy
from podtide.adapters.kubernetes.apply.delete import Cleaner
from podtide.adapters.kubernetes.calls import Caller, Counts
from podtide.adapters.kubernetes.cleanup import Leftovers
from podtide.adapters.kubernetes.errors import Complaints
from podtide.adapters.kubernetes.guarded import GuardedApi
from podtide.adapters.kubernetes.lease.identity import own_identity
from podtide.adapters.kubernetes.lease.lease import (
    POD_NAME_PREFIX,
    ApplicationLease,
    HeldBy,
    LeaseRefused,
    LeaseSettings,
)
from podtide.adapters.kubernetes.ratelimit import Lane, Rate
from podtide.adapters.kubernetes.watch.sensor import PodSensor, SensorSettings
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.recording import RecordingError, RecordingHeader, RecordingWriter, header_of, open_recording
from podtide.adapters.recording.recorder import Recorder
from podtide.adapters.text.format import lasting
from podtide.adapters.text.safe import cause
from podtide.adapters.views.live.http_server import CannotServe, LiveHttp
from podtide.adapters.views.live.log_lines import LiveLines, status_words
from podtide.adapters.views.live.metrics import LiveMetrics, MetricsMissing
from podtide.adapters.views.live.status import ACT, SHADOW, About
from podtide.adapters.views.live.terminal import LiveTerminal
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.backend.state import BackendPhase
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.conf.redaction import Redaction, redaction_of
from podtide.domain.conf.settings import Level as NoticeLevel
from podtide.domain.conf.spark_conf import SparkConf, layered
from podtide.domain.engine import AnyStimulus, State
from podtide.domain.kubernetes import side as kubernetes_side
from podtide.domain.live import headless
from podtide.domain.live.headless import HeadlessConfig
from podtide.domain.live.shadow import Difference, Same, ShadowConfig
from podtide.domain.protocol.allocation_policies import Policies
from podtide.domain.protocol.commands import Command, Step
from podtide.domain.protocol.config import KubernetesConfig
from podtide.domain.protocol.pod_commands import CreatePod, DecommissionExecutors
from podtide.domain.protocol.pod_stimuli import Stopping
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.resource_profiles import from_added
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.entrypoints.common.app_config import AppSettings, policies_with
from podtide.entrypoints.common.app_loop import AppLoop, Observer, Stuck
from podtide.entrypoints.common.conf_options import given_conf
from podtide.entrypoints.common.output import ClusterRefused, Misused, silence
from podtide.entrypoints.common.platform import kubernetes_only
from podtide.entrypoints.live.command import Wanted
from podtide.entrypoints.live.command_sinks import ActingSink, ShadowSink
from podtide.entrypoints.live.config import INSTANCES_KEY, NO_LIVE_YARN, awake, live_settings
from podtide.entrypoints.live.filters import (
    AdoptFilter,
    FollowFilter,
    GoneFilter,
    HeadlessFilter,
    MarkFilter,
    ReadableFilter,
    RegistrationFilter,
    ShadowFilter,
)
from podtide.entrypoints.live.loop import TURN_MS, CommandSink, Inbox, LiveEnvironment, StimulusFilter
from podtide.entrypoints.live.manifests import DriverPodRefused, LiveManifests, NoManifests, driver_pod, live_manifests
from podtide.entrypoints.live.resume import NotTheSame, resume

INTERRUPTED: Final = 130
REFUSALS: Final = (401, 403, 404)

FIRST_LIST_S: Final = 30.0
"""How long the first list may take."""

SETTLE_S: Final = 20.0
"""How long calls on their way are waited for at the end (Spark's executorSnapshotsSubscribersShutdownGracePeriod)."""

STOP_S: Final = 60.0
"""How long the core's own end may take, its waits for deletions included."""

SWEEP_S: Final = 300.0
HEAR_OUT_S: Final = 3.0
"""How long the end waits for news of pods that are gone, as a list has said."""

HEAR_OUT_TURN_MS: Final[Millis] = 50

DRIVER_WITHIN_S: Final = 30.0
"""How long a driver that does not answer is waited for at the start."""

CONF_TIMEOUT_S: Final = 30.0
"""How long a driver may take to show its conf: the first answer of a driver that has just begun is slow."""

RECORDINGS_MAX: Final = 1_000

POD_KEYS: Final = ("spark.executorEnv.", "spark.executor.", "spark.kubernetes.executor.", "spark.kubernetes.container.")
"""Settings that executors' pods are made from begin like this."""

SWEPT: Final = ("pods", "configmaps")
"""What ``--on-exit delete`` leaves none of; and no sets, where an allocator makes sets."""

SETS: Final = {"statefulset": ("statefulsets",), "deployment": ("deployments",)}


class RollAsker:
    """An observer that answers the executor roll plugin, when it waits, with what the driver knows of its executors."""

    def __init__(self, config: KubernetesConfig, driver: DriverSensor, hear: Callable[[AnyStimulus], None]) -> None:
        self._config, self._driver, self._hear = config, driver, hear
        self._wanted = False

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[State, Command]) -> None:
        """See whether it begins to wait."""
        del stimuli
        side = taken.state.kubernetes
        assert side is not None
        wanted = kubernetes_side.wants(side, self._config, now).summary
        if wanted and not self._wanted:
            summary = self._driver.summary(now)
            if summary is None:
                return
            self._hear(summary)
        self._wanted = wanted


class Running:
    """One live run. ``run`` returns its exit code, or raises a Refusal before anything was begun."""

    def __init__(self, wanted: Wanted) -> None:
        """Nothing is read or called before ``run``."""
        self.wanted = wanted
        self.clock = SystemClock()
        self.inbox = Inbox()
        self.interrupted = False
        self.trouble: str | None = None
        self.hidden: list[str] = []
        self.lease: ApplicationLease | None = None
        self.highest = PodNumber(0)
        self.open: tuple[Command, ...] = ()
        self.same = self.differences = 0
        self.manifests: LiveManifests | None = None
        self.driver: DriverSensor | None = None
        self.tracker: LiveTracker | None = None
        self.environment: LiveEnvironment | None = None
        self.begin: list[Callable[[], object]] = []
        self.ends: list[Callable[[], object]] = []

    def run(self) -> int:
        """Start, decide until the end, and end."""
        try:
            with ExitStack() as resources:
                return self._run(resources)
        except NotTheSame as other:
            raise Misused(f"{other}; choose another file for --record, or say --overwrite") from None
        except RecordingError as problem:
            raise Misused(str(problem)) from None
        except Stuck as stuck:
            raise ClusterRefused(f"the run makes no progress: {stuck}") from None

    # ------------------------------------------------------------------------------------------------ the beginning

    def _run(self, resources: ExitStack) -> int:
        wanted = self.wanted
        try:
            policies = policies_with(wanted.fixes)
        except ValueError as unknown:
            raise Misused(str(unknown)) from None
        layers = given_conf(wanted.conf, wanted.properties_file).layers
        if layers:
            kubernetes_only(layered(*layers), NO_LIVE_YARN)
        self.source = self._source()
        api = self._connected(resources)
        named = layered(*layers).setting("spark.kubernetes.namespace") if layers else None
        self.namespace = wanted.namespace or (named.value if named is not None else api.namespace) or "default"
        self.redaction = redaction_of(layered(*layers)) if layers else Redaction()
        self.tracker = LiveTracker(self._about(api), self.clock, redaction=self.redaction)
        self._watch(resources)
        driver_conf = self._asked_driver()
        self._nothing_hidden(layers)
        if wanted.acting and wanted.driver is not None and (wrong := awake(driver_conf)):
            raise Misused(
                f"the driver of {wanted.app_id} makes executors itself, with ids that podtide would give out, too "
                "(docs/acting-for-a-driver.md)",
                *wrong,
            )
        lease = self._leased(resources, api)
        settings = live_settings(
            layers,
            policies,
            app_id=wanted.app_id,
            namespace=self.namespace,
            acting=wanted.acting,
            dynamic=self._dynamic(),
            target=self._initial(),
            driver_conf=driver_conf,
            prefix=None if lease is None else lease.facts.get(POD_NAME_PREFIX),
        )
        self.settings = settings
        self._say_notices(settings)
        prefix = settings.config.kubernetes.allocation.pod_name_prefix
        if lease is not None and not lease.set_fact(POD_NAME_PREFIX, prefix):
            raise ClusterRefused("the prefix of pod names could not be written to the lease")
        self._assemble(resources, api, lease)
        loop = self._recorded(resources, policies)
        self._first_list()
        self._signals(resources)
        if not loop.steps:
            loop.launch()
        assert self.environment is not None
        for command in self.open:
            self.environment.apply(command, loop.now)
        if self.source is not None:
            self.ends.append(self.source.stop)
            self.source.start()
        for start in self.begin:
            start()
        return self._decide(loop, lease)

    def _nothing_hidden(self, layers: Sequence[SparkConf]) -> None:
        """Pods must not be made without what the driver's REST API hides: secrets, and what looks like them.

        Raises Misused.
        """
        if not self.wanted.acting:
            return
        given = {key for layer in layers for key in layer.settings}
        lacking = sorted(key for key in self.hidden if key.startswith(POD_KEYS) and key not in given)
        if lacking:
            shown = ", ".join(lacking[:10])
            raise Misused(
                f"the driver hides the values of {shown} (spark.redaction.regex), which its executors' pods are made from: "
                "give them in --properties-file or --conf"
            )

    def _dynamic(self) -> bool | None:
        """Whether dynamic allocation decides: always for a driver that is acted for, as its conf says beside one."""
        if self.wanted.driver is None:
            return False
        return True if self.wanted.acting else None

    def _connected(self, resources: ExitStack) -> KubernetesApi:
        try:
            api = connect(self.wanted.kubeconfig, self.wanted.context, clock=self.clock, watcher=self._seen)
        except ConnectionRefused as refused:
            raise Misused(str(refused)) from None
        resources.callback(api.close)
        return api

    def _seen(self, call: CallSeen) -> None:
        if self.tracker is not None:
            self.tracker.seen(call)

    def _about(self, api: KubernetesApi) -> About:
        wanted = self.wanted
        mode = ACT if wanted.acting else SHADOW
        words = "the pods that Spark made"
        if wanted.target is not None:
            words = f"{wanted.target} executors"
        elif wanted.schedule is not None:
            words = f"schedule {wanted.schedule}"
        elif wanted.lines:
            words = "lines on standard input"
        elif wanted.driver is not None:
            words = f"driver {wanted.driver}"
        return About(wanted.app_id, self.namespace, mode, __version__, api.host, words, wanted.driver is not None)

    def _watch(self, resources: ExitStack) -> None:
        """What people and machines see of the run: a live view or lines, metrics and health."""
        wanted, tracker = self.wanted, self.tracker
        assert tracker is not None
        self.observers: list[Observer] = [tracker]
        self.notifiers: list[Notify] = [tracker.notify]
        if wanted.metrics_port is not None:
            try:
                metrics = LiveMetrics(tracker.snapshot)
                server = LiveHttp(tracker.snapshot, metrics, port=wanted.metrics_port, address=wanted.metrics_address)
            except (CannotServe, MetricsMissing) as problem:
                raise Misused(str(problem)) from None
            resources.enter_context(server)
        if wanted.view:
            resources.enter_context(LiveTerminal(tracker, sys.stdout))
        else:
            lines = LiveLines(
                tracker, sys.stdout, self.clock, as_json=wanted.log_format == "json", redaction=self.redaction,
                on_gone=self._unread,
            )  # fmt: skip
            resources.callback(self._let_go, lines)
            resources.enter_context(lines)
            self.observers.append(lines)
            self.notifiers.append(lines.notify)

    def _unread(self) -> None:
        """Nobody reads the lines any more. A run that does nothing but print has nothing left to do."""
        wanted = self.wanted
        if not wanted.acting and wanted.record is None and wanted.metrics_port is None:
            self._stop_asked()

    def _let_go(self, lines: LiveLines) -> None:
        if lines.gone:
            silence()  # nobody reads; what is buffered would be refused again when the process ends

    def notify(self, notice: Notice) -> None:
        """Tell everybody."""
        for notifier in self.notifiers:
            notifier(notice)

    def say(self, level: Level, topic: Topic, text: str) -> None:
        """Tell everybody something that has no numbers."""
        self.notify(Notice(self.clock.now(), level, topic, text))

    def _say_notices(self, settings: AppSettings) -> None:
        for notice in settings.notices:
            if notice.level is NoticeLevel.WARNING:
                self.say(Level.WARNING, Topic.STARTED, f"Spark warns: {notice.text}" if notice.spark else notice.text)

    def _leased(self, resources: ExitStack, api: Api) -> ApplicationLease | None:
        """The lease of the application, for one that acts. Raises ClusterRefused."""
        wanted = self.wanted
        if not wanted.acting:
            return None
        terms = lease_terms(wanted.lease_ms)
        lease = ApplicationLease(
            api, self.namespace, wanted.app_id, own_identity(), self.clock, self.notify, terms, jitter=random.random,
            on_lost=self._lost,
        )  # fmt: skip
        taken = lease.acquire(wanted.lease_wait_ms / 1000)
        if isinstance(taken, HeldBy):
            waits = "" if wanted.lease_wait_ms else "; --lease-wait waits for it"
            raise ClusterRefused(
                f"another instance acts for {wanted.app_id}: {taken.spoken} holds {lease.name} for at least "
                f"{taken.free_in_s:.0f} s more{waits}"
            )
        if isinstance(taken, LeaseRefused):
            raise ClusterRefused(taken.why)
        self.highest = PodNumber(taken.last_id)
        lease.start()
        resources.callback(lease.release)  # where it does not come to an orderly end
        return lease

    def _lost(self, why: str) -> None:
        """Somebody else is in charge: from any thread."""
        self.trouble = why
        if self.environment is not None:
            self.environment.stop()

    def _assemble(self, resources: ExitStack, api: KubernetesApi, lease: ApplicationLease | None) -> None:
        """Sensor, actuator, sink, filters and environment."""
        wanted, config = self.wanted, self.settings.config
        app_id, hear = wanted.app_id, self.inbox.hear
        self.sensor = PodSensor(
            api, self.namespace, app_id, hear, self.clock, self.notify,
            SensorSettings(faithful=not wanted.acting), random.random,
        )  # fmt: skip
        self.lease = lease
        guarded: Api = api
        if lease is not None:
            guarded = GuardedApi(
                api, lease.valid, lease.lost.is_set, threading.Event().wait, lease_terms(wanted.lease_ms).margin_s
            )
        self.writing = guarded
        manifests = self._manifests(api) if wanted.acting else NoManifests()
        if isinstance(manifests, LiveManifests):
            self.manifests = manifests
        self.actuator = KubernetesActuator(
            guarded, self.namespace, app_id, manifests, hear, self.clock, self.notify,
            ActuatorSettings(
                policy=Policy.ONE_AT_A_TIME if wanted.one_at_a_time or not wanted.acting else Policy.CONCURRENT,
                workers=wanted.workers, rate=Rate(wanted.create_rate), drain=wanted.drain,
                driver_pod=config.kubernetes.allocation.driver_pod or "",
            ),
            jitter=random.random,
        )  # fmt: skip
        self.filters: list[StimulusFilter] = []
        if wanted.acting:
            self.filters = [ReadableFilter(self.highest, self._strange), MarkFilter(self.highest, self._saw)]
        if wanted.driver is not None:
            self.filters.append(RegistrationFilter())
        if wanted.acting and wanted.lines:
            self.filters.append(AdoptFilter())
        sink: CommandSink
        if lease is not None:
            acting = ActingSink(self.actuator, self.sensor.request_list, lease, hear, self._asked_for)
            acting.start()
            self.ends.append(acting.stop)
            sink = acting
        else:
            sink = ShadowSink(self.actuator, self.sensor.request_list, hear)
            if wanted.follows_pods:
                self.filters.append(FollowFilter())
            patience = max(ShadowConfig().patience_ms, 3 * config.kubernetes.allocation.batch_delay_ms)
            self.filters.append(ShadowFilter(ShadowConfig(patience), self._compared))
        if wanted.acting and wanted.driver is None:
            self.headless = HeadlessFilter(HeadlessConfig(config.kubernetes.pods.spark_container))
            self.gone = GoneFilter(app_id)
            self.filters += [self.gone, self.headless]
        assert self.tracker is not None
        ends_at = NEVER if wanted.duration_ms is None else self.clock.now() + wanted.duration_ms
        driver = self.driver
        self.environment = LiveEnvironment(
            self.inbox, self.clock, sink, self.tracker, self.filters, ends_at,
            (lambda: False) if driver is None else (lambda: driver.silent and not driver.ended.is_set()),
        )  # fmt: skip
        self.tracker.ask_when_heard(lambda: self.sensor.last_heard)
        resources.callback(self.sensor.stop)

    def _manifests(self, api: Api) -> LiveManifests:
        name = self.settings.config.kubernetes.allocation.driver_pod
        try:
            driver = None if name is None else driver_pod(api, self.namespace, name)
        except DriverPodRefused as refused:
            raise ClusterRefused(str(refused)) from None
        return live_manifests(self.settings, driver, self.wanted.conf_dir, self.clock)

    def _saw(self, number: PodNumber) -> None:
        """Somebody else gave this id out: it is used, and stays so when its pod is gone."""
        self._asked_for(number)
        if self.lease is not None:
            self.lease.saw(number)

    def _strange(self, text: str) -> None:
        self.say(Level.ERROR, Topic.INPUT_REFUSED, text)

    def _asked_for(self, number: PodNumber) -> None:
        self.highest = max(self.highest, number)

    def _compared(self, what: Difference | Same) -> None:
        """The shadow and Spark did the same, or they did not."""
        if isinstance(what, Same):
            self.same += 1
            return
        self.differences += 1
        after = lasting(what.at - what.since)
        self.say(Level.WARNING, Topic.DIFFERENCE, f"executor {what.executor}: {what.deed.value}, {after} ago")

    # ------------------------------------------------------------------------------------------------ what is wanted

    def _source(self) -> TargetSource | None:
        """Who says how many executors there are to be; None: the driver, or the pods. Raises Misused."""
        wanted, hear = self.wanted, self.inbox.hear
        try:
            if wanted.target is not None:
                return NumberSource(wanted.target, hear)
            if wanted.schedule is not None:
                return ScheduleSource(read_schedule(wanted.schedule), hear, self.clock, self.notify)
        except TargetError as problem:
            raise Misused(str(problem)) from None
        if wanted.lines:
            if sys.stdin is None:
                raise Misused("--lines: standard input is closed")
            return LineSource(
                sys.stdin.fileno(), hear, self.clock, self.notify, self._stop_asked, self._status,
                stop_at_end=wanted.stop_at_end_of_input,
            )  # fmt: skip
        return None

    def _initial(self) -> int | None:
        """The number of executors that the application begins with: a run that is gone on with began with its own."""
        if self._goes_on() and self.wanted.record is not None:
            with contextlib.suppress(RecordingError, ValueError), open_recording(self.wanted.record) as recording:
                return int(recording.header.conf.get(INSTANCES_KEY, ""))
        return None if self.source is None else self.source.initial

    def _goes_on(self) -> bool:
        """Whether there is a recording to go on with. Beside a driver each run begins anew: the driver knows the state."""
        wanted = self.wanted
        there = wanted.record is not None and not wanted.overwrite and Path(wanted.record).exists()
        return there and wanted.acting and wanted.driver is None

    def _stop_asked(self) -> None:
        if self.environment is not None:
            self.environment.stop()

    def _status(self) -> None:
        assert self.tracker is not None
        self.say(Level.INFO, Topic.STATUS, " · ".join(status_words(self.tracker.snapshot())))

    def _asked_driver(self) -> dict[str, str]:
        """Begin to ask the driver, if there is one to be asked; its conf."""
        wanted = self.wanted
        if wanted.driver is None:
            return {}
        try:
            get = DriverHttp(wanted.driver, _access(wanted.driver_auth), self.clock, os.environ)
            patient = DriverHttp(wanted.driver, _access(wanted.driver_auth, CONF_TIMEOUT_S), self.clock, os.environ)
            conf = self._conf_of_driver(patient)
        except DriverRefused as refused:
            raise Misused(f"--driver {wanted.driver}: {refused}") from None
        except DriverSilent as problem:
            raise ClusterRefused(f"--driver {wanted.driver}: {problem}") from None
        sensor = DriverSensor(
            get, wanted.app_id, self._said_by_driver, self.clock, self.notify, DriverSettings(), random.random
        )
        self.driver = sensor

        def until_it_ends() -> None:
            sensor.ended.wait()
            self._stop_asked()

        self.ends.append(sensor.stop)
        self.begin.append(sensor.start)
        self.begin.append(threading.Thread(target=until_it_ends, name="driver-end", daemon=True).start)
        return conf

    def _conf_of_driver(self, get: DriverHttp) -> dict[str, str]:
        """The driver's conf; a driver that has not begun to listen is waited for. Raises DriverSilent."""
        until, pause, told = self.clock.monotonic() + DRIVER_WITHIN_S, threading.Event(), False
        while True:
            try:
                return ask_conf(get, self.wanted.app_id, self.hidden)
            except DriverSilent as problem:
                if self.clock.monotonic() >= until:
                    raise
                if not told:
                    self.say(
                        Level.WARNING, Topic.DRIVER_UNREACHABLE, f"{problem}; waiting {DRIVER_WITHIN_S:.0f} s for it"
                    )
                told = True
                pause.wait(1.0)

    def _said_by_driver(self, stimulus: AnyStimulus) -> None:
        """From the driver's thread. Pods of a resource profile can be built once it is known."""
        if isinstance(stimulus, ResourceProfileAdded) and self.manifests is not None:
            self.manifests.learn(from_added(stimulus))
        self.inbox.hear(stimulus)

    # --------------------------------------------------------------------------------------------- the recording

    def _recorded(self, resources: ExitStack, policies: Policies) -> AppLoop:
        """The loop, with its recording: begun, or gone on with where an earlier run was killed."""
        wanted, settings = self.wanted, self.settings
        assert self.environment is not None
        now = self.clock.now()
        if self.driver is not None and settings.config.kubernetes.roll is not None:
            self.observers.append(RollAsker(settings.config.kubernetes, self.driver, self.inbox.hear))
        if wanted.record is None:
            return AppLoop(settings.config, now, self.environment, self.observers)
        header = header_of(wanted.app_id, settings.conf, now, "live", policies=policies)
        place = Path(wanted.record)
        if self._goes_on() and (loop := self._resumed(resources, wanted.record, header)) is not None:
            return loop
        if place.exists() and not wanted.overwrite:
            self._set_aside(place)
        writer = resources.enter_context(_whole(RecordingWriter(wanted.record, header, overwrite=True)))
        return AppLoop(settings.config, now, self.environment, [Recorder(writer), *self.observers])

    def _resumed(self, resources: ExitStack, path: str, header: RecordingHeader) -> AppLoop | None:
        """Go on with the recording of a run that was killed, or ended; None if it holds nothing."""
        assert self.environment is not None

        def witness(now: Millis, stimuli: Sequence[AnyStimulus], commands: Sequence[Command]) -> None:
            self.headless.recall((*stimuli, *commands), now)

        state = resume(path, header, self.settings.config, witness)
        if state is None:
            self.headless.state = headless.begin()  # what it was told of a life that is over
            return None
        writer = resources.enter_context(_whole(state.writer))
        loop = AppLoop(self.settings.config, state.now, self.environment, [Recorder(writer), *self.observers])
        loop.resume(state.state, state.now, state.steps)
        self.say(Level.INFO, Topic.STARTED, f"gone on with {path}: {state.steps} steps, {len(state.open)} calls open")
        # Not asked before the pods are listed: a start that fails must not leave workers at work behind it.
        creations = [one for one in state.open if isinstance(one, CreatePod)]
        others = [one for one in state.open if not isinstance(one, CreatePod)]
        self.open = (*others, *self._leaving(state.now))
        if isinstance(self.source, ScheduleSource):
            self.source.go_on(state.began_at)
        for stimulus_filter in self.filters:
            if isinstance(stimulus_filter, AdoptFilter):
                stimulus_filter.recall()
        side = state.state.kubernetes
        if side is not None and side.allocator is not None:
            fleet = side.allocator.fleet
            unseen = {number: made.profile for number, made in fleet.created()}
            self.gone.expect(fleet.snapshot().values(), unseen, creations)
        return loop

    def _leaving(self, now: Millis) -> list[Command]:
        """Executors that were told to go and are not known to be gone: a drain has no answer, so it is asked for again."""
        going = self.headless.leaving()
        why = Why(Cause.DECOMMISSIONED, pmap({"executors": len(going)}))
        return [DecommissionExecutors(now, going, "told to go before a restart", True, why)] if going else []

    def _set_aside(self, place: Path) -> None:
        """Keep the recording of an earlier run under another name; a run that asks its driver begins a new one."""
        stem, _, rest = place.name.partition(".")
        for number in range(1, RECORDINGS_MAX):
            other = place.with_name(f"{stem}.{number}.{rest}" if rest else f"{stem}.{number}")
            if not other.exists():
                try:
                    place.rename(other)
                except OSError as problem:
                    raise RecordingError(str(place), f"cannot be set aside: {cause(problem)}") from None
                self.say(Level.INFO, Topic.STARTED, f"the recording of an earlier run is {other} now")
                return
        raise RecordingError(str(place), f"exists, as do {RECORDINGS_MAX} set aside; remove some, or say --overwrite")

    # ------------------------------------------------------------------------------------------- deciding, to the end

    def _first_list(self) -> None:
        """List the pods before anything is decided. Raises ClusterRefused."""
        self.sensor.start()
        until = self.clock.monotonic() + FIRST_LIST_S
        pause = threading.Event()
        while self.sensor.last_list_at is None:
            refused = self.sensor.failure
            if refused is not None and refused.status in REFUSALS:
                raise ClusterRefused(f"the pods of {self.wanted.app_id} cannot be listed: {refused.message}")
            if self.clock.monotonic() >= until:
                raise ClusterRefused(f"the pods of {self.wanted.app_id} could not be listed in {FIRST_LIST_S:.0f} s")
            pause.wait(0.02)

    def _signals(self, resources: ExitStack) -> None:
        """SIGTERM and Ctrl-C end the run at its next turn; a second Ctrl-C ends it at once."""
        environment = self.environment
        assert environment is not None

        def end(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGINT:
                if self.interrupted:
                    raise KeyboardInterrupt
                self.interrupted = True
            environment.stop()

        with contextlib.suppress(ValueError):  # only the main thread may; elsewhere somebody else ends the run
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                resources.callback(signal.signal, number, signal.signal(number, end))

    def _decide(self, loop: AppLoop, lease: ApplicationLease | None) -> int:
        assert self.environment is not None
        try:
            loop.run(NEVER)
        except (RecordingError, Stuck) as problem:
            # What is under way is ended in order all the same: pods are let go or kept, the lease is given back.
            self.trouble = str(problem)
            loop.without(Recorder)
        ended = self.environment.ended
        if ended is not None and self.trouble is None:
            self.trouble = f"the application is ended with exit code {ended.exit_code}: {ended.why.cause.value}"
        left = self._end(loop, lease)
        if self.trouble is not None:
            raise ClusterRefused(self.trouble)
        if left:
            return ClusterRefused.exit_code
        return INTERRUPTED if self.interrupted else 0

    def _end(self, loop: AppLoop, lease: ApplicationLease | None) -> bool:
        """Stop in order; whether something is left that should not be."""
        wanted = self.wanted
        assert self.tracker is not None
        self.tracker.ending()
        in_charge = lease is not None and not lease.lost.is_set()
        self.say(Level.INFO, Topic.STOPPING, "stopping" if not wanted.acting else self._parting(in_charge))
        for end in self.ends:
            end()
        left = False
        if in_charge and wanted.delete_on_exit:
            left = self._delete_all(loop)
        # Without the lease nothing is written any more, so there is nothing to wait for.
        settled = self.actuator.settle(0.0 if lease is not None and lease.lost.is_set() else SETTLE_S)
        self.sensor.stop()
        if lease is not None:
            # A driver that lives on knows the executors that there were: their ids must be remembered for it.
            over = self.driver is None or self.driver.ended.is_set()
            forget = in_charge and wanted.delete_on_exit and not left and over
            problem = lease.release(delete=forget, used_id=self.highest)
            if problem is not None and in_charge:
                self.say(Level.WARNING, Topic.STOPPED, f"the lease was not given back: {problem}")
        deleted = in_charge and wanted.delete_on_exit and not left
        calls = f"; {settled.left} calls were not carried out" if settled.left else ""
        remains = "nothing is left" if deleted else f"pods left: {self._pods_seen() or 'none'}"
        self.say(Level.INFO, Topic.STOPPED, f"stopped; {remains}{calls}{self._comparison()}")
        return left

    def _parting(self, in_charge: bool) -> str:
        if not in_charge:
            return "stopping: somebody else is in charge, nothing more is written"
        return "stopping: all executors are deleted" if self.wanted.delete_on_exit else "stopping: executors are kept"

    def _delete_all(self, loop: AppLoop) -> bool:
        """The core's own end, and a sweep until a list says zero. Whether something is left."""
        assert self.environment is not None
        self.environment.go_on()
        loop.take((Stopping(self.clock.now()),), self.clock.now())
        until = self.clock.monotonic() + STOP_S
        while self.clock.monotonic() < until and not self.environment.stopping:
            loop.run(self.clock.now() + TURN_MS)
            if self.actuator.in_flight == 0 and over(loop.state):
                break
        deadline = self.clock.monotonic() + SWEEP_S
        pause = threading.Event().wait
        lane = Lane("sweep", self.clock, self.notify, jitter=random.random, wait=pause)
        complaints = Complaints(self.clock, self.notify)
        caller = Caller(self.writing, lane, self.clock, complaints, Counts(), jitter=random.random, wait=pause)
        sweep = Leftovers(caller, Cleaner(caller, self.namespace), self.namespace, self.wanted.app_id, deadline)
        made = self.settings.config.kubernetes.backend.allocator
        remains = sweep.delete((*SETS.get(made, ()), *SWEPT), lambda _kind, _count: None, executors_only=True)
        for kind in remains:
            if not kind.clean:
                names = ", ".join(kind.swept.names)
                why = kind.refusal or f"{kind.swept.left} are there still: {names}"
                self.say(Level.ERROR, Topic.LEFT_BEHIND, f"{kind.kind}: {why}")
        self._hear_out(loop)
        return not all(kind.clean for kind in remains)

    def _hear_out(self, loop: AppLoop) -> None:
        """Let the books hear of the last pods' ends, which are on their way: what is said at the end shall be so."""
        assert self.tracker is not None
        until = self.clock.monotonic() + HEAR_OUT_S
        while self.clock.monotonic() < until:
            pods = self.tracker.snapshot().total.pods
            if not any(count for state, count in pods.items() if state != "deleted"):
                return
            loop.run(self.clock.now() + HEAR_OUT_TURN_MS)

    def _pods_seen(self) -> str:
        """The pods on the cluster, as far as was seen."""
        assert self.tracker is not None
        return ", ".join(f"{count} {state}" for state, count in self.tracker.snapshot().total.pods.items() if count)

    def _comparison(self) -> str:
        if self.wanted.acting:
            return ""
        return f"; {self.same} creates and deletes as Spark's, {self.differences} differences"


def lease_terms(lease_ms: Millis) -> LeaseSettings:
    """How a lease of this length is kept."""
    seconds = lease_ms / 1000
    return LeaseSettings(
        duration_s=max(1, round(seconds)),
        renew_every_s=seconds * 2 / 3,
        retry_s=min(2.0, seconds / 8),
        margin_s=min(10.0, seconds / 6),
    )


def over(state: State) -> bool:
    """Whether the scheduler backend has gone through its end."""
    side = state.kubernetes
    return side is not None and side.backend.phase in (BackendPhase.STOPPED, BackendPhase.ABANDONED)


@contextlib.contextmanager
def _whole(writer: RecordingWriter) -> Iterator[RecordingWriter]:
    """A recording that is closed as ended where the run ends, however it does."""
    try:
        yield writer
    except BaseException:
        with contextlib.suppress(RecordingError, OSError):
            writer.abandon()
        raise
    writer.close("the run ended")


def _access(variable: str | None, timeout_s: float = 5.0) -> Access:
    return Access(timeout_s=timeout_s, credential_env=variable)
