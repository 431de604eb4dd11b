"""The loop's surroundings on a real cluster: what threads heard goes in, what was decided goes to the hands.

There is one loop (``app_loop``) and one thread that decides. Sensor, actuator, driver poller and target source have threads
of their own; whatever they have to say they leave in the ``Inbox``, and the loop takes it out at one moment, all of it in
order, stamped with that moment. A timer that is due runs in the same step, after what was heard, so that a cluster that
never falls silent does not keep the timers from running.

Between the inbox and the engine stand *lenses*: pure machines that change what is seen because of what it is seen for. The
shadow's holds Spark's pods back until it has decided for itself (``shadowing``); that of a run without a driver makes
registrations of running pods (``headless``). What they say is an ordinary stimulus and is recorded as one.

``Hands`` carry commands out. Acting, that is the actuator behind a lease; a shadow reads and writes nothing.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

from podtide.adapters.kubernetes_lists import as_deleted
from podtide.adapters.lease_record import ID_MAX
from podtide.adapters.live_clock import Clock
from podtide.domain import following, headless, shadowing
from podtide.domain.commands import Command, Decommission, Kill, RequestTotal
from podtide.domain.engine import AnyStimulus
from podtide.domain.headless import HeadlessConfig, HeadlessState
from podtide.domain.pod_commands import (
    AwaitDriverReady,
    CreatePod,
    DeletePod,
    DeletePods,
    GetDriverPod,
    ListClaims,
    ListPods,
    PodCommand,
    StopApplication,
)
from podtide.domain.pod_stimuli import (
    UNKNOWN_OUTCOME,
    CallFailure,
    Outcome,
    PodsReplaced,
    PodsUpdated,
    Reconciled,
    RegisterExecutor,
    Wake,
)
from podtide.domain.pods import (
    APP_LABEL,
    EXECUTOR_LABEL,
    EXECUTOR_ROLE,
    PROFILE_LABEL,
    ROLE_LABEL,
    UNNAMED_EXECUTOR,
    Pod,
    PodManifest,
    PodNumber,
)
from podtide.domain.shadowing import Difference, Same, ShadowConfig, ShadowState
from podtide.domain.units import NEVER, ExecutorId, Millis, ProfileId

TURN_MS: Final[Millis] = 1_000
"""The loop turns at least this often, though it may have nothing to decide: that is how others know that it lives."""

GATHER_S: Final = 0.01
"""How long the loop waits for more once it has heard something. A cluster on which much happens speaks in many small pieces,
and a step for each costs nearly twice as much as one for three; what is due is in no such hurry."""

ENDED_PHASES: Final = frozenset({"succeeded", "failed"})
"""Phases, in lower case, after which a pod's executor does nothing any more."""

ENDED_MAX: Final = 65_536
"""Executors whose pods have ended that are remembered: far more than can end between two looks at the driver."""

Hear: TypeAlias = Callable[[AnyStimulus], None]


