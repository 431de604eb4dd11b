"""The command lines of the corpus (``scripts/corpus.py``): every command of podtide, in all its ways."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

DA: Final = "spark.dynamicAllocation"
K8S: Final = "spark.kubernetes"
PRICE: Final = "core-hour=0.04,gb-hour=0.005"

CHECKOUT_INPUTS: Final = {"demo": "demo", "scenarios": "tests/conformance/data"}
SHARED_INPUTS: Final = {"public": "data/public", "truth": "data/truth", "spark": "conformance"}
"""Links in a command's folder, and where they lead to in the checkout and in the shared material."""


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
        "--schedule 0:12,60:20 --cluster demo/spot-cluster.yaml --duration 5m "
        f"--conf {K8S}.allocation.batch.size=5 --conf spark.executor.maxNumFailures=100"
    ),
    "dynamic": (
        "--cluster demo/spot-cluster.yaml --workload demo/workload.yaml "
        f"--conf spark.executor.cores=4 --conf {DA}.maxExecutors=40"
    ),
    "storm": f"--cluster made/storm.yaml --workload made/jobs.yaml --duration 10m {DYNAMIC}",
    "decommission": (
        f"--cluster made/storm.yaml --workload made/jobs.yaml --duration 6m {DYNAMIC} --fix all --seed 3 "
        "--conf spark.decommission.enabled=true --conf spark.storage.decommission.enabled=true"
    ),
    "claims": (
        f"--cluster made/storm.yaml --schedule 0:10,60:4,120:12 --duration 4m {CLAIM} "
        "--conf spark.executor.maxNumFailures=1000 "
        f"--conf {K8S}.driver.ownPersistentVolumeClaim=true --conf {K8S}.driver.reusePersistentVolumeClaim=true "
        f"--conf {K8S}.driver.waitToReusePersistentVolumeClaim=true"
    ),
    "set": f"--schedule 0:4,60:9,120:2 --duration 4m --conf {K8S}.allocation.pods.allocator=statefulset",
    "near": (
        "--cluster demo/yarn-cluster.yaml --workload demo/near-workload.yaml --conf spark.executor.cores=2 "
        f"--conf {DA}.executorIdleTimeout=10s"
    ),
    "yarn-storm": f"--cluster made/yarn-storm.yaml --workload made/near.yaml {YARN_SERVICE}",
    "masters": "--cluster made/yarn-masters.yaml --schedule 0:5,90:12 --duration 5m",
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
        Kept("damaged.jsonl", plain, lambda data: with_line(data, 30, b"{broken\n")),
        Kept("unknown.jsonl", plain, lambda data: with_line(data, 5, b'{"at_ms":1,"stimuli":[{"stimulus":"No"}]}\n')),
        Kept("missing-line.jsonl", plain, lambda data: with_line(data, 12, b"")),
        Kept("tampered.jsonl", plain, lambda data: data.replace(b'"target":12', b'"target":13')),
        Kept("strange-names.jsonl", plain, lambda data: data.replace(b'"app_id":"', b'"app_id":"\\u001b[31m')),
    )
    yield Command(f"simulate {RECORDED['pods']} --seed 2 --record {plain} --json", kept=kept)


