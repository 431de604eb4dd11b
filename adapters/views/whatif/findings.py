"""What a what-if found, in sentences: what happened, what it cost, why, what to change, and how sure that is.

The sentences are made of the document's figures alone and are plain text, the same in the HTML report, in a notebook and in
a terminal; names in them are as they are in the document, and whoever shows them escapes them. Differences of a variant are
to the recorded config as simulated, like with like: what the model gets wrong it gets wrong on both sides. A difference
counts only where nine of ten real runs would show one: otherwise it is called unclear.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from podtide.adapters.text.format import count
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.whatif.figures import (
    SAME,
    UNKNOWN,
    WAITED_WORDS,
    WORK,
    change,
    difference,
    executor_seconds,
    executors,
    largest,
    money,
    number,
    percent,
    share_of,
    signed,
    span,
    took,
    whole,
)
from podtide.adapters.views.whatif.memory import memory_headline
from podtide.adapters.views.whatif.model import Document, Range, RunEntry
from podtide.domain.rerun.plan import AS_SIMULATED

CLOSE: Final = 0.10
FAIR: Final = 0.25
"""How far the ends of the intervals of the recorded config may be from its forecast for a model that is called close, or
fair."""

FREE_SLOTS: Final = "slots free beside running tasks"
"""What running tasks leave of their executors."""

SLOTS_NOTED: Final = 0.005
"""Of the bill: less of it in free slots is not told apart."""

_OF_THE_LOG: Final = ("The log holds ", "The log was compacted", "The log is incomplete", "The log has no end")
"""How ``recorded.unknowns`` begins what it says of the log as a whole."""

WASTE_NAMED: Final = 3
"""Causes that a sentence names."""


class FigureVerdict(Enum):
    """How a figure of a variant stands to that of the recorded config, as simulated."""

    LESS = "less"
    MORE = "more"
    ALIKE = "unclear"
    """No difference at all lies within the range."""
    UNKNOWN = "unknown"


class Compared(NamedTuple):
    """A figure of a run beside that of the recorded config as simulated. ``change``, ``low``, ``high``: the figure and the
    ends of its range, as differences in shares of the base."""

    change: float | None
    low: float | None
    high: float | None
    verdict: FigureVerdict


class Trust(Enum):
    """How well the model forecasts the recorded config once more: by its prediction intervals, not by its own error, which
    is small wherever there is little to simulate."""

    CLOSE = "close"
    FAIR = "fair"
    ROUGH = "rough"
    MISFIT = "does not fit"


class OwnedNote(NamedTuple):
    """A note. ``names``: of the runs that it is about; none: everybody."""

    text: str
    names: tuple[str, ...] = ()


class Headlines(NamedTuple):
    """A sentence or two for each question, in the order in which they are asked."""

    happened: str
    cost: str
    why: str
    change: str
    sure: str


def headlines(document: Document) -> Headlines:
    """The answer in short."""
    change = f"{memory_headline(document)} {changing(document)}".strip()
    return Headlines(happened(document), cost(document), why(document.self_replay), change, sure(document))


def happened(document: Document) -> str:
    """``Ran 12m04s on up to 40 executors. As simulated, 38% of 2,310 billed executor-seconds did work.``"""
    recorded, bill = document.recorded, document.self_replay
    several = f"{count(len(document.runs), 'run')}, on average: ran" if len(document.runs) > 1 else "Ran"
    ran = f"{several} {took(recorded.runtime_s)} on up to {executors(recorded.peak_executors)}"
    work = share_of(bill.ledger.get(WORK, 0.0), bill.billed)
    if work is None:
        return f"{ran}: {executor_seconds(recorded.executor_seconds)}."
    filled = bill.filled_share or 0.0
    if work - filled < SLOTS_NOTED:
        return f"{ran}. As simulated, {percent(work)} of {whole(bill.billed)} billed executor-seconds did work."
    return (
        f"{ran}. As simulated, {percent(filled)} of {whole(bill.billed)} billed executor-seconds did work, slot by slot; "
        f"in {percent(work)} of them the executor ran a task in one slot at least."
    )


def cost(document: Document) -> str:
    """``As recorded, 2,310 executor-seconds, 2,474 billed: 2.6 core-hours. As simulated, 62% of the bill did no work.``"""
    recorded = document.recorded
    amounts = [f"{number(recorded.core_hours)} core-hours"] if recorded.core_hours is not None else []
    amounts += [f"{number(recorded.gb_hours)} GB-hours"] if recorded.gb_hours is not None else []
    amounts += [money(recorded.cost, document.currency)] if recorded.cost is not None else []
    first = executor_seconds(recorded.executor_seconds)
    first += f", {whole(recorded.billed_seconds)} billed" if recorded.billed_seconds is not None else ""
    first += f": {', '.join(amounts)}" if amounts else ""
    return f"As recorded, {first}. {wasted(document.self_replay)}".strip()


def wasted(run: RunEntry) -> str:
    """``As simulated, 62% of the bill did no work: 21% kept by minimum, 14% starting, 9.1% waiting for the driver.``"""
    billed = run.billed
    free = max(0.0, run.ledger.get(WORK, 0.0) - run.filled)
    idle = largest({**run.ledger, FREE_SLOTS: free if free >= SLOTS_NOTED * billed else 0.0}, WORK)
    if not idle or billed <= 0:
        return ""
    named = ", ".join(f"{percent(amount / billed)} {name}" for name, amount in idle[:WASTE_NAMED])
    rest = sum(amount for _, amount in idle[WASTE_NAMED:]) / billed
    tail = f", {percent(rest)} the rest" if rest >= SAME else ""
    idle_share = percent(sum(amount for _, amount in idle) / billed)
    return f"As simulated, {idle_share} of the bill did no work: {named}{tail}."


def why(run: RunEntry) -> str:
    """``Tasks waited 4m10s for executors: 3m02s while pods were created in batches, 40 s while executors started.``"""
    if run.unfinished is not None:
        return f"It does not come to its end: {escaped(run.unfinished, 200)}."
    if run.waited_s < 0.05:
        return "Tasks hardly waited for executors: no limit held the application back."
    limits = largest(run.waiting)
    share = share_of(run.waited_s, run.span_s)
    lead = f"Tasks waited {took(run.waited_s)} for executors" + (f" ({percent(share)} of the run)" if share else "")
    if not limits:
        return f"{lead}."
    named = [(name, amount) for name, amount in limits if amount >= 0.02 * run.waited_s] or limits[:1]
    shares = [f"{took(amount)} {WAITED_WORDS.get(name, name)}" for name, amount in named[:WASTE_NAMED]]
    return f"{lead}: {', '.join(shares)}."


def changing(document: Document) -> str:
    """What to change: the recommendation, or what stands out among the variants."""
    advice = document.recommendation
    if advice is not None:
        picked = document.recommended
        text = advice.text.strip()
        if picked is None:
            return text or "Nothing is worth changing."
        beside = document.variant(document.knee)
        nearly = "" if beside is None else f" Nearly as cheap and faster: {beside.name}: {standing(beside, document)}"
        return f"Use {picked.name}: {standing(picked, document)} {text}{nearly}".strip()
    done = [one for one in document.variants if one.unfinished is None]
    if not document.variants:
        return untried(document)
    if not done:
        return f"None of {count(len(document.variants), 'variant')} came to its end."
    if len(done) == 1:
        return f"{done[0].name}: {standing(done[0], document)}"
    key = _expense(document)
    cheap = min(done, key=lambda one: (key(one), one.span_s))
    fast = min(done, key=lambda one: (one.span_s, key(one)))
    lead = f"Of {count(len(document.variants), 'variant')}, {cheap.name} costs least"
    if cheap is fast:
        return f"{lead} and is the fastest: {standing(cheap, document)}"
    return f"{lead}: {standing(cheap, document)} The fastest is {fast.name}: {standing(fast, document)}"


def untried(document: Document) -> str:
    """Of a document without variants: the settings that are most worth trying."""
    overview = document.overview
    if overview is None:
        return "No other config was asked for."
    if not overview.trials:
        return overview.verdict or ""
    return " ".join(f"Worth trying: {trial.name}. It {trial.text}." for trial in overview.trials[:1])


def standing(run: RunEntry, document: Document) -> str:
    """A variant against the recorded config: ``11m20s (−6.1%) for $0.98 (−20%).``"""
    if run.unfinished is not None:
        return f"it does not come to its end: {run.unfinished}."
    time, paid = compared_time(run, document.self_replay), compared_expense(run, document.self_replay)
    text = f"{took(run.runtime_s)} ({_difference(time)})"
    if run.cost is not None:
        return f"{text} for {money(run.cost, document.currency)} ({_difference(paid)})."
    return f"{text} and {executor_seconds(run.executor_seconds)} ({_difference(paid)})."


def sure(document: Document) -> str:
    """``The recorded config, simulated, is off by +1.2% in run time and −3.4% in executor-seconds. Nine of ten ...``"""
    run, error = document.self_replay, document.self_replay.error
    fit = {
        Trust.CLOSE: "a close forecast",
        Trust.FAIR: "a fair forecast",
        Trust.ROUGH: "a rough forecast: only large differences can be told",
        Trust.MISFIT: "and the error is beyond the limit: do not rely on the figures",
    }[trust(document)]
    distance = f"{change(error.runtime)} in run time and {change(error.executor_seconds)} in executor-seconds"
    again = ""
    time, work = compared_time(run, run), compared_executor_seconds(run, run)
    if time.low is not None and work.low is not None:
        spans = [f"{change(one.low)} to {change(one.high)}" for one in (time, work)]
        again = (
            f" Nine of ten real runs of it would differ from the simulated one by {spans[0]} in run time and by {spans[1]} "
            f"in executor-seconds: {fit}."
        )
    ranges = " Ranges hold nine of ten real runs; they are calibrated on forecasts of real runs."
    unknown = f" {count(len(document.unknowns), 'thing')} the log does not tell." if document.unknowns else ""
    return f"The recorded config, simulated, is off by {distance}.{again}{ranges}{unknown}"


def warnings(document: Document) -> tuple[str, ...]:
    """Why no decision is to be taken from the figures, if so, and what is missing of the log."""
    missing = incomplete(document)
    if document.refused:
        return (" ".join(document.refused), *missing)
    if trust(document) is not Trust.MISFIT:
        return missing
    bound = percent(document.max_error)
    return (
        f"The model does not fit this run: its own error is beyond {bound}. Take no decision from the figures below.",
        *missing,
    )


def remarks(document: Document) -> tuple[OwnedNote, ...]:
    """What is odd, each once; with whose it is where it is not everybody's."""
    runs = (document.self_replay, *document.variants)
    whose: dict[str, dict[str, None]] = {note: {} for note in document.notes}
    for one in runs:
        for note in one.notes:
            whose.setdefault(note, {})[one.name] = None
    everybody = {note for note, names in whose.items() if len(names) == len(runs)} | set(document.notes)
    return tuple(OwnedNote(note, () if note in everybody else tuple(names)) for note, names in whose.items())


