"""The sensor of a Spark driver: asks its REST API again and again, and hears what Spark's listeners would have heard.

A look is three small requests on one kept connection: the running jobs, the stages that are active or pending, all
executors. Beyond that it asks for the resource profiles at the beginning and when one turns up that is not described yet,
for a stage that has just left the list (how its tasks ended; a few at most), where executors wrote shuffle data for stages
that came and went since the last look (ids follow one another; a few at most), and now and then whether the application is
over. What the answers mean is the domain's (``driver_view``); this module brings them there, in one thread.

A driver that does not answer is said to be unreachable once, and back once; meanwhile nothing is heard, so that what
ran goes on running as far as the engine knows, and no executor is removed. The driver is gone (``ended``) when the
application says that it has completed, or when it was there and nobody has listened at its address for ``refused_s``, or
an application of another name for ``gone_s``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, TypeVar
from urllib.parse import quote

from podtide.adapters.clock import Clock
from podtide.adapters.driver import driver_models as shapes
from podtide.adapters.driver.driver_client import DriverReply, Get, NoAnswer
from podtide.adapters.driver.driver_models import UnreadableReply, decode
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.conf.redaction import REDACTED
from podtide.domain.live import driver_view
from podtide.domain.live.driver_snapshot import DriverSnapshot, ProfileSeen, StageSeen, StageStatus, ViewConfig, summary
from podtide.domain.live.driver_view import UNSEEN, ViewState, ViewStimulus
from podtide.domain.protocol.pod_stimuli import ExecutorsSummarized

S = TypeVar("S")

BACK_OFF_MAX_S: Final = 5.0
COMPLETED_EVERY_S: Final = 5.0
PROFILES_EVERY_S: Final = 10.0
ENDED_STAGES_MAX: Final = 8
"""Stages that left the list of active ones and are asked for by themselves, in one look."""
LEFT_MAX: Final = 64
"""Attempts of one such stage that are looked at."""
UNSEEN_STAGES_MAX: Final = 16
"""Stages that were in no list and are asked for by themselves, in one look."""


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """How often to look at most and when to give up, in seconds; and how looks are folded."""

    interval_s: float = 0.5
    gone_s: float = 10.0
    refused_s: float = 120.0
    silent_s: float = 10.0
    view: ViewConfig = field(default_factory=ViewConfig)


SHARE: Final = 0.5
"""The part of the time that looks may take."""
BYTES_PER_S: Final = 4 * 1024**2
"""What answers may amount to, unpacked: 5,000 executors are 7.5 MB, so they are looked at every two seconds."""
INTERVAL_MAX_S: Final = 10.0
"""Longer than this looks are apart only where that is asked for."""


def interval_s(least_s: float, size: int, took_s: float) -> float:
    """Seconds from one look to the next. ``least_s``: as asked for; ``size``, ``took_s``: of the last look, in bytes."""
    return max(least_s, min(INTERVAL_MAX_S, max(took_s / SHARE, size / BYTES_PER_S)))


class _NoSuchApp(Exception):
    """Somebody answers, but not for this application."""


class _NotReady(Exception):
    """An answer that holds no data: the driver starts, a proxy is in the way, a version that has no such thing."""


class DriverSilent(Exception):
    """A driver did not say what it was asked; the message says why."""


def ask_conf(get: Get, app_id: str, hidden: list[str] | None = None) -> dict[str, str]:
    """The driver's own configuration, but for what Spark redacts, whose keys go to ``hidden``. Raises DriverSilent."""
    try:
        environment = _decoded(shapes.RestConf, _reply(get, app_id, "/environment"), app_id, "environment")
    except NoAnswer as problem:
        raise DriverSilent(problem.why) from None
    except (_NoSuchApp, _NotReady, UnreadableReply) as problem:
        raise DriverSilent(str(problem)) from None
    pairs = environment.properties[: shapes.LISTED_MAX]
    if hidden is not None:
        hidden.extend(key for key, text in pairs if text == REDACTED)
    return {key: text for key, text in pairs if text is not None and text != REDACTED}


def _reply(get: Get, app_id: str, path: str) -> DriverReply:
    return get(f"applications/{quote(app_id, safe='')}{path}")


def _decoded(kind: type[S], reply: DriverReply, app_id: str | None, path: str) -> S:
    """What an answer holds. Raises _NoSuchApp, _NotReady or UnreadableReply."""
    what = path.partition("?")[0].strip("/") or "application"
    if reply.status == 404 and reply.body.startswith(b"no such app"):
        raise _NoSuchApp(f"the driver knows no application {app_id}")
    if reply.status in (401, 403):
        raise _NotReady(f"the driver refuses to answer: status {reply.status} for {what}")
    if reply.status != 200:
        raise _NotReady(f"the driver answers with status {reply.status} for {what}")
    try:
        return decode(kind, reply.body)
    except UnreadableReply as problem:
        raise UnreadableReply(f"the driver's answer for {what} cannot be read: {problem}") from None


