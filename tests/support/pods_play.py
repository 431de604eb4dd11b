"""A small cluster and the pods allocator beside it, to play a story on: the fake that the allocator's tests share.

``Api`` is an API server that keeps claims and answers as the test tells it to, or keeps silent until the test answers.
``PodsPlay`` holds the allocator's state, feeds it inputs and the answers to what it asks for, and queues what a watch
would show until the next delivery, as the snapshots store does. Its verbs are what happens to executor pods: they turn
pending, run, fail and go; executors register and leave; targets change; time passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.instants import format_instant, java_instant
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.allocator import allocator as allocation
from podtide.domain.kubernetes.allocator.state import AllocatorCommand, AllocatorInput, AllocatorState, RecoveryNeeded
from podtide.domain.protocol import executor_stimuli as es, pod_commands as pc, pod_stimuli as ps
from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.pods import (
    APP_LABEL,
    EXECUTOR_LABEL,
    EXECUTOR_ROLE,
    PROFILE_LABEL,
    ROLE_LABEL,
    PodManifest,
    PodNumber,
    PodRules,
    Snapshot,
)
from podtide.domain.protocol.reasons import Bound, Held, Phase, Remark, Threw

RULES = PodRules()
SECOND = 1_000
IDLE = 60 * SECOND
TIMEOUT = 600 * SECOND
FORBIDDEN = ps.CallFailure(403, "forbidden")
NOT_FOUND = ps.CallFailure(404, "not found")

C = TypeVar("C")


@dataclass
class Api:
    """What the API server answers, from now on.

    ``silent``: nothing, the test does that. ``refused_pods``: executors whose pod cannot be created (True: none can).
    ``refused_claims``: claims that cannot be. Claims that are created or listed are in ``claims``.
    """

    silent: bool = False
    driver: ps.CallFailure | None = None
    refused_pods: frozenset[int] | bool = frozenset()
    refused_claims: frozenset[str] | bool = frozenset()
    deletes: ps.CallFailure | None = None
    listing: ps.CallFailure | None = None
    claims: dict[str, ps.Claim] = field(default_factory=dict)

    def answer(self, command: AllocatorCommand, now: Millis) -> ps.Outcome | None:
        """What comes back for a command; None if it is not for the API server, or that is silent."""
        if self.silent:
            return None
        match command:
            case pc.CreatePod():
                refused = _is_in(command.executor, self.refused_pods)
                return ps.Outcome(now, command.serial, FORBIDDEN if refused else None)
            case pc.CreateClaim():
                claim = command.claim
                if _is_in(claim.name, self.refused_claims):
                    return ps.Outcome(now, command.serial, FORBIDDEN)
                self.claims[claim.name] = ps.Claim(claim.name, claim.storage_class, claim.size, format_instant(now))
                return ps.Outcome(now, command.serial)
            case pc.DeletePods() | pc.DeletePod():
                return ps.Outcome(now, command.serial, self.deletes)
            case pc.ListClaims():
                listed = () if self.listing else tuple(self.claims.values())
                return ps.Outcome(now, command.serial, self.listing, claims=listed)
            case pc.GetDriverPod():
                return ps.Outcome(now, command.serial, self.driver)
            case pc.AwaitDriverReady():
                return ps.Outcome(now, command.serial)
            case _:
                return None


def _is_in(name: object, refused: frozenset[int] | frozenset[str] | bool) -> bool:
    return refused if isinstance(refused, bool) else name in refused


def manifest(
    number: int, phase: str = "Running", profile: object = 0, created_at: Millis | str | None = 0, *,
    claims: Iterable[str] = (), has_spec: bool = True, deleted_at: str | None = None, version: str = "",
) -> PodManifest:  # fmt: skip
    """An executor pod. ``profile`` None: without the label. ``created_at``: a time, or the API's text."""
    labels = {EXECUTOR_LABEL: str(number), APP_LABEL: "app-1", ROLE_LABEL: EXECUTOR_ROLE}
    if profile is not None:
        labels[PROFILE_LABEL] = str(profile)
    created = java_instant(created_at) if isinstance(created_at, int) else created_at
    return PodManifest(
        f"exec-{number}", labels, created, deleted_at, claims=tuple(claims), phase=phase, has_spec=has_spec,
        version=version, uid=f"uid-{number}" if version else "",
    )  # fmt: skip


