"""Workload files: read, written, and refused with the line and what was expected."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from podtide.adapters.files.schema import FileError
from podtide.adapters.files.workload import read, targets, understand, write
from podtide.domain.base.randomness import Constant, Exponential, LogNormal, Quantiles, Uniform
from podtide.domain.base.units import ProfileId
from podtide.domain.fakes.driver.script import (
    Cached,
    Jobs,
    Outputs,
    Profile,
    ScriptJob as Job,
    ScriptStage as Stage,
    Storage,
    Targets,
    Workload,
)
from podtide.domain.protocol.config import ProfileRules
from tests.support.project import PROJECT

P0, P1 = ProfileId(0), ProfileId(1)

EXAMPLE = """\
# two jobs
outputs: migrated
task-failures: 3
stage-attempts: 2
shuffled-offers: true
clean: 10m
profiles:
  1: {executor: {cores: 4, gpu: 1}, task: {cpus: 2, gpu: 0.5}}
jobs:
  load:
    start: 10s
    stages:
      read: {tasks: 200, duration: {median: 2s, p90: 6s}, failure: 0.01, cached: {storage: disk, until: report}}
      write: {tasks: 50, parents: [read], writes-shuffle: true}
  report:
    after: [load]
    think: {mean: 30s}
    times: 5
    stages:
      sum: {tasks: 10, duration: 3s, parents: [load.write], profile: 1}
