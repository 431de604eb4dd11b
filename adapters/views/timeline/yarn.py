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
from podtide.adapters.views.timeline.kubernetes import IDS_KEPT, MergedMoment, PodTimeline
from podtide.adapters.views.timeline.scaling_rows import Words
from podtide.adapters.views.timeline.yarn_decisions import CONTAINER_BOUNDS, named, released, text
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.container_requests import count_of
from podtide.domain.protocol.executor_commands import RemoveExecutor
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
        self._launches: dict[str, MergedMoment] = {}
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
                moment = self._merge(now, ("cancel", command.why.cause, command.profile), command.why)
                moment.profile = command.profile
                moment.number += count_of(spans)
            case ym.TakeRequests(matches=matches):
                for match in matches:
                    self._near[match.container] = nearness(match.location, self._host_of.get(match.container))
            case ym.LaunchExecutor():
                self._launched(now, command)
            case ym.ReleaseContainers() if command.why.cause is Cause.KILLED:
                pass  # it follows from the kill, which is told
            case ym.ReleaseContainers(containers=containers):
                self._merge(now, ("release", command.why.cause), command.why, containers)
            case ym.UpdateExclusions(added=added, removed=removed):
                for kind, hosts in (("exclude", added), ("include", removed)):
                    if hosts:
                        moment = self._run(now, (kind,))
                        moment.facts = command.why.facts
                        moment.extend(hosts)
            case ym.DecommissionHost(host=host):
                self._run(now, ("node leaves",)).extend((host,))
            case RemoveExecutor(executor=executor):
                # The application master may tell it twice: as an answer, and by itself.
                if self._gone != (now, executor):
                    self._gone = now, executor
                    self._removed(now, command)
            case ym.EndApplication():
                moment = self._run(now, ("end", command.status, command.exit_code))
                moment.text, moment.cause, moment.after = command.status, command.message, command.exit_code
            case _:
                super()._decided(now, command)

    def _removed(self, now: Millis, command: RemoveExecutor) -> None:
        moment = self._run(now, ("gone", gone_words(command)))
        if moment.moves == 1:
            moment.cause, moment.text = gone_words(command), exit_words(command.reason._asdict())
            if command.reason.exit_code is not None:  # what Spark says of it, explain tells
                host = command.why.facts.get("host")
                moment.text = "" if host is None else f"on {host}"
        moment.extend((command.executor,))

    def _threw(self, now: Millis, machine: str, what: str) -> None:
        if what == self._refused:  # a heartbeat failed: the allocator throws what the resource manager's client threw
            self._run(now, ("heartbeat", what[:200])).text = what
            self._refused = None
        else:
            super()._threw(now, machine, what)

    def _requested(self, now: Millis, command: ym.RequestContainers) -> None:
        moment = self._run(now, ("request", command.profile))
        # Of a ramp the last one says how far it went.
        moment.cause, moment.facts = command.why.cause.value, command.why.facts
        moment.profile = command.profile
        moment.number += command.count
        self._named = self._named or bool(command.profile)
        if command.layout is not None:
            placed = self._placed.setdefault(moment.order, Placed())
            placed.localized += command.layout.size
            for host in command.layout.hosts[:IDS_KEPT]:
                if len(placed.wished) < IDS_KEPT:
                    placed.wished[host] = None

    def _launched(self, now: Millis, command: ym.LaunchExecutor) -> None:
        moment = self._merge(now, ("launch", command.profile), command.why, (command.executor,))
        moment.profile = command.profile
        placed = self._placed.setdefault(moment.order, Placed())
        placed.near[self._near.pop(command.container, "anywhere")] += 1
        if len(placed.hosts) < IDS_KEPT:
            placed.hosts[command.host] = None
        if len(self._launches) < LAUNCHES_MAX:
            self._launches[command.executor] = moment

    def _keep(self, moment: MergedMoment) -> None:
        tail = self._tail
        oldest = tail[0] if len(tail) == tail.maxlen else None
        super()._keep(moment)
        if oldest is not None and (not tail or tail[0] is not oldest):  # it fell out, and where it was with it
            self._placed.pop(oldest.order, None)

    def _targets_in(self, state: EngineState) -> Mapping[ProfileId, int] | None:
        side = state.yarn
        return None if side is None else side.allocator.targets

    # --------------------------------------------------------------------------------------------------------- words

    def _words(self, moment: MergedMoment, of: Sequence[str]) -> Words:
        placed = self._placed.get(moment.order, Placed())
        match moment.kind:
            case "request":
                parts = [_aim(moment), _wishes(moment, placed), *moment.repeated(), *of]
                return "raised", f"+ {count(moment.number, 'request')}", parts
            case "cancel":
                why = "to ask anew where the data is" if moment.cause == "locality" else moment.cause
                return "lowered", f"− {count(moment.number, 'request')}", [why, *moment.repeated(), *of]
            case "launch":
                which = moment.ids[0] if moment.number == 1 else f"{moment.ids[0]} to {moment.last_id}"
                launches = count(moment.failed, "launch", "launches")
                failed = [f"{launches} failed: {text(moment.text)}"] if moment.failed else []
                over = [moment.span] if moment.span else []
                what = f"+ {count(moment.number, 'executor')} ({which})"
                return "raised", what, [*_places(placed), *failed, *over, *of]
            case "release":
                facts = {} if moment.moves > 1 else moment.facts  # numbers of the first stand for none of the others
                parts = [*released(moment.cause, facts), *moment.repeated()]
                return "killed", f"release {count(moment.number, 'container')}", parts
            case "exclude" | "include":
                mark = "held" if moment.kind == "exclude" else "quiet"
                excluded = moment.facts.get("excluded")
                now_excluded = [f"{excluded:,} excluded now"] if isinstance(excluded, int) else []
                parts = [named(moment.ids), *now_excluded, *moment.repeated()]
                return mark, f"{moment.kind} {count(moment.number, 'host')}", parts
            case "node leaves":
                return "killed", f"{count(moment.number, 'node')} leaving", [named(moment.ids), "decommissioning"]
            case "heartbeat":
                return "threw", "heartbeat failed", [text(moment.text), *moment.repeated()]
            case "master":
                return "threw", "a new application master", ["it registered anew: executors and requests are forgotten"]
            case "end":
                return "threw", f"the end: {text(moment.text)}", [text(moment.cause), f"exit code {moment.after}"]
            case "gone":
                some = [ids(moment.ids)] if moment.number > len(moment.ids) else []
                single = moment.number == 1 and moment.cause != GIVEN_BACK  # of many no reason stands for the others
                reason = [text(moment.text)] if single else []
                return "killed", f"gone {moment.few}", [*some, moment.cause, *moment.repeated(), *reason]
            case "held" if moment.cause in CONTAINER_BOUNDS:
                target = moment.facts.get("target")
                aim = [f"target {target:,}"] if isinstance(target, int) else []
                return "held", f"held {moment.number:,}", [f"by {bound_words(moment.cause)}", moment.lasted, *aim, *of]
            case _:
                return super()._words(moment, of)


def _aim(moment: MergedMoment) -> str:
    facts: Mapping[str, Any] = moment.facts
    missing, target = facts.get("missing"), facts.get("target")
    if not isinstance(missing, int) or not isinstance(target, int):
        return moment.cause
    return f"for {target:,} in the end" if moment.moves > 1 else f"{missing:,} missing of {target:,}"


def _wishes(moment: MergedMoment, placed: Placed) -> str:
    if not placed.localized:
        return "anywhere"
    near = f"{placed.localized:,} near their data on {named(placed.wished)}"
    anywhere = moment.number - placed.localized
    return f"{near}, {anywhere:,} anywhere" if anywhere > 0 else near


def _places(placed: Placed) -> list[str]:
    """On which hosts, and how near to what was wished."""
    near = [f"{placed.near[how]:,} {words}" for how, words in _NEARNESS.items() if placed.near[how]]
    on = f"on {named(placed.hosts)}" if placed.hosts else ""
    only_anywhere = set(+placed.near) <= {"anywhere"}
    return [on] if only_anywhere else [on, joined(near, ", ")]


_NEARNESS: Final = {"host": "on a wished host", "rack": "on a wished rack", "anywhere": "anywhere"}
