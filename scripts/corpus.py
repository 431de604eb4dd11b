"""Record what many podtide commands print and write, and compare two such records byte for byte.

A change that moves or renames code and changes no behaviour has to leave every output as it was. Tests look at chosen
parts of outputs; this program looks at all of them, of about 1,100 command lines::

    python scripts/corpus.py record --checkout OLD --out before --shared ../shared
    python scripts/corpus.py record --checkout NEW --out after --shared ../shared
    python scripts/corpus.py compare before after

``record`` runs each command line of the corpus with ``podtide`` of the checkout's own virtual environment. It stores
the command line, standard output, standard error, the exit code and every file that the command wrote: one folder for
each command, named after its command line. ``compare`` prints one line for each command that differs, with the first
line that is not the same, and a count; its exit code is 1 if anything differs. Both take ``--only`` with a part of a
command line or of a name. The program needs podtide's development environment (pyarrow, zstandard).

Two records of the same code must be equal wherever they are made. So outputs must not depend on:

- *Places.* Each command runs in a new, empty folder of its own. Links in it lead to the inputs under fixed names:
  ``demo`` and ``scenarios`` (of the checkout), ``public``, ``truth`` and ``spark`` (of the shared material), ``made``
  (files that this program writes) and ``recorded`` (files that earlier commands of the corpus wrote). So every path on
  a command line is relative and always the same, and lines wrap alike. Inputs that move within a checkout keep their
  names here. Whatever else is in the folder afterwards was written by the command. Absolute paths that are printed all
  the same are replaced.
- *The environment.* A command gets the variables of ``environment`` and no others; they fix hash order, time zone,
  terminal and user. Standard input is empty unless the command names a file for it.
- *Compression.* Compressed files are stored as what they hold, Parquet as its columns and rows.
- *Clocks.* ``NORMALISED`` is the whole list of what is replaced, each with its reason.

A command that reads what another one wrote (a recording, decisions, a fitted cluster) names that file under
``recorded/``; the other one runs before it, also with ``--only``.

Left out, because two runs of the same code differ: a live ``run`` (clock, thread order, random back-off; its refusals
are in), ``fleet --progress`` (a line every ten seconds), interrupts and closed pipes. Left out, because they need more
than this machine: ``fleet --engine spark`` (Java), and what needs an API server (``run``, ``stop`` that deletes,
``pod --dry-run server`` that succeeds). The tests hold these.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import zstandard

DA: Final = "spark.dynamicAllocation"
K8S: Final = "spark.kubernetes"
TIMEOUT_S: Final = 600
MODIFIED_S: Final = 1_700_000_000
"""The modification time of every file that is made here: the table of a fleet shows it."""

PRICE: Final = "core-hour=0.04,gb-hour=0.005"

CHECKOUT_INPUTS: Final = {"demo": "demo", "scenarios": "tests/conformance/data"}
SHARED_INPUTS: Final = {"public": "data/public", "truth": "data/truth", "spark": "conformance"}
"""Links in a command's folder, and where they lead to in the checkout and in the shared material."""


def environment(checkout: Path, home: Path) -> dict[str, str]:
    """The variables that a command gets: nothing of the caller's but the search path."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SPARK_USER": "somebody",
        "PYTHONPATH": str(checkout / ".typing"),
        "PYTHONHASHSEED": "0",
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


# ------------------------------------------------------------------------------------------------------- normalisations


class Normalised(NamedTuple):
    """What is replaced in outputs, and why. ``commands``, ``parts``: patterns of command lines and of parts' names."""

    commands: str
    parts: str
    pattern: str
    replacement: str
    why: str


NORMALISED: Final = (
    Normalised(
        r"fleet", r"stdout", r'(?m)^"seconds": [0-9.]+,$', r'"seconds": $SECONDS,', "how long the whole fleet took"
    ),
    Normalised(
        r"fleet",
        r".*\.csv",
        r"(?m),[0-9.]+(,[^,\n]*,[0-9]*,[^,\n]*,[^,\n]*)$",
        r",$SECONDS\1",
        "the column seconds: how long the row took",
    ),
    Normalised(r"run", r"stdout", r"(?m)^[0-9-]+T[0-9:.]+Z ", r"$TIME ", "the clock at the beginning of a live line"),
    Normalised(r"run", r"stdout", r"(got no answer), .*", r"\1, $AGO", "how long ago that was"),
)
"""Besides these: the column ``seconds`` of a Parquet table, and the paths of the checkout, of the shared material and
of the command's own folder, wherever they stand."""


# --------------------------------------------------------------------------------------------------------- the commands


def _whole(data: bytes) -> bytes:
    return data


class Kept(NamedTuple):
    """A file that later commands read as ``recorded/<name>``: what was written as ``file``, perhaps changed."""

    name: str
    file: str
    change: Callable[[bytes], bytes] = _whole


@dataclass(frozen=True)
class Command:
    """A command line without ``podtide``, and what belongs to it.

    ``stdin``: a file in its folder. ``env``: variables besides the usual ones. ``kept``: what later commands read.
    """

    line: str
    stdin: str = ""
    env: tuple[tuple[str, str], ...] = ()
    kept: tuple[Kept, ...] = ()

    @property
    def described(self) -> str:
        """The command line as a shell would have it, with its variables and its standard input."""
        variables = "".join(f"{name}={value} " for name, value in self.env)
        return f"{variables}podtide {self.line}{f' < {self.stdin}' if self.stdin else ''}"

    @property
    def name(self) -> str:
        """A readable name that is its own, and stays the same as long as the command does."""
        short = self.line.replace(f"{DA}.", "").replace(f"{K8S}.", "").replace("spark.", "").replace("--conf ", "")
        slug = re.sub(r"[^A-Za-z0-9.]+", "-", short).strip("-.") or "podtide"
        return f"{slug[:90].rstrip('-.')}.{hashlib.sha256(self.described.encode()).hexdigest()[:8]}"

    @property
    def needs(self) -> frozenset[str]:
        """The files that it reads and earlier commands wrote."""
        return frozenset(re.findall(r"recorded/([\w.-]+)", f"{self.line} {self.stdin}"))


def lines(prefix: str, text: str) -> Iterator[Command]:
    """A command for each line of a text, behind a prefix; what is between its words counts as one blank."""
    for line in text.strip().splitlines():
        yield Command(" ".join([prefix, *line.split()]).strip())


def corpus(shared: Path) -> list[Command]:
    """Every command, in the order in which they are run as far as none waits for another."""
    truth = truth_logs(shared)
    listed = [
        *recordings(),
        *tunes(),
        *fleets(),
        *conforms(),
        *replays(public_logs(shared), truth),
        *replays_of_the_demo(),
        *replays_of_recordings(),
        *explanations(),
        *fits(),
        *whatifs((*public_logs(shared, executors=2), *truth[::2])),
        *whatifs_of_samples(),
        *diffs(),
        *simulations(),
        *confs(),
        *pods(),
        *live(),
        *helps(),
    ]
    twice = [name for name in {one.name for one in listed} if sum(one.name == name for one in listed) > 1]
    assert not twice, f"two commands are the same: {twice}"
    return listed


def public_logs(shared: Path, executors: int = 0) -> list[str]:
    """The public logs that had at least so many executors at once, as their index lists them."""
    with (shared / SHARED_INPUTS["public"] / "index.tsv").open(encoding="utf-8", newline="") as index:
        rows = csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [f"public/{row['file']}" for row in rows if int(row["peak_execs"]) >= executors]


def truth_logs(shared: Path) -> list[str]:
    """The logs of the real runs: the folder that holds the log, of each."""
    folder = shared / SHARED_INPUTS["truth"]
    return [f"truth/{found.parent.relative_to(folder)}/log" for found in sorted(folder.glob("*/*/run*/manifest.json"))]


DEMO: Final = "demo/eventlog_v2_app-20261121094425-0000"
CLUSTERS: Final = "public/rapids-qualification/cluster_information"
YARN_DYNAMIC: Final = f"{CLUSTERS}/eventlog_4nodes_8cores_dynamic_alloc.zstd"
YARN_JOIN: Final = "public/rapids-e2e/join_agg_on_yarn_eventlog.zstd"
YARN_OLD: Final = "public/apache-spark-2.4/application_1506645932520_24630151"
YARN_CLIENT: Final = "public/sparklint-test/directory_source/event_log_0"
YARN_FAILURES: Final = "public/rapids-profiling/tasks_executors_fail_compressed_eventlog.zstd"
KUBERNETES: Final = "public/kubeflow-mcp/eventlog_v2_spark-cc4d115f011443d787f03a71a476a745"
STANDALONE: Final = "public/guozhongxin/EVENT_LOG_1"
STANDALONE_LARGE: Final = "public/rapids-qualification/nds_q88_photon_db_13_3.zstd"
LOCAL: Final = "public/rapids-qualification/complex_dec_eventlog.zstd"
LOCAL_CLUSTER: Final = "public/apache-spark/app-20161115172038-0000"
TRUTH: Final = tuple(f"truth/{name}/D_b1_i3_min1_max4/run2/log" for name in ("w1", "w2", "w3", "w6"))
SMALL_SAMPLE: Final = (DEMO, YARN_DYNAMIC, YARN_JOIN, YARN_CLIENT, KUBERNETES, STANDALONE, TRUTH[0], TRUTH[1])
SAMPLE: Final = (*SMALL_SAMPLE, YARN_OLD, YARN_FAILURES, STANDALONE_LARGE, LOCAL, LOCAL_CLUSTER, TRUTH[2], TRUTH[3])
"""Logs of every cluster manager, most of them with executors that come and go."""

BROKEN: Final = """
made/nowhere.log
made/empty.log
made/text.log
made/other.json
made/only-start.log
made/cut.zstd
made/damaged.gz
made/several
made/empty-folder
made/two.zip
made/several.txt
nosuch://bucket/log
made
"""
"""What is no log, or none that can be used."""

