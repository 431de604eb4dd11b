"""Files of YARN clusters: what they say, what they may leave out, and what is said of a broken one."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.files import cluster as world_file, yarn_cluster as yarn_world_file
from podtide.adapters.files.schema import FileError
from podtide.adapters.files.yaml_reader import parse
from podtide.adapters.files.yarn_cluster import is_yarn, read, read_cluster, understand, write
from podtide.domain.base.randomness import Constant, Exponential, LogNormal
from podtide.domain.fakes.kubernetes.description import KIND
from podtide.domain.fakes.windows import Window
from podtide.domain.fakes.yarn import description
from podtide.domain.fakes.yarn.cluster import begin
from tests.support.project import PROJECT

GUIDE = PROJECT / "docs" / "reference" / "fake-yarn.md"
SOME_KEYS = ("kind", "seed", "nodes", "groups", "name", "count", "queue", "tenants", "during", "from", "manager", "faults",
             "executors", "deaths", "statuses", "median")  # fmt: skip


@pytest.mark.parametrize("text", ["kind: yarn", "kind: yarn\nnodes:\nqueue: {}\nmanager:\n", "seed: 0\nkind: 'yarn'\n"])
def test_a_kind_alone_is_the_default_cluster(text: str) -> None:
    assert understand(text) == description.YARN
    assert write(description.YARN) == "kind: yarn\n"


def test_what_a_file_says() -> None:
    cluster = understand("""
kind: yarn
seed: 11
calm: 2h
nodes:
  groups:
    - {name: base, count: 2, vcores: 7, memory: 30000M, racks: /r1, resources: {yarn.io/gpu: 1, fpga: 2}}
    - name: more
      hosts: [a, b, c]
      label: gold
      lost-per-hour: 0.25
      back: {mean: 3m}
  events:
    - {at: 1h30m, what: decommission, group: base, host: base-2, stays: true}
    - {at: 2h, what: join, group: base, count: 3}
  heartbeat: 3s
queue:
  memory: 100Gi
  tenants: [{name: nightly, memory: 50Gi, vcores: 4, during: {from: 1m, until: 2m, every: 1h}}]
  preempts: true
  preempt-share: 0.5
manager:
  minimum-memory: 512Mi
  maximum-vcores: 8
  dominant: false
  faults: [{what: "java.io.IOException: no", probability: 0.5}, {slow: 2s}]
  mistakes: {surplus: 0.1}
executors:
  start: 4s
  launch-faults: [{probability: 0.1, groups: more}]
  deaths: [{phase: starting, share: 0.5, statuses: {1: 9, -1000: 1}, diagnostics: why}]
