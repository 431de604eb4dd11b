"""A shadow beside Spark: what it sees of Spark's pods, when it may see it, and where the two part.

A shadow decides and writes nothing; the pods it would create are created by Spark, at about the same time. If it saw Spark's
pods at once, it would find its target met before it had decided anything. So a pod that Spark created is *held* until the
shadow has decided to create the same one: from then on it is seen as usual, and the shadow's books are those of Spark. A
pod that only one of them created within ``patience_ms`` is a *difference*: it is told, and the books are put right
(``Reconciled``), so that one difference does not lead to others for ever.

The same goes for letting go: a pod that the shadow would delete goes within the patience, or that is a difference; a pod
that is deleted without the shadow's decision is one too, whoever deleted it. And a pod that Spark let go before the shadow
decided it - its executor ended with exit code 0, or it was deleted while it was pending - is shown as it was for another
``leave_ms``: the shadow hears of the driver's tasks a little later than the driver, and an executor told to go is gone in a
quarter of a second. Pods that fail are shown at once.

``follow`` takes what the sensor saw, what the shadow decided, and time. A pod costs what happens to it, never the fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import PMap, pmap

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.protocol.commands import Decommission, Kill, Step
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import CreatePod, DeletePod, DeletePods
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated, Reconciled, WatchStimulus
from podtide.domain.protocol.pods import EXECUTOR_LABEL, PodManifest, PodNumber, pod_number

NO_EXECUTOR: Final = PodNumber(0)
"""Lower than every executor's number."""


@dataclass(frozen=True, slots=True)
class ShadowConfig:
    """``patience_ms``: how far apart the two may act and still do the same; at least two rounds.

    ``leave_ms``: how long a pod that Spark let go is shown as if it were there.
    """

    patience_ms: Millis = 10_000
    leave_ms: Millis = 3_000


class Deed(Enum):
    """What one of the two did and the other did not."""

    CREATED_BY_SPARK = "created by Spark alone"
    CREATED_HERE = "created by the shadow alone"
    DELETED_BY_OTHERS = "deleted without a decision here"
    DELETED_HERE = "deleted by the shadow alone"


class Difference(NamedTuple):
    """The two parted: over which executor, and when the one that acted did."""

    at: Millis
    deed: Deed
    executor: PodNumber
    since: Millis


class Same(NamedTuple):
    """Both did the same to an executor. ``lead_ms``: by how much the shadow was earlier; negative: later."""

    at: Millis
    created: bool
    executor: PodNumber
    lead_ms: Millis


Decided: TypeAlias = CreatePod | DeletePods | DeletePod | Kill | Decommission
ShadowInput: TypeAlias = WatchStimulus | Decided | Wake
ShadowCommand: TypeAlias = WatchStimulus | Reconciled | Difference | Same
"""What the engine may see now, and what is to be told."""

_DECISIONS: Final = (CreatePod, DeletePods, DeletePod, Kill, Decommission)


class UnsettledPod(NamedTuple):
    """A pod that the shadow has not decided to create, or to let go: since when, and what was seen of it, in order."""

    since: Millis
    seen: tuple[PodManifest, ...]


@dataclass(frozen=True, slots=True)
class ShadowState:
    """``begun``: the first list was taken as it is. ``ours``: creates decided here that Spark has not made, and when.

    ``held``: see ``UnsettledPod``; ``going``: the same of pods that are known and that Spark let go. ``known``: pods that
    both have, or that were there before. ``leaving``: deletes decided here that did not happen yet; ``left``: pods that
    went without a decision here, and when. ``last``: the highest executor number that is settled.
    """

    begun: bool = False
    ours: PMap[PodNumber, Millis] = field(default_factory=pmap)
    held: PMap[PodNumber, UnsettledPod] = field(default_factory=pmap)
    going: PMap[PodNumber, UnsettledPod] = field(default_factory=pmap)
    known: PMap[PodNumber, bool] = field(default_factory=pmap)
    leaving: PMap[PodNumber, Millis] = field(default_factory=pmap)
    left: PMap[PodNumber, Millis] = field(default_factory=pmap)
    last: PodNumber = NO_EXECUTOR


def begin() -> ShadowState:
    """Nothing has been seen."""
    return ShadowState()


def due(state: ShadowState, config: ShadowConfig) -> Millis:
    """When patience next ends. Costs what is open, which is little."""
    open_since = [*state.ours.values(), *(held.since for held in state.held.values())]
    open_since += [*state.leaving.values(), *state.left.values()]
    patience = min(open_since) + config.patience_ms if open_since else NEVER
    return min([patience, *(held.since + config.leave_ms for held in state.going.values())])


