"""``podtide shuffle-service clean`` as people call it: once, as a process with metrics, refusals."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import urllib3

from podtide.adapters.shuffle_service.directories import ApplicationDirectories
from podtide.domain.shuffle_service.applications import ApplicationId, DriverName
from tests.adapters.staging.stage import SwitchedApi, pod
from tests.support.commands import PROGRAM, answer
from tests.support.project import environment

APP = ApplicationId("spark-1")


def left_behind(root: Path) -> Path:
    """Files of an application whose driver was seen, and is gone."""
    folder = root / APP
    (folder / "blockmgr-1").mkdir(parents=True)
    ApplicationDirectories([root]).remember(APP, DriverName("default", "job-driver", "uid-1"))
    return folder


def test_once_removes_what_can_go_and_nothing_else(tmp_path: Path, cluster: tuple[SwitchedApi, Path]) -> None:
    api, kubeconfig = cluster
    folder, stranger = left_behind(tmp_path), tmp_path / "spark-2"
    stranger.mkdir()
    options = ("shuffle-service", "clean", "--once", "--root", tmp_path, "--kubeconfig", kubeconfig)
    pod(api, "executor", labels={"spark-app-selector": APP})
    assert answer(*options, "--namespace", "default").out == "0 applications removed, 2 applications kept\n", (
        "it may live"
    )
    given = answer(*options, "--namespace", "empty")
    assert (given.code, given.out) == (0, "1 application removed, 1 application kept\n")
    assert f"{APP} is removed: its driver is gone" in given.err
    assert (folder.exists(), stranger.exists()) == (False, True)


def test_a_cleaner_says_in_its_metrics_that_it_cleans(tmp_path: Path, cluster: tuple[SwitchedApi, Path]) -> None:
    _, kubeconfig = cluster
    folder = left_behind(tmp_path)
    command = [*PROGRAM, "shuffle-service", "clean", "--root", str(tmp_path), "--kubeconfig", str(kubeconfig)]
    command += ["--namespace", "empty", "--ended", "0s", "--metrics-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stderr is not None
            lines: list[str] = []
            while not lines or "is removed" not in lines[-1]:
                lines.append(process.stderr.readline())
                assert lines[-1], lines
            found = re.search(r"metrics at (\S+)", "".join(lines))
            assert found is not None
            page = urllib3.request("GET", found[1], retries=False, timeout=10).data.decode()
        finally:
            process.terminate()
    assert process.returncode == 143
    assert not folder.exists()
    samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert samples["podtide_shuffle_cleaning"] == "1"
    assert samples['podtide_shuffle_removed_total{cause="driver_gone"}'] == "1"
    assert samples["podtide_shuffle_unanswered_total"] == "0"
    assert page.count("# TYPE ") == page.count("# HELP ") == 5


def test_a_cluster_that_does_not_answer_ends_it_with_4(
    tmp_path: Path, cluster: tuple[SwitchedApi, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, kubeconfig = cluster
    folder = left_behind(tmp_path)
    (tmp_path / "away").write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", kubeconfig.read_text()))
    monkeypatch.setattr("podtide.entrypoints.shuffle.clean.ONCE_S", 0.1)
    given = answer("shuffle-service", "clean", "--once", "--root", tmp_path, "--kubeconfig", tmp_path / "away")
    assert given.code == 4
    assert given.out.endswith("; the API server did not answer\n")
    assert folder.exists()


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ((), 2, "Missing option '--root'"),
        (("--root", "/nobody/has/this"), 3, "/nobody/has/this cannot be read: No such file or directory"),
        (("--root", "/"), 3, "not the root of all"),
        (("--root", "/tmp", "--namespace", "No One"), 2, "is no namespace"),
        (("--root", "/tmp", "--every", "0s"), 2, "expected 1ms to 1d"),
        (("--root", "/tmp", "--kubeconfig", "/nobody/has/this"), 4, ""),
    ],
)
def test_refusals(options: tuple[str, ...], code: int, text: str) -> None:
    given = answer("shuffle-service", "clean", *options)
    assert given.code == code
    assert text in given.err
    assert "Traceback" not in given.err
