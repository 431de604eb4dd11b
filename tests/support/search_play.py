"""Small applications, and a model of time and price that can be worked out by hand."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final

from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.recorded.application import Application, Leave, RecordedExecutor, RecordedJob, RecordedStage
from podtide.domain.whatif.search.pareto import ParetoPoint
from podtide.domain.whatif.search.recommendation import Figures
from podtide.domain.whatif.search.search import Dialogue, Found, Trial

START: Final = 1_700_000_000_000

Model = Callable[[Trial], Figures]


def application(
    properties: dict[str, str] | None = None,
    *,
    tasks: int = 8,
    task_ms: int = 1_000,
    executors: int = 2,
    cores: int = 1,
    runtime_s: int = 60,
    version: str = "4.3.0",
    number: int = 0,
) -> Application:
    """One job of one stage; its executors are there from start to end."""
    end = START + runtime_s * 1000
    stage = RecordedStage(0, 0, "count", ProfileId(0), START, end, array("q", [task_ms] * tasks))
    job = RecordedJob(0, START, end, True, (0,), ())
    return Application(
        f"app-{number}",
        "play",
        version,
        START,
        end,
        True,
        {} if properties is None else properties,
        (job,),
        (stage,),
        tuple(
            RecordedExecutor(ExecutorId(str(one)), "host", ProfileId(0), cores, START, None, Leave.STAYED)
            for one in range(executors)
        ),
    )


def converse(talk: Dialogue, model: Model, heard: list[Trial] | None = None) -> Found:
    """Answer every trial of a search by a model, as a bench would: a run that passes its limit is stopped there."""
    answers: Sequence[Figures] = ()
    try:
        batch = next(talk)
        while True:
            if heard is not None:
                heard.extend(batch)
            answers = [limited(trial, model(trial)) for trial in batch]
            batch = talk.send(answers)
    except StopIteration as end:
        found = end.value
        assert isinstance(found, Found)
        return found


def limited(trial: Trial, figures: Figures) -> Figures:
    """What a simulation with a limit tells."""
    if trial.limit_ms is not None and figures.runtime_ms > trial.limit_ms:
        return Figures(trial.limit_ms, figures.price / 2, finished=False)
    return figures


def dominates(one: ParetoPoint, other: ParetoPoint) -> bool:
    """Whether ``one`` is no worse in both and better in one."""
    return one.time <= other.time and one.price <= other.price and one != other
