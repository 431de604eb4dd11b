"""A whole application and the smallest cluster beside it: the fake that the tests of the composed engine share.

``AppPlay`` holds the state, feeds it stimuli, answers every call at once as ``Answers`` says (or leaves that to the test),
wakes it whenever it says that it is due, and keeps all that it said with the time. Its verbs are what happens: pods show,
executors register, time passes, targets change. No world model, no chance: what is not said does not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from podtide.domain import engine
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.kubernetes.side import KubernetesState
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.cluster_config import (
    AllocationConfig,
    BackendConfig,
    KubernetesConfig,
    LifecycleConfig,
    ReplicasConfig,
    SourcesConfig,
)
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, Step
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_commands import AnswerRegistration, RemoveExecutor
from podtide.domain.protocol.executor_stimuli import KillRequested, RegisterExecutor, TargetsSet, Wake
from podtide.domain.protocol.pod_commands import CreatePod, DeletePods
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome, PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import PodManifest
from podtide.domain.protocol.reasons import Threw
from tests.support.pods_play import manifest

S = 1_000
C = TypeVar("C")

REFUSED = CallFailure(403, "forbidden")


def config(
    *, dynamic: bool = False, allocator: str = "direct", scaling: ScalingConfig | None = None, initial: int = 0,
    poll: bool = False, driver_pod: str | None = None, remarks: bool = False, failures_max: int = 3,
    backend: dict[str, Any] | None = None, allocation: dict[str, Any] | None = None, **parts: Any,
) -> EngineConfig:  # fmt: skip
    """A configuration as Spark's settings make it: what two machines are told, both are told."""
    kind = allocator if allocator != "direct" else None
    side = KubernetesConfig(
        allocation=AllocationConfig(dynamic=dynamic, driver_pod=driver_pod, remarks=remarks, **(allocation or {})),
        lifecycle=LifecycleConfig(failures_max=failures_max, remarks=remarks),
        backend=BackendConfig(
            app_id="app", allocator=allocator, executors_initial=initial, config_map=False, remarks=remarks,
            **(backend or {}),
        ),
        sources=SourcesConfig(poll=poll),
        replicas=None if kind is None else ReplicasConfig(kind, "app", driver_pod=driver_pod, remarks=remarks),
    )  # fmt: skip
    asked = scaling or ScalingConfig(executors_initial=initial, idle_timeout_ms=60 * S, shuffle_tracking=False)
    return EngineConfig(asked, replace(side, **parts), dynamic)


@dataclass
class Answers:
    """How calls are answered, from now on. ``silent``: kinds of commands that are not; ``failing``: those that fail."""

    silent: tuple[type, ...] = ()
    failing: tuple[type, ...] = ()
    failure: CallFailure = REFUSED
    pods: dict[int, PodManifest] = field(default_factory=dict)

    def to(self, command: Any, now: Millis) -> Outcome | None:
        """The outcome of a command; None where nobody answers."""
        serial = getattr(command, "serial", None)
        if serial is None or isinstance(command, (*self.silent, RequestTotal, Kill, Decommission)):
            return None
        if isinstance(command, self.failing):
            return Outcome(now, serial, self.failure)
        return Outcome(now, serial, pods=tuple(self.pods.values()))


class Answering(Protocol):
    """The world beside an application, as far as it answers."""

    def to(self, command: Any, now: Millis) -> AnyStimulus | None:
        """The answer to a command; None where there is none."""


A = TypeVar("A", bound=Answering)


class EnginePlay(Generic[A]):
    """One application under way on any cluster manager. ``now`` is the time at which the next thing happens."""

    def __init__(self, config: EngineConfig, answers: A, now: Millis = 0) -> None:
        self.config = config
        self.answers = answers
        self.now = now
        self.said: list[tuple[Millis, Command]] = []
        self.reports: list[Report] = []
        self._keep(engine.launch(config, now))

    def feed(self, *stimuli: AnyStimulus) -> list[Command]:
        """Take stimuli in one step, and all answers to what it leads to; returns what was said to it."""
        before = len(self.said)
        self._keep(engine.advance(self.state, stimuli, self.config, self.now))
        return [command for _, command in self.said[before:]]

    def _keep(self, step: Step[EngineState, Command]) -> None:
        self.state = step.state
        self.reports.extend(step.reports)
        for command in step.commands:
            self.said.append((self.now, command))
        for command in step.commands:
            answer = self.answers.to(command, self.now)
            if answer is not None:
                self.feed(answer)

    def until(self, end: Millis) -> Self:
        """Let time pass up to and including ``end``, waking whatever is due."""
        while (due := max(self.due, self.now)) <= end:
            woken = self.now == due
            self.now = due
            self.feed(Wake(due))
            if woken and self.due <= due:
                raise AssertionError(f"still due at {due} after it was woken")
        self.now = max(self.now, end)
        return self

    def wait(self, span: Millis) -> Self:
        """Let time pass."""
        return self.until(self.now + span)

    @property
    def due(self) -> Millis:
        """When it wants to be woken."""
        return engine.wake_due(self.state, self.config)

    def all(self, kind: type[C]) -> list[C]:
        """All commands of a kind so far."""
        return [command for _, command in self.said if isinstance(command, kind)]

    def times(self, kind: type[Any]) -> list[Millis]:
        """When they were said."""
        return [at for at, command in self.said if isinstance(command, kind)]


