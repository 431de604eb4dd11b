"""What a change of config does to each application of a corpus, without a command line.

Each log is worked on by itself: read, studied (its own config run again, for the own error), run under both sides with the
same seeds. That is a ``Differ``'s work on one log, and its answer is a row of the document; a few processes share the logs,
and one that dies over a log, or takes too long, costs that row and nothing else.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from returns.pipeline import is_successful

from podtide.adapters.process_pool import Ended, Workers
from podtide.adapters.views.whatif.diff_document import DiffRow, DiffRun, DiffStatus, bad_row, row
from podtide.domain.conf.spark_conf import ConfError
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Plan
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.whatif.calibration import CALIBRATION
from podtide.domain.whatif.comparison import decisions_compared, taken
from podtide.domain.whatif.planning import plan
from podtide.domain.whatif.prediction import SURE, Certainty, amounts, certainty, change_of
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import typical
from podtide.entrypoints.whatif.diff_sides import ConfigSide
from podtide.entrypoints.whatif.ground import Ground
from podtide.entrypoints.whatif.logs import LogFault, Read, UnusableLog, read_log, shown_error, studied
from podtide.entrypoints.whatif.run import RerunFunction, Study


@dataclass(frozen=True)
class Differ:
    """Compares one log at a time. It is sent to processes by pickle, ``read`` and ``rerun`` by their names."""

    base: ConfigSide
    candidate: ConfigSide
    ground: Ground = field(default_factory=Ground)
    prices: Prices | None = None
    read: Read = read_log
    rerun: RerunFunction = run_again

    def row(self, log: str) -> DiffRow:
        """The row of a log. Raises OverridesRefused."""
        found = studied(log, self.ground, self.read, self.rerun)
        if isinstance(found, UnusableLog):
            status = DiffStatus.UNREADABLE if found.fault is LogFault.UNREADABLE else DiffStatus.REFUSED
            return bad_row(log, status, found.why)
        study = found.study
        plans: list[Plan] = []
        for side in (self.base, self.candidate):
            made = _planned(study, side, self.base if side is self.candidate else None)
            if isinstance(made, tuple):
                why = "; ".join(shown_error(error, study.conf.conf) for error in made)
                return bad_row(log, DiffStatus.NOT_STARTED, f"{side.name}: {why}", study.application, side.name)
            plans.append(made)
        outcomes = [self._outcomes(study, made) for made in plans]
        sides = [_run(made, outs, self.prices) for made, outs in zip(plans, outcomes, strict=True)]
        sides[1] = sides[1]._replace(certainty=_sure(study, plans, outcomes))
        decisions = decisions_compared(outcomes[0][0].decisions, outcomes[1][0].decisions)
        return row(log, study.application, study.error, sides[0], sides[1], decisions)

    def _outcomes(self, study: Study, made: Plan) -> list[RerunOutcome]:
        """One run for each seed; the first, with the recorded luck, is watched for its decisions."""
        return [
            self.rerun(study.application, study.behaviour, made, seed, watch=seed == study.seeds[0])
            for seed in study.seeds
        ]

    def __call__(self, request: bytes) -> bytes:
        """The same for another process."""
        return pickle.dumps(self.row(request.decode("utf-8", "surrogateescape")))


def compare(
    differ: Differ,
    logs: Sequence[str],
    processes: int = 1,
    *,
    progress: Callable[[int], None] = lambda _done: None,
) -> list[DiffRow]:
    """The rows of all logs, in their order; several are worked on by processes of their own, even if it is one at a time.

    ``progress``: told how many are done. Raises WorkersError, and OverridesRefused where the ground is at fault.
    """
    rows: dict[int, DiffRow] = {}
    for place, made in _rows(differ, logs, processes):
        rows[place] = made
        progress(len(rows))
    return [rows[place] for place in range(len(logs))]


def _rows(differ: Differ, logs: Sequence[str], processes: int) -> Iterator[tuple[int, DiffRow]]:
    if len(logs) == 1:
        yield 0, differ.row(logs[0])
        return
    with Workers(differ, max(1, min(processes, len(logs)))) as workers:
        requests = ((place, log.encode("utf-8", "surrogateescape")) for place, log in enumerate(logs))
        for place, answer in workers.run(requests):
            if isinstance(answer, Ended):
                yield place, bad_row(logs[place], DiffStatus.UNREADABLE, answer.why)
            else:
                yield place, pickle.loads(answer)  # noqa: S301 - written by this program's own other end


def _planned(study: Study, side: ConfigSide, base: ConfigSide | None) -> Plan | tuple[ConfError, ...]:
    recorded = study.conf.conf
    made = plan(
        study.application,
        side.conf(recorded),
        side.variant(recorded, base),
        cluster=study.cluster,
        behaviour=study.behaviour,
        pools=study.pools,
    )
    return made.unwrap() if is_successful(made) else made.failure()


def _sure(study: Study, plans: Sequence[Plan], outcomes: Sequence[Sequence[RerunOutcome]]) -> Certainty:
    """How sure the candidate's figures are beside those of the base; both are certain to be alike where every run is."""
    base, candidate = outcomes
    if all(_taken_alike(one, other) for one, other in zip(base, candidate, strict=True)):
        return SURE
    change = change_of(plans[1], plans[0])
    known = amounts(typical(base))
    return certainty(CALIBRATION, change, candidate, typical(candidate), known, study.error.shares)


def _taken_alike(one: RerunOutcome, other: RerunOutcome) -> bool:
    return (one.runtime_ms, one.executor_ms, one.billed_ms) == (other.runtime_ms, other.executor_ms, other.billed_ms)


def _run(made: Plan, outcomes: Sequence[RerunOutcome], prices: Prices | None) -> DiffRun:
    unfinished = next((one.unfinished for one in outcomes if one.unfinished is not None), None)
    sums = tuple(taken(one, made, prices) for one in outcomes)
    return DiffRun(made.conf, sums, unfinished=unfinished, notes=made.notes)
