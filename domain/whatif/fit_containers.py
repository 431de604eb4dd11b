"""How containers come and go where an application ran on YARN, out of its log: the heartbeats taken out.

A log tells when an executor was asked for and when it registered. In between lie the application master's heartbeats: a
target that changes wakes the reporter thread, which asks at once; what the resource manager places meanwhile is fetched
with the next beat, 200 ms later by default, then 400 ms later, and so on up to the heartbeat interval; and some targets
wake nobody and wait for the next beat. A what-if that changes these intervals, or meets the resource manager when it is
full, has to have them apart. So ``launches`` asks the production code: the YARN side of the engine is told the log's
requests at their times, on a cluster with room for everything, and says when the master would have had each container in
its hands. What is left until the registration is the start-up.

How long the resource manager takes to place a container is in no log. A node is given containers when it reports, once a
second by default, so of many nodes one is always about to: a container is taken to be placed as good as at once
(``rerun.logged_cluster.GRANT_MS``). That is an assumption, and makes no difference to what is answered about the log's
own config, since what is taken from one part is left to the other.

An executor that is told to go stands until its release is sent with the next beat, and its container is stopped. What is
left of a removal's time when half a beat is taken off is the stop; ten seconds of it are Docker's grace where containers are
Docker's (docs/explanation/model.md).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from podtide.domain import engine
from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.conf.settings import settled
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.conf.yarn_config import yarn_config
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.cluster_config import ReporterConfig, YarnConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.completions import PREEMPTED
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_commands import AnswerRegistration
from podtide.domain.protocol.executor_stimuli import RegisterExecutor, TargetsSet
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.yarn_messages import LaunchExecutor, ProfilesDefined
from podtide.domain.rerun.behaviour import Behaviour, ContainerBehaviour, StartUp
from podtide.domain.rerun.engine_manager import drive
from podtide.domain.rerun.heartbeats import DescribedCluster, Heartbeats, is_client
from podtide.domain.rerun.logged_cluster import assumed_cluster
from podtide.domain.rerun.plan import NO_FAULTS
from podtide.domain.whatif.fit_start_up import NOTHING_BESIDE, Beside, LoggedStart, independent, shared
from podtide.domain.whatif.planning_sides import without_nodes

STOP_LEAST_MS: Final[Millis] = 200

REPLAYED_MAX: Final = 2_000
"""Requests that are told to the YARN side one by one; of a longer list, the others take the usual time."""

_STATUS: Final = re.compile(r"exit(?:ed with)? (?:status|code):? (-?\d{1,9})\b", re.IGNORECASE)
_PREEMPTED: Final = re.compile(r"\bpreempt", re.IGNORECASE)
_REASON_MAX: Final = 1_000
_IN: Final = Why(Cause.REGISTERED)


class Request(NamedTuple):
    """An executor of a profile is asked for."""

    at: Millis
    profile: ProfileId


def launches(requests: Sequence[Request], config: YarnConfig, began: Millis, *, client: bool) -> list[Millis]:
    """When the application master launches what was asked for at these times (not falling), in the same order.

    ``began``: when it registers, not after the first of them. Containers of every profile are alike here.
    """
    if not requests:
        return []
    replayed = requests[:REPLAYED_MAX]
    held = _replayed(replayed, without_nodes(config)[0], began, client=client)
    usual = sorted(at - one.at for at, one in zip(held, replayed, strict=True))[len(held) // 2]
    return [*held, *(one.at + usual for one in requests[REPLAYED_MAX:])]


def _replayed(requests: Sequence[Request], config: YarnConfig, began: Millis, *, client: bool) -> list[Millis]:
    """Tell the YARN side of the engine; the launches of each profile answer its requests in order."""
    container = config.allocator.containers
    cluster = DescribedCluster(assumed_cluster(Behaviour(StartUp((0,))), NO_FAULTS, container.resource), 0, began)
    steps = Heartbeats(EngineConfig(ScalingConfig(), dynamic=False, yarn=config), cluster, client=client)
    launched: dict[ProfileId, deque[Millis]] = {one.profile: deque() for one in requests}
    targets = dict.fromkeys(launched, 0)
    stimuli: list[AnyStimulus] = [ProfilesDefined(began, tuple((profile, container) for profile in launched))]

    def hear(now: Millis) -> list[AnyStimulus]:
        news = [*stimuli, *(one for one in cluster.advance(now) if not _registers(cluster, one))]
        stimuli.clear()
        return news

    def follow(step: Step[engine.EngineState, Command], _: Sequence[AnyStimulus], now: Millis) -> None:
        for command in step.commands:
            if isinstance(command, LaunchExecutor) and command.profile in launched:
                launched[command.profile].append(now)
            cluster.apply(command, now)  # type: ignore[arg-type]  # what is for somebody else is not listened to

    for step in steps.begin(began):
        follow(step, (), began)
    next_, now = 0, began
    while now != NEVER and (next_ < len(requests) or any(len(launched[one]) < count for one, count in targets.items())):
        steps.resume(now)
        while next_ < len(requests) and requests[next_].at <= now:
            targets[requests[next_].profile] += 1
            next_ += 1
            if next_ == len(requests) or requests[next_].at > now:
                wanted = tuple((profile, count) for profile, count in sorted(targets.items()) if count)
                stimuli.append(TargetsSet(now, wanted))
        due = drive(steps, now, hear, follow)
        now = max(now, min(due, requests[next_].at if next_ < len(requests) else NEVER))
    return [launched[one.profile].popleft() if launched[one.profile] else one.at for one in requests]


def _registers(cluster: DescribedCluster, one: AnyStimulus) -> bool:
    """Whether an executor registers: it is up at once and stays, and the engine need not know it."""
    if not isinstance(one, RegisterExecutor):
        return False
    cluster.apply(AnswerRegistration(one.at, one.executor, True, _IN), one.at)
    return True


def fit_containers(
    seen: Sequence[LoggedStart],
    boot_at: Millis,
    removal_ms: Sequence[Millis],
    conf: SparkConf,
    *,
    beside: Beside = NOTHING_BESIDE,
    one_machine: bool = False,
) -> ContainerBehaviour:
    """How containers came and went. ``seen``: starts by request, at least one; ``boot_at``: when the master registers.

    ``removal_ms``: from a kill to the removal. ``one_machine``: all executors shared one with what was ``beside`` them.
    """
    config = _config(conf)
    requests = [Request(one.requested_ms, one.profile) for one in seen]
    held = launches(requests, config, min(boot_at, requests[0].at), client=is_client(conf))
    later = [
        one._replace(requested_ms=min(at, one.added_ms - 1)) if one.known else one
        for one, at in zip(seen, held, strict=True)
    ]
    startup: StartUp = shared(later, beside).startup if one_machine else independent(later)
    return ContainerBehaviour(startup, stops(removal_ms, config.reporter))


def _config(conf: SparkConf) -> YarnConfig:
    """The YARN side under a conf, with defaults in the place of what cannot be read."""
    return settled(yarn_config(conf))[0].config


def stops(removal_ms: Sequence[Millis], reporter: ReporterConfig) -> tuple[Millis, ...]:
    """What stopping a container takes of these removals: half a beat less, and no more than the quickest of them."""
    if not removal_ms:
        return (STOP_LEAST_MS,)
    quickest = min(removal_ms)
    return tuple(max(STOP_LEAST_MS, min(quickest, ms - reporter.heartbeat_ms // 2)) for ms in removal_ms)


def status_of(reason: str) -> int | None:
    """The exit status of a container that Spark's reason for an executor's loss tells of, if it does."""
    text = reason[:_REASON_MAX]
    if _PREEMPTED.search(text):
        return PREEMPTED
    found = _STATUS.search(text)
    return None if found is None else int(found[1])