class Inbox:
    """Where threads leave what they heard; thread-safe, and safe to use in a signal handler."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[AnyStimulus | None] = queue.SimpleQueue()

    def hear(self, stimulus: AnyStimulus) -> None:
        """Leave something; the loop is woken."""
        self._queue.put(stimulus)

    def poke(self) -> None:
        """Wake the loop without saying anything."""
        self._queue.put(None)

    def drain(self, timeout_s: float) -> list[AnyStimulus]:
        """All that was left, in order; waits for the first at most this long."""
        heard: list[AnyStimulus] = []
        try:
            first = self._queue.get(timeout=timeout_s) if timeout_s > 0 else self._queue.get_nowait()
            if timeout_s > GATHER_S and first is not None:
                time.sleep(GATHER_S)
            while True:
                if first is not None:
                    heard.append(first)
                first = self._queue.get_nowait()
        except queue.Empty:
            return heard


class Hands(Protocol):
    """What carries commands out. Never blocks for long, never raises; what comes of a call is heard in the inbox."""

    def apply(self, command: Command, now: Millis) -> None:
        """Begin to carry a command out."""
        ...


class Actuator(Protocol):
    """What makes the calls of commands about pods; their outcomes are heard in the inbox."""

    def apply(self, command: PodCommand) -> None:
        """Begin to carry a command out."""
        ...


class Lens(Protocol):
    """What stands between the inbox and the engine."""

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What the engine is shown of what was heard."""
        ...

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Take note of a decision; what the engine is shown because of it."""
        ...

    def due(self) -> Millis:
        """When it wants to look again though nothing was heard."""
        ...


class Pulse(Protocol):
    """Who is told that the loop lives, and how long its steps take."""

    def resting(self) -> None:
        """It waits, or still waits."""
        ...

    def roused(self) -> None:
        """It has something to do."""
        ...


class LiveSurroundings:
    """The loop's surroundings. ``ended``: the core ended the application; ``stopping``: somebody asked for the end.

    ``ends_at``: when it ends by itself.
    """

    def __init__(
        self,
        inbox: Inbox,
        clock: Clock,
        hands: Hands,
        pulse: Pulse,
        lenses: Sequence[Lens] = (),
        ends_at: Millis = NEVER,
        blind: Callable[[], bool] = lambda: False,
    ) -> None:
        """``blind``: the driver does not answer. What is heard is taken, but no timer runs: nobody is let go, and nothing
        is asked for, by a picture that is too old.
        """
        self._blind = blind
        self.ended: StopApplication | None = None
        self.stopping = False
        self._pulse = pulse
        self._ends_at = ends_at
        self._inbox = inbox
        self._clock = clock
        self._hands = hands
        self._lenses = tuple(lenses)
        self._ready: list[AnyStimulus] = []

    def stop(self) -> None:
        """End the loop at its next turn. Safe in a signal handler."""
        self.stopping = True
        self._inbox.poke()

    def go_on(self) -> None:
        """Let the loop run again, to carry out what is left to do."""
        self.stopping = False
        self.ended = None
        self._ends_at = NEVER
        self._blind = lambda: False  # the end needs no driver, which is not asked any more

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        """Block until something is heard, or ``until``, or for one turn."""
        while self._blind() and not self._ready:
            self._pulse.resting()
            if self.stopping or self.ended is not None or self._clock.now() >= self._ends_at:
                return NEVER, ()
            heard = self._inbox.drain(TURN_MS / 1000)
            if heard and not self.stopping:
                self._pulse.roused()
                now = self._clock.now()
                if seen := [stamped(one, now) for one in self._seen(heard, now)]:
                    return now, seen
            elif heard:
                self._ready.extend(heard)  # the end may want it
        self._pulse.resting()
        now = self._clock.now()
        if self.stopping or self.ended is not None or now >= self._ends_at:
            return NEVER, ()
        first = min(until, self._ends_at, min((lens.due() for lens in self._lenses), default=NEVER))
        waits = 0 if self._ready or first <= now else min(first - now, TURN_MS)
        heard = self._inbox.drain(waits / 1000)
        if self.stopping:
            self._ready.extend(heard)  # the end may want it
            return NEVER, ()
        now = max(now, self._clock.now())
        self._pulse.roused()
        ready, self._ready = self._ready, []
        stimuli = [stamped(one, now) for one in (*ready, *self._seen(heard, now))]
        if stimuli and until <= now and not self._blind():
            stimuli.append(Wake(now))  # a cluster that never falls silent must not keep the timers from running
        return now, stimuli

    def _seen(self, heard: list[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        for lens in self._lenses:
            heard = lens.see(heard, now)
        return heard

    def apply(self, command: Command, now: Millis) -> None:
        """Hand a command on."""
        for lens in self._lenses:
            self._ready.extend(lens.decided(command, now))
        if isinstance(command, StopApplication):
            self.ended = command
        else:
            self._hands.apply(command, now)


def stamped(stimulus: AnyStimulus, now: Millis) -> AnyStimulus:
    """The stimulus as heard at ``now``; times that came with it (of registrations, of tasks) never lie ahead of it."""
    return cast(AnyStimulus, cast(Any, stimulus)._replace(at=now))


class HeadlessLens:
    """Without a driver: a pod that runs is taken for a registered executor, and a lower target for a wish to kill."""

    def __init__(self, config: HeadlessConfig, state: HeadlessState | None = None) -> None:
        self._config = config
        self.state = headless.begin() if state is None else state

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, and what follows from it."""
        step = headless.drive(self.state, heard, self._config, now)
        self.state = step.state
        return [*heard, *step.commands]

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Take note of a decision."""
        step = headless.drive(self.state, (command,), self._config, now)
        self.state = step.state
        return list(step.commands)

    def recall(self, told: Sequence[object], now: Millis) -> None:
        """Go through what was heard and decided before; what follows from it was heard then."""
        self.state = headless.drive(self.state, cast(Any, told), self._config, now).state

    def leaving(self) -> tuple[ExecutorId, ...]:
        """Executors that were told to go, and whose pods are there as far as is known."""
        return tuple(executor for executor, one in self.state.books.executors.items() if one.leaving)

    def due(self) -> Millis:
        """Never: only what is heard matters."""
        return NEVER


class MarkLens:
    """Executor ids are given out once, whoever does it: what was seen on the cluster is never given out again.

    ``last``: the mark that an earlier run left. It stands first of all, and says so once, before anything is decided.
    """

    def __init__(self, last: PodNumber, saw: Callable[[PodNumber], None] = lambda _number: None) -> None:
        """``saw``: told of every id beyond the mark, so that it is remembered when its pod is gone."""
        self._last = last
        self._saw = saw
        self._told = False

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, after the mark that it amounts to."""
        seen: list[AnyStimulus] = []
        for stimulus in heard:
            highest = max(map(_number, getattr(stimulus, "pods", ())), default=PodNumber(0))
            if highest > self._last:
                self._saw(highest)
            if highest > self._last or not self._told:
                self._last = max(self._last, highest)
                self._told = True
                seen.append(Reconciled(now, self._last))
            seen.append(stimulus)
        return seen

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Ids that are given out here are known here."""
        del now
        if isinstance(command, CreatePod):
            self._last = max(self._last, command.executor)
        return []

    def due(self) -> Millis:
        """Never: only what is heard matters."""
        return NEVER


def _number(pod: PodManifest) -> PodNumber:
    return shadowing.number_of(pod) or PodNumber(0)


class ReadableLens:
    """Acting: pods that carry the application's labels and cannot be read as its executors are not shown, and told once.

    In Spark one pod with an executor id that is no number loses the whole list that it is in, and one without a resource
    profile may end the application. Losing the first list here would make every executor a second time, and an id far
    beyond all that were given out would leave none to give. ``last``: the mark of ids; ``tell``: hears which and why.
    """

    def __init__(self, last: PodNumber, tell: Callable[[str], None]) -> None:
        self._last = last
        self._tell = tell
        self._told: set[str] = set()

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, without pods that cannot be read."""
        del now
        return [self._readable(stimulus) for stimulus in heard]

    def _readable(self, stimulus: AnyStimulus) -> AnyStimulus:
        pods: tuple[PodManifest, ...] = getattr(stimulus, "pods", ())
        if not pods or not isinstance(stimulus, PodsUpdated | PodsReplaced | Outcome):
            return stimulus
        good = []
        for pod in pods:
            why = self._wrong(pod)
            if why is None:
                good.append(pod)
            elif pod.name not in self._told and len(self._told) < STRANGERS_MAX:
                self._told.add(pod.name)
                self._tell(f"pod {pod.name[:253]} carries this application's labels and is passed over: {why}")
        return stimulus if len(good) == len(pods) else stimulus._replace(pods=tuple(good))

    def _wrong(self, pod: PodManifest) -> str | None:
        label = pod.labels.get(EXECUTOR_LABEL)
        if label is not None and label != UNNAMED_EXECUTOR:
            number = shadowing.number_of(pod)
            if number is None or number == 0:
                return f"label {EXECUTOR_LABEL} is {label[:63]!r}, an executor id from 1 on was expected"
            if number > self._last + STRANGE_AFTER:
                return f"label {EXECUTOR_LABEL} is {label[:63]!r}; ids up to {self._last} were given out"
            self._last = max(self._last, number)
        profile = pod.labels.get(PROFILE_LABEL, "")
        if not (profile.isascii() and profile.isdigit() and len(profile) <= 10 and int(profile) < 2**31):
            return f"label {PROFILE_LABEL} is {profile[:63]!r}, a resource profile id was expected"
        return None

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Ids that are given out here are known here."""
        del now
        if isinstance(command, CreatePod):
            self._last = max(self._last, command.executor)
        return []

    def due(self) -> Millis:
        """Never: only what is heard matters."""
        return NEVER


def _has_ended(pod: PodManifest) -> bool:
    """Whether the pod's executor does nothing any more: it ended, or its pod is gone."""
    return (pod.phase or "").lower() in ENDED_PHASES or (pod.deleted_at is not None and not pod.phase)


