"""A live run as Prometheus metrics: what a snapshot holds, in Prometheus' names and units, computed when somebody asks.

Nothing is counted here: the tracker counts, and a scrape reads a snapshot of it. So metrics cost the loop nothing, and what
they say is what the view says. Labels have few values - profiles, states, bounds, causes, verbs, resources, status codes -
and never the name of a pod or an executor; profiles beyond those that a snapshot tells one by one share the label ``other``.

``METRICS`` is the list of what there is; the dashboard, the alerts and docs/reference/live.md are held to it by tests.
Durations are seconds, sizes bytes, counters end in ``_total``. What is not known has no sample rather than a zero: the
age of a snapshot before the first one, the lease of a shadow, the driver where none is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from podtide.adapters.views.live.api_calls import Histogram
from podtide.adapters.views.live.status import STATE_NAMES, Lease, LiveSnapshot, ProfileFigures, WatchHealth
from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.stalls.causes import StallCause

OTHER: Final = "other"

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"

DIRECTIONS: Final = ("sent", "received")


class Family(NamedTuple):
    """One metric family as it is exported."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS: Final = (
    Family("podtide_build_info", GAUGE, ("version",), "The version that runs; always 1."),
    Family("podtide_run_info", GAUGE, ("app_id", "app_namespace", "mode"), "The application that is run; always 1."),
    Family("podtide_start_time_seconds", GAUGE, (), "When the run began, in seconds since the epoch."),
    Family("podtide_target_executors", GAUGE, ("profile",), "Executors wanted."),
    Family(
        "podtide_pods", GAUGE, ("profile", "state"),
        "Executor pods by state; requested: asked for and not seen yet; deleted: gone, until the next full list.",
    ),
    Family("podtide_registered_executors", GAUGE, ("profile",), "Executors that the driver knows."),
    Family("podtide_leaving_executors", GAUGE, ("profile",), "Of these, those that were asked to go, or are lost."),
    Family("podtide_decisions_total", COUNTER, ("command", "cause"), "Commands decided, by their leading reason."),
    Family("podtide_held", GAUGE, ("bound", "profile"), "Pods held back, or executors kept, by a bound in force."),
    Family("podtide_rounds_threw_total", COUNTER, ("machine",), "Rounds that ended in an exception, as Spark's would."),
    Family("podtide_api_calls_total", COUNTER, ("verb", "resource", "code"), "Calls to the API server; none: no answer."),
    Family("podtide_api_call_seconds", HISTOGRAM, ("verb", "resource"), "How long calls took; watches are not among them."),
    Family("podtide_api_bytes_total", COUNTER, ("direction",), "Bytes of bodies sent to and received from the API server."),
    Family("podtide_snapshot_age_seconds", GAUGE, (), "Since the cluster last confirmed what is known of the pods."),
    Family("podtide_watch_alive", GAUGE, (), "Whether the watch over the pods is up."),
    Family("podtide_watch_breaks_total", COUNTER, (), "How often the watch broke."),
    Family("podtide_steps_total", COUNTER, (), "Steps of the loop."),
    Family("podtide_step_seconds", HISTOGRAM, (), "How long a step took, from hearing to having handed out its commands."),
    Family("podtide_last_turn_age_seconds", GAUGE, (), "Since the loop last turned."),
    Family("podtide_lease_held", GAUGE, (), "Whether this instance may write; only of a run that acts."),
    Family("podtide_driver_reachable", GAUGE, (), "Whether the Spark driver answers; only where it is asked."),
    Family("podtide_differences_total", COUNTER, (), "Decisions that differ from Spark's; only of a shadow."),
    Family(
        "podtide_stall_seconds", GAUGE, ("cause", "profile", "kind"),
        "For how long tasks have waited and nothing has moved; kind limit: tasks run, and others wait for a limit.",
    ),
    Family("podtide_stalls_total", COUNTER, ("cause",), "Stalls that began, limits left out."),
    Family("podtide_news_total", COUNTER, ("topic",), "News by topic."),
)  # fmt: skip
"""Everything that is exported, in this order."""

Sample = tuple[tuple[str, ...], float | Histogram]


class MetricsMissing(Exception):
    """The package prometheus-client is not installed."""