master: {restarts: [1h], back: 20s}
""")
    assert (cluster.seed, cluster.calm_ms) == (11, 7_200_000)
    assert cluster.nodes == (
        description.Nodes("base", 2, 28_611, 7, (("fpga", 2), ("yarn.io/gpu", 1)), ("/r1",)),
        description.Nodes(
            "more", 3, hosts=("a", "b", "c"), label="gold", lost_per_hour=0.25, back=Exponential(180_000)
        ),
    )
    assert cluster.node_events == (
        description.YarnNodeEvent(
            5_400_000, description.YarnNodeHappening.DECOMMISSION, "base", host="base-2", stays=True
        ),
        description.YarnNodeEvent(7_200_000, description.YarnNodeHappening.JOIN, "base", 3),
    )
    tenant = description.Tenant(51_200, 4, "nightly", Window(60_000, 120_000, 3_600_000))
    assert cluster.queue == description.Queue(102_400, tenants=(tenant,), preempts=True, share=0.5)
    manager = cluster.manager
    assert (manager.heartbeat_ms, manager.minimum_mib, manager.maximum_vcores, manager.dominant) == (
        3_000,
        512,
        8,
        False,
    )
    assert manager.faults == (
        description.CallFault("java.io.IOException: no", 0.5),
        description.CallFault(slow=Constant(2_000)),
    )
    assert manager.mistakes == description.Mistakes(surplus=0.1)
    assert cluster.executors.start == Constant(4_000)
    assert cluster.executors.launch_faults == (description.LaunchFault(probability=0.1, groups=("more",)),)
    assert cluster.executors.deaths == (
        description.Death(
            description.ContainerPhase.STARTING, 0.5, statuses=((1, 9.0), (-1000, 1.0)), diagnostics="why"
        ),
    )
    assert cluster.master == description.Master(LogNormal(200, 500), (3_600_000,), Constant(20_000))
    assert description.racks(cluster)["base-5"] == "/r1"
    assert understand(write(cluster, "a heading\nof two lines")) == cluster


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "the file: expected a mapping with the keys kind, seed, calm,"),
        ("- 1", 1, "the file: expected a mapping"),
        ("seed: 1", 1, r"kind: expected yarn \(a YARN cluster\)$"),
        ("seed: 1\nkind: kubernetes", 2, r"kind: expected yarn \(a YARN cluster\), got 'kubernetes'"),
        ("kind: [yarn]", 1, "kind: expected yarn"),
        ("kind: yarn\nsede: 1", 2, "sede: unknown key; expected one of kind, seed,.*did you mean seed?"),
        ("kind: yarn\nseed: one", 2, "seed: expected a whole number, got 'one'"),
        ("kind: yarn\ncalm: 5", 2, "calm: expected a duration"),
        ("kind: yarn\nnodes: 3", 2, "nodes: expected the nodes' keys, got '3'"),
        ("kind: yarn\nnodes:\n  scan: 3s", 3, "nodes.scan: unknown key; expected one of decommission, events, expiry,"),
        ("kind: yarn\nnodes: {groups: 3}", 2, "nodes.groups: expected a list of groups of nodes, got '3'"),
        ("kind: yarn\nnodes:\n  groups:\n  - {count: 3}", 4, r"nodes.groups\[0\]: expected the key name"),
        ("kind: yarn\nnodes:\n  groups:\n  - {name: a}", 4, r"nodes.groups\[0\]: expected the key count, or hosts"),
        ("kind: yarn\nnodes: {groups: [{name: a, count: -1}]}", 2, r"nodes.groups\[0\].count: expected 0 to 100000 nodes"),
        ("kind: yarn\nnodes: {groups: [{name: a, count: 1, cores: 2}]}", 2, r"\[0\].cores: unknown key.*vcores"),
        ("kind: yarn\nnodes: {groups: [{name: a, count: 1, resources: [1]}]}", 2, "resources: expected amounts by resource"),
        ("kind: yarn\nnodes: {groups: [{name: a, count: 1, racks: []}]}", 2, "racks: expected one rack or more"),
        ("kind: yarn\nnodes: {groups: [{name: a, count: 2}, {name: b, hosts: [a-2]}]}", 2,
         r"nodes.groups: expected every host once \(a-2 is there again\)"),
        ("kind: yarn\nnodes: {groups: [{name: a, count: 90000}, {name: b, count: 90000}]}", 2,
         "nodes.groups: expected at most 100000 nodes"),
        ("kind: yarn\nnodes:\n  events:\n  - {at: 1m, what: burn, group: worker}", 4,
         r"events\[0\].what: expected one of join, lose, decommission, sicken, got 'burn'"),
        ("kind: yarn\nnodes: {events: [{at: 1m, what: lose, group: wroker}]}", 2,
         r"events\[0\].group: expected one of the groups: worker"),
        ("kind: yarn\nnodes: {events: [{at: 1m, what: lose, group: worker, host: h}]}", 2,
         r"events\[0\].host: expected a host of worker"),
        ("kind: yarn\nnodes: {heartbeat: 0s}", 2, "nodes.heartbeat: expected more than 0"),
        ("kind: yarn\nqueue: {memory: lots}", 2, "queue.memory: expected an amount of memory"),
        ("kind: yarn\nqueue:\n  tenants:\n  - {memory: 1Gi, during: {from: 2m, until: 1m}}", 4,
         r"queue.tenants\[0\].during.until: expected later than from"),
        ("kind: yarn\nqueue: {preempt-share: 0}", 2, "queue.preempt-share: expected more than 0, up to 1"),
        ("kind: yarn\nmanager: {maximum-memory: 512Mi}", 2, "manager.maximum-memory: expected no less than the minimum"),
        ("kind: yarn\nmanager: {faults: [{probability: 2}]}", 2, r"faults\[0\].probability: expected a share, 0 to 1"),
        ("kind: yarn\nmanager: {mistakes: {surplus: 1}}", 2, "manager.mistakes.surplus: expected a share, 0 to 0.9"),
        ("kind: yarn\nexecutors: {start: {from: 2s}}", 2, "executors.start: expected a duration, {from: 1s, to: 5s}"),
        ("kind: yarn\nexecutors: {deaths: [{share: 0.1, per-hour: 2}]}", 2,
         r"executors.deaths\[0\]: expected either a share or a rate per hour"),
        ("kind: yarn\nexecutors: {deaths: [{share: 0.1, statuses: {999: 1}}]}", 2,
         r"deaths\[0\].statuses: expected exit statuses from -1000 to 255"),
        ("kind: yarn\nexecutors: {deaths: [{share: 0.1, statuses: {}}]}", 2, "statuses: expected one exit status or more"),
        ("kind: yarn\nexecutors: {launch-faults: [{groups: [x]}]}", 2, "groups: expected groups of nodes: worker"),
        ("kind: yarn\nmaster: {restarts: 5}", 2, "master.restarts: expected a duration"),
        ("kind: yarn\nnodes: *x", 2, r"the alias \*x refers to nothing before it"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_broken_file(text: str, line: int, what: str) -> None:
    with pytest.raises(FileError) as refused:
        understand(text, "yarn.yaml")
    assert re.match(rf"yarn.yaml:{line}: .*{what}", str(refused.value), re.DOTALL), refused.value
    assert refused.value.line == line


def test_both_kinds_of_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    for text, cluster in (
        ("kind: yarn", description.YARN), ("kind: kubernetes\n", KIND), ("", KIND), ("api: {}\n", KIND),
    ):  # fmt: skip
        path.write_text(text)
        assert read_cluster(path) == cluster
    path.write_text("seed: 1\nkind: mesos\n")
    with pytest.raises(FileError, match=r"cluster.yaml:2: kind: expected yarn or kubernetes, got 'mesos'"):
        read_cluster(path)
    with pytest.raises(FileError, match=r"cluster.yaml:2: kind: expected kubernetes here .*got 'mesos'"):
        world_file.read(path)
    path.write_text("kind: yarn")
    with pytest.raises(FileError, match=r"kind: expected kubernetes here \(a file of kind yarn"):
        world_file.read(path)
    path.write_text("nodes: [\n")
    with pytest.raises(FileError, match=r"cluster.yaml:2: not YAML"):
        read_cluster(path)


def test_is_yarn() -> None:
    assert is_yarn(parse("kind: yarn"))
    for text in ("", "[]", "kind: [yarn]", "kinds: yarn", "a: {kind: yarn}", "kind: YARN"):
        assert not is_yarn(parse(text))


def test_the_guides_example_and_the_demo_are_clusters() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    begin(understand(example, "the guide's example"), 1, 0)
    demo = read(PROJECT / "demo" / "yarn-cluster.yaml")
    begin(demo, demo.seed, 0)
    assert understand(write(demo)) == demo


def test_the_guide_names_every_key() -> None:
    text = GUIDE.read_text()
    for record in (
        yarn_world_file.GROUP, yarn_world_file.EVENT, yarn_world_file.NODES, yarn_world_file.TIMES, yarn_world_file.QUEUE,
        yarn_world_file.TENANT, yarn_world_file.MANAGER, yarn_world_file.FAULT, yarn_world_file.MISTAKES,
        yarn_world_file.EXECUTORS, yarn_world_file.LAUNCH_FAULT, yarn_world_file.DEATH, yarn_world_file.MASTER,
    ):  # fmt: skip
        for key in record.keys:
            assert f"`{key.name}`" in text or f"{key.name}:" in text, key.name
    for what in description.YarnNodeHappening:
        assert f"`{what.value}`" in text


values: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.sampled_from(["yarn", "1s", "8Gi", "lose", "worker"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(SOME_KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(SOME_KEYS), values, max_size=6))
def test_any_file_is_understood_or_refused(content: dict[str, object]) -> None:
    with contextlib.suppress(FileError):
        understand(repr({**content, "kind": "yarn"}).replace("None", "null").replace("True", "true"))


@given(st.text(max_size=200))
def test_any_text_is_understood_or_refused(text: str) -> None:
    with contextlib.suppress(FileError):
        understand("kind: yarn\n" + text)
