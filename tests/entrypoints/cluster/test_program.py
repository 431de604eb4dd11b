"""The user's program as a child: its exit code, signals, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from podtide.entrypoints.cluster.program import CannotStart, run_program
from tests.support.project import PROJECT

ENVIRONMENT = dict(os.environ)


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
def test_its_exit_code_is_ours(script: str, code: int) -> None:
    assert run_program(["sh", "-c", script], ENVIRONMENT) == code


def test_what_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="command not found") as missing:
        run_program(["no-such-program-anywhere"], ENVIRONMENT)
    assert missing.value.code == 127
    with pytest.raises(CannotStart) as forbidden:
        run_program([str(tmp_path)], ENVIRONMENT)
    assert forbidden.value.code == 126


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("deaf", ["", "trap '' TERM; "])
def test_nothing_that_it_started_stays(tmp_path: Path, deaf: str) -> None:
    pids = tmp_path / "pids"
    pids.touch()
    inner = f"{deaf}echo $$ >>{pids}; while :; do read -t 1 x </dev/zero || sleep 1; done"
    script = f'setsid bash -c "{inner}" & while [ $(wc -l <{pids}) = 0 ]; do sleep 0.01; done'
    assert run_program(["sh", "-c", script], ENVIRONMENT, grace_s=0.3) == 0
    left = [int(line) for line in pids.read_text().split()]
    assert len(left) == 1
    assert gone(left[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("deaf", [False, True])
def test_a_signal_ends_it(number: signal.Signals, deaf: bool) -> None:
    """A program of its own is interrupted while its child waits: the child hears of it, or is killed after the grace."""
    trap = "trap '' TERM INT; " if deaf else ""
    program = f"""
import os, signal, sys
from podtide.entrypoints.cluster.program import run_program
def struck(number, frame):
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
signal.signal(signal.SIGTERM, struck)
signal.signal(signal.SIGINT, struck)
try:
    run_program(["bash", "-c", "{trap}echo $$; while :; do sleep 0.05; done"], dict(os.environ), grace_s=0.3)
except KeyboardInterrupt:
    sys.exit(130)
"""
    environment = ENVIRONMENT | {"PYTHONPATH": f"{PROJECT}/.typing"}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(20) == 128 + number
        assert gone(child)
