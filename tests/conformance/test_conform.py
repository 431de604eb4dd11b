"""Recorded answers of real Spark 4.3.0, re-decided: every call and every state line is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.adapters.scenarios import Scenario, ScenarioError, find

HERE = Path(__file__).parent
BESIDE = HERE.parents[2] / "shared" / "conformance"
FOLDERS = (HERE / "data", BESIDE / "eam", BESIDE / "quirks")


def recorded() -> list[Scenario]:
    """The scenarios of dynamic allocation in the folders that exist; other machines' scenarios lie beside them."""
    return [
        scenario
        for folder in FOLDERS
        if folder.is_dir()
        for scenario in find(folder)
        if folder.name != "quirks" or scenario.path.name.startswith("eam-")
    ]


SCENARIOS = recorded()


@pytest.mark.parametrize(
    "scenario", SCENARIOS, ids=[f"{s.path.parent.name}/{s.path.name.partition('.')[0]}" for s in SCENARIOS]
)
def test_the_core_decides_what_spark_decided(scenario: Scenario) -> None:
    assert scenario.check() is None


def test_there_is_something_to_compare_with() -> None:
    if not (HERE / "data").is_dir():
        pytest.skip("no recorded scenarios in tests/conformance/data")
    assert list(find(HERE / "data"))


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no scenario here"):
        list(find(tmp_path))
