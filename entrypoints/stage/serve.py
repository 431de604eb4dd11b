"""``podtide stage serve`` from its options to its end."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from podtide.adapters.clock import SystemClock
from podtide.adapters.http_server.certificate import Certificate
from podtide.adapters.http_server.settings import HttpBounds, NotServed, loopback
from podtide.adapters.kubernetes.api import ConnectionRefused, connect
from podtide.adapters.notices import Level, Notice
from podtide.adapters.staging.serving import staging
from podtide.adapters.staging.store import StoreUnusable
from podtide.adapters.text.format import count
from podtide.adapters.text.safe import escaped
from podtide.domain.staging.bundles import StagingConfig
from podtide.entrypoints.common.output import ClusterRefused, Misused, UnreadableInput, printed, refused_as
from podtide.entrypoints.stage.token import VARIABLE, given_token, made_token

LOOK_S: Final = 0.5


@dataclass(frozen=True)
class ServeOptions:
    """What the command line says. Sizes in bytes; ``unused``, ``ended``, ``absent``, ``every`` in seconds."""

    bundle_max: int
    store_max: int
    free_min: int
    store: Path
    address: str
    port: int
    tls_cert: Path | None
    tls_key: Path | None
    plain: bool
    token_file: Path | None
    kubeconfig: str | None
    context_name: str | None
    unused: float
    ended: float
    absent: float
    every: float


def run_server(options: ServeOptions) -> NoReturn:
    """Serve until a signal's exception. Raises a Refusal."""
    certificate = _certificate(options)
    if certificate is None and not options.plain and not loopback(options.address):
        raise Misused(
            f"other machines reach {options.address}, where secrets would travel in clear: "
            "name --tls-cert and --tls-key, or --plain"
        )
    bounds = HttpBounds(address=options.address, port=options.port, anywhere=True, end_s=5.0)
    clock = SystemClock()
    with (
        refused_as(ClusterRefused, ConnectionRefused, NotServed),
        refused_as(UnreadableInput, StoreUnusable),
        closing(connect(options.kubeconfig, options.context_name, clock=clock)) as api,
    ):
        token, origin = _token(options.token_file)
        config = _config(options)
        with staging(options.store, api, token, config, bounds, certificate, clock, _say) as server:
            with printed():
                if origin:
                    print(origin)
                print(f"# {server.url}; {count(server.found, 'bundle')} in {options.store}; Ctrl-C ends it", flush=True)
            _stay()


def _certificate(options: ServeOptions) -> Certificate | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise Misused("--tls-cert and --tls-key go together")
    return Certificate(options.tls_cert, options.tls_key)


def _token(file: Path | None) -> tuple[str, str]:
    """The token of uploads, and a line about one that is new."""
    if file is not None and not file.exists():
        return made_token(file), f"# the token of uploads is in {file}"
    token = given_token(file, os.environ)
    if token is not None:
        return token, ""
    token = made_token(None)
    return token, f"export {VARIABLE}={token}"


def _config(options: ServeOptions) -> StagingConfig:
    return StagingConfig(
        bundle_max=options.bundle_max,
        total_max=options.store_max,
        free_min=options.free_min,
        unused_ms=int(options.unused * 1000),
        ended_ms=int(options.ended * 1000),
        absent_ms=int(options.absent * 1000),
        pass_ms=max(1, int(options.every * 1000)),
    )


def _say(notice: Notice) -> None:
    mark = "" if notice.level is Level.INFO else f"{notice.level.value}: "
    print(f"podtide: {mark}{escaped(notice.text, 2_000)}", file=sys.stderr, flush=True)


def _stay() -> NoReturn:
    """Wait for a signal's exception. A signal that comes just before a wait does not end it, so no wait is long."""
    told = threading.Event()
    while True:
        told.wait(LOOK_S)
