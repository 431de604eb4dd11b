"""The JSON document of a tune: that of a what-if, with a frontier, a recommendation and what was searched.

With one log every key of the what-if's document is there and means the same: ``self_replay`` is the config that ran, run
again with the recorded luck, ``variants`` are the frontier, the static counts and the recommendation. With several logs the
figures of ``recorded``, ``self_replay`` and ``variants`` are means over the runs (of the own error: the largest), curves,
stages and decisions are left out, and ``runs`` has a row for each. docs/tune.md tells the keys in prose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, Final, NamedTuple

from podtide.adapters.text.format import count
from podtide.adapters.text.safe import display
from podtide.adapters.views.whatif.conf_snippets import paste_lines
from podtide.adapters.views.whatif.document import Asked, document, error_entry
from podtide.adapters.views.whatif.figures import change, percent, took
from podtide.domain.conf.reader import master_of
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.plan import AS_SIMULATED
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.search.recommendation import Reason, Row, Verdict
from podtide.domain.whatif.search.search import Found
from podtide.domain.whatif.search.space import Candidate, Space
from podtide.domain.whatif.summary import Answer, OwnError

MEASURES: Final = {"cost": "cost", "executor_seconds": "executor-seconds", "core_hours": "core-hours"}
"""What is minimised besides time, in words."""

IDS_SHOWN: Final = 3
_NOT_AVERAGED: Final = frozenset({"name", "conf", "static", "faults", "unfinished", "notes", "decisions_left_out"})
_OF_ONE_RUN: Final = ("curve", "stages", "decisions")
_WHOLE_LISTS: Final = frozenset({"runtime_range_s", "executor_seconds_range", "billed_seconds_range", "cost_range"})


class Told(NamedTuple):
    """One run, as the document needs it. ``answers``: the one that ran first, then one for each candidate shown."""

    log: str
    application: Application
    conf: SparkConf
    error: OwnError
    answers: tuple[Answer, ...]


class Terms(NamedTuple):
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
    runs: Sequence[Told], candidates: Sequence[Candidate], space: Space, found: Found, terms: Terms
) -> dict[str, Any]:
    """The whole document. ``candidates``: whose answers each run has, in their order, the one that ran first."""
    documents = [_of_run(run, terms) for run in runs]
    whole = documents[0] if len(documents) == 1 else _means(documents)
    whole["notes"] = list(terms.notes)
    names = {one: AS_SIMULATED if one.as_ran else one.name for one in candidates}
    whole["frontier"] = [names[row.candidate] for row in found.frontier if row.candidate in names]
    whole["measure"] = terms.measure
    whole["within"] = terms.within
    whole["worth"] = terms.worth
    whole["recommendation"] = _recommendation(found, runs, terms)
    whole["searched"] = _searched(space, found, terms)
    whole["runs"] = [_run(run, place, found) for place, run in enumerate(runs)]
    whole["unusable"] = [{"log": log, "why": why} for log, why in terms.unusable]
    return whole


def _of_run(run: Told, terms: Terms) -> dict[str, Any]:
    asked = Asked(run.log, terms.prices, terms.max_error, terms.seeds, "tune")
    replay = replace(run.answers[0], variant=replace(run.answers[0].variant, name=AS_SIMULATED))
    return document(run.application, run.conf, replay, run.error, run.answers[1:], asked)


def _means(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One document of many: means, where there is a mean."""
    whole = dict(documents[0])
    for key in ("recorded", "self_replay"):
        whole[key] = _mean([one[key] for one in documents])
    whole["self_replay"]["error"] = _largest([one["self_replay"]["error"] for one in documents])
    whole["variants"] = [_mean(variants) for variants in zip(*(one["variants"] for one in documents), strict=True)]
    apps = [one["app"] for one in documents]
    names = list(dict.fromkeys(app["name"] for app in apps))
    ids = [app["id"] for app in apps]
    whole["app"] = {
        **apps[0],
        "id": ", ".join(ids[:IDS_SHOWN]) + (f" and {len(ids) - IDS_SHOWN} more" if len(ids) > IDS_SHOWN else ""),
        "name": names[0] if len(names) == 1 else f"{len(names)} applications",
        "log": count(len(apps), "log"),
        "started_ms": min(app["started_ms"] for app in apps),
        "ended_ms": max(app["ended_ms"] for app in apps),
        **{key: sum(app[key] for app in apps) for key in ("jobs", "stages", "tasks", "executors")},
    }
    unknowns = [unknown for one in documents for unknown in one["unknowns"]]
    whole["unknowns"] = list({unknown["what"]: unknown for unknown in unknowns}.values())
    return whole


