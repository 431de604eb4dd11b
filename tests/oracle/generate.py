"""Generate random scenarios and have real Spark answer them.

``python tests/oracle/generate.py --seed S --n N --steps K --out DIR`` writes N scenarios of K ticks each,
``DIR/dynamic-<S>-<i>.jsonl`` with Spark's answers in ``...expect.jsonl``, and ``DIR/coverage.json``; ``--gzip``
compresses them. ``--kind`` makes scenarios of the Kubernetes side instead (kinds.py), called by their kind. They are
made in closed loop with the judge (world.py and its like), but once written they are static and replay anywhere.
The same arguments give the same bytes.

It ends with a table of the rules that the scenarios reached, told from Spark's answers, and names those that
they did not reach; ``--strict`` makes an unreached rule an error (exit code 1). ``--judge`` writes nothing and
only counts, to try a generator out.

The judge needs Java and pyspark 4.3.0: see judge.py. A line that Spark cannot read stops the generator, because
a scenario must hold nothing that an event log could not.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import IO, Final

PROJECT: Final = Path(__file__).resolve().parent.parent.parent
if __name__ == "__main__":
    sys.path[0] = str(PROJECT)  # as a script, this folder stands first: its modules are imported as a package

from tests.oracle.judge import Judge, JudgeUnavailableError  # noqa: E402  (the path above must come first)
from tests.oracle.kinds import KINDS, Kind, Watched  # noqa: E402
from tests.oracle.storage import open_pair  # noqa: E402
from tests.oracle.world import Answers, Line  # noqa: E402

BATCH: Final = 32
"""Lines sent before their answers are read: few enough that neither pipe can fill up."""


class UnreadableLineError(RuntimeError):
    """Spark could not read a generated line."""


class Recorder:
    """A sink that asks the judge, writes scenario and answers, and shows both to the coverage."""

    def __init__(self, judge: Judge, refusals: bool, scenario: IO[str] | None, answers: IO[str] | None) -> None:
        self._judge = judge
        self._refusals = refusals
        self._scenario = scenario
        self._answers = answers
        self._unsent: list[Line] = []
        self._answered: list[tuple[Line, Answers]] = []
        self.lines = 0

    def put(self, line: Line) -> None:
        """Queue a line."""
        self._unsent.append(line)
        if len(self._unsent) >= BATCH:
            self._flush()

    def settle(self) -> list[tuple[Line, Answers]]:
        """Send what is queued; return all lines since the last call with their answers."""
        self._flush()
        answered, self._answered = self._answered, []
        return answered

    def _flush(self) -> None:
        texts = [json.dumps(line, separators=(",", ":")) for line in self._unsent]
        for line, text, answers in zip(self._unsent, texts, self._judge.ask_all(texts), strict=True):
            parsed: Answers = [json.loads(answer) for answer in answers]
            refusable = self._refusals and "conf" in line
            if any("error" in answer for answer in parsed) and not refusable:
                raise UnreadableLineError(f"{text[:500]}\n-> {answers}")
            if self._scenario is not None and self._answers is not None:
                self._scenario.write(text + "\n")
                self._answers.writelines(answer + "\n" for answer in answers)
            self._answered.append((line, parsed))
        self.lines += len(texts)
        self._unsent.clear()


def scenario(
    judge: Judge, seed: str, steps: int, files: tuple[IO[str], IO[str]] | None, kind: Kind = KINDS["eam"]
) -> Counter[str]:
    """Make one scenario; return what it reached: the kind's rules and further things, and its lines."""
    recorder = Recorder(judge, kind.refusals, *(files or (None, None)))
    counts = kind.play(random.Random(seed), Watched(recorder), steps)
    recorder.settle()
    counts["lines"] = recorder.lines
    return counts


def report(kind: Kind, total: Counter[str], scenarios: Counter[str]) -> tuple[str, list[str]]:
    """Return the coverage table as text, and the names of the rules that were not reached."""
    wanted = [*kind.rules, *kind.further]
    missed = [rule for rule in wanted if not total[rule]]
    width = max(map(len, wanted))
    rows = [f"{'rule'.ljust(width)}  {'times':>9}  {'scenarios':>9}"]
    said = kind.rules.get
    rows += [f"{rule.ljust(width)}  {total[rule]:>9}  {scenarios[rule]:>9}  {said(rule, '')}" for rule in wanted]
    rows.append(f"{len(wanted) - len(missed)} of {len(wanted)} reached")
    rows += [f"not reached: {rule}  {kind.rules.get(rule, '')}" for rule in missed]
    rows += [f"out of reach: {rule}: {why}" for rule, why in kind.beyond.items()]
    return "\n".join(rows), missed


def main() -> int:
    """Generate what the command line asks for."""
    parser = argparse.ArgumentParser(description="Random scenarios, answered by real Spark.")
    parser.add_argument("--seed", required=True, help="any text; the scenarios follow from it")
    parser.add_argument("--kind", choices=KINDS, default="eam", help="kind of scenario (eam)")
    parser.add_argument("--n", type=int, default=300, help="scenarios (300)")
    parser.add_argument("--steps", type=int, help="steps in each: ticks, rounds, rows (300 ticks, else fewer)")
    parser.add_argument("--out", type=Path, help="folder to write to")
    parser.add_argument("--gzip", action="store_true", help="compress")
    parser.add_argument("--judge", action="store_true", help="count only, write nothing")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a rule is not reached")
    arguments = parser.parse_args()
    if not arguments.judge and arguments.out is None:
        parser.error("--out DIR is needed (or --judge)")
    kind = KINDS[arguments.kind]
    steps = kind.steps if arguments.steps is None else arguments.steps
    total: Counter[str] = Counter()
    scenarios: Counter[str] = Counter()
    each: dict[str, dict[str, int]] = {}
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        with Judge(arguments.kind) as judge:
            for i in range(arguments.n):
                name = f"{kind.stem}-{arguments.seed}-{i:03}"
                files = None if arguments.judge else open_pair(arguments.out, name, arguments.gzip)
                counts = scenario(judge, f"{arguments.seed}/{i}", steps, files, kind)
                for file in files or ():
                    file.close()
                total.update(counts)
                scenarios.update(rule for rule, count in counts.items() if count)
                each[name] = dict(sorted(counts.items()))
                if sys.stderr.isatty():
                    print(f"\r{i + 1} of {arguments.n} scenarios", end="", file=sys.stderr)
    except (JudgeUnavailableError, UnreadableLineError) as failed:
        print(f"generate: {failed}", file=sys.stderr)
        return 2
    text, missed = report(kind, total, scenarios)
    if arguments.out is not None and not arguments.judge:
        (arguments.out / "coverage.json").write_text(json.dumps({"total": dict(sorted(total.items())), "each": each}))
    print(text)
    print(f"{arguments.n} scenarios, {total['lines']} lines, seed {arguments.seed}")
    return 1 if missed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
