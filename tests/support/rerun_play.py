"""Small applications and plans to rerun, and ways to look at how they are run.

Builders say no more than a test needs: ``stage(0, [100] * 8)`` is a stage of eight tasks of 100 ms, ``app(...)`` puts
stages into jobs, ``static(3)`` and ``dynamic(...)`` are plans. ``Watched`` is a rerun whose slots are looked at: which task
ran where, from when to when. ``Told`` is one whose core hears every task by itself, in one of two orders.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, NamedTuple, cast

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, Millis, ProfileId
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.fakes.kubernetes.description import KIND, STAGES, Api, Description, NodeGroup
from podtide.domain.protocol import stimuli
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.recorded.application import Application, RecordedJob, RecordedStage
from podtide.domain.rerun.behaviour import Behaviour, StartUp
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import ExecutorShape, Plan
from podtide.domain.rerun.rerun import _Rerun, rerun
from podtide.domain.rerun.tasks import Tasks
from podtide.domain.scheduler.rows import ExecutorSlots, TaskSet
from podtide.entrypoints.common.app_config import app_settings

CONF: Final = from_mapping({}, "a test")
P1: Final = ProfileId(1)


# ------------------------------------------------------------------------------------------------------- applications


class Known(NamedTuple):
    """What comes of an application, worked out by hand; times in ms."""

    app: Application
    plan: Plan
    behaviour: Behaviour
    runtime: int
    executors: int
    billed: int
    ledger: dict[SpendCause, int]
    waiting: dict[Limit, float | Fraction] = {}  # noqa: RUF012 - never written


def stage(number: int, bodies: Iterable[Millis], *, job: int = 0, **more: Any) -> RecordedStage:
    """A stage; without a word about it, a result stage without parents that took as long as its longest task."""
    body = array("q", bodies)
    more.setdefault("profile", DEFAULT_PROFILE)
    more.setdefault("submitted_ms", 0)
    more.setdefault("completed_ms", more["submitted_ms"] + max(body, default=0))
    return RecordedStage(number, job, f"stage {number}", body_ms=body, **more)


def job(number: int, stages: Sequence[RecordedStage] = (), **more: Any) -> RecordedJob:
    """A job of these stages; what it needs is what they write."""
    more.setdefault("submitted_ms", 0)
    more.setdefault("ended_ms", more["submitted_ms"])
    more.setdefault("needs", tuple(stimuli.JobStage(one.stage, one.shuffle) for one in stages))
    return RecordedJob(number, succeeded=True, stages=tuple(one.stage for one in stages), **more)


def app(*stages: RecordedStage, jobs: Sequence[RecordedJob] | None = None, **more: Any) -> Application:
    """An application of these stages: by the jobs that they name, all of which begin at once, or by ``jobs``."""
    if jobs is None:
        numbers = dict.fromkeys(one.job for one in stages)
        jobs = [job(number, [one for one in stages if one.job == number]) for number in numbers]
    more.setdefault("started_ms", 0)
    last = max((one.ended_ms or one.submitted_ms for one in jobs), default=more["started_ms"])
    more.setdefault("ended_ms", last)
    more.setdefault("properties", {})
    return Application("app-1", "test", "4.3.0", end_known=True, jobs=tuple(jobs), stages=stages, executors=(), **more)


def chain(lengths: Sequence[Sequence[Millis]], **more: Any) -> tuple[RecordedStage, ...]:
    """Stages of one job, each reading what the one before it shuffled."""
    last = len(lengths) - 1
    return tuple(
        stage(
            number,
            bodies,
            parents=(number - 1,) if number else (),
            shuffle=number if number < last else None,
            **more,
        )
        for number, bodies in enumerate(lengths)
    )


# -------------------------------------------------------------------------------------------------- plans, behaviours


def static(executors: int, slots: int = 1, **more: Any) -> Plan:
    """So many executors from the start."""
    more.setdefault("shapes", {DEFAULT_PROFILE: ExecutorShape(slots, slots, 1024)})
    return Plan("static", CONF, static=executors, **more)


def dynamic(slots: int = 1, *, plan: dict[str, Any] | None = None, **config: Any) -> Plan:
    """Dynamic allocation with Spark's defaults, but for what is said."""
    more = dict(plan or {})
    more.setdefault("shapes", {DEFAULT_PROFILE: ExecutorShape(slots, slots, 1024)})
    config.setdefault("shuffle_tracking", False)
    return Plan("dynamic", CONF, dynamic=ScalingConfig(**config), **more)