class RegistrationLens:
    """With a driver: an executor whose pod has ended already does not register any more.

    The driver's API is looked at twice a second, the pods are watched. An executor that registers and crashes within half
    a second is heard of in the wrong order: its pod ends, and then it registers. Nobody would take it off the books again.
    """

    def __init__(self) -> None:
        self._ended: OrderedDict[PodNumber, None] = OrderedDict()

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, without such registrations."""
        del now
        shown: list[AnyStimulus] = []
        for stimulus in heard:
            if isinstance(stimulus, PodsUpdated | PodsReplaced | Outcome):
                for pod in stimulus.pods:
                    number = shadowing.number_of(pod)
                    if number is not None and _has_ended(pod):
                        self._ended[number] = None
                        if len(self._ended) > ENDED_MAX:
                            self._ended.popitem(last=False)
            elif isinstance(stimulus, RegisterExecutor) and self._ended:
                executor = stimulus.executor
                if executor.isascii() and executor.isdigit() and len(executor) < 19 and int(executor) in self._ended:
                    continue
            shown.append(stimulus)
        return shown

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Nothing follows from a decision."""
        del command, now
        return []

    def due(self) -> Millis:
        """Never: only what is heard matters."""
        return NEVER


STRANGERS_MAX: Final = 1_000
"""Pods that cannot be read and are told by name."""

