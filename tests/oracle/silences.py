"""Asks real Spark what becomes of executors that fall silent, leave by themselves, or are on a host that must go.

    python tests/oracle/silences.py     # writes tests/domain/backend/silences.json

Scenarios of ``podtide.judge.SilenceTable``, hand-written; looks are on the minute, as those of a receiver that began at 0.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.oracle.judge import java_command

FILE: Final = Path(__file__).parent.parent / "domain" / "backend" / "silences.json"
S: Final = 1_000
MINUTE: Final = 60 * S
HEAD: Final = (
    "Spark 4.3.0 (HeartbeatReceiver, CoarseGrainedSchedulerBackend) on executors that fall silent, exit, or are on a host "
    "that must go: settings, lines [at, what, arguments], and for each line what happened (tests/oracle/silences.py)"
)

Line = list[Any]


def registered(*executors: str, at: int = 0, host: str = "h1") -> list[Line]:
    """Executors that register."""
    return [[at, "register", executor, host] for executor in executors]


def looks(first: int, last: int) -> list[Line]:
    """Looks, from one minute to another."""
    return [[minute * MINUTE, "look"] for minute in range(first, last + 1)]


def numbers(*ranges: range) -> list[str]:
    """Executor ids."""
    return [str(number) for numbers_ in ranges for number in numbers_]


SCENARIOS: Final[Sequence[tuple[dict[str, str], list[Line]]]] = (
    # The limit is strict, and counts from the registration where there was no heartbeat.
    ({}, [*registered("1", "2", "3"), *looks(0, 0), [59_999, "beat", "2"], [60_000, "beat", "3"], *looks(1, 5)]),
    # Who beats stays; a heartbeat of one that is not known (any more) changes nothing.
    (
        {},
        [
            *registered("1", "2"), *looks(1, 1), [100 * S, "beat", "1"], [110 * S, "beat", "9"], *looks(2, 3),
            [185 * S, "beat", "2"], [190 * S, "beat", "1"], *looks(4, 6),
        ],
    ),
    # A timeout of its own.
    (
        {"spark.storage.blockManagerHeartbeatTimeoutMs": "70s"},
        [*registered("1", "2"), [50 * S, "beat", "2"], [120 * S - 1, "beat", "2"], *looks(2, 4)],
    ),
    # The order is that of a table of 16, of 32 (the twelfth entry, or an update of one of eleven), of 64.
    ({}, [*registered("1", "2", "10", "9", "20", "5", "100", "77"), *looks(1, 3)]),
    ({}, [*registered(*numbers(range(1, 10)), "12", "13"), *looks(1, 3)]),
    ({}, [*registered(*numbers(range(1, 10)), "12", "13"), [1, "beat", "1"], *looks(1, 3)]),
    ({}, [*registered(*numbers(range(1, 10)), "12", "13", "20"), [1, "exits", "20", "done"], *looks(1, 3)]),
    ({}, [*registered(*numbers(range(1, 41))), *looks(1, 3)]),
    # One that was removed is not missed; one that decommissions is, and its end is the decommission's.
    (
        {},
        [
            *registered("1", "2", "3", "4"), [S, "kill", "1"], [2 * S, "exits", "2", "Unable to create executor"],
            [3 * S, "decommission", "3"], *looks(1, 3), [190 * S, "exits", "4", "too late"],
            [191 * S, "exits", "3", "Finished decommissioning"],
        ],
    ),
    # Hosts.
    (
        {},
        [
            *registered("2", "1"), *registered("3", host="h2"), *registered("4"), [S, "decommission", "4"],
            [2 * S, "killHost", "h1"], [3 * S, "killHost", "h1"], [4 * S, "killHost", "h7"], [5 * S, "killHost", "h2"],
        ],
    ),
    (
        {},
        [
            *registered("2", "1"), *registered("3", host="h2"), [S, "decommission", "2"],
            [2 * S, "decommissionHost", "h1"], [3 * S, "decommissionHost", "h1"], [4 * S, "decommissionHost", "h7"],
            [5 * S, "exits", "1", "Finished decommissioning"], [6 * S, "killHost", "h1"], *looks(1, 3),
        ],
    ),
)  # fmt: skip


def main() -> None:
    """Ask, and write the answers down."""
    given = "\n".join(json.dumps({"conf": conf, "lines": lines}) for conf, lines in SCENARIOS)
    done = subprocess.run(java_command("SilenceTable"), input=given, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [[conf, lines, answer] for (conf, lines), answer in zip(SCENARIOS, answers, strict=True)]
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in [[HEAD], *rows])
    FILE.write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