ODD: Final = """
made/cut.log
made/malformed.log
made/no-end.log
made/no-environment.log
made/long-line.log
made/demo.log.gz
made/demo.zip
made/two.zip!app-1
made/one
demo/eventlog_v2_app-20261121094425-0000/events_1_app-20261121094425-0000.zstd
"""
"""Logs that are cut, edited or packed."""


def replays(public: Sequence[str], truth: Sequence[str]) -> Iterator[Command]:
    """Every log as a report, and as a document; some with all decisions and what Spark's own log would say of them."""
    for log in (*public, *truth):
        yield Command(f"replay {log}")
    for log in (*public, *truth[::2]):
        yield Command(f"replay {log} --json")
    for log in dict.fromkeys((*SAMPLE, *truth[1::2])):
        files = "--decisions decisions.jsonl --spark-log spark.log --spark-log-level debug"
        yield Command(f"replay {log} --all --no-bounds {files}")


def replays_of_the_demo() -> Iterator[Command]:
    """Every option of a replay, and everything that it refuses."""
    decisions = "demo.jsonl"
    shorter = Kept("demo-shorter.jsonl", decisions, lambda data: b"".join(data.splitlines(keepends=True)[:-3]))
    yield Command(f"replay {DEMO} --decisions {decisions}", kept=(Kept(decisions, decisions), shorter))
    yield Command(f"replay {DEMO}")
    yield from lines(
        f"replay {DEMO}",
        f"""
        --json
        --all
        --no-bounds
        --json --no-bounds
        --strict
        --conf {DA}.maxExecutors=2
        --conf {DA}.maxExecutors=2 --json
        --conf {DA}.maxExecutors=40 --conf {DA}.executorIdleTimeout=1s --all
        --conf {DA}.enabled=false
        --conf {DA}.executorAllocationRatio=0.5 --conf {DA}.schedulerBacklogTimeout=3s
        --conf spark.executor.cores=4 --conf spark.task.cpus=2
        --conf spark.decommission.enabled=true --conf spark.storage.decommission.enabled=true --all
        --conf {DA}.shuffleTracking.enabled=false --conf spark.shuffle.service.enabled=true
        --conf spark.my.password=hunter2 --json
        --properties-file made/spark-defaults.conf
        --properties-file made/spark-defaults.conf --conf {DA}.maxExecutors=3 --json
        --spark-version 2.4
        --spark-version 3.4.1
        --spark-version 4.0.0 --json
        --decisions -
        --spark-log -
        --spark-log - --spark-log-level debug --spark-log-millis
        --spark-log - --spark-log-level warn
        --spark-log spark.log --spark-log-level error --json
        --expect recorded/demo.jsonl
        --expect recorded/demo.jsonl --json
        --expect recorded/demo-shorter.jsonl
        --expect recorded/demo.jsonl --conf {DA}.maxExecutors=2
        --expect recorded/demo.jsonl --conf {DA}.maxExecutors=2 --json
        --expect recorded/demo.jsonl --conf {DA}.executorIdleTimeout=7s
        --expect made/expected.jsonl
        --expect made/text.log
        --expect made/nowhere.jsonl
        --conf nonsense
        --conf {DA}.minExecutors=many
        --conf {DA}.minExecutors=x --conf {DA}.maxExecutors=y
        --conf {DA}.maxExecutors=0
        --conf {DA}.maxExecutor=4
        --spark-version banana
        --properties-file made/nowhere.conf
        --properties-file made/bad.conf
        --decisions no/such/folder/d.jsonl
        --spark-log-millis
        --json --decisions -
        --json --all
        --json --spark-log -
        --check
        --fix all
        --fix none
        --policy split=spark
        --unknown
        """,
    )
    for wide, log in ((40, DEMO), (60, DEMO), (200, DEMO), (80, YARN_DYNAMIC), (80, TRUTH[1])):
        yield Command(f"replay {log}", env=(("COLUMNS", str(wide)),))
    yield Command(f"replay {DEMO}", env=(("PYTHONIOENCODING", "ascii"),))
    yield Command(f"replay {DEMO}", env=(("FORCE_COLOR", "1"), ("NO_COLOR", ""), ("TERM", "xterm")))
    yield Command("replay - --json", stdin="made/demo.log")
    yield Command("replay -", stdin="made/demo.log.gz")
    yield Command("replay -", stdin="made/text.log")
    yield Command("replay -")
    for log in (*BROKEN.split(), *ODD.split()):
        yield Command(f"replay {log}")
    for log in ODD.split()[:5]:
        yield Command(f"replay {log} --json --strict")
    for log in (YARN_DYNAMIC, YARN_JOIN, KUBERNETES, TRUTH[0]):
        few = f"--conf {DA}.maxExecutors=3 --conf {DA}.initialExecutors=1 --conf {DA}.minExecutors=0"
        yield Command(f"replay {log} {few} --all")
        yield Command(f"replay {log} --conf {DA}.enabled=true --conf {DA}.executorIdleTimeout=2s --json")


# ------------------------------------------------------------------------------------------------- recordings and after

DYNAMIC: Final = (
    f"--conf {DA}.enabled=true --conf {DA}.executorIdleTimeout=10s --conf spark.executor.maxNumFailures=1000"
)
YARN_SERVICE: Final = (
    f"--conf spark.shuffle.service.enabled=true --conf spark.executor.cores=2 --conf {DA}.executorIdleTimeout=10s "
    "--conf spark.executor.maxNumFailures=1000 --conf spark.yarn.executor.launch.excludeOnFailure.enabled=true "
    "--conf spark.excludeOnFailure.application.maxFailedExecutorsPerNode=0 --conf spark.excludeOnFailure.timeout=20s"
)
CLAIM: Final = " ".join(
    f"--conf {K8S}.executor.volumes.persistentVolumeClaim.data.{part}"
    for part in ("mount.path=/data", "options.claimName=OnDemand", "options.storageClass=gp3", "options.sizeLimit=1Gi")
)
RECORDED: Final = {
    "pods": (
        "--targets 0:12,60:20 --cluster demo/spot-cluster.yaml --until 5m "
        f"--conf {K8S}.allocation.batch.size=5 --conf spark.executor.maxNumFailures=100"
    ),
    "dynamic": (
        "--cluster demo/spot-cluster.yaml --workload demo/workload.yaml "
        f"--conf spark.executor.cores=4 --conf {DA}.maxExecutors=40"
    ),
    "storm": f"--cluster made/storm.yaml --workload made/jobs.yaml --until 10m {DYNAMIC}",
    "decommission": (
        f"--cluster made/storm.yaml --workload made/jobs.yaml --until 6m {DYNAMIC} --fix all --seed 3 "
        "--conf spark.decommission.enabled=true --conf spark.storage.decommission.enabled=true"
    ),
    "claims": (
        f"--cluster made/storm.yaml --targets 0:10,60:4,120:12 --until 4m {CLAIM} "
        "--conf spark.executor.maxNumFailures=1000 "
        f"--conf {K8S}.driver.ownPersistentVolumeClaim=true --conf {K8S}.driver.reusePersistentVolumeClaim=true "
        f"--conf {K8S}.driver.waitToReusePersistentVolumeClaim=true"
    ),
    "set": f"--targets 0:4,60:9,120:2 --until 4m --conf {K8S}.allocation.pods.allocator=statefulset",
    "near": (
        "--cluster demo/yarn-cluster.yaml --workload demo/near-workload.yaml --conf spark.executor.cores=2 "
        f"--conf {DA}.executorIdleTimeout=10s"
    ),
    "yarn-storm": f"--cluster made/yarn-storm.yaml --workload made/near.yaml {YARN_SERVICE}",
    "masters": "--cluster made/yarn-masters.yaml --targets 0:5,90:12 --until 5m",
}
"""Simulations that are recorded, by the recording's name."""