STRANGE_AFTER: Final = 1_000_000
"""An executor id so far beyond the mark was not given out by anybody who counts them."""


class GoneLens:
    """After a kill: what went while nobody was there.

    A sensor that has just begun does not know what is missing in its first list. Pods that were there, and pods that were
    created and never seen, are older than that list; those that it does not show are said to be gone, before it, as the
    sensor says it of pods that it knew. Otherwise their executors would stay registered until minutes have passed, and a pod
    that was never seen would be waited for and hold back all others of its profile.

    Creations that were asked for and never answered are answered by that list, too, all at once and without a call: of a
    thousand that were decided most were not begun. None is asked for again, for it may have lived and gone; one that is
    still on its way and arrives after the list is a pod like any other.
    """

    def __init__(self, app_id: str) -> None:
        self._app_id = app_id
        self._open: tuple[CreatePod, ...] = ()
        self._known: dict[PodNumber, PodManifest] = {}

    def expect(
        self, seen: Iterable[Pod], unseen: Mapping[PodNumber, ProfileId], unanswered: Iterable[CreatePod]
    ) -> None:
        """The first list says which of these are there: pods as they were seen last, profiles of others, creations."""
        self._open = tuple(unanswered)
        self._known = {number: self._manifest(number, profile) for number, profile in unseen.items()}
        self._known |= {pod.number: pod.manifest for pod in seen}

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, the first list after the ends of those that it lacks."""
        seen: list[AnyStimulus] = []
        for stimulus in heard:
            if isinstance(stimulus, PodsReplaced) and (self._known or self._open):
                there = {pod.labels.get(EXECUTOR_LABEL) for pod in stimulus.pods}
                gone = [
                    as_deleted(pod, now)._replace(version="")
                    for number, pod in self._known.items()
                    if str(number) not in there
                ]
                if gone:
                    seen.append(PodsUpdated(now, tuple(gone)))
                self._known = {}
                seen.append(stimulus)
                seen.extend(self._answer(one, str(one.executor) in there, now) for one in self._open)
                self._open = ()
                continue
            seen.append(stimulus)
        return seen

    def _answer(self, creation: CreatePod, found: bool, now: Millis) -> Outcome:
        what = f"executor {creation.executor} was asked for before a restart; it is not there, and may have been"
        failure = None if found else CallFailure(None, what, UNKNOWN_OUTCOME)
        return Outcome(now, creation.serial, failure, found=int(found))

    def _manifest(self, number: PodNumber, profile: ProfileId) -> PodManifest:
        labels = {
            APP_LABEL: self._app_id, ROLE_LABEL: EXECUTOR_ROLE, EXECUTOR_LABEL: str(number),
            PROFILE_LABEL: str(profile),
        }  # fmt: skip
        return PodManifest(f"exec-{number}", labels)

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Decisions tell nothing of what was there before."""
        del command, now
        return []

    def due(self) -> Millis:
        """Never: only what is heard matters."""
        return NEVER