class AppPlay(EnginePlay[Answers]):
    """One application on Kubernetes."""

    def __init__(self, config: EngineConfig, answers: Answers | None = None, *, now: Millis = 0) -> None:
        super().__init__(config, answers or Answers(), now)

    @property
    def side(self) -> KubernetesState:
        """The Kubernetes side's state."""
        assert self.state.kubernetes is not None
        return self.state.kubernetes

    # What happens.

    def want(self, *targets: int, **named: int) -> None:
        """Set targets of the profiles 0, 1, ..., or ``p7=3`` of profile 7."""
        pairs = [(ProfileId(profile), target) for profile, target in enumerate(targets)]
        pairs += [(ProfileId(int(name[1:])), target) for name, target in named.items()]
        self.feed(TargetsSet(self.now, tuple(pairs)))

    def show(self, phase: str, *numbers: int, **settings: Any) -> None:
        """The watch shows these pods in a phase."""
        made = {int(c.executor): c for c in self.all(CreatePod)}
        pods = []
        for number in numbers:
            profile, at = (made[number].profile, made[number].at) if number in made else (DEFAULT_PROFILE, self.now)
            pods.append(manifest(number, phase, settings.get("profile", profile), at, **_without(settings, "profile")))
        self.feed(PodsUpdated(self.now, tuple(pods)))

    def show_all(self, phase: str, *numbers: int) -> None:
        """A full list shows exactly these pods, all in one phase."""
        self.feed(PodsReplaced(self.now, tuple(manifest(number, phase) for number in numbers)))

    def register(self, *numbers: int, profile: int = 0) -> None:
        """Executors register."""
        for number in numbers:
            self.feed(
                RegisterExecutor(self.now, ExecutorId(str(number)), ProfileId(profile), f"host-{number}", f"a{number}")
            )

    def up(self, *numbers: int) -> None:
        """Pods run and their executors register."""
        self.show("Running", *numbers)
        self.register(*numbers)

    def kill(self, *numbers: int, **how: Any) -> list[Command]:
        """The application asks for executors to be killed."""
        return self.feed(KillRequested(self.now, tuple(ExecutorId(str(number)) for number in numbers), **how))

    # What was said.

    @property
    def created(self) -> list[int]:
        """The executors whose pods were asked for so far, in order."""
        return [int(command.executor) for command in self.all(CreatePod)]

    @property
    def removed(self) -> dict[str, str]:
        """Executors that the driver was told are gone, and the cause of the first time."""
        found: dict[str, str] = {}
        for command in self.all(RemoveExecutor):
            found.setdefault(command.executor, command.why.cause.value)
        return found

    @property
    def accepted(self) -> dict[str, bool]:
        """Executors that asked to be registered, and the last answer."""
        return {command.executor: command.accepted for command in self.all(AnswerRegistration)}

    @property
    def deleted(self) -> list[tuple[Millis, tuple[int, ...], str | None]]:
        """Deletes by label: when, whom, in which phase."""
        return [
            (at, tuple(int(e) for e in command.executors or ()), command.phase)
            for at, command in self.said
            if isinstance(command, DeletePods)
        ]

    @property
    def registered(self) -> set[str]:
        """The executors that the backend holds for registered."""
        return set(self.side.backend.registry.executors)

    def threw(self) -> list[tuple[str, str]]:
        """Rounds that ended in an exception: whose, and which."""
        return [(report.machine, report.what) for report in self.reports if isinstance(report, Threw)]


def _without(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def serials(commands: Iterable[Command]) -> list[int]:
    """The serials of calls, dynamic allocation's questions left out."""
    calls = (c for c in commands if not isinstance(c, RequestTotal | Kill | Decommission))
    return [serial for c in calls if (serial := getattr(c, "serial", None)) is not None]


def decisions(play: AppPlay, of: Callable[[Command], bool] = lambda _: True) -> list[tuple[Millis, str]]:
    """What was decided, in comparable form: times and commands, serials left out."""
    return [
        (at, repr(replace(cast(Any, command), serial=0) if hasattr(command, "serial") else command))
        for at, command in play.said
        if of(command)
    ]


__all__ = [
    "NEVER",
    "REFUSED",
    "Answers",
    "AppPlay",
    "S",
    "config",
    "decisions",
    "manifest",
    "serials",
]
