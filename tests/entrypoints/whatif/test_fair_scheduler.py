"""``--fair-scheduler``: the pools' weights reach every run of a study, and what is wrong with the file is said at once."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from podtide.domain.base.units import Millis
from podtide.domain.rerun.plan import Variant
from podtide.domain.rerun.rerun import rerun
from podtide.domain.scheduler.rules import FairPool
from podtide.entrypoints.whatif.ground import Ground
from podtide.entrypoints.whatif.logs import UsableLog, studied
from podtide.entrypoints.whatif.run import ask, evaluate, planned, study
from tests.support import commands
from tests.support.rerun_play import AT_ONCE, app, job, stage
from tests.support.whatif_log import STATIC, write_log

FAIR = {
    "spark.scheduler.mode": "FAIR",
    "spark.executor.instances": "2",
    "spark.master": "yarn",
    "spark.executor.cores": "1",
}
POOLS = '<allocations><pool name="b">\n<minShare>{}</minShare></pool></allocations>'
STAGES = [stage(number, [100] * 4, job=number, completed_ms=400) for number in range(2)]
WORK = app(
    *STAGES,
    jobs=[job(number, [STAGES[number]], pool=pool, ended_ms=400) for number, pool in enumerate("ab")],
    properties=FAIR,
)

whatif = partial(commands.answer, "whatif")
tune = partial(commands.answer, "tune")


def ends(pools: dict[str, FairPool], variant: Variant | None = None) -> list[Millis]:
    """How long after the other one each of two jobs ends, on two slots, under the log's own config or a variant."""
    found = study(WORK, behaviour=AT_ONCE, seeds=1, pools=pools).unwrap()
    found = pickle.loads(pickle.dumps(found))  # as it goes to other processes
    made = planned(found, Variant("same") if variant is None else variant).unwrap()
    [outcome] = evaluate(found.application, found.behaviour, made, watch=True)
    first = min(one.completed_ms for one in outcome.stages)
    return [one.completed_ms - first for one in outcome.stages]


def test_pools_are_those_of_every_run() -> None:
    """The job that comes first has both slots for its first two tasks."""
    assert ends({}) == [0, 100]
    assert ends({"b": FairPool(min_share=2)}) == [100, 0]
    assert ends({"b": FairPool(min_share=2)}, Variant("fifo", {"spark.scheduler.mode": None})) == [0, 200]


@pytest.mark.parametrize(("version", "lags"), [("4.3.0", [0, 100]), ("3.3.4", [0, 200])])
def test_jobs_of_the_default_pool_share_evenly_since_spark_3_4(version: str, lags: list[Millis]) -> None:
    jobs = [replace(one, pool=None) for one in WORK.jobs]
    found = study(replace(WORK, jobs=tuple(jobs), spark_version=version), behaviour=AT_ONCE, seeds=1).unwrap()
    made = planned(found, Variant("same")).unwrap()
    [outcome] = evaluate(found.application, found.behaviour, made, watch=True)
    first = min(one.completed_ms for one in outcome.stages)
    assert [one.completed_ms - first for one in outcome.stages] == lags


def test_pools_that_decide_nothing_are_remarked_upon() -> None:
    found = study(WORK, behaviour=AT_ONCE, seeds=1, pools={"b": FairPool(2)}).unwrap()
    fair, fifo = (
        ask(found, Variant("fair")).unwrap(),
        ask(found, Variant("x", {"spark.scheduler.mode": "FIFO"})).unwrap(),
    )
    note = "The pools of --fair-scheduler decide nothing with spark.scheduler.mode=FIFO."
    assert note in fifo.plan.notes
    assert note not in fair.plan.notes


def test_logs_of_a_corpus_have_them_too() -> None:
    made = studied("log", Ground(pools={"b": FairPool(2)}, max_error=99.0), lambda _: WORK, rerun)
    assert isinstance(made, UsableLog)
    assert made.study.pools == {"b": FairPool(2)}


@pytest.mark.parametrize("command", [whatif, tune])
def test_a_file_on_the_command_line(command: partial[commands.Answer], tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", {**STATIC, "spark.scheduler.mode": "FAIR"})
    file = tmp_path / "fairscheduler.xml"
    file.write_text(POOLS.format(2))
    rest = ("--seeds", "1") if command is whatif else ("--seeds", "1", "--budget", "3", "--jobs", "1")
    assert command(log, "--fair-scheduler", file, *rest).code == 0
    file.write_text(POOLS.format("two"))
    answer = command(log, "--fair-scheduler", file, *rest)
    assert answer.code == 2
    assert f"{file}:2: pool b: minShare = 'two': expected a whole number, 0 or more" in answer.err
    assert command(log, "--fair-scheduler", tmp_path / "none.xml", *rest).code == 2