class DriverSensor:
    """One driver, looked at from a thread of its own: ``start``, ``stop``; ``turn`` is one look, for who has a thread
    already.

    ``ended``: the driver is gone for good, the thread has ended. ``looked_at``: monotonic seconds of the last look
    that succeeded. ``app_id``: given, or found out at the first contact.
    """

    def __init__(
        self,
        get: Get,
        app_id: str | None,
        hear: Callable[[ViewStimulus], None],
        clock: Clock,
        notify: Notify,
        settings: DriverSettings,
        jitter: Callable[[], float],
    ) -> None:
        """``jitter``: random numbers from 0 to 1."""
        self.app_id = app_id
        self.ended: Final = threading.Event()
        self.looked_at: float | None = None
        self.looks = 0
        self._get, self._hear, self._clock, self._notify = get, hear, clock, notify
        self._settings, self._jitter = settings, jitter
        self._view: ViewState = driver_view.empty()
        self._last: DriverSnapshot | None = None
        self._profiles: tuple[ProfileSeen, ...] | None = None
        self._profiles_at = self._completed_at = 0.0
        self._asked_for: frozenset[ProfileId] = frozenset()
        self._failing_since: float | None = None
        self._gone_since: float | None = None
        self._failures = 0
        self._size = 0  # bytes of the answers of a look
        self._pause = 0.0  # from the last look to the next
        self._stopped: Final = threading.Event()
        self._thread: threading.Thread | None = None

    # --------------------------------------------------------------------------------------------------------- thread

    def start(self) -> None:
        """Begin to look."""
        self._thread = threading.Thread(target=self._run, name="driver-sensor", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> bool:
        """End it; whether it ended in time. A request under way is waited for."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def _run(self) -> None:
        while not self._stopped.is_set() and not self.ended.is_set():
            try:
                wait = self.turn()
            except Exception as fault:  # a thread that dies here would leave the run deciding by its last look for ever
                wait = self._failed(f"a fault of podtide itself, {type(fault).__name__}", gone=False)
            self._stopped.wait(wait)

    def summary(self, now: Millis) -> ExecutorsSummarized | None:
        """What the executor roll plugin asks for, as of the last look; None before the first."""
        last = self._last
        return None if last is None else summary(last, now)

    @property
    def silent(self) -> bool:
        """Whether what is known of the driver is too old to decide by: an idle executor may have work by now."""
        looked_at = self.looked_at
        return looked_at is None or self._clock.monotonic() - looked_at > self._settings.silent_s + self._pause

    # ------------------------------------------------------------------------------------------------------- one look

    def turn(self) -> float:
        """Look once and pass on what has changed; returns the seconds to wait before the next time."""
        began = self._clock.monotonic()
        self._size = 0
        try:
            snapshot = self._look()
        except NoAnswer as problem:
            return self._failed(problem.why, gone=problem.refused, after_s=self._settings.refused_s)
        except _NoSuchApp as problem:
            return self._failed(str(problem), gone=True)
        except (_NotReady, UnreadableReply) as problem:
            return self._failed(str(problem), gone=False)
        if snapshot is None:
            self._end("the application has completed")
            return 0.0
        self._there()
        step = driver_view.look(self._view, (snapshot,), self._settings.view, self._clock.now())
        self._view, self._last = step.state, snapshot
        for stimulus in step.commands:
            self._hear(stimulus)
        self.looks += 1
        now = self.looked_at = self._clock.monotonic()
        least, took = self._settings.interval_s, now - began
        self._pause = interval_s(least, self._size, took) - took
        self._pause = max(self._pause, min(took, least))  # a driver that is slower than that is not asked all the time
        return self._pause

    def _look(self) -> DriverSnapshot | None:
        """One look; None when the application is over."""
        if self.app_id is None:
            self.app_id = self._discover()
        now = self._clock.monotonic()
        if not self.looks or now - self._completed_at >= COMPLETED_EVERY_S:
            app = self._ask(shapes.RestApp, "")
            self._completed_at = now
            if app.over:
                return None
        jobs = shapes.jobs(self._ask(list[shapes.RestJob], "/jobs?status=running"))
        stages = shapes.stages(self._ask(list[shapes.RestStage], "/stages?status=active&status=pending"))
        stages += self._left(stages)
        executors = shapes.executors(self._ask(list[shapes.RestExecutor], "/allexecutors"))
        first = self._view.unseen_stages(executors)
        unseen, missed = ((), False) if first is None else self._unseen(first, stages)
        snapshot = DriverSnapshot(jobs, stages + unseen, executors, self._profiles or (), missed)
        stale = self._profiles is None or now - self._profiles_at >= PROFILES_EVERY_S
        unknown = self._view.unknown_profiles(snapshot)
        if self._profiles is None or (unknown and (stale or self._news_of(unknown))):
            self._asked_for = unknown
            self._profiles_at = now
            self._profiles = shapes.profiles(self._ask(shapes.RestEnvironment, "/environment"))
            snapshot = snapshot._replace(profiles=self._profiles)
        return snapshot

    def _news_of(self, unknown: frozenset[ProfileId]) -> bool:
        """Whether a profile is unknown that was not so when the driver was asked last."""
        return not unknown <= self._asked_for

    def _left(self, listed: tuple[StageSeen, ...]) -> tuple[StageSeen, ...]:
        """Attempts that are known, and no longer active: how they ended, and whether tasks of theirs still run."""
        there = {stage.key for stage in listed if stage.status is StageStatus.ACTIVE}
        left = [key for key in self._view.attempts if key not in there and key != UNSEEN]
        found: list[StageSeen] = []
        for stage in list(dict.fromkeys(stage for stage, _ in left))[:ENDED_STAGES_MAX]:
            attempts = self._attempts(stage) or ()  # None: forgotten already (spark.ui.retainedStages)
            found.extend(one for one in attempts if one.key in left and one.key not in there)
        return tuple(found)

    def _unseen(self, first: int, listed: tuple[StageSeen, ...]) -> tuple[tuple[StageSeen, ...], bool]:
        """Stages from an id on that no list showed, up to the first that Spark does not know yet; whether there are more."""
        numbers = {stage.stage for stage in listed}
        top = max(numbers, default=-1)
        found: list[StageSeen] = []
        requests = 0
        for stage in count(first):
            if stage in numbers:
                continue
            if requests == UNSEEN_STAGES_MAX:
                return tuple(found), True
            requests += 1
            attempts = self._attempts(stage)
            if attempts is None and stage > top:
                break
            found.extend(attempts or ())
        return tuple(found), False

    def _attempts(self, stage: int) -> tuple[StageSeen, ...] | None:
        """The attempts of a stage; None for one that Spark does not know."""
        reply = self._reply(f"/stages/{stage}?details=false")
        if reply.status == 404:
            return None
        return shapes.stages(_decoded(list[shapes.RestStage], reply, self.app_id, f"/stages/{stage}")[-LEFT_MAX:])

    def _discover(self) -> str:
        """The one application that the driver's API knows."""
        apps = _decoded(list[shapes.RestApp], self._get("applications"), None, "applications")
        running = [app for app in apps if not app.over] or apps
        if len(running) != 1:
            named = ", ".join(sorted(app.id[:80] for app in running)[:5])
            raise _NotReady(
                f"expected one application, found {len(running)}: name one" + (f" of {named}" if named else "")
            )
        return running[0].id

    def _ask(self, kind: type[S], path: str) -> S:
        return _decoded(kind, self._reply(path), self.app_id, path)

    def _reply(self, path: str) -> DriverReply:
        reply = _reply(self._get, self.app_id or "", path)
        self._size += len(reply.body)
        return reply

    # ------------------------------------------------------------------------------------------------- there and gone

    def _there(self) -> None:
        if self._failing_since is not None:
            seconds = self._clock.monotonic() - self._failing_since
            text = f"the driver answers again, after {seconds:.1f} s"
            self._say(Level.INFO, Topic.DRIVER_BACK, text, ("seconds", round(seconds, 3)))
        elif not self.looks:
            self._say(Level.INFO, Topic.STARTED, f"the driver of {self.app_id} answers")
        self._failing_since = self._gone_since = None
        self._failures = 0

    def _failed(self, why: str, *, gone: bool, after_s: float | None = None) -> float:
        """``after_s``: for how long this has to be so until the driver counts as gone. A service whose one pod is not
        ready for a while refuses connections, too.
        """
        after_s = self._settings.gone_s if after_s is None else after_s
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            self._say(Level.WARNING, Topic.DRIVER_UNREACHABLE, why)
        self._gone_since = None if not gone else now if self._gone_since is None else self._gone_since
        if self.looks and self._gone_since is not None and now - self._gone_since >= after_s:
            self._end(f"the driver is gone: {why}")
            return 0.0
        self._failures += 1
        pause = min(BACK_OFF_MAX_S, self._settings.interval_s * (1 << min(self._failures - 1, 10)))
        return pause * (0.5 + 0.5 * self._jitter())

    def _end(self, why: str) -> None:
        self._say(Level.INFO, Topic.STOPPING, why)
        self.ended.set()

    def _say(self, level: Level, topic: Topic, text: str, *facts: tuple[str, float]) -> None:
        self._notify(Notice(self._clock.now(), level, topic, text.replace("\n", " ")[:500], facts))
