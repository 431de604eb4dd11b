"""The two sides of a comparison as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.domain.conf.scaling_config import MAX, MIN
from podtide.domain.conf.spark_conf import from_mapping
from podtide.entrypoints.whatif.diff_sides import ConfigSide, SideError, side_of


@pytest.mark.parametrize(
    ("text", "changes", "static", "version"),
    [
        ("recorded", {}, None, None),
        (f"{MAX}=4,{MIN}=", {MAX: "4", MIN: None}, None, None),
        ("static=8", {}, 8, None),
        ("spark:3.5", {}, None, "3.5"),
        (f"spark:4.3.0,{MAX}=4", {MAX: "4"}, None, "4.3.0"),
        ("spark.executor.extraJavaOptions=-Da=b\\,c", {"spark.executor.extraJavaOptions": "-Da=b,c"}, None, None),
    ],
)
def test_a_side_is_read(text: str, changes: dict[str, str | None], static: int | None, version: str | None) -> None:
    side = side_of("base", text)
    assert (dict(side.changes), side.static, side.version) == (changes, static, version)
    assert side.as_recorded is (text == "recorded")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spark:new", "expected spark: and a version"),
        ("spark:", "expected spark: and a version"),
        (f"{MAX}=many", f"--base: {MAX} = 'many': expected a whole number of 32 bits"),
        ("spark.dynamicAllocation.maxExecutor=4", "did you mean spark.dynamicAllocation.maxExecutors?"),
        (f"{MAX}=4,other=5", "--base: other: expected a key that begins with spark."),
        (f"{MAX}=4,{MIN}", "expected KEY=VALUE"),
        (f"{MAX}=4,fault.quota=5", "faults are for podtide whatif"),
        ("static=0", "expected a whole number from 1"),
        ("nowhere.conf", "expected a properties file, spark.KEY=VALUE,..., spark:VERSION or recorded"),
        ("spark:3.5,", None),
    ],
)
def test_what_cannot_be_meant_is_named(text: str, said: str | None) -> None:
    if said is None:
        assert side_of("base", text).version == "3.5"
        return
    with pytest.raises(SideError) as refused:
        side_of("base", text)
    assert said in str(refused.value)


def test_secrets_are_not_told_in_errors(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("spark.dynamicAllocation.maxExecutors=hush\nspark.redaction.regex=maxExecutors\n")
    with pytest.raises(SideError) as refused:
        side_of("base", str(file))
    assert MAX in str(refused.value)


def sides(tmp_path: Path, base: str, candidate: str) -> tuple[ConfigSide, ConfigSide]:
    for name, text in (("base", base), ("candidate", candidate)):
        (tmp_path / name).write_text(text)
    return side_of("base", str(tmp_path / "base")), side_of("candidate", str(tmp_path / "candidate"))


def test_what_the_candidate_file_lacks_was_taken_out_unless_it_came_from_elsewhere(tmp_path: Path) -> None:
    base, candidate = sides(tmp_path, f"{MAX} 40\n{MIN} 2\n", "spark.executor.cores 4\nspark-less 1\n")
    recorded = from_mapping({MAX: "40", MIN: "3"}, "log")
    assert base.variant(recorded).changes == {MAX: "40", MIN: "2"}
    assert candidate.variant(recorded, base).changes == {"spark.executor.cores": "4", MAX: None}
    assert len(candidate.remarks) == 1


def test_a_version_is_the_defaults_and_nothing_else() -> None:
    recorded = from_mapping({MAX: "40"}, "log")
    conf = side_of("candidate", "spark:3.3").conf(recorded)
    assert conf.settings == recorded.settings
    assert conf.version.name == "3.3"
