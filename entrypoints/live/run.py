"""A live run, from its options to its end: in which order it starts, and how it stops.

The order of a start is what makes a restart safe. The lease comes first: from then on nobody else acts. It remembers the
executor ids that were given out and the prefix of pod names. Then the pods are listed, and only then the core is started,
so that its first decision knows every pod that is there. A recording of an earlier run is decided again before that, and
what it had asked for and never heard of is asked for again (``live.recording``).

The end goes the other way (``live.shutdown``): the core stops deciding, calls on their way are waited for, then the lease is
given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from podtide import __version__
from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.api import KubernetesApi
from podtide.adapters.kubernetes.lease.lease import ApplicationLease
from podtide.adapters.kubernetes.lease.record import POD_NAME_PREFIX
from podtide.adapters.notices import Level, Topic
from podtide.adapters.recording.header import RecordingError
from podtide.adapters.recording.recorder import Recorder
from podtide.adapters.views.live.status import ACT, SHADOW, About
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.base.units import NEVER
from podtide.domain.conf.redaction import Redaction, redaction_of
from podtide.domain.conf.settings import NoticeLevel
from podtide.domain.conf.spark_conf import layered
from podtide.domain.protocol.allocation_policies import Policies
from podtide.entrypoints.common.app_config import AppSettings
from podtide.entrypoints.common.app_loop import AppLoop, Stuck
from podtide.entrypoints.common.conf_options import given_conf
from podtide.entrypoints.common.output import ClusterRefused, Misused, refused_as
from podtide.entrypoints.common.platform import kubernetes_only
from podtide.entrypoints.common.policies import PolicyError, given_policies
from podtide.entrypoints.live.assembly import LateAudience, LiveSystem, assemble, connected, taken_lease, target_source
from podtide.entrypoints.live.audience import Audience, gather
from podtide.entrypoints.live.config import NO_LIVE_YARN, awake, live_settings
from podtide.entrypoints.live.control import RunControl
from podtide.entrypoints.live.driver_link import DriverLink
from podtide.entrypoints.live.loop import Inbox
from podtide.entrypoints.live.options import RunOptions
from podtide.entrypoints.live.recording import begin, recorded_initial
from podtide.entrypoints.live.resume import NotTheSame
from podtide.entrypoints.live.shutdown import end

INTERRUPTED: Final = 130


def run_live(options: RunOptions) -> int:
    """Run until the end; returns the exit code. Raises a Refusal, before anything was begun or when the run failed."""
    try:
        with (
            refused_as(Misused, RecordingError, PolicyError),
            refused_as(ClusterRefused, Stuck, prefix="the run makes no progress: "),
            ExitStack() as resources,
        ):
            return _run(options, resources)
    except NotTheSame as other:
        raise Misused(f"{other}; choose another file for --record, or say --overwrite") from None


def _run(options: RunOptions, resources: ExitStack) -> int:
    with refused_as(Misused, ValueError):
        policies = given_policies(options.fixes, options.policies)
    control = RunControl()
    system = _started(options, policies, control, resources)
    begun = begin(system, policies, resources)
    system.list_pods_first()
    control.on_signals(resources)
    loop = begun.loop
    if not loop.steps:
        loop.launch()
    for command in begun.unanswered:
        system.environment.apply(command, loop.now)
    system.start_sources()
    return _decide(system, loop)


def _started(options: RunOptions, policies: Policies, control: RunControl, resources: ExitStack) -> LiveSystem:
    """Everything that the loop needs, assembled under the lease."""
    layers = given_conf(options.conf, options.properties_file).layers
    given = layered(*layers) if layers else None
    if given is not None:
        kubernetes_only(given, NO_LIVE_YARN)
    clock, inbox, late = SystemClock(), Inbox(), LateAudience()
    source = target_source(options, inbox.hear, clock, late, control)
    api = connected(options, clock, late, resources)
    named = None if given is None else given.setting("spark.kubernetes.namespace")
    namespace = options.namespace or (named.value if named is not None else api.namespace) or "default"
    redaction = Redaction() if given is None else redaction_of(given)
    tracker = LiveTracker(_about(options, namespace, api), clock, redaction=redaction)
    audience = late.audience = gather(options, tracker, clock, redaction, control.stop, resources)
    driver = (
        None if options.driver_url is None else DriverLink(options, options.driver_url, inbox.hear, clock, audience)
    )
    driver_conf = {} if driver is None else driver.conf
    if driver is not None and options.acting:
        driver.refuse_hidden(layers)
        _refuse_awake(options, driver_conf)
    lease = taken_lease(options, api, namespace, clock, audience, control, resources)
    initial = recorded_initial(options)
    settings = live_settings(
        layers,
        policies,
        app_id=options.app_id,
        namespace=namespace,
        acting=options.acting,
        dynamic=_dynamic(options),
        target=initial if initial is not None or source is None else source.initial,
        driver_conf=driver_conf,
        prefix=None if lease is None else lease.facts.get(POD_NAME_PREFIX),
    )
    _say_notices(settings, audience)
    _keep_prefix(lease, settings)
    return assemble(
        options, namespace, settings, api, clock, inbox, audience, control, lease, driver, source, resources
    )


def _refuse_awake(options: RunOptions, driver_conf: Mapping[str, str]) -> None:
    """A driver that is acted for must leave executors alone. Raises Misused."""
    if wrong := awake(driver_conf):
        raise Misused(
            f"the driver of {options.app_id} makes executors itself, with ids that podtide would give out, too "
            "(docs/how-to/live.md)",
            *wrong,
        )


def _dynamic(options: RunOptions) -> bool | None:
    """Whether dynamic allocation decides: always for a driver that is acted for, as its conf says beside one."""
    if options.driver_url is None:
        return False
    return True if options.acting else None


def _keep_prefix(lease: ApplicationLease | None, settings: AppSettings) -> None:
    """A restart gives pods the same names: the prefix is kept on the lease. Raises ClusterRefused."""
    prefix = settings.config.kubernetes.allocation.pod_name_prefix
    if lease is not None and not lease.set_fact(POD_NAME_PREFIX, prefix):
        raise ClusterRefused("the prefix of pod names could not be written to the lease")


def _say_notices(settings: AppSettings, audience: Audience) -> None:
    for notice in settings.notices:
        if notice.level is NoticeLevel.WARNING:
            text = f"Spark warns: {notice.text}" if notice.spark else notice.text
            audience.say(Level.WARNING, Topic.STARTED, text)


def _about(options: RunOptions, namespace: str, api: KubernetesApi) -> About:
    mode = ACT if options.acting else SHADOW
    target = "the pods that Spark made"
    if options.target is not None:
        target = f"{options.target} executors"
    elif options.schedule is not None:
        target = f"schedule {options.schedule}"
    elif options.lines:
        target = "lines on standard input"
    elif options.driver_url is not None:
        target = f"driver {options.driver_url}"
    return About(options.app_id, namespace, mode, __version__, api.host, target, options.driver_url is not None)


def _decide(system: LiveSystem, loop: AppLoop) -> int:
    """Decide until the run ends, end it, and return the exit code. Raises ClusterRefused."""
    control = system.control
    try:
        loop.run(NEVER)
    except (RecordingError, Stuck) as problem:
        # What is under way is ended in order all the same: pods are let go or kept, the lease is given back.
        control.trouble = str(problem)
        loop.without(Recorder)
    stop = system.environment.ended
    if stop is not None and control.trouble is None:
        control.trouble = f"the application is ended with exit code {stop.exit_code}: {stop.why.cause.value}"
    left = end(system, loop)
    if control.trouble is not None:
        raise ClusterRefused(control.trouble)
    if left:
        return ClusterRefused.exit_code
    return INTERRUPTED if control.interrupted else 0
