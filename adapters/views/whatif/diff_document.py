"""The JSON document of a diff: a row for each log, the sums, and what became of the gates.

A row is a plain object, made where the log was read - in another process, as a rule - so that nothing but it travels. Times
are seconds, changes are shares of the base (null where the base has nothing), ranges are over the seeds. docs/diff.md tells
the keys in prose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from returns.pipeline import is_successful

from podtide.adapters.text.safe import display, escaped
from podtide.adapters.views.whatif.document import app_entry, error_entry, prices_entry, seconds
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.entry_types import Use
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.spark_conf import SparkConf, read
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.outcome import Decision
from podtide.domain.whatif.comparison import DecisionsCompared, Metric, Sums, mean, share, total
from podtide.domain.whatif.gates import Breach, Gate, Pair, breaches
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import OwnError

SCHEMA: Final = 1
SETTINGS_MAX: Final = 200
NOTES_MAX: Final = 20
DEFAULTS_ONLY: Final = "Spark versions are compared by their defaults only: all behaviour is that of Spark 4.3.0."


class Status(Enum):
    """What became of a log."""

    COMPARED = "compared"
    NOT_STARTED = "not started"
    """Spark would refuse the config of a side."""
    UNFINISHED = "unfinished"
    """A side does not come to its end."""
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    """The model does not fit, or there is nothing to run."""


class Run(NamedTuple):
    """One side of a row: what each seed took, and why it did not come to its end, if it did not."""

    conf: SparkConf
    sums: tuple[Sums, ...]
    unfinished: str | None = None
    notes: tuple[str, ...] = ()


def bad_row(
    log: str, status: Status, why: str, application: Application | None = None, side: str | None = None
) -> dict[str, Any]:
    """A log without figures. ``side``: whose fault it is."""
    app = None if application is None else app_entry(application, log)
    return {"log": display(log), "status": status.value, "why": escaped(why, 1000), "side": side, "app": app}


def row(
    log: str, application: Application, error: OwnError, base: Run, candidate: Run, decisions: DecisionsCompared
) -> dict[str, Any]:
    """The row of a log that was run under both configs."""
    unfinished = [(name, run.unfinished) for name, run in (("base", base), ("candidate", candidate)) if run.unfinished]
    made: dict[str, Any] = {
        "log": display(log),
        "status": Status.UNFINISHED.value if unfinished else Status.COMPARED.value,
        "why": "; ".join(f"{name}: {why}" for name, why in unfinished) or None,
        "side": unfinished[0][0] if unfinished else None,
        "app": app_entry(application, log),
        "error": error_entry(error),
        "base": _sums(mean(base.sums)),
        "candidate": _sums(mean(candidate.sums)),
        "change": _change(base.sums, candidate.sums),
        "decisions": _decisions(decisions),
        "settings": _settings(base.conf, candidate.conf),
        "notes": [{"side": "base", "note": note} for note in base.notes[:NOTES_MAX]]
        + [{"side": "candidate", "note": note} for note in candidate.notes[:NOTES_MAX]],
    }
    return made


class SideTold(NamedTuple):
    """A side as the document names it."""

    text: str
    conf: Mapping[str, str | None]
    static: int | None
    version: str | None


def document(
    rows: Sequence[dict[str, Any]],
    base: SideTold,
    candidate: SideTold,
    gates: Sequence[Gate],
    prices: Prices | None,
    seeds: int,
    max_error: float,
    notes: Sequence[str],
) -> dict[str, Any]:
    """The whole document; ``rows`` in the order of the logs."""
    compared = [one for one in rows if one["status"] == Status.COMPARED.value]
    sums = total(_read(one["base"]) for one in compared), total(_read(one["candidate"]) for one in compared)
    pairs = [pair for one in rows if (pair := _pair(one)) is not None]
    versions = base.version is not None or candidate.version is not None
    counts = {status.value: sum(one["status"] == status.value for one in rows) for status in Status}
    return {
        "schema": SCHEMA,
        "command": "diff",
        "base": base._asdict(),
        "candidate": candidate._asdict(),
        "defaults_only": versions,
        "prices": None if prices is None else prices_entry(prices),
        "seeds": seeds,
        "max_error": max_error,
        "applications": list(rows),
        "totals": {
            "applications": len(compared),
            "counts": counts,
            "base": _sums(sums[0]),
            "candidate": _sums(sums[1]),
            "change": {
                metric.value: _finite(share(sums[0][metric], sums[1][metric])) for metric in Metric if metric in sums[0]
            },
            "decisions_differing": sum(one["decisions"]["differing"] for one in compared),
        },
        "gates": [_gate(gate, breaches(gate, pairs, sums)) for gate in gates],
        "notes": [*([DEFAULTS_ONLY] if versions else []), *notes],
    }


def failed(found: Mapping[str, Any]) -> bool:
    """Whether any gate of a document failed."""
    return any(gate["failed"] for gate in found["gates"])


def _pair(one: Mapping[str, Any]) -> Pair | None:
    """A row as gates look at it; None where the candidate is not to blame for having no figures."""
    if one["status"] == Status.COMPARED.value:
        return Pair(one["log"], _read(one["base"]), _read(one["candidate"]))
    ended = one["status"] in (Status.UNFINISHED.value, Status.NOT_STARTED.value)
    return Pair(one["log"], {}, {}, one["why"]) if ended and one["side"] == "candidate" else None


def _gate(gate: Gate, found: Sequence[Breach]) -> dict[str, Any]:
    return {
        "gate": gate.text,
        "metric": gate.metric.value,
        "failed": bool(found),
        "by": [
            {
                "log": one.application,
                "base": None if one.why is not None else _rounded(one.base),
                "candidate": None if one.why is not None else _rounded(one.candidate),
                "change": None if one.why is not None else _finite(share(one.base, one.candidate)),
                "why": one.why,
            }
            for one in found
        ],
    }


def _sums(sums: Sums) -> dict[str, float]:
    return {metric.value: _rounded(value) for metric, value in sums.items()}


def _read(sums: Mapping[str, float]) -> dict[Metric, float]:
    return {Metric(name): value for name, value in sums.items()}


def _change(base: Sequence[Sums], candidate: Sequence[Sums]) -> dict[str, dict[str, float | None]]:
    """For each metric the change of the means, and the least and the most of the changes seed by seed."""
    was, takes = mean(base), mean(candidate)
    made = {}
    for metric in was:
        shares = [share(one[metric], other[metric]) for one, other in zip(base, candidate, strict=True)]
        made[metric.value] = {
            "share": _finite(share(was[metric], takes[metric])),
            "low": _finite(min(shares)),
            "high": _finite(max(shares)),
        }
    return made


def _decisions(found: DecisionsCompared) -> dict[str, Any]:
    first = None
    if found.first is not None:
        first = {"base": _decision(found.first[0]), "candidate": _decision(found.first[1])}
    return {"base": found.base, "candidate": found.candidate, "differing": found.differing, "first": first}


def _decision(one: Decision | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "at_s": seconds(one.at_ms),
        "kind": one.kind,
        "cause": one.cause,
        "profile": one.profile,
        "before": one.before,
        "after": one.after,
        "executors": len(one.executors),
    }


def _settings(base: SparkConf, candidate: SparkConf) -> dict[str, list[str | None]]:
    """What is in force on each side of the settings that decide, where it differs; redacted as either side wants it."""
    redactions = (redaction_of(base), redaction_of(candidate))
    made: dict[str, list[str | None]] = {}
    for key, entry in KEYS.items():
        if entry.use is not Use.DECIDES or len(made) >= SETTINGS_MAX:
            continue
        texts = [_in_force(conf, key) for conf in (base, candidate)]
        if texts[0] == texts[1]:
            continue
        for redaction in redactions:
            texts = [None if text is None else redaction.shown(key, text) for text in texts]
        made[key] = texts
    return made


def _in_force(conf: SparkConf, key: str) -> str | None:
    reading = read(conf, key)
    if not is_successful(reading):
        return reading.failure().value
    found = reading.unwrap()
    return None if found.value is None else KEYS[key].type.spell(found.value)


def _rounded(value: float) -> float:
    return round(value, 6)


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
