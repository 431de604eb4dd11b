"""Recorded answers of real Spark 4.3.0, re-decided: every call and every state line is the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from podtide.adapters.conformance.runner import Scenario, ScenarioError, find

SCENARIOS = list(find(Path(__file__).parent / "data"))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[f"{s.path.parent.name}/{s.path.name}" for s in SCENARIOS])
def test_the_core_decides_what_spark_decided(scenario: Scenario) -> None:
    assert scenario.check() is None


def test_there_is_something_to_compare_with() -> None:
    kinds = Counter(scenario.kind() for scenario in SCENARIOS)
    assert kinds.keys() == {"eam", "pods", "lifecycle", "store", "poll", "podstates", "yarn"}


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no scenario here"):
        list(find(tmp_path))
