"""``podtide whatif``, ``tune`` and ``diff`` for logs of YARN: worked out by hand, with clusters, and with real logs."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.plan import Variant
from podtide.domain.rerun.rerun import rerun
from podtide.domain.whatif.summary import OwnError, own_error
from podtide.entrypoints.whatif.recorded_log import NothingToRun, load
from podtide.entrypoints.whatif.run import ask, planned, refusal, study
from podtide.entrypoints.whatif.variants import VariantWishes, variants_of
from tests.entrypoints.whatif.test_command import asked, document
from tests.support.project import SHARED
from tests.support.whatif_log import STATIC, write_log

DATA = SHARED / "data" / "public"
DA = "spark.dynamicAllocation."
HEARTBEAT = "spark.yarn.scheduler.heartbeat.interval-ms"
FIRST = "spark.yarn.scheduler.initial-allocation.interval"
DYNAMIC = {
    "spark.master": "yarn", DA + "enabled": "true", DA + "shuffleTracking.enabled": "true", DA + "initialExecutors": "2",
    DA + "maxExecutors": "2", "spark.executor.cores": "1",
}  # fmt: skip

ONE_NODE = """
kind: yarn
nodes:
  heartbeat: 1ms
  groups:
    - {name: n, count: 1, memory: 2Gi, vcores: 2}
manager: {latency: 0s}
executors: {launch: 0s, localize: 0s, localized: 0s, start: 2s, exit: 0s, drain: 0s, rpc: 0s}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Room for one container of the log's, which starts within two seconds."""
    file = tmp_path / "cluster.yaml"
    file.write_text(ONE_NODE)
    return file


# ------------------------------------------------------------------------------------------------------------- by hand


def test_its_own_run_comes_out_as_it_was(log: Path) -> None:
    """Asked for at the start, given after 200 ms, there after 3 s; 2.8 s of each are the container's start-up."""
    found = document(log, "--seeds", "1")
    own = found["self_replay"]
    assert own["error"] == {"runtime": 0.0, "executor_seconds": 0.0, "peak_executors": 0, "curve": 0.0}
    assert (own["billed_seconds"], own["ledger"]["starting"]) == (2 * 23.8, 2 * 2.8)


def test_the_masters_intervals_matter(log: Path) -> None:
    """Executors come at 4.8 s and at 12.8 s, the job a second later, as in the log. A container costs from its grant on."""
    found = document(
        log, "--set", f"{FIRST}=2s", "--variant", "late:" + FIRST + "=10s," + HEARTBEAT + "=10s", "--seeds", "1"
    )
    slow, late = found["variants"]
    assert (slow["runtime_s"], slow["billed_seconds"]) == (25.8, 2 * 23.8)
    assert (late["runtime_s"], late["billed_seconds"]) == (33.8, 2 * 23.8)
    assert late["waiting"]["heartbeat"] > slow["waiting"]["heartbeat"] == pytest.approx(2.0, abs=0.01)


@pytest.mark.parametrize(
    ("option", "runtime"), [(("--quota", "1"), 71.0), (("--slow-start", "5s"), 29.0), (("--static", "4"), 14.0)]
)
def test_variants_on_yarn(log: Path, option: tuple[str, str], runtime: float) -> None:
    """The driver waits 30 s for the second executor (maxRegisteredResourcesWaitingTime), and has a second to go then."""
    (one,) = document(log, *option, "--seeds", "1")["variants"]
    assert one["runtime_s"] == runtime
    assert sum(one["ledger"].values()) == pytest.approx(one["billed_seconds"], abs=0.01)
    assert sum(one["waiting"].values()) == pytest.approx(one["waited_s"], abs=0.01)


def test_a_full_queue_is_what_tasks_wait_for(log: Path) -> None:
    (one,) = document(log, "--quota", "1", "--seeds", "1")["variants"]
    waiting = {limit: spent for limit, spent in one["waiting"].items() if spent}
    assert max(waiting, key=lambda limit: waiting[limit] if limit != "maximum" else 0) == "capacity"


def test_interruptions_are_preemptions(log: Path) -> None:
    (one,) = document(log, "--spot-rate", "400/h", "--seeds", "2")["variants"]
    assert one["unfinished"] is None
    assert one["executors_lost"] > 0
    assert one["ledger"]["lost_work"] > 0


def test_dynamic_allocation_on_yarn(tmp_path: Path) -> None:
    log = write_log(tmp_path / "dynamic.json", DYNAMIC)
    found = document(log, "--set", f"{DA}maxExecutors=4", "--seeds", "1")
    assert found["self_replay"]["error"]["runtime"] == 0.0
    (wide,) = found["variants"]
    assert (wide["peak_executors"], wide["executors_started"]) == (4, 4)
    assert wide["runtime_s"] < 24.0


# ------------------------------------------------------------------------------------------------------------ clusters