def caveats(document: Document, run: RunEntry) -> tuple[str, ...]:
    """What is to be known before a variant is taken over: what holds for every figure, and what is said of this one."""
    rough = (
        (f"The forecast of the config {AS_SIMULATED} is rough: only large differences can be told.",)
        if trust(document) is Trust.ROUGH
        else ()
    )
    return tuple(dict.fromkeys([*warnings(document), *rough, *run.notes]))


def incomplete(document: Document) -> tuple[str, ...]:
    """What is missing of the log itself, which is to be known before any figure is read."""
    return tuple(one.what for one in document.unknowns if one.what.startswith(_OF_THE_LOG))


def error_rows(document: Document) -> list[tuple[str, str, str, str]]:
    """The own error as rows: what, recorded, simulated, difference."""
    recorded, simulated, error = document.recorded, document.self_replay, document.self_replay.error
    rows = [
        ("Run time", took(recorded.runtime_s), took(simulated.runtime_s), change(error.runtime)),
        (
            "Executor-seconds",
            whole(recorded.executor_seconds),
            whole(simulated.executor_seconds),
            change(error.executor_seconds),
        ),
        (
            "Peak executors",
            number(recorded.peak_executors),
            number(simulated.peak_executors),
            signed(error.peak_executors),
        ),
    ]
    if error.curve is not None:
        rows.append(("Executors over time, mean distance", "", "", percent(error.curve)))
    return rows