class AdoptLens:
    """Where nobody has said yet how many executors are wanted: those that the first list shows are."""

    def __init__(self) -> None:
        self._listed = False

    def recall(self) -> None:
        """Somebody said it already: this run goes on with an earlier one."""
        self._listed = True

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, the first list after the targets that it amounts to."""
        if self._listed:
            return list(heard)
        seen: list[AnyStimulus] = []
        for stimulus in heard:
            if isinstance(stimulus, PodsReplaced) and not self._listed:
                self._listed = True
                seen.extend(following.follow(following.begin(), (stimulus,), now).commands)
            seen.append(stimulus)
        return seen

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Decisions tell nothing of what is wanted."""
        del command, now
        return []

    def due(self) -> Millis:
        """Never: only what is heard matters."""
        return NEVER


class FollowLens:
    """Beside Spark without its driver: what its pods tell of its targets. It stands before the shadow's lens."""

    def __init__(self) -> None:
        self._state = following.begin()

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, each thing after the target that it tells of."""
        seen: list[AnyStimulus] = []
        for stimulus in heard:
            if isinstance(stimulus, PodsUpdated | PodsReplaced | Outcome):
                step = following.follow(self._state, (stimulus,), now)
                self._state = step.state
                seen.extend(step.commands)
            seen.append(stimulus)
        return seen

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Decisions tell nothing of what Spark wants."""
        del command, now
        return []

    def due(self) -> Millis:
        """Never: only what is heard matters."""
        return NEVER