def test_a_cluster_of_yarn(log: Path, cluster: Path) -> None:
    """One executor fits; the driver waits 30 s for the other one before it goes to its first job."""
    found = document(log, "--cluster", cluster, "--static", "2", "--seeds", "1", "--max-error", "1000%")
    assert found["self_replay"]["runtime_s"] == found["variants"][0]["runtime_s"] == 71.0
    assert found["self_replay"]["peak_executors"] == 1
    assert found["self_replay"]["waiting"]["capacity"] > 0


def test_excluded_nodes_of_a_cluster(log: Path, cluster: Path) -> None:
    """Nobody uses the only node: the application master gives up."""
    found = document(
        log, "--cluster", cluster, "--set", "spark.yarn.exclude.nodes=n-1", "--seeds", "1", "--max-error", "1000%"
    )
    assert "all available nodes are excluded" in found["variants"][0]["unfinished"]


def test_a_cluster_on_which_nothing_runs_is_refused(tmp_path: Path, cluster: Path) -> None:
    standalone = write_log(tmp_path / "log.json", {**STATIC, "spark.master": "spark://x:7077"})
    answer = asked(standalone, "--cluster", cluster)
    assert answer.code == 2
    assert "neither the log nor a variant runs on YARN" in answer.err
    pods = tmp_path / "kubernetes.yaml"
    pods.write_text("seed: 1\n")
    answer = asked(write_log(tmp_path / "yarn.json"), "--cluster", pods)
    assert answer.code == 2
    assert "add --kubernetes" in answer.err


def test_to_yarn_and_away_from_it(tmp_path: Path, log: Path, cluster: Path) -> None:
    pods = write_log(tmp_path / "pods.json", {**STATIC, "spark.master": "k8s://https://x"})
    moved = document(pods, "--set", "spark.master=yarn", "--cluster", cluster, "--seeds", "1", "--max-error", "1000%")
    assert moved["variants"][0]["peak_executors"] == 1
    away = document(log, "--kubernetes", "--seeds", "1")
    assert away["variants"][0]["unfinished"] is None
    assert away["variants"][0]["waiting"]["heartbeat"] == 0


def test_a_key_of_yarn_is_no_news_elsewhere(tmp_path: Path) -> None:
    pods = write_log(tmp_path / "pods.json", {**STATIC, "spark.master": "k8s://https://x"})
    found = document(pods, "--set", f"{HEARTBEAT}=1s", "--seeds", "1", "--max-error", "1000%")
    assert found["variants"][0]["notes"] == [f"{HEARTBEAT} decides nothing with master k8s."]


# ----------------------------------------------------------------------------------------------------------- real logs


def of_yarn() -> list[str]:
    index = DATA / "index.tsv"
    if not index.exists():
        return []
    with index.open(encoding="utf-8") as rows:
        return [row["file"] for row in csv.DictReader(rows, delimiter="\t") if row["master"].startswith("yarn")]


def farthest(error: OwnError) -> float:
    return max(abs(error.runtime), abs(error.executor_seconds))


@pytest.mark.skipif(not of_yarn(), reason="other people's logs (../shared/data) are not beside the project")
def test_real_logs_of_yarn_come_out_as_they_were() -> None:
    """The own error with the production core is at most that with a plain resource manager, and half a percent."""
    seen = 0
    for name in of_yarn():
        try:
            application = load(str(DATA / name)).application
        except NothingToRun:
            continue
        made = study(application, seeds=1).unwrap()
        assert refusal(made) == (), name
        plan = planned(made, Variant("own")).unwrap()
        assert plan.yarn is not None, name
        plain, own = (
            rerun(application, made.behaviour, one, 0, watch=True) for one in (replace(plan, yarn=None), plan)
        )
        before, after = own_error(application, plain), own_error(application, own)
        # The larger of the two: one alone may be right by chance, where starts come late and go late.
        assert farthest(after) <= farthest(before) + 0.005, name
        assert after.curve <= before.curve + 0.01, name
        assert abs(after.peak_executors) <= abs(before.peak_executors), name
        seen += 1
    assert seen >= 12


@pytest.mark.skipif(not of_yarn(), reason="other people's logs (../shared/data) are not beside the project")
def test_every_kind_of_variant_of_a_real_log() -> None:
    name = next(name for name in of_yarn() if "dynamic_alloc" in name)
    made = study(load(str(DATA / name)).application, seeds=2).unwrap()
    wishes = VariantWishes(
        (f"{HEARTBEAT}=10s",), ("idle:" + DA + "executorIdleTimeout=3s",), (4,), "2/h", "10s", "3"
    )  # fmt: skip
    for variant in variants_of(wishes):
        one = ask(made, variant).unwrap()
        assert one.unfinished is None
        assert set(one.typical.waiting) == set(Limit)
        json.dumps(one.typical.decisions, default=str)
