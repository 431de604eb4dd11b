"""What an assistant can ask, with the words and the bounds that it is told. Each question is one tool of the server."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

LOGS_MAX: Final = 10
FLEET_MAX: Final = 200
VARIANTS_MAX: Final = 8
BUDGET_MAX: Final = 200

Text: TypeAlias = Annotated[str, Meta(max_length=1_000)]
LogName: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=4_000,
        description="A Spark event log in an allowed place, as the tool logs names it: a file, the folder of a rolled log, "
        "a ZIP, or a URL.",
    ),
]
Value: TypeAlias = str | int | float | bool | None
Settings: TypeAlias = Annotated[
    dict[Text, Value],
    Meta(
        max_length=50,
        description="Spark settings by key, such as spark.dynamicAllocation.maxExecutors; null unsets one.",
    ),
]
Price: TypeAlias = Annotated[
    str | None,
    Meta(
        description="Prices such as core-hour=0.04,gb-hour=0.005,currency=USD. Without: executor-seconds and core-hours."
    ),
]


class LogsQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """List the event logs in the allowed places, the newest first."""

    place: Annotated[str | None, Meta(description="A folder in an allowed place; all places if it is not given.")] = (
        None
    )


class ReplayQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """Say when and why Spark scaled an application up and down, what held executors back, and whether it stood still."""

    log: LogName
    settings: Settings = {}


class ExplainQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """Explain a whole run (its bill by cause, what its tasks waited for), one executor, or one moment."""

    log: LogName
    executor: Annotated[str, Meta(max_length=200, description="The id of an executor.")] | None = None
    at: (
        Annotated[
            str, Meta(max_length=60, description="+SECONDS since the start, an ISO time, or milliseconds since 1970.")
        ]
        | None
    ) = None


class WhatIfQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """Forecast run time and bill of an application under other settings or counts of executors, with 90% intervals.

    Without settings, variants and static it says what other counts of executors would do and what is worth trying.
    """

    log: LogName
    settings: Settings = {}
    variants: Annotated[
        dict[Text, Settings], Meta(max_length=VARIANTS_MAX, description="More sets of settings, each by a name.")
    ] = {}
    static: Annotated[
        list[Annotated[int, Meta(ge=1, le=100_000)]],
        Meta(max_length=VARIANTS_MAX, description="Counts of executors without dynamic allocation."),
    ] = []
    price: Price = None


class TuneQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """Search for the cheapest settings within a time bound, over one run or several of the same application."""

    logs: Annotated[list[LogName], Meta(min_length=1, max_length=LOGS_MAX)]
    within: Annotated[
        float,
        Meta(ge=-0.99, le=100.0, description="How much longer a run may take, as a share; below zero asks for speed."),
    ] = 0.1
    budget: Annotated[int, Meta(ge=1, le=BUDGET_MAX, description="Configs to consider.")] = 60
    price: Price = None


class CompareQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """Say why a run took longer, or cost more, than an earlier one; with several earlier ones, than the typical one."""

    log: LogName
    before: Annotated[
        list[LogName], Meta(min_length=1, max_length=LOGS_MAX, description="The earlier runs, in the order of time.")
    ]
    price: Price = None


class FleetQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """Sum up many logs: what each cost, its waste, and the setting that would save most. Takes seconds for each log."""

    place: Annotated[str | None, Meta(description="A folder in an allowed place; all places if it is not given.")] = (
        None
    )
    most: Annotated[int, Meta(ge=1, le=FLEET_MAX, description="Logs to look at, the newest first.")] = 20
    price: Price = None


Question: TypeAlias = (
    LogsQuestion | ReplayQuestion | ExplainQuestion | WhatIfQuestion | TuneQuestion | CompareQuestion | FleetQuestion
)

QUESTIONS: Final[dict[str, type[Question]]] = {
    "logs": LogsQuestion,
    "replay": ReplayQuestion,
    "explain": ExplainQuestion,
    "whatif": WhatIfQuestion,
    "tune": TuneQuestion,
    "compare": CompareQuestion,
    "fleet": FleetQuestion,
}
"""The tools by name."""


def schema_of(kind: type[Struct]) -> dict[str, object]:
    """The JSON Schema of a record, an object at its root, as a tool's has to be."""
    (_,), parts = msgspec.json.schema_components([kind])
    root = dict(parts.pop(kind.__name__))
    root.pop("title", None)
    return {**root, "$defs": parts} if parts else root
