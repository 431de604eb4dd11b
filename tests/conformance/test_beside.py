"""The recorded answers of real Spark 4.3.0 that lie beside the project: more of the same as in ``test_conform``.

They run without coverage and only where they are there; what the project promises of itself does not count on them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.adapters.conformance.runner import Scenario, find

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "conformance"
SCENARIOS = list(find(BESIDE)) if BESIDE.is_dir() else []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{s.path.parent.name}/{s.path.name}" for s in SCENARIOS])
def test_the_core_decides_what_spark_decided(scenario: Scenario) -> None:
    assert scenario.check() is None


def test_every_folder_is_of_the_kind_that_it_is_called() -> None:
    for scenario in SCENARIOS:
        folder = scenario.path.parent.name
        called = {"quirks": scenario.path.name, "conformance": "podstates"}.get(folder, folder).partition("-")[0]
        assert scenario.kind() == called
