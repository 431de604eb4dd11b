"""The answer of a tune, for whoever asks: the command line, the library, an assistant.

All logs are read and run again under their own config first; those that the model does not fit are left out and said so.
Then one search over all that is left (``domain.whatif.search``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from podtide.adapters.text.format import count
from podtide.adapters.text.safe import display, escaped
from podtide.adapters.views.whatif.model import Document
from podtide.adapters.views.whatif.tune_document import TunedRun, TuneRequest, tune_document
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.whatif.search.defaults import default_space, footing
from podtide.domain.whatif.search.in_effect import in_effect
from podtide.domain.whatif.search.space import AS_RAN, Space
from podtide.entrypoints.common.output import Misused, ModelRefused, Refusal, UnreadableInput, refused_as
from podtide.entrypoints.whatif.ground import Ground
from podtide.entrypoints.whatif.logs import LogFault, OverridesRefused, Read, UnusableLog, UsableLog, studied
from podtide.entrypoints.whatif.run import Announced, RerunFunction
from podtide.entrypoints.whatif.tune import SEEDS, Tuned, TuneWish, in_order, tune as tune_runs
from podtide.entrypoints.whatif.tune_space import Edit, SpaceError, edited
from podtide.entrypoints.whatif.workers import BenchError

OWN_GROUND: Final = Ground(seeds=SEEDS)


@dataclass(frozen=True, slots=True)
class TuneTerms:
    """What is asked. ``ground``: what all logs are studied with; ``edits``: of the space; ``remarks``: what is to be said of
    what was given."""

    ground: Ground = OWN_GROUND
    wish: TuneWish = field(default_factory=TuneWish)
    edits: tuple[Edit, ...] = ()
    remarks: tuple[str, ...] = ()


def tune_answer(
    logs: Sequence[str],
    terms: TuneTerms,
    *,
    read: Read,
    rerun: RerunFunction = run_again,
    say: Callable[[str], None] = lambda _line: None,
) -> Document:
    """The document of a tune over these logs, at least one. ``say``: is told what is under way, in words that are safe to
    print. Raises Misused for a space or settings that cannot be, ModelRefused and UnreadableInput where no log is usable."""
    usable, unusable = _studied(logs, terms.ground, read, rerun, say)
    if not usable:
        raise _nothing(unusable)
    cases = in_order(usable)
    space, effects = in_effect(_space(cases, terms))

    def went_on(simulations: int) -> None:
        say(f"tuning  {count(simulations, 'simulation')}, {count(terms.wish.budget, 'config')} to consider")

    with refused_as(Misused, BenchError):
        tuned = tune_runs(cases, space, terms.wish, rerun=rerun, progress=went_on)
    return _document(tuned, terms, [*terms.remarks, *effects, *_notes(cases)], unusable)


def _space(cases: Sequence[UsableLog], terms: TuneTerms) -> Space:
    """The space of these runs, as the user wants it. Raises Misused."""
    runs = [footing(case.study.application, case.study.conf.conf) for case in cases]
    with refused_as(Misused, SpaceError):
        return edited(default_space(runs, shaped=terms.wish.prices is not None), terms.edits)


def _document(tuned: Tuned, terms: TuneTerms, notes: Sequence[str], unusable: Sequence[UnusableLog]) -> Document:
    candidates = (AS_RAN, *(one for one in tuned.answers if not one.as_ran))
    runs = [
        TunedRun(
            case.log,
            case.study.application,
            case.study.conf.conf,
            case.study.error,
            tuple(tuned.answers[one][place] for one in candidates),
        )
        for place, case in enumerate(tuned.cases)
    ]
    request = TuneRequest(
        tuned.measure.value,
        tuned.wish.within,
        tuned.wish.worth,
        terms.ground.max_error,
        terms.ground.seeds,
        tuned.wish.seed,
        tuned.wish.prices,
        tuple(dict.fromkeys(notes)),
        tuple((display(one.log), f"{one.fault.value}: {one.why}") for one in unusable),
    )
    return tune_document(runs, candidates, tuned.space, tuned.found, request)


def _notes(cases: Sequence[UsableLog]) -> list[str]:
    """What is to be said of the runs together."""
    notes = [note for case in cases for note in case.study.conf.notes]
    names = list(dict.fromkeys(case.study.application.name for case in cases))
    if len(names) > 1:
        listed = ", ".join(escaped(name, 60) for name in names[:3]) + (", ..." if len(names) > 3 else "")
        notes.insert(0, f"The logs are of {len(names)} applications ({listed}): one config is sought for all of them.")
    return notes


def _studied(
    logs: Sequence[str], ground: Ground, read: Read, rerun: RerunFunction, say: Callable[[str], None]
) -> tuple[list[UsableLog], list[UnusableLog]]:
    usable: list[UsableLog] = []
    unusable: list[UnusableLog] = []
    runs = Announced(rerun, say)
    for place, log in enumerate(logs):
        runs.begin(f"reading and simulating log {place + 1} of {len(logs)}")
        try:
            one = studied(log, ground, read, runs)
        except OverridesRefused as wrong:
            raise Misused(
                *(f"{e.key} = {_hidden(e.key, e.value, ground)!r}: expected {e.expected}" for e in wrong.errors)
            ) from None
        if isinstance(one, UsableLog):
            usable.append(one)
        else:
            unusable.append(one)
    return usable, unusable


def _hidden(key: str, value: str, ground: Ground) -> str:
    for conf in ground.overrides:
        value = redaction_of(conf).shown(key, value)
    return value


def _nothing(unusable: Sequence[UnusableLog]) -> Refusal:
    lines = [f"{display(one.log)}: {one.why}" for one in unusable]
    if any(one.fault is LogFault.REFUSED for one in unusable):
        return ModelRefused(*lines)
    return UnreadableInput(*lines)