def follow(
    state: ShadowState, snapshots: Sequence[ShadowInput], config: ShadowConfig, now: Millis
) -> Step[ShadowState, ShadowCommand]:
    """Take what was seen and decided, in order; say what the engine may see, and where the two part. Never raises."""
    commands: list[ShadowCommand] = []
    for item in snapshots:
        if isinstance(item, _DECISIONS):
            state = _decided(state, item, now, commands)
            continue
        match item:
            case PodsUpdated():
                state = _updated(state, item, now, commands)
            case PodsReplaced():
                state = _shown(state, sorted(state.going), now, commands)
                state = _listed(state, item.pods, now, commands)
                commands.append(item._replace(pods=_without_held(state, item.pods)))
            case Outcome():
                if item.pods:
                    state = _shown(state, sorted(state.going), now, commands)
                    state = _listed(state, item.pods, now, commands)
                commands.append(item._replace(pods=_without_held(state, item.pods)) if item.pods else item)
            case Wake():
                state = _impatient(state, config, now, commands)
            case _:
                assert_never(item)
    return Step(state, tuple(commands))


# ------------------------------------------------------------------------------------------------------- what was seen


def _updated(state: ShadowState, item: PodsUpdated, now: Millis, commands: list[ShadowCommand]) -> ShadowState:
    shown: list[PodManifest] = []
    for pod in item.pods:
        number = number_of(pod)
        if number is None:
            shown.append(pod)
            continue
        state, visible = _met(state, number, pod, now, commands)
        if visible:
            shown.append(pod)
            if pod.deleted_at is not None:
                state = _went(state, number, now, commands)
    if shown:
        commands.append(item._replace(pods=tuple(shown)))
    return state


def _met(
    state: ShadowState, number: PodNumber, pod: PodManifest, now: Millis, commands: list[ShadowCommand]
) -> tuple[ShadowState, bool]:
    """A pod was seen. Whether the engine may see it."""
    if number in state.known:
        going = state.going.get(number)
        if going is None and not (state.known[number] and number not in state.leaving and _was_let_go(pod)):
            return state, True
        going = UnsettledPod(now, (pod,)) if going is None else UnsettledPod(going.since, (*going.seen, pod))
        return replace(state, going=state.going.set(number, going)), False
    if number in state.ours:
        commands.append(Same(now, True, number, now - state.ours[number]))
        return _settled(replace(state, ours=state.ours.remove(number)), number), True
    held = state.held.get(number)
    held = UnsettledPod(now, (pod,)) if held is None else UnsettledPod(held.since, (*held.seen, pod))
    return replace(state, held=state.held.set(number, held)), False


def _listed(
    state: ShadowState, pods: tuple[PodManifest, ...], now: Millis, commands: list[ShadowCommand]
) -> ShadowState:
    numbered = {number: pod for pod in pods if (number := number_of(pod)) is not None}
    if not state.begun:
        known = pmap(dict.fromkeys(numbered, True))
        last = max(numbered, default=NO_EXECUTOR)
        commands.append(Reconciled(now, last))
        return replace(state, begun=True, known=known, last=max(state.last, last))
    for number, pod in numbered.items():
        if number not in state.known and number not in state.held:
            state, _ = _met(state, number, pod, now, commands)
    for number in [n for n in state.known if n not in numbered]:
        state = _went(state, number, now, commands)
        state = replace(state, known=state.known.remove(number))
    return state


def _without_held(state: ShadowState, pods: tuple[PodManifest, ...]) -> tuple[PodManifest, ...]:
    return tuple(pod for pod in pods if number_of(pod) not in state.held) if state.held else pods


def _went(state: ShadowState, number: PodNumber, now: Millis, commands: list[ShadowCommand]) -> ShadowState:
    """A pod is going, or gone."""
    since = state.leaving.get(number)
    if since is not None:
        commands.append(Same(now, False, number, now - since))
        return replace(state, leaving=state.leaving.remove(number), known=state.known.set(number, False))
    if state.known.get(number, False):
        return replace(state, left=state.left.set(number, now), known=state.known.set(number, False))
    return state


# ---------------------------------------------------------------------------------------------------- what was decided


