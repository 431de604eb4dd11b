"""A program for ``podtide cluster``: what of Spark's Kubernetes backend needs more than executor pods. Prints JSON lines.

One context after the other, with a pod as their driver's pod, by the allocators that the command line names: *direct* with a
pod template, claims and decommissioning, *statefulset*, *deployment*.
"""

import base64
import json
import os
import ssl
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext

LIMIT_S = 100
CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1"
TEMPLATE = """
spec:
  initContainers:
  - name: seed
    image: none
    command: [bash, -c, "echo sown >/seed/word"]
    volumeMounts: [{name: seed, mountPath: /seed}]
  - name: copies
    image: none
    restartPolicy: Always
    command: [bash, -c, "cp /seed/word /seed/copy; while :; do sleep 1; done"]
    volumeMounts: [{name: seed, mountPath: /seed}]
  containers:
  - name: beside
    image: none
    command:
    - bash
    - -c
    - trap 'exit 0' TERM; until [ -e /seed/copy ]; do sleep 0.1; done; echo seen; while :; do sleep 1; done
    volumeMounts: [{name: seed, mountPath: /seed}]
  - name: spark
    image: none
    env: [{name: SEED, value: /seed}, {name: CLAIM, value: /data1}]
    volumeMounts: [{name: seed, mountPath: /seed}]
  volumes: [{name: seed, emptyDir: {}}]
"""


class Api:
    """The cluster that KUBECONFIG names."""

    def __init__(self) -> None:
        document = json.loads(Path(os.environ["KUBECONFIG"]).read_text())
        cluster = document["clusters"][0]["cluster"]
        self.url, self.token = cluster["server"], document["users"][0]["user"]["token"]
        self.tls = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())

    def __call__(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=self.tls, timeout=30) as answer:
            return json.load(answer)

    def executors(self) -> Any:
        return self("GET", "/api/v1/namespaces/default/pods?labelSelector=spark-role%3Dexecutor")["items"]


