"""Documents of a what-if and a tune as large as they come: 100,000 tasks in 400 stages, 20,000 points to a curve.

Made by a rough play of an application that ramps up, works in waves, waits for its driver and lets executors go; what
matters is that shape, size and keys are those of the real thing, and that the ledger sums to the bill.
"""

from __future__ import annotations

import random
from typing import Any

from podtide.adapters.views.whatif.figures import CAUSES, LIMITS

Document = dict[str, Any]

RUNTIME_S = 3724.318
WASTE = {
    "lost work": 0.021,
    "starting": 0.088,
    "over-requested": 0.014,
    "kept by minimum": 0.017,
    "kept by cached data": 0.061,
    "kept by shuffle data": 0.134,
    "idle before the timeout": 0.082,
    "waiting for the last task": 0.057,
    "serial work": 0.025,
    "fewer tasks than slots": 0.015,
    "waiting for the driver": 0.104,
    "leaving": 0.004,
    "other": 0.003,
}
NAMES = (
    "collect at ReportJob.scala:41",
    "save at FeatureWriter.scala:118",
    "parquet at NativeMethodAccessorImpl.java:0",
    "mapPartitions at Sessionize.scala:77",
    "count at Checks.scala:12",
    "$anonfun$withThreadLocalCaptured$1 at FutureTask.java:264",
)


def curve(runtime: float, peak: int, points: int, seed: int) -> list[list[float]]:
    """[t, needed, target, pending, running, busy]: waves of need, a doubling ramp, starts that take a while, idle ends."""
    dice = random.Random(seed)
    rows: list[list[float]] = []
    waves = [
        (0.02 * runtime, 2.4),
        *((runtime * (0.16 + 0.12 * k + dice.uniform(-0.02, 0.02)), dice.uniform(0.4, 2.6)) for k in range(7)),
    ]
    step = runtime / points
    target, running, raise_at, ramp, idle_since = 2, 0.0, 0.0, 1, 0.0
    starting: list[float] = []
    for index in range(points):
        at = index * step
        needed = 0
        for wave, height in waves:
            if wave <= at < wave + 0.1 * runtime:
                needed = max(needed, int(peak * height * (1 - (at - wave) / (0.1 * runtime)) + dice.uniform(0, 1.6)))
        want = min(peak, max(2, needed))
        if want > target and at >= raise_at:
            target, ramp, raise_at = min(want, target + ramp), ramp * 2, at + 4.0
        elif want <= target:
            target, ramp, raise_at = want, 1, at + 1.0
        running += sum(1 for ready in starting if ready <= at)
        starting = [ready for ready in starting if ready > at]
        starting += [at + dice.uniform(9, 28) for _ in range(min(8, target - int(running) - len(starting)))]
        if running <= max(needed, target):
            idle_since = at
        elif at - idle_since > 25:
            running = max(float(target), running - peak * step / 25)
        rows.append([round(at, 3), needed, target, len(starting), int(running), min(int(running), needed)])
    return rows


