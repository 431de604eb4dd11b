"""Cluster files: what they say, what they may leave out, and what is said of a broken one."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.files import cluster as world_file, yaml_reader as yaml_nodes
from podtide.adapters.files.cluster import read, understand, write, write_fitted
from podtide.adapters.files.schema import FileError
from podtide.adapters.files.values import duration, show_duration
from podtide.domain.base.randomness import DELAY_MAX, Constant, Exponential, Quantiles, Uniform
from podtide.domain.fakes.kubernetes import description
from podtide.domain.fakes.kubernetes.fit import fit
from podtide.domain.fakes.windows import Window
from tests.support.project import PROJECT

SOME_KEYS = (
    "seed", "nodes", "groups", "name", "count", "stages", "pull", "delay", "from", "next", "api", "faults", "status",
    "watch", "median",
)  # fmt: skip
GUIDE = PROJECT / "docs" / "reference" / "fake-cluster.md"


def test_an_empty_file_is_the_default_cluster() -> None:
    for text in ("", "# nothing\n", "---\n", "null\n", "api:\nwatch: {}\nstages:\n"):
        assert understand(text) == description.KIND
    assert write(description.KIND) == ""


def test_what_a_file_says() -> None:
    cluster = understand("""
seed: 11
calm: 2h
nodes:
  groups:
    - {name: base, count: 2, cpu: 7.5, memory: 30000M}
    - name: spot
      count: 0
      maximum: 40
      interruptions-per-hour: 0.25
      arrives: {from: 1m, to: 3m}
  events:
    - {at: 1h30m, what: take back, group: spot, count: 3}
  orphaned: 5s
executors:
  cpu: 2
  profiles: {1: {memory: 8Gi}}
  decommission: true
stages:
  pull: {delay: {mean: 4s}}
  give-up: null
  crash: {from: running, next: failed, weight: 0.1, delay: {quantiles: {100: 9s, 0: 1s}}, exits: {1: 9, 137: 1}}
api:
  quota: 50
  faults:
    - {status: 429, verbs: create, retry-after: 1500ms, during: {from: 1m, until: 2m, every: 1h}}
    - {lost: answer, probability: 0.01}