def behaviour(start_ms: Millis | tuple[Millis, ...] = 0, **more: Any) -> Behaviour:
    """Executors start in so much time, alone or not."""
    works = start_ms if isinstance(start_ms, tuple) else (start_ms,)
    return Behaviour(StartUp(works), **more)


AT_ONCE: Final = behaviour()


def causes(outcome: RerunOutcome) -> dict[SpendCause, Millis]:
    """The ledger without its zeroes."""
    return {cause: spent for cause, spent in outcome.ledger.items() if spent}


def limits(outcome: RerunOutcome) -> dict[Limit, float]:
    """The waiting without its zeroes."""
    return {limit: spent for limit, spent in outcome.waiting.items() if spent}


def check_sums(outcome: RerunOutcome) -> None:
    """What holds of every outcome, whatever was run."""
    assert sum(outcome.ledger.values()) == outcome.billed_ms
    assert min(outcome.ledger.values(), default=0) >= 0
    assert abs(sum(outcome.waiting.values()) - outcome.waited_ms) < 1e-3
    assert min(outcome.waiting.values(), default=0.0) >= 0.0
    assert sum(outcome.billed_by_profile.values()) == outcome.billed_ms
    assert 0 <= outcome.executor_ms <= outcome.billed_ms
    assert 0 <= outcome.task_ms <= outcome.slot_ms
    assert outcome.peak_executors <= outcome.executors_started


def run(
    application: Application, plan: Plan, b: Behaviour = AT_ONCE, seed: int = 0, *, limit_ms: Millis | None = None
) -> RerunOutcome:
    """Run an application again, watched, and check what holds of every outcome; watching it changes nothing."""
    outcome = rerun(application, b, plan, seed, watch=True, limit_ms=limit_ms)
    unwatched = rerun(application, b, plan, seed, limit_ms=limit_ms)
    assert figures(outcome) == unwatched
    check_sums(outcome)
    return outcome


def figures(outcome: RerunOutcome) -> RerunOutcome:
    """An outcome without what only a watched one has."""
    return replace(outcome, curve=(), stages=(), decisions=())


# ------------------------------------------------------------------------------------------------------ looking inside


class Ran(NamedTuple):
    """A task in a slot. ``planned``: when it would have ended by itself; ``ended``: when it left its slot."""

    stage: int
    attempt: int
    part: int
    executor: int
    slot: int
    began: Millis
    planned: Millis
    ended: Millis
    told_alone: bool
    """Its end was told as a TaskEnd of its own, or is not told (its executor went); not in sum."""
    free: Millis
    """When its slot was free; before it began, if it was killed while it was about to begin."""


class _Slots(list[int]):
    """The ends of the tasks in all slots: what is written here is what begins and ends."""

    def __init__(self, owner: WatchedTasks) -> None:
        super().__init__()
        self.owner = owner

    def __setitem__(self, slot: Any, end: Any) -> None:
        old = self[slot]
        if self.owner.revising:  # the same task goes on
            super().__setitem__(slot, end)
            return
        if old >= 0:
            self.owner.left(slot, old >> 24, taken=end < 0)
        super().__setitem__(slot, end)
        if end >= 0:
            self.owner.filled(slot)