def decisions(points: list[list[float]], many: int, seed: int) -> list[dict[str, Any]]:
    """Targets that moved along the curve, and idle executors let go."""
    dice = random.Random(seed)
    made: list[dict[str, Any]] = []
    every = max(1, len(points) // many)
    before = 0
    for at, needed, target, _, running, busy in points[::every]:
        after = int(target)
        if after != before:
            rose = after > before
            made.append(
                {
                    "at_s": at,
                    "kind": "target",
                    "cause": "sustained backlog" if rose else "lowered need",
                    "facts": {
                        "pending_tasks": int(needed) * 3,
                        "running_tasks": int(busy) * 4,
                        "need": int(needed),
                        "tasks_per_executor": 4,
                        "executors": int(running),
                        "increment": 4,
                        "bound": "ramp" if after < needed else None,
                    },
                    "profile": 0,
                    "before": before,
                    "after": after,
                    "executors": [],
                }
            )
        else:
            gone = [str(dice.randrange(1, 400)) for _ in range(dice.randrange(1, 4))]
            made.append(
                {
                    "at_s": at,
                    "kind": "release",
                    "cause": "idle",
                    "executors": gone,
                    "profile": 0,
                    "before": 0,
                    "after": 0,
                    "facts": {"idle_since_ms": int(at * 1000) - 60_400, "timeout_ms": 60_000},
                }
            )
        before = after
    return made[:many]


def stages(runtime: float, many: int, tasks: int, seed: int) -> list[dict[str, Any]]:
    """Stages one after another, a few of them long."""
    dice = random.Random(seed)
    weights = [dice.paretovariate(1.1) for _ in range(many)]
    whole, at, made = sum(weights), 0.03 * runtime, []
    for index, weight in enumerate(weights):
        took = 0.95 * runtime * weight / whole
        made.append(
            {
                "stage": index,
                "name": NAMES[index % len(NAMES)],
                "tasks": max(1, round(tasks * weight / whole)),
                "submitted_s": round(at, 3),
                "completed_s": round(at + took, 3),
            }
        )
        at += took
    return made


def run(
    name: str,
    runtime: float,
    seconds: float,
    peak: int,
    *,
    conf: dict[str, str | None] | None = None,
    static: int | None = None,
    detail: bool = True,
    points: int = 20_000,
    moves: int = 2_000,
    seed: int = 1,
    work: float = 1.0,
    many_stages: int = 400,
    tasks: int = 100_000,
) -> dict[str, Any]:
    """A variant. ``work``: how the idle time compares with the recorded config's."""
    billed = seconds * 1.09
    idle = {cause: share * work for cause, share in WASTE.items()}
    ledger = {cause: round(billed * share, 3) for cause, share in idle.items()}
    ledger["running"] = round(billed - sum(ledger.values()), 3)
    waited = round(runtime * 0.17 * work, 3)
    limits = {"batch size and delay": 0.55, "start-up": 0.24, "doubling ramp": 0.13, "maximum": 0.06, "other": 0.02}
    cost = round(seconds / 3600 * 4 * 0.0415 + seconds / 3600 * 18 * 0.0046, 4)
    made: dict[str, Any] = {
        "name": name,
        "conf": conf or {},
        "static": static,
        "runtime_s": runtime,
        "runtime_range_s": [round(runtime * 0.962, 3), round(runtime * 1.041, 3)],
        "executor_seconds": seconds,
        "executor_seconds_range": [round(seconds * 0.955, 3), round(seconds * 1.038, 3)],
        "billed_seconds": billed,
        "filled_seconds": round(ledger["running"] * 0.9, 3),
        "peak_executors": peak,
        "executors_started": peak * 2 + 3,
        "executors_lost": 2,
        "core_hours": seconds / 900,
        "gb_hours": seconds / 200,
        "cost": cost,
        "cost_range": [round(cost * 0.955, 4), round(cost * 1.038, 4)],
        "idle_share": 1 - ledger["running"] / billed * 0.9,
        "requests": 731,
        "waited_s": waited,
        "ledger": ledger,
        "waiting": {limit: round(waited * share, 3) for limit, share in limits.items()},
        "tasks_again": 212,
        "unfinished": None,
        "notes": [],
    }
    if detail:
        made["curve"] = curve(runtime, peak, points, seed)
        made["decisions"] = decisions(made["curve"], moves, seed)
        made["stages"] = stages(runtime, many_stages, tasks, seed)
    return made


def without_variants(name: str) -> dict[str, Any]:
    """What is said without a variant. ``name``: that of its stages, and in its texts."""
    stage = {"stage": 7, "name": name, "tasks": 2_000}

    def point(count: int) -> dict[str, Any]:
        time, cost = 300.0 + 8_000.0 / count, 1.0 + 0.01 * count
        return {
            "executors": count, "runtime_s": time, "runtime_range_s": [0.9 * time, 1.1 * time],
            "executor_seconds": count * time, "executor_seconds_range": [0.9 * count * time, 1.2 * count * time],
            "cost": cost, "cost_range": [0.9 * cost, 1.1 * cost], "peak_executors": count, "idle_share": 0.4,
        }  # fmt: skip

    return {
        "ideal": {
            "runtime_s": 290.0, "tasks_s": 240.0, "driver_s": 50.0, "after_s": 2.0, "path_stages": 30,
            "path": [{**stage, "stage": at, "longest_s": 8.0, "driver_s": 1.6} for at in range(30)],
        },
        "troubles": {
            "skewed": [{**stage, "longest_s": 90.0, "median_s": 9.0, "costs_s": 61.0}], "skewed_stages": 14,
            "failed": [{**stage, "attempts": 2, "failed_attempts": 1, "tries": 9, "recomputed": 4,
                        "reasons": [{"reason": "ExecutorLostFailure", "detail": name, "count": 9}]}],
            "failed_stages": 1,
        },
        "overview": {
            "single": {"how": "rerun", "runtime_s": 8_300.0, "runtime_range_s": [8_000.0, 9_000.0]},
            "curves": [{"setting": one, "points": [point(count) for count in (1, 2, 5, 11, 24, 40, 55, 120)]}
                       for one in ("static", "spark.dynamicAllocation.maxExecutors")],
            "measure": "cost",
            "trials": [{"name": name, "reason": "saves", "text": f"saves 9% ({name})", "conf": {"spark.x": name},
                        "saving": {}, "point": point(24)}],
            "notes": [name],
        },
    }  # fmt: skip


def document(
    name: str = "nightly-features", points: int = 20_000, moves: int = 2_000, variants: bool = True
) -> Document:
    """A what-if over a large application: the record, its replay and five variants."""
    seconds, peak = 268_940.0, 120
    replay = run("as simulated", RUNTIME_S * 1.012, seconds * 0.966, peak, points=points, moves=moves)
    replay["error"] = {"runtime": 0.012, "executor_seconds": -0.034, "peak_executors": 0, "curve": 0.071}
    prefix = "spark.dynamicAllocation."
    others = [
        run(
            "max=60",
            RUNTIME_S * 1.14,
            seconds * 0.79,
            60,
            conf={prefix + "maxExecutors": "60"},
            points=points,
            moves=moves,
            seed=2,
            work=0.8,
        ),
        run(
            "batch=50",
            RUNTIME_S * 0.91,
            seconds * 0.985,
            peak,
            conf={"spark.kubernetes.allocation.batch.size": "50"},
            points=points,
            moves=moves,
            seed=3,
            work=0.7,
        ),
        run(
            "quick release",
            RUNTIME_S * 1.02,
            seconds * 0.84,
            peak,
            seed=4,
            work=0.62,
            points=points,
            moves=moves,
            conf={prefix + "executorIdleTimeout": "20s", prefix + "shuffleTracking.timeout": "120s"},
        ),
        run("static 80", RUNTIME_S * 0.88, seconds * 1.13, 80, static=80, seed=5, work=1.3, points=points, moves=moves),
        run("spot 2/h", RUNTIME_S * 1.07, seconds * 1.01, peak, seed=6, work=1.1, points=points, moves=moves),
    ]
    recorded_curve = [[row[0], max(0, int(row[4] * 0.97))] for row in curve(RUNTIME_S, peak, points, 1)]
    cost = round(seconds / 3600 * 4 * 0.0415 + seconds / 3600 * 18 * 0.0046, 4)
    return {
        "schema": "podtide/whatif/1",
        "app": {
            "id": "spark-4f1c9e0b7a7d4f0e8b1d",
            "name": name,
            "spark_version": "4.3.0",
            "started_ms": 1_795_141_200_000,
            "ended_ms": 1_795_141_200_000 + round(RUNTIME_S * 1000),
            "log": "s3a://logs/spark/eventlog_v2_spark-4f1c9e0b7a7d4f0e8b1d",
            "jobs": 61,
            "stages": 400,
            "tasks": 100_000,
            "executors": 243,
        },
        "recorded": {
            "runtime_s": RUNTIME_S,
            "executor_seconds": seconds,
            "peak_executors": peak,
            "curve": recorded_curve,
            "core_hours": seconds / 900,
            "gb_hours": seconds / 200,
            "cost": cost,
        },
        "self_replay": replay,
        "variants": others if variants else [],
        **without_variants(name),
        "prices": {"core_hour": 0.0415, "gb_hour": 0.0046, "spot_share": 0.6, "spot_discount": 0.65, "currency": "USD"},
        "max_error": 0.25,
        "seeds": 9,
        "unknowns": [
            {
                "what": "When each pod was asked for.",
                "effect": "Request times were inferred by replaying the log; off by up to 1.2 s.",
            },
            {
                "what": "Task locality.",
                "effect": "Tasks take any free slot; a run that waits for locality would be slower.",
            },
            {"what": "Which cached blocks were read.", "effect": "A recomputed block costs its task's recorded time."},
        ],
        "notes": ["2 executors were lost in the log; every variant loses them at the same age."],
    }


def tune_document(candidates: int = 60) -> Document:
    """What a tune adds: a frontier, a recommendation with lines to paste, the knee, and what was searched."""
    made = document(points=2_000, moves=200)
    dice = random.Random(7)
    recorded = made["recorded"]
    for index in range(candidates):
        slow = dice.uniform(0.8, 1.5)
        dear = max(0.62, 1.02 / slow**0.7) * dice.uniform(1.0, 1.5)
        made["variants"].append(
            run(
                f"c{index}",
                recorded["runtime_s"] * slow,
                recorded["executor_seconds"] * dear,
                80,
                detail=False,
                conf={"spark.dynamicAllocation.maxExecutors": str(20 + index)},
            )
        )
    made["variants"].append(
        run(
            "max=72, idle=20s, batch=50",
            recorded["runtime_s"] * 0.97,
            recorded["executor_seconds"] * 0.71,
            72,
            points=2_000,
            moves=200,
            work=0.5,
            conf={
                "spark.dynamicAllocation.maxExecutors": "72",
                "spark.dynamicAllocation.executorIdleTimeout": "20s",
                "spark.kubernetes.allocation.batch.size": "50",
            },
        )
    )
    best: list[str] = []
    cheapest = float("inf")
    for one in sorted(made["variants"], key=lambda one: one["runtime_s"]):
        if one["cost"] < cheapest:
            cheapest = one["cost"]
            best.append(one["name"])
    picked = made["variants"][-1]
    conf = picked["conf"]
    return made | {
        "schema": "podtide/tune/1",
        "frontier": best,
        "recommendation": {
            "name": picked["name"],
            "conf": conf,
            "saving": {"cost": 3.1},
            "text": "The cheapest config that is at most 10% slower in all 4 runs.",
            "lines": {
                "spark-defaults.conf": "".join(f"{key} {value}\n" for key, value in conf.items()),
                "spark-submit": " \\\n".join(f"--conf {key}={value}" for key, value in conf.items()),
                "SparkApplication": "spec:\n  sparkConf:\n"
                + "".join(f'    "{key}": "{value}"\n' for key, value in conf.items()),
            },
        },
        "knee": {
            "name": best[0],
            "text": "It keeps 90% of the saving.",
            "lines": {"spark-defaults.conf": "spark.dynamicAllocation.maxExecutors 90\n"},
            "caveats": ["What it costs is not sure."],
        },
        "searched": {
            "space": {
                "spark.dynamicAllocation.maxExecutors": [20, 40, 72, 120],
                "spark.dynamicAllocation.executorIdleTimeout": ["20s", "60s"],
            },
            "candidates": 1_200,
            "full_simulations": 96,
            "pruned": 1_104,
        },
    }


assert set(WASTE) | {"running"} == set(CAUSES)
assert {"batch size and delay", "start-up", "doubling ramp", "maximum", "other"} <= set(LIMITS)