class PodsPlay:
    """One application under way. ``now`` is the time at which the next thing happens.

    ``prompt``: subscribers that are to be notified are, at once, with what is queued (as in Spark's own suite).
    """

    def __init__(
        self, config: AllocationConfig | None = None, api: Api | None = None, *, now: Millis = 0, prompt: bool = True
    ) -> None:
        self.config = config or AllocationConfig()
        self.api = api or Api()
        self.now = now
        self.prompt = prompt
        self.commands: list[AllocatorCommand] = []
        self.reports: list[Report] = []
        self.notified = 0
        self.view = snapshots.empty()
        self.queue: list[Snapshot] = []
        self.state: AllocatorState = allocation.begin(self.config)
        self.feed(es.Starting(now))

    # What happens.

    def feed(self, *items: AllocatorInput) -> None:
        """Take inputs one by one, and the API server's answers to what they lead to."""
        for item in items:
            step = allocation.allocate(self.state, (item,), self.config, self.now)
            self.state = step.state
            self.reports.extend(step.reports)
            for command in step.commands:
                self.commands.append(command)
                if isinstance(command, pc.NotifySubscribers):
                    self.notified += 1
                    if self.prompt:
                        self.deliver()
                outcome = self.api.answer(command, self.now)
                if outcome is not None:
                    self.feed(outcome)

    def want(self, *targets: int, after: Millis = 0, **named: int) -> None:
        """Set targets: of the profiles 0, 1, ... in order, or ``p7=3`` for profile 7."""
        self.now += after
        pairs = [(ProfileId(profile), target) for profile, target in enumerate(targets)]
        pairs += [(ProfileId(int(name[1:])), target) for name, target in named.items()]
        self.feed(es.TargetsSet(self.now, tuple(pairs)))

    def deliver(self, after: Millis = 0) -> list[AllocatorCommand]:
        """Let time pass, then deliver what is queued; returns what was said to it."""
        self.now += after
        queued, self.queue = tuple(self.queue), []
        said = len(self.commands)
        self.feed(pc.Deliver(self.now, "allocator", queued))
        return self.commands[said:]

    def show(self, *pods: PodManifest) -> None:
        """A watch shows pods: each is a snapshot of its own."""
        for pod in pods:
            taken = snapshots.update(self.view, pod, RULES)
            assert not isinstance(taken, SparkFault), taken
            self.view = taken.view
            self.queue.append(taken.snapshot)

    def list_pods(self, *pods: PodManifest) -> None:
        """A full list comes in."""
        taken = snapshots.replace(self.view, pods, RULES, self.now)
        assert not isinstance(taken, SparkFault), taken
        self.view = taken.view
        self.queue.append(taken.snapshot)

    def turn(self, phase: str, *numbers: int) -> None:
        """The watch shows these pods in a phase; a pod that was asked for here keeps profile and creation time."""
        for number in numbers:
            made = next((c for c in self.said(pc.CreatePod) if c.executor == number), None)
            profile, at = (made.profile, made.at) if made is not None else (0, self.now)
            self.show(manifest(number, phase, profile, at, claims=made.claims if made is not None else ()))

    def pending(self, *numbers: int) -> None:
        """Pods are pending."""
        self.turn("Pending", *numbers)

    def running(self, *numbers: int) -> None:
        """Pods run."""
        self.turn("Running", *numbers)

    def failed(self, *numbers: int) -> None:
        """Pods failed."""
        self.turn("Failed", *numbers)

    def lose(self, *numbers: int) -> None:
        """A full list no longer has these pods."""
        self.list_pods(*(pod.manifest for pod in self.view.pods() if pod.number not in numbers))

    def know(self, *numbers: int) -> None:
        """Executors register."""
        self.feed(ps.KnownExecutors(self.now, tuple((PodNumber(n), self.now) for n in numbers)))

    def unknow(self, *numbers: int) -> None:
        """Executors are removed from the scheduler."""
        self.feed(ps.KnownExecutors(self.now, (), tuple(map(PodNumber, numbers))))

    def recover(self) -> None:
        """An executor died for lack of memory."""
        self.feed(RecoveryNeeded(self.now))

    def stop(self) -> None:
        """The backend stops the allocator."""
        self.feed(es.Stopping(self.now))

    def answer(self, command: object, failure: ps.CallFailure | None = None, claims: Iterable[ps.Claim] = ()) -> None:
        """A call comes back, from a silent API server."""
        self.feed(ps.Outcome(self.now, command.serial, failure, tuple(claims)))  # type: ignore[attr-defined]

    # What was said.

    def said(self, kind: type[C]) -> list[C]:
        """All commands of a kind so far."""
        return [command for command in self.commands if isinstance(command, kind)]

    def last(self, kind: type[C]) -> C:
        """The last command of a kind."""
        return self.said(kind)[-1]

    @property
    def asked(self) -> list[int]:
        """The executors whose pods were asked for so far, in order."""
        return [command.executor for command in self.said(pc.CreatePod)]

    @property
    def asked_by_profile(self) -> dict[int, list[int]]:
        """The same, by profile."""
        found: dict[int, list[int]] = {}
        for command in self.said(pc.CreatePod):
            found.setdefault(command.profile, []).append(command.executor)
        return found

    @property
    def deletes(self) -> list[list[int]]:
        """The executors of every delete by label so far."""
        return [[int(number) for number in command.executors or ()] for command in self.said(pc.DeletePods)]

    def deleted(self, *numbers: int) -> list[bool]:
        """isDeleted of executors."""
        return [allocation.is_deleted(self.state, PodNumber(number)) for number in numbers]

    @property
    def outstanding(self) -> int:
        """numOutstandingPods."""
        return self.state.outstanding

    @property
    def created(self) -> list[int]:
        """newlyCreatedExecutors."""
        return [number for number, _ in self.state.fleet.created()]

    @property
    def joined(self) -> list[int]:
        """schedulerKnownNewlyCreatedExecs."""
        return [number for number, _ in self.state.fleet.joined()]

    def held(self) -> list[tuple[Phase, Bound, int, dict[str, object]]]:
        """All that was reported as held back so far: phase, bound, profile, facts."""
        return [(r.phase, r.bound, r.profile, dict(r.facts)) for r in self.reports if isinstance(r, Held)]

    def holding(self) -> dict[tuple[int, Bound], dict[str, object]]:
        """What holds back now, by profile and bound."""
        return {key: dict(facts) for key, facts in self.state.holds.items()}

    def threw(self) -> list[tuple[str, bool]]:
        """The exceptions in which rounds ended, and whether each ends the driver."""
        return [(report.what, report.fatal) for report in self.reports if isinstance(report, Threw)]

    def remarks(self, topic: str) -> list[dict[str, object]]:
        """The facts of every remark on a topic."""
        return [dict(r.facts) for r in self.reports if isinstance(r, Remark) and r.topic == topic]
