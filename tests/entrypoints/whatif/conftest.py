"""Fixtures for the tests of ``whatif``, ``tune`` and ``diff``."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.entrypoints.whatif import overview
from tests.support.whatif_log import write_log


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logs are simulated in this process: to start others takes longer than all of it. ``test_tune`` tests these."""
    monkeypatch.setattr(overview, "MANAGED_PROCESSES", 1)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 tasks of a second on two executors of one core, which register after three: 24 s."""
    return write_log(tmp_path_factory.mktemp("logs") / "nightly.json")
