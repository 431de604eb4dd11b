"""Fake logs whose work is to read a few numbers, an engine without processes, and a webhook that remembers."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Self

from podtide.adapters.fleet.rows import FleetRow, RowStatus
from podtide.adapters.history.accounts import account_bytes
from podtide.adapters.history.store import RunHistory
from podtide.adapters.history.values import RunKey, RunStalled, WatchedRun, run_bytes
from podtide.adapters.process_pool import Ended
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.entrypoints.watch.take_up import TakeUpOptions
from tests.support.account_play import run_of
from tests.support.clock import MillisClock

DAY_MS = 86_400_000
BEGAN_MS = 1_790_000_000_000


def log(path: Path, name: str, day: int, runtime_s: float = 100.0, **more: Any) -> Path:
    """A fake log of the ``day``-th run of an application, written when that ended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = {
        "id": f"{name}-{day}",
        "name": name,
        "started": BEGAN_MS + day * DAY_MS,
        "runtime_s": runtime_s,
    }
    path.write_text(json.dumps({"Event": "fake"} | known | more))
    written_ns = int((known["started"] + 1000 * runtime_s) * 1_000_000)
    os.utime(path, ns=(written_ns, written_ns))
    return path


def nightly(folder: Path, name: str, runtimes: Iterable[float]) -> None:
    """A fake log for each night."""
    for day, runtime_s in enumerate(runtimes):
        log(folder / f"{name}-{day:03}", name, day, runtime_s)


def fake_take_up(options: TakeUpOptions, request: bytes) -> bytes:
    """The answer for a fake log."""
    place, _, size, modified_ms, _ = json.loads(request)
    try:
        said = json.loads(Path(place).read_text())
    except ValueError:
        row = FleetRow(log=place, status=RowStatus.UNREADABLE, reason="is damaged")
        return run_bytes(WatchedRun(row=row))
    key = RunKey(said["id"], said.get("attempt", ""), said["started"])
    if options.history is not None:
        with RunHistory(options.history, write=False) as base:
            if base.has_whole(key):
                row = FleetRow(log=place, status=RowStatus.OK, app_id=key.app_id, started_ms=key.started_ms)
                return run_bytes(WatchedRun(row=row, attempt=key.attempt, known=True))
    runtime_s = said["runtime_s"]
    row = FleetRow(
        log=place, status=RowStatus(said.get("status", "ok")), app_id=key.app_id, app_name=said["name"],
        started_ms=key.started_ms, runtime_s=runtime_s, executor_seconds=4 * runtime_s, billed_seconds=5 * runtime_s,
        filled_seconds=3 * runtime_s, spark_version=said.get("spark", "4.3.0"), best="lean", saving_share=0.25,
        saving_core_hours=runtime_s / 2400,
        ledger={SpendCause.RUNNING.value: 3 * runtime_s, SpendCause.MINIMUM.value: 2 * runtime_s},
        log_bytes=size, log_modified_ms=modified_ms,
    )  # fmt: skip
    finished = said.get("finished", True)
    run = WatchedRun(
        row=row, attempt=key.attempt, ended_ms=key.started_ms + int(1000 * runtime_s), finished=finished,
        healthy=finished and said.get("healthy", True), core_hours=said.get("core_hours", runtime_s / 600),
        stalls=tuple(RunStalled(*one) for one in said.get("stalls", ())),
        account=_account(said["driver_cores"], runtime_s) if "driver_cores" in said else None,
    )  # fmt: skip
    return run_bytes(run)


def _account(driver_cores: int, runtime_s: float) -> bytes:
    """What is kept of a run on YARN without stages, whose driver has so many cores."""
    conf = {"spark.master": "yarn", "spark.submit.deployMode": "cluster", "spark.driver.cores": str(driver_cores)}
    return account_bytes(run_of([], end_ms=int(1000 * runtime_s), conf=conf))


class Inline:
    """An engine that works here, request by request."""

    def __init__(self, work: Callable[[bytes], bytes]) -> None:
        self._work = work

    def run(self, requests: Iterable[tuple[Any, bytes]]) -> Iterator[tuple[Any, bytes | Ended]]:
        for token, request in requests:
            yield token, self._work(request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FakeClock(MillisClock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        super().__init__(BEGAN_MS + 1_000 * DAY_MS)


class Receiver:
    """A webhook that writes down what it is sent; ``status``: what it answers."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.bodies.append(body)
                receiver.keys.append(self.headers["Idempotency-Key"])
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
