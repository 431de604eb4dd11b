"""A comparison in sentences and figures, the same in the terminal and on the page. Texts from logs are not escaped here."""

from __future__ import annotations

from typing import Final

from podtide.adapters.text.format import clock, setting_text
from podtide.adapters.views.comparison.document import (
    CORE_HOURS,
    CauseEntry,
    ComparedStall,
    ComparisonDocument,
    FigureEntry,
    SettingEntry,
)
from podtide.adapters.views.whatif.figures import change, money, number, percent, took
from podtide.domain.comparison.causes import ChangeCause
from podtide.domain.rerun.ledger.causes import Limit

SMALL: Final = 0.02
"""Causes of less than this share of the change, or of the run time where that is more, are told as one sum."""

SETTING_MAX: Final = 60

_LIMITED: Final = {
    Limit.START_UP.value: "executors on their way, or none to be had",
    Limit.MAXIMUM.value: "no more were allowed",
    Limit.RAMP.value: "they were asked for later",
}

_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def headline(document: ComparisonDocument) -> str:
    """One sentence: how much longer, and mostly why."""
    change_s, share = document.change.runtime_s, document.change.runtime
    if not change_s:
        return "Both runs took the same time."
    way = "longer" if change_s > 0 else "less"
    text = f"The second run took {took(abs(change_s))} {way} ({change(share)})"
    if document.change.within_noise:
        return f"{text}: this may be noise, runs of one config differ by up to {percent(document.change.noise)}."
    named = [one for one in document.causes if one.runtime_s * change_s > 0][:2]
    if not named:
        return f"{text}."
    causes = " and ".join(f"{titled(one)} ({signed_time(one.runtime_s)})" for one in named)
    return f"{text}, because of {causes}."


def titled(one: CauseEntry) -> str:
    """A cause with its detail."""
    detail = next(iter(one.details), "")
    if one.cause == ChangeCause.INPUT.value:
        return ("more data" if one.runtime_s > 0 else "less data") + f" ({detail})"
    if one.cause == ChangeCause.EXECUTORS.value:
        counted = "fewer executors" if one.runtime_s > 0 else "more executors"
        return f"{counted}: {_LIMITED[detail]}" if detail in _LIMITED else counted
    if one.cause == ChangeCause.STALL.value and detail:
        return f"{one.cause}: {detail}"
    if one.cause == ChangeCause.SLOW_HOST.value:
        return f"slow host {detail}"
    return one.cause


def limit(detail: str) -> str:
    """A detail of a cause in words."""
    return _LIMITED.get(detail, detail)


def signed_time(seconds: float) -> str:
    """``+12.0 s``, ``−300 ms``."""
    return f"{'+' if seconds > 0 else '−'}{took(abs(seconds))}" if seconds else "±0 s"


def evidence(one: FigureEntry) -> str:
    """``records read 640 → 1,280``."""
    return f"{one.what} {_amount(one.before, one.unit)} → {_amount(one.after, one.unit)}"


def setting(one: SettingEntry) -> str:
    """``spark.executor.cores 2 → 1``."""
    return f"{one.key} {setting_text(one.before, SETTING_MAX)} → {setting_text(one.after, SETTING_MAX)}"


def large_causes(document: ComparisonDocument) -> tuple[list[CauseEntry], float, int]:
    """Those worth a line of their own, and the sum and number of the rest."""
    least = SMALL * max(abs(document.change.runtime_s), document.first.runtime_s * SMALL)
    large = [one for one in document.causes if abs(one.runtime_s) >= least]
    small = [one.runtime_s for one in document.causes if abs(one.runtime_s) < least]
    return large, sum(small), len(small)


def cost(document: ComparisonDocument, amount: float) -> str:
    """An amount of the bill: money, or core-hours."""
    unit = document.change.unit
    return f"{number(amount)} {CORE_HOURS}" if unit == CORE_HOURS else money(amount, unit)


def signed_cost(document: ComparisonDocument, amount: float) -> str:
    """The same with its sign."""
    return f"{'+' if amount > 0 else '−'}{cost(document, abs(amount))}" if amount else cost(document, 0.0)


def stalls(document: ComparisonDocument) -> list[tuple[str, ComparedStall]]:
    """The stalls of both runs, each with which run it is of."""
    return [
        (which, one) for which, run in (("first", document.first), ("second", document.second)) for one in run.stalls
    ]


def stall(one: ComparedStall) -> str:
    """``driver does nothing at 0:04 for 6m 01s``."""
    profile = f" (profile {one.profile})" if one.profile else ""
    until = ", to the end" if one.lasts else ""
    return f"{one.cause}{profile} at {clock(round(one.began_s * 1000))} for {took(one.ended_s - one.began_s)}{until}"


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return took(value)
    if unit == "bytes":
        place = 0
        while value >= 1024 and place < len(_BYTES) - 1:
            value, place = value / 1024, place + 1
        return f"{number(value)} {_BYTES[place]}"
    return number(value)
