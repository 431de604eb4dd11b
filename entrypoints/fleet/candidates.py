"""The settings that a fleet tries on every log when nobody names others: few, and each an answer to one common waste.

Their names do not depend on the log, so that a summary can count over a fleet which of them would help; their values may:

- "idle 15s": executors go after 15 s without a task, instead of Spark's 60 s;
- "data 2m": those that hold cached or shuffle data go after two minutes, instead of never;
- "minimum 0": none is kept, none is asked for before there are tasks;
- "half the ramp": executorAllocationRatio 0.5, for stages whose tasks are over before their executors come;
- "half the peak": at most half of the executors that were there at once;
- "lean": the first three together;
- "static mean": the mean count from start to end, without dynamic allocation.

A log that ran without dynamic allocation is tried with it ("dynamic", with the executors that it had as the maximum and
shuffle tracking where nothing else keeps its shuffle data, and "dynamic, idle 15s") and with fewer static executors
("static half", "static mean"). What changes nothing for a log is not simulated for it, nor what has no effect where it ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Final, NamedTuple

from returns.pipeline import is_successful

from podtide.domain.conf.advice.effects import place_of
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.plan import Plan, Variant
from podtide.domain.whatif.search.in_effect import advice_notes, variant_in_effect
from podtide.entrypoints.whatif.run import Study, planned

_DYNAMIC: Final = "spark.dynamicAllocation"
_IDLE: Final = {f"{_DYNAMIC}.executorIdleTimeout": "15s"}
_DATA: Final = {f"{_DYNAMIC}.cachedExecutorIdleTimeout": "2m", f"{_DYNAMIC}.shuffleTracking.timeout": "2m"}
_MINIMUM: Final = {
    f"{_DYNAMIC}.minExecutors": "0",
    f"{_DYNAMIC}.initialExecutors": None,
    "spark.executor.instances": None,
}


class ChosenSettings(NamedTuple):
    """What is tried for an application; ``notes``: what is not, as it has no effect there, and what there is to turn."""

    variants: tuple[Variant, ...]
    notes: tuple[str, ...]


def chosen_settings(study: Study, given: Sequence[Variant] | None) -> ChosenSettings:
    """The settings that were ``given``, or those of the module, as far as they have an effect where the application ran.

    All of a given one has to have an effect; of the others what has none is left out, and each that is left has a plan that
    differs from what ran.
    """
    application, base, conf = study.application, study.replay.plan, study.conf.conf
    wishes = _of_dynamic(application) if base.dynamic is not None else _of_static(application, base)
    kept: list[Variant] = []
    reasons: dict[str, str] = {}
    for wish in wishes if given is None else given:
        made = variant_in_effect(wish, conf)
        reasons |= made.reasons
        if given is not None:
            kept += [wish] if not made.reasons else []
        elif made.variant is not None and _differs(study, made.variant):
            kept.append(made.variant)
    return ChosenSettings(tuple(kept), advice_notes([place_of(conf)], reasons))


def _of_dynamic(application: Application) -> tuple[Variant, ...]:
    return (
        Variant("idle 15s", _IDLE),
        Variant("data 2m", _DATA),
        Variant("minimum 0", _MINIMUM),
        Variant("half the ramp", {f"{_DYNAMIC}.executorAllocationRatio": "0.5"}),
        # A minimum above the maximum would be refused.
        Variant("half the peak", {**_MINIMUM, f"{_DYNAMIC}.maxExecutors": str(_half(application.peak_executors))}),
        Variant("lean", {**_IDLE, **_DATA, **_MINIMUM}),
        Variant("static mean", static=_mean(application)),
    )


def _of_static(application: Application, base: Plan) -> tuple[Variant, ...]:
    count = max(1, base.static)
    dynamic: dict[str, str | None] = {
        f"{_DYNAMIC}.enabled": "true",
        f"{_DYNAMIC}.maxExecutors": str(count),
        **_MINIMUM,
    }
    if not base.shuffle_kept:
        dynamic[f"{_DYNAMIC}.shuffleTracking.enabled"] = "true"
    return (
        Variant("dynamic", dynamic),
        Variant("dynamic, idle 15s", {**dynamic, **_IDLE, **_DATA}),
        Variant("static half", static=_half(count)),
        Variant("static mean", static=_mean(application)),
    )


def _differs(study: Study, wish: Variant) -> bool:
    """Whether a wish can be planned, and means anything else than what ran."""
    made = planned(study, wish)
    return is_successful(made) and _bare(made.unwrap()) != _bare(study.replay.plan)


def _bare(plan: Plan) -> Plan:
    """A plan without its words."""
    return replace(plan, name="", conf=None, notes=())  # type: ignore[arg-type]  # compared, never used


def _half(count: int) -> int:
    return max(1, ceil(count / 2))


def _mean(application: Application) -> int:
    return max(1, ceil(application.executor_ms / max(1, application.runtime_ms)))
