"""Small hand-written scenarios, one oddity of Spark 4.3.0 each; ``python tests/oracle/quirks.py --out DIR``.

Real Spark's answers come from the judge, so a scenario says what is done, not what follows; its comment says
what to look for. The names are those of the files in tests/conformance/data (``quirk-<name>.jsonl.gz``).
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

from tests.oracle import quirks_executors, quirks_targets  # noqa: E402  (the path above must come first)
from tests.oracle.judge import Judge, JudgeUnavailableError  # noqa: E402
from tests.oracle.quirk_lines import SCENARIOS  # noqa: E402
from tests.oracle.storage import open_pair  # noqa: E402


def answer(folder: Path, compressed: bool) -> int:
    """Write every scenario and Spark's answers; return how many."""
    with Judge() as judge:
        for name, lines in SCENARIOS.items():
            asked, answered = open_pair(folder, name, compressed)
            with asked, answered:
                for line in lines:
                    text = json.dumps(line, separators=(",", ":"))
                    asked.write(text + "\n")
                    answered.writelines(told + "\n" for told in judge.ask(text))
    return len(SCENARIOS)


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
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        count = answer(arguments.out, arguments.gzip)
    except JudgeUnavailableError as missing:
        print(f"quirks: {missing}", file=sys.stderr)
        return 2
    print(f"{count} scenarios")
    return 0


if __name__ == "__main__":
    sys.exit(main())
