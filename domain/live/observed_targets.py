"""What Spark wanted, as far as its pods tell: the executors that are there and not on their way out, per profile.

A shadow without the REST API of the driver sees only pods. Every pod that Spark created was wanted, and one that ended or is
being deleted is wanted no longer; so the number of the others is the target that Spark has got so far. It trails the real
target - of a target of 1,000 it first sees one batch - and says nothing of executors that Spark lacks. What the shadow
then decides is what its own allocator would have done with that target: batches, limits, deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyrsistent import PMap, pmap

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.live.headless import labelled_profile
from podtide.domain.live.shadow import number_of
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated, WatchStimulus
from podtide.domain.protocol.pods import PodManifest, PodNumber

WANTED_PHASES = frozenset({"pending", "running"})
"""Phases of pods that may still do something, in lower case."""


class FollowState(NamedTuple):
    """``wanted``: executors that are there, with their profile. ``targets``: how many of each profile, as last told."""

    wanted: PMap[PodNumber, ProfileId] = pmap()
    counts: PMap[ProfileId, int] = pmap()
    targets: PMap[ProfileId, int] = pmap()


def begin() -> FollowState:
    """Nothing has been seen."""
    return FollowState()


def follow(state: FollowState, snapshots: Sequence[WatchStimulus], now: Millis) -> Step[FollowState, TargetsSet]:
    """Take what was seen, in order; say the targets where they changed. Never raises."""
    wanted, counts = state.wanted, dict(state.counts)
    for item in snapshots:
        listed = isinstance(item, PodsReplaced) or (isinstance(item, Outcome) and bool(item.pods))
        if not isinstance(item, PodsUpdated) and not listed:
            continue
        if listed:
            numbers = {number_of(pod) for pod in item.pods}
            for number in [n for n in wanted if n not in numbers]:
                counts[wanted[number]] -= 1
                wanted = wanted.remove(number)
        for pod in item.pods:
            found = number_of(pod)
            if found is None:
                continue
            if found in wanted:
                counts[wanted[found]] -= 1
                wanted = wanted.remove(found)
            if _is_wanted(pod):
                profile = labelled_profile(pod)
                counts[profile] = counts.get(profile, 0) + 1
                wanted = wanted.set(found, profile)
    changed = {profile: count for profile, count in sorted(counts.items()) if state.targets.get(profile, 0) != count}
    targets = state.targets.update(changed) if changed else state.targets
    commands = (TargetsSet(now, tuple(changed.items())),) if changed else ()
    return Step(FollowState(wanted, pmap(counts), targets), commands)


def _is_wanted(pod: PodManifest) -> bool:
    return pod.deleted_at is None and (pod.phase or "pending").lower() in WANTED_PHASES
