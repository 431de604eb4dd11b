"""Builds the document of a tune: that of a what-if, with a frontier, a recommendation and what was searched.

With one log every key of the what-if's document is there and means the same: ``self_replay`` is the config that ran, run
again with the recorded luck, ``variants`` are the frontier, the static counts and the recommendation. With several logs the
figures of ``recorded``, ``self_replay`` and ``variants`` are means over the runs (of the own error: the largest), curves,
stages and decisions are left out, and ``runs`` has a row for each. docs/how-to/tune.md tells the keys in prose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import structs

from podtide.adapters.text.format import count, some
from podtide.adapters.text.safe import display
from podtide.adapters.views.bill import bill_notes
from podtide.adapters.views.whatif import model
from podtide.adapters.views.whatif.conf_snippets import lines_for
from podtide.adapters.views.whatif.document import WhatIfRequest, document, error_entry, seconds
from podtide.adapters.views.whatif.figures import MEASURES, change, percent, took
from podtide.adapters.views.whatif.findings import caveats
from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.conf.advice.effects import place_of
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.plan import AS_SIMULATED
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.search.recommendation import Reason, Row, TuneVerdict, latest, prices, times
from podtide.domain.whatif.search.search import Found
from podtide.domain.whatif.search.space import Candidate, Space
from podtide.domain.whatif.summary import OwnError, VariantAnswer

IDS_SHOWN: Final = 3
_NOT_AVERAGED: Final = frozenset({"name", "conf", "changes", "static", "faults", "decisions_left_out", "error"})
_RUN_TIMES: Final = frozenset({"runtime_s", "runtime_range_s"})
"""Of a config that does not come to its end in one run, there are none."""

_OF_ONE_RUN: Final = frozenset({"curve", "stages", "decisions"})

R = TypeVar("R", model.RecordedEntry, model.RunEntry)


class TunedRun(NamedTuple):
    """One run, as the document needs it. ``answers``: the one that ran first, then one for each candidate shown."""

    log: str
    application: Application
    conf: SparkConf
    error: OwnError
    answers: tuple[VariantAnswer, ...]


class TuneRequest(NamedTuple):
    """What was asked for. ``unusable``: logs that were left out, with the reason."""

    measure: str
    within: float
    worth: float
    max_error: float
    seeds: int
    seed: int
    prices: Prices | None = None
    notes: tuple[str, ...] = ()
    unusable: tuple[tuple[str, str], ...] = ()


def tune_document(
    runs: Sequence[TunedRun], candidates: Sequence[Candidate], space: Space, search: Found, request: TuneRequest
) -> model.Document:
    """The whole document. ``candidates``: whose answers each run has, in their order, the one that ran first."""
    documents = [_of_run(run, request) for run in runs]
    names = {one: AS_SIMULATED if one.as_ran else one.name for one in candidates}
    whole = structs.replace(
        documents[0] if len(documents) == 1 else _means(documents),
        notes=(*bill_notes(request.prices), *request.notes),
        frontier=tuple(names[row.candidate] for row in search.frontier if row.candidate in names),
        measure=request.measure,
        within=request.within,
        worth=request.worth,
        recommendation=_recommendation(search, runs, request),
        knee=_knee(search, runs, request),
        searched=_searched(space, search, request),
        runs=tuple(_run(run, place, search) for place, run in enumerate(runs)),
        unusable=tuple(model.UnusableEntry(*one) for one in request.unusable),
    )
    return _with_caveats(whole)


def _of_run(run: TunedRun, request: TuneRequest) -> model.Document:
    replay = replace(run.answers[0], variant=replace(run.answers[0].variant, name=AS_SIMULATED))
    own = WhatIfRequest(run.log, request.prices, request.max_error, request.seeds, "tune")
    return document(run.application, run.conf, replay, run.error, run.answers[1:], own)


def _means(documents: Sequence[model.Document]) -> model.Document:
    """One document of many: means, where there is a mean."""
    first = documents[0]
    replays = [one.self_replay for one in documents]
    unknowns = {unknown.what: unknown for one in documents for unknown in one.unknowns}
    return structs.replace(
        first,
        app=_apps([one.app for one in documents]),
        recorded=_mean([one.recorded for one in documents]),
        self_replay=structs.replace(_mean(replays), error=_largest([one.error for one in replays])),
        variants=tuple(_mean(variants) for variants in zip(*(one.variants for one in documents), strict=True)),
        memory=_shortest([one.memory for one in documents]),
        ideal=None,
        troubles=None,
        unknowns=tuple(unknowns.values()),
    )


def _shortest(found: Sequence[model.MemoryEntry | None]) -> model.MemoryEntry | None:
    """What is said of memory: that of the run that was most short of it; None where none was."""
    short = [one for one in found if one is not None and (one.memory_spilled or any(one.losses.values()))]
    return max(short, key=lambda one: (sum(one.losses.values()), one.memory_spilled), default=None)


def _apps(apps: Sequence[model.AppEntry]) -> model.AppEntry:
    """One application that stands for many."""
    names = list(dict.fromkeys(app.name for app in apps))
    ids = [app.id for app in apps]
    return structs.replace(
        apps[0],
        id=some(ids, IDS_SHOWN),
        name=names[0] if len(names) == 1 else f"{len(names)} applications",
        log=count(len(apps), "log"),
        started_ms=min(app.started_ms or 0 for app in apps),
        ended_ms=max(app.ended_ms or 0 for app in apps),
        **{key: sum(getattr(app, key) for app in apps) for key in ("jobs", "stages", "tasks", "executors")},
    )


def _mean(entries: Sequence[R]) -> R:
    """The means of runs; texts and settings are those of the first."""
    means: dict[str, Any] = {}
    for key in entries[0].__struct_fields__:
        values = [getattr(entry, key) for entry in entries]
        if key in _OF_ONE_RUN:
            means[key] = ()
        elif key == "unfinished":
            means[key] = next((value for value in values if value is not None), None)
        elif key == "notes":
            means[key] = tuple(dict.fromkeys(note for value in values for note in value))
        elif key in _RUN_TIMES and any(value is None for value in values):
            means[key] = None
        elif key in _NOT_AVERAGED or any(value is None for value in values):
            continue
        elif isinstance(values[0], model.BillPartsEntry):
            means[key] = _mean(values)
        elif isinstance(values[0], tuple):
            means[key] = tuple(_rounded(side) for side in zip(*values, strict=True))
        elif isinstance(values[0], dict):
            means[key] = {name: _rounded([value[name] for value in values]) for name in values[0]}
        else:
            means[key] = _rounded(values)
    return structs.replace(entries[0], **means)


def _rounded(values: Sequence[float]) -> float:
    return round(fsum(values) / len(values), 6)


def _largest(errors: Sequence[model.OwnErrorEntry]) -> model.OwnErrorEntry:
    """The error that is furthest from none, of each kind."""
    return model.OwnErrorEntry(
        *(max((getattr(one, key) for one in errors), key=abs) for key in model.OwnErrorEntry.__struct_fields__)
    )


def _recommendation(search: Found, runs: Sequence[TunedRun], request: TuneRequest) -> model.Recommendation:
    verdict = search.verdict
    advice = model.Recommendation(
        reason=verdict.reason.value,
        text=_text(verdict, search.base, runs, request),
        saving={} if verdict.row is None else _saving(verdict, request),
    )
    return advice if verdict.recommended is None else _to_paste(advice, verdict.recommended.candidate, runs)


def _knee(search: Found, runs: Sequence[TunedRun], request: TuneRequest) -> model.Recommendation | None:
    if search.knee is None or search.knee.row is None:
        return None
    text = (
        f"It keeps {percent(search.knee.saving / search.verdict.saving)} of the saving. "
        f"{_text(search.knee, search.base, runs, request)}"
    )
    return _to_paste(
        model.Recommendation(reason="knee", text=text, saving=_saving(search.knee, request)),
        search.knee.row.candidate,
        runs,
    )


def _saving(verdict: TuneVerdict, request: TuneRequest) -> dict[str, str | float]:
    return {
        "measure": request.measure,
        "share": round(verdict.saving, 6),
        "least_share": round(verdict.least, 6),
        "longer_share": round(verdict.longer, 6),
        "longest_share": round(verdict.longest, 6),
    }


def _to_paste(advice: model.Recommendation, one: Candidate, runs: Sequence[TunedRun]) -> model.Recommendation:
    """An advice with its config, and the lines to paste."""
    changes = dict(one.changes)
    cores = max(run.answers[0].plan.shapes[DEFAULT_PROFILE].cores for run in runs)
    lines = lines_for(changes, one.static, [place_of(run.conf) for run in runs], cores)
    return structs.replace(advice, name=one.name, conf=changes, static=one.static, lines=lines)


def _with_caveats(document: model.Document) -> model.Document:
    """The document whose advice says what is to be known before it is taken over."""

    def told(advice: model.Recommendation | None) -> model.Recommendation | None:
        run = document.variant(advice)
        return advice if advice is None or run is None else structs.replace(advice, caveats=caveats(document, run))

    return structs.replace(document, recommendation=told(document.recommendation), knee=told(document.knee))


def _text(verdict: TuneVerdict, base: Row, runs: Sequence[TunedRun], request: TuneRequest) -> str:
    """The recommendation in a sentence or two."""
    what = MEASURES[request.measure]
    over = "" if len(runs) == 1 else f" on any of {count(len(runs), 'run')}"
    bound = f"{percent(request.within)} longer" if request.within >= 0 else f"{percent(-request.within)} faster"
    match verdict.reason:
        case Reason.SAVES:
            return (
                f"In nine of ten runs it saves at least {percent(verdict.least)} of the {what} and takes "
                f"{_longest(verdict.longest)}{over}."
            )
        case Reason.FASTER:
            saving = change(-verdict.saving)
            return (
                f"The cheapest that is at least {bound}{over} in nine of ten runs: {_longer(verdict.longer)}, {saving} in "
                f"{what}."
            )
        case Reason.NOTHING_FAST_ENOUGH:
            return f"Nothing that was tried is at least {bound}{over} in nine of ten runs."
        case Reason.NOTHING_CHEAPER:
            return (
                f"Nothing is worth changing: nothing that was tried takes less {what} and at most {bound}{over} in nine of "
                f"ten runs, {took(base.figures[0, 0].runtime_ms / 1000)} as it ran."
            )
        case Reason.UNSURE:
            return (
                f"Nothing is worth changing: the best that was tried would save {percent(verdict.saving)} of the {what}, "
                f"but that is not sure: one run in ten may cost {percent(-verdict.least)} more than today's, or worse."
            )
        case Reason.TOO_LITTLE:
            return (
                f"Nothing is worth changing: the best that was tried would save {percent(verdict.saving)} of the {what}, "
                f"less than the {percent(request.worth)} that are worth a change."
            )


def _longer(share: float) -> str:
    if abs(share) < 0.0005:
        return "as long as it took"
    return f"{percent(share)} longer" if share > 0 else f"{percent(-share)} less time"


def _longest(share: float) -> str:
    return f"at most {percent(share)} longer" if share > 0 else f"at least {percent(-share)} less time"


def _searched(space: Space, search: Found, request: TuneRequest) -> model.Searched:
    counts = search.counts
    shown: dict[str, Any] = {axis.key: list(axis.values) for axis in space.axes}
    if space.statics:
        shown["static"] = list(space.statics)
    return model.Searched(
        space=shown,
        grid=space.size,
        whole_grid=search.whole_grid,
        candidates=counts.candidates,
        simulations=counts.simulations,
        full_simulations=counts.full,
        pruned=counts.pruned,
        pruned_by={
            "refused by Spark": counts.impossible,
            "a bound on time and price": counts.by_floor,
            "stopped while running": counts.stopped,
            "not good enough on the first runs": counts.halved,
        },
        seed=request.seed,
    )


def _run(run: TunedRun, place: int, search: Found) -> model.OneRun:
    """A run in a row: what it took, how far the model is off, and what the recommendation does to it."""
    app = run.application
    return model.OneRun(
        id=app.id,
        log=display(run.log),
        runtime_s=seconds(app.runtime_ms),
        executor_seconds=seconds(app.executor_ms),
        peak_executors=app.peak_executors,
        error=error_entry(run.error),
        recommended=None if search.verdict.recommended is None else _advised(search.verdict.recommended, place, search),
    )


def _advised(row: Row, place: int, search: Found) -> model.Advised:
    was, takes = prices(row, search.base, place)
    return model.Advised(
        runtime_share=round(times(row, search.base, place) - 1, 6),
        runtime_share_worst=round(latest(row, search.base, place) - 1, 6),
        price_share=round(takes / was - 1, 6) if was > 0 else 0.0,
    )
