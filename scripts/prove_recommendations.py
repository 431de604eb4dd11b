"""Run recommendations for real: ``python -m scripts.prove_recommendations [--spark-python PYTHON]``.

From one recorded run of each application of tests/truth that starts its executors as a cluster does, ``podtide tune``
recommends settings; where it recommends none from one config, the next config is asked. What it recommends is run with real
Spark as scripts/make_truth_logs.py does, and benchmarks/RECOMMENDATIONS.md says what was forecast and what came. Recorded
runs are kept in a folder of their own, so that a recording that was broken off goes on where it was. Let nothing else run
meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.make_demo_log import PROJECT
from scripts.make_truth_logs import TRUTH, Recorder, TruthRun, run_of
from scripts.truth_configs import APPS, settings_of

REPORT: Final = PROJECT / "benchmarks" / "RECOMMENDATIONS.md"
SOURCES: Final = ("patient4", "static3", "kept2_6", "half6", "eager4", "double3")
"""The configs to recommend from, in turn: those first that leave most to save."""
WITHIN: Final = "20%"
MOST: Final = 6
"""Executors that one machine bears."""
SECOND: Final = ("dashboard",)
"""Applications with a second recommendation, from another config, so that there are ten."""


class Advice(NamedTuple):
    """What podtide recommends for a recorded run: the run to make, and what is forecast for it."""

    source: str
    recorded: Mapping[str, Any]
    forecast: Mapping[str, Any]
    saving: Mapping[str, Any]
    run: TruthRun


def advice(application: str, config: str) -> Advice | None:
    """The recommendation from one recorded run; None where there is none."""
    source = TRUTH / application / config / "run1"
    manifest = json.loads((source / "manifest.json").read_text(encoding="utf-8"))
    counts = ",".join(map(str, range(1, MOST + 1)))
    command = [
        sys.executable, "-m", "podtide", "tune", str(source / manifest["log"]), "--json", "--within", WITHIN,
        "--space", f"spark.dynamicAllocation.maxExecutors={counts}", "--space", f"static={counts}",
    ]  # fmt: skip
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    recommended = found["recommendation"]
    if recommended["name"] is None:
        return None
    entry = next(one for one in found["variants"] if one["name"] == recommended["name"])
    settings, workers = applied(settings_of(application, config), recommended["conf"], recommended["static"])
    made = run_of(application, config, 1)._replace(
        config=f"recommended_from_{config}", settings=settings, workers=workers
    )
    return Advice(f"{application}/{config}/run1", found["recorded"], entry, recommended["saving"], made)


def applied(
    settings: Mapping[str, str], changes: Mapping[str, str | None], static: int | None
) -> tuple[dict[str, str], int]:
    """The conf with what is recommended, and how many workers it asks for."""
    made = {**settings, **{key: text for key, text in changes.items() if text is not None}}
    for key, text in changes.items():
        if text is None:
            made.pop(key, None)
    if static is not None:
        made = {key: text for key, text in made.items() if not key.startswith("spark.dynamicAllocation.")}
    workers = static or min(MOST, int(made.get("spark.dynamicAllocation.maxExecutors", MOST)))
    made["spark.master"] = f"local-cluster[{workers},{made.get('spark.executor.cores', '1')},512]"
    return made, workers


def all_advice() -> Iterator[Advice]:
    """One recommendation for each application, and a second one where it is asked for."""
    for name, app in APPS.items():
        if not app.cluster_start or not (TRUTH / name).is_dir():
            continue
        wanted = 2 if name in SECOND else 1
        for config in SOURCES:
            found = advice(name, config) if wanted else None
            if found is not None:
                wanted -= 1
                yield found


_HEAD: Final = """# Recommendations, run for real

Written by `python -m scripts.prove_recommendations`; not edited by hand. From one recorded run each, `podtide tune
--within {within}` recommended other settings; then real Spark 4.3.0 ran with them. Intervals hold nine of ten real runs, and
so do the bounds of saving (at least) and of time (at most).

| from | recommended | run time: forecast, interval, real | executor-seconds: forecast, interval, real | \
saved: forecast, at least, real | longer: forecast, at most, real | |
|---|---|---|---|---|---|---|
"""


def row(one: Advice, manifest: Mapping[str, Any]) -> tuple[str, list[bool]]:
    """A line of the table, and what of it came true: both intervals, both bounds."""
    forecast, saving, was = one.forecast, one.saving, one.recorded
    runtime, work = manifest["app_s"], manifest["executor_seconds"]
    times, amounts = forecast["runtime_range_s"], forecast["executor_seconds_range"]
    saved, longer = 1 - work / was["executor_seconds"], runtime / was["runtime_s"] - 1
    true = [
        times[0] <= runtime <= times[1],
        amounts[0] <= work <= amounts[1],
        saved >= saving["least_share"],
        longer <= saving["longest_share"],
    ]
    misses = ", ".join(
        name
        for name, hit in zip(("run time", "executor-seconds", "saving", "bound of time"), true, strict=True)
        if not hit
    )
    cells = [
        one.source,
        forecast["name"],
        f"{forecast['runtime_s']:.1f} s, {times[0]:.1f} to {times[1]:.1f}, **{runtime:.1f}**",
        f"{forecast['executor_seconds']:.0f}, {amounts[0]:.0f} to {amounts[1]:.0f}, **{work:.0f}**",
        f"{saving['share']:.0%}, {saving['least_share']:.0%}, **{saved:.0%}**",
        f"{saving['longer_share']:+.0%}, {saving['longest_share']:+.0%}, **{longer:+.0%}**",
        f"not: {misses}" if misses else "as forecast",
    ]
    return "| " + " | ".join(cells) + " |", true


def report(rows: Sequence[tuple[str, list[bool]]]) -> str:
    """The text of the report."""
    names = (
        "run times in their interval",
        "executor-seconds in theirs",
        "savings as sure as said",
        "times as sure as said",
    )
    columns = zip(*(true for _, true in rows), strict=True)
    sums = "\n".join(f"- {name}: {sum(column)} of {len(rows)}" for name, column in zip(names, columns, strict=True))
    return _HEAD.format(within=WITHIN) + "\n".join(line for line, _ in rows) + f"\n\n{sums}\n"


def main() -> int:
    """Recommend, run, report."""
    parser = argparse.ArgumentParser(description="Run recommendations with real Spark.")
    parser.add_argument("--spark-python", type=Path, default=PROJECT / ".venv-spark" / "bin" / "python")
    parser.add_argument("--runs", type=Path, help="folder of the real runs, to keep and to go on in")
    parser.add_argument("--work", type=Path, help="scratch folder to keep (class-data archives) and use again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="proof-") as name:
        work: Path = given.work or Path(name) / "work"
        kept: Path = given.runs or Path(name) / "runs"
        work.mkdir(parents=True, exist_ok=True)
        recorder = Recorder(Path.cwd() / given.spark_python, work.resolve(), kept)
        rows = []
        for one in list(all_advice()):
            if not (kept / one.run.name).exists():
                print(recorder.record(one.run), flush=True)
            manifest = json.loads((kept / one.run.name / "manifest.json").read_text(encoding="utf-8"))
            rows.append(row(one, manifest))
            print(rows[-1][0], flush=True)
    REPORT.write_text(report(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