def until(found: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + LIMIT_S
    while not (answer := found()):
        if time.monotonic() > end:
            raise SystemExit(f"not reached: {what}; {answer}")
        time.sleep(0.1)
    return answer


def registered(context: Any) -> int:
    """Executors, without the driver, which is among them."""
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1


def conf_of(allocator: str, folder: Path) -> SparkConf:
    settings = {
        "spark.kubernetes.allocation.pods.allocator": allocator,
        "spark.kubernetes.driver.pod.name": "driver",
        "spark.kubernetes.allocation.batch.delay": "500ms",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "2",
        "spark.ui.enabled": "false",
    }
    if allocator == "direct":
        template = folder / "template.yml"
        template.write_text(TEMPLATE)
        settings |= {
            "spark.kubernetes.executor.podTemplateFile": str(template),
            "spark.kubernetes.executor.podTemplateContainerName": "spark",
            f"{CLAIM}.options.claimName": "OnDemand",
            f"{CLAIM}.options.storageClass": "standard",
            f"{CLAIM}.options.sizeLimit": "1Gi",
            f"{CLAIM}.mount.path": "/data1",
            "spark.kubernetes.driver.ownPersistentVolumeClaim": "true",
            "spark.kubernetes.driver.reusePersistentVolumeClaim": "true",
            "spark.kubernetes.allocation.executor.timeout": "8s",
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "false",
            "spark.dynamicAllocation.minExecutors": "1",
            "spark.dynamicAllocation.initialExecutors": "2",
            "spark.dynamicAllocation.maxExecutors": "2",
            "spark.dynamicAllocation.executorIdleTimeout": "3s",
            "spark.decommission.enabled": "true",
            "spark.storage.decommission.enabled": "true",
            "spark.storage.decommission.shuffleBlocks.enabled": "true",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": folder.as_uri(),
        }
    return SparkConf().setAll(settings.items())


def seen(folder: str) -> tuple[str, str, tuple[str, ...]]:
    """What an executor sees: the sidecar's copy, the marks in its claim. It leaves one there, and one for the driver."""
    own, claim = os.environ["SPARK_EXECUTOR_ID"], Path(os.environ["CLAIM"])
    marks = sorted(path.name for path in claim.glob("mark-*"))
    for place in (claim, Path(folder)):
        (place / f"mark-{own}").touch()
    end = time.monotonic() + 0.5
    while time.monotonic() < end and not (Path(folder) / "enough").exists():
        time.sleep(0.05)
    return own, (Path(os.environ["SEED"]) / "copy").read_text(), tuple(marks)


def direct(context: Any, api: Api, folder: Path) -> dict[str, Any]:
    until(lambda: registered(context) == 2, "two executors")
    first_pods = api.executors()
    pairs = context.parallelize(range(1000), 8).map(lambda number: (number % 3, number))
    sums = pairs.reduceByKey(lambda one, other: one + other, 2)
    words = {word for _, word, _ in context.parallelize([str(folder)] * 8, 8).map(seen).collect()}
    first = sorted(sums.collect())
    until(lambda: registered(context) == 1, "one executor less")
    until(lambda: len(api.executors()) == 1, "one pod less")  # a claim is free when its pod is gone
    second = sorted(sums.collect())
    before = {path.name for path in folder.glob("mark-*")}
    # One job that wants two executors all the time: what is too many for 3 s is deleted, even while it starts.
    tasks: list[tuple[str, str, tuple[str, ...]]] = []
    many = context.parallelize([str(folder)] * 600, 600).map(seen)
    thread = threading.Thread(target=lambda: tasks.extend(many.collect()), daemon=True)
    thread.start()
    until(lambda: {path.name for path in folder.glob("mark-*")} - before, "a task on another executor")
    (folder / "enough").touch()
    thread.join()
    new = {path.name.removeprefix("mark-") for path in folder.glob("mark-*")} - {one[5:] for one in before}
    pods = {pod["metadata"]["labels"]["spark-exec-id"]: pod for pod in (*first_pods, *api.executors())}
    application = context.applicationId
    context.stop()
    events = [json.loads(line) for line in (folder / application).read_text().splitlines()]
    return {
        "words": sorted(words),
        "jobs": [first, second],
        "containers": [row["name"] for row in first_pods[0]["status"]["containerStatuses"]],
        "claims": {number: claim(pod) for number, pod in pods.items()},
        "new": sorted(new),
        "marks": sorted({mark for own, _, found in tasks if own in new for mark in found}),
        "removed": [
            (event["Executor ID"], event["Removed Reason"])
            for event in events
            if event["Event"] == "SparkListenerExecutorRemoved"
        ],
        "attempts": max(
            event["Stage Info"]["Stage Attempt ID"]
            for event in events
            if event["Event"] == "SparkListenerStageSubmitted"
        ),
        "map tasks": sum(event.get("Task Type") == "ShuffleMapTask" for event in events),
        "failed tasks": sum(
            event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] != "Success"
            for event in events
        ),
    }


def claim(pod: Any) -> Any:
    return next(
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    )


def scaled(context: Any, api: Api) -> dict[str, Any]:
    """Two executors of a set, a job, one executor less, a job."""
    until(lambda: registered(context) == 2, "two executors")
    pods = api.executors()
    first = context.parallelize(range(1000), 8).sum()
    nothing = getattr(getattr(context._jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
    context._jsc.sc().requestTotalExecutors(1, 0, nothing)
    until(lambda: len(api.executors()) == 1, "one pod less")
    until(lambda: registered(context) == 1, "one executor less")
    second = context.parallelize(range(1000), 8).sum()
    context.stop()
    owners = sorted({owner["kind"] for pod in pods for owner in pod["metadata"]["ownerReferences"]})
    return {"jobs": [first, second], "owners": owners, "names": sorted(pod["metadata"]["name"] for pod in pods)}


def main() -> None:
    # The JVM is started without a conf: that of the first context would be part of every later one.
    SparkContext._ensure_initialized()
    api = Api()
    waits = {"name": "waits", "image": "none", "command": ["sleep", "100000"]}
    driver = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "driver"}, "spec": {"containers": [waits]}}
    api("POST", "/api/v1/namespaces/default/pods", driver)
    for allocator in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as name:
            began = time.monotonic()
            context = SparkContext(conf=conf_of(allocator, Path(name)))
            done = direct(context, api, Path(name)) if allocator == "direct" else scaled(context, api)
            left = until(lambda: not api.executors(), "no pod left")
            done |= {"allocator": allocator, "left": not left, "seconds": round(time.monotonic() - began, 1)}
            print(json.dumps(done), flush=True)
    api("DELETE", "/api/v1/namespaces/default/pods/driver")


main()
