"""Real pods under the fake cluster's decisions: what kubelets are told, and that the same comes of the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.base.randomness import Constant, Uniform
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster, due
from podtide.domain.fakes.kubernetes.description import (
    Description,
    Executors,
    Life,
    NodeEvent,
    NodeGroup,
    NodeHappening,
    PodShape,
    PodStage,
)
from podtide.domain.fakes.kubernetes.real_pods import (
    Decision,
    DeletionSeen,
    NodeClosed,
    NodeJoined,
    NodeLost,
    PodExited,
    PodHung,
    PodRemoved,
    PodSeen,
    PodShown,
    PodSight,
    PodVanished,
    begin,
    lead,
    uniform,
)

NOW = 1_763_000_000_000
ONE = PodShape(1_000, 1_024)
STAGES = uniform(1, 1).executors.stages


class Led:
    """Pods that are led; ``told``: the decisions so far, each with its time."""

    def __init__(self, description: Description) -> None:
        self.cluster: KubernetesCluster
        self.cluster, first = begin(description, NOW)
        self.now = NOW
        self.told: list[tuple[Millis, Decision]] = [(NOW, one) for one in first]

    def see(self, *sights: PodSight) -> list[Decision]:
        """Sights now."""
        self.cluster, decisions = lead(self.cluster, sights, self.now)
        self.told += ((self.now, one) for one in decisions)
        return list(decisions)

    def until(self, at_ms: Millis) -> list[Decision]:
        """What comes up to a moment after the beginning."""
        found = []
        while (next_at := due(self.cluster)) <= NOW + at_ms:
            self.now = max(self.now, next_at)
            found += self.see()
        self.now = NOW + at_ms
        return found


def seen(uid: str, shape: PodShape = ONE, *, restarts: bool = False) -> PodSeen:
    return PodSeen(uid, 0, shape, restarts)


def with_stages(*more: PodStage, nodes: int = 1, **changes: Any) -> Description:
    base = uniform(nodes, 4)
    return replace(base, executors=Executors(stages=(*STAGES, *more)), **changes)


def phases(decisions: Sequence[Decision], uid: str) -> list[tuple[str | None, str | None]]:
    """Phase and node of each sight of a pod, without repeats."""
    shown = [
        (one.manifest.phase, one.manifest.node) for one in decisions if isinstance(one, PodShown) and one.uid == uid
    ]
    return list(dict.fromkeys(shown))


def test_a_pod_runs_at_once_and_goes_when_it_is_deleted() -> None:
    play = Led(uniform(2, 1))
    assert [one for _, one in play.told] == [NodeJoined(f"node-{n}", 1_000_000, 4 << 20, 1) for n in (1, 2)]
    assert phases(play.see(seen("a")), "a") == [("Pending", None), ("Pending", "node-1"), ("Running", "node-1")]
    play.see(seen("b"))
    assert phases(play.see(seen("c")), "c") == [("Pending", None)]  # no room
    play.now += 1_000
    gone = play.see(DeletionSeen("a", 30_000))
    assert phases(gone, "a") == [("Running", "node-1"), ("Failed", "node-1")]
    assert PodRemoved("a") in gone
    assert phases(gone, "c")[-1] == ("Running", "node-1")
    assert play.see(PodVanished("a"), DeletionSeen("a", 0), PodExited("a", 1)) == []  # nothing of it is left


def test_requests_of_real_pods_decide_how_many_fit() -> None:
    group = NodeGroup("n", 1, 4_000, 8_192)
    play = Led(replace(uniform(1, 1), groups=(group,)))
    nodes = [phases(play.see(seen(str(n), PodShape(1_500, 10))), str(n))[-1] for n in range(3)]
    assert nodes == [("Running", "n-1"), ("Running", "n-1"), ("Pending", None)]


@pytest.mark.parametrize(("restarts", "last"), [(False, "Failed"), (True, "Running")])
def test_a_container_that_ends_begins_again_where_its_policy_says_so(restarts: bool, last: str) -> None:
    crash = PodStage("crash", Life.REGISTERED, Life.FAILED, Constant(2_000), exits=((9, 1.0),))
    register = PodStage("register", Life.RUNNING, Life.REGISTERED, Constant(500))
    play = Led(with_stages(crash, register))
    play.see(seen("a", restarts=restarts))
    manifests = [one.manifest for one in play.until(10_000) if isinstance(one, PodShown)]
    states = [one.containers[0].state for one in manifests if one.containers]
    assert 9 in [state.exit_code for state in states if state is not None]
    assert manifests[-1].phase == last


def test_a_hang_is_told_and_takes_the_whole_grace() -> None:
    hang = PodStage("hang", Life.REGISTERED, Life.HUNG, Constant(1_000))
    register = PodStage("register", Life.RUNNING, Life.REGISTERED)
    play = Led(with_stages(hang, register))
    play.see(seen("a"))
    assert play.until(2_000) == [PodHung("a", True)]
    assert not any(isinstance(one, PodRemoved) for one in play.see(DeletionSeen("a", 30_000)))
    assert not any(isinstance(one, PodRemoved) for one in play.until(31_999))
    assert PodRemoved("a") in play.until(32_000)


def test_what_a_drained_node_holds_is_deleted_first_here_and_ends_within_the_grace_of_its_api() -> None:
    events = (NodeEvent(1_000, NodeHappening.DRAIN, "node"),)
    stages = tuple(stage for stage in STAGES if stage.name != "terminate")
    play = Led(replace(uniform(1, 4), node_events=events, executors=Executors(stages=stages)))
    play.see(seen("a"))
    drained = play.until(1_000)
    assert NodeClosed("node-1") in drained
    (marked,) = (one for one in drained if isinstance(one, PodShown))
    assert marked.manifest.deleted_at is not None
    play.see(DeletionSeen("a", 5_000))
    assert PodRemoved("a") not in play.until(5_999)
    assert PodRemoved("a") in play.until(6_000)


def test_a_node_that_crashes_takes_its_pods_silently_and_they_are_cleaned_up_later() -> None:
    events = (NodeEvent(1_000, NodeHappening.CRASH, "node"),)
    play = Led(replace(uniform(1, 4), node_events=events, orphaned_ms=3_000))
    play.see(seen("a"))
    assert play.until(3_999) == [NodeLost("node-1")]
    assert [type(one) for one in play.until(4_000)][-1] is PodRemoved


def test_a_process_that_ended_by_itself_frees_its_room() -> None:
    play = Led(uniform(1, 1))
    play.see(seen("a"), seen("b"))
    found = play.see(PodExited("a", 7))
    assert phases(found, "a") == [("Failed", "node-1")]
    assert phases(found, "b")[-1] == ("Running", "node-1")


STORMY = replace(
    with_stages(
        PodStage("register", Life.RUNNING, Life.REGISTERED, Uniform(0, 500)),
        PodStage("oom", Life.REGISTERED, Life.FAILED, per_hour=2_000.0, exits=((137, 1.0),)),
        PodStage("hang", Life.REGISTERED, Life.HUNG, per_hour=2_000.0),
        PodStage("wake", Life.HUNG, Life.REGISTERED, Uniform(1, 5_000)),
    ),
    groups=(NodeGroup("n", 2, 4_000, 65_536, 110, 4, Uniform(1, 3_000), interruptions_per_hour=600, notice_ms=500),),
    scan_ms=500,
    orphaned_ms=1_000,
    seed=5,
)
SIGHTS = st.lists(
    st.tuples(
        st.one_of(
            st.builds(seen, st.sampled_from("abcdefgh"), restarts=st.booleans()),
            st.builds(DeletionSeen, st.sampled_from("abcdefgh"), st.integers(0, 3_000)),
            st.builds(PodVanished, st.sampled_from("abcdefgh")),
            st.builds(PodExited, st.sampled_from("abcdefgh"), st.integers(0, 255)),
        ),
        st.integers(0, 4_000),
    ),
    max_size=25,
)


def played(sights: list[tuple[PodSight, int]], *, fork: bool) -> list[tuple[Millis, Decision]]:
    play = Led(STORMY)
    for sight, wait in sights:
        play.until(play.now - NOW + wait)
        if fork:
            lead(play.cluster.fork(), [sight, seen("another")], play.now)
            with pytest.raises(ValueError, match="before that"):
                lead(play.cluster, [sight], play.cluster.now - 1)
        play.see(sight)
    play.until(play.now - NOW + 20_000)
    assert due(play.cluster) > play.now
    assert due(play.cluster) <= NEVER
    return play.told


@settings(max_examples=60, deadline=None)
@given(SIGHTS)
def test_the_same_seed_and_sights_lead_to_the_same_and_a_fork_changes_nothing(
    sights: list[tuple[PodSight, int]],
) -> None:
    told = played(sights, fork=False)
    assert played(sights, fork=True) == told
    there: set[str] = set()
    for _, one in told:  # nodes come before they go, and pods are bound to nodes that are there
        if isinstance(one, NodeJoined):
            assert one.name not in there
            there.add(one.name)
        elif isinstance(one, NodeLost):
            there.remove(one.name)
