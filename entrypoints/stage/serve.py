"""``podtide stage serve`` from its options to its end."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from podtide.adapters.clock import SystemClock
from podtide.adapters.http_server.settings import HttpBounds, NotServed
from podtide.adapters.kubernetes.api import ConnectionRefused, connect
from podtide.adapters.notices import say
from podtide.adapters.staging.serving import staging
from podtide.adapters.staging.store import StoreUnusable
from podtide.adapters.text.format import count
from podtide.domain.staging.bundles import StagingConfig
from podtide.entrypoints.common.output import ClusterRefused, UnreadableInput, printed, refused_as
from podtide.entrypoints.common.serving import ListenOptions, given_certificate, server_token, stay
from podtide.entrypoints.stage.push import VARIABLE


@dataclass(frozen=True)
class ServeOptions(ListenOptions):
    """What the command line says. Sizes in bytes; ``unused``, ``ended``, ``absent``, ``every`` in seconds."""

    bundle_max: int
    store_max: int
    free_min: int
    store: Path
    kubeconfig: str | None
    context_name: str | None
    unused: float
    ended: float
    absent: float
    every: float


def run_server(options: ServeOptions) -> NoReturn:
    """Serve until a signal's exception. Raises a Refusal."""
    certificate = given_certificate(options, "secrets")
    bounds = HttpBounds(address=options.address, port=options.port, anywhere=True, end_s=5.0)
    clock = SystemClock()
    with (
        refused_as(ClusterRefused, ConnectionRefused, NotServed),
        refused_as(UnreadableInput, StoreUnusable),
        closing(connect(options.kubeconfig, options.context_name, clock=clock)) as api,
    ):
        token, origin = server_token(options.token_file, VARIABLE, "the token of uploads")
        config = _config(options)
        with staging(options.store, api, token, config, bounds, certificate, clock, say) as server:
            with printed():
                if origin:
                    print(origin)
                print(f"# {server.url}; {count(server.found, 'bundle')} in {options.store}; Ctrl-C ends it", flush=True)
            stay()


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
