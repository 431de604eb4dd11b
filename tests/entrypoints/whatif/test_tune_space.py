"""``--space``: what it means, and what is said about what it cannot mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.domain.conf.scaling_config import ENABLED, MAX, MIN
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.whatif.search.space import Axis, Space
from podtide.entrypoints.whatif.tune_space import SpaceError, edited, edits_of
from tests.support.tune_play import IDLE

SPACE = Space((from_mapping({ENABLED: "true"}, "test"),), (Axis(MAX, ("4", "8")), Axis(MIN, ("0", "2"))), (4,))


def after(*texts: str) -> Space:
    return edited(SPACE, edits_of(texts))


def axes(space: Space) -> dict[str, tuple[str | None, ...]]:
    return {axis.key: axis.values for axis in space.axes}


@pytest.mark.parametrize(
    ("texts", "expected", "statics"),
    [
        ((), {MAX: ("4", "8"), MIN: ("0", "2")}, (4,)),
        ((f"{MAX}=16, 8 ,8",), {MAX: ("8", "16"), MIN: ("0", "2")}, (4,)),
        ((f"{MAX}=keep",), {MIN: ("0", "2")}, (4,)),
        ((f"{IDLE}=10s,unset,5s",), {MAX: ("4", "8"), MIN: ("0", "2"), IDLE: (None, "5s", "10s")}, (4,)),
        (("none", f"{MAX}=2,3"), {MAX: ("2", "3")}, ()),
        (("static=8,2,8",), {MAX: ("4", "8"), MIN: ("0", "2")}, (2, 8)),
        (("static=none",), {MAX: ("4", "8"), MIN: ("0", "2")}, ()),
    ],
)
def test_each_goes_over_what_came_before(
    texts: tuple[str, ...], expected: dict[str, tuple[str | None, ...]], statics: tuple[int, ...]
) -> None:
    found = after(*texts)
    assert (axes(found), found.statics) == (expected, statics)


def test_a_file_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(f"static: [2, 6]\n{MAX}: [8, 16]\n{MIN}: keep\n{IDLE}: [5s, null]\ndefaults: false\n")
    found = after(str(file))
    assert axes(found) == {MAX: ("8", "16"), IDLE: (None, "5s")}
    assert found.statics == (2, 6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{MAX}=many", f"--space: {MAX} = 'many': expected a whole number of 32 bits"),
        (f"{MAX}=", "expected KEY=V1,V2"),
        ("=4", "expected KEY=V1,V2"),
        ("spark.dynamicAllocation.maxExecutor=4", "expected a setting that executor allocation knows"),
        ("spark.sql.shuffle.partitions=keep", "expected a setting that executor allocation knows"),
        ("static=0", "expected counts from 1 to"),
        ("static=a", "expected counts from 1 to"),
        ("nowhere.yaml", "--space nowhere.yaml: cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_named(text: str, said: str) -> None:
    with pytest.raises(SpaceError) as refused:
        after(text)
    assert said in str(refused.value)


def test_too_much_is_refused() -> None:
    with pytest.raises(SpaceError, match="expected 1 to 200 values"):
        after(f"{MAX}=" + ",".join(map(str, range(1, 300))))


def test_nothing_left_is_refused() -> None:
    with pytest.raises(SpaceError, match="nothing is left to try"):
        after("none")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- 4\n", ":1: expected a mapping"),
        (f"{MAX}: [4\n", "not YAML"),
        (f"{MAX}: {{a: b}}\n", ":1: spark.dynamicAllocation.maxExecutors: expected a list of values"),
        (f"{MAX}: []\n", "expected at least one value"),
        ("defaults: maybe\n", ":1: defaults: expected true or false"),
        ("static: [null]\n", "expected counts"),
        (f"a: 1\n{MAX}: [x]\n", ":1: a: expected a setting"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(content)
    with pytest.raises(SpaceError) as refused:
        after(str(file))
    assert said in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpaceError, match="not UTF-8"):
        after(str(file))


def test_settings_that_spark_redacts_are_not_searched() -> None:
    conf = from_mapping({ENABLED: "true", "spark.redaction.regex": "maxExecutors"}, "test")
    hidden = Space((conf,), SPACE.axes, ())
    assert axes(edited(hidden, ())) == {MIN: ("0", "2")}
    with pytest.raises(SpaceError, match="not redacted"):
        edited(hidden, edits_of([f"{MAX}=4,8"]))
