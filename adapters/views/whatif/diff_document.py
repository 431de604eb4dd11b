"""The document of a diff: a row for each log, the sums, and the outcomes of the gates.

``podtide diff --json`` prints a ``DiffDocument``: its fields are the keys, in their order. A row is made where the log was
read - in another process, as a rule - so that nothing but it travels. Times are seconds, changes are shares of the base
(None where the base has nothing), their ranges are 90% prediction intervals. docs/how-to/diff.md tells the keys in prose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from msgspec import Struct, to_builtins
from returns.pipeline import is_successful

from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.safe import display, escaped
from podtide.adapters.views.bill import bill_notes
from podtide.adapters.views.whatif import model
from podtide.adapters.views.whatif.document import app_entry, error_entry, prices_entry, seconds
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.entry_types import Use
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.spark_conf import SparkConf, read
from podtide.domain.recorded.application import Application
from podtide.domain.rerun import outcome
from podtide.domain.whatif import gates as whatif_gates
from podtide.domain.whatif.comparison import DecisionsCompared, Metric, Sums, factors_of, mean, share, total
from podtide.domain.whatif.gates import Bounded, Pair, breaches
from podtide.domain.whatif.prediction import SURE, Certainty
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import OwnError

SETTINGS_MAX: Final = 200
NOTES_MAX: Final = 20
_UNITS: Final = {Metric.RUNTIME.value: "runtime_s", Metric.WAITED.value: "waited_s"}
DEFAULTS_ONLY: Final = "Spark versions are compared by their defaults only: all behaviour is that of Spark 4.3.0."


class DiffStatus(Enum):
    """The outcome for a log."""

    COMPARED = "compared"
    NOT_STARTED = "not started"
    """Spark would refuse the config of a side."""
    UNFINISHED = "unfinished"
    """A side does not come to its end."""
    UNREADABLE = "unreadable"
    REFUSED = "refused"
    """The model does not fit, or there is nothing to run."""


class DiffSide(Struct, frozen=True):
    """A side as the document names it."""

    text: str
    conf: dict[str, str | None]
    static: int | None
    version: str | None


class DiffChange(Struct, frozen=True):
    """The change of the means; nine of ten real runs change from ``low`` to ``high``, nine of ten by more than ``least``,
    nine of ten by less than ``most``."""

    share: float | None
    low: float | None
    least: float | None
    most: float | None
    high: float | None


class DiffDecision(Struct, frozen=True):
    """A decision of one side. ``executors``: how many."""

    at_s: float
    kind: str
    cause: str
    profile: int
    before: int
    after: int
    executors: int


class Parting(Struct, frozen=True):
    """Where the decisions of the two sides part for the first time."""

    base: DiffDecision | None
    candidate: DiffDecision | None


class Decisions(Struct, frozen=True):
    """How many decisions each side took, and how many of them the other did not."""

    base: int
    candidate: int
    differing: int
    first: Parting | None


class Note(Struct, frozen=True):
    """A remark on one side."""

    side: str
    note: str


class DiffRow(Struct, frozen=True):
    """A log. ``side``: whose fault it is that it has no figures."""

    log: str
    status: DiffStatus
    why: str | None
    side: str | None
    app: model.AppEntry | None


class ComparedRow(DiffRow, frozen=True):
    """A log that was run under both configs. ``settings``: what is in force on each side, where it differs."""

    error: model.OwnErrorEntry
    base: dict[Metric, float]
    candidate: dict[Metric, float]
    change: dict[Metric, DiffChange]
    decisions: Decisions
    settings: dict[str, tuple[str | None, str | None]]
    notes: tuple[Note, ...]


class DiffBreach(Struct, frozen=True):
    """What a gate failed by; no ``log``: by the sums."""

    log: str | None
    base: float | None
    candidate: float | None
    change: float | None
    why: str | None


class DiffGate(Struct, frozen=True):
    """The outcome of a gate."""

    gate: str
    metric: Metric
    failed: bool
    by: tuple[DiffBreach, ...]


class Totals(Struct, frozen=True):
    """The sums over the applications that could be compared."""

    applications: int
    counts: dict[DiffStatus, int]
    base: dict[Metric, float]
    candidate: dict[Metric, float]
    change: dict[Metric, float | None]
    decisions_differing: int


class DiffDocument(Struct, frozen=True, kw_only=True):
    """Everything that a diff has to say."""

    schema: str = schema_name("diff")
    base: DiffSide
    candidate: DiffSide
    defaults_only: bool
    prices: model.PricesEntry | None
    seeds: int
    max_error: float
    applications: tuple[DiffRow, ...]
    totals: Totals
    gates: tuple[DiffGate, ...]
    notes: tuple[str, ...]

    @property
    def compared(self) -> list[ComparedRow]:
        """The rows with figures for both sides."""
        return _compared(self.applications)

    @property
    def failed(self) -> bool:
        """Whether any gate failed."""
        return any(gate.failed for gate in self.gates)


class DiffRun(NamedTuple):
    """One side of a row: what each seed took, how sure that is beside the other side (of the base: certain), and why it did
    not come to its end, if it did not."""

    conf: SparkConf
    sums: tuple[Sums, ...]
    certainty: Certainty = SURE
    unfinished: str | None = None
    notes: tuple[str, ...] = ()


def bad_row(
    log: str, status: DiffStatus, why: str, application: Application | None = None, side: str | None = None
) -> DiffRow:
    """A log without figures. ``side``: whose fault it is."""
    app = None if application is None else app_entry(application, log)
    return DiffRow(display(log), status, escaped(why, 1000), side, app)


def row(
    log: str, application: Application, error: OwnError, base: DiffRun, candidate: DiffRun, decisions: DecisionsCompared
) -> ComparedRow:
    """The row of a log that was run under both configs."""
    sides = (("base", base), ("candidate", candidate))
    unfinished = [(name, run.unfinished) for name, run in sides if run.unfinished]
    return ComparedRow(
        log=display(log),
        status=DiffStatus.UNFINISHED if unfinished else DiffStatus.COMPARED,
        why="; ".join(f"{name}: {why}" for name, why in unfinished) or None,
        side=unfinished[0][0] if unfinished else None,
        app=app_entry(application, log),
        error=error_entry(error),
        base=_sums(mean(base.sums)),
        candidate=_sums(mean(candidate.sums)),
        change=_change(mean(base.sums), mean(candidate.sums), candidate.certainty),
        decisions=_decisions(decisions),
        settings=_settings(base.conf, candidate.conf),
        notes=tuple(Note(name, note) for name, run in sides for note in run.notes[:NOTES_MAX]),
    )


def document(
    rows: Sequence[DiffRow],
    base: DiffSide,
    candidate: DiffSide,
    gates: Sequence[whatif_gates.Gate],
    prices: Prices | None,
    seeds: int,
    max_error: float,
    notes: Sequence[str],
) -> DiffDocument:
    """The whole document; ``rows`` in the order of the logs."""
    compared = _compared(rows)
    sums = total(one.base for one in compared), total(one.candidate for one in compared)
    pairs = [pair for one in rows if (pair := _pair(one)) is not None]
    versions = base.version is not None or candidate.version is not None
    totals = Totals(
        applications=len(compared),
        counts={status: sum(one.status is status for one in rows) for status in DiffStatus},
        base=_sums(sums[0]),
        candidate=_sums(sums[1]),
        change={metric: _finite(share(sums[0][metric], sums[1][metric])) for metric in Metric if metric in sums[0]},
        decisions_differing=sum(one.decisions.differing for one in compared),
    )
    return DiffDocument(
        base=base,
        candidate=candidate,
        defaults_only=versions,
        prices=prices_entry(prices),
        seeds=seeds,
        max_error=max_error,
        applications=tuple(rows),
        totals=totals,
        gates=tuple(
            DiffGate(gate.text, gate.metric, bool(by), tuple(map(_breach, by)))
            for gate, by in ((gate, breaches(gate, pairs)) for gate in gates)
        ),
        notes=(*([DEFAULTS_ONLY] if versions else []), *bill_notes(prices), *notes),
    )


def _compared(rows: Sequence[DiffRow]) -> list[ComparedRow]:
    return [one for one in rows if isinstance(one, ComparedRow) and one.status is DiffStatus.COMPARED]


def _pair(one: DiffRow) -> Pair | None:
    """A row as gates look at it; None where the candidate is not to blame for having no figures."""
    if isinstance(one, ComparedRow) and one.status is DiffStatus.COMPARED:
        return Pair(one.log, one.base, {metric: _bounded(one, metric) for metric in one.candidate})
    ended = one.status in (DiffStatus.UNFINISHED, DiffStatus.NOT_STARTED)
    return Pair(one.log, {}, {}, one.why) if ended and one.side == "candidate" else None


def _breach(one: whatif_gates.Breach) -> DiffBreach:
    if one.why is not None:
        return DiffBreach(one.application, None, None, None, one.why)
    change = _finite(share(one.base, one.candidate))
    return DiffBreach(one.application, _rounded(one.base), _rounded(one.candidate), change, None)


def builtins(document: DiffDocument) -> dict[str, Any]:
    """The document as plain objects, keys in their order: what ``--json`` prints. Times say their unit."""
    made: dict[str, Any] = to_builtins(document)
    for place in (*made["applications"], made["totals"]):
        for side in ("base", "candidate"):
            if place.get(side) is not None:
                place[side] = {_UNITS.get(name, name): value for name, value in place[side].items()}
    return made


def _sums(sums: Sums) -> dict[Metric, float]:
    return {metric: _rounded(value) for metric, value in sums.items()}


def _change(base: Sums, candidate: Sums, certainty: Certainty) -> dict[Metric, DiffChange]:
    def changed(metric: Metric, factor: float) -> float | None:
        return _finite(share(base[metric], candidate[metric] * factor))

    return {
        metric: DiffChange(changed(metric, 1.0), *(changed(metric, one) for one in factors_of(metric, certainty)))
        for metric in base
    }


def _bounded(one: ComparedRow, metric: Metric) -> Bounded:
    """What a gate looks at: the candidate's figure with what nine of ten runs lie above and below."""
    takes, was, change = one.candidate[metric], one.base[metric], one.change[metric]
    if change.least is None or change.most is None:  # of nothing there are no shares
        return Bounded(takes, takes, takes)
    return Bounded(takes, was * (1 + change.least), was * (1 + change.most))


