"""The rules: why a profile whose tasks wait does not move. One function a cause, and a table of them in their order.

A rule is given the profile as it stands (``ProfileMoment``) and what has happened since its last success (``Since``), and
answers with a ``StallVerdict`` or None. The first rule that answers names the cause. ``blocked`` tells a stall from a limit:
as long as tasks of the profile run, whoever waits behind them waits for a limit (the maximum, a quota, nodes
that are late), which is worth a word and no alarm. The exceptions are executors that die in a loop: their tasks run, and
never end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.reasons import Fact
from podtide.domain.stalls.causes import ROWS, StallCause
from podtide.domain.stalls.facts import NAMED_MAX, PodRefused, ProfileMoment

DEATHS_MIN: Final = 3
"""Executors that came and died since the last success from which on it is a loop; Spark gives a task four attempts."""

FORBIDDEN: Final = 403
"""What the API server answers when a ResourceQuota, a LimitRange or a missing permission is in the way."""


class Since(NamedTuple):
    """What has happened since a profile's last success.

    ``waited_ms``: how long nothing moves. ``deaths``: executors that came since and failed, the last ones in ``dead`` with
    the ``reason`` of the last. ``short_lived``: executors, ever, that went before their pod need have been seen.
    ``refused``: the last refused pod, of ``refusals``.
    """

    waited_ms: Millis
    deaths: int = 0
    dead: tuple[ExecutorId, ...] = ()
    reason: str = ""
    short_lived: tuple[ExecutorId, ...] = ()
    refused: PodRefused | None = None
    refusals: int = 0


class StallVerdict(NamedTuple):
    """A cause with its evidence. ``executors``: some of those, or of the pods, that it is about.

    ``blocked``: nothing moves at all.
    """

    cause: StallCause
    facts: Mapping[str, Fact]
    executors: tuple[str, ...] = ()
    blocked: bool = True


Rule: TypeAlias = Callable[[ProfileMoment, Since], StallVerdict | None]


def verdict(one: ProfileMoment, since: Since) -> StallVerdict | None:
    """Why a profile whose tasks wait does not move; None as long as nothing has to be said."""
    for rule in RULES:
        found = rule(one, since)
        if found is not None:
            # The first rule that applies names the cause: while its patience lasts, no later one may speak for it.
            return found if since.waited_ms >= ROWS[found.cause].patience_ms else None
    return None


def _pending_below_zero(one: ProfileMoment, _since: Since) -> StallVerdict | None:
    """SPARK-58446: the sum of pending tasks is too low by ``hidden``, so that no executor is asked for."""
    if not one.hidden or one.running or one.free or one.missing:
        return None
    facts = {"pending_tasks": one.pending - one.hidden, "hidden_tasks": one.hidden, **_targets(one)}
    return StallVerdict(StallCause.PENDING_BELOW_ZERO, facts)


def _unschedulable(one: ProfileMoment, _since: Since) -> StallVerdict | None:
    if not one.unschedulable:
        return None
    facts = {"unschedulable_task_sets": one.unschedulable, **_targets(one)}
    return StallVerdict(StallCause.UNSCHEDULABLE, facts, blocked=not one.works)


def _executors_die(one: ProfileMoment, since: Since) -> StallVerdict | None:
    if since.deaths < DEATHS_MIN:
        return None
    return StallVerdict(
        StallCause.EXECUTORS_DIE, {"died": since.deaths, "reason": since.reason, **_targets(one)}, since.dead
    )


def _ghost(one: ProfileMoment, since: Since) -> StallVerdict | None:
    """SPARK-52589. A log does not show it: executors that did not live long and are missing exactly are suspected."""
    if not one.missing or one.free:
        return None
    if one.ghosts:
        facts = {"ghosts": len(one.ghosts), "certain": 1, **_targets(one)}
        return StallVerdict(StallCause.GHOST, facts, one.ghosts[:NAMED_MAX], blocked=not one.works)
    if one.missing > len(since.short_lived):
        return None
    facts = {"ghosts": len(since.short_lived), "certain": 0, **_targets(one)}
    return StallVerdict(StallCause.GHOST, facts, since.short_lived[-NAMED_MAX:], blocked=not one.works)


def _quota(one: ProfileMoment, since: Since) -> StallVerdict | None:
    """Executors are missing that have no pod, and a pod was refused; those whose pods wait for a node were not refused."""
    if since.refused is None or one.missing <= one.pods_waiting or one.free:
        return None
    facts = {"refusals": since.refusals, "message": since.refused.message, **_targets(one)}
    return StallVerdict(StallCause.QUOTA, facts, blocked=not one.works)


def _nodes(one: ProfileMoment, _since: Since) -> StallVerdict | None:
    if not one.pods_waiting or one.free:
        return None
    return StallVerdict(StallCause.NODES, {"pods": one.pods_waiting, **_targets(one)}, one.pods, blocked=not one.works)


def _driver(one: ProfileMoment, _since: Since) -> StallVerdict | None:
    if not one.free or not one.tasks_known:
        return None
    return StallVerdict(StallCause.DRIVER, {"free_executors": one.free, **_targets(one)}, blocked=not one.works)


def _maximum(one: ProfileMoment, _since: Since) -> StallVerdict | None:
    """As many executors as may be are there and at work: a limit. Ids that ran out: a stall, as nothing can come."""
    if one.ids_over and one.missing:
        return StallVerdict(StallCause.MAXIMUM, _targets(one), blocked=not one.works)
    if one.maximum is None or one.executors < one.maximum:
        return None
    return StallVerdict(StallCause.MAXIMUM, _targets(one), blocked=not one.works)


def _not_coming(one: ProfileMoment, _since: Since) -> StallVerdict | None:
    if not one.missing and (one.target is not None or one.executors):
        return None
    facts = {"pods_placed": one.pods_placed, **_targets(one)} if one.pods_placed else _targets(one)
    return StallVerdict(StallCause.NOT_COMING, facts, one.placed, blocked=not one.works)


def _not_asked(one: ProfileMoment, _since: Since) -> StallVerdict | None:
    if one.running or one.target is None:
        return None
    return StallVerdict(StallCause.NOT_ASKED, _targets(one))


RULES: Final[tuple[Rule, ...]] = (
    _pending_below_zero, _unschedulable, _executors_die, _ghost, _quota, _nodes, _driver, _maximum, _not_coming, _not_asked
)  # fmt: skip


def _targets(one: ProfileMoment) -> dict[str, Fact]:
    """The numbers that every verdict has."""
    facts: dict[str, Fact] = {
        "waiting_tasks": one.pending if one.tasks_known else None,
        "running_tasks": one.running if one.tasks_known else None,
        "executors": one.executors,
        "target": one.target,
        "maximum": one.maximum,
    }
    return {name: value for name, value in facts.items() if value is not None}
