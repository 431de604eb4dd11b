"""``podtide run`` as a process that is told things, killed, frozen and ended; a census of its pods; and its books checked.

What is checked after everything that happens to a run (``Life.agrees``, ``at_rest``, ``gone``):

- the books equal the cluster: the pods by state that the run tells (its metrics while it lives, the last line of its log
  when it has ended) are those of a list;
- no executor id is used twice: the ``Census``, a watch of our own over the whole test, has seen one pod for each id;
- none is doubled: at rest there are exactly as many live pods as wanted;
- nothing is left behind: no pod, no config map, no lease of the application;
- its recording is decided again as it was decided.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pytest

from podtide.adapters.kubernetes.api import Stream, Unreachable
from tests.live.cluster import Cluster
from tests.live.server import free_ports
from tests.live.waiting import until
from tests.support.project import PROJECT

PROGRAM = [sys.executable, "-c", "from podtide.entrypoints.cli import main; main()"]
APP = "life"
PREFIX = "life"
LABEL = "spark-app-selector"
CONF = {
    "spark.kubernetes.container.image": "none",
    "spark.driver.host": "driver",
    "spark.kubernetes.executor.podNamePrefix": PREFIX,
    "spark.kubernetes.allocation.batch.size": "1000",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}
"""No image is run and no driver called; all pods that are missing are asked for at once."""

_METRIC = re.compile(r"^podtide_(pods|target_executors|registered_executors)\{([^}]*)\} ([0-9.e+]+)$", re.MULTILINE)


def environment() -> dict[str, str]:
    """That of a process of the project."""
    return {**os.environ, "PYTHONPATH": str(PROJECT / ".typing"), "COLUMNS": "200"}


def command(*arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
    """Another command of podtide, to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments], env=environment(), capture_output=True, text=True, check=False, timeout=timeout_s
    )