class WatchedTasks(Tasks):
    """The driver of a rerun, whose slots are watched. ``revising``: what is written is when a task that runs will end."""

    revising = False

    def watch(self) -> None:
        """Begin, before anything has happened."""
        assert not self.slot_end
        self.slot_end = _Slots(self)
        self.ran: list[Ran] = []
        self.events: list[stimuli.ListenerEvent] = []
        self.alone = 0

    def _look_at_warming(self, run: TaskSet, slot: int, at: Millis) -> None:
        self.revising = True
        super()._look_at_warming(run, slot, at)
        self.revising = False

    def filled(self, slot: int) -> None:
        """A task begins in a slot; which one is written after this."""

    def left(self, slot: int, planned: Millis, *, taken: bool) -> None:
        """The task in a slot is over."""
        run = self.slot_run[slot]
        assert run is not None
        began = self.slot_began[slot]
        free = min(planned, self.now) if taken else planned
        ended = max(began, free)  # it may have been about to begin again
        part = run.part(self.slot_index[slot])
        executor = self.slot_executor[slot].row
        planned = NEVER if slot in self.fetching else planned  # it waits for what it will not get
        self.ran.append(
            Ran(run.key[1], run.number, part, executor, slot, began, planned, ended, bool(self.alone), free)
        )

    def say(self, event: stimuli.ListenerEvent) -> None:
        """Write down what is said event by event."""
        super().say(event)
        self.events.append(event)

    def _lose_task(self, slot: int, executor: ExecutorSlots, at: Millis, *, counts: bool) -> None:
        self.alone += 1
        super()._lose_task(slot, executor, at, counts=counts)
        self.alone -= 1

    def _fetch_failed(self, slot: int, at: Millis) -> None:
        self.alone += 1
        super()._fetch_failed(slot, at)
        self.alone -= 1

    def kill_task(self, slot: int, at: Millis, *, copying: bool) -> None:
        """It is not told in sum."""
        self.alone += 1
        super().kill_task(slot, at, copying=copying)
        self.alone -= 1

    def _ended(self, slot: int, run: TaskSet, executor: ExecutorSlots, at: Millis) -> bool:
        self.alone += 1
        matters = super()._ended(slot, run, executor, at)
        self.alone -= 1
        return matters

    @property
    def good(self) -> list[Ran]:
        """The tasks that came to their end."""
        return [one for one in self.ran if one.ended == one.planned]


class Watched:
    """A rerun whose slots are watched; ``tasks.ran`` says after ``go`` what ran where."""

    kind: type[WatchedTasks] = WatchedTasks

    def __init__(self, application: Application, plan: Plan, b: Behaviour = AT_ONCE, seed: int = 0) -> None:
        self.rerun = _Rerun(application, b, plan, seed, watch=True)
        self.manager = self.rerun.manager
        self.manager.tasks.__class__ = self.kind
        self.tasks = cast(WatchedTasks, self.manager.tasks)
        self.tasks.watch()

    def go(self, limit_ms: Millis = NEVER) -> RerunOutcome:
        """Run it to its end, and check its sums."""
        outcome = self.rerun.run(limit_ms)
        check_sums(outcome)
        return outcome


class SingleTasks(WatchedTasks):
    """The driver of a rerun that tells every task by itself: all starts and then all ends, as ``TasksMoved`` says."""

    in_order = False

    def watch(self) -> None:
        """Begin, before anything has happened."""
        super().watch()
        self._begun: list[int] = []  # slots whose task began and is not in ``_untold`` yet
        self._untold: list[stimuli.TaskStart | stimuli.TaskEnd] = []
        self._hushed = 0

    def filled(self, slot: int) -> None:
        """It is told as soon as it is known which task it is."""
        self._name_begun()
        if not self._hushed:
            self._begun.append(slot)

    def _name_begun(self) -> None:
        for slot in self._begun:
            run = self.slot_run[slot]
            assert run is not None
            executor = self.slot_executor[slot].id
            self._untold.append(
                stimuli.TaskStart(self.now, run.key[1], run.number, run.told(self.slot_index[slot]), executor)
            )
        self._begun.clear()

    def left(self, slot: int, planned: Millis, *, taken: bool) -> None:
        """A plain end is told; others are told by themselves anyway."""
        self._name_begun()
        super().left(slot, planned, taken=taken)
        if not self.ran[-1].told_alone:
            run = self.slot_run[slot]
            assert run is not None
            executor = self.slot_executor[slot].id
            self._untold.append(
                stimuli.TaskEnd(planned, run.key[1], run.number, run.told(self.slot_index[slot]), executor)
            )

    def start(self, attempt: TaskSet, executors: Sequence[ExecutorSlots], began: Millis) -> None:
        local = attempt.local
        ever = 0 if local is None else len(local.places)
        hushed = bool(attempt.again) or local is not None
        slot = executors[0].free[-1]
        self._name_begun()
        self._hushed += hushed
        super().start(attempt, executors, began)
        self._hushed -= hushed
        if local is not None and len(local.places) > ever:  # else it began before, and was told by itself
            self._begun.append(slot)
        self._name_begun()

    def _want_copy(self, run: TaskSet, index: int, at: Millis) -> bool:
        self._hushed += 1
        wanted = super()._want_copy(run, index, at)
        self._hushed -= 1
        return wanted

    def tell_moves(self, at: Millis) -> None:
        self._name_begun()
        news, self.news = self.news, []
        super().tell_moves(at)  # it has its own books of what was told
        self.news = news
        untold, self._untold = self._untold, []
        if not self.in_order:
            untold.sort(key=lambda event: isinstance(event, stimuli.TaskEnd))
        self.news.extend(one._replace(at=min(one.at, at)) for one in untold)


