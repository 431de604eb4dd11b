"""What real Spark takes: ``python benchmarks/spark_replay.py replay LOG [--passes N]`` or ``idle-tick N...``.

``replay`` reads an event log (plain or compressed) with Spark's ReplayListenerBus into the two listeners of
dynamic allocation, ExecutorAllocationListener and ExecutorMonitor, configured as the log's application was; the
first pass includes Spark's warm-up, the others run in the same JVM. ``idle-tick`` calls schedule() with N
executors that are busy, and with N that are idle and held by minExecutors. ``count`` tells how many events of
each kind Spark makes of a log.

Output: one JSON object a line, ``{"pass":1,"cpu_s":..,"process_cpu_s":..,"wall_s":..,"mb":..,"events":..}`` or
``{"kind":"idle","executors":N,"ms_per_tick":..}``. CPU seconds are the replaying thread's; ``process_cpu_s`` has
the garbage collector and the compiler in it as well. Spark is found as by tests/oracle/judge.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(PROJECT)  # as a script, this folder stands first: the judge is imported as a package

from tests.oracle.judge import JudgeUnavailableError, java_command  # noqa: E402  (the path above must come first)


def measure(mode: str, *arguments: str, heap: str = "3g") -> list[dict[str, Any]]:
    """Run a mode of ReplayBenchmark and return its lines; CalledProcessError if Spark fails.

    JudgeUnavailableError where Spark or Java is missing.
    """
    command = [*java_command("ReplayBenchmark", heap=heap), mode, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure real Spark.")
    modes = parser.add_subparsers(dest="mode", required=True)
    replay = modes.add_parser("replay", help="an event log through Spark's two listeners")
    replay.add_argument("log", type=Path)
    replay.add_argument("--passes", type=int, default=3)
    ticks = modes.add_parser("idle-tick", help="schedule() when nothing changes")
    ticks.add_argument("executors", type=int, nargs="+")
    count = modes.add_parser("count", help="events by kind, as Spark reads them")
    count.add_argument("log", type=Path)
    arguments = parser.parse_args()
    if arguments.mode == "idle-tick":
        wanted = [str(n) for n in arguments.executors]
    else:
        wanted = [str(arguments.log)] + ([str(arguments.passes)] if arguments.mode == "replay" else [])
    try:
        rows = measure(arguments.mode, *wanted)
    except subprocess.CalledProcessError as failed:
        return failed.returncode  # the JVM has said why
    except JudgeUnavailableError as missing:
        print(f"spark_replay: {missing}", file=sys.stderr)
        return 2
    for row in rows:
        print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
