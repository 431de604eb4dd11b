"""Logs that say what shall happen to whoever assesses them, and an ``assess`` that does it: found by workers by its name.

A fake log is one line of JSON with an "Event", so it passes for a log; ``do`` says what happens. "wait" waits until
somebody opens the named pipe beside the log (``<log>.gate``), which is also how a test learns that it is being worked on.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

from podtide.adapters.eventlog.bytes.errors import LogCorrupt
from podtide.adapters.fleet.rows import FleetRow, RowStatus
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.entrypoints.fleet.work import FleetOptions


def fake_log(path: Path, do: str = "ok", **more: Any) -> Path:
    """Write a fake log."""
    path.write_text(json.dumps({"Event": "fake", "do": do, **more}) + "\n")
    return path


def fake_logs(folder: Path, count: int, **more: Any) -> Path:
    """A folder of well-behaved logs."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        fake_log(folder / f"app-{number:06}", number=number, **more)
    return folder


def fake_assess(path: str, options: FleetOptions) -> FleetRow:
    """See the module."""
    asked = json.loads(Path(path).read_text())
    number = asked.get("number", 0)
    match asked["do"]:
        case "refuse":
            return FleetRow(
                log=path, status=RowStatus.REFUSED, reason=f"the model does not fit: +{number}% in run time"
            )
        case "damaged":
            raise LogCorrupt(path, path, 7, "fake")
        case "error":
            raise ValueError("a fault of podtide's own")
        case "hang":
            threading.Event().wait()
        case "die":
            os._exit(7)
        case "memory":
            bytearray(3 << 30)
        case "wait" if (gate := Path(f"{path}.gate")).exists():
            Path(f"{path}.pid").write_text(str(os.getpid()))
            gate.read_bytes()
        case _:
            pass
    return FleetRow(
        log=path,
        status=RowStatus.OK,
        app_id=f"app-{number}",
        app_name=asked.get("name", f"job {number % 7}"),
        spark_version="4.3.0",
        started_ms=1_700_000_000_000 + number,
        tasks_started=number,
        runtime_s=10.0,
        executor_seconds=100.0,
        billed_seconds=110.0,
        core_hours=1.0,
        gb_hours=2.0,
        cost=3.0 if options.prices else None,
        ledger={SpendCause.RUNNING.value: 60.0, SpendCause.MINIMUM.value: 30.0, SpendCause.STARTING.value: 20.0},
        waited_s=4.0,
        waiting={Limit.START_UP.value: 3.0, Limit.BATCH.value: 1.0},
        error_runtime=-0.01,
        compared=5,
        best="lean",
        best_conf={"spark.dynamicAllocation.executorIdleTimeout": "15s", "spark.executor.instances": None},
        saving_core_hours=0.25,
        saving_cost=0.75 if options.prices else None,
        saving_share=0.25,
        saving_least_core_hours=0.2,
        saving_least_cost=0.6 if options.prices else None,
    )


def main() -> None:
    """``podtide`` with a ``fleet`` that assesses fake logs."""
    from podtide.entrypoints import cli  # noqa: PLC0415 - workers import this module for less
    from podtide.entrypoints.fleet import command as fleet_command  # noqa: PLC0415 - workers import this module for less

    cli.COMMANDS["fleet"] = ("podtide.entrypoints.fleet.command", "a table")
    fleet_command.run_fleet = partial(fleet_command.run_fleet, assess=fake_assess)
    code = cli.run(sys.argv[1:])
    if "FLEET_MEMORY" in os.environ:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        Path(os.environ["FLEET_MEMORY"]).write_text(str(peak))
    sys.exit(code)
