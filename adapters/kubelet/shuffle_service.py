"""Spark's own external shuffle service, for executors that are processes of this machine.

An executor looks for the service at its own address (BlockManager.initialize; there is no key for its host), and registers
its local directories there by their absolute paths. Here all pods have addresses of this machine, so one process serves
every node, and the pods' local directories are one folder of the machine: a hostPath whose volume name begins with
``spark-local-dir-`` (LocalDirsFeatureStep). What an executor leaves there is served when it has gone. In that folder each
application has one of its own, named by its id, so that it can be cleaned: executors take SPARK_EXECUTOR_DIRS before their
volumes (Utils.getConfiguredLocalDirs), and Spark puts the id into it (BasicExecutorFeatureStep).
The service takes directories only below its own spark.local.dir (LocalDirValidator), in the first of which is its database.

The service listens on every address: ExternalShuffleService knows no other. So nobody is let in who has no secret
(``spark.authenticate``). Spark reads a secret from a file on Kubernetes, but not in an executor, which has no master in its
conf yet; the environment gives it to executors and to the service.
"""

from __future__ import annotations

import base64
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from podtide.adapters.kubelet.processes import begin_session, kill_session
from podtide.adapters.kubelet.spark_process import LocalSpark, base_environment, java

MAIN: Final = "org.apache.spark.deploy.ExternalShuffleService"
SECRET: Final = "_SPARK_AUTH_SECRET"  # noqa: S105 - the name of a variable (SecurityManager.ENV_AUTH_SECRET)
LOCAL: Final = "local"
"""The folder of shuffle files, in the service's own."""

DATABASE: Final = ".service"
"""In it: executors that registered. Its name is no application's."""

READY_S: Final = 60.0
_LOOK_S: Final = 0.05
_HEAP: Final = "-Xmx512m"
_SECRET_BYTES: Final = 32
_VOLUME: Final = "spark.kubernetes.executor.volumes.hostPath.spark-local-dir-node"


class NoShuffleService(Exception):
    """The service did not begin; says why in one line."""


@contextmanager
def shuffle_service(spark: LocalSpark, folder: Path) -> Iterator[Mapping[str, str]]:
    """Run it in a folder of its own for the time of the block; the settings of programs that use it.

    Raises NoShuffleService, OSError.
    """
    folder.mkdir()
    local, conf, key = folder / LOCAL, folder / "conf", folder / "secret"
    (local / DATABASE).mkdir(parents=True)
    conf.mkdir()
    raw = secrets.token_bytes(_SECRET_BYTES)
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(raw)
    secret = base64.b64encode(raw).decode("ascii")  # as SecurityManager reads a file
    port = _free_port()
    shared = {"spark.shuffle.service.port": str(port), "spark.authenticate": "true"}
    own = {**shared, "spark.local.dir": f"{local / DATABASE},{local}"}
    properties = conf / "spark-defaults.conf"
    properties.write_text("".join(f"{name} {value}\n" for name, value in own.items()), encoding="utf-8")
    env = base_environment(spark) | {"SPARK_CONF_DIR": str(conf), SECRET: secret}
    command = [java() or "java", _HEAP, "-cp", f"{spark.home / 'jars'}/*", MAIN, "--properties-file", str(properties)]
    with (folder / "log").open("wb") as log:
        process = begin_session(command, env, folder, log.fileno())
    try:
        _await(process, port, folder / "log")
        yield {
            **shared,
            "spark.shuffle.service.enabled": "true",
            "spark.podtide.oneMachine": "true",
            "spark.authenticate.secret.file": str(key),
            f"spark.executorEnv.{SECRET}": secret,
            "spark.executorEnv.SPARK_EXECUTOR_DIRS": f"{local}/SPARK_APPLICATION_ID",
            f"{_VOLUME}.mount.path": str(local),
            f"{_VOLUME}.options.path": str(local),
        }
    finally:
        kill_session(process.pid)
        process.wait()


def _free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("", 0))
        port: int = found.getsockname()[1]
    return port


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < end:
        with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 1.0)):
            return
        time.sleep(_LOOK_S)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise NoShuffleService(f"the shuffle service did not begin: {lines[-1] if lines else 'it said nothing'}")