class ShadowLens:
    """Beside Spark: its pods are shown once the shadow has decided to create them. ``tell`` hears where the two part."""

    def __init__(self, config: ShadowConfig, tell: Callable[[Difference | Same], None]) -> None:
        self._config = config
        self._tell = tell
        self.state: ShadowState = shadowing.begin()

    def see(self, heard: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What may be seen of what was heard."""
        shown: list[AnyStimulus] = []
        for stimulus in heard:
            if isinstance(stimulus, PodsUpdated | PodsReplaced | Outcome):
                shown.extend(self._follow(stimulus, now))
            else:
                shown.append(stimulus)
        if self.due() <= now:
            shown.extend(self._follow(Wake(now), now))
        return shown

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Compare a decision with what Spark did, or wait for it to do the same."""
        if isinstance(command, CreatePod | DeletePod | DeletePods | Kill | Decommission):
            return self._follow(command, now)
        return []

    def due(self) -> Millis:
        """When patience next ends."""
        return shadowing.due(self.state, self._config)

    def _follow(self, item: Any, now: Millis) -> list[AnyStimulus]:
        step = shadowing.follow(self.state, (item,), self._config, now)
        self.state = step.state
        shown: list[AnyStimulus] = []
        for said in step.commands:
            if isinstance(said, Difference | Same):
                self._tell(said)
            else:
                shown.append(said)
        return shown


class ShadowHands:
    """Reads what the core asks to be read, and answers everything else as done: nothing is ever written."""

    def __init__(self, reader: Actuator, lister: Callable[[int, str | None], None], hear: Hear) -> None:
        self._reader = reader
        self._lister = lister
        self._hear = hear

    def apply(self, command: Command, now: Millis) -> None:
        """Read, or answer at once."""
        if isinstance(command, ListPods):
            self._lister(command.serial, command.resource_version)
        elif isinstance(command, ListClaims | GetDriverPod | AwaitDriverReady):
            self._reader.apply(command)
        elif (serial := getattr(command, "serial", None)) is not None:
            self._hear(Outcome(now, serial))


class Ids(Protocol):
    """The mark of executor ids that is kept on the cluster."""

    @property
    def reserved(self) -> int:
        """Ids up to this one are marked as given out."""
        ...

    def reserve(self, last: int) -> bool:
        """Make sure that ids up to this one are marked; False if that could not be done in time. May block for seconds."""
        ...


STOP_WITHIN_S: Final = 10.0
"""How long the thread that marks ids is waited for: one attempt to mark takes five seconds."""


MARK_AGAIN_S: Final = 0.2


class ActingHands:
    """The actuator, behind the mark of executor ids: no pod is asked for before its id is on the cluster.

    Ids are marked in blocks, so most creations go straight on. Those whose block is not marked yet wait in a queue that a
    thread of its own works off (``start``, ``stop``); the loop never waits. ``asked``: told the number of every executor
    whose pod is asked for.
    """

    def __init__(
        self,
        actuator: Actuator,
        lister: Callable[[int, str | None], None],
        ids: Ids,
        hear: Hear,
        asked: Callable[[PodNumber], None],
        clock: Clock,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """``pause``: lets seconds pass between attempts; without one real ones, cut short by ``stop``."""
        self._actuator = actuator
        self._lister = lister
        self._ids = ids
        self._hear = hear
        self._asked = asked
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[CreatePod] = deque()
        self._news = threading.Event()
        self._ended = threading.Event()
        self._pause = pause or self._ended.wait
        self._thread: threading.Thread | None = None

    def apply(self, command: Command, now: Millis) -> None:
        """Begin to carry a command out."""
        del now
        if isinstance(command, ListPods):
            self._lister(command.serial, command.resource_version)
        elif isinstance(command, CreatePod):
            self._create(command)
        elif not isinstance(command, RequestTotal | Kill | Decommission):  # answered inside, by the scheduler backend
            self._actuator.apply(command)

    def _create(self, command: CreatePod) -> None:
        with self._lock:
            if self._waiting or command.executor > self._ids.reserved:
                self._waiting.append(command)
                self._news.set()
                return
        self._ask(command)

    def _ask(self, command: CreatePod) -> None:
        self._asked(command.executor)
        self._actuator.apply(command)

    def start(self) -> None:
        """Begin to work the queue off."""
        self._thread = threading.Thread(target=self._run, name="podtide-ids", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Mark nothing more. What still waits is never asked for, and never answered."""
        self._ended.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(STOP_WITHIN_S)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._news.wait()
            self._news.clear()
            try:
                self.turn()
            except Exception:  # a thread that dies here would leave every creation unanswered
                self._pause(MARK_AGAIN_S)
                self._news.set()

    def turn(self) -> None:
        """Work the queue off, as far as ids can be marked."""
        while self._waiting and not self._ended.is_set():
            first = self._waiting[0]
            if first.executor > ID_MAX:
                failure = CallFailure(
                    None, f"executor id {first.executor} is beyond {ID_MAX}: none are left to give out"
                )
                with self._lock:
                    self._waiting.popleft()
                self._hear(Outcome(0, first.serial, failure))
            elif self._ids.reserve(first.executor):
                with self._lock:
                    self._waiting.popleft()
                self._ask(first)
            else:
                # The server is away, or the lease is lost, which ends the run. Neither is a failure of this executor.
                self._pause(MARK_AGAIN_S)
