"""A staging server on loopback with a store, and the cluster whose pods it asks for: a real API server of podtide's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import urllib3

from podtide.adapters.api_server.serving import serving
from podtide.adapters.clock import Clock, SystemClock
from podtide.adapters.http_server.certificate import Certificate
from podtide.adapters.http_server.settings import HttpBounds
from podtide.adapters.kubernetes.api import ApiAnswer, ApiClient, Query, Stream, Unreachable, connect
from podtide.adapters.notices import Notice
from podtide.adapters.staging.archive import BundleArchive, staged_files, write_archive
from podtide.adapters.staging.fetch_bundle import fetch
from podtide.adapters.staging.serving import staging
from podtide.adapters.staging.staging_client import StagedBundle, StagingAddress, ask_for_pass, push_bundle
from podtide.domain.api_server.server import begin
from podtide.domain.api_server.state import ApiConfig
from podtide.domain.staging.bundles import StagingConfig
from tests.support.clock import MillisClock

TOKEN = "t" * 32
LABELS = (("podtide.io/stage", "one"),)
CONFIG = StagingConfig(free_min=0)


class SwitchedApi:
    """An API server that can be away (0), refuse (a status) or meet a fault of our own (-1); counts its calls."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self.fault: int | None = None
        self.calls = 0

    def call(self, verb: str, resource: str, path: str, **options: Any) -> ApiAnswer:
        self.calls += 1
        if self.fault == 0:
            raise Unreachable("nobody is there", sent=False)
        if self.fault == -1:
            raise RuntimeError("a fault")
        if self.fault is not None:
            status = {"kind": "Status", "code": self.fault, "reason": "Forbidden", "message": "no pods for you"}
            return ApiAnswer(self.fault, json.dumps(status).encode())
        return self._api.call(verb, resource, path, **options)

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> Stream:
        return self._api.stream(resource, path, query=query, silence_s=silence_s)


@dataclass
class Stage:
    """One server under test."""

    url: str
    folder: Path
    scratch: Path
    api: SwitchedApi
    clock: Any
    ca: Path | None = None
    notices: list[Notice] = field(default_factory=list)
    found: int = 0

    @property
    def address(self) -> StagingAddress:
        return StagingAddress(self.url, TOKEN, self.ca)

    def archive(self, paths: Sequence[Path]) -> tuple[Path, BundleArchive]:
        place = self.scratch / "bundle.tgz"
        with place.open("w+b") as file:
            return place, write_archive(staged_files(paths), file)

    def push(
        self, *paths: Path, namespace: str = "default", within_s: float = 10
    ) -> tuple[StagedBundle, BundleArchive]:
        place, made = self.archive(paths)
        return push_bundle(self.address, place, made, namespace, LABELS, within_s), made

    def environment(self, bundle: StagedBundle, made: BundleArchive, folder: Path, **more: str) -> dict[str, str]:
        folder.mkdir(exist_ok=True)
        given = {
            "URL": f"{self.url}/v1/bundles/{bundle.id}",
            "SECRET": bundle.secret,
            "SHA256": made.sha256,
            "UNPACKED_MAX": str(made.unpacked),
            "TIMEOUT_S": "5",
            "FOLDER": str(folder),
        }
        if self.ca is not None:
            given["CA"] = self.ca.read_text()
        return {f"PODTIDE_STAGE_{key}": value for key, value in (given | more).items()}

    def fetch(self, bundle: StagedBundle, made: BundleArchive, folder: Path, **more: str) -> dict[str, bytes]:
        """What the init container leaves in a folder."""
        fetch(self.environment(bundle, made, folder, **more))
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def ask(self, method: str, path: str, **headers: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request(method, self.url + path, headers=headers, retries=False, timeout=10)

    def status(self, bundle: StagedBundle) -> int:
        return self.ask("GET", f"/v1/bundles/{bundle.id}", Authorization=f"Bearer {bundle.secret}").status

    def collect(self) -> dict[str, Any]:
        answer: dict[str, Any] = msgspec.to_builtins(ask_for_pass(self.address, 30))
        return answer

    def files(self) -> list[str]:
        """What the store holds, relative to it; its lock is not of interest."""
        paths = [path for path in self.folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
        return sorted(str(path.relative_to(self.folder)) for path in paths)


@contextmanager
def api_server(scratch: Path) -> Iterator[SwitchedApi]:
    """An empty cluster."""
    with (
        serving(begin(ApiConfig(), SystemClock().now())) as server,
        closing(connect(str(server.kubeconfig(scratch / "kubeconfig")))) as api,
    ):
        yield SwitchedApi(api)


@contextmanager
def stage(
    scratch: Path,
    api: SwitchedApi,
    config: StagingConfig = CONFIG,
    clock: Clock | None = None,
    certificate: Certificate | None = None,
    bounds: HttpBounds | None = None,
) -> Iterator[Stage]:
    """A server on the store of this folder."""
    notices: list[Notice] = []
    lock = threading.Lock()

    def note(notice: Notice) -> None:
        with lock:
            notices.append(notice)

    clock = clock or MillisClock(1_000_000)
    folder = scratch / "store"
    with ExitStack() as end:
        made = staging(folder, api, TOKEN, config, bounds or HttpBounds(), certificate, clock, note)
        server = end.enter_context(made)
        ca = certificate and certificate.certificate
        yield Stage(server.url, folder, scratch, api, clock, ca, notices, server.found)


def pod(api: SwitchedApi, name: str, namespace: str = "default", labels: Mapping[str, str] = dict(LABELS)) -> None:
    """A pod that the bundles of these labels live for."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert api.call("create", "pods", path, body=json.dumps(body).encode()).ok


def delete(api: SwitchedApi, path: str) -> None:
    """Delete an object at once."""
    assert api.call("delete", "", path, query=[("gracePeriodSeconds", "0")]).ok
