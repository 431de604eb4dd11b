"""An API server of our own: etcd and kube-apiserver as processes, started, stopped, restarted, compacted.

Either by the scripts of ``../shared/kubernetes`` or, out of a folder with the two programs (envtest's), from here. Both end
in the same: a folder with two kubeconfigs, an audit log and pid files.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from tests.live.waiting import until
from tests.support.project import PROJECT

SHARED: Final = PROJECT.parent / "shared" / "kubernetes"
UP_TIMEOUT_S: Final = 120.0

AUDIT_POLICY: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: ["system:apiserver"]}
- {level: Metadata}
"""


class BrokenCluster(Exception):
    """There should be a server, and there is none that works."""


class Server:
    """Processes of ours, known by the pid files in ``home``/run; kubeconfigs and logs are in ``home`` too."""

    def __init__(self, home: Path, etcd_port: int, end: Callable[[], object]) -> None:
        self.admin = home / "kubeconfig"
        self.driver = home / "kubeconfig-driver"
        self.audit = home / "logs" / "audit.log"
        self._home = home
        self._etcd = f"http://127.0.0.1:{etcd_port}"
        self._end = end
        self._command: list[str] = []

    def stop_apiserver(self, *, kill: bool) -> None:
        """End the API server; its command line is remembered."""
        pid = int((self._home / "run" / "kube-apiserver.pid").read_text())
        self._command = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
        assert Path(self._command[0]).name == "kube-apiserver"
        os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
        until(lambda: not _alive(pid), 70, "the end of the API server")

    def start_apiserver(self) -> None:
        """Start it again as it was."""
        _start(self._home, self._command)

    def signal_controllers(self, number: signal.Signals) -> None:
        """Send a signal to the controller manager: SIGSTOP lets it fall behind, SIGCONT lets it go on."""
        os.kill(int((self._home / "run" / "kube-controller-manager.pid").read_text()), number)

    def compact(self) -> int:
        """Let etcd forget all versions before now; returns the revision."""
        revision = int(self._ask("/v3/kv/range", {"key": base64.b64encode(b"x").decode()})["header"]["revision"])
        self._ask("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def _ask(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        sent, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self._etcd + path, sent, headers), timeout=30) as answer:
            decoded: dict[str, Any] = json.load(answer)
            return decoded

    def stop(self) -> None:
        """End all of it and take its folder away."""
        self._end()
        shutil.rmtree(self._home, ignore_errors=True)


def from_shared(work: Path) -> Server:
    """A server by ``../shared/kubernetes``, on ports of our own. Raises BrokenCluster."""
    if shutil.which("etcd") is None and not os.environ.get("ETCD"):
        raise BrokenCluster("../shared/kubernetes is there and etcd is not: apt-get install etcd-server")
    home = work / "k8s"
    home.mkdir()
    with suppress(OSError):  # unpacking the programs takes seconds: once is enough
        unpacked = PROJECT / "out" / "live-bin"
        unpacked.mkdir(parents=True, exist_ok=True)
        (home / "bin").symlink_to(unpacked)
    port, etcd_port = free_ports(2), free_ports(2)
    ours = {"PODTIDE_K8S_HOME": str(home), "PORT": str(port), "ETCD_PORT": str(etcd_port)}
    environment = {**os.environ, **ours, "APISERVER_EXTRA": "--audit-log-batch-max-wait=1s"}

    def down() -> None:
        with suppress(OSError, ValueError, AssertionError):
            server.stop_apiserver(kill=True)  # asked politely it takes ten seconds, and its data is thrown away
        subprocess.run([str(SHARED / "down.sh")], env=environment, capture_output=True, timeout=60, check=False)

    server = Server(home, etcd_port, down)
    try:
        ran = _run([str(SHARED / "up.sh")], environment)
    except BaseException as problem:
        server.stop()
        if isinstance(problem, subprocess.TimeoutExpired):
            raise BrokenCluster(f"../shared/kubernetes/up.sh was not done after {UP_TIMEOUT_S:g} s") from None
        raise
    if ran.returncode != 0:
        server.stop()
        said = (ran.stderr + ran.stdout)[-800:]
        raise BrokenCluster(f"../shared/kubernetes/up.sh ended with {ran.returncode}: {said}")
    return server


def _run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, timeout=UP_TIMEOUT_S, check=False
    )