def recordings() -> Iterator[Command]:
    """The simulations that are recorded; one of them as plain JSON lines, which damaged recordings are made of."""
    for name, simulation in RECORDED.items():
        file = f"{name}.jsonl.zst"
        yield Command(f"simulate {simulation} --record {file}", kept=(Kept(file, file),))
    plain = "plain.jsonl"
    kept = (
        Kept(plain, plain),
        Kept("cut.jsonl", plain, lambda data: data[: len(data) // 2]),
        Kept("cut-early.jsonl", plain, lambda data: data[:40]),
        Kept("header-only.jsonl", plain, lambda data: data[: data.find(b"\n") + 1]),
        Kept("damaged.jsonl", plain, lambda data: _with_line(data, 30, b"{broken\n")),
        Kept("unknown.jsonl", plain, lambda data: _with_line(data, 5, b'{"at_ms":1,"stimuli":[{"stimulus":"No"}]}\n')),
        Kept("missing-line.jsonl", plain, lambda data: _with_line(data, 12, b"")),
        Kept("tampered.jsonl", plain, lambda data: data.replace(b'"target":12', b'"target":13')),
        Kept("strange-names.jsonl", plain, lambda data: data.replace(b'"app_id":"', b'"app_id":"\\u001b[31m')),
    )
    yield Command(f"simulate {RECORDED['pods']} --seed 2 --record {plain} --json", kept=kept)


def _with_line(data: bytes, place: int, line: bytes) -> bytes:
    whole = data.splitlines(keepends=True)
    return b"".join([*whole[:place], line, *whole[place + 1 :]])


def replays_of_recordings() -> Iterator[Command]:
    """Every recording decided again: as it is, under another conf, with fixes, checked."""
    for name in RECORDED:
        yield from lines(
            f"replay recorded/{name}.jsonl.zst",
            f"""
            --json
            --check
            --all --decisions decisions.jsonl --spark-log spark.log --spark-log-level debug
            --check --json --conf {K8S}.allocation.batch.size=3 --conf spark.yarn.scheduler.heartbeat.interval-ms=1000
            --conf {K8S}.allocation.batch.size=3 --conf {DA}.executorIdleTimeout=4s
            """,
        )
        yield Command(f"replay recorded/{name}.jsonl.zst")
    yield from lines(
        "replay recorded/pods.jsonl.zst",
        f"""
        --check --json
        --fix all --json
        --check --fix all
        --check --fix none
        --fix SPARK-34519
        --fix SPARK-1
        --check --conf {K8S}.allocation.batch.size=8
        --conf {K8S}.allocation.maxPendingPods=3 --all
        --conf spark.master=yarn
        --conf {K8S}.allocation.batch.size=0
        --conf nonsense
        --spark-version 3.5
        --properties-file made/spark-defaults.conf
        --policy split=made.policies:equally --check
        --policy split=made.policies:equally --json
        --policy split=spark --check
        --policy banana=spark
        --policy split=nowhere
        --policy split=nowhere_at_all:x
        --policy split=math:pi
        --strict
        --no-bounds
        --check --all
        --check --expect recorded/demo.jsonl
        --expect recorded/demo.jsonl
        """,
    )
    for name in ("cut", "cut-early", "header-only", "damaged", "unknown", "missing-line", "tampered", "strange-names"):
        yield Command(f"replay recorded/{name}.jsonl --check")
    for name in ("cut", "tampered", "strange-names"):
        yield Command(f"replay recorded/{name}.jsonl")
        yield Command(f"replay recorded/{name}.jsonl --check --json")
    yield Command("replay - --check", stdin="recorded/plain.jsonl")
    yield Command("replay - --json", stdin="recorded/near.jsonl.zst")
    yield Command("replay recorded/near.jsonl.zst --conf spark.master=k8s://https://x")
    yield Command("replay recorded/pods.jsonl.zst", env=(("COLUMNS", "60"),))
    yield Command("replay recorded/yarn-storm.jsonl.zst", env=(("COLUMNS", "60"),))


def explanations() -> Iterator[Command]:
    """Of every recording a few executors and moments, in words and as documents."""
    for name in RECORDED:
        yield from lines(
            f"explain recorded/{name}.jsonl.zst",
            """
            --executor 1
            --executor 7
            --executor 10 --json
            --at +0.9
            --at 2026-01-01T00:00:40Z
            --at +20 --json
            """,
        )
    yield from lines(
        "explain recorded/pods.jsonl.zst",
        """
        --executor 99999
        --at +9999999
        --at +75.5
        --executor 1 --at +1
        --executor ''
        --executor 1 --policy x
        --executor 1 --policy split=made.policies:equally
        --executor driver
        --at ''
        --at yesterday
        --at 1
        --at 2020-01-01
        --at 2026-01-01T00:00:20
        --at 2026-01-01T01:00:20+01:00
        --at 1767225600000
        """,
    )
    yield Command("explain recorded/pods.jsonl.zst")
    for name in ("cut", "cut-early", "header-only", "damaged", "unknown", "tampered", "strange-names"):
        yield Command(f"explain recorded/{name}.jsonl --executor 7")
    yield Command("explain recorded/cut.jsonl --at +20 --json")
    yield Command("explain recorded/near.jsonl.zst --executor 99999")
    yield Command("explain - --executor 7", stdin="recorded/plain.jsonl")
    yield Command("explain recorded/near.jsonl.zst --executor container_1700000000000_0001_01_000011")
    yield Command("explain made/nowhere.jsonl --executor 1")
    yield Command("explain made/text.log --executor 1")
    yield Command("explain made/demo.log --executor 1")


def fits() -> Iterator[Command]:
    """Of every recording a cluster, and what some of them lead to when they are simulated again."""
    for name in RECORDED:
        file = f"{name}-fitted.yaml"
        yield Command(f"fit recorded/{name}.jsonl.zst --out {file}", kept=(Kept(file, file),))
    yield Command("fit recorded/pods.jsonl.zst")
    yield Command("fit recorded/near.jsonl.zst --out -")
    yield Command("simulate --cluster recorded/pods-fitted.yaml --targets 0:12,60:20 --until 5m --json")
    yield Command(f"simulate --cluster recorded/storm-fitted.yaml --workload made/jobs.yaml --until 5m {DYNAMIC}")
    yield Command(f"simulate --cluster recorded/yarn-storm-fitted.yaml --workload made/near.yaml {YARN_SERVICE} --json")
    yield Command(f"whatif {DEMO} --kubernetes --cluster recorded/pods-fitted.yaml --static 4 --seeds 1 --json")
    yield Command(f"whatif {YARN_DYNAMIC} --cluster recorded/near-fitted.yaml --static 4 --seeds 1 --json")
    yield from lines(
        "fit",
        """
        recorded/pods.jsonl.zst --out no/such/folder/c.yaml
        recorded/pods.jsonl.zst --out made/storm.yaml
        recorded/cut.jsonl
        recorded/damaged.jsonl
        recorded/header-only.jsonl
        made/nowhere.jsonl
        made/empty.log
        made/text.log
        """,
    )


# ------------------------------------------------------------------------------------------------------------- what-ifs


def whatifs(logs: Iterable[str]) -> Iterator[Command]:
    """Every log once as a document with variants."""
    for log in (*logs, LOCAL):
        yield Command(f"whatif {log} --seeds 2 --static 3 --set {DA}.executorIdleTimeout=10s --price {PRICE} --json")


def whatifs_of_samples() -> Iterator[Command]:
    """Reports in words and as pages, every kind of variant on every cluster manager, and what is refused."""
    for log in SMALL_SAMPLE:
        yield Command(f"whatif {log} --seeds 2")
        yield Command(f"whatif {log} --seeds 1 --kubernetes --static 4 --spot-rate 2/h --slow-start 10s --quota 3")
        wide = f"wide:spark.executor.cores=4,{DA}.enabled=true,{DA}.maxExecutors=12"
        spot = f"{PRICE},spot-share=0.7,spot-discount=0.65,currency=EUR"
        yield Command(
            f"whatif {log} --seeds 2 --max-error 5 --variant {wide} --static 2 --price {spot} --report report.html"
        )
    for log in (YARN_DYNAMIC, YARN_OLD, YARN_CLIENT):
        slow = "--set spark.yarn.scheduler.heartbeat.interval-ms=10s --quota 3 --slow-start 10s"
        yield Command(f"whatif {log} --seeds 1 {slow} --static 3 --json")
        yield Command(f"whatif {log} --seeds 1 --cluster made/yarn-calm.yaml --static 3")
    for log in (YARN_DYNAMIC, YARN_OLD):
        yield Command(f"whatif {log} --seeds 1 --cluster demo/yarn-cluster.yaml --static 3 --json --max-error 5")
    for log in (KUBERNETES, DEMO):
        yield Command(f"whatif {log} --seeds 1 --kubernetes --cluster demo/spot-cluster.yaml --static 3 --json")
        yield Command(f"whatif {log} --seeds 1 --kubernetes --cluster made/storm.yaml --static 3")
        yield Command(
            f"whatif {log} --seeds 1 --kubernetes --variant k:static=6,{K8S}.allocation.batch.size=1 --static 6"
        )
    yield from lines(
        f"whatif {DEMO} --seeds 1",
        f"""
        --set {DA}.maxExecutors=10 --static 3 --price {PRICE}
        --set {DA}.maxExecutors=10 --set {DA}.minExecutors= --set {DA}.executorAllocationRatio=0.5
        --variant 'cheap:static=6,fault.spot-rate=0.2/h' --variant a:spark.executor.memory=8g
        --variant 'options:spark.executor.extraJavaOptions=-Da=b\\,c' --json
        --static 1 --static 2 --static 30
        --price made/prices.yaml --static 2 --json
        --conf {DA}.maxExecutors=4 --properties-file made/spark-defaults.conf --json
        --spark-version 3.3
        --max-error 0.1%
        --max-error 0.001 --json
        --report - --static 2
        --report page.html --json --static 2
        --set spark.sql.shuffle.partitions=4
        --set {K8S}.allocation.batch.size=4
        --set {DA}.enabled=false
        --set {DA}.maxExecutor=4
        --set spark.executor.cores=many
        --set {DA}.maxExecutors=0
        --set spark.my.password=hush --set spark.my.password=hush
        --variant w:spark.task.cpus=3
        --variant w
        --static 0
        --spot-rate often
        --slow-start slow
        --quota few
        --price core-hour=cheap
        --price made/nowhere.yaml
        --max-error lots
        --conf spark.executor.cores=x
        --spark-version newest
        --report no/such/folder/page.html
        --report - --json
        --cluster demo/spot-cluster.yaml --static 2
        --cluster made/nowhere.yaml --kubernetes
        --cluster made/bad-cluster.yaml --kubernetes
        --cluster made/bad-syntax.yaml --kubernetes
        --seeds 0
        """,
    )
    for log in (*BROKEN.split()[:7], *ODD.split()[:5]):
        yield Command(f"whatif {log} --seeds 1 --static 2")
    yield Command("whatif - --seeds 1 --json", stdin="made/demo.log")
    yield Command(f"whatif {DEMO} --seeds 1 --static 2", env=(("COLUMNS", "60"),))
    yield Command(f"whatif {DEMO} --seeds 1 --static 2", env=(("PYTHONIOENCODING", "ascii"),))


def tunes() -> Iterator[Command]:
    """Short searches over logs of every cluster manager, other spaces, several runs at once, and what is refused."""
    small = "--processes 1 --seeds 1 --budget 8"
    for log in (DEMO, YARN_DYNAMIC, KUBERNETES, TRUTH[1]):
        yield Command(f"tune {log} {small}")
    for log in SMALL_SAMPLE:
        large = "--processes 1 --seeds 2 --budget 10"
        yield Command(f"tune {log} {large} --price {PRICE} --within 30% --json --report report.html")
    both = "truth/w2/D_b1_i3_min1_max4/run2/log truth/w2/D_b1_i3_min1_max4/run3/log"
    yield Command(f"tune {both} {small} --json --price {PRICE}")
    yield Command(f"tune {both} --processes 2 --seeds 1 --budget 12 --report report.html")
    yield Command(f"tune {both} made/nowhere.log made/text.log {small}")
    yield Command(f"tune {' '.join(TRUTH)} {small} --json")
    yield from lines(
        f"tune {DEMO} {small}",
        f"""
        --space none --space {DA}.executorIdleTimeout=3s,20s,unset --space {DA}.maxExecutors=4,8
        --space made/space.yaml
        --space made/space.yaml --space static=none --json
        --space {DA}.minExecutors=keep --space static=2,4 --seed 7
        --within 100%
        --within -10%
        --worth 60%
        --kubernetes
        --cluster demo/spot-cluster.yaml
        --conf spark.master=k8s://https://x --cluster demo/spot-cluster.yaml
        --conf {DA}.maxExecutors=4 --properties-file made/spark-defaults.conf
        --price {PRICE},currency=EUR
        --spark-version 3.3
        --max-error 0.001
        --within 10
        --worth -1%
        --price core-hour=much
        --space spark.executor.instance=4
        --space {DA}.maxExecutors=many
        --space static=0
        --space none
        --space made/nowhere.yaml
        --space made/bad-syntax.yaml
        --space made/bad-cluster.yaml
        --cluster made/nowhere.yaml
        --spark-version new
        --conf spark.executor.cores=x
        --json --report -
        --report no/such/folder/r.html
        """,
    )
    for log in (*BROKEN.split()[:6], "-", ""):
        yield Command(f"tune {log} {small}")


def diffs() -> Iterator[Command]:
    """Two configs over logs of every cluster manager, gates, sides of every form, and what is refused."""
    once = "--seeds 1 --processes 1"
    for log in SMALL_SAMPLE:
        few = f"{DA}.enabled=true,{DA}.maxExecutors=2,{DA}.initialExecutors=0,{DA}.minExecutors=0"
        yield Command(f"diff {log} {once} --base spark:3.5,{DA}.enabled=true --candidate {few} --json")
    several = f"{DEMO} {YARN_DYNAMIC} {STANDALONE} {TRUTH[0]}"
    yield from lines(
        f"diff {several} --seeds 1",
        f"""
        --processes 2 --candidate static=3 --json
        --processes 1 --candidate static=2 --price {PRICE} --fail-if 'cost>+2%' --fail-if 'any(runtime)>+10%'
        """,
    )
    yield from lines(
        f"diff {DEMO} {once}",
        f"""
        --candidate {DA}.maxExecutors=3
        --candidate made/spark-defaults.conf
        --base made/spark-defaults.conf --candidate made/other.conf
        --base spark:3.3 --candidate spark:4.3
        --candidate spark:4.3,{DA}.maxExecutors=3 --json
        --candidate static=4 --price {PRICE} --fail-if 'cost>+2%'
        --candidate static=4 --fail-if 'runtime>+30s' --json
        --candidate static=1 --fail-if 'any(runtime)>+1m' --fail-if 'waited>=+1h' --fail-if 'peak_executors>+0'
        --candidate static=4 --cluster made/yarn-calm.yaml
        --base spark.master=k8s://x --candidate spark.master=k8s://x,static=4 --cluster demo/spot-cluster.yaml
        --candidate static=4 --max-error 0.001
        --candidate static=4 --max-error 0.001 --skip-bad
        --candidate spark.hadoop.fs.s3a.secret.key=quiet,{DA}.executorIdleTimeout=9s --json
        --candidate {DA}.minExecutors=90
        --candidate {DA}.minExecutors=90 --fail-if 'runtime>+1%'
        --candidate static=4 --fail-if 'cost>+1%'
        --candidate static=4 --fail-if 'cost<+1%'
        --candidate static=4 --fail-if nonsense
        --candidate recorded
        --candidate {DA}.maxExecutors=x
        --candidate {DA}.maxExecutor=4
        --candidate spark:new
        --candidate made/nowhere.conf
        --candidate static=0
        --candidate static=4 --price gold
        --candidate static=4 --cluster made/nowhere.yaml
        --base {DA}.maxExecutors=4,fault.quota=5 --candidate static=4
        """,
    )
    yield Command(f"diff {DEMO} {once}")
    bad = f"{DEMO} made/nowhere.log made/empty.log {once} --candidate static=3"
    yield Command(f"diff {bad}")
    yield Command(f"diff {bad} --skip-bad")
    yield Command(f"diff {bad} --json --fail-if 'runtime>+50%'")
    yield Command(f"diff made/nowhere.log {once} --candidate static=3 --skip-bad")
    yield Command(f"diff {DEMO} - {once} --candidate static=3")
    yield Command(f"diff - {once} --candidate static=3", stdin="made/demo.log")


def fleets() -> Iterator[Command]:
    """Tables over a folder of logs in every form, and what is refused."""
    yield from lines(
        "fleet made/fleet",
        f"""
        --out table.csv --jobs 2
        --out table.parquet --jobs 1 --json --price {PRICE}
        --out table.csv --jobs 1 --json --set {DA}.enabled=true --set {DA}.maxExecutors=2 --static 2 --within 0.5
        --out table.csv --jobs 2 --variant idle:{DA}.executorIdleTimeout=5s --variant small:static=1 --max-error 1
        --out table.parquet --jobs 2 --max-error 0.01 --static 2
        --out table.txt
        --out no/such/folder/table.csv
        --out table.csv --limit soon
        --out table.csv --memory 2k
        --out table.csv --variant x
        --out table.csv --tune quick --static 4
        --out table.csv --spark-conf a=b
        --out table.csv --within lots
        --out table.csv --price gold
        """,
    )
    yield from lines(
        "fleet",
        f"""
        made/fleet/nested --out table.csv --jobs 1 --tune quick --price {PRICE} --fresh --json
        made/fleet/nested --out table.csv --jobs 1 --price made/prices.yaml --again --limit 4m --memory 0 --seeds 2
        'made/fleet/*' --out table.csv --jobs 1 --json --static 2
        'made/fleet/**/event_log_?' made/fleet/EVENT_LOG_1 --out table.csv --jobs 1 --static 2
        made/fleet/EVENT_LOG_1 made/fleet/nested/../EVENT_LOG_1 made/fleet/EVENT_LOG_1 --out table.csv --jobs 1
        made/demo.log made/empty.log made/text.log made/cut.zstd made/two.zip --out table.csv --jobs 1
        made/demo.log made/empty.log made/text.log made/cut.zstd made/two.zip --out table.parquet --jobs 1 --json
        made/only-start.log made/cut.log --out table.csv --jobs 1
        made/malformed.log made/no-end.log made/no-environment.log made/formula.log --out table.csv --jobs 1
        --from made/list.txt --out table.csv --jobs 1
        --out table.csv
        nowhere --out table.csv
        'nothing*' --out table.csv
        made/empty-folder --out table.csv
        --from made/nowhere.txt --out table.csv
        - --from - --out table.csv
        made/fleet
        """,
    )
    yield Command("fleet - --out table.csv --jobs 1", stdin="made/list.txt")


# ---------------------------------------------------------------------------------------------------------- simulations


def simulations() -> Iterator[Command]:
    """Applications against fake clusters of both kinds in every form, and what is refused."""
    yield Command("simulate")
    yield from lines(
        "simulate",
        f"""
        --json
        --targets 0:2
        --targets 0:2 --json
        --targets 0:12,60:20,120s:5,5m:0 --json
        --targets 0:60,40:10,90:200 --until 3m --conf {K8S}.allocation.batch.size=1 \
            --conf {K8S}.allocation.batch.delay=3s --json
        --targets 0:30 --cluster made/steady.yaml
        --targets 0:3 --cluster made/steady.yaml --conf {K8S}.allocation.batch.size=1 --json
        --targets 0:30 --cluster demo/spot-cluster.yaml --seed 1
        --targets 0:30 --cluster demo/spot-cluster.yaml --seed 2 --json
        --targets 0:20 --cluster made/storm.yaml --until 3m --conf spark.executor.maxNumFailures=1000 --fix all --json
        --targets 0:20 --cluster made/storm.yaml --until 3m --fix SPARK-34519 --fix SPARK-52589
        --targets 0:20 --cluster made/storm.yaml --until 3m --fix excess-running --fix SPARK-58446 --seed 9 --json
        --targets 0:4 --cluster made/crash.yaml --conf spark.executor.maxNumFailures=5
        --targets 0:4 --cluster made/crash.yaml --conf spark.executor.maxNumFailures=5 --json
        --targets 0:4 --conf {K8S}.allocation.pods.allocator=deployment
        --targets 0:2,30:3 --conf {K8S}.allocation.pods.allocator=statefulset --json
        --targets 0:9 --conf {K8S}.allocation.pods.allocator=recovery --json
        --targets 0:12,60:3 --until 2m {CLAIM} --json
        --targets 0:9,40:2 --conf {K8S}.allocation.maxPendingPods=3 --spark-log -
        --targets 0:9,40:2 --conf {K8S}.allocation.batch.size=2 --spark-log spark.log --json
        --targets 0:5 --conf spark.plugins=org.apache.spark.scheduler.cluster.k8s.ExecutorRollPlugin \
            --conf {K8S}.executor.rollInterval=60s --conf spark.decommission.enabled=true --until 5m
        --targets 0:1 --conf spark.plugins=org.apache.spark.scheduler.cluster.k8s.ExecutorRollPlugin \
            --conf {K8S}.executor.rollInterval=60s
        --targets 0:1 --conf spark.plugins=org.apache.spark.scheduler.cluster.k8s.ExecutorResizePlugin --until 3m
        --targets 0:1,100:2 --until 50s
        --targets 0:500 --until 30s
        --targets 0:1 --until 20s --record -
        --targets 0:1 --conf {DA}.enabled=true
        --conf spark.executor.instances=3
        --conf spark.executor.instances=3 --until 0
        --conf spark.my.password=hunter2 --json --until 1s
        --properties-file made/spark-defaults.conf --conf spark.executor.instances=1 --json
        --workload demo/workload.yaml
        --workload demo/workload.yaml --until 90s --fix all
        --workload demo/workload.yaml --cluster demo/spot-cluster.yaml --until 2m --json
        --workload made/jobs.yaml {DYNAMIC} --json --until 3m
        --workload made/jobs.yaml {DYNAMIC} --seed 4 --conf spark.decommission.enabled=true --cluster made/steady.yaml
        --workload made/targets.yaml --until 4m
        --workload made/targets.yaml --until 4m --json --conf spark.master=yarn
        --workload demo/near-workload.yaml --cluster demo/yarn-cluster.yaml --conf spark.executor.cores=2 --seed 8
        --workload demo/workload.yaml --cluster demo/yarn-cluster.yaml --conf {DA}.enabled=true --until 8m --json \
            --conf spark.decommission.enabled=true
        --workload made/near.yaml --cluster made/yarn-calm.yaml {YARN_SERVICE} --spark-log spark.log --json
        --workload made/near.yaml --cluster made/yarn-storm.yaml {YARN_SERVICE} --seed 7 --json
        --targets 0:5,60:8 --conf spark.master=yarn
        --targets 0:5,60:8 --conf spark.master=yarn-client --json
        --conf spark.master=yarn --conf spark.executor.instances=4 --json
        --cluster made/yarn-masters.yaml --targets 0:5
        --cluster made/yarn-deaths.yaml --targets 0:5 --conf spark.executor.maxNumFailures=4
        --cluster made/yarn-deaths.yaml --targets 0:5 --conf spark.executor.maxNumFailures=4 --json
        --cluster made/yarn-mistakes.yaml --targets 0:10,60:50,300:0 --until 10m
        --cluster made/yarn-mistakes.yaml --targets 0:10,60:50,300:0 --until 10m --json
        --cluster made/yarn-fatal.yaml --targets 0:5
        --conf spark.master=yarn --targets 0:1 --fix SPARK-34519
        --targets 0:1 --conf spark.master=local[2] --until 30s --json
        --targets 0:a
        --targets 0:5,9
        --targets ''
        --targets 60:5,30:2
        --targets 0:99999999999
        --cluster made/nowhere.yaml
        --cluster made/bad-cluster.yaml
        --cluster made/bad-syntax.yaml
        --cluster made/bad-yarn.yaml
        --cluster made/empty.log --until 10s
        --workload made/nowhere.yaml
        --workload made/bad-workload.yaml
        --workload made/circle.yaml
        --workload made/bad-syntax.yaml
        --conf oops
        --conf {K8S}.allocation.batch.size=0
        --conf {K8S}.allocation.batch.size=x --conf {K8S}.allocation.batch.delay=soon
        --conf {K8S}.allocation.pods.allocator=com.example.Mine
        --properties-file made/nowhere.conf
        --fix SPARK-1
        --until soon
        --until 99999999d
        --seed -1
        --targets 0:1 --workload demo/workload.yaml
        --json --record -
        --json --spark-log -
        --record a --spark-log ./a
        --record no/such/folder/r
        --record r.gz
        --record made/demo.log
        --spark-log no/such/folder/l
        --cluster made/yarn-calm.yaml --conf spark.master=k8s://https://x
        --cluster made/steady.yaml --conf spark.master=yarn
        --cluster made/yarn-calm.yaml --conf spark.yarn.scheduler.heartbeat.interval-ms=soon
        extra
        """,
    )
    for wide in ("40", "200"):
        yield Command("simulate --targets 0:30 --cluster demo/spot-cluster.yaml", env=(("COLUMNS", wide),))
    yield Command("simulate --targets 0:30,60:2", env=(("PYTHONIOENCODING", "ascii"),))


# --------------------------------------------------------------------------------------------------- conf, pods, checks


def confs() -> Iterator[Command]:
    """Configurations of every cluster manager and version, right ones and wrong ones, in lines and as documents."""
    on = f"--conf {DA}.enabled=true --conf spark.master=k8s://https://api"
    yarn = "--conf spark.master=yarn"
    yield Command("conf")
    yield from lines(
        "conf",
        f"""
        --all
        {on} --conf {DA}.maxExecutors=40
        {on} --conf {DA}.minExecutors=2 --conf spark.executor.instances=5
        {on} --conf {DA}.maxExecutors=0
        {on} --conf {DA}.maxExecutors=4 --conf spark.executor.instances=9
        {on} --conf oops --conf {DA}.minExecutors=x --conf spark.executor.heartbeatInterval=1.5s \
            --conf {DA}.executorAllocationRatio=3
        {on} --conf {DA}.maxExecutor=40 --conf hadoop.x=1
        {on} --conf spark.my.own=1 --conf {DA}.schedulerBacklogTimeout=5 --all
        {on} --properties-file made/spark-defaults.conf --conf {DA}.maxExecutors=40
        --properties-file made/spark-defaults.conf
        --properties-file made/bad.conf
        --properties-file made/nowhere.conf
        --properties-file made
        --all --spark-version 2.4
        --all --spark-version 3.5.1 --conf spark.shuffle.service.enabled=true
        --spark-version 3.3.0-amzn-0 {on}
        --spark-version 4.0.0 {on} --all
        --spark-version latest
        --conf {DA}.maxExecutors=0
        --conf {DA}.maxExecutors=x
        --all --conf spark.my.password=hunter2 --conf 'spark.my.url=jdbc:x?password=hunter2' \
            --conf 'spark.executor.extraJavaOptions=-Da=${{spark.my.password}}'
        --conf spark.my.password=hunter2 --conf 'spark.executor.cores=${{spark.my.password}}'
        {yarn}
        {yarn} --conf spark.executor.memory=8g --conf spark.executor.cores=4 --conf {DA}.enabled=true \
            --conf spark.shuffle.service.enabled=true
        {yarn} --conf {K8S}.namespace=x
        {yarn} --conf spark.yarn.executor.resource.memory.amount=4g
        {yarn} --conf spark.yarn.scheduler.heartbeat.interval-ms=soon
        --conf spark.master=k8s://x --conf spark.yarn.queue=x
        --conf spark.master=spark://host:7077 --conf spark.executor.memory=512
        --conf spark.executor.memory=lots --conf spark.executor.cores=0
        --conf spark.decommission.enabled=true --conf spark.storage.decommission.enabled=true {on}
        """,
    )
    yield from lines(
        "conf --json",
        f"""
        --all
        {on} --conf {DA}.minExecutors=2 --conf spark.executor.instances=5
        {on} --conf {DA}.maxExecutors=0
        {on} --conf oops --conf {DA}.minExecutors=x --conf {DA}.maxExecutor=40
        {on} --properties-file made/spark-defaults.conf --conf {DA}.maxExecutors=40
        --properties-file made/bad.conf
        --all --spark-version 3.5.1 --conf spark.my.password=hunter2
        --conf spark.my.password=hunter2 --conf 'spark.executor.cores=${{spark.my.password}}'
        {yarn} --conf spark.executor.memory=8g --conf spark.executor.cores=4 --conf {DA}.enabled=true
        {yarn} --conf spark.yarn.executor.resource.memory.amount=4g
        """,
    )
    yield Command("conf extra")


def pods() -> Iterator[Command]:
    """Executor pods of every feature, as YAML and JSON, and what is refused."""
    image = f"--conf {K8S}.container.image=img"
    owned = "--driver drv --driver-uid u-1"
    yield Command(f"pod {image}")
    yield from lines(
        f"pod {image}",
        f"""
        --format json
        --format json --config-map
        --app-id a --conf spark.driver.host=h --conf {K8S}.executor.podNamePrefix=p
        --properties-file made/spark-defaults.conf --conf spark.executor.cores=2 --executor 7
        {CLAIM} {owned} --claims --config-map --spark-conf-dir made/conf-dir
        {CLAIM} {owned} --claims --config-map --spark-conf-dir made/conf-dir --show-secrets --format json
        {owned} --conf {K8S}.allocation.pods.allocator=statefulset --app-id a --replicas 3
        {owned} --conf {K8S}.allocation.pods.allocator=statefulset --app-id a --replicas 3 {CLAIM}
        {owned} --conf {K8S}.allocation.pods.allocator=deployment --app-id a --replicas 3 --format json
        --conf {K8S}.allocation.pods.allocator=statefulset --app-id a
        --profile-file made/profile.yaml
        --profile-file made/profile.yaml --executor 12 --as-driver --format json
        --profile-file made/bad-profile.yaml
        --profile-file made/bad-syntax.yaml
        --profile-file made/nowhere.yaml
        --template made/template.yaml
        --template made/template.yaml --profile-file made/profile.yaml --format json
        --conf {K8S}.executor.podTemplateFile=made/template.yaml --conf {K8S}.executor.podTemplateContainerName=other
        --template made/bad-template.yaml
        --template made/nowhere.yaml
        --template hdfs://x/y
        --template made/text.log
        --as-driver
        --as-driver --conf spark.decommission.enabled=true --conf {K8S}.executor.label.team=a \
            --conf {K8S}.executor.annotation.note=b
        --conf spark.executorEnv.MY_TOKEN=hush --conf spark.authenticate=true --conf spark.authenticate.secret=hush
        --conf spark.executorEnv.MY_TOKEN=hush --conf spark.authenticate=true --conf spark.authenticate.secret=hush \
            --show-secrets
        --conf {K8S}.executor.secrets.s=/etc/s --conf {K8S}.executor.secretKeyRef.ENV=name:key \
            --conf {K8S}.executor.secretKeyRef.A=b:c
        --conf {K8S}.executor.request.cores=500m --conf {K8S}.executor.limit.cores=2 \
            --conf spark.executor.memory=3g --conf spark.executor.memoryOverhead=1g
        --conf spark.executor.resource.gpu.amount=2 --conf spark.executor.resource.gpu.vendor=nvidia.com \
            --conf spark.task.resource.gpu.amount=1
        --conf {K8S}.node.selector.disk=ssd --conf {K8S}.executor.node.selector.zone=a \
            --conf {K8S}.executor.scheduler.name=volcano
        --conf {K8S}.authenticate.executor.serviceAccountName=sa --conf {K8S}.container.image.pullSecrets=one,two \
            --conf {K8S}.executor.hostNetwork.enabled=true
        --conf spark.local.dir=/a,/b --conf {K8S}.local.dirs.tmpfs=true \
            --conf {K8S}.executor.volumes.hostPath.scratch.mount.path=/s \
            --conf {K8S}.executor.volumes.hostPath.scratch.options.path=/host
        --conf {K8S}.executor.volumes.emptyDir.spark-local-dir-1.mount.path=/fast \
            --conf {K8S}.executor.volumes.nfs.n.mount.path=/n \
            --conf {K8S}.executor.volumes.nfs.n.options.server=srv \
            --conf {K8S}.executor.volumes.nfs.n.options.path=/e
        --conf {K8S}.hadoop.configMapName=h --conf {K8S}.executor.hadoopConfigMapName=h \
            --conf spark.pyspark.python=python3 --conf spark.executor.pyspark.memory=1g
        --conf {K8S}.executor.disableConfigMap=true
        --conf {K8S}.executor.pod.excludedFeatureSteps=org.apache.spark.deploy.k8s.features.LocalDirsFeatureStep
        --conf spark.executor.extraJavaOptions='-Dpassword=hush -Xss1m' --conf spark.executor.extraClassPath=/x.jar
        --conf {K8S}.executor.volumes.persistentVolumeClaim.data.mount.path=/data
        --conf {K8S}.executor.request.cores=two
        --conf {K8S}.executor.pod.featureSteps=a.B
        --conf {K8S}.executor.secretKeyRef.PASSWORD=hush
        --conf spark.blockManager.port=80 --conf spark.executor.memory=lots
        --conf nonsense
        --conf spark.master=yarn
        --driver d
        --executor 'a b'
        --properties-file made/nowhere.conf
        --spark-conf-dir made/nowhere
        --config-map --spark-conf-dir made/conf-dir --config-map-name mine --local-dir-id 1-2-3 --spark-user me
        --dry-run server --kubeconfig made/nowhere.yaml
        --dry-run server --kubeconfig made/kubeconfig-broken.yaml
        --dry-run server --kubeconfig made/kubeconfig-nobody.yaml
        """,
    )
    yield Command("pod")


def conforms() -> Iterator[Command]:
    """The scenarios that real Spark has answered, the shared ones and the project's, and what is none."""
    folders = ("backend", "eam", "lifecycle", "pods", "pods-pvc", "poll", "quirks", "scale", "store", "yarn")
    for folder in folders:
        yield Command(f"conform spark/{folder}")
    yield from lines(
        "conform",
        """
        spark/podstates.jsonl.gz
        scenarios
        scenarios/yarn
        scenarios/lifecycle
        spark/poll spark/backend/be-stop.jsonl.gz
        spark/backend/be-stop.jsonl.gz spark/backend/be-oom.jsonl.gz scenarios/dynamic-selection-011.jsonl.gz
        made/diverging
        made/diverging/be-kill.jsonl made/diverging/po-plain.jsonl
        made/empty-folder
        made/nowhere
        made/text.log
        made/demo.log
        made/damaged.gz
        """,
    )
    yield Command("conform")


def live() -> Iterator[Command]:
    """What ``run`` and ``stop`` refuse before, or when, they talk to a cluster that is not there."""
    base = "--app-id app-1 --namespace jobs"
    nobody = "--kubeconfig made/kubeconfig-nobody.yaml"
    yield Command("run")
    yield from lines(
        "run",
        f"""
        --app-id 'no label!'
        --app-id a --namespace Up
        {base} --mode act
        {base} --target 3 --lines
        {base} --target -1
        {base} --on-exit delete
        {base} --mode act --target 1 --lease 1s
        {base} --lease soon
        {base} --record -
        {base} --workers 0
        {base} --fix world-peace --kubeconfig made/nowhere.yaml
        {base} --conf nonsense --kubeconfig made/nowhere.yaml
        {base} --properties-file made/nowhere.conf --kubeconfig made/nowhere.yaml
        {base} --schedule soon:5 --kubeconfig made/nowhere.yaml
        {base} --schedule made/bad-syntax.yaml --kubeconfig made/nowhere.yaml
        {base} --kubeconfig made/nowhere.yaml
        {base} --kubeconfig made/kubeconfig-broken.yaml
        {base} --kubeconfig made/text.log
        {base} {nobody} --context other
        {base} {nobody} --record no/such/folder/r.jsonl
        {base} --conf spark.master=yarn
        {base} --driver ftp://x
        {base} --driver http://x --driver-auth NOT_SET_AT_ALL
        {base} {nobody} --mode act --target 1
        """,
    )
    yield Command("stop")
    yield from lines(
        "stop",
        f"""
        --app-id 'no label!'
        --app-id a --kinds dragons
        --app-id a --timeout soon
        --app-id a --kubeconfig made/nowhere.yaml
        --app-id a --kubeconfig made/kubeconfig-broken.yaml
        --app-id a --namespace Up {nobody}
        --app-id a --namespace jobs {nobody} --timeout 2s
        """,
    )


COMMANDS: Final = "replay explain whatif tune diff fleet conf simulate fit run stop pod conform"


def helps() -> Iterator[Command]:
    """Every help text, and usage errors of the program itself."""
    yield from lines(
        "",
        """
        --help
        -h
        --version
        nonsense
        --nonsense
        """,
    )
    yield Command("")
    for name in COMMANDS.split():
        yield Command(f"{name} --help")
        yield Command(f"{name} --nonsense")


# ----------------------------------------------------------------------------------------------------- inputs made here

TEXTS: Final = {
    "text.log": "hello\nthis is no log\n",
    "other.json": '{"a": 1}\n{"b": [2, 3]}\n',
    "only-start.log": '{"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"}\n',
    "expected.jsonl": """
{"podtide": 1, "kind": "decisions"}
{"command": "requestTotalExecutors", "targets": {"0": 1}}
{"targets": {"0": 3}}
""",
    "list.txt": "made/fleet/EVENT_LOG_1\nmade/fleet/nested/event_log_0\nmade/nowhere.log\n\nmade/fleet/EVENT_LOG_1\n",
    "policies.py": "def equally(consumers, slots):\n    return [1] * len(consumers)\n",
    "spark-defaults.conf": (
        f"# of the corpus\n{DA}.maxExecutors 4\n{DA}.minExecutors=1\nspark.executor.instances 2\n"
        f"{K8S}.allocation.batch.size 2\nspark.executor.cores 2\nspark.app.id app-1\nother 1\nspark.my.password hush\n"
    ),
    "other.conf": f"{DA}.maxExecutors 3\nspark.executor.cores 1\n",
    "bad.conf": f"{DA}.minExecutors many\n{DA}.maxExecutor 4\nspark.executor.cores = x\nspark.executor.memory\n",
    "prices.yaml": "core-hour: 0.05\ngb-hour: 0.006\nspot-share: 0.5\nspot-discount: 0.6\ncurrency: CHF\n",
    "space.yaml": f"""
defaults: false
static: [2, 6]
{DA}.maxExecutors: [4, 8]
{DA}.executorIdleTimeout: [5s, null]
{DA}.minExecutors: keep
""",
    "profile.yaml": "id: 3\nexecutor:\n  cores: 4\n  memory: 8g\n  gpu: {amount: 1, vendor: nvidia.com}\n",
    "bad-profile.yaml": "id: 3\nexecutor:\n  memory: lots\n",
    "bad-syntax.yaml": "a: [1, 2\nb: }\n",
    "bad-cluster.yaml": "api:\n  latency: 8ms\n  latencies: 9ms\n",
    "bad-yarn.yaml": "kind: yarn\nqueue:\n  memory: a lot\n",
    "bad-workload.yaml": "jobs:\n  load:\n    stages:\n      read: {tasks: many}\n",
    "circle.yaml": """
jobs:
  load:
    stages:
      a: {tasks: 1, parents: [b]}
      b: {tasks: 1, parents: [a]}
""",
    "template.yaml": """
apiVersion: v1
kind: Pod
metadata: {labels: {team: data}, annotations: {note: 5}}
spec:
  nodName: x
  priorityClassName: low
  tolerations: [{key: spot, operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]
  initContainers: [{name: warm, image: busybox, command: [sh, -c, "true"]}]
  containers:
  - name: main
    env: [{name: PORT, value: 8080}, {name: MY_PASSWORD, value: hush}]
    resources: {requests: {ephemeral-storage: 1Gi}, limits: {cpu: 3}}
    livenessProbe: {exec: {command: ["true"]}}
  - {name: side, image: sidecar}
  volumes: [{name: extra, emptyDir: {sizeLimit: 1Gi}}]
""",
    "bad-template.yaml": "kind: Pod\nspec:\n  containers: 5\n",
    "conf-dir/log4j2.properties": "rootLogger.level = info\npassword=hush\n",
    "conf-dir/metrics.properties": "*.sink.csv.period=1\n",
    "conf-dir/spark-env.sh.template": "# left out\n",
    "kubeconfig-broken.yaml": "clusters: [{name: c, cluster: {server: 5}}]\n",
    "kubeconfig-nobody.yaml": """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]
users: [{name: u, user: {token: secret-token}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
""",
    "steady.yaml": """
nodes:
  groups:
    - {name: w, count: 10, cpu: 4, image-present: true}
stages:
  schedule: {delay: 1s}
  pulled: {delay: 1s}
  start: {delay: 1s}
  register: {delay: 2s}
executors: {rpc: 0s}
api: {latency: 100ms}
watch: {delay: 300ms}
""",
    "crash.yaml": "stages:\n  crash: {from: running, next: failed, weight: 1000, exits: {9: 1}}\n",
    "storm.yaml": """
seed: 7
nodes:
  groups:
    - {name: base, count: 3, cpu: 16, memory: 64Gi}
    - {name: spot, count: 1, maximum: 20, cpu: 8, memory: 32Gi, arrives: {median: 20s, p90: 40s},
       interruptions-per-hour: 12, notice: 20s}
  events:
    - {at: 2m, what: drain, group: base}
    - {at: 3m, what: take back, group: spot, count: 1}
    - {at: 4m, what: crash, group: base}
executors:
  cpu: 2
  memory: 4Gi
  decommission: true
stages:
  pull: {delay: {median: 5s, p90: 12s}}
  crash: {from: running, next: failed, weight: 0.1, delay: {from: 1s, to: 20s}, exits: {1: 9, 52: 1}}
  oom: {from: registered, next: failed, per-hour: 4, exits: {137: 1}, reason: OOMKilled}
  no-image: {from: scheduled, next: hung, weight: 0.02, reason: ImagePullBackOff}
  stick: {from: terminating, next: stuck, weight: 0.02}
api:
  latency: {median: 10ms, p90: 40ms}
  quota: 30
  stale: 0.05
  faults:
    - {status: 429, probability: 0.3, verbs: [create], retry-after: 1s, during: {from: 10s, until: 40s}}
    - {status: 409, probability: 0.02, verbs: [create], resources: [pods]}
    - {lost: answer, probability: 0.01}
watch:
  delay: {median: 20ms, p90: 100ms}
  loss: 0.01
  duplicates: 0.01
  reordered: 0.01
  breaks-per-hour: 20
  broken: {mean: 5s}
  expired: 0.1
  relists: true
""",
    "jobs.yaml": """
outputs: migrated
clean: 3m
profiles:
  1: {executor: {cores: 2}, task: {cpus: 2}}
jobs:
  load:
    start: 5s
    stages:
      read: {tasks: 80, duration: {median: 4s, p90: 12s}, failure: 0.01, cached: {storage: disk, until: report}}
      write: {tasks: 20, duration: 3s, parents: [read], writes-shuffle: true}
  report:
    after: [load]
    think: {mean: 15s}
    times: 3
    stages:
      sum: {tasks: 10, duration: 3s, parents: [load.write], profile: 1}
""",
    "targets.yaml": "targets:\n  0s: {0: 2, 1: 3}\n  60s: {0: 6}\n  120s: {0: 1, 1: 0}\n",
    "near.yaml": """
outputs: service
jobs:
  load:
    times: 3
    think: 15s
    stages:
      read: {tasks: 60, duration: {median: 10s, p90: 30s}, data: {hosts: [w-1, w-3, w-5], copies: 2}}
      write: {tasks: 10, duration: 5s, parents: [read]}
""",
    "yarn-calm.yaml": """
kind: yarn
nodes:
  groups:
    - {name: w, count: 8, memory: 256Gi, vcores: 64, racks: [/east, /west]}
""",
    "yarn-storm.yaml": """
kind: yarn
seed: 5
nodes:
  groups:
    - {name: w, count: 8, memory: 16Gi, vcores: 8, racks: [/east, /west], lost-per-hour: 4, decommissioned-per-hour: 4}
queue:
  memory: 40Gi
  vcores: 40
  preempts: true
  tenants: [{name: other, memory: 20Gi, vcores: 20, during: {from: 8s, until: 80s}}]
manager:
  faults: [{probability: 0.05}]
  mistakes: {surplus: 0.3, partial: 0.1, repeated: 0.1}
executors:
  launch-faults: [{probability: 0.15}]
  deaths: [{phase: running, per-hour: 120, statuses: {143: 1, -104: 1}}]
""",
    "yarn-masters.yaml": "kind: yarn\nmaster: {restarts: [12s, 60s]}\nexecutors: {start: 10s}\n",
    "yarn-deaths.yaml": "kind: yarn\nexecutors: {deaths: [{phase: starting, share: 1, statuses: {1: 1}}]}\n",
    "yarn-mistakes.yaml": "kind: yarn\nmanager: {mistakes: {surplus: 0.3, small: 0.2, unknown: 0.1}}\n",
    "yarn-fatal.yaml": "kind: yarn\nmanager: {faults: [{fatal: true}]}\n",
}
"""Small inputs by their place under ``made``."""

FLEET: Final = {
    "EVENT_LOG_1": "guozhongxin/EVENT_LOG_1",
    "dynamic.zstd": "rapids-qualification/cluster_information/eventlog_4nodes_8cores_dynamic_alloc.zstd",
    "failures.zstd": "rapids-profiling/rp_sql_eventlog.zstd",
    "local-1430917381535_1": "apache-spark/local-1430917381535_1",
    "nested/event_log_0": "sparklint-test/directory_source/event_log_0",
    "nested/event_log_1": "sparklint-test/directory_source/event_log_1",
    "nested/deeper/state_events": "sparklint-test/file_event_log_test_state_events",
    "nested/deeper/event_log_1": "dr-elephant/event_log_1",
}
"""The logs of a small fleet, by their place under ``made/fleet``, from the public ones."""

SCENARIOS: Final = {"be-kill": "backend", "po-plain": "poll"}
"""Scenarios whose answers are changed, so that they diverge."""


def make_inputs(folder: Path, checkout: Path, shared: Path) -> None:
    """Write everything that stands under ``made``; the same bytes and times each time."""
    for name, text in TEXTS.items():
        write(folder / name, text.lstrip("\n").encode())
    write(folder / "empty.log", b"")
    (folder / "empty-folder").mkdir()
    make_logs(folder, _demo_log(checkout))
    for name, place in FLEET.items():
        write(folder / "fleet" / name, (shared / SHARED_INPUTS["public"] / place).read_bytes())
    write(folder / "fleet" / "notes.md", b"# Not a log\n")
    for name, kind in SCENARIOS.items():
        for ending in ("jsonl", "expect.jsonl"):
            data = gzip.decompress((shared / SHARED_INPUTS["spark"] / kind / f"{name}.{ending}.gz").read_bytes())
            if ending == "expect.jsonl":
                data = _with_line(data, len(data.splitlines()) // 2, b'{"changed": true}\n')
            write(folder / "diverging" / f"{name}.{ending}", data)
    for written in folder.rglob("*"):
        os.utime(written, (MODIFIED_S, MODIFIED_S))


def make_logs(folder: Path, whole: bytes) -> None:
    """Write the demo's log cut, edited and packed."""
    events = whole.splitlines(keepends=True)
    squeezed = zstandard.ZstdCompressor().compress(whole)
    zipped = gzip.compress(whole, mtime=0)
    middle = len(events) // 2
    first, last = b"".join(events[:middle]), b"".join(events[middle:])
    logs = {
        "demo.log": whole,
        "cut.log": whole[: len(whole) // 2],
        "malformed.log": first + b'{"Event": "SparkListenerTask\n[1]\n' + last,
        "no-end.log": b"".join(events[:-1]),
        "no-environment.log": b"".join(event for event in events if b"SparkListenerEnvironmentUpdate" not in event),
        "long-line.log": first + b'{"Event": "X", "a": "' + b"a" * 17_000_000 + b'"}\n' + last,
        "formula.log": whole.replace(b'"App Name":"podtide-demo"', b'"App Name":"=HYPERLINK(\\"x\\")\\u001b[2J"'),
        "cut.zstd": squeezed[: len(squeezed) // 2],
        "demo.log.gz": zipped,
        "damaged.gz": zipped[: len(zipped) // 2] + b"damaged" + zipped[len(zipped) // 2 + 7 :],
        "one/app-1": whole,
        "several/app-1": whole,
        "several/app-2": whole,
        "several.txt": b"\n".join(events[:2]).replace(b"{", b"(") * 3,
        "demo.zip": _zip({"app-1": whole}),
        "two.zip": _zip({"app-1": whole, "app-2": b"".join(events[:-1])}),
    }
    for name, data in logs.items():
        write(folder / name, data)


def _demo_log(checkout: Path) -> bytes:
    (packed,) = (checkout / CHECKOUT_INPUTS["demo"]).glob("eventlog_v2_*/events_1_*.zstd")
    return _unpacked(packed.read_bytes())


def _unpacked(data: bytes) -> bytes:
    """What zstd data holds, also where they end early."""
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        return reader.read()


def _zip(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()


def digest(folder: Path) -> dict[str, str]:
    """The files of a folder, each with a digest of what it holds; without what Python compiles."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def write(place: Path, data: bytes) -> None:
    """Write a file and the folders that lead to it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)


# ------------------------------------------------------------------------------------------------------------ recording


@dataclass(frozen=True)
class Surroundings:
    """Where a record is made: the checkout, the shared material, a temporary folder, and where outputs go."""

    checkout: Path
    shared: Path
    work: Path
    out: Path

    def links(self) -> dict[str, Path]:
        """What every command finds in its folder."""
        return {
            **{name: self.checkout / place for name, place in CHECKOUT_INPUTS.items()},
            **{name: self.shared / place for name, place in SHARED_INPUTS.items()},
            **{name: self.work / name for name in ("made", "recorded")},
        }


def record(where: Surroundings, commands: Sequence[Command], jobs: int) -> None:
    """Run the commands, those first that others need, and store what they print and write."""
    for name in ("made", "recorded"):
        (where.work / name).mkdir()
    make_inputs(where.work / "made", where.checkout, where.shared)
    inputs = digest(where.work / "made")
    begun, taken = time.monotonic(), list[tuple[float, str]]()
    with ThreadPoolExecutor(jobs) as pool:
        for wave in waves(commands):
            for command, seconds in zip(wave, pool.map(lambda one: run(one, where), wave), strict=True):
                taken.append((seconds, command.described))
                if len(taken) % 50 == 0:
                    so_far = time.monotonic() - begun
                    print(f"{len(taken)} of {len(commands)} commands, {so_far:.0f} s", file=sys.stderr)
    assert digest(where.work / "made") == inputs, "a command changed the inputs of the others"
    print(f"{len(taken)} commands in {time.monotonic() - begun:.0f} s; those that took longest:", file=sys.stderr)
    for seconds, line in sorted(taken, reverse=True)[:8]:
        print(f"{seconds:6.1f} s  {line[:110]}", file=sys.stderr)


def waves(commands: Sequence[Command]) -> Iterator[list[Command]]:
    """The commands in groups, each of which needs only what those before it wrote."""
    ready, left = set[str](), list(commands)
    while left:
        wave = [command for command in left if command.needs <= ready]
        assert wave, f"nothing writes what these read: {[command.line for command in left]}"
        yield wave
        ready |= {kept.name for command in wave for kept in command.kept}
        left = [command for command in left if command not in wave]


def chosen(commands: Sequence[Command], part: str) -> list[Command]:
    """The commands whose line or name has this part, and those that write what they need."""
    writers = {kept.name: command for command in commands for kept in command.kept}
    wanted = {command for command in commands if part in command.described or part in command.name}
    while missing := {writers[name] for command in wanted for name in command.needs} - wanted:
        wanted |= missing
    return [command for command in commands if command in wanted]


def run(command: Command, where: Surroundings) -> float:
    """Run a command in a folder of its own and store everything; how long it took, in seconds."""
    folder = where.work / "at" / command.name
    folder.mkdir(parents=True)
    links = where.links()
    for name, target in links.items():
        (folder / name).symlink_to(target)
    program = [str(where.checkout / ".venv" / "bin" / "podtide"), *shlex.split(command.line)]
    variables = {**environment(where.checkout, folder), **dict(command.env)}
    given = folder / command.stdin
    begun = time.monotonic()
    # A file is missing where the command that should have written it failed; then both differ, and the record goes on.
    with (given if given.is_file() else Path(os.devnull)).open("rb") as stdin:
        try:
            ended = subprocess.run(
                program, stdin=stdin, capture_output=True, cwd=folder, env=variables, timeout=TIMEOUT_S, check=False
            )
            parts = {"stdout": ended.stdout, "stderr": ended.stderr, "exit": f"{ended.returncode}\n".encode()}
        except subprocess.TimeoutExpired:
            parts = {"exit": f"not over after {TIMEOUT_S} s\n".encode()}
    seconds = time.monotonic() - begun
    for kept in command.kept:
        if (folder / kept.file).is_file():
            (where.work / "recorded" / kept.name).write_bytes(kept.change((folder / kept.file).read_bytes()))
    written = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    for name, path in written.items():
        if name.partition("/")[0] not in links:
            stored, data = shown(name, path.read_bytes())
            parts[f"files/{stored}"] = data
    places = {folder: "$HERE", where.work: "$WORK", where.checkout: "$CHECKOUT", where.shared: "$SHARED"}
    write(where.out / command.name / "command", f"{command.described}\n".encode())
    for part, data in parts.items():
        write(where.out / command.name / part, normalised(command, part, data, places))
    shutil.rmtree(folder)
    return seconds


def shown(name: str, data: bytes) -> tuple[str, bytes]:
    """A written file as it is stored: its name and what it holds, without compression."""
    if data.startswith(zstandard.FRAME_HEADER):
        return f"{name}.unpacked", _unpacked(data)
    if data.startswith(b"PAR1"):
        return f"{name}.rows", parquet_rows(data)
    return name, data


def parquet_rows(data: bytes) -> bytes:
    """A Parquet table as lines: its columns with their types, then its rows, without what the clock says."""
    import pyarrow  # noqa: PLC0415 - not everybody has it, and few commands need it
    import pyarrow.parquet  # noqa: PLC0415 - the same

    table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
    columns = [f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in table.schema]
    rows = ({**row, "seconds": "$SECONDS"} for row in table.to_pylist())
    return "\n".join([*columns, *(json.dumps(row, default=str) for row in rows), ""]).encode()


def normalised(command: Command, part: str, data: bytes, places: Mapping[Path, str]) -> bytes:
    """An output without places and clock times. The inner places come first."""
    for place, name in places.items():
        data = data.replace(bytes(place), name.encode())
    for rule in NORMALISED:
        if re.match(rule.commands, command.line) and re.fullmatch(rule.parts, part):
            data = re.sub(rule.pattern.encode(), rule.replacement.encode(), data)
    return data


# ------------------------------------------------------------------------------------------------------------ comparing


def compared(before: Path, after: Path, part: str) -> list[str]:
    """The names of the commands of both records whose line or name has this part."""
    lines_of = {
        place.parent.name: place.read_text(encoding="utf-8")
        for folder in (before, after)
        for place in folder.glob("*/command")
    }
    return sorted(name for name, line in lines_of.items() if part in line or part in name)


def compare(before: Path, after: Path, names: Sequence[str]) -> int:
    """Print a line for each of the commands that differs, and a count; how many they are."""
    found = 0
    for name in names:
        if different := difference(before / name, after / name):
            found += 1
            print(f"{name}: {different}")
    print(f"{found} of {len(names)} commands differ" if found else f"{len(names)} commands, no difference")
    return found


def difference(before: Path, after: Path) -> str:
    """What differs between two records of a command, and how it begins; empty if nothing does."""
    for folder in (before, after):
        if not folder.is_dir():
            return f"is not in {folder.parent}"
    parts = sorted({str(path.relative_to(folder)) for folder in (before, after) for path in _files(folder)}, key=_rank)
    told = list[str]()
    for part in parts:
        one, other = (_content(folder / part) for folder in (before, after))
        if one != other:
            told.append(f"{part} {first_difference(one, other)}" if not told else part)
    return "; also ".join([told[0], ", ".join(told[1:])]) if len(told) > 1 else "".join(told)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _rank(part: str) -> tuple[int, str]:
    """What says most comes first."""
    order = ("command", "exit", "stderr", "stdout")
    return (order.index(part) if part in order else len(order), part)


def _content(place: Path) -> bytes | None:
    return place.read_bytes() if place.is_file() else None


def first_difference(one: bytes | None, other: bytes | None, width: int = 100) -> str:
    """The first line that two texts do not share, around the place where it differs."""
    if one is None or other is None:
        return "is new" if one is None else "is missing"
    for number, (mine, yours) in enumerate(zip(one.split(b"\n"), other.split(b"\n"), strict=False), 1):
        if mine != yours:
            differ = (place for place, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b)
            at = next(differ, min(len(mine), len(yours)))
            start = max(0, at - width // 2)
            parts = (line[start : start + width].decode(errors="backslashreplace") for line in (mine, yours))
            return f"line {number}, column {at + 1}: {' -> '.join(map(repr, parts))}"
    shorter = min(one.count(b"\n"), other.count(b"\n"))
    return f"line {shorter + 1}: {'more' if len(other) > len(one) else 'fewer'} lines"


# --------------------------------------------------------------------------------------------------------- command line


def main() -> int:
    """Record or compare; 1 if something differs, 2 if that cannot be done."""
    parser = argparse.ArgumentParser(description="Record what many podtide commands print, and compare two records.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run every command of the corpus and store what comes of it")
    recording.add_argument("--checkout", type=Path, required=True, help="a checkout of podtide with its .venv")
    recording.add_argument("--out", type=Path, required=True, help="the folder to write; new, or empty")
    recording.add_argument("--shared", type=Path, help="the shared material (default: ../shared of the checkout)")
    recording.add_argument("--jobs", type=int, default=2, help="commands side by side (default %(default)s)")
    comparing = commands.add_parser("compare", help="print what differs between two records")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    for one in (recording, comparing):
        one.add_argument("--only", default="", metavar="SUBSTRING", help="commands with this in their line or name")
    given = parser.parse_args()
    if given.command == "compare":
        if absent := [folder for folder in (given.before, given.after) if not folder.is_dir()]:
            parser.error(f"no such folder: {absent[0]}")
        names = compared(given.before, given.after, given.only)
        if not names:
            parser.error("no command to compare")
        return 1 if compare(given.before, given.after, names) else 0
    checkout = given.checkout.resolve()
    shared = (given.shared or checkout.parent / "shared").resolve()
    if not (checkout / ".venv" / "bin" / "podtide").is_file():
        parser.error(f"{checkout} has no .venv/bin/podtide: make .venv/.installed there")
    if not (shared / SHARED_INPUTS["public"]).is_dir():
        parser.error(f"{shared} is not the shared material: give --shared")
    if given.out.exists() and any(given.out.iterdir()):
        parser.error(f"{given.out} is not empty")
    if not (wanted := chosen(corpus(shared), given.only)):
        parser.error(f"no command has {given.only!r} in its line or name")
    with tempfile.TemporaryDirectory(prefix="podtide-corpus-") as work:
        record(Surroundings(checkout, shared, Path(work).resolve(), given.out.resolve()), wanted, given.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
