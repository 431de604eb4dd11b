"""Choose a few small scenarios that together reach every rule: ``python tests/oracle/choose.py FROM TO [--n 60]``.

FROM is a folder that generate.py --gzip wrote; TO gets the chosen pairs and a ``coverage.json``
with what they reach. First every rule is covered, rarest first, by the smallest scenario that reaches it; what is
left of the number goes to the scenarios that reach most per byte. This is how tests/conformance/data was made.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import Counter
from pathlib import Path


def chosen(each: dict[str, dict[str, int]], sizes: dict[str, int], count: int) -> list[str]:
    """Return names of scenarios: a cover of all rules, then the densest of the rest."""
    reach = {name: {rule for rule, times in rules.items() if times and rule != "lines"} for name, rules in each.items()}
    holders: Counter[str] = Counter(rule for rules in reach.values() for rule in rules)
    picked: list[str] = []
    covered: set[str] = set()
    for rule in sorted(holders, key=lambda r: (holders[r], r)):
        if rule not in covered:
            best = min((name for name in reach if rule in reach[name]), key=lambda name: (sizes[name], name))
            picked.append(best)
            covered |= reach[best]
    rest = sorted(reach.keys() - set(picked), key=lambda name: (-len(reach[name]) / sizes[name], name))
    return sorted(picked + rest[: max(0, count - len(picked))])


def main() -> int:
    """Copy the chosen scenarios."""
    parser = argparse.ArgumentParser(description="Choose scenarios that together reach every rule.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--n", type=int, default=60)
    arguments = parser.parse_args()
    each = json.loads((arguments.source / "coverage.json").read_text())["each"]
    suffixes = (".jsonl.gz", ".expect.jsonl.gz")
    sizes = {name: sum((arguments.source / f"{name}{s}").stat().st_size for s in suffixes) for name in each}
    names = chosen(each, sizes, arguments.n)
    arguments.target.mkdir(parents=True, exist_ok=True)
    for name in names:
        for suffix in suffixes:
            shutil.copyfile(arguments.source / f"{name}{suffix}", arguments.target / f"{name}{suffix}")
    total: Counter[str] = Counter()
    for name in names:
        total.update(each[name])
    (arguments.target / "coverage.json").write_text(json.dumps({"total": dict(sorted(total.items()))}, indent=1) + "\n")
    print(f"{len(names)} scenarios, {sum(sizes[name] for name in names)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