class OrderedTasks(SingleTasks):
    """The same in the order in which it happened."""

    in_order = True


class Single(Watched):
    """A rerun whose core hears one event for each task, the starts first."""

    kind = SingleTasks


class Ordered(Watched):
    """A rerun whose core hears one event for each task, in order."""

    kind = OrderedTasks


def told(tasks: WatchedTasks, *kinds: type[stimuli.ListenerEvent]) -> list[Any]:
    """What was said of some kinds."""
    return [event for event in tasks.events if isinstance(event, kinds)]


def times(tasks: WatchedTasks) -> dict[tuple[str, int, int], Millis]:
    """When jobs and stage attempts began and ended."""
    found: dict[tuple[str, int, int], Millis] = {}
    for event in tasks.events:
        match event:
            case stimuli.JobStart():
                found["job start", event.job, 0] = event.at
            case stimuli.JobEnd():
                found["job end", event.job, 0] = event.at
            case stimuli.StageSubmitted():
                found["submitted", event.stage, event.attempt] = event.at
            case stimuli.StageCompleted():
                found["completed", event.stage, event.attempt] = event.at
    return found


# ---------------------------------------------------------------------------------------------------------- Kubernetes


def kind_cluster(start_ms: Millis = 0, **api: Any) -> Description:
    """A cluster with room for everything in which nothing takes time but an executor's start."""
    delays = {"schedule": 0, "pulled": 0, "start": 0, "register": start_ms, "exit": 0, "terminate": 0, "drain": 0}
    stages = tuple(replace(one, delay=Constant(delays[one.name])) if one.name in delays else one for one in STAGES)
    room = NodeGroup("room", 1, cpu_millis=2**40, memory_mib=2**40, pods=10**6, image_present=True)
    return replace(
        KIND,
        groups=(room,),
        executors=replace(KIND.executors, stages=stages, rpc=Constant(0)),
        api=Api(**{"latency": Constant(0), "serial": False, **api}),
        watch=replace(KIND.watch, delay=Constant(0)),
    )


def pods(conf: dict[str, str], cluster: Description | None = None, **more: Any) -> Plan:
    """A plan on Kubernetes: this conf (keys without "spark."), with one slot for each executor core."""
    cores = int(conf.get("executor.cores", "1"))
    keys = {"master": "k8s://https://x", "executor.cores": "1", **conf}
    settings = app_settings(from_mapping({f"spark.{key}": value for key, value in keys.items()}, "a test"))
    config = settings.config
    return Plan(
        "pods",
        settings.conf,
        more.pop("shapes", {DEFAULT_PROFILE: ExecutorShape(cores, cores, 1024)}),
        dynamic=config.scaling if config.dynamic else None,
        static=0 if config.dynamic else int(conf.get("executor.instances", "2")),
        kubernetes=config,
        cluster=kind_cluster() if cluster is None else cluster,
        **more,
    )


def plain(plan: Plan) -> Plan:
    """The same with a plain resource manager."""
    return replace(plan, kubernetes=None, cluster=None)