def with_line(data: bytes, place: int, line: bytes) -> bytes:
    """The lines of a file, with another one in that place."""
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
    yield Command("simulate --cluster recorded/pods-fitted.yaml --schedule 0:12,60:20 --duration 5m --json")
    yield Command(f"simulate --cluster recorded/storm-fitted.yaml --workload made/jobs.yaml --duration 5m {DYNAMIC}")
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
    small = "--jobs 1 --seeds 1 --budget 8"
    for log in (DEMO, YARN_DYNAMIC, KUBERNETES, TRUTH[1]):
        yield Command(f"tune {log} {small}")
    for log in SMALL_SAMPLE:
        large = "--jobs 1 --seeds 2 --budget 10"
        yield Command(f"tune {log} {large} --price {PRICE} --within 30% --json --report report.html")
    both = "truth/w2/D_b1_i3_min1_max4/run2/log truth/w2/D_b1_i3_min1_max4/run3/log"
    yield Command(f"tune {both} {small} --json --price {PRICE}")
    yield Command(f"tune {both} --jobs 2 --seeds 1 --budget 12 --report report.html")
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
    once = "--seeds 1 --jobs 1"
    for log in SMALL_SAMPLE:
        few = f"{DA}.enabled=true,{DA}.maxExecutors=2,{DA}.initialExecutors=0,{DA}.minExecutors=0"
        yield Command(f"diff {log} {once} --base spark:3.5,{DA}.enabled=true --candidate {few} --json")
    several = f"{DEMO} {YARN_DYNAMIC} {STANDALONE} {TRUTH[0]}"
    yield from lines(
        f"diff {several} --seeds 1",
        f"""
        --jobs 2 --candidate static=3 --json
        --jobs 1 --candidate static=2 --price {PRICE} --fail-if 'cost>+2%' --fail-if 'any(runtime)>+10%'
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
        --out table.csv --timeout soon
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
        made/fleet/nested --out table.csv --jobs 1 --price made/prices.yaml --again --timeout 4m --memory 0 --seeds 2
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
        --schedule 0:2
        --schedule 0:2 --json
        --schedule 0:12,60:20,120s:5,5m:0 --json
        --schedule 0:60,40:10,90:200 --duration 3m --conf {K8S}.allocation.batch.size=1 \
            --conf {K8S}.allocation.batch.delay=3s --json
        --schedule 0:30 --cluster made/steady.yaml
        --schedule 0:3 --cluster made/steady.yaml --conf {K8S}.allocation.batch.size=1 --json
        --schedule 0:30 --cluster demo/spot-cluster.yaml --seed 1
        --schedule 0:30 --cluster demo/spot-cluster.yaml --seed 2 --json
        --schedule 0:20 --cluster made/storm.yaml --duration 3m --conf spark.executor.maxNumFailures=1000 --fix all --json
        --schedule 0:20 --cluster made/storm.yaml --duration 3m --fix SPARK-34519 --fix SPARK-52589
        --schedule 0:20 --cluster made/storm.yaml --duration 3m --fix excess-running --fix SPARK-58446 --seed 9 --json
        --schedule 0:4 --cluster made/crash.yaml --conf spark.executor.maxNumFailures=5
        --schedule 0:4 --cluster made/crash.yaml --conf spark.executor.maxNumFailures=5 --json
        --schedule 0:4 --conf {K8S}.allocation.pods.allocator=deployment
        --schedule 0:2,30:3 --conf {K8S}.allocation.pods.allocator=statefulset --json
        --schedule 0:9 --conf {K8S}.allocation.pods.allocator=recovery --json
        --schedule 0:12,60:3 --duration 2m {CLAIM} --json
        --schedule 0:9,40:2 --conf {K8S}.allocation.maxPendingPods=3 --spark-log -
        --schedule 0:9,40:2 --conf {K8S}.allocation.batch.size=2 --spark-log spark.log --json
        --schedule 0:5 --conf spark.plugins=org.apache.spark.scheduler.cluster.k8s.ExecutorRollPlugin \
            --conf {K8S}.executor.rollInterval=60s --conf spark.decommission.enabled=true --duration 5m
        --schedule 0:1 --conf spark.plugins=org.apache.spark.scheduler.cluster.k8s.ExecutorRollPlugin \
            --conf {K8S}.executor.rollInterval=60s
        --schedule 0:1 --conf spark.plugins=org.apache.spark.scheduler.cluster.k8s.ExecutorResizePlugin --duration 3m
        --schedule 0:1,100:2 --duration 50s
        --schedule 0:500 --duration 30s
        --schedule 0:1 --duration 20s --record -
        --schedule 0:1 --conf {DA}.enabled=true
        --conf spark.executor.instances=3
        --conf spark.executor.instances=3 --duration 0
        --conf spark.my.password=hunter2 --json --duration 1s
        --properties-file made/spark-defaults.conf --conf spark.executor.instances=1 --json
        --workload demo/workload.yaml
        --workload demo/workload.yaml --duration 90s --fix all
        --workload demo/workload.yaml --cluster demo/spot-cluster.yaml --duration 2m --json
        --workload made/jobs.yaml {DYNAMIC} --json --duration 3m
        --workload made/jobs.yaml {DYNAMIC} --seed 4 --conf spark.decommission.enabled=true --cluster made/steady.yaml
        --workload made/targets.yaml --duration 4m
        --workload made/targets.yaml --duration 4m --json --conf spark.master=yarn
        --workload demo/near-workload.yaml --cluster demo/yarn-cluster.yaml --conf spark.executor.cores=2 --seed 8
        --workload demo/workload.yaml --cluster demo/yarn-cluster.yaml --conf {DA}.enabled=true --duration 8m --json \
            --conf spark.decommission.enabled=true
        --workload made/near.yaml --cluster made/yarn-calm.yaml {YARN_SERVICE} --spark-log spark.log --json
        --workload made/near.yaml --cluster made/yarn-storm.yaml {YARN_SERVICE} --seed 7 --json
        --schedule 0:5,60:8 --conf spark.master=yarn
        --schedule 0:5,60:8 --conf spark.master=yarn-client --json
        --conf spark.master=yarn --conf spark.executor.instances=4 --json
        --cluster made/yarn-masters.yaml --schedule 0:5
        --cluster made/yarn-deaths.yaml --schedule 0:5 --conf spark.executor.maxNumFailures=4
        --cluster made/yarn-deaths.yaml --schedule 0:5 --conf spark.executor.maxNumFailures=4 --json
        --cluster made/yarn-mistakes.yaml --schedule 0:10,60:50,300:0 --duration 10m
        --cluster made/yarn-mistakes.yaml --schedule 0:10,60:50,300:0 --duration 10m --json
        --cluster made/yarn-fatal.yaml --schedule 0:5
        --conf spark.master=yarn --schedule 0:1 --fix SPARK-34519
        --schedule 0:1 --conf spark.master=local[2] --duration 30s --json
        --schedule 0:a
        --schedule 0:5,9
        --schedule ''
        --schedule 60:5,30:2
        --schedule 0:99999999999
        --cluster made/nowhere.yaml
        --cluster made/bad-cluster.yaml
        --cluster made/bad-syntax.yaml
        --cluster made/bad-yarn.yaml
        --cluster made/empty.log --duration 10s
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
        --duration soon
        --duration 99999999d
        --seed -1
        --schedule 0:1 --workload demo/workload.yaml
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
        yield Command("simulate --schedule 0:30 --cluster demo/spot-cluster.yaml", env=(("COLUMNS", wide),))
    yield Command("simulate --schedule 0:30,60:2", env=(("PYTHONIOENCODING", "ascii"),))


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
    owned = "--driver-pod drv --driver-uid u-1"
    yield Command(f"pod {image}")
    yield from lines(
        f"pod {image}",
        f"""
        --format json
        --format json --config-map
        --app-id a --conf spark.driver.host=h --conf {K8S}.executor.podNamePrefix=p
        --properties-file made/spark-defaults.conf --conf spark.executor.cores=2 --executor 7
        {CLAIM} {owned} --claims --config-map --conf-dir made/conf-dir
        {CLAIM} {owned} --claims --config-map --conf-dir made/conf-dir --show-secrets --format json
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
        --driver-pod d
        --executor 'a b'
        --properties-file made/nowhere.conf
        --conf-dir made/nowhere
        --config-map --conf-dir made/conf-dir --config-map-name mine --local-dir-id 1-2-3 --spark-user me
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
        {base} --api-concurrency 0
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
        {base} --driver-url ftp://x
        {base} --driver-url http://x --driver-auth NOT_SET_AT_ALL
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
