"""What of Spark's Kubernetes backend is more than executor pods, with real Spark on ``podtide cluster``, in one run.

Templates with init containers and sidecars, claims that are used again, decommissioning that migrates shuffle data, and the
allocators that leave pods to a StatefulSet and a Deployment. Needs PODTIDE_SPARK_PYTHON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.spark_driver import spark_python
from tests.support.project import PROJECT

JOB = Path(__file__).with_name("backend_job.py")
SUMS = [[rest, sum(range(rest, 1000, 3))] for rest in range(3)]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program said of each allocator."""
    python = spark_python()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"PYTHONPATH": f"{PROJECT}/.typing", "TMPDIR": str(tmp_path_factory.mktemp("backend"))}
    environment["PATH"] = f"{Path(python).parent}:{environment['PATH']}"
    command = [sys.executable, "-m", "podtide", "cluster", "--", "env", "-u", "PYTHONPATH", python, str(JOB)]
    ran = subprocess.run(
        [*command, "direct", "statefulset", "deployment"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return {row["allocator"]: row for row in map(json.loads, filter(None, ran.stdout.splitlines()))}


def test_a_template_brings_init_containers_and_sidecars(told: dict[str, Any]) -> None:
    assert told["direct"]["words"] == ["sown\n"]  # through an init container and a sidecar into every task
    assert sorted(told["direct"]["containers"]) == ["beside", "spark"]


def test_decommissioning_migrates_the_shuffle(told: dict[str, Any]) -> None:
    """An idle executor goes, and the job after it is right without one map task again."""
    direct = told["direct"]
    assert direct["jobs"] == [SUMS, SUMS]
    assert (direct["attempts"], direct["map tasks"], direct["failed tasks"]) == (0, 8, 0)
    assert "decommission" in direct["removed"][0][1].lower()


def test_a_claim_is_used_again(told: dict[str, Any]) -> None:
    direct = told["direct"]
    gone = direct["removed"][0][0]
    (new,) = direct["new"]
    assert direct["claims"][new] == direct["claims"][gone]
    assert f"mark-{gone}" in direct["marks"]  # and what was left in it is there


@pytest.mark.parametrize(("allocator", "owner"), [("statefulset", "StatefulSet"), ("deployment", "ReplicaSet")])
def test_sets_of_pods_are_scaled(told: dict[str, Any], allocator: str, owner: str) -> None:
    row = told[allocator]
    assert row["jobs"] == [sum(range(1000))] * 2
    assert row["owners"] == [owner]
    assert len(row["names"]) == 2
    assert row["left"] is False
