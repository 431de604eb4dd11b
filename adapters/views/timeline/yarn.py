"""What an application on YARN went through, as moments: ``views.timeline.kubernetes`` where executors run in containers.

Targets, kills, executors that are gone and bounds are told as there. Besides: containers asked for, where they are wished
and on which hosts they came; requests cancelled, because the target fell or to ask anew near the data; containers given
back; nodes excluded and decommissioned; heartbeats that failed; an application master that registers anew; the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from podtide.adapters.text.format import count, ids, joined
from podtide.adapters.views.stats.yarn import GIVEN_BACK, gone_words, nearness
from podtide.adapters.views.timeline.decisions import bound_words, exit_words
from podtide.adapters.views.timeline.kubernetes import IDS_KEPT, PodTimeline, Told
from podtide.adapters.views.timeline.scaling_rows import Words
from podtide.adapters.views.timeline.yarn_decisions import CONTAINER_BOUNDS, named, released, text
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.engine import AnyStimulus, State
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.commands import Command
from podtide.domain.protocol.container_requests import count_of
from podtide.domain.protocol.pod_commands import RemoveExecutor
from podtide.domain.protocol.reasons import Cause

LAUNCHES_MAX: Final = 100_000
"""Launches under way whose outcomes are waited for."""


@dataclass
class Placed:
    """Where the containers of a moment are: how near to their wishes, and on which hosts first."""

    near: Counter[str] = field(default_factory=Counter)
    hosts: dict[str, None] = field(default_factory=dict)
    localized: int = 0
    wished: dict[str, None] = field(default_factory=dict)


class YarnTimeline(PodTimeline):
    """Watches the steps of an application on YARN; ``rows`` after ``finish``."""

    def __init__(self) -> None:
        super().__init__()
        self._placed: dict[int, Placed] = {}
        self._launches: dict[str, Told] = {}
        self._near: dict[str, str] = {}  # containers that were matched and are not launched yet
        self._host_of: dict[str, str] = {}
        self._registered = False
        self._refused: str | None = None
        self._gone: tuple[Millis, ExecutorId] | None = None

    # ---------------------------------------------------------------------------------------------------- collecting

    def _hear(self, now: Millis, stimulus: AnyStimulus) -> None:
        match stimulus:
            case ym.ResourcesAnswered(allocated=allocated):
                self._host_of = {container.id: container.host for container in allocated}
                self._near = {}
            case ym.ResourcesRefused(what=what):
                self._refused = what
            case ym.LaunchEnded(executor=executor, failure=failure):
                launched = self._launches.pop(executor, None)
                if launched is not None and failure is not None:
                    launched.failed += 1
                    launched.text = failure
            case ym.MasterRegistered():
                if self._registered:
                    self._run(now, ("master", now))
                self._registered = True
            case _:
                super()._hear(now, stimulus)

    def _decided(self, now: Millis, command: Command) -> None:
        match command:
            case ym.RequestContainers():
                self._requested(now, command)
            case ym.CancelRequests(spans=spans):
                told = self._run(now, ("cancel", command.why.cause, command.profile))
                self._why(told, command.why.cause.value, command.why.facts)
                told.profile = command.profile
                told.number += count_of(spans)
            case ym.TakeRequests(matches=matches):
                for match in matches:
                    self._near[match.container] = nearness(match.location, self._host_of.get(match.container))
            case ym.LaunchExecutor():
                self._launched(now, command)
            case ym.ReleaseContainers() if command.why.cause is Cause.KILLED:
                pass  # it follows from the kill, which is told
            case ym.ReleaseContainers(containers=containers):
                told = self._run(now, ("release", command.why.cause))
                self._why(told, command.why.cause.value, command.why.facts)
                told.extend(containers)
            case ym.UpdateExclusions(added=added, removed=removed):
                for kind, hosts in (("exclude", added), ("include", removed)):
                    if hosts:
                        told = self._run(now, (kind,))
                        told.facts = command.why.facts
                        told.extend(hosts)
            case ym.DecommissionHost(host=host):
                self._run(now, ("node leaves",)).extend((host,))
            case RemoveExecutor(executor=executor):
                if self._gone != (
                    now,
                    executor,
                ):  # the application master may tell it twice: as an answer, and by itself
                    self._gone = now, executor
                    self._removed(now, command)
            case ym.EndApplication():
                told = self._run(now, ("end", command.status, command.exit_code))
                told.text, told.cause, told.after = command.status, command.message, command.exit_code
            case _:
                super()._decided(now, command)

    def _removed(self, now: Millis, command: RemoveExecutor) -> None:
        told = self._run(now, ("gone", gone_words(command)))
        if told.moves == 1:
            told.cause, told.text = gone_words(command), exit_words(command.reason._asdict())
            if command.reason.exit_code is not None:  # what Spark says of it, explain tells
                host = command.why.facts.get("host")
                told.text = "" if host is None else f"on {host}"
        told.extend((command.executor,))

    def _threw(self, now: Millis, machine: str, what: str) -> None:
        if what == self._refused:  # a heartbeat failed: the allocator throws what the resource manager's client threw
            self._run(now, ("heartbeat", what[:200])).text = what
            self._refused = None
        else:
            super()._threw(now, machine, what)

    def _requested(self, now: Millis, command: ym.RequestContainers) -> None:
        told = self._run(now, ("request", command.profile))
        # Of a ramp the last one says how far it went.
        told.cause, told.facts = command.why.cause.value, command.why.facts
        told.profile = command.profile
        told.number += command.count
        self._named = self._named or bool(command.profile)
        if command.layout is not None:
            placed = self._placed.setdefault(told.order, Placed())
            placed.localized += command.layout.size
            for host in command.layout.hosts[:IDS_KEPT]:
                if len(placed.wished) < IDS_KEPT:
                    placed.wished[host] = None

    def _launched(self, now: Millis, command: ym.LaunchExecutor) -> None:
        told = self._run(now, ("launch", command.profile))
        self._why(told, command.why.cause.value, command.why.facts)
        told.profile = command.profile
        told.extend((command.executor,))
        placed = self._placed.setdefault(told.order, Placed())
        placed.near[self._near.pop(command.container, "anywhere")] += 1
        if len(placed.hosts) < IDS_KEPT:
            placed.hosts[command.host] = None
        if len(self._launches) < LAUNCHES_MAX:
            self._launches[command.executor] = told

    def _keep(self, told: Told) -> None:
        tail = self._tail
        oldest = tail[0] if len(tail) == tail.maxlen else None
        super()._keep(told)
        if oldest is not None and (not tail or tail[0] is not oldest):  # it fell out, and where it was with it
            self._placed.pop(oldest.order, None)

    def _targets_in(self, state: State) -> Mapping[ProfileId, int] | None:
        side = state.yarn
        return None if side is None else side.allocator.targets

    # --------------------------------------------------------------------------------------------------------- words

    def _words(self, told: Told, of: Sequence[str]) -> Words:
        placed = self._placed.get(told.order, Placed())
        match told.kind:
            case "request":
                parts = [_aim(told), _wishes(told, placed), *told.repeated(), *of]
                return "raised", f"+ {count(told.number, 'request')}", parts
            case "cancel":
                why = "to ask anew where the data is" if told.cause == "locality" else told.cause
                return "lowered", f"− {count(told.number, 'request')}", [why, *told.repeated(), *of]
            case "launch":
                which = told.ids[0] if told.number == 1 else f"{told.ids[0]} to {told.last_id}"
                launches = count(told.failed, "launch", "launches")
                failed = [f"{launches} failed: {text(told.text)}"] if told.failed else []
                over = [told.span] if told.span else []
                what = f"+ {count(told.number, 'executor')} ({which})"
                return "raised", what, [*_places(placed), *failed, *over, *of]
            case "release":
                facts = {} if told.moves > 1 else told.facts  # numbers of the first stand for none of the others
                parts = [*released(told.cause, facts), *told.repeated()]
                return "killed", f"release {count(told.number, 'container')}", parts
            case "exclude" | "include":
                mark = "held" if told.kind == "exclude" else "quiet"
                excluded = told.facts.get("excluded")
                now_excluded = [f"{excluded:,} excluded now"] if isinstance(excluded, int) else []
                parts = [named(told.ids), *now_excluded, *told.repeated()]
                return mark, f"{told.kind} {count(told.number, 'host')}", parts
            case "node leaves":
                return "killed", f"{count(told.number, 'node')} leaving", [named(told.ids), "decommissioning"]
            case "heartbeat":
                return "threw", "heartbeat failed", [text(told.text), *told.repeated()]
            case "master":
                return "threw", "a new application master", ["it registered anew: executors and requests are forgotten"]
            case "end":
                return "threw", f"the end: {text(told.text)}", [text(told.cause), f"exit code {told.after}"]
            case "gone":
                some = [ids(told.ids)] if told.number > len(told.ids) else []
                single = told.number == 1 and told.cause != GIVEN_BACK  # of many no reason stands for the others
                reason = [text(told.text)] if single else []
                return "killed", f"gone {told.few}", [*some, told.cause, *told.repeated(), *reason]
            case "held" if told.cause in CONTAINER_BOUNDS:
                target = told.facts.get("target")
                aim = [f"target {target:,}"] if isinstance(target, int) else []
                return "held", f"held {told.number:,}", [f"by {bound_words(told.cause)}", told.lasted, *aim, *of]
            case _:
                return super()._words(told, of)


def _aim(told: Told) -> str:
    facts: Mapping[str, Any] = told.facts
    missing, target = facts.get("missing"), facts.get("target")
    if not isinstance(missing, int) or not isinstance(target, int):
        return told.cause
    return f"for {target:,} in the end" if told.moves > 1 else f"{missing:,} missing of {target:,}"


def _wishes(told: Told, placed: Placed) -> str:
    if not placed.localized:
        return "anywhere"
    near = f"{placed.localized:,} near their data on {named(placed.wished)}"
    anywhere = told.number - placed.localized
    return f"{near}, {anywhere:,} anywhere" if anywhere > 0 else near


def _places(placed: Placed) -> list[str]:
    """On which hosts, and how near to what was wished."""
    near = [f"{placed.near[how]:,} {words}" for how, words in _NEARNESS.items() if placed.near[how]]
    on = f"on {named(placed.hosts)}" if placed.hosts else ""
    only_anywhere = set(+placed.near) <= {"anywhere"}
    return [on] if only_anywhere else [on, joined(near, ", ")]


_NEARNESS: Final = {"host": "on a wished host", "rack": "on a wished rack", "anywhere": "anywhere"}
