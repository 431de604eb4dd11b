"""The history of one executor on YARN, and of the container in which it ran, gathered from a recording.

What belongs to it is kept, in order: that containers were asked for, why, where and as one of how many; when the resource
manager gave this one, on which host; which request it took, and whether by host, by rack or anywhere; its launch; that the
executor registered, was let go or lost; that the container completed, with which status, and whether Spark counts that as a
failure. Between these lies waiting: the stages, each with how long it took. The books are those of the application master's
allocator and of the driver.

An executor has an id from the moment its container is matched, so what came before is remembered of every container on its
way until it is launched or given back. Instead of the executor its container may be named; a container that was given back
without an executor has a history, too.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from podtide.adapters.recording.codec import RecordedStimulus, decided_record
from podtide.adapters.recording.reader import RecordedStep
from podtide.adapters.recording.records.codec import Plain
from podtide.adapters.views.explain.executor import (
    GONE,
    LEAVING,
    REGISTERED,
    ExecutorHistory,
    flag_words,
    registry_flags,
)
from podtide.adapters.views.stats.yarn import nearness
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol import (
    executor_commands as ec,
    executor_stimuli as es,
    pod_commands as pc,
    pod_stimuli as ps,
    yarn_messages as ym,
)
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.completions import judge
from podtide.domain.protocol.container_requests import Layout
from podtide.domain.protocol.containers import Completion, Container
from podtide.domain.protocol.pods import PodNumber, PodRules

WAITING: Final = "requested, not given"
LAUNCHING: Final = "given, being launched"
STARTING: Final = "launched, not registered"
UNWANTED: Final = "given back, no executor was started in it"

CONTAINER_WAITS: Final = {
    WAITING: "the resource manager does not say what a request waits for: room, the queue's share or its turn",
    LAUNCHING: "the node manager starts the container: it fetches what the executor needs first",
    STARTING: "the executor's process started, and had not reached the driver",
}
"""What is known of waiting, and what is not."""

REQUESTS_KEPT: Final = 20_000
"""Requests of which it is remembered why they were made: each is one decision, however many containers it asked for."""

ON_THE_WAY_MAX: Final = 200_000
"""Containers given and neither launched nor given back of which it is remembered how they came."""

CONTAINER_PREFIX: Final = "container_"
HOSTS_SHOWN: Final = 6


class PastRequest(NamedTuple):
    """Containers asked for in one decision, requests ``first`` to ``last`` of a profile."""

    at: Millis
    line: int
    profile: int
    first: int
    last: int
    layout: Layout | None
    anywhere: int
    facts: Mapping[str, Any]
    target: Plain | None
    held: tuple[Plain, ...]


class GivenContainer(NamedTuple):
    """A container that the resource manager gave, in an answer with ``others`` more."""

    at: Millis
    line: int
    container: Container
    others: int


class ContainerHistory(ExecutorHistory):
    """Watches the steps of a recording for one executor on YARN, or for the one of a container."""

    made = "launched"

    def __init__(self, named: str) -> None:
        super().__init__(named, PodRules())
        self.container: str | None = named if named.startswith(CONTAINER_PREFIX) else None
        self.host: str | None = None
        self._requests: deque[PastRequest] = deque(maxlen=REQUESTS_KEPT)
        self._given: OrderedDict[str, GivenContainer] = OrderedDict()
        self._matched: OrderedDict[str, tuple[int, ym.Match]] = OrderedDict()
        self._launched_at: Millis | None = None
        self._up = self._back = self._over = False
        self._ends: list[Completion] = []
        self._over_at: Millis | None = None
        self._excluded: set[str] = set()
        self._gone_at: Millis | None = None
        self._reason_text: str | None = None

    def document(self) -> Plain:
        """The history as plain data; times in milliseconds since the epoch."""
        return {**super().document(), "container": self.container, "host": self.host}

    def step(self, step: RecordedStep, state: EngineState | None) -> None:
        """See one step, and the state after it where it is known."""
        self._ends.clear()
        super().step(step, state)
        for one in self._ends:  # given, launched and over in one answer: its end is told after what was decided
            if one.container == self.container and not self._over:
                self._complete(step.at, one)
                self._stand(step.at)

    # ---------------------------------------------------------------------------------------------------- what is heard

    def _hear(self, at: Millis, stimulus: RecordedStimulus) -> None:
        match stimulus:
            case ym.ResourcesAnswered(allocated=allocated, completed=completed):
                for container in allocated:
                    self._give(at, container, len(allocated) - 1)
                for one in completed:
                    if one.container == self.container and self._requested:
                        self._complete(at, one)
                    elif not self._requested:
                        self._ends.append(one)
            case ym.LaunchEnded(executor=executor, failure=failure) if executor == self.executor:
                took = 0 if self._launched_at is None else at - self._launched_at
                self._up = failure is None
                self._over = self._over or failure is not None
                self._tell(at, "launch ended", {"took_ms": took, "failure": failure, "fatal": stimulus.fatal})
            case ym.MasterRegistered() if self._requested and not self._over:
                self._tell(at, "master registered", {})
            case es.Stopping() if self._requested and not self._over:
                self._tell(at, "application stops", {})
            case ps.PodsUpdated() | ps.PodsReplaced() | ps.Outcome() | es.Stopping():
                pass  # nothing of pods belongs to a container
            case _:
                super()._hear(at, stimulus)

    def _give(self, at: Millis, container: Container, others: int) -> None:
        self._given[container.id] = GivenContainer(at, self._line, container, others)
        if len(self._given) > ON_THE_WAY_MAX:
            self._given.popitem(last=False)

    def _complete(self, at: Millis, one: Completion) -> None:
        """The container is over. Whose fault that is Spark says only of containers that nobody gave back."""
        self._over, self._over_at = True, at
        fields: Plain = {"status": one.status, "diagnostics": one.diagnostics, "given_back": self._back}
        if not self._back:
            verdict = judge(one.container, self.host, one.status, one.diagnostics, ending=False)
            fields |= {
                "by_app": verdict.blamed,
                "counts": verdict.counted,
                "host_excluded": self.host in self._excluded,
            }
        self._tell(at, "completed", fields)

    # -------------------------------------------------------------------------------------------------- what is decided

    def _decided(self, at: Millis, command: Command, creations: Sequence[pc.CreatePod]) -> None:
        match command:
            case ym.RequestContainers():
                self._remember(at, command)
            case ym.TakeRequests(profile=profile, matches=matches):
                for match in matches:
                    self._matched[match.container] = (profile, match)
                    if len(self._matched) > ON_THE_WAY_MAX:
                        self._matched.popitem(last=False)
            case ym.LaunchExecutor():
                self._launched(at, command)
            case ym.ReleaseContainers(containers=containers):
                self._released(at, command, containers)
            case ym.TellLossReason(executor=executor) if executor == self.executor:
                self._reason_text = None if command.reason is None else command.reason.message
                self._tell(at, "decided", decided_record(command))
            case ec.RemoveExecutor(executor=executor) if executor == self.executor:
                self._removed(at, command)
            case ym.DecommissionHost(host=host) if host == self.host and not self._over:
                self._tell(at, "decided", decided_record(command))
            case ym.UpdateExclusions(added=added, removed=removed):
                self._excluded.update(added)
                self._excluded.difference_update(removed)
                if self.host in added and self._over_at in (None, at):
                    record = {k: v for k, v in decided_record(command).items() if k not in ("added", "removed")}
                    self._tell(at, "decided", {**record, "added": [self.host], "removed": []})
            case ym.EndApplication() if self._requested and self._over_at in (None, at):
                self._tell(at, "decided", decided_record(command))
            case _:
                super()._decided(at, command, creations)

    def _remember(self, at: Millis, command: ym.RequestContainers) -> None:
        if not command.count:
            return
        held = tuple(one for one in self._holds.document() if one["profile"] == command.profile and "facts" in one)
        last = command.first + command.count - 1
        target = self._targets.get(command.profile)
        request = PastRequest(
            at, self._line, command.profile, command.first, last, command.layout, command.anywhere,
            dict(command.why.facts), target, held,
        )  # fmt: skip
        self._requests.append(request)

    def _launched(self, at: Millis, command: ym.LaunchExecutor) -> None:
        number = int(command.executor) if command.executor.isdecimal() else None
        if number is not None:
            first, last = self.known or (number, number)
            self.known = (PodNumber(min(first, number)), PodNumber(max(last, number)))
        given, matched = self._given.pop(command.container, None), self._matched.pop(command.container, None)
        if command.executor != self.executor and command.container != self.container:
            return
        self.executor, self.container, self.host = command.executor, command.container, command.host
        self._tell_before(at, given, matched)
        self._requested, self._launched_at = True, at
        self._tell(at, "decided", decided_record(command))

    def _released(self, at: Millis, command: ym.ReleaseContainers, containers: Sequence[str]) -> None:
        for container in containers:
            given, matched = self._given.pop(container, None), self._matched.pop(container, None)
            if container == self.container:
                if not self._requested:
                    self._tell_before(at, given, matched)
                self._back = True
                self._over = self._over or not self._requested
                self._leaving = self._leaving or self._requested
                record = {k: v for k, v in decided_record(command).items() if k != "containers"}
                self._tell(at, "decided", {**record, "containers": [container], "others": len(containers) - 1})

    def _removed(self, at: Millis, command: ec.RemoveExecutor) -> None:
        """The driver removes it; the application master may tell it twice, as an answer and by itself."""
        if not self._registered and self._gone_at == at:
            return
        self._registered, self._gone_at = False, at
        self._tell(at, "decided", {**decided_record(command), "said": command.reason.message == self._reason_text})

    def _tell_before(self, at: Millis, given: GivenContainer | None, matched: tuple[int, ym.Match] | None) -> None:
        """How the container came: why it was asked for, who gave it, which request it took."""
        request = None if matched is None else self._asked_for(*matched)
        if given is not None:
            self.host = given.container.host
        if request is not None:
            self._tell_request(request, at if given is None else given.at)
            if given is not None:
                self._stages(WAITING, request.at, given.at, "", over=True)
        if given is not None:
            container = given.container
            self._tell(
                given.at,
                "given",
                {
                    "container": container.id,
                    "host": container.host,
                    "profile": container.profile,
                    "memory_mib": container.resource.memory_mib,
                    "vcores": container.resource.vcores,
                    "others": given.others,
                },
                given.line,
            )
        if matched is not None:
            self._tell_match(at, request, *matched)

    def _asked_for(self, profile: int, match: ym.Match) -> PastRequest | None:
        """The decision by which the request of a match was made."""
        of_profile = (request for request in reversed(self._requests) if request.profile == profile)
        return next((request for request in of_profile if request.first <= match.request <= request.last), None)

    def _tell_request(self, request: PastRequest, given_at: Millis) -> None:
        """Why it was asked for, as one of how many, where, and what had held it back."""
        hosts = () if request.layout is None else request.layout.hosts
        target = request.target
        fields: Plain = {
            "profile": request.profile,
            "facts": dict(sorted(request.facts.items())),
            "requests": request.last - request.first + 1,
            "hosts": list(hosts[:HOSTS_SHOWN]),
            "hosts_total": len(hosts),
            "anywhere": request.anywhere,
            "target": target,
            "waited_ms": None if target is None else request.at - target["at_ms"],
            "held": list(request.held),
            "until_given_ms": given_at - request.at,
        }
        self._tell(request.at, "requested", fields, request.line)

    def _tell_match(self, at: Millis, request: PastRequest | None, profile: int, match: ym.Match) -> None:
        wished: tuple[str, ...] = ()
        if request is not None and request.layout is not None and match.request - request.first < request.layout.size:
            wished = request.layout.hosts[: request.layout.length(match.request - request.first)]
        fields: Plain = {
            "request": match.request,
            "location": match.location,
            "near": nearness(match.location, self.host),
            "profile": profile,
            "wished": list(wished[:HOSTS_SHOWN]),
            "wished_total": len(wished),
        }
        self._tell(at, "matched", fields)

    # ------------------------------------------------------------------------------------------------ books and stages

    def finish(self, end: Millis) -> None:
        """The recording ends; a container that is named may have been given and nothing more."""
        if self.container is not None and not self.found:
            given, matched = self._given.get(self.container), self._matched.get(self.container)
            if given is not None:
                self._line = given.line
                self._tell_before(given.at, given, matched)
        super().finish(end)

    def _books(self, state: EngineState) -> dict[str, str]:
        return container_books_of(state, self.executor, self.container)

    def _place(self) -> str:
        return self.host or ""

    def _where(self) -> str | None:
        if self._over:
            return GONE if self._requested else UNWANTED
        if self._leaving:
            return LEAVING
        if self._registered:
            return REGISTERED
        return None if not self._requested else STARTING if self._up else LAUNCHING


def container_books_of(state: EngineState, executor: str, container: str | None) -> dict[str, str]:
    """What the application master's and the driver's books say of an executor, by whose books they are."""
    side = state.yarn
    if side is None:
        return {}
    identity = ExecutorId(executor)
    rows = side.allocator.rows
    known = rows.container_of.get(identity)
    box = container if known is None else known
    profile = None if known is None else rows.executor_of[known][1]
    master = (
        (identity in rows.launches, "starting"),
        (profile is not None and rows.running.get(identity) == profile, "running"),
        (box is not None and box in rows.released, "given back, its end not reported"),
        (identity in rows.loss_asked, "somebody waits to hear why it is gone"),
        (identity in rows.loss_stored, "why it is gone is remembered, nobody asked"),
    )
    return flag_words({"application master": master, "driver": registry_flags(side.backend.registry, identity)})
