"""What is asked of a what-if: another config, a static count, another shape of executor, or faults that did not happen.

A ``Variant`` is a wish in the user's words; ``plans`` turns it, with the log's own conf under it, into a ``Plan`` that the
simulation understands, or says which key cannot be used and what was expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from podtide.domain.base.units import Millis

AS_RECORDED: Final = "as recorded"
AS_SIMULATED: Final = "as simulated"
"""The name of the variant that changes nothing: the log's own config, run again."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What may go wrong besides what did. ``spot_per_hour``: interruptions of one executor in an hour; ``start_extra_ms``:
    what every start takes longer (a slow image pull); ``quota``: the most executors that the cluster gives."""

    spot_per_hour: float = 0.0
    start_extra_ms: Millis = 0
    quota: int | None = None


NO_FAULTS: Final = Faults()


@dataclass(frozen=True, slots=True)
class Variant:
    """``changes``: Spark keys over the log's conf, None unsets one. ``static``: so many executors from start to end,
    without dynamic allocation."""

    name: str
    changes: Mapping[str, str | None] = field(default_factory=dict)
    static: int | None = None
    faults: Faults = NO_FAULTS
