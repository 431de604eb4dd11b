"""Stimulus filters of a live run: what stands between the inbox and the engine, and changes what the engine hears.

In the order in which they stand. Acting: pods that cannot be read are passed over (``ReadableFilter``), ids that were
given out are never given out again (``MarkFilter``). With a driver: registrations that come too late
(``RegistrationFilter``). Without one: what is there is wanted until somebody says otherwise (``AdoptFilter``), what went
while nobody was there is gone (``GoneFilter``), running pods register and a lower target kills (``HeadlessFilter``). In
shadow: Spark's pods are its targets (``FollowFilter``), and are shown once the shadow has decided them
(``ShadowFilter``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.live import headless, observed_targets as following, shadow as shadowing
from podtide.domain.live.headless import HeadlessConfig, HeadlessState
from podtide.domain.live.shadow import Difference, Same, ShadowConfig, ShadowState
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Decommission, Kill
from podtide.domain.protocol.executor_stimuli import RegisterExecutor, Wake
from podtide.domain.protocol.pod_commands import CreatePod, DeletePod, DeletePods
from podtide.domain.protocol.pod_stimuli import (
    UNKNOWN_OUTCOME,
    CallFailure,
    Outcome,
    PodsReplaced,
    PodsUpdated,
    Reconciled,
)
from podtide.domain.protocol.pods import (
    APP_LABEL,
    EXECUTOR_LABEL,
    EXECUTOR_ROLE,
    PROFILE_LABEL,
    ROLE_LABEL,
    UNNAMED_EXECUTOR,
    Pod,
    PodManifest,
    PodNumber,
    as_deleted,
    pod_number,
)

ENDED_PHASES: Final = frozenset({"succeeded", "failed"})
"""Phases, in lower case, after which a pod's executor does nothing any more."""

ENDED_MAX: Final = 65_536
"""Executors whose pods have ended that are remembered: far more than can end between two looks at the driver."""


STRANGERS_MAX: Final = 1_000
"""Pods that cannot be read and are told by name."""

STRANGE_AFTER: Final = 1_000_000
"""An executor id so far beyond the mark was not given out by anybody who counts them."""


class InputFilter:
    """What a filter does that only looks at what is heard: nothing follows from decisions, and no time is waited for."""

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Nothing follows from a decision."""
        del command, now
        return []

    def due(self) -> Millis:
        """Never: only what is heard matters."""
        return NEVER


class CountingFilter(InputFilter):
    """One that knows which executor ids were given out. ``last``: the mark that an earlier run left."""

    def __init__(self, last: PodNumber) -> None:
        self._last = last

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Ids that are given out here are known here."""
        if isinstance(command, CreatePod):
            self._last = max(self._last, command.executor)
        return super().decided(command, now)


class HeadlessFilter(InputFilter):
    """Without a driver: a pod that runs is taken for a registered executor, and a lower target for a wish to kill."""

    def __init__(self, config: HeadlessConfig, state: HeadlessState | None = None) -> None:
        self._config = config
        self.state = headless.begin() if state is None else state

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, and what follows from it."""
        # Live is Kubernetes alone.
        step = headless.drive(self.state, cast(Sequence[headless.HeadlessInput], stimuli), self._config, now)
        self.state = step.state
        return [*stimuli, *step.commands]

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Take note of a decision."""
        step = headless.drive(self.state, (command,), self._config, now)
        self.state = step.state
        return list(step.commands)

    def recall(self, inputs: Sequence[object], now: Millis) -> None:
        """Go through what was heard and decided before; what follows from it was heard then."""
        self.state = headless.drive(self.state, cast(Any, inputs), self._config, now).state

    def leaving(self) -> tuple[ExecutorId, ...]:
        """Executors that were told to go, and whose pods are there as far as is known."""
        return tuple(executor for executor, one in self.state.executors().items() if one.leaving)


