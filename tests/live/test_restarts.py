"""Killed at any moment and started again; two instances for one application; one that slept through its lease.

However a run ends, the next one has exactly the target in the end: no pod doubled, none forgotten, no executor id used
twice. 50 pods and 10 kills; PODTIDE_LIVE=full: 1,000 pods and 100 kills. The moments are drawn from a seed that is printed.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from pathlib import Path

import pytest

from tests.live.cluster import Cluster
from tests.live.kubelet import Kubelet
from tests.live.life import (
    Census,
    Life,
    at_rest,
    lease,
    left,
    names,
    patience,
    replays,
    swept,
    truth,
    vanish,
    whole_only,
)
from tests.live.waiting import until

SEED = 20261121


def emptied(cluster: Cluster, namespace: str) -> bool:
    """Whether no pod is there; those that are, vanish. Calls of one that was killed may arrive late."""
    pods = [pod["metadata"]["name"] for pod in cluster.pods(namespace)]
    vanish(cluster, namespace, pods)
    return not pods


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "unrecorded"])
def test_killed_at_random_moments(
    cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path, recorded: bool
) -> None:
    kills = 50 if cluster.full else 5
    rng = random.Random(SEED + recorded)
    record = tmp_path / "life.jsonl" if recorded else None
    decided: list[float] = []
    most_wanted = 0

    def life(target: int, *options: str) -> Life:
        return Life(cluster, namespace, tmp_path, *options, target=target, record=record)

    for number in range(kills):
        target = rng.choice([size, size // 5, size // 2, 0])
        most_wanted = max(most_wanted, target)
        with life(target) as run:
            if number % 2 == 0 and target > census.now:
                before = census.ids
                # In the middle of creations: some are there, some on their way, some not begun.
                until(lambda before=before: census.ids > before, 60, "a creation", 0.002)  # type: ignore[misc]
                time.sleep(rng.uniform(0, 0.2))
            else:
                time.sleep(rng.uniform(0, 4))
            run.kill()
            if (first := run.first_decision_ms()) is not None:
                decided.append(first)
        if number % 3 == 2:  # things happen while nobody is there
            there = names(cluster, namespace)
            vanish(cluster, namespace, rng.sample(there, min(len(there), size // 10)))
        elif number % 3 == 1:
            there = names(cluster, namespace)
            for name in rng.sample(there, min(len(there), size // 10)):
                kubelet.finish(name, "Failed", 1)
    began = time.time()
    with life(size, "--on-exit", "delete") as run:
        run.agrees(size, patience(size))
        took = time.time() - began
        assert run.stop() == 0, run.complaints()
        run.ended_as_listed()
        if (first := run.first_decision_ms()) is not None:
            decided.append(first)
    # A run that begins while pods of its predecessor are on their way may see too few of them, for a moment.
    seconds = f"first decision after {statistics.median(decided):.0f} ms, the target after {took:.1f} s"
    print(
        f"{kills} kills (seed {SEED + recorded}), {census.ids} ids up to {census.highest}, at most {census.most} pods "
        f"at once for {most_wanted} wanted; {seconds}"
    )
    at_rest(cluster, namespace, census, [record] if record else [])


def test_killed_while_it_creates_and_what_it_had_created_vanishes(
    cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    """What was asked for and never answered is not asked for again under the same id: it may have been there, and gone.

    And what was created and never seen is not waited for: the first list says that it is gone.
    """
    record = tmp_path / "life.jsonl"
    for _ in range(10 if cluster.full else 2):
        before = census.ids
        with Life(cluster, namespace, tmp_path, target=size, record=record) as run:
            until(lambda before=before: census.ids > before, 60, "a creation", 0.002)  # type: ignore[misc]
            run.kill()
        until(lambda: emptied(cluster, namespace), 20, "no pod")
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=size, record=record) as run:
        run.agrees(size, 30 + size / 8)  # one that is waited for takes a minute
        assert run.stop() == 0
    at_rest(cluster, namespace, census, [record])


def test_killed_in_the_middle_of_its_own_end(
    cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    record = tmp_path / "life.jsonl"
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=size, record=record) as run:
        run.agrees(size, patience(size))
        run.process.terminate()
        until(lambda: census.now < size, 30, "a pod on its way out", 0.002)
        run.kill()
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=size, record=record) as run:
        run.agrees(size, patience(size))
        assert run.stop() == 0
        run.ended_as_listed()
    at_rest(cluster, namespace, census, [record])


def test_a_recording_that_was_cut_in_the_middle_of_a_line(
    cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    whole_only(cluster)
    record = tmp_path / "life.jsonl"
    with Life(cluster, namespace, tmp_path, target=size, record=record) as run:
        run.agrees(size, patience(size))
        run.kill()
    whole = record.read_bytes()
    record.write_bytes(whole[: len(whole) * 2 // 3])  # as a disk that was full, or a machine that lost power
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=size, record=record) as run:
        run.agrees(size, patience(size))
        assert run.stop() == 0
    assert census.ids == size
    at_rest(cluster, namespace, census, [record])


def test_a_second_instance_is_refused_until_the_first_is_gone(
    cluster: Cluster, namespace: str, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    records = [tmp_path / f"{name}.jsonl" for name in ("first", "second", "third")]
    with Life(cluster, namespace, tmp_path, target=10, record=records[0]) as first:
        first.agrees(10)
        with Life(cluster, namespace, tmp_path, target=3, record=records[1]) as second:
            assert second.ended() == 4
            assert str(first.process.pid) in second.complaints()
            assert "another instance acts for life" in second.complaints()
        first.agrees(10)
        waits = Life(
            cluster, namespace, tmp_path, "--lease-wait", "60s", "--on-exit", "delete", target=3, record=records[2]
        )
        with waits as third:
            assert first.stop() == 0
            third.agrees(3)
            assert third.stop() == 0
    assert not records[1].exists()
    at_rest(cluster, namespace, census, [records[0], records[2]])


@pytest.mark.parametrize("busy", [False, True], ids=["at rest", "while it creates"])
def test_one_that_slept_through_its_lease_writes_nothing_more(
    cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path, busy: bool
) -> None:
    if busy:
        whole_only(cluster)
    records = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    rate = ("--create-rate", "20") if busy else ()
    with Life(cluster, namespace, tmp_path, "--lease", "4s", *rate, target=size, record=records[0]) as first:
        if busy:
            until(lambda: census.ids > 5, 60, "a creation", 0.002)
        else:
            first.agrees(size, patience(size))
        with first.frozen():
            second = Life(
                cluster, namespace, tmp_path, "--lease-wait", "60s", "--on-exit", "delete",
                target=size // 5, record=records[1],
            )  # fmt: skip
            with second:
                second.agrees(size // 5, patience(size))
                known = set(census.by_name)
                first.process.send_signal(18)  # SIGCONT
                # It is told by the lease that somebody else is in charge, and ends.
                assert first.ended(60) == 4, first.told()[-3000:]
                assert "second" not in first.complaints()
                second.agrees(size // 5)
                assert set(census.by_name) == known, "it created pods that it had no right to create"
                assert second.stop() == 0
    assert "lease" in first.complaints()
    at_rest(cluster, namespace, census, records)


def test_a_lease_that_somebody_deletes_ends_the_run(
    cluster: Cluster, namespace: str, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    whole_only(cluster)
    record = tmp_path / "life.jsonl"
    with Life(cluster, namespace, tmp_path, "--lease", "4s", target=5, record=record) as run:
        run.agrees(5)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/podtide-life"
        cluster.must("delete", "leases", path)
        assert run.ended(30) == 4
        assert "was deleted" in run.complaints()
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", target=8, record=record) as run:
        run.agrees(8)  # the ids of the pods that are there are not used again, though their mark is gone
        assert run.stop() == 0
    at_rest(cluster, namespace, census, [record])


def test_the_mark_of_ids_outlives_pods_and_recording(
    cluster: Cluster, namespace: str, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    whole_only(cluster)
    for number in range(3):
        with Life(cluster, namespace, tmp_path, target=7) as run:
            run.agrees(7)
            if number % 2:
                run.kill()
            else:
                assert run.stop() == 0
        mark = json.dumps(lease(cluster, namespace)["metadata"]["annotations"])
        assert f'"{census.highest}"' in mark or number % 2, mark  # a kill leaves what was reserved ahead
        vanish(cluster, namespace, names(cluster, namespace))
        until(lambda: not truth(cluster, namespace), what="no pod")
    assert census.ids == 21
    census.no_id_twice()
    assert left(cluster, namespace) != []
    swept(cluster, namespace, "--force")
    replays()