def trust(document: Document) -> Trust:
    """How far the answers can be trusted."""
    run = document.self_replay
    if document.max_error is not None and run.error.worst > document.max_error:
        return Trust.MISFIT
    ends = [
        abs(end)
        for one in (compared_time(run, run), compared_executor_seconds(run, run))
        for end in (one.low, one.high)
        if end is not None
    ]
    widest = max(ends, default=run.error.worst)
    if widest <= CLOSE:
        return Trust.CLOSE
    return Trust.FAIR if widest <= FAIR else Trust.ROUGH


def compared(value: float | None, extent: Range | None, base: float | None) -> Compared:
    """A figure beside that of the base; without a range the point has to do."""
    low, high = (None, None) if extent is None else (difference(extent[0], base), difference(extent[1], base))
    by = difference(value, base)
    if by is None:
        verdict = FigureVerdict.UNKNOWN
    elif (low if low is not None else by) > SAME:
        verdict = FigureVerdict.MORE
    elif (high if high is not None else by) < -SAME:
        verdict = FigureVerdict.LESS
    else:
        verdict = FigureVerdict.ALIKE
    return Compared(by, low, high, verdict)


def compared_time(run: RunEntry, base: RunEntry) -> Compared:
    """A run's time beside the base's."""
    return compared(run.runtime_s, run.runtime_range_s, base.runtime_s)