class Life:
    """One ``podtide run --mode act`` for application ``life``: by ``target``, or, without one, by lines (``tell``).

    ``with Life(cluster, namespace, folder, target=50) as run:`` kills it at the end if it still lives.
    ``began``: when it was started, epoch milliseconds.
    """

    numbers = iter(range(1, 10**9))

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        folder: Path,
        *options: str,
        target: int | None = None,
        record: Path | None = None,
        kubeconfig: Path | None = None,
        conf: Mapping[str, str] | None = None,
        app_id: str = APP,
    ) -> None:
        number = next(Life.numbers)
        self.cluster, self.namespace, self.record = cluster, namespace, record
        self.out, self.err = folder / f"out-{number}.jsonl", folder / f"err-{number}.txt"
        self._port = free_ports(1)
        wanted = ("--lines",) if target is None else ("--target", str(target))
        recording = () if record is None else ("--record", str(record))
        settings = [word for key, value in {**CONF, **(conf or {})}.items() for word in ("--conf", f"{key}={value}")]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.began = time.time() * 1000
            self.process = subprocess.Popen(
                [
                    *PROGRAM, "run", "--mode", "act", "--app-id", app_id, "--namespace", namespace,
                    "--kubeconfig", str(kubeconfig or cluster.admin), "--log-format", "json",
                    "--metrics-port", str(self._port), *wanted, *recording, *settings, *options,
                ],
                env=environment(),
                stdin=subprocess.PIPE if target is None else subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if problem is not None:
            print(self.told()[-6000:], self.complaints())  # pytest shows it

    # what is done to it

    def tell(self, line: str) -> None:
        """A line for its standard input."""
        pipe: IO[bytes] | None = self.process.stdin
        assert pipe is not None
        pipe.write(line.encode() + b"\n")
        pipe.flush()

    def kill(self) -> None:
        """``kill -9``."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP, then SIGCONT."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self, timeout_s: float = 120) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended(timeout_s)

    def ended(self, timeout_s: float = 60) -> int:
        """Wait for its end; the exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended within {timeout_s:g} s: {self.told()[-3000:]}") from None

    # what it says

    def told(self) -> str:
        """Its log so far."""
        return self.out.read_text(errors="replace")

    def complaints(self) -> str:
        """Its standard error."""
        return self.err.read_text(errors="replace")[-4000:]

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far, decoded; the last line may be cut off in the middle by a kill."""
        whole = self.told().split("\n")[:-1]
        return [json.loads(line) for line in whole]

    def news(self, topic: str) -> list[str]:
        """What it told about a topic."""
        return [one["text"] for one in self.lines() if one.get("topic") == topic]

    def first_decision_ms(self) -> float | None:
        """From its start to its first decision; None: there was none, or it was killed before it was written."""
        at = [one["at_ms"] for one in self.lines() if one.get("kind") == "decision" or one.get("report") == "target"]
        return min(at) - self.began if at else None

    def status(self) -> dict[str, Any]:
        """The last line about how things stand."""
        return next(one for one in reversed(self.lines()) if one.get("kind") == "status")

    def figures(self) -> dict[str, int]:
        """How things stand now: see ``figures``."""
        return figures(self._port)

    # checks

    def agrees(self, wanted: int, timeout_s: float = 60) -> float:
        """Wait until the cluster has exactly so many running pods and no other, and the books say so; seconds it took."""
        began = time.monotonic()

        expected = {"running": wanted, "target": wanted, "registered": wanted} if wanted else {}
        there: Counter[str] = Counter()
        books: dict[str, int] = {}

        def same() -> bool:
            nonlocal there, books
            assert self.process.poll() is None, f"it has ended: {self.told()[-3000:]}{self.complaints()}"
            books = {state: count for state, count in self.figures().items() if state != "deleted"}
            if books != expected:
                return False
            there = truth(self.cluster, self.namespace)  # a list is dear: only where it may be so
            return dict(there) == ({"running": wanted} if wanted else {})

        try:
            until(same, timeout_s, f"{wanted} running pods, known as such", every_s=0.1)
        except AssertionError as late:
            there = truth(self.cluster, self.namespace)
            raise AssertionError(f"{late}: cluster {dict(there)}, books {books}") from None
        return time.monotonic() - began

    def ended_as_listed(self) -> None:
        """What it said last of the pods is what a list says."""
        said = {state: count for state, count in self.status()["pods"].items() if state != "deleted"}
        assert said == dict(truth(self.cluster, self.namespace)), self.told()[-3000:]


def figures(port: int) -> dict[str, int]:
    """How a run stands, by its metrics: pods by state, ``target``, ``registered``; no zeros. Empty before it serves."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            page = answer.read().decode()
    except OSError:
        return {}
    found: Counter[str] = Counter()
    for name, labels, value in _METRIC.findall(page):
        state = re.search(r'state="([a-z]+)"', labels)
        found[state[1] if name == "pods" and state else name.removesuffix("_executors")] += int(float(value))
    return {state: count for state, count in found.items() if count}


def truth(cluster: Cluster, namespace: str, app_id: str = APP) -> Counter[str]:
    """The application's pods by state, as a list has them."""
    found: Counter[str] = Counter()
    for pod in cluster.pods(namespace, f"{LABEL}={app_id}"):
        deleted = pod["metadata"].get("deletionTimestamp") is not None
        found["terminating" if deleted else pod["status"].get("phase", "Unknown").lower()] += 1
    return found


def names(cluster: Cluster, namespace: str, phase: str = "Running") -> list[str]:
    """Names of the application's pods in a phase that are not being deleted, by executor id."""
    found = [
        (int(pod["metadata"]["labels"]["spark-exec-id"]), str(pod["metadata"]["name"]))
        for pod in cluster.pods(namespace, f"{LABEL}={APP}")
        if pod["status"].get("phase") == phase and "deletionTimestamp" not in pod["metadata"]
    ]
    return [name for _, name in sorted(found)]


def vanish(cluster: Cluster, namespace: str, pods: Iterable[str]) -> None:
    """Delete pods by force: nobody sees them end."""
    for name in pods:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        cluster.call("delete", "pods", path, query=[("gracePeriodSeconds", "0")])


def left(cluster: Cluster, namespace: str, app_id: str = APP) -> list[str]:
    """Everything of an application that is there."""
    found = []
    for kind, base in (
        ("pods", "/api/v1"), ("configmaps", "/api/v1"), ("services", "/api/v1"), ("persistentvolumeclaims", "/api/v1"),
        ("leases", "/apis/coordination.k8s.io/v1"),
    ):  # fmt: skip
        listed = cluster.must("list", kind, f"{base}/namespaces/{namespace}/{kind}")["items"]
        for one in listed:
            name = one["metadata"]["name"]
            ours = (one["metadata"].get("labels") or {}).get(LABEL) == app_id or name == f"podtide-{app_id}"
            if ours or name.startswith("spark-exec-"):
                found.append(f"{kind}/{name}")
    return found


def lease(cluster: Cluster, namespace: str, app_id: str = APP) -> dict[str, Any]:
    """The application's lease."""
    return cluster.must("get", "leases", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/podtide-{app_id}")


def replays(*recordings: Path) -> None:
    """Each recording, and each that was set aside for it, is decided again as it was decided."""
    for recording in (one for place in recordings for one in sorted(place.parent.glob(f"{place.stem}*{place.suffix}"))):
        checked = command("replay", str(recording), "--check")
        assert checked.returncode == 0, f"{recording}: {checked.stdout[-3000:]}{checked.stderr[-3000:]}"


def swept(cluster: Cluster, namespace: str, *options: str) -> None:
    """``podtide stop``, after which nothing is left."""
    stopped = command("stop", "--app-id", APP, "--namespace", namespace, "--kubeconfig", str(cluster.admin), *options)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert left(cluster, namespace) == []


WHOLE = "PODTIDE_LIVE=full does this"


def whole_only(cluster: Cluster) -> None:
    """For tests of rarer things: they run when the whole was asked for."""
    if not cluster.full:
        pytest.skip(WHOLE)


class Census:
    """Every pod of the application that was ever there: a watch of our own, and a list where it broke.

    ``uids``: by executor id, all uids that were seen. ``live``: uids that are there now; ``most``: the most at once
    that were not being deleted and had not ended.
    """

    def __init__(self, cluster: Cluster, namespace: str, app_id: str = APP) -> None:
        self.uids: dict[str, set[str]] = {}
        self.by_name: dict[str, set[str]] = {}
        self.live: dict[str, bool] = {}
        self.most = 0
        self._api = cluster.api()
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = ("labelSelector", f"{LABEL}={app_id}")
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="census", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._began.wait(20)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._stream is not None:
            self._stream.close()
        self._thread.join(20)
        self._api.close()

    @property
    def now(self) -> int:
        """Pods that live."""
        with self._lock:
            return sum(self.live.values())

    @property
    def ids(self) -> int:
        """Executor ids that were seen."""
        with self._lock:
            return len(self.uids)

    @property
    def highest(self) -> int:
        """The highest of them."""
        with self._lock:
            return max(map(int, self.uids), default=0)

    def no_id_twice(self) -> None:
        """One pod for each executor id and for each name, ever."""
        with self._lock:
            twice = {key: uids for table in (self.uids, self.by_name) for key, uids in table.items() if len(uids) > 1}
        assert not twice, f"used twice: {twice}"

    def _watch(self) -> None:
        while not self._ended.is_set():
            with suppress(Unreachable, OSError):
                self._list_and_watch()
            self._ended.wait(0.05)

    def _list_and_watch(self) -> None:
        answer = self._api.call("list", "pods", self._path, query=[self._selector])
        if not answer.ok:
            return
        listed = json.loads(answer.body)
        with self._lock:
            self.live.clear()
        for pod in listed["items"]:
            self._see("ADDED", pod)
        query = [("watch", "1"), ("resourceVersion", listed["metadata"]["resourceVersion"]), self._selector]
        self._stream = stream = self._api.stream("pods", self._path, query=query, silence_s=600)
        self._began.set()
        rest = b""
        try:
            for chunk in stream.chunks():
                *whole, rest = (rest + chunk).split(b"\n")
                for line in filter(None, whole):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    self._see(event["type"], event["object"])
        finally:
            stream.close()

    def _see(self, kind: str, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        with self._lock:
            self.uids.setdefault(metadata["labels"]["spark-exec-id"], set()).add(uid)
            self.by_name.setdefault(metadata["name"], set()).add(uid)
            if kind == "DELETED":
                self.live.pop(uid, None)
                return
            ended = pod["status"].get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in metadata
            self.live[uid] = not ended
            self.most = max(self.most, sum(self.live.values()))


def at_rest(cluster: Cluster, namespace: str, census: Census, recordings: Sequence[Path] = ()) -> None:
    """What holds whenever a run has ended with ``--on-exit delete``."""
    assert left(cluster, namespace) == []
    census.no_id_twice()
    replays(*recordings)


def many(cluster: Cluster) -> int:
    """How many pods are many."""
    return 1_000 if cluster.full else 50


def patience(size: int) -> float:
    """Seconds within which so many pods come or go, on a machine that has other things to do."""
    return 60 + size / 5
