"""Small hand-written scenarios, one oddity of Spark 4.3.0 each; ``python tests/oracle/quirks.py --out DIR``.

Real Spark's answers come from the judge, so a scenario says what is done, not what follows; its comment says
what to look for. The names are those of the files in tests/conformance/data (``quirk-<name>.jsonl.gz``); those of other
kinds than dynamic allocation stand in a folder called by the kind.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parent.parent.parent
if __name__ == "__main__":
    sys.path[0] = str(PROJECT)  # as a script, this folder stands first: its modules are imported as a package

from tests.oracle import quirks_executors, quirks_targets, quirks_yarn  # noqa: E402  (the path above must come first)
from tests.oracle.judge import Judge, JudgeUnavailableError  # noqa: E402
from tests.oracle.quirk_lines import SCENARIOS, Line  # noqa: E402
from tests.oracle.storage import open_pair  # noqa: E402


def answer(folder: Path, compressed: bool, kind: str, scenarios: dict[str, list[Line]]) -> int:
    """Write every scenario of a kind and Spark's answers; return how many."""
    folder.mkdir(parents=True, exist_ok=True)
    with Judge(kind) as judge:
        for name, lines in scenarios.items():
            asked, answered = open_pair(folder, name, compressed)
            with asked, answered:
                for line in lines:
                    text = json.dumps(line, separators=(",", ":"))
                    asked.write(text + "\n")
                    answered.writelines(told + "\n" for told in judge.ask(text))
    return len(scenarios)


def main() -> int:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description="Hand-written scenarios, answered by real Spark.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--gzip", action="store_true", help="compress")
    arguments = parser.parse_args()
    quirks_targets.define_targets()
    quirks_targets.define_needs()
    quirks_executors.define_tasks()
    quirks_executors.define_removals()
    quirks_executors.define_storage()
    quirks_executors.define_settings()
    quirks_yarn.define_requests()
    quirks_yarn.define_containers()
    quirks_yarn.define_failures()
    quirks_yarn.define_conf()
    try:
        count = answer(arguments.out, arguments.gzip, "eam", SCENARIOS)
        count += answer(arguments.out / "yarn", arguments.gzip, "yarn", quirks_yarn.SCENARIOS)
    except JudgeUnavailableError as missing:
        print(f"quirks: {missing}", file=sys.stderr)
        return 2
    print(f"{count} scenarios")
    return 0


if __name__ == "__main__":
    sys.exit(main())
