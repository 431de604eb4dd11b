"""Where the simulations of a search are made: in this process, or in a few that hold the applications already.

A bench holds the studies (an application, the behaviour of its cluster, its conf) and runs one ``Errand`` at a time.
Processes get them once, by pickle, when they start; after that an errand is a variant, a seed and a limit, and an answer is
one ``RerunOutcome``. So memory is that of the applications, once for each process, however many configs are tried. A process
that dies (out of memory, as a rule) is replaced, and its errand ends the search with the reason. On an interrupt from the
keyboard the processes are ended with it, and they end by themselves when this one is gone.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from returns.pipeline import is_successful

from podtide.adapters.process_pool import Ended, Workers
from podtide.domain.base.units import Millis
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Variant
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.whatif.search.skew import evened
from podtide.entrypoints.whatif.run import RerunFunction, Study, planned

PROCESSES_MAX: Final = 64

TASKS_OF_A_PROCESS: Final = 2_000_000
"""Tasks to simulate in all for which another process is worth its start."""


class Errand(NamedTuple):
    """One simulation. ``study``: by its place; the variant is one that can be planned; ``even``: a stage whose work is
    spread evenly over its tasks."""

    study: int
    variant: Variant
    seed: int
    limit_ms: Millis | None = None
    watch: bool = False
    even: int | None = None


class BenchError(Exception):
    """A simulation could not be made; one printable line."""


@dataclass(frozen=True)
class Bench:
    """What a process holds. It is sent by pickle, ``rerun`` by its name."""

    studies: tuple[Study, ...]
    rerun: RerunFunction = run_again

    def run(self, errand: Errand) -> RerunOutcome:
        """Make one simulation."""
        study = self.studies[errand.study]
        plan = planned(study, errand.variant)
        if not is_successful(plan):
            raise BenchError(f"{errand.variant.name}: {plan.failure()[0]}")
        application = study.application if errand.even is None else evened(study.application, errand.even)
        return self.rerun(
            application, study.behaviour, plan.unwrap(), errand.seed, watch=errand.watch, limit_ms=errand.limit_ms
        )

    def __call__(self, request: bytes) -> bytes:
        """The same for another process."""
        return pickle.dumps(self.run(pickle.loads(request)))  # noqa: S301 - written by this program's own other end


Runner = Callable[[Sequence[Errand]], list[RerunOutcome]]
"""Makes simulations and answers in their order. Raises BenchError."""


def processes_for(studies: Sequence[Study], simulations: int) -> int:
    """How many processes are worth it: no more than there are processors, and none for little work."""
    tasks = max((study.application.tasks for study in studies), default=0) * simulations
    return max(1, min(processors(), PROCESSES_MAX, tasks // TASKS_OF_A_PROCESS + 1))


def processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


@contextmanager
def runner(
    studies: Sequence[Study],
    processes: int,
    *,
    rerun: RerunFunction = run_again,
    done: Callable[[], None] = lambda: None,
) -> Iterator[Runner]:
    """A runner over these studies. ``done`` is called after each simulation."""
    bench = Bench(tuple(_slim(study) for study in studies), rerun)
    if processes <= 1:

        def here(errands: Sequence[Errand]) -> list[RerunOutcome]:
            outcomes = []
            for errand in errands:
                outcomes.append(bench.run(errand))
                done()
            return outcomes

        yield here
        return
    with Workers(bench, min(processes, PROCESSES_MAX)) as workers:

        def there(errands: Sequence[Errand]) -> list[RerunOutcome]:
            outcomes: dict[int, RerunOutcome] = {}
            for place, answer in workers.run((place, pickle.dumps(errand)) for place, errand in enumerate(errands)):
                if isinstance(answer, Ended):
                    raise BenchError(f"a simulation of {errands[place].variant.name!r} came to nothing: {answer.why}")
                outcomes[place] = pickle.loads(answer)  # noqa: S301 - written by this program's own other end
                done()
            return [outcomes[place] for place in range(len(errands))]

        yield there


def _slim(study: Study) -> Study:
    """Without the curves of the log's own config, which nobody there looks at."""
    bare = replace(study.replay.typical, curve=(), stages=(), decisions=())
    return replace(study, replay=replace(study.replay, typical=bare, outcomes=(bare,)))
