"""What tests of several commands need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.adapters.staging.stage import SwitchedApi


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SwitchedApi, Path]]:
    """An API server, and the kubeconfig that leads to it."""
    from tests.adapters.staging.stage import api_server  # noqa: PLC0415 - a server, for few of the commands

    folder = tmp_path_factory.mktemp("cluster")
    with api_server(folder) as api:
        yield api, folder / "kubeconfig"
