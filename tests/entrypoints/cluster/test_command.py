"""``podtide cluster`` as a program: what its command finds, how it ends, and that nothing is left."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from podtide.entrypoints.cli import run
from tests.support.project import PROJECT

POD = """
import json, os, ssl, urllib.request
kubeconfig = json.load(open(os.environ["KUBECONFIG"]))
server, token = kubeconfig["clusters"][0]["cluster"]["server"], kubeconfig["users"][0]["user"]["token"]
def ask(method, path, body=None):
    request = urllib.request.Request(server + path, json.dumps(body).encode() if body else None, method=method)
    request.add_header("Authorization", "Bearer " + token)
    request.add_header("Content-Type", "application/json")
    return urllib.request.urlopen(request, timeout=20)
path = "/api/v1/namespaces/jobs/pods"
spec = {"containers": [{"name": "c", "image": "i"}]}
metadata = {"name": "one", "labels": {"spark-role": "executor"}}
watch = ask("GET", path + "?watch=1&timeoutSeconds=20")
ask("POST", path, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
for line in watch:
    if json.loads(line)["object"].get("status", {}).get("phase") == "Running":
        break
print(open(os.environ["SPARK_CONF_DIR"] + "/spark-defaults.conf").read())
print("server", server)
raise SystemExit(5)
"""


def begun(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": f"{PROJECT}/.typing", "TMPDIR": str(tmp_path)}
    environment |= {"SPARK_CONF_DIR": str(PROJECT / "tests/entrypoints/cluster/conf")}
    return subprocess.Popen(
        [sys.executable, "-m", "podtide", "cluster", *arguments],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_command_finds_the_cluster_and_nothing_is_left(tmp_path: Path) -> None:
    with begun(tmp_path, "--hollow", "--no-tls", "--namespace", "jobs", "--", sys.executable, "-c", POD) as program:
        out, err = program.communicate(timeout=60)
    assert program.returncode == 5, err
    server = out.split()[-1]
    assert f"spark.master k8s://{server}\n" in out
    assert "spark.kubernetes.namespace jobs\n" in out
    assert "spark.executor.memory 3g\n" in out  # the user's own
    assert err.startswith("podtide cluster: 1 pod (1 left; 1 at once), 2 API calls, ")
    assert list(tmp_path.iterdir()) == []


FAULTS = """
seed: 7
api:
  latency: 1ms
  faults:
    - {status: 429, probability: 0.9, verbs: [create], agents: [urllib]}
watch: {delay: 1ms}
stages: {pull: {delay: 10ms}, start: {delay: 10ms}}
"""
STUBBORN = POD.replace('ask("POST"', 'while True:\n  try:\n    ask("POST"').replace(
    '"spec": spec})',
    '"spec": spec})\n    break\n  except urllib.error.HTTPError as refusal:\n    assert refusal.code == 429',
)


def test_faults_of_a_cluster_file_meet_the_command_and_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(FAULTS)
    options = ["--hollow", "--no-tls", "--namespace", "jobs", "--cluster", str(file)]
    told = []
    record = tmp_path / "record"
    for more in ([], ["--record", str(record)]):
        with begun(tmp_path, *options, *more, "--", sys.executable, "-c", STUBBORN) as program:
            _, err = program.communicate(timeout=60)
        assert program.returncode == 5, err
        told.append(re.search(r"(\d+) faults \(\1 429\)", err))
    assert told[0] is not None, err
    assert told[1] is not None, err
    assert told[0][0] == told[1][0]
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [one["fault"] for one in lines if "fault" in one] == ["429"] * int(told[0][1])
    phases = [one["phase"] for one in lines if one.get("resource") == "pods"]
    assert phases == ["Pending", "Pending", "Running"]
    assert "end" in lines[-1]
    assert sorted(tmp_path.iterdir()) == [file, record]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_without_a_command_it_stays_until_it_is_told_to_end(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with begun(tmp_path, "--hollow") as program:
        assert program.stdout is not None
        lines = [program.stdout.readline() for _ in range(5)]
        exported = dict(line.removeprefix("export ").rstrip().split("=", 1) for line in lines[:4])
        assert Path(exported["KUBECONFIG"]).stat().st_mode & 0o777 == 0o600
        assert (Path(exported["SPARK_CONF_DIR"]) / "spark-defaults.conf").exists()
        assert lines[4].startswith("# https://127.0.0.1:")
        program.send_signal(number)
        _, err = program.communicate(timeout=60)
    assert program.returncode == code
    assert err.startswith("podtide cluster: 0 pods")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")
@pytest.mark.parametrize(("options", "drawn"), [([], True), (["--no-view"], False)])
def test_on_a_terminal_nodes_and_pods_are_drawn_below_what_is_to_be_pasted(options: list[str], drawn: bool) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": f"{PROJECT}/.typing", "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    command = [sys.executable, "-m", "podtide", "cluster", "--hollow", "--nodes", "2", *options]
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        said = b""
        while (b"of 100 pods" if drawn else b"ends it") not in said:
            said += os.read(ours, 65_536)
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
    os.close(ours)
    assert said.index(b"export KUBECONFIG=") < said.index(b"ends it")
    assert (b"0 pods on 2 nodes" in said) is drawn


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "text"),
    [
        (["--namespace", "Up"], {}, 2, "is no namespace"),
        (["--", "job"], {"PATH": "/nowhere", "SPARK_HOME": ""}, 4, "no Spark was found"),
        (["--", "job"], {"SPARK_HOME": "/nowhere"}, 4, "/nowhere is no Spark installation"),
        (["--hollow", "--no-tls", "true"], {"SPARK_CONF_DIR": "/nowhere"}, 3, "/nowhere cannot be copied"),
        (["--view", "--", "true"], {}, 2, "the command has the terminal"),
        (["--hollow", "--record", "tests"], {}, 2, "tests cannot be written: File exists"),
        (
            ["--cluster", "tests/entrypoints/cluster/stages.yaml"],
            {},
            3,
            "stages.yaml:3: stages.oom.exits: expected {137: 1}",
        ),
        (["--hollow", "--nodes", "2", "--cluster", "tests/entrypoints/cluster/stages.yaml"], {}, 2, "not --nodes"),
        (["--hollow", "--cluster", "/nowhere"], {}, 3, "/nowhere: cannot be read"),
        (
            ["--hollow", "--cluster", "tests/entrypoints/cluster/client.yaml"],
            {},
            3,
            "client.yaml:2: api.retries: expected",
        ),
        (["--hollow", "--no-tls", "no-such-program"], {"SPARK_CONF_DIR": ""}, 127, "command not found"),
    ],
)
def test_what_is_refused(
    arguments: list[str],
    environment: dict[str, str],
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert run(["cluster", *arguments]) == code
    assert text in capsys.readouterr().err


def test_a_run_in_charge_of_a_cluster_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    conf = [
        f"--conf={key}" for key in ("spark.kubernetes.container.image=i", "spark.driver.host=h", "spark.driver.port=1")
    ]
    options = [
        "--app-id",
        "spark-a",
        "--mode",
        "act",
        "--target",
        "3",
        "--on-exit",
        "delete",
        "--duration",
        "3s",
        "--no-view",
    ]
    assert run(["run", "--cluster", "local", *options, *conf]) == 0
    told = capfd.readouterr()
    assert "executors 1-3 registered" in told.out + told.err
    assert "stopped; nothing is left" in told.out + told.err


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--mode", "act", "--target", "1", "--kubeconfig", "x"], "another cluster"),
        (["--target", "1"], "begins empty"),
    ],
)
def test_what_a_run_on_a_cluster_of_its_own_refuses(
    more: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "--cluster", "local", "--app-id", "a", *more]) == 2
    assert text in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "arguments", [["cluster"], ["run", "--cluster", "local", "--app-id", "a", "--mode", "act", "--target", "1"]]
)
def test_without_the_extra(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("podtide.entrypoints.cluster.", "podtide.adapters.api_s"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert run(arguments) == 2
    assert capsys.readouterr().err == "podtide: the package aiohttp is not installed; install podtide[kubernetes]\n"
