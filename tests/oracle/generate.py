"""Generate random scenarios and have real Spark answer them.

``python tests/oracle/generate.py --seed S --n N --steps K --out DIR`` writes N scenarios of K ticks each,
``DIR/dynamic-<S>-<i>.jsonl`` with Spark's answers in ``...expect.jsonl``, and ``DIR/coverage.json``; ``--gzip``
compresses them. The scenarios are made in closed loop with the judge (world.py), but once written they are
static and replay anywhere. The same arguments give the same bytes.

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

from tests.oracle import oddities  # noqa: E402  (the path above must come first)
from tests.oracle.events import OPTIONAL, Dialect  # noqa: E402
from tests.oracle.judge import Judge, JudgeUnavailableError  # noqa: E402
from tests.oracle.reached import BEYOND, RULES, Reached  # noqa: E402
from tests.oracle.settings import draw  # noqa: E402
from tests.oracle.storage import open_pair  # noqa: E402
from tests.oracle.world import Answers, Line, World  # noqa: E402

BATCH: Final = 32
"""Lines sent before their answers are read: few enough that neither pipe can fill up."""


class UnreadableLineError(RuntimeError):
    """Spark could not read a generated line."""


class Recorder:
    """A sink that asks the judge, writes scenario and answers, and shows both to the coverage."""

    def __init__(self, judge: Judge, scenario: IO[str] | None, answers: IO[str] | None) -> None:
        self._judge = judge
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
            if any("error" in answer for answer in parsed):
                raise UnreadableLineError(f"{text[:500]}\n-> {answers}")
            if self._scenario is not None and self._answers is not None:
                self._scenario.write(text + "\n")
                self._answers.writelines(answer + "\n" for answer in answers)
            self._answered.append((line, parsed))
        self.lines += len(texts)
        self._unsent.clear()


class _Shown:
    """A recorder whose answers the coverage sees before the world does."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.reached: Reached | None = None

    def put(self, line: Line) -> None:
        self.recorder.put(line)

    def settle(self) -> list[tuple[Line, Answers]]:
        answered = self.recorder.settle()
        if self.reached is not None:
            for line, answers in answered:
                self.reached.see(line, answers)
        return answered


def draw_dialect(r: random.Random) -> Dialect:
    """Draw the age of the log: most have all fields, some lack a few, some nearly all."""
    how = r.random()
    if how < 0.5:
        return Dialect(null_metrics=r.random() < 0.3)
    missing = r.sample(OPTIONAL, r.randint(1, 4) if how < 0.8 else len(OPTIONAL) - 2)
    return Dialect(frozenset(missing), r.random() < 0.5)


def scenario(judge: Judge, seed: str, steps: int, files: tuple[IO[str], IO[str]] | None) -> Counter[str]:
    """Make one scenario; return what it reached: rules, ``oddity: name`` and ``without: field`` counts."""
    r = random.Random(seed)
    setting, dialect = draw(r), draw_dialect(r)
    sink = _Shown(Recorder(judge, *(files or (None, None))))
    world = World(r, sink, setting, dialect)
    sink.reached = Reached(setting, world.profiles)
    world.run(steps, oddities.strike)
    counts = sink.reached.counts
    counts.update(f"oddity: {name}" for name in world.struck)
    counts.update(f"without: {name}" for name in dialect.without)
    counts["null metrics"] += dialect.null_metrics
    counts["lines"] = sink.recorder.lines
    return counts


def report(total: Counter[str], scenarios: Counter[str]) -> tuple[str, list[str]]:
    """Return the coverage table as text, and the names of the rules that were not reached."""
    wanted = [*RULES, *(f"oddity: {f.__name__}" for f in dict.fromkeys(oddities.ODDITIES))]
    wanted += [f"without: {name}" for name in OPTIONAL]
    missed = [rule for rule in wanted if not total[rule]]
    width = max(map(len, wanted))
    rows = [f"{'rule'.ljust(width)}  {'times':>9}  {'scenarios':>9}"]
    rows += [f"{rule.ljust(width)}  {total[rule]:>9}  {scenarios[rule]:>9}  {RULES.get(rule, '')}" for rule in wanted]
    rows.append(f"{len(wanted) - len(missed)} of {len(wanted)} reached")
    rows += [f"not reached: {rule}  {RULES.get(rule, '')}" for rule in missed]
    rows += [f"out of reach: {rule}: {why}" for rule, why in BEYOND.items()]
    return "\n".join(rows), missed


def main() -> int:
    """Generate what the command line asks for."""
    parser = argparse.ArgumentParser(description="Random scenarios, answered by real Spark.")
    parser.add_argument("--seed", required=True, help="any text; the scenarios follow from it")
    parser.add_argument("--n", type=int, default=300, help="scenarios (300)")
    parser.add_argument("--steps", type=int, default=300, help="ticks in each (300)")
    parser.add_argument("--out", type=Path, help="folder to write to")
    parser.add_argument("--gzip", action="store_true", help="compress")
    parser.add_argument("--judge", action="store_true", help="count only, write nothing")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a rule is not reached")
    arguments = parser.parse_args()
    if not arguments.judge and arguments.out is None:
        parser.error("--out DIR is needed (or --judge)")
    total: Counter[str] = Counter()
    scenarios: Counter[str] = Counter()
    each: dict[str, dict[str, int]] = {}
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        with Judge() as judge:
            for i in range(arguments.n):
                name = f"dynamic-{arguments.seed}-{i:03}"
                files = None if arguments.judge else open_pair(arguments.out, name, arguments.gzip)
                counts = scenario(judge, f"{arguments.seed}/{i}", arguments.steps, files)
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
    text, missed = report(total, scenarios)
    if arguments.out is not None and not arguments.judge:
        (arguments.out / "coverage.json").write_text(json.dumps({"total": dict(sorted(total.items())), "each": each}))
    print(text)
    print(f"{arguments.n} scenarios, {total['lines']} lines, seed {arguments.seed}")
    return 1 if missed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