watch: {loss: 0.1, relists: true}
driver: {ready: 3s}
""")
    assert (cluster.seed, cluster.calm_ms, cluster.orphaned_ms) == (11, 7_200_000, 5_000)
    assert cluster.groups == (
        description.NodeGroup("base", 2, 7_500, 28_611),  # 30,000 MB are 28,610.2 MiB
        description.NodeGroup("spot", 0, maximum=40, interruptions_per_hour=0.25, arrives=Uniform(60_000, 180_000)),
    )
    assert cluster.node_events == (description.NodeEvent(5_400_000, description.NodeHappening.TAKE_BACK, "spot", 3),)
    assert cluster.executors.shape == description.PodShape(2_000, 1_408)
    assert cluster.executors.profiles == ((1, description.PodShape(1_000, 8_192)),)
    stages = {s.name: s for s in cluster.executors.stages}
    assert "give-up" not in stages
    assert stages["pull"] == replace(next(s for s in description.STAGES if s.name == "pull"), delay=Exponential(4_000))
    assert stages["crash"] == description.PodStage(
        "crash",
        description.Life.RUNNING,
        description.Life.FAILED,
        Quantiles(((0, 1_000), (100, 9_000))),
        weight=0.1,
        exits=((1, 9.0), (137, 1.0)),
    )
    assert cluster.api.quota_pods == 50
    assert cluster.api.faults == (
        description.Fault(
            429, verbs=(description.Verb.CREATE,), retry_after_ms=1_500, during=Window(60_000, 120_000, 3_600_000)
        ),
        description.Fault(lost=description.Lost.ANSWER, probability=0.01),
    )
    assert (cluster.watch.loss, cluster.watch.relists, cluster.driver) == (
        0.1,
        True,
        description.FakeDriverPod(True, 3_000),
    )
    assert understand(write(cluster)) == cluster


def test_anchors_spare_repetition() -> None:
    text = "api: {faults: [{status: 500, during: &night {from: 1h, until: 2h}}, {status: 429, during: *night}]}"
    one, other = understand(text).api.faults
    assert one.during == other.during == Window(3_600_000, 7_200_000)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (
            "seed: 1\napi:\n  latencies: 3s",
            3,
            "api.latencies: unknown key; expected one of latency,.*did you mean latency?",
        ),
        ("sede: 1", 1, "sede: unknown key; expected one of seed,"),
        ("- 1", 1, "the file: expected a mapping with the keys seed, calm,.* got a list"),
        ("just words", 1, "the file: expected a mapping .*got 'just words'"),
        ("seed: one", 1, "seed: expected a whole number, got 'one'"),
        ("seed:", 1, "seed: expected a whole number, got nothing"),
        ("seed: [1]", 1, "seed: expected a whole number, got a list"),
        ("calm: 5", 1, "calm: expected a duration .*such as 250ms, 30s, 1h30m or 2d, got '5'"),
        ("calm: 1:30", 1, "calm: expected a duration .*got '1:30'"),
        ("calm: 99999d", 1, "calm: expected a duration of at most ten years"),
        ("nodes: {groups: 3}", 1, "nodes.groups: expected a list of groups of nodes, got '3'"),
        ("nodes:\n  groups:\n    - {count: 3}", 3, r"nodes.groups\[0\]: expected the key name \(a group of nodes"),
        (
            "nodes:\n  groups:\n    - {name: a, count: 3, cpu: two}",
            3,
            r"nodes.groups\[0\].cpu: expected processors, such as 2 or 500m",
        ),
        (
            "nodes: {groups: [{name: a, count: 3, memory: 8 GB}]}",
            1,
            "memory: expected an amount of memory, such as 1408Mi",
        ),
        (
            "nodes: {groups: [{name: a, count: 3}, {name: a, count: 1}]}",
            1,
            "nodes.groups: expected every group has a name of its own",
        ),
        (
            "nodes:\n  groups:\n    - {name: a, count: 3,\n       maximum: 2}",
            4,
            r"nodes.groups\[0\].maximum: expected count to",
        ),
        (
            "nodes: {events: [{at: 1s, what: explode, group: a}]}",
            1,
            "what: expected one of join, drain, take back, crash, got 'explode'",
        ),
        (
            "nodes: {events: [{at: 1s, what: join, group: a}]}",
            1,
            r"nodes.events\[0\].group: expected one of the groups: worker",
        ),
        ("executors: {decommission: yes}", 1, "executors.decommission: expected true or false, got 'yes'"),
        ("executors: {profiles: {a: {cpu: 1}}}", 1, "executors.profiles.a: expected a whole number, got 'a'"),
        ("executors: {profiles: [1]}", 1, "executors.profiles: expected requests by resource profile"),
        ("executors: {profiles: {1: {cpu: 1}, 01: {cpu: 2}}}", 1, "executors.profiles.01: the same key twice"),
        ("stages: [1]", 1, "stages: expected stages by name"),
        (
            "stages: {no-such: null}",
            1,
            "stages.no-such: there is no stage of this name to take away; the stages are schedule,",
        ),
        ("stages: {mine: {from: running}}", 1, "stages.mine: expected the key next"),
        ("stages: {mine: {from: running, next: scheduled}}", 1, "stages.mine.next: expected one of evicted, failed"),
        ("stages: {mine: {from: gone, next: failed}}", 1, "stages.mine.from: expected one of created"),
        (
            "stages:\n  pull:\n    delay: {median: 5s}",
            3,
            r"stages.pull.delay: expected a duration, \{from: 1s.*got \{median\}",
        ),
        (
            "stages: {pull: {delay: {quantiles: {0: 5s, 100: 1s}}}}",
            1,
            "stages.pull.delay: expected percents, and durations that rise",
        ),
        ("stages: {pull: {delay: [1s]}}", 1, "stages.pull.delay: expected a duration"),
        ("stages: {pull: {weight: -1}}", 1, "stages.pull.weight: expected a number, 0 or more, got '-1'"),
        ("stages: {pull: {weight: 1e999}}", 1, "stages.pull.weight: expected a number, 0 or more"),
        ("api: {faults: [{probability: 1}]}", 1, r"api.faults\[0\]: expected either a status or what is lost"),
        (
            "api: {faults: [{status: 429, verbs: [make]}]}",
            1,
            r"api.faults\[0\].verbs\[0\]: expected one of create, delete",
        ),
        ("api:\n  stale: 1.5", 2, "api.stale: expected a share, 0 to 1"),
        ("watch: {outages: [{from: 1m}]}", 1, r"watch.outages\[0\].until: expected a time at which the outage ends"),
        ("watch: {during: 5m}", 1, "watch.during: expected a time, as {from: 10m"),
        ("api: {latency: 1s}\nwatch: {loss: 2}\ndriver: {present: 1}", 3, "driver.present: expected true or false"),
        # not YAML, or not only data
        ("seed: [1", 1, "not YAML: while parsing a flow sequence"),
        ("a: b: c", 1, "not YAML: mapping values are not allowed here"),
        ("seed: 1\nseed: 2", 2, "the key seed is there twice"),
        ("seed: 1\n---\nseed: 2", 2, "a second document"),
        ("? [a]\n: b", 1, "a key that is no text"),
        ("seed: *there", 1, r"the alias \*there refers to nothing before it"),
        (
            "seed: !!python/object/apply:os.system ['true']",
            1,
            "the tag tag:yaml.org,2002:python/object/apply:os.system is not allowed",
        ),
        ("seed: !mine 3", 1, "the tag !mine is not allowed"),
        ("seed: \x01", 1, r"not YAML: a character that is not allowed \(U\+0001\)"),
        ("[" * 60, 1, "nested more than 16 deep"),
        ("a: &a [*a]", 1, "a: unknown key"),
        ("nodes: {groups: &a [*a]}", 1, r"nodes.groups\[0\]: expected a group of nodes.*got a list"),
        ("api: {faults: [" + "{status: 500}," * 20_000 + "]}", 1, "too long|more than"),
        ("x: " + "a" * 300_000, 1, "too long"),
    ],
)  # fmt: skip
def test_a_broken_file_is_told_where_and_what(text: str, line: int, what: str) -> None:
    with pytest.raises(FileError) as refused:
        understand(text, "cluster.yaml")
    message = str(refused.value)
    assert message.startswith(f"cluster.yaml:{line}: "), message
    assert re.search(what, message), message


def test_aliases_make_no_small_file_large() -> None:
    lists = "api: {faults: &a [{status: 500}]}\n"
    text = "watch: &w {outages: &l0 [{from: 1s, until: 2s}]}\n" + lists
    assert understand(text)
    bomb = "stages:\n  pull: {profiles: &p [" + ",".join(["1"] * 500) + "]}\n"
    bomb += "".join(f"  x{i}: {{from: running, next: failed, profiles: *p}}\n" for i in range(150))
    with pytest.raises(FileError, match="aliases make it too large"):
        understand(bomb)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(b"\xef\xbb\xbfseed: 4\r\n")
    assert read(path).seed == 4
    path.write_bytes(b"seed: 4\n# \xff\n")
    with pytest.raises(FileError, match=r"cluster\.yaml:2: expected UTF-8 text"):
        read(path)
    path.write_bytes(b"#" * (yaml_nodes.SIZE_MAX + 1))
    with pytest.raises(FileError, match=r"cluster\.yaml: too long for a cluster file"):
        read(path)
    with pytest.raises(FileError, match=r"none\.yaml: cannot be read: No such file"):
        read(tmp_path / "none.yaml")
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        read(tmp_path)


def test_notes_stand_behind_their_keys() -> None:
    cluster = replace(
        description.KIND,
        api=replace(description.KIND.api, latency=Constant(7), faults=(description.Fault(500),)),
        groups=(description.NodeGroup("a", 1),),
        seed=3,
    )
    notes = {"api.latency": "12 observations", "api.faults[0]": "of 3\ncalls", "nodes.groups": "seen", "seed": "mine"}
    text = write(cluster, notes, "one\n\ntwo")
    assert text == (
        "# one\n#\n# two\n"
        "seed: 3  # mine\n"
        "nodes:\n  groups:  # seen\n    - {name: a, count: 1}\n"
        "api:\n  latency: 7ms  # 12 observations\n  faults:\n    - {status: 500}  # of 3 calls\n"
    )
    assert understand(text) == cluster


def test_a_fitted_cluster_says_what_it_did_not_see() -> None:
    text = write_fitted(fit([]), "Nothing was seen.")
    assert text.startswith("# Nothing was seen.\n# Not seen, and left at the default:\n#   stages.schedule\n")
    assert understand(text) == description.KIND


@given(st.integers(0, DELAY_MAX))
def test_durations_are_read_as_written(ms: int) -> None:
    assert duration(show_duration(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"), [("0", 0), ("1.5s", 1_500), ("1h30m", 5_400_000), ("2d", 172_800_000), ("0.5ms", 0)]
)
def test_durations(text: str, ms: int) -> None:
    assert duration(text) == ms


@given(st.text(max_size=200))
def test_any_text_is_a_cluster_or_refused(text: str) -> None:
    with contextlib.suppress(FileError):
        understand(text)


@given(st.recursive(
    st.sampled_from(["1", "x", "null", "30s", "running", "failed", "~", "-1", "true", "{}", "[]"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
        st.dictionaries(
            st.sampled_from(SOME_KEYS),
            inner, max_size=4,
        ).map(lambda d: "{" + ", ".join(f"{k}: {v}" for k, v in d.items()) + "}"),
    ),
    max_leaves=12,
))  # fmt: skip
def test_any_structure_is_a_cluster_or_refused(text: str) -> None:
    try:
        cluster = understand(text)
    except FileError as refused:
        assert str(refused).startswith("cluster:")  # noqa: PT017 - either is fine
    else:
        assert understand(write(cluster)) == cluster


def test_the_guide_shows_files_that_can_be_read() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        cluster = understand(block, "guide")
        assert understand(world_file.write(cluster)) == cluster


def test_the_guide_names_every_key() -> None:
    text = GUIDE.read_text("utf-8")
    records = (
        world_file.GROUP, world_file.EVENT, world_file.STAGE, world_file.FAULT, world_file.API, world_file.WATCH,
        world_file.DRIVER, world_file.NODES, world_file.EXECUTORS, world_file.WINDOW,
    )  # fmt: skip
    missing = [key.name for record in records for key in record.keys if f"`{key.name}`" not in text]
    assert missing == []
    assert [s.name for s in description.STAGES if f"`{s.name}`" not in text] == []
