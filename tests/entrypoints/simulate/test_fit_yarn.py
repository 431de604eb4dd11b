"""``podtide fit`` of a YARN cluster: its nodes, its queue and who shares it are read from one recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import yaml

from podtide.adapters.files import yarn_cluster
from tests.support.commands import answer as asked


def fitted_to(tmp_path: Path, cluster: str, *arguments: str) -> dict[str, Any]:
    """The file that is fitted to one recording of a YARN cluster."""
    (tmp_path / "yarn.yaml").write_text(cluster)
    path = tmp_path / "yarn.jsonl"
    shape = ("--conf", "spark.shuffle.service.enabled=true", "--conf", "spark.executor.cores=2", "--seed", "1")
    patient = ("--conf", "spark.executor.maxNumFailures=1000")
    done = asked("simulate", "--cluster", tmp_path / "yarn.yaml", *shape, *patient, *arguments, "--record", path)
    assert done.code == 0, done.err
    answer = asked("fit", path)
    assert answer.code == 0, answer.err
    yarn_cluster.understand(answer.out)
    document: dict[str, Any] = yaml.decode(answer.out)
    return document


def test_tenants_of_a_queue_come_and_go_when_they_did(tmp_path: Path) -> None:
    cluster = fitted_to(
        tmp_path,
        """
        kind: yarn
        nodes:
          groups: [{name: w, count: 10, memory: 16Gi, vcores: 8, racks: [/a, /b]}]
        queue:
          memory: 120Gi
          vcores: 60
          preempts: true
          tenants: [{name: reports, memory: 60Gi, vcores: 30, during: {from: 2m, until: 4m}}]
        """,
        *("--schedule", "0:20,200:28,300:29", "--duration", "6m"),
    )
    queue = cluster["queue"]
    assert (queue["memory"], queue["vcores"], queue["preempts"]) == ("120Gi", 60, True)
    [tenant] = queue["tenants"]
    assert (tenant["memory"], tenant["vcores"]) == ("60Gi", 30)
    began, ended = (int(tenant["during"][side].removesuffix("ms")) / 1000 for side in ("from", "until"))
    # The queue is looked at with each allocate call.
    assert began == pytest.approx(120, abs=5)
    assert ended == pytest.approx(240, abs=5)
    racks = {tuple(group["racks"]): len(group["hosts"]) for group in cluster["nodes"]["groups"]}
    assert racks == {("/a",): 5, ("/b",): 5}


def test_a_full_node_shows_its_size(tmp_path: Path) -> None:
    cluster = fitted_to(
        tmp_path,
        "kind: yarn\nnodes: {groups: [{name: w, count: 4, memory: 16Gi, vcores: 8}]}\n",
        *("--schedule", "0:30", "--duration", "3m"),
    )
    [group] = cluster["nodes"]["groups"]
    assert (group["count"], group["memory"], group["vcores"]) == (4, "16Gi", 8)
    assert "tenants" not in cluster["queue"]