def _mean(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The means of entries of the same shape; texts and settings are those of the first."""
    made: dict[str, Any] = {}
    for key, first in entries[0].items():
        values = [entry[key] for entry in entries]
        if key in _OF_ONE_RUN:
            made[key] = []
        elif key == "unfinished":
            made[key] = next((value for value in values if value is not None), None)
        elif key == "notes":
            made[key] = list(dict.fromkeys(note for value in values for note in value))
        elif key in _NOT_AVERAGED or any(value is None for value in values):
            made[key] = first
        elif key in _WHOLE_LISTS:
            made[key] = [_rounded(side) for side in zip(*values, strict=True)]
        elif isinstance(first, Mapping):
            made[key] = _mean(values)
        else:
            made[key] = _rounded(values)
    return made


def _rounded(values: Sequence[float]) -> float:
    return round(fsum(values) / len(values), 6)


def _largest(errors: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The error that is furthest from none, of each kind."""
    return {key: max((one[key] for one in errors), key=abs) for key in errors[0]}


def _recommendation(found: Found, runs: Sequence[Told], terms: Terms) -> dict[str, Any]:
    said, row = found.verdict, found.verdict.recommended
    entry: dict[str, Any] = {
        "name": None, "reason": said.reason.value, "text": _text(said, found.base, runs, terms), "conf": {},
        "static": None, "saving": {}, "lines": {},
    }  # fmt: skip
    if said.row is not None:
        entry["saving"] = {
            "measure": terms.measure,
            "share": round(said.saving, 6),
            "least_share": round(said.least, 6),
            "longer_share": round(said.longer, 6),
            "own_error": round(said.error, 6),
        }
    if row is not None:
        changes = dict(row.candidate.changes)
        entry["name"] = row.candidate.name
        entry["conf"] = changes
        entry["static"] = row.candidate.static
        on_yarn = all(master_of(told.conf).startswith("yarn") for told in runs)
        entry["lines"] = paste_lines(changes, row.candidate.static).document(operator=not on_yarn)
    return entry


def _text(said: Verdict, base: Row, runs: Sequence[Told], terms: Terms) -> str:
    """The recommendation in a sentence or two."""
    what = MEASURES[terms.measure]
    over = "" if len(runs) == 1 else f" on any of {count(len(runs), 'run')}"
    bound = f"{percent(terms.within)} longer" if terms.within >= 0 else f"{percent(-terms.within)} faster"
    match said.reason:
        case Reason.SAVES:
            return (
                f"It saves {percent(said.saving)} of the {what} (at least {percent(said.least)} with other luck; "
                f"the model's own error is {percent(said.error)}) and takes {_longer(said.longer)}{over}."
            )
        case Reason.FASTER:
            return f"The cheapest that is at least {bound}{over}: {_longer(said.longer)}, {change(-said.saving)} in {what}."
        case Reason.NOTHING_FAST_ENOUGH:
            return f"Nothing that was tried is at least {bound}{over}, the model's own error against it."
        case Reason.NOTHING_CHEAPER:
            return (
                f"Nothing is worth changing: nothing that was tried takes less {what} and at most {bound}{over}, "
                f"{took(base.figures[0, 0].runtime_ms / 1000)} as it ran{_against(runs)}."
            )
        case Reason.OWN_ERROR:
            return (
                f"Nothing is worth changing: the best that was tried would save {percent(said.least)} of the {what}, "
                f"and the model's own error is {percent(said.error)}."
            )
        case Reason.TOO_LITTLE:
            return (
                f"Nothing is worth changing: the best that was tried would save {percent(said.least)} of the {what}, less "
                f"than the {percent(terms.worth)} that are worth a change."
            )


def _against(runs: Sequence[Told]) -> str:
    """That the own error counts against a config, where there is one to speak of."""
    worst = max(abs(run.error.runtime) for run in runs)
    return f"; the model's own error of {percent(worst)} in run time counts against a change" if worst >= 0.005 else ""


def _longer(share: float) -> str:
    if abs(share) < 0.0005:
        return "as long as it took"
    return f"at most {percent(share)} longer" if share > 0 else f"at least {percent(-share)} less time"


def _searched(space: Space, found: Found, terms: Terms) -> dict[str, Any]:
    counts = found.counts
    shown: dict[str, Any] = {axis.key: list(axis.values) for axis in space.axes}
    if space.statics:
        shown["static"] = list(space.statics)
    return {
        "space": shown,
        "grid": space.size,
        "whole_grid": found.whole_grid,
        "candidates": counts.candidates,
        "simulations": counts.simulations,
        "full_simulations": counts.full,
        "pruned": counts.pruned,
        "pruned_by": {
            "refused by Spark": counts.impossible,
            "a bound on time and price": counts.by_floor,
            "stopped while running": counts.stopped,
            "not good enough on the first runs": counts.halved,
        },
        "seed": terms.seed,
    }


def _run(run: Told, place: int, found: Found) -> dict[str, Any]:
    """A run in a row: what it took, how far the model is off, and what the recommendation does to it."""
    app = run.application
    row = found.verdict.recommended
    entry: dict[str, Any] = {
        "id": app.id,
        "log": display(run.log),
        "runtime_s": round(app.runtime_ms / 1000, 3),
        "executor_seconds": round(app.executor_ms / 1000, 3),
        "peak_executors": app.peak_executors,
        "error": error_entry(run.error),
        "recommended": None,
    }
    if row is not None:
        base = found.base.figures
        times = [
            figures.runtime_ms / max(1, base[key].runtime_ms) - 1
            for key, figures in row.figures.items()
            if key[0] == place
        ]
        was, takes = base[place, 0].price, row.figures[place, 0].price
        entry["recommended"] = {
            "runtime_share": round(row.figures[place, 0].runtime_ms / max(1, base[place, 0].runtime_ms) - 1, 6),
            "runtime_share_worst": round(max(times), 6),
            "price_share": round(takes / was - 1, 6) if was > 0 else 0.0,
        }
    return entry