def _decided(state: ShadowState, decision: Decided, now: Millis, commands: list[ShadowCommand]) -> ShadowState:
    match decision:
        case CreatePod():
            return _create(state, decision.executor, now, commands)
        case DeletePod():
            return _delete(state, (decision.executor,), now, commands)
        case DeletePods():
            named = decision.executors
            numbers = tuple(state.known) if named is None else tuple(pod_number(str(one)) for one in named)
            return _delete(state, numbers, now, commands)
        case Kill() | Decommission():
            return _delete(state, tuple(pod_number(executor) for executor in decision.executors), now, commands)
        case _:
            assert_never(decision)


def _create(state: ShadowState, number: PodNumber, now: Millis, commands: list[ShadowCommand]) -> ShadowState:
    held = state.held.get(number)
    if held is None:
        return replace(state, ours=state.ours.set(number, now))
    commands.append(Same(now, True, number, held.since - now))
    commands.append(PodsUpdated(now, held.seen))
    state = _settled(replace(state, held=state.held.remove(number)), number)
    return _went(state, number, now, commands) if held.seen[-1].deleted_at is not None else state


def _delete(
    state: ShadowState, numbers: tuple[PodNumber | None, ...], now: Millis, commands: list[ShadowCommand]
) -> ShadowState:
    for number in numbers:
        if number is None or number in state.leaving:
            continue
        going = state.going.get(number)
        since = state.left.get(number)
        if going is not None:
            commands.append(Same(now, False, number, going.since - now))
            commands.append(PodsUpdated(now, going.seen))
            state = replace(state, going=state.going.remove(number), known=state.known.set(number, False))
        elif since is not None:
            commands.append(Same(now, False, number, since - now))
            state = replace(state, left=state.left.remove(number))
        elif state.known.get(number, False):
            state = replace(state, leaving=state.leaving.set(number, now))
    return state


# -------------------------------------------------------------------------------------------------- where the two part


def _impatient(state: ShadowState, config: ShadowConfig, now: Millis, commands: list[ShadowCommand]) -> ShadowState:
    gone = sorted(number for number, held in state.going.items() if held.since <= now - config.leave_ms)
    state = _shown(state, gone, now, commands)
    limit = now - config.patience_ms
    late = sorted(number for number, since in state.ours.items() if since <= limit)
    alone = sorted(number for number, held in state.held.items() if held.since <= limit)
    for number in late:
        commands.append(Difference(now, Deed.CREATED_HERE, number, state.ours[number]))
        state = replace(state, ours=state.ours.remove(number))
    released: list[PodManifest] = []
    for number in alone:
        held = state.held[number]
        commands.append(Difference(now, Deed.CREATED_BY_SPARK, number, held.since))
        released.extend(held.seen)
        state = _settled(replace(state, held=state.held.remove(number)), number)
    if late or alone:
        # The next number is the one after the highest that is settled or still expected of either side.
        last = max((state.last, *state.ours), default=NO_EXECUTOR)
        commands.append(Reconciled(now, last, tuple(late), exact=True))
    if released:
        commands.append(PodsUpdated(now, tuple(released)))
    for number, since in sorted(state.leaving.items()):
        if since <= limit:
            commands.append(Difference(now, Deed.DELETED_HERE, number, since))
            state = replace(state, leaving=state.leaving.remove(number))
    for number, since in sorted(state.left.items()):
        if since <= limit:
            commands.append(Difference(now, Deed.DELETED_BY_OTHERS, number, since))
            state = replace(state, left=state.left.remove(number))
    return state


def _shown(state: ShadowState, numbers: Sequence[PodNumber], now: Millis, commands: list[ShadowCommand]) -> ShadowState:
    """Show how pods ended that Spark let go without a decision here."""
    for number in numbers:
        held = state.going[number]
        commands.append(PodsUpdated(now, held.seen))
        left = state.left.set(number, held.since)
        state = replace(state, going=state.going.remove(number), left=left, known=state.known.set(number, False))
    return state


def _was_let_go(pod: PodManifest) -> bool:
    """Whether Spark let this pod go: its executor was told to end and did, or it was pending and was deleted."""
    phase = (pod.phase or "pending").lower()
    return phase == "succeeded" or (pod.deleted_at is not None and phase == "pending")


def _settled(state: ShadowState, number: PodNumber) -> ShadowState:
    return replace(state, known=state.known.set(number, True), last=max(state.last, number))


def number_of(pod: PodManifest) -> PodNumber | None:
    """The executor's number by the pod's label; None where it has none that is a number."""
    return pod_number(pod.labels.get(EXECUTOR_LABEL, ""))
