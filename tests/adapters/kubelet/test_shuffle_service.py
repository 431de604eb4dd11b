"""The shuffle service with a program in the place of java: what programs are told, its end, and one that does not begin."""

from __future__ import annotations

import base64
import socket
import sys
from pathlib import Path

import pytest

from podtide.adapters.kubelet.shuffle_service import NoShuffleService, shuffle_service
from podtide.adapters.kubelet.spark_process import LocalSpark

LISTENS = """\
#!{python}
import os, socket, sys
conf = dict(line.split() for line in open(sys.argv[-1]))
with open("secret.told", "w") as told:
    told.write(os.environ["_SPARK_AUTH_SECRET"])
with socket.create_server(("", int(conf["spark.shuffle.service.port"]))) as server:
    while True:
        server.accept()
"""
FAILS = "#!/bin/sh\necho starting\necho 'no room for a heap'\nexit 1\n"


def java(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> LocalSpark:
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(text.format(python=sys.executable) if "{python}" in text else text)
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    return LocalSpark(tmp_path / "spark")


def test_programs_are_told_where_it_is_and_its_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, folder = java(tmp_path, LISTENS, monkeypatch), tmp_path / "service"
    with shuffle_service(spark, folder) as settings:
        port = int(settings["spark.shuffle.service.port"])
        key = Path(settings["spark.authenticate.secret.file"])
        secret = settings["spark.executorEnv._SPARK_AUTH_SECRET"]
        assert key.stat().st_mode & 0o777 == 0o600
        assert base64.b64encode(key.read_bytes()).decode() == secret == (folder / "secret.told").read_text()
        volume = "spark.kubernetes.executor.volumes.hostPath.spark-local-dir-node."
        assert (
            settings[volume + "mount.path"] == settings[volume + "options.path"]
        )  # executors register the path as it is
        assert Path(settings[volume + "options.path"]).is_dir()
        assert settings["spark.shuffle.service.enabled"] == settings["spark.authenticate"] == "true"
        socket.create_connection(("127.0.0.1", port), 10).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10).close()


def test_one_that_does_not_begin_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = java(tmp_path, FAILS, monkeypatch)
    with pytest.raises(NoShuffleService, match="no room for a heap"), shuffle_service(spark, tmp_path / "service"):
        pass
