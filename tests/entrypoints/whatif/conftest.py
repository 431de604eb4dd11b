"""Fixtures for the tests of ``whatif``, ``tune`` and ``diff``."""

from __future__ import annotations

import pytest

from podtide.entrypoints.whatif import overview


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small logs are simulated in this process: to start others takes longer than all of it. ``test_tune`` tests these."""
    monkeypatch.setattr(overview, "MANAGED_PROCESSES", 1)
