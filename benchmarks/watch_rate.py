"""How many finished runs ``podtide watch`` takes up in a second, and its memory: copies of the real logs of tests/compared.

``python -m benchmarks.watch_rate FOLDER LOGS [--jobs N]``: writes so many logs into a folder (once), and makes one pass over
them with a new history. Each copy has an application id and a night of its own; the names are those of 20 applications.
"""

from __future__ import annotations

import resource
import shutil
import sys
import time
from pathlib import Path

from podtide.entrypoints.cli import run
from tests.support.nightly_logs import another_night, lines_of
from tests.support.project import PROJECT

APPLICATIONS = 20


def main() -> None:
    folder, logs, *options = sys.argv[1:]
    place = Path(folder)
    if not (place / "logs").exists():
        kinds = [lines_of(log) for log in sorted((PROJECT / "tests/compared/nightly").glob("*/run1/log/*"))]
        for number in range(int(logs)):
            lines = kinds[number % len(kinds)].replace(b'"App Name":"', b'"App Name":"%d ' % (number % APPLICATIONS))
            another_night(lines, place / "logs" / f"{number % 100:02}", number)
    shutil.rmtree(place / "history", ignore_errors=True)
    (place / "history").mkdir()
    begun = time.monotonic()
    code = run(["watch", str(place / "logs"), "--history", str(place / "history" / "h.db"), "--once", *options])
    took = time.monotonic() - begun
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    print(
        f"exit code {code}; {int(logs) / took:.1f} logs a second, {cpu / int(logs):.3f} s CPU a log; "
        f"parent {own.ru_maxrss / 1024:.0f} MB, largest worker {others.ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main()
