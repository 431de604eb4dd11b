"""The embedded API server as a process: ``python -m benchmarks.api_server_process KUBECONFIG``, until its input ends."""

import sys
from pathlib import Path

from podtide.adapters.api_server.serving import serving
from podtide.adapters.api_server.settings import ServingConfig
from podtide.adapters.clock import SystemClock
from podtide.domain.api_server.server import begin
from podtide.domain.api_server.state import ApiConfig

with serving(begin(ApiConfig(), SystemClock().now()), ServingConfig(tls=True)) as server:
    server.kubeconfig(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.read()
