"""Recordings for the tests of ``replay`` and ``explain``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.recordings import calm, scaled, stormy


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    makers: dict[str, Callable[[Path], Path]] = {"calm": calm, "stormy": stormy, "scaled": scaled}
    return {name: make(folder / f"{name}.jsonl") for name, make in makers.items()}


@pytest.fixture
def recording(made: dict[str, Path], tmp_path: Path) -> Path:
    """A recording of one's own to spoil."""
    return Path(shutil.copy(made["calm"], tmp_path / "r.jsonl"))
