"""What ``podtide run`` refuses before it talks to anybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from podtide.entrypoints import cli
from tests.support.project import TYPING

BASE = ("run", "--app-id", "app-1", "--namespace", "jobs")
NO_CLUSTER = ("--kubeconfig", "no-such-kubeconfig")


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.run(arguments)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "--app-id"),
        (("run", "--app-id", "no label!"), "cannot be a label"),
        (("run", "--app-id", "a" * 64), "cannot be a label"),
        (("run", "--app-id", "a", "--namespace", "Up"), "is no namespace"),
        ((*BASE, "--mode", "act"), "--mode act needs a target"),
        ((*BASE, "--target", "3", "--lines"), "--target and --lines both say what is wanted"),
        ((*BASE, "--target", "-1"), "-1"),
        ((*BASE, "--on-exit", "delete"), "a shadow deletes nothing"),
        ((*BASE, "--mode", "act", "--target", "1", "--lease", "1s"), "expected 2s to 3650d"),
        ((*BASE, "--target", "1", "--clean-shuffles-after", "60s"), "only --driver-url knows of shuffles"),
        ((*BASE, "--driver-url", "http://d:1", "--clean-shuffles-after", "never"), "'never' is no duration"),
        ((*BASE, "--driver-url", "http://d:1", "--driver-interval", "50ms"), "expected 100ms to 1m"),
        ((*BASE, "--lease", "soon"), "'soon' is no duration"),
        ((*BASE, "--record", "-"), "--record writes to a file"),
        ((*BASE, "--api-concurrency", "0"), "--api-concurrency"),
        ((*BASE, "--fix", "world-peace", *NO_CLUSTER), "no fix 'world-peace'"),
        ((*BASE, "--conf", "nonsense", *NO_CLUSTER), "nonsense"),
        ((*BASE, "--properties-file", "no-such-file", *NO_CLUSTER), "no-such-file"),
        ((*BASE, "--schedule", "soon:5", *NO_CLUSTER), "soon"),
        ((*BASE, *NO_CLUSTER), "no-such-kubeconfig"),
    ],
)
def test_what_cannot_be_used_is_named(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, err = ran(capsys, *arguments)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_an_api_server_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: u, user: {token: secret-token}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    code, err = ran(
        capsys, *BASE, "--kubeconfig", str(config), "--mode", "act", "--target", "1", "--conf", "spark.driver.host=d",
        "--conf", "spark.kubernetes.container.image=i",
    )  # fmt: skip
    assert code == 4
    assert "127.0.0.1:9 cannot be reached" in err
    assert "secret-token" not in err


@pytest.mark.parametrize(
    "module", ["podtide.entrypoints.replay.log_replay", "podtide.domain", "podtide.entrypoints.cli"]
)
def test_the_library_and_the_replay_need_no_kubernetes_client(module: str) -> None:
    program = (
        f"import {module}, sys; sys.exit(any(name.split('.')[0] in ('kubernetes', 'urllib3') for name in sys.modules))"
    )
    path = str(TYPING)
    ended = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": path, "PATH": ""}, check=False)
    assert ended.returncode == 0


def test_usage_errors_need_no_kubernetes_client() -> None:
    program = (
        "import sys; from podtide.entrypoints import cli; "
        "code = cli.run(['run', '--app-id', 'a', '--mode', 'act']); "
        "sys.exit(code if 'kubernetes' not in sys.modules else 99)"
    )
    path = str(TYPING)
    ended = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": path, "PATH": ""}, check=False, capture_output=True
    )
    assert ended.returncode == 2