class MarkFilter(CountingFilter):
    """Executor ids are given out once, whoever does it: what was seen on the cluster is never given out again.

    ``last``: the mark that an earlier run left. It stands first of all, and says so once, before anything is decided.
    """

    def __init__(self, last: PodNumber, saw: Callable[[PodNumber], None] = lambda _number: None) -> None:
        """``saw``: told of every id beyond the mark, so that it is remembered when its pod is gone."""
        super().__init__(last)
        self._saw = saw
        self._mark_sent = False

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, after the mark that it amounts to."""
        seen: list[AnyStimulus] = []
        for stimulus in stimuli:
            highest = max(map(_number, getattr(stimulus, "pods", ())), default=PodNumber(0))
            if highest > self._last:
                self._saw(highest)
            if highest > self._last or not self._mark_sent:
                self._last = max(self._last, highest)
                self._mark_sent = True
                seen.append(Reconciled(now, self._last))
            seen.append(stimulus)
        return seen


def _number(pod: PodManifest) -> PodNumber:
    return shadowing.number_of(pod) or PodNumber(0)


class ReadableFilter(CountingFilter):
    """Acting: pods that carry the application's labels and cannot be read as its executors are not shown, and told once.

    In Spark one pod with an executor id that is no number loses the whole list that it is in, and one without a resource
    profile may end the application. Losing the first list here would make every executor a second time, and an id far
    beyond all that were given out would leave none to give. ``last``: the mark of ids; ``tell``: hears which and why.
    """

    def __init__(self, last: PodNumber, tell: Callable[[str], None]) -> None:
        super().__init__(last)
        self._tell = tell
        self._strangers: set[str] = set()

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, without pods that cannot be read."""
        del now
        return [self._readable(stimulus) for stimulus in stimuli]

    def _readable(self, stimulus: AnyStimulus) -> AnyStimulus:
        pods: tuple[PodManifest, ...] = getattr(stimulus, "pods", ())
        if not pods or not isinstance(stimulus, PodsUpdated | PodsReplaced | Outcome):
            return stimulus
        good = []
        for pod in pods:
            why = self._wrong(pod)
            if why is None:
                good.append(pod)
            elif pod.name not in self._strangers and len(self._strangers) < STRANGERS_MAX:
                self._strangers.add(pod.name)
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


def _has_ended(pod: PodManifest) -> bool:
    """Whether the pod's executor does nothing any more: it ended, or its pod is gone."""
    return (pod.phase or "").lower() in ENDED_PHASES or (pod.deleted_at is not None and not pod.phase)


class RegistrationFilter(InputFilter):
    """With a driver: an executor whose pod has ended already does not register any more.

    The driver's API is looked at twice a second, the pods are watched. An executor that registers and crashes within half
    a second is heard of in the wrong order: its pod ends, and then it registers. Nobody would take it off the books again.
    """

    def __init__(self) -> None:
        self._ended: OrderedDict[PodNumber, None] = OrderedDict()

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, without such registrations."""
        del now
        shown: list[AnyStimulus] = []
        for stimulus in stimuli:
            if isinstance(stimulus, PodsUpdated | PodsReplaced | Outcome):
                for pod in stimulus.pods:
                    number = shadowing.number_of(pod)
                    if number is not None and _has_ended(pod):
                        self._ended[number] = None
                        if len(self._ended) > ENDED_MAX:
                            self._ended.popitem(last=False)
            elif isinstance(stimulus, RegisterExecutor) and pod_number(stimulus.executor) in self._ended:
                continue
            shown.append(stimulus)
        return shown


class GoneFilter(InputFilter):
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

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, the first list after the ends of those that it lacks."""
        seen: list[AnyStimulus] = []
        for stimulus in stimuli:
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


class AdoptFilter(InputFilter):
    """Where nobody has said yet how many executors are wanted: those that the first list shows are."""

    def __init__(self) -> None:
        self._listed = False

    def recall(self) -> None:
        """Somebody said it already: this run goes on with an earlier one."""
        self._listed = True

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, the first list after the targets that it amounts to."""
        if self._listed:
            return list(stimuli)
        seen: list[AnyStimulus] = []
        for stimulus in stimuli:
            if isinstance(stimulus, PodsReplaced) and not self._listed:
                self._listed = True
                seen.extend(following.follow(following.begin(), (stimulus,), now).commands)
            seen.append(stimulus)
        return seen


class FollowFilter(InputFilter):
    """Beside Spark without its driver: what its pods tell of its targets. It stands before the filter of the shadow."""

    def __init__(self) -> None:
        self._state = following.begin()

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What was heard, each thing after the target that it tells of."""
        seen: list[AnyStimulus] = []
        for stimulus in stimuli:
            if isinstance(stimulus, PodsUpdated | PodsReplaced | Outcome):
                step = following.follow(self._state, (stimulus,), now)
                self._state = step.state
                seen.extend(step.commands)
            seen.append(stimulus)
        return seen


class ShadowFilter:
    """Beside Spark: its pods are shown once the shadow has decided to create them. ``tell`` hears where the two part."""

    def __init__(self, config: ShadowConfig, tell: Callable[[Difference | Same], None]) -> None:
        self._config = config
        self._tell = tell
        self.state: ShadowState = shadowing.begin()

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What may be seen of what was heard."""
        shown: list[AnyStimulus] = []
        for stimulus in stimuli:
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
        for command in step.commands:
            if isinstance(command, Difference | Same):
                self._tell(command)
            else:
                shown.append(command)
        return shown
