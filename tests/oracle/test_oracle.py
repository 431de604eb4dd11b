"""The judge and its generator. What needs real Spark is skipped where there is none."""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(PROJECT))

from tests.oracle import events, generate, judge, lifecycle_world, pods_world  # noqa: E402  (the path above must come first)
from tests.oracle.choose import chosen  # noqa: E402
from tests.oracle.kinds import KINDS  # noqa: E402
from tests.oracle.pods_reached import PodsReached  # noqa: E402
from tests.oracle.reached import Reached  # noqa: E402
from tests.oracle.settings import Profile, Setting, draw  # noqa: E402

DATA = PROJECT / "tests" / "conformance" / "data"
RECORDED = PROJECT.parent / "shared" / "conformance"


@pytest.fixture(scope="module")
def spark() -> Iterator[judge.Judge]:
    try:
        judge.find_jars()
        judge.find_tool("javac")
    except judge.JudgeUnavailableError as missing:
        pytest.skip(str(missing))
    with judge.Judge(brief=True) as running:
        yield running


def read(path: Path) -> list[str]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().splitlines()


def scenarios() -> list[tuple[str, Path]]:
    """Some of what was recorded: those that come with the project, and those beside it if there are any."""
    kept = [("eam", path) for path in sorted(DATA.glob("*.jsonl.gz"))[::7]]
    kept += [("eam", path) for path in sorted(RECORDED.glob("eam/*.jsonl.gz"))[::7]]
    kept += [("eam", path) for path in sorted(RECORDED.glob("quirks/eam-*.jsonl"))]
    for kind in judge.KINDS[1:]:
        kept += [(kind, path) for path in sorted(DATA.glob(f"{kind}/*.jsonl.gz"))[::9]]
        kept += [(kind, path) for path in sorted(RECORDED.glob(f"{kind}*/*.jsonl.gz"))[::9]]
    return [(kind, path) for kind, path in kept if ".expect." not in path.name]


@pytest.fixture(scope="module")
def asked(spark: judge.Judge) -> Iterator[Callable[[str], judge.Judge]]:
    """A judge of each kind, started when it is first asked for."""
    with ExitStack() as running:
        judges = {"eam": spark}

        def of(kind: str) -> judge.Judge:
            if kind not in judges:
                judges[kind] = running.enter_context(judge.Judge(kind, brief=True))
            return judges[kind]

        yield of


@pytest.mark.parametrize(("kind", "path"), scenarios(), ids=lambda value: getattr(value, "name", value))
def test_spark_still_answers_as_recorded(asked: Callable[[str], judge.Judge], kind: str, path: Path) -> None:
    lines = read(path)
    answers = [
        answer
        for start in range(0, len(lines), 20)
        for of in asked(kind).ask_all(lines[start : start + 20])
        for answer in of
    ]
    expected = read(path.with_name(path.name.replace(".jsonl", ".expect.jsonl")))
    assert [json.loads(answer) for answer in answers] == [json.loads(answer) for answer in expected]


@pytest.mark.parametrize("kind", KINDS)
def test_a_scenario_is_the_same_from_the_same_seed(asked: Callable[[str], judge.Judge], kind: str) -> None:
    first, again, other = (generate.scenario(asked(kind), seed, 20, None, KINDS[kind]) for seed in ("a", "a", "b"))
    assert first == again
    assert first != other


def test_a_line_that_spark_cannot_read_is_answered_with_its_number(spark: judge.Judge) -> None:
    spark.send({"conf": {}})
    assert spark.send({"at": 1, "event": {"Event": "Nonsense"}})[0]["error"].startswith("line 2: ")


def test_missing_jars_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_JARS", str(tmp_path))
    with pytest.raises(judge.JudgeUnavailableError, match="no spark-core jar"):
        judge.find_jars()


def test_a_missing_jdk_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(judge.JudgeUnavailableError, match="no javac"):
        judge.find_tool("javac")