def _decisions(compared: DecisionsCompared) -> Decisions:
    first = None if compared.first is None else Parting(*(_decision(one) for one in compared.first))
    return Decisions(compared.base, compared.candidate, compared.differing, first)


def _decision(one: outcome.Decision | None) -> DiffDecision | None:
    if one is None:
        return None
    return DiffDecision(seconds(one.at_ms), one.kind, one.cause, one.profile, one.before, one.after, len(one.executors))


def _settings(base: SparkConf, candidate: SparkConf) -> dict[str, tuple[str | None, str | None]]:
    """What is in force on each side of the settings that decide, where it differs; redacted as either side wants it."""
    redactions = (redaction_of(base), redaction_of(candidate))
    made: dict[str, tuple[str | None, str | None]] = {}
    for key, entry in KEYS.items():
        if entry.use is not Use.DECIDES or len(made) >= SETTINGS_MAX:
            continue
        texts = [_in_force(conf, key) for conf in (base, candidate)]
        if texts[0] == texts[1]:
            continue
        for redaction in redactions:
            texts = [None if text is None else redaction.shown(key, text) for text in texts]
        made[key] = (texts[0], texts[1])
    return made


def _in_force(conf: SparkConf, key: str) -> str | None:
    reading = read(conf, key)
    if not is_successful(reading):
        return reading.failure().value
    value = reading.unwrap().value
    return None if value is None else KEYS[key].type.spell(value)


def _rounded(value: float) -> float:
    return round(value, 6)


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
