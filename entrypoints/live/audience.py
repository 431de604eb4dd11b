"""What people and machines see of a live run: a dashboard or lines on standard output, metrics and health over HTTP.

``Audience.notify`` passes a notice to all of them, ``observers`` see every step of the loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from podtide.adapters.clock import Clock
from podtide.adapters.http_server.small_server import CannotServe
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.views.live.http_server import LiveHttp
from podtide.adapters.views.live.log_lines import LiveLines, status_words
from podtide.adapters.views.live.metrics import LiveMetrics, MetricsMissing
from podtide.adapters.views.live.stall_notices import stall_notice
from podtide.adapters.views.live.terminal import LiveTerminal
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.conf.redaction import Redaction
from podtide.domain.stalls.stalls import StallNews
from podtide.entrypoints.common.app_loop import Observer
from podtide.entrypoints.common.interruption import silence
from podtide.entrypoints.common.output import Misused, refused_as
from podtide.entrypoints.live.options import RunOptions


@dataclass(frozen=True, slots=True)
class Audience:
    """``tracker`` counts the run; ``observers`` and ``notifiers`` include it."""

    clock: Clock
    tracker: LiveTracker
    observers: tuple[Observer, ...]
    notifiers: tuple[Notify, ...]

    def notify(self, notice: Notice) -> None:
        """Pass a notice to everybody. From any thread."""
        for notifier in self.notifiers:
            notifier(notice)

    def say(self, level: Level, topic: Topic, text: str) -> None:
        """Pass a notice without numbers to everybody."""
        self.notify(Notice(self.clock.now(), level, topic, text))

    def stalled(self, news: StallNews) -> None:
        """Tell everybody that a stall began or ended."""
        self.notify(stall_notice(news))

    def say_status(self) -> None:
        """Pass the present figures to everybody."""
        self.say(Level.INFO, Topic.STATUS, " · ".join(status_words(self.tracker.snapshot())))

    def pods_seen(self) -> str:
        """The pods on the cluster, as far as they were seen."""
        pods = self.tracker.snapshot().total.pods
        return ", ".join(f"{count} {state}" for state, count in pods.items() if count)


def gather(
    options: RunOptions,
    tracker: LiveTracker,
    clock: Clock,
    redaction: Redaction,
    stop: Callable[[], None],
    resources: ExitStack,
) -> Audience:
    """Open the views that the options ask for; ``resources`` closes them. Raises Misused.

    ``stop`` ends the run: it is called when a run that does nothing but print has lost its reader.
    """
    if options.metrics_port is not None:
        with refused_as(Misused, CannotServe, MetricsMissing):
            metrics = LiveMetrics(tracker.snapshot)
            server = LiveHttp(tracker.snapshot, metrics, port=options.metrics_port, address=options.metrics_address)
        resources.enter_context(server)
    if options.view:
        resources.enter_context(LiveTerminal(tracker, sys.stdout))
        return Audience(clock, tracker, (tracker,), (tracker.notify,))

    def unread() -> None:
        if options.only_prints:
            stop()

    lines = LiveLines(
        tracker, sys.stdout, clock, as_json=options.log_format == "json", redaction=redaction, on_gone=unread
    )

    def let_go() -> None:
        if lines.gone:
            silence()  # nobody reads; what is buffered would be refused again when the process ends

    resources.callback(let_go)
    resources.enter_context(lines)
    return Audience(clock, tracker, (tracker, lines), (tracker.notify, lines.notify))
