"""What of a search, a variant or an advice exists and has an effect where the application ran (``conf.advice.effects``).

A setting that has none is not tried: the simulation would give it the effect that Spark 4.3.0 has with it, and the lines to
paste would do nothing. Without a way to switch dynamic allocation on, none of its settings is tried. Static counts are tried
where something asks for them (``effects.static_settings``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from podtide.domain.conf.advice.effects import Place, knob_line, left_out, place_of, static_settings, why_not
from podtide.domain.conf.scaling_config import ENABLED, INITIAL, MAX, MIN
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.rerun.plan import Variant
from podtide.domain.whatif.search.space import Axis, Space

STATIC_COUNTS: Final = "static counts"
_COUNTS: Final = frozenset({MAX, MIN, INITIAL})


class SpaceInEffect(NamedTuple):
    """A space without what has no effect; ``notes``: what was left out and why, and what there is to turn instead."""

    space: Space
    notes: tuple[str, ...]


class VariantInEffect(NamedTuple):
    """A variant without what has no effect, None where nothing is left; ``reasons``: why, by key."""

    variant: Variant | None
    reasons: Mapping[str, str]


def in_effect(space: Space) -> SpaceInEffect:
    """The space of which every config can be pasted where the runs ran."""
    places = [place_of(conf) for conf in space.confs]
    reasons = _reasons(places, [axis.key for axis in space.axes])
    needed = _reasons(places, [key for key, text in space.always if text is not None])
    if needed:
        because = needed.get(ENABLED) or next(iter(needed.values()))
        reasons |= {axis.key: because for axis in space.axes if axis.key not in reasons} | needed
    least = max((place.platform.executors_least for place in places if place.platform is not None), default=1)
    axes = [_from(axis, least) for axis in space.axes if axis.key not in reasons]
    statics = tuple(count for count in space.statics if count >= least)
    if statics and any(static_settings(place, 1, 1) is None for place in places):
        reasons[STATIC_COUNTS] = f"nothing asks {places[0].manager.value} for a count of executors"
        statics = ()
    kept = replace(
        space, axes=tuple(axis for axis in axes if axis.values), statics=statics, always=() if needed else space.always
    )
    return SpaceInEffect(kept, advice_notes(places, reasons))


def variant_in_effect(variant: Variant, conf: SparkConf) -> VariantInEffect:
    """The variant with what has an effect where the application with this conf ran."""
    place = place_of(conf)
    reasons = _reasons([place], [key for key, text in variant.changes.items() if text is not None])
    if variant.static is not None and static_settings(place, 1, 1) is None:
        reasons[STATIC_COUNTS] = f"nothing asks {place.manager.value} for a count of executors"
    changes = {key: text for key, text in variant.changes.items() if key not in reasons}
    gone = STATIC_COUNTS in reasons or ENABLED in reasons or (bool(reasons) and not any(changes.values()))
    return VariantInEffect(None if gone else replace(variant, changes=changes), reasons)


def advice_notes(places: Iterable[Place], reasons: Mapping[str, str]) -> tuple[str, ...]:
    """What to say beside an advice: the platform's knob, and what was left out and why, a line each."""
    lines = [line for place in places if (line := knob_line(place)) is not None]
    lines += [line for line in (left_out(reasons),) if line is not None]
    return tuple(dict.fromkeys(lines))


def _reasons(places: Sequence[Place], keys: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in keys:
        why = next((why for place in places if (why := why_not(key, place)) is not None), None)
        if why is not None:
            found[key] = why
    return found


def _from(axis: Axis, least: int) -> Axis:
    """The axis without counts that the platform refuses."""
    if axis.key not in _COUNTS or least <= 1:
        return axis
    return replace(axis, values=tuple(text for text in axis.values if text is None or int(text) >= least))