@pytest.mark.parametrize(
    ("executor", "task", "slots"),
    [
        ({}, {}, 2),
        ({"cores": 1}, {"cpus": 0.1}, 10),
        ({"cores": 4}, {"cpus": 1.5}, 2),
        ({"cores": 8, "gpu": 2}, {"cpus": 1.0, "gpu": 0.3333}, 6),
        ({"cores": 8, "gpu": 5}, {"cpus": 1.0, "gpu": 2}, 2),
        ({"cores": 2, "gpu": 1}, {"cpus": 1.0}, 2),
    ],
)
def test_slots_of_a_profile(executor: dict[str, int], task: dict[str, float], slots: int) -> None:
    setting = Setting({"conf": {}}, 4, "2", True, True, Profile())
    assert setting.slots(Profile(executor, task)) == slots


@pytest.mark.parametrize("seed", range(50))
def test_drawn_settings_keep_to_what_spark_checks(seed: int) -> None:
    setting = draw(random.Random(seed))
    assert Decimal(setting.cpus) <= setting.cores
    conf = setting.header["conf"]
    low = int(conf.get("spark.dynamicAllocation.minExecutors", 0))
    assert low <= int(conf.get("spark.dynamicAllocation.maxExecutors", 2**31 - 1))


@pytest.mark.parametrize("name", events.OPTIONAL)
def test_a_dialect_leaves_out_only_what_means_nothing(name: str) -> None:
    dialect = events.Dialect(frozenset([name]))
    assert name not in dialect.write({name: events.MEANINGFUL.get(name, "x")})
    if name in events.MEANINGFUL:
        assert name in dialect.write({name: 3})


def test_the_judge_and_the_generator_know_the_same_kinds() -> None:
    assert tuple(KINDS) == judge.KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_selection_reaches_every_rule(kind: str) -> None:
    folder = DATA if kind == "eam" else DATA / kind
    reached = json.loads((folder / "coverage.json").read_text())["total"]
    assert [rule for rule in KINDS[kind].rules if not reached.get(rule)] == []


@pytest.mark.parametrize("seed", range(50))
def test_drawn_settings_of_pods_say_what_the_conf_says(seed: int) -> None:
    setting = pods_world.draw_setting(random.Random(seed))
    conf = setting.header["conf"]
    assert conf[pods_world.K8S + "allocation.batch.delay"] == f"{setting.delay_ms}ms"
    assert setting.real == (setting.header.get("options", {}).get("builder") == "real")
    assert lifecycle_world.draw_setting(random.Random(seed)).header["startAt"] == lifecycle_world.BEGIN_MS


def test_a_rule_of_the_allocator_is_told_from_its_books() -> None:
    header = {"conf": {pods_world.K8S + "allocation.batch.size": "2"}}
    reached = PodsReached(pods_world.PodsSetting(header, 1000, False, (0,)))
    books = {
        "newlyCreatedExecutors": [[1, 0, 5], [2, 0, 5]],
        "schedulerKnownNewlyCreatedExecs": [],
        "deletedExecutorIds": [],
        "numOutstandingPods": 2,
        "nextId": 2,
        "notified": 1,
    }
    made = [{"at": 5, "create": [{"id": 1, "rp": 0}, {"id": 2, "rp": 0}]}, {"at": 5, "state": books}]
    reached.see({"at": 5, "targets": {"0": 7}}, made)
    assert reached.counts == {"target-notifies": 1, "created-batch": 1, "empty-delivery-creates": 1}


def test_choosing_covers_rare_rules_first() -> None:
    each = {"big": {"a": 3, "b": 1}, "small": {"a": 1}, "rare": {"c": 1}}
    assert chosen(each, {"big": 900, "small": 10, "rare": 500}, 2) == ["big", "rare"]


def test_a_rule_is_told_from_states_around_one_event() -> None:
    setting = Setting({"conf": {}}, 1, "1", True, True, Profile())
    reached = Reached(setting, {0: Profile()})
    before = {
        "numExecutorsTarget": {"0": 1},
        "addTime": None,
        "pending": {"0": 1},
        "pendingSpeculative": {"0": 0},
        "running": {"0": 2},
        "unschedulable": {"0": 0},
        "executorsPerRp": {"0": 2},
        "executorCount": 2,
    }
    task = events.TaskShape(0, 0, 0, 0, "1")
    reached.see({"at": 1, "state": True}, [{"at": 1, "state": before}])
    reached.see({"at": 1, "event": events.task_end(events.Dialect(), task, 1, "TaskKilled")}, [])
    reached.see({"at": 1, "state": True}, [{"at": 1, "state": before | {"running": {"0": 1}}}])
    assert reached.counts == {"end-killed": 1}