def compared_executor_seconds(run: RunEntry, base: RunEntry) -> Compared:
    """A run's executor-seconds beside the base's."""
    return compared(run.executor_seconds, run.executor_seconds_range, base.executor_seconds)


def compared_cost(run: RunEntry, base: RunEntry) -> Compared:
    """A run's money beside the base's."""
    return compared(run.cost, run.cost_range, base.cost)


def compared_expense(run: RunEntry, base: RunEntry) -> Compared:
    """A run's money beside the base's; where nobody gave a price, its executor-seconds."""
    return compared_cost(run, base) if run.cost is not None else compared_executor_seconds(run, base)


def time_range(run: RunEntry) -> str:
    """``11m20s–12m40s``; nothing where there is no range."""
    return span(took(run.runtime_range_s[0]), took(run.runtime_range_s[1])) if run.runtime_range_s else ""


def money_range(run: RunEntry, currency: str | None) -> str:
    """``$0.91–1.02``: the sign of the currency once."""
    if run.cost_range is None:
        return ""
    low, high = run.cost_range
    scale = max(abs(low), abs(high))
    return span(money(low, currency, scale=scale), money(high, currency, scale=scale))


def number_range(extent: Range | None) -> str:
    """``2,210–2,480``."""
    return span(whole(extent[0]), whole(extent[1])) if extent else ""


def about(document: Document) -> str:
    """The application in a line: ``4 jobs, 400 stages, 100,000 tasks, 40 executors``."""
    app = document.app
    return ", ".join(
        (count(app.jobs, "job"), count(app.stages, "stage"), count(app.tasks, "task"), count(app.executors, "executor"))
    )


def featured(document: Document, most: int) -> tuple[RunEntry, ...]:
    """The variants to show where there is room for few: recommended and the knee, on the frontier, static, then the others
    in order."""
    front = set(document.frontier)
    names = {one.name for one in (document.recommendation, document.knee) if one is not None}

    def rank(at_and_run: tuple[int, RunEntry]) -> tuple[int, int]:
        at, run = at_and_run
        first = 0 if run.name in names else 1 if run.name in front else 2 if run.static is not None else 3
        return first, at

    ranked = sorted(enumerate(document.variants), key=rank)[:most]
    return tuple(run for _, run in sorted(ranked, key=lambda one: one[0]))


def _expense(document: Document) -> Callable[[RunEntry], float]:
    """What variants are compared by: money where all have a price, else executor-seconds."""
    if all(one.cost is not None for one in document.variants):
        return lambda one: one.cost or 0.0
    return lambda one: one.executor_seconds


def _difference(one: Compared) -> str:
    if one.change is None:
        return UNKNOWN
    return (
        f"{change(one.change)}{', unclear' if one.verdict is FigureVerdict.ALIKE and abs(one.change) >= SAME else ''}"
    )