def from_assets(assets: Path, work: Path) -> Server:
    """etcd and kube-apiserver out of one folder, with a certificate of the server's own making. Raises BrokenCluster."""
    for program in ("etcd", "kube-apiserver"):
        if not (assets / program).exists():
            raise BrokenCluster(f"KUBEBUILDER_ASSETS: there is no {program} in {assets}")
    home = work / "k8s"
    for folder in ("run", "logs"):
        (home / folder).mkdir(parents=True)
    etcd_port = free_ports(2)

    def end() -> None:
        for program in ("kube-apiserver", "etcd"):
            with suppress(OSError, ValueError):  # never started, or gone
                pid = int((home / "run" / f"{program}.pid").read_text())
                os.kill(pid, signal.SIGKILL)
                until(lambda pid=pid: not _alive(pid), 20, f"the end of {program}")  # type: ignore[misc]

    server = Server(home, etcd_port, end)
    try:
        _start_assets(assets, home, etcd_port)
    except (AssertionError, OSError, subprocess.CalledProcessError) as problem:
        said = "".join(path.read_text(errors="replace")[-400:] for path in (home / "logs").glob("*.log"))
        server.stop()
        raise BrokenCluster(f"KUBEBUILDER_ASSETS: {problem}; {said}") from None
    return server


def _start_assets(assets: Path, home: Path, etcd_port: int) -> None:
    run, port = home / "run", free_ports(1)
    tokens = {who: secrets.token_hex(16) for who in ("admin", "driver")}
    (run / "tokens.csv").write_text(
        f'{tokens["admin"]},admin,uid-admin,"system:masters"\n{tokens["driver"]},driver,uid-driver,"drivers"\n'
    )
    (run / "audit.yaml").write_text(AUDIT_POLICY)
    key = str(run / "sa.key")
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{etcd_port + 1}"
    _start(home, [
        str(assets / "etcd"), "--name=t", f"--data-dir={run / 'etcd-data'}", "--unsafe-no-fsync",
        f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=t={peer}",
    ])  # fmt: skip
    _start(home, [
        str(assets / "kube-apiserver"), f"--etcd-servers={etcd}", "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={run}",
        f"--token-auth-file={run / 'tokens.csv'}", "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}", "--disable-admission-plugins=ServiceAccount",
        "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none", "--allow-privileged=true",
        f"--audit-policy-file={run / 'audit.yaml'}", f"--audit-log-path={home / 'logs' / 'audit.log'}",
    ])  # fmt: skip
    until((run / "apiserver.crt").exists, 60, "the server's certificate")
    authority = base64.b64encode((run / "apiserver.crt").read_bytes()).decode()
    address = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}
    for who, token in tokens.items():
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": who,
            "clusters": [{"name": "c", "cluster": address}],
            "users": [{"name": who, "user": {"token": token}}],
            "contexts": [{"name": who, "context": {"cluster": "c", "user": who, "namespace": "default"}}],
        }
        path = home / ("kubeconfig" if who == "admin" else "kubeconfig-driver")
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)


def free_ports(count: int) -> int:
    """The first of ``count`` ports in a row that nobody listens on.

    None of those that the system gives to outgoing connections: while the API server is away its clients try and try, and
    one that is given the server's own port as its source connects to itself; the server could not listen there again.
    """
    while True:
        first = 10_000 + secrets.randbelow(20_000)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


def _start(home: Path, command: Sequence[str]) -> None:
    """Start a program that goes on, with its log and its pid file."""
    name = Path(command[0]).name
    with (home / "logs" / f"{name}.log").open("ab") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    (home / "run" / f"{name}.pid").write_text(str(process.pid))


def _alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        # The first thread of a process that was killed is a zombie while others still hold its port and its memory.
        return state not in ("Z", "X") or len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        return False
