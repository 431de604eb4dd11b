"""``podtide serve`` as a program: a place with a real log becomes pages, and its report is made."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podtide.adapters.history.store import RunHistory
from podtide.entrypoints.cli import run
from tests.support.project import DEMO, PROJECT

PATIENCE_S = 60


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The program, and the lines that it prints until it listens."""
    path = os.pathsep.join((str(PROJECT), str(PROJECT / ".typing")))
    process = subprocess.Popen(
        [sys.executable, "-m", "podtide", "serve", *arguments, "--port", "0"],
        env={**os.environ, "PYTHONPATH": path, **environment}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if line.startswith("# http"):
                break
        yield process, lines
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130


def got(url: str, token: str | None = None) -> str:
    request = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def until(url: str, pattern: str) -> re.Match[str]:
    deadline = time.monotonic() + PATIENCE_S
    while (found := re.search(pattern, got(url))) is None:
        assert time.monotonic() < deadline, url
    return found


def test_a_place_becomes_pages_and_a_report(tmp_path: Path) -> None:
    with serving(str(DEMO), TMPDIR=str(tmp_path)) as (_, lines):
        url = lines[-1].removeprefix("# ").partition(";")[0]
        number = until(url, r"/app/([0-9]+)")[1]
        assert DEMO.name.removeprefix("eventlog_v2_") in got(f"{url}/run/{number}")
        until(f"{url}/run/{number}/report", "How sure we are")
        assert "podtide_watch_runs 1" in got(f"{url}/metrics")
    assert list(tmp_path.glob("podtide-*")) == []


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    with RunHistory(str(tmp_path / "h.db"), write=True):
        pass
    with serving(str(tmp_path / "h.db"), "--address", "0.0.0.0", "--plain") as (_, lines):
        token = lines[0].removeprefix("export PODTIDE_SERVE_TOKEN=")
        url = lines[-1].removeprefix("# ").partition(";")[0]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            got(url)
        assert "No finished run" in got(url, token)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["{h}", "--address", "0.0.0.0"], 2), (["{h}", "--history", "{h}"], 2), (["{h}", "--tls-cert", "x"], 2),
        (["{h}.gone"], 3),
        (["{h}", "--price", "core-hour=1,driver=yes"], 2), (["{h}", "--address", "203.0.113.1", "--plain"], 2),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused(tmp_path: Path, arguments: list[str], code: int) -> None:
    history = tmp_path / "h.db"
    with RunHistory(str(history), write=True):
        pass
    assert run(["serve", *(one.format(h=history) for one in arguments)]) == code
