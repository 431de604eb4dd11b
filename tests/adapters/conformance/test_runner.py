"""The scenario runner: which kind a scenario is of, what a wrong one is told, and the report of the command."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from podtide.adapters.conformance import detect as scenario_shapes, runner as scenarios
from podtide.adapters.conformance.detect import Misfit, UnknownLines, kind_of
from podtide.adapters.conformance.manifests import ShapeError
from podtide.adapters.conformance.runner import Scenario, ScenarioError, UnknownKind, find
from podtide.entrypoints.check.conform_command import conform

HEADER: dict[str, Any] = {"conf": {}}
STORE = [HEADER, {"at": 0, "subscribe": "a"}]
STORE_ANSWERS: list[dict[str, Any]] = [
    {"at": 0, "deliver": "a", "snapshots": [{"full": 0, "pods": {}}]},
    {
        "at": 0,
        "state": {
            "current": {"full": 0, "pods": {}},
            "subs": {"a": {"queued": 0, "notifications": 0, "nextTick": 1000}},
            "submitted": 0,
        },
    },
]
ROW = {"pod": {"id": 1, "phase": "Running"}, "states": {"1": "PodRunning"}}


def write(path: Path, lines: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def scenario(
    folder: Path, name: str = "s", lines: Sequence[object] = STORE, answers: Sequence[object] = STORE_ANSWERS
) -> Path:
    write(folder / f"{name}.expect.jsonl", answers)
    return write(folder / f"{name}.jsonl", lines)


def rows(*lines: dict[str, Any], header: dict[str, Any] | None = None) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate([header or HEADER, *lines], start=1))


# --------------------------------------------------------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([{"at": 0, "tick": True}], "eam"),
        ([{"at": 0, "event": {"Event": "X"}}, {"at": 1, "client": {"ackRequests": False}}], "eam"),
        ([{"targets": {"0": 1}}, {"snapshots": [[{"id": 1, "phase": "Running"}]]}], "pods"),
        ([{"snapshots": [{"full": 5, "pods": [{"id": 1}]}]}], "lifecycle"),
        ([{"snapshots": []}, {"registered": {"1": 5}}], "lifecycle"),
        ([{"subscribe": "a", "interval": 5}], "store"),
        ([{"ops": [{"notify": True}, {"during": {"a": [{"run": True}]}}]}], "store"),
        ([{"start": True}, {"resourceVersion": None}], "poll"),
        ([{"targets": {"0": 1}, "fail": {"POST statefulsets": ["*"]}}], "scale"),
        ([{"kill": ["1"]}, {"pods": [{"id": 1}]}], "backend"),
        ([{"allocate": {}}], "yarn"),
    ],
)
def test_the_lines_tell_the_kind(lines: list[dict[str, Any]], kind: str) -> None:
    assert kind_of(rows(*lines)) == kind


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "pods"),
        ({"allocator": "statefulset"}, "scale"),
        ({"allocator": "deployment"}, "scale"),
        ({"launch": "sync"}, "yarn"),
        ({"pvcCreationTimestamp": "x"}, "pods"),
        ("statefulset", None),
    ],
)
def test_where_lines_leave_a_choice_the_header_decides(options: Any, kind: str | None) -> None:
    found = kind_of(rows({"targets": {"0": 1}}, {"stop": True}, header={"conf": {}, "options": options}))
    assert isinstance(found, Misfit) if kind is None else found == kind


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([], "no header line"),
        ([{"at": 5}], "no header line"),
        ([{"conf": 7}], "no header line"),
        ([HEADER, {"at": 1}, {"at": 2, "teleport": 1, "tick": True}], "line 3 has 'teleport': a kind"),
        ([HEADER, {"tick": True}, {"subscribe": "a"}], "line 3 has 'subscribe': a kind"),
        ([HEADER, {"tick": True, "subscribe": "a"}], "line 2 has 'subscribe', 'tick': a kind"),
    ],
)
def test_no_kind_that_is_known(lines: list[dict[str, Any]], what: str) -> None:
    found = kind_of(list(enumerate(lines, start=1)))
    assert isinstance(found, UnknownLines)
    assert what in found.what


@pytest.mark.parametrize(
    ("lines", "line", "what"),
    [
        ([{"conf": {}, "startAt": "soon"}], 1, "$.startAt"),
        ([{"conf": {"a": []}}], 1, "$.conf"),
        ([{"conf": {}, "client": {"active": "1"}}, {"tick": True}], 1, "$.active"),
        ([HEADER, {"at": "x", "tick": True}], 2, "Expected `int`, got `str` - at `$.at`"),
        ([HEADER, {"at": 2**60, "tick": True}], 2, "$.at"),
        ([HEADER, {"tick": True}, {"event": []}], 3, "$.event"),
        ([HEADER, {"subscribe": "a", "interval": 0}], 2, "$.interval"),
        ([HEADER, {"subscribe": "a", "update": [{"id": 1, "containers": [7]}]}], 2, "$.update[0].containers[0]"),
        ([HEADER, {"during": {"a": [{"update": 5}]}}], 2, "$.during[...][0].update"),
        ([HEADER, {"start": True, "pods": [{"\ud800": 1}]}], 2, "half a surrogate pair"),
        ([{"pod": {"id": []}}], 1, "$.pod.id"),
    ],
)
def test_a_line_that_does_not_fit_is_named(lines: list[dict[str, Any]], line: int, what: str) -> None:
    found = kind_of(list(enumerate(lines, start=1)))
    assert isinstance(found, Misfit)
    assert found.line == line
    assert what in found.what


def test_every_kind_is_decided() -> None:
    assert {*scenario_shapes.KINDS, scenario_shapes.TABLE} == scenarios.MODULES.keys()


# --------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("answers", "line"),
    [(STORE_ANSWERS[:1], 2), ([*STORE_ANSWERS, {"at": 9}], 3), ([{"at": 1}], 1), ([], 1)],
)
def test_a_scenario_diverges(tmp_path: Path, answers: list[dict[str, Any]], line: int) -> None:
    (found,) = find(scenario(tmp_path, answers=answers))
    divergence = found.check()
    assert divergence is not None
    assert divergence.line == line


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["{"], r"s\.jsonl:1: not JSON lines"),
        ([HEADER, "", "[]"], r"s\.jsonl:3: expected a JSON object"),
        ([HEADER, "1" * 5_000], r"s\.jsonl:2: not JSON lines"),
        (["[" * 100_000], r"s\.jsonl:1: not JSON lines"),
        ([HEADER, {"subscribe": "a"}, "", {"subscribe": "a"}], r"s\.jsonl:4: 'a' subscribes twice"),
        ([HEADER, {"tick": True, "at": None}], r"s\.jsonl:2: Expected `int`"),
        (
            [{"conf": {"spark.kubernetes.executor.checkAllContainers": "maybe"}}, {"run": True}],
            r"s\.jsonl:1: Spark refuses",
        ),
        ([HEADER, {"allocate": {"allocated": [{"host": "h"}]}}], r"s\.jsonl:2: Object missing required field `id`"),
        ([HEADER, {"allocate": {"updatedNodes": [{"host": "h", "state": "?"}]}}], r"s\.jsonl:2: Invalid enum value"),
        ([HEADER, {"allocate": {}}, {"targets": {"x": 1}}], r"s\.jsonl:3: Expected `str` matching regex .*\[0-9\]"),
        (
            [{"conf": {}, "options": {"racks": {"h": "r"}}}, {"allocate": {}}],
            r"s\.jsonl:1: options: Expected `str` matching regex .* at `\$\.racks\[\.\.\.\]`",
        ),
        ([HEADER, {"teleport": {}}], "line 2 has 'teleport'"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(tmp_path: Path, lines: list[Any], what: str) -> None:
    (found,) = find(scenario(tmp_path, lines=lines))
    with pytest.raises(ScenarioError, match=what):
        found.check()


def test_an_event_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    begun = list(scenarios.answers([HEADER]))
    lines = [HEADER, {"event": {"Event": "SparkListenerTaskStart"}}]
    (found,) = find(scenario(tmp_path, lines=lines, answers=begun))
    with pytest.raises(ScenarioError, match=r"s\.jsonl:2: an event is not what"):
        found.check()


def test_time_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from podtide.adapters.conformance import polling as scenarios_poll, store as scenarios_store  # noqa: PLC0415 - for the two limits only

    monkeypatch.setattr(scenarios_store, "DELIVERIES_MAX", 50)
    monkeypatch.setattr(scenarios_poll, "LISTS_MAX", 50)
    forever = {"at": 2**53}
    (stored,) = find(scenario(tmp_path, lines=[HEADER, {"subscribe": "a", "interval": 1}, forever], answers=[{}] * 3))
    assert stored.check() is not None  # the answers end first
    with pytest.raises(ShapeError, match="more than 50 deliveries"):
        list(scenarios.answers([HEADER, {"subscribe": "a", "interval": 1}, forever]))
    with pytest.raises(ShapeError, match="more than 50 lists"):
        list(scenarios.answers([HEADER, {"start": True}, forever]))
    many = [{"subscribe": f"s{n}"} for n in range(60)]
    chain = [{"during": {f"s{n}": [{"run": True}]}} for n in range(60)]
    monkeypatch.setattr(scenarios_store, "DELIVERIES_MAX", 500)
    with pytest.raises(ShapeError, match="more than 50 deliveries within one another"):
        list(scenarios.answers([HEADER, {"ops": [*many, *chain]}]))


def test_what_nobody_foresaw_is_told_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(lines: Sequence[dict[str, Any]]) -> Any:
        yield from [{}] * len(lines[1:][:1])
        raise KeyError("surprise")

    monkeypatch.setattr("podtide.adapters.conformance.store.answers", broken)
    (found,) = find(scenario(tmp_path, answers=[{}, {}]))
    with pytest.raises(ScenarioError, match=r"s\.jsonl:1: cannot be decided \(KeyError: 'surprise'\)"):
        found.check()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.jsonl.gz", b"no gzip"),
        ("s.jsonl.gz", gzip.compress(b'{"conf":{}}\n' * 99, mtime=0)[:-20]),
        ("s.jsonl", b"\xff\xfe"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (found,) = find(tmp_path / name)
    with pytest.raises(ScenarioError, match="cannot be read"):
        found.check()


def test_a_small_file_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "LINE_CHARS_MAX", 1_000)
    for line in ("{}" + " " * 2_000, "\n".join(["{}" + " " * 500] * 5)):
        monkeypatch.setattr(scenarios, "FILE_CHARS_MAX", 2_000)
        with pytest.raises(ScenarioError, match="longer than a scenario may be"):
            Scenario(write(tmp_path / "big.jsonl.gz", [line]), None).check()


@pytest.mark.parametrize("lines", [STORE, [HEADER]])
def test_no_answers_beside_it(tmp_path: Path, lines: list[Any]) -> None:
    (found,) = find(write(tmp_path / "alone.jsonl", lines))
    with pytest.raises(ScenarioError, match="no answers beside it"):
        found.check()


def test_folders_are_looked_into_one_level_deep(tmp_path: Path) -> None:
    scenario(tmp_path / "b", "two")
    scenario(tmp_path / "a", "one")
    scenario(tmp_path / "a" / "deep", "three")
    write(tmp_path / "podstates.jsonl", [ROW])
    (tmp_path / "empty").mkdir()
    assert [found.path.relative_to(tmp_path).as_posix() for found in find(tmp_path)] == [
        "podstates.jsonl",
        "a/one.jsonl",
        "b/two.jsonl",
    ]


@pytest.mark.parametrize("name", ["nothing", "x.txt", "s.expect.jsonl", "s.out.jsonl"])
def test_what_is_no_scenario(tmp_path: Path, name: str) -> None:
    if name != "nothing":
        (tmp_path / name).write_text("{}")
    with pytest.raises(ScenarioError):
        list(find(tmp_path / name))


def test_answers_by_themselves() -> None:
    assert list(scenarios.answers(STORE)) == STORE_ANSWERS
    with pytest.raises(UnknownKind, match="teleport"):
        scenarios.answers([HEADER, {"teleport": {}}])
    with pytest.raises(UnknownKind, match="no header"):
        scenarios.answers([])
    with pytest.raises(ScenarioError, match="line 2"):
        scenarios.answers([HEADER, {"at": "x"}])
    odd = {"conf": {}, "options": {"profiles": {"1": {"memory": "much"}}}}
    with pytest.raises(ShapeError, match="expected a size for the memory of profile 1, got 'much'"):
        list(scenarios.answers([odd, {"targets": {"1": 1}}]))


# ------------------------------------------------------------------------------------------------------------- command


def run(*paths: Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(conform, [str(path) for path in paths], standalone_mode=False)
    assert result.exception is None
    return result.return_value, result.stdout, result.stderr


def test_totals_for_each_folder(tmp_path: Path) -> None:
    scenario(tmp_path / "store", "one")
    scenario(tmp_path / "store", "two", answers=STORE_ANSWERS[:1])
    write(tmp_path / "podstates.jsonl", [ROW])
    code, out, err = run(tmp_path)
    assert code == 1
    assert err == ""
    assert out.splitlines()[-3:] == [
        f"{tmp_path}: 1 scenarios, 0 divergent",
        f"{tmp_path / 'store'}: 2 scenarios, 1 divergent",
        "3 scenarios, 1 divergent",
    ]
    assert f"{tmp_path / 'store' / 'two.jsonl'}: diverges at line 2 of two.expect.jsonl" in out


def test_an_unusable_file_does_not_hide_the_others(tmp_path: Path) -> None:
    scenario(tmp_path, "a", lines=["{"])
    scenario(tmp_path, "b", lines=[HEADER, {"teleport": {}}])
    scenario(tmp_path, "c")
    code, out, err = run(tmp_path, tmp_path / "missing")
    assert code == 3
    assert out == "1 scenarios, 0 divergent\n"
    wrong, strange, missing = err.splitlines()
    assert "a.jsonl:1: not JSON lines" in wrong
    assert "line 2 has 'teleport'" in strange
    assert "no such file or folder" in missing


def test_what_differs_in_a_state_is_named(tmp_path: Path) -> None:
    other = {"at": 0, "state": {**STORE_ANSWERS[1]["state"], "submitted": 7}}
    _, out, _ = run(scenario(tmp_path, answers=[STORE_ANSWERS[0], other]))
    assert "differs   submitted: 7 / 0" in out