"""

MEANT = Jobs(
    (
        Job(
            "load",
            (
                Stage("read", 200, LogNormal(2_000, 6_000), cached=Cached(Storage.DISK, "report"), failure=0.01),
                Stage("write", 50, parents=("read",), writes_shuffle=True),
            ),
            start_ms=10_000,
        ),
        Job(
            "report",
            (Stage("sum", 10, Constant(3_000), ("load.write",), P1),),
            after=("load",),
            think=Exponential(30_000),
            times=5,
        ),
    ),
    (Profile(P1, (("cores", 4), ("gpu", 1)), (("cpus", 2.0), ("gpu", 0.5))),),
    Outputs.MIGRATED,
    task_failures_max=3,
    stage_attempts_max=2,
    shuffled_offers=True,
    clean_ms=600_000,
)


@pytest.mark.parametrize(
    ("text", "workload"),
    [
        (EXAMPLE, MEANT),
        ("jobs: {}", Jobs()),
        ("jobs: {a: {stages: {s: {tasks: 1}}}}", Jobs((Job("a", (Stage("s", 1),)),))),
        ("jobs: {a: {stages: {s: {tasks: 1, cached: {}}}}}", Jobs((Job("a", (Stage("s", 1, cached=Cached()),)),))),
        ("jobs: {a: {after: b, stages: {s: {tasks: 1}}}, b: {stages: {s: {tasks: 2}}}}",
         Jobs((Job("a", (Stage("s", 1),), after=("b",)), Job("b", (Stage("s", 2),))))),
        ("targets: {0s: 10, 60s: {0: 20, 1: 5}, 5m: 0}",
         Targets(((0, ((P0, 10),)), (60_000, ((P0, 20), (P1, 5))), (300_000, ((P0, 0),))))),
        ("targets: {1.5s: 1, 0: 2}", Targets(((0, ((P0, 2),)), (1_500, ((P0, 1),))))),
        ("targets: {}", Targets()),
    ],
)  # fmt: skip
def test_what_a_file_means(text: str, workload: Workload) -> None:
    assert understand(text) == workload
    assert understand(write(workload)) == workload


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "w:1: the file: expected targets or jobs, got nothing"),
        ("7", "w:1: the file: expected a mapping with the keys targets, jobs, profiles, outputs, task-failures, "
              "stage-attempts, shuffled-offers, clean, got '7'"),
        ("outputs: service", "w:1: the file: expected either targets or jobs"),
        ("jobs: {}\ntargets: {}", "w:1: the file: expected either targets or jobs"),
        ("targets: {0s: 1}\nclean: 1s", "w:2: clean: this key belongs to jobs, and the file has targets"),
        ("job: {}", "w:1: job: unknown key; expected one of targets, jobs, profiles, outputs, task-failures, "
                    "stage-attempts, shuffled-offers, clean; did you mean jobs?"),
        ("targets: [1]", "w:1: targets: expected targets by time, as {0s: 10, 60s: {0: 20, 1: 5}}, got a list"),
        ("targets:\n  0s: 1\n  60: 5", "w:3: targets.60: expected a duration of at most ten years, such as 250ms, 30s, "
                                      "1h30m or 2d, got '60'"),
        ("targets:\n  60s: 1\n  1m: 5", "w:2: targets.60000ms: expected times that rise, at most ten years"),
        ("targets:\n  0s: many", "w:2: targets.0s: expected a whole number, got 'many'"),
        ("targets:\n  0s: -1", "w:2: targets.0ms: expected 0 to 2147483647 executors"),
        ("targets:\n  0s: [1]", "w:2: targets.0s: expected a number of executors, or one by resource profile, as "
                               "{0: 20, 1: 5}, got a list"),
        ("jobs:\n  a:\n    stages: {s: {}}", "w:3: jobs.a.stages.s: expected the key tasks (a stage, as {tasks: 200, "
                                            "duration: 2s, parents: [map]})"),
        ("jobs:\n  a: {start: 1s}", "w:2: jobs.a: expected the key stages (a job, as {start: 10s, stages: {map: {tasks: "
                                   "200}}})"),
        ("jobs:\n  a: {stage: {}, stages: {}}", "w:2: jobs.a.stage: unknown key; expected one of start, after, think, "
                                               "times, stages; did you mean stages?"),
        ("jobs:\n  a: {stages: {}}", "w:2: jobs.a.stages: expected 1 to 1000 stages, each with a name of its own"),
        ("jobs:\n  a.b: {stages: {s: {tasks: 1}}}", "w:2: jobs.a.b: expected a name without a dot"),
        ("jobs:\n  a:\n    stages:\n      s: {tasks: 0}", "w:4: jobs.a.stages.s.tasks: expected 1 to 5000000 tasks"),
        ("jobs:\n  a:\n    stages:\n      s: {tasks: 1, parents: [t]}",
         "w:4: jobs.a.stages.s.parents: expected stages of this job, or JOB.STAGE of one before it, not t"),
        ("jobs:\n  a: {after: [a], stages: {s: {tasks: 1}}}", "w:2: jobs.a.after: expected names of other jobs, not a"),
        ("jobs: {}\nprofiles:\n  0: {}", "w:3: profiles.0: expected a resource profile id, 1 or more; 0 is as the conf "
                                        "has it"),
        ("jobs: {}\noutputs: here", "w:2: outputs: expected one of executor, migrated, service, got 'here'"),
        ("jobs: !!python/object:os.system {}", "w:1: the tag tag:yaml.org,2002:python/object:os.system is not allowed"),
        ("jobs: {}\njobs: {}", "w:2: the key jobs is there twice"),
        ("jobs: {", "w:1: not YAML: while parsing a flow node, expected the node content, but found '<stream end>'"),
        ("a: &a [*a]", "w:1: a: unknown key; expected one of targets, jobs, profiles, outputs, task-failures, "
                       "stage-attempts, shuffled-offers, clean"),
    ],
)  # fmt: skip
def test_what_a_file_cannot_mean(text: str, error: str) -> None:
    with pytest.raises(FileError) as caught:
        understand(text, "w")
    assert str(caught.value) == error


def test_aliases_cannot_make_a_small_file_large() -> None:
    stage = "{tasks: 1, duration: {quantiles: {" + ", ".join(f"{n}: {n}s" for n in range(100)) + "}}}"
    text = f"jobs:\n  a: {{stages: {{s: &s {stage}}}}}\n" + "".join(
        f"  j{n}: {{stages: {{s: *s, t: *s, u: *s, v: *s}}}}\n" for n in range(500)
    )
    with pytest.raises(FileError, match="aliases make it too large"):
        understand(text)


def test_depth_size_and_encoding_are_bounded(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    with pytest.raises(FileError, match=r"w.yaml: cannot be read: No such file"):
        read(file)
    file.write_bytes(b"jobs: {}\n" + b"#" * 300_000)
    with pytest.raises(FileError, match=r"w.yaml: too long for a workload file"):
        read(file)
    file.write_bytes(b"jobs: {}\n# \xff\n")
    with pytest.raises(FileError, match=r"w.yaml:2: expected UTF-8 text"):
        read(file)
    file.write_text("jobs: " + "[" * 40 + "]" * 40)
    with pytest.raises(FileError, match=r"w.yaml:1: nested more than 16 deep"):
        read(file)
    file.write_text(EXAMPLE)
    assert read(file) == MEANT


def test_an_executor_without_room_for_a_task_is_refused() -> None:
    rules = ProfileRules(executor_cores=1, task_cpus=Decimal(2))
    with pytest.raises(FileError, match=r"^w: profiles.0: expected a profile that Spark takes"):
        understand("jobs: {}", "w", rules)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("0:10,60:50,300:0", ((0, 10), (60_000, 50), (300_000, 0))),
        ("0:1", ((0, 1),)),
        (" 0:1 , 1.5:2, 5m:3,1h30m:4", ((0, 1), (1_500, 2), (300_000, 3), (5_400_000, 4))),
    ],
)
def test_targets_in_one_line(text: str, steps: tuple[tuple[int, int], ...]) -> None:
    assert targets(text) == Targets(tuple((at, ((P0, count),)) for at, count in steps))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "targets: step 1: expected TIME:EXECUTORS, as 60:50 or 5m:50, got ''"),
        ("0:1,60", "targets: step 2: expected TIME:EXECUTORS, as 60:50 or 5m:50, got '60'"),
        ("x:1", "targets: step 1: expected TIME:EXECUTORS, as 60:50 or 5m:50, got 'x:1'"),
        ("0:-1", "targets: step 1: expected TIME:EXECUTORS, as 60:50 or 5m:50, got '0:-1'"),
        ("60:1,0:2", "targets: targets.0ms: expected times that rise, at most ten years"),
        ("0:9999999999", "targets: targets.0ms: expected 0 to 2147483647 executors (and 1 more)"),
        ("0:1," * 40_000, "targets: too long: more than 65536 characters"),
    ],
)
def test_targets_that_make_no_sense(text: str, error: str) -> None:
    with pytest.raises(FileError) as caught:
        targets(text)
    assert str(caught.value) == error


DELAYS = st.one_of(
    st.builds(Constant, st.integers(0, 10**9)),
    st.builds(lambda low, more: Uniform(low, low + more), st.integers(0, 10**6), st.integers(0, 10**6)),
    st.builds(Exponential, st.integers(0, 10**9)),
    st.builds(lambda low, more: LogNormal(low, low + more), st.integers(1, 10**6), st.integers(0, 10**6)),
    st.just(Quantiles(((0.0, 1), (50.0, 7), (99.5, 100)))),
)
NAMES = st.text(st.characters(exclude_characters=".", codec="utf-8"), min_size=1, max_size=8)


@given(
    names=st.lists(NAMES, min_size=1, max_size=4, unique=True),
    delays=st.tuples(DELAYS, DELAYS),
    numbers=st.tuples(st.integers(1, 500), st.integers(0, 10**8), st.integers(1, 9)),
    failure=st.floats(0, 1),
    clean=st.none() | st.integers(0, 10**9),
)
def test_what_is_written_reads_the_same(
    names: list[str],
    delays: tuple[Constant, Constant],
    numbers: tuple[int, int, int],
    failure: float,
    clean: int | None,
) -> None:
    count, start, times = numbers
    stages = (Stage("a", count, delays[0]), Stage(names[-1] + "!", 1, parents=("a",), failure=failure))
    jobs = tuple(Job(name, stages, start, () if name == names[0] else (names[0],), delays[1], times) for name in names)
    workload = Jobs(jobs, clean_ms=clean)
    text = write(workload, "by a test")
    assert text.startswith("# by a test\n")
    assert understand(text) == workload


def test_the_documented_files_are_read() -> None:
    text = (PROJECT / "docs" / "reference" / "workload.md").read_text()
    examples = [block.split("```")[0] for block in text.split("```yaml\n")[1:]]
    kinds = [type(understand(example)) for example in examples]
    assert kinds == [Targets, Jobs]
