"""A life in charge: pods come up, are scaled down, fail, are evicted, vanish, wait for ever and start late.

After each of these the books equal the cluster; at the end nothing is left, no executor id was used twice, and the recording
is decided again as it was decided (``life``). 50 pods; PODTIDE_LIVE=full: 1,000.
"""

from __future__ import annotations

from pathlib import Path

from tests.live.cluster import Cluster
from tests.live.kubelet import Kubelet
from tests.live.life import Census, Life, at_rest, left, names, patience, replays, swept, truth, vanish
from tests.live.waiting import until


def test_a_life(cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path) -> None:
    record, some, took = tmp_path / "life.jsonl", max(1, size // 5), dict[str, float]()
    with Life(cluster, namespace, tmp_path, "--on-exit", "delete", record=record) as run:

        def reached(what: str, wanted: int) -> None:
            took[what] = run.agrees(wanted, patience(size))

        run.tell(f"target {size}")
        reached("up", size)
        assert census.most == census.ids == size
        run.tell(f"target {some}")
        reached("down", some)
        run.tell(f"target {size}")
        reached("up again", size)

        for name in names(cluster, namespace)[:some]:
            kubelet.finish(name, "Failed", 1)
        until(lambda: truth(cluster, namespace)["running"] < size, what="failed pods")
        reached("failed", size)
        for name in names(cluster, namespace)[some : 2 * some]:
            kubelet.evict(name)
        until(lambda: truth(cluster, namespace)["running"] < size, what="evicted pods")
        reached("evicted", size)
        vanish(cluster, namespace, names(cluster, namespace)[2 * some : 3 * some])
        reached("vanished", size)

        kubelet.hold(True)  # pending for ever
        run.tell(f"target {size + some}")
        until(lambda: truth(cluster, namespace)["pending"] == some, patience(size), "pods that wait")
        run.tell(f"target {size}")
        reached("those that waited gone", size)
        run.tell(f"target {size + some}")  # slow to start
        until(lambda: truth(cluster, namespace)["pending"] == some, patience(size), "pods that wait")
        vanish(cluster, namespace, names(cluster, namespace, "Pending")[: some // 2])
        until(lambda: truth(cluster, namespace)["pending"] == some, patience(size), "others in their place")
        kubelet.hold(False)
        reached("late ones", size + some)

        assert run.stop() == 0, run.complaints()
        run.ended_as_listed()
    at_rest(cluster, namespace, census, [record])
    print(f"{size} pods, {census.ids} ids; seconds: " + ", ".join(f"{what} {s:.1f}" for what, s in took.items()))


def test_what_is_kept_is_taken_over_by_the_next_run_and_deleted_by_stop(
    cluster: Cluster, namespace: str, size: int, kubelet: Kubelet, census: Census, tmp_path: Path
) -> None:
    del kubelet
    records = [tmp_path / "first.jsonl", tmp_path / "second.jsonl"]
    with Life(cluster, namespace, tmp_path, target=size, record=records[0]) as run:
        run.agrees(size, patience(size))
        assert run.stop() == 0
        run.ended_as_listed()
    assert census.ids == size
    with Life(cluster, namespace, tmp_path, target=size // 5, record=records[1]) as run:
        run.agrees(size // 5, patience(size))
        assert run.stop() == 0
        run.ended_as_listed()
    assert census.ids == size  # those that were there were known, and the eldest stayed
    assert left(cluster, namespace) != []
    swept(cluster, namespace)
    census.no_id_twice()
    replays(*records)
