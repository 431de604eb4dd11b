"""Recorded answers of real Spark 4.3.0, re-decided: every call and every state line is the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from podtide.adapters.conformance.runner import Scenario, ScenarioError, find

HERE = Path(__file__).parent
BESIDE = HERE.parents[2] / "shared" / "conformance"


def recorded() -> list[Scenario]:
    """The scenarios that come with the project, and those beside it if there are any."""
    return [scenario for folder in (HERE / "data", BESIDE) if folder.is_dir() for scenario in find(folder)]


SCENARIOS = recorded()


@pytest.mark.parametrize(
    "scenario", SCENARIOS, ids=[f"{s.path.parent.name}/{s.path.name.partition('.')[0]}" for s in SCENARIOS]
)
def test_the_core_decides_what_spark_decided(scenario: Scenario) -> None:
    assert scenario.check() is None


def test_there_is_something_to_compare_with() -> None:
    if not (HERE / "data").is_dir():
        pytest.skip("no recorded scenarios in tests/conformance/data")
    kinds = Counter(scenario.kind() for scenario in find(HERE / "data"))
    assert kinds.keys() == {"eam", "pods", "lifecycle", "store", "poll", "podstates", "yarn"}


def test_every_folder_beside_the_project_is_of_the_kind_that_it_is_called() -> None:
    if not BESIDE.is_dir():
        pytest.skip("no folder ../shared/conformance beside the project")
    for scenario in find(BESIDE):
        folder = scenario.path.parent.name
        called = {"quirks": scenario.path.name, "conformance": "podstates"}.get(folder, folder).partition("-")[0]
        assert scenario.kind() == called


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no scenario here"):
        list(find(tmp_path))