def samples(snapshot: LiveSnapshot) -> dict[str, list[Sample]]:
    """The samples of every metric: label values and value. Shape: by name, in the order of ``METRICS``."""
    found: dict[str, list[Sample]] = {metric.name: [] for metric in METRICS}

    def put(name: str, value: float | Histogram | None, *labels: str) -> None:
        if value is not None:
            found[name].append((labels, value))

    about, calls = snapshot.about, snapshot.calls
    put("podtide_build_info", 1, about.version)
    put("podtide_run_info", 1, about.app_id, about.namespace, about.mode)
    put("podtide_start_time_seconds", snapshot.started / 1000)
    for label, figures in _profiles(snapshot):
        put("podtide_target_executors", figures.target, label)
        put("podtide_registered_executors", figures.registered, label)
        put("podtide_leaving_executors", figures.leaving, label)
        for state in STATE_NAMES:  # with zeros: a state that is left must not seem to last
            put("podtide_pods", figures.pods.get(state, 0), label, state)
    for (command, cause), number in sorted(snapshot.counts.items()):
        put("podtide_decisions_total", number, command, cause)
    held: Counter[tuple[str, str]] = Counter()
    for hold in snapshot.held:
        held[hold.bound, _label(hold.profile)] += hold.number
    for (bound, profile), number in sorted(held.items()):
        put("podtide_held", number, bound, profile)
    for machine, number in sorted(snapshot.threw.items()):
        put("podtide_rounds_threw_total", number, machine)
    for (verb, resource, code), number in sorted(calls.totals.items()):
        put("podtide_api_calls_total", number, verb, resource, code)
    for (verb, resource), histogram in sorted(calls.histograms.items()):
        if histogram.count:
            put("podtide_api_call_seconds", histogram, verb, resource)
    for direction, number in zip(DIRECTIONS, (calls.sent, calls.received), strict=True):
        put("podtide_api_bytes_total", number, direction)
    put("podtide_snapshot_age_seconds", None if snapshot.seen_ms is None else snapshot.seen_ms / 1000)
    put("podtide_watch_alive", None if snapshot.watch is WatchHealth.NONE else snapshot.watch is WatchHealth.ALIVE)
    put("podtide_watch_breaks_total", snapshot.watch_breaks)
    put("podtide_steps_total", snapshot.steps)
    put("podtide_step_seconds", snapshot.step_seconds)
    put("podtide_last_turn_age_seconds", snapshot.beat_s)
    put("podtide_lease_held", snapshot.lease is Lease.HELD if snapshot.acting else None)
    put("podtide_driver_reachable", snapshot.driver)
    put("podtide_differences_total", None if snapshot.acting else snapshot.differences)
    stalled: dict[tuple[str, str, str], Millis] = {}
    for stall in snapshot.stalls:
        key = (stall.cause.value, _label(stall.profile), "stall" if stall.blocked else "limit")
        stalled[key] = max(stalled.get(key, 0), snapshot.at - stall.since)
    for labels, lasts_ms in sorted(stalled.items()):
        put("podtide_stall_seconds", lasts_ms / 1000, *labels)
    for why in StallCause:  # with zeros: the first one is an increase, too
        put("podtide_stalls_total", snapshot.stall_alarms.get(why.value, 0), why.value)
    for topic, number in sorted(snapshot.notice_counts.items()):
        put("podtide_news_total", number, topic)
    return found


def _profiles(snapshot: LiveSnapshot) -> Iterator[tuple[str, ProfileFigures]]:
    """Profiles under their labels, the default one always; those without a label of their own are summed up."""
    listed = {label: one for one in snapshot.profiles if (label := _label(one.profile)) != OTHER}
    listed.setdefault(str(DEFAULT_PROFILE), ProfileFigures(DEFAULT_PROFILE, 0))
    yield from listed.items()
    total = snapshot.total
    pods = Counter(total.pods)
    for one in listed.values():
        pods.subtract(one.pods)
    rest = ProfileFigures(
        -1,
        total.target - sum(one.target for one in listed.values()),
        +pods,
        total.registered - sum(one.registered for one in listed.values()),
        total.leaving - sum(one.leaving for one in listed.values()),
    )
    if rest != ProfileFigures(-1, 0):
        yield OTHER, rest


def _label(profile: int) -> str:
    return str(profile) if 0 <= profile < 1_000_000 else OTHER


class LiveMetrics:
    """A registry of its own over ``snapshot``, which is asked at every scrape (``LiveTracker.snapshot``).

    Raises MetricsMissing where prometheus-client is not installed.
    """

    def __init__(self, snapshot: Callable[[], LiveSnapshot]) -> None:
        try:
            import prometheus_client  # noqa: PLC0415 - for those who want metrics
            from prometheus_client import core, exposition  # noqa: PLC0415
        except ImportError:
            raise MetricsMissing(
                "the package prometheus-client is not installed; install podtide[metrics] to export metrics"
            ) from None
        self._snapshot = snapshot
        self._core: Any = core
        self._choose: Callable[[str], tuple[Callable[[Any], bytes], str]] = exposition.choose_encoder
        self.registry = prometheus_client.CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def collect(self) -> Iterator[Any]:
        """The metrics as they are now (prometheus_client's Collector)."""
        found = samples(self._snapshot())
        for metric in METRICS:
            if not found[metric.name] and not metric.labels:
                continue  # not known
            yield self._family(metric, found[metric.name])

    def describe(self) -> Iterator[Any]:
        """The names alone, without asking for a snapshot."""
        return (self._family(metric, ()) for metric in METRICS)

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """The text of a scrape and its content type, as whoever scrapes accepts it."""
        encode, content_type = self._choose(accept)
        return encode(self.registry), content_type

    def _family(self, metric: Family, found: Iterable[Sample]) -> Any:
        kinds = {
            GAUGE: self._core.GaugeMetricFamily,
            COUNTER: self._core.CounterMetricFamily,
            HISTOGRAM: self._core.HistogramMetricFamily,
        }
        family = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
        for labels, value in found:
            if isinstance(value, Histogram):
                edges = (*(str(edge) for edge in value.edges), "+Inf")
                family.add_metric(labels, list(zip(edges, value.cumulative, strict=True)), value.seconds)
            else:
                family.add_metric(labels, float(value))
        return family
