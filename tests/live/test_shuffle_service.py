"""Spark's own shuffle service under the conf of the DaemonSet, and executors that speak to it: the classes of Spark 4.3.

Ids S7, S8, S12 and S15: scenarios of the shuffle service's specification (auxiliary, 4.1). Needs PODTIDE_SPARK_PYTHON,
and a JDK.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import yaml

from podtide.adapters.kubelet.spark_process import pyspark_of
from podtide.adapters.shuffle_service.directories import ApplicationDirectories
from podtide.domain.shuffle_service.applications import ApplicationId
from tests.live.spark_driver import spark_python
from tests.support.project import PROJECT

DAEMON_SET = PROJECT / "deploy" / "kustomize" / "shuffle-service"
CLIENT = Path(__file__).with_name("ShuffleClient.java")
ROOT = "/var/lib/spark-shuffle"
BLOCK = "shuffle_0_0_0"
START_S = 60.0


class Executors:
    """What executors say, and the service's answers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def say(self, *words: str | Path) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = ""
        while not answer.startswith("> "):
            answer = self._process.stdout.readline()
            assert answer, "the client has ended"
        return answer[2:].rstrip("\n")

    def write(self, folder: Path, data: bytes) -> Path:
        """A map output as an executor leaves it; where its data is."""
        files = {".data": data, ".index": struct.pack(">QQ", 0, len(data))}
        paths = {suffix: Path(self.say("path", folder, BLOCK + suffix)) for suffix in files}
        for suffix, path in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[suffix])
        return paths[".data"]


@pytest.fixture(scope="module")
def home() -> Path:
    found = pyspark_of(spark_python())
    assert found is not None
    if shutil.which("javac") is None:
        pytest.skip("NOT TESTED WITH SPARK'S SHUFFLE SERVICE: there is no JDK")
    return found


@contextmanager
def service(home: Path, root: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The container ``service`` of the DaemonSet as a process, with another root and port."""
    conf = root.parent / "conf"
    conf.mkdir(exist_ok=True)
    text = yaml.safe_load((DAEMON_SET / "configmap.yaml").read_text())["data"]["spark-defaults.conf"]
    assert (text.count("7337"), text.count(ROOT)) == (1, 2)
    (conf / "spark-defaults.conf").write_text(text.replace("7337", str(port)).replace(ROOT, str(root)))
    pod = yaml.safe_load((DAEMON_SET / "daemonset.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = [one for one in pod["containers"] if one["name"] == "service"]
    command = [str(home / "bin" / Path(container["command"][0]).name), *container["args"]]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(conf), "SPARK_DAEMON_MEMORY": "256m"}
    with (root.parent / "log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        waiting = threading.Event()
        for _ in range(int(START_S / 0.1)):
            with closing(socket.socket()) as look:
                if look.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, (root.parent / "log").read_text()[-3000:]
            waiting.wait(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def executors(home: Path, port: int) -> Iterator[Executors]:
    command = ["java", "-Xmx128m", "-cp", f"{home / 'jars'}/*", str(CLIENT), str(port)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Executors(process)
        finally:
            process.kill()


def test_s7_s8_s12_s15_the_service_of_a_node(home: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / ".service").mkdir(parents=True)  # as the init container makes it
    app = ApplicationId("spark-1")
    blocks, others = root / app / "blockmgr-1", root / "spark-2" / "blockmgr-2"
    with closing(socket.socket()) as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    with executors(home, port) as speak:
        assert "Failed to connect" in speak.say("fetch", app, "1", BLOCK)
        with service(home, root, port):
            for name, number, folder in ((app, "1", blocks), ("spark-2", "7", others)):
                speak.write(folder, f"of {name}".encode())
                assert speak.say("register", name, number, folder) == "registered"
            assert speak.say("fetch", app, "1", BLOCK) == "of spark-1"

            # S15: who is not registered is named, and nothing else is read.
            unknown = speak.say("fetch", app, "9", BLOCK)
            assert "Executor is not registered (appId=spark-1, execId=9)" in unknown
            assert "Executor is not registered (appId=spark-1, execId=7)" in speak.say("fetch", app, "7", BLOCK)
            for block in ("../../spark-2", "shuffle_0_0_../../x", "shuffle_0_0_9", "rdd_0_0"):
                assert speak.say("fetch", app, "1", block).startswith("error"), block
            (tmp_path / "precious").write_bytes(b"of spark-1")
            data = speak.write(blocks, b"of spark-1")
            data.unlink()
            data.symlink_to(tmp_path / "precious")
            assert speak.say("fetch", app, "1", BLOCK).startswith("error"), "a link out of the executor's directories"
            data.unlink()
            speak.write(blocks, b"of spark-1")
        # S7, S8, S12: killed, and made anew on the node: it knows who registered, and serves at the same address.
        assert "error" in speak.say("fetch", app, "1", BLOCK)
        with service(home, root, port):
            assert speak.say("fetch", app, "1", BLOCK) == "of spark-1"
            ApplicationDirectories([root]).remove(app)
            assert speak.say("fetch", app, "1", BLOCK).startswith("error")
            assert speak.say("fetch", "spark-2", "7", BLOCK) == "of spark-2", "files of others are untouched (S11)"
    assert [path.name for path in (root / ".service").iterdir()] == ["registeredExecutors.rdb"]
