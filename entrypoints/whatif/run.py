"""The what-if, without a command line: an application's own config run again, and variants of it.

This is what ``whatif``, ``tune``, ``diff`` and ``fleet`` stand on. In order:

1. ``read_application`` (``whatif.recorded_log``) and ``whatif.planning.recorded_conf`` say what ran, and under which conf.
2. ``study`` fits the behaviour of the place where it ran, runs the log's own config again and compares: the own error.
3. ``refusal`` says why the model does not fit, if it does not; whoever asks on has been told.
4. ``ask`` answers for a variant: its figures over the seeds, with ranges. ``evaluate`` is the part of it that costs time.

Nothing here is global and nothing reads a clock. Applications, behaviours, plans, studies and answers are frozen records
that can be pickled, so ``evaluate`` and ``ask`` can be sent to other processes, PySpark workers among them, as they are.
``rerun`` is the simulation; another can be handed in where a test wants one (it has to be picklable where it is sent).

Cost: one run again per seed, and one more to watch the typical one (curve, stages, decisions) unless ``watch`` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from podtide.domain.base.units import Millis
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.unknowns import holes, lost_parts, unknown_conf
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import AS_SIMULATED, AnyCluster, Plan, Variant
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.scheduler.rules import FairPool
from podtide.domain.whatif.calibration import CALIBRATION
from podtide.domain.whatif.fit_behaviour import fit
from podtide.domain.whatif.misfit import misfit
from podtide.domain.whatif.planning import RecordedConf, plan, recorded_conf
from podtide.domain.whatif.prediction import amounts, certainty, change_of
from podtide.domain.whatif.summary import (
    MAX_ERROR,
    OWN_SEEDS,
    SEEDS,
    OwnError,
    VariantAnswer,
    answer,
    own_error,
    own_typical,
    typical,
)

SELF: Variant = Variant(AS_SIMULATED)
"""The variant that changes nothing."""


class RerunFunction(Protocol):
    """What runs an application again: ``domain.rerun.rerun``, or a fake of it."""

    def __call__(
        self,
        app: Application,
        behaviour: Behaviour,
        plan: Plan,
        seed: int = 0,
        *,
        watch: bool = False,
        limit_ms: Millis | None = None,
    ) -> RerunOutcome:
        """One run. ``watch``: also curve, stages and decisions. ``unfinished`` once its run time passes ``limit_ms``."""
        ...


@dataclass(frozen=True, slots=True)
class Study:
    """An application that is ready to be asked.

    ``conf``: the log's own, settled; ``cluster``: that of variants on Kubernetes or on YARN, None for one as in the log;
    ``seeds``: by which everything is run; ``replay``: the log's own config run again, with ``OWN_SEEDS`` at least;
    ``error``: how far that is off;
    ``pools``: of FAIR scheduling, where they are known.
    """

    application: Application
    behaviour: Behaviour
    conf: RecordedConf
    cluster: AnyCluster | None
    seeds: tuple[int, ...]
    replay: VariantAnswer
    error: OwnError
    pools: Mapping[str, FairPool] = field(default_factory=dict)


def evaluate(
    application: Application,
    behaviour: Behaviour,
    plan: Plan,
    seeds: Sequence[int] = (0,),
    *,
    watch: bool = False,
    rerun: RerunFunction = run_again,
) -> tuple[RerunOutcome, ...]:
    """Run an application again under a plan, once for each seed, in their order.

    ``seeds``: whole numbers from 0; 0 is the recorded luck. ``watch``: also fill curve, stages and decisions of the
    *typical* run (``whatif.summary.typical``), the one that is shown; the others go without, which is cheaper.
    """
    if watch and len(seeds) == 1:
        return (rerun(application, behaviour, plan, seeds[0], watch=True),)
    outcomes = [rerun(application, behaviour, plan, seed) for seed in seeds]
    if watch:
        place = outcomes.index(typical(outcomes))
        outcomes[place] = rerun(application, behaviour, plan, seeds[place], watch=True)
    return tuple(outcomes)


def study(
    application: Application,
    overrides: Sequence[SparkConf] = (),
    spark_version: str | None = None,
    *,
    behaviour: Behaviour | None = None,
    cluster: AnyCluster | None = None,
    seeds: int = SEEDS,
    pools: Mapping[str, FairPool] | None = None,
    rerun: RerunFunction = run_again,
) -> Result[Study, tuple[ConfError, ...]]:
    """Make an application ready: settle its conf, fit its behaviour, run it again as it was and compare.

    ``overrides``, ``spark_version``: what the user knows better than the log (``whatif.planning.recorded_conf``).
    ``behaviour``: instead of the fitted one. ``seeds``: how many. ``pools``: of FAIR scheduling,
    by name. Errors are those of ``overrides``.
    """
    assert seeds >= 1
    settled = recorded_conf(application, overrides, spark_version)
    if not is_successful(settled):
        return Failure(settled.failure())
    conf = settled.unwrap()
    fitted = fit(application, conf.conf) if behaviour is None else behaviour
    made = plan(application, conf.conf, SELF, cluster=cluster, behaviour=fitted, pools=pools)
    if not is_successful(made):
        return Failure(made.failure())
    own = made.unwrap()
    outcomes = [rerun(application, fitted, own, seed) for seed in range(max(seeds, OWN_SEEDS))]
    place = outcomes.index(own_typical(outcomes))
    outcomes[place] = rerun(application, fitted, own, place, watch=True)
    replay = VariantAnswer(SELF, own, tuple(outcomes), outcomes[place])
    error = own_error(application, replay.typical)
    made_study = Study(application, fitted, conf, cluster, tuple(range(seeds)), replay, error, pools or {})
    return Success(replace(made_study, replay=sure(made_study, replay)))


def refusal(study: Study, max_error: float = MAX_ERROR) -> tuple[str, ...]:
    """Why the model does not fit this application, the main thing first; () where it does: with the luck of the log, or as a
    rule with other luck."""
    application = study.application
    reasons = misfit(application, study.replay.typical, study.error, max_error)
    lucky = study.replay.outcomes[0]
    if lucky.unfinished is None and own_error(application, lucky).worst <= max_error:
        reasons = ()
    conf = unknown_conf(application)
    if lost := [why for why in (lost_parts(application), holes(application)) if why is not None]:
        return (*lost, *reasons)
    return (conf, *reasons) if reasons and conf is not None else reasons


def ask(
    study: Study, variant: Variant, *, watch: bool = True, rerun: RerunFunction = run_again
) -> Result[VariantAnswer, tuple[ConfError, ...]]:
    """What comes of a variant, or what is wrong with it."""
    made = planned(study, variant)
    return made.map(lambda ready: answered(study, variant, ready, watch=watch, rerun=rerun))


def planned(study: Study, variant: Variant) -> Result[Plan, tuple[ConfError, ...]]:
    """The plan of a variant of a study, or what is wrong with it; cheap."""
    return plan(
        study.application,
        study.conf.conf,
        variant,
        cluster=study.cluster,
        behaviour=study.behaviour,
        pools=study.pools,
    )


def answered(
    study: Study, variant: Variant, plan: Plan, *, watch: bool = True, rerun: RerunFunction = run_again
) -> VariantAnswer:
    """Run a plan of a study over its seeds."""
    outcomes = evaluate(study.application, study.behaviour, plan, study.seeds, watch=watch, rerun=rerun)
    return sure(study, answer(variant, plan, outcomes))


class Announced:
    """A rerun that says what is under way before each run: one run of a long log takes seconds.

    ``say``: is told one line, in words that are safe to print.
    """

    def __init__(self, rerun: RerunFunction, say: Callable[[str], None]) -> None:
        self._rerun = rerun
        self._say = say
        self._what = ""
        self._runs = 0

    def begin(self, what: str) -> None:
        """Runs of something else follow."""
        self._what, self._runs = what, 0
        self._say(what)

    def __call__(
        self,
        app: Application,
        behaviour: Behaviour,
        plan: Plan,
        seed: int = 0,
        *,
        watch: bool = False,
        limit_ms: Millis | None = None,
    ) -> RerunOutcome:
        """See ``RerunFunction``."""
        self._runs += 1
        self._say(f"{self._what}, run {self._runs}")
        return self._rerun(app, behaviour, plan, seed, watch=watch, limit_ms=limit_ms)


def sure(study: Study, given: VariantAnswer) -> VariantAnswer:
    """An answer with how sure it is: by what its plan changes of the log's own, and by how hard its runs are to forecast."""
    change = change_of(given.plan, study.replay.plan)
    known = amounts(study.application)
    factors = certainty(CALIBRATION, change, given.outcomes, given.typical, known, study.error.shares)
    return replace(given, change=change, certainty=factors)
