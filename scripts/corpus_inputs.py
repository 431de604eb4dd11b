"""The files that the commands of the corpus read and that no checkout holds (``scripts/corpus.py``)."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import zstandard
from corpus_commands import CHECKOUT_INPUTS, DA, K8S, SHARED_INPUTS, with_line

MODIFIED_S: Final = 1_700_000_000
"""The modification time of every file that is made here: the table of a fleet shows it."""

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
                data = with_line(data, len(data.splitlines()) // 2, b'{"changed": true}\n')
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
    return unpacked(packed.read_bytes())


def unpacked(data: bytes) -> bytes:
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
