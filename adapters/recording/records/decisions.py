"""Decisions as records: the one form in which they are printed, stored and compared (docs/reference/formats.md).

A record is a flat JSON object that opens with ``at_ms``. Commands of dynamic allocation carry Spark's own call name,
commands about pods the name of what is asked of the cluster or of the driver, and all their fields; reports carry
``report``. Facts are numbers under fixed names. Everything here is plain data: no value of the log is in it but
executor ids, names of pods and claims, and what the API said of a pod that ended.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, ScalingCommand, ScheduleThrew
from podtide.domain.protocol.reasons import Held, Remark, Threw

SCHEMA_VERSION: Final = 1
"""The version of the records, named in every document that holds them."""

SCALING_NAMES: Final[dict[type, str]] = {
    RequestTotal: "requestTotalExecutors",
    Kill: "killExecutors",
    Decommission: "decommissionExecutors",
}
"""Spark's own names of what dynamic allocation calls."""


def scaling_record(command: ScalingCommand) -> dict[str, Any]:
    """A command of dynamic allocation: ``at_ms``, ``command``, ``targets`` or ``ids``, ``cause``, ``facts``."""
    match command:
        case RequestTotal():
            facts = dict(sorted(command.why.facts.items()))
            if len(command.changes) == 1:
                change = command.changes[0]
                facts = {"profile": change.profile, "before": change.before, "after": change.after, **facts}
            record = {
                "at_ms": command.at,
                "command": SCALING_NAMES[RequestTotal],
                "targets": {str(profile): command.targets[profile] for profile in sorted(command.targets)},
                "cause": command.why.cause.value,
                "facts": facts,
            }
            if len(command.changes) > 1:
                record["changes"] = [
                    {"profile": c.profile, "before": c.before, "after": c.after, "cause": c.why.cause.value,
                     "facts": dict(sorted(c.why.facts.items()))}
                    for c in command.changes
                ]  # fmt: skip
            return record
        case Kill() | Decommission():
            return _departure_record(command)
        case _:
            assert_never(command)


def _departure_record(command: Kill | Decommission) -> dict[str, Any]:
    departures, why = command.departures, command.departures[0].why
    return {
        "at_ms": command.at,
        "command": SCALING_NAMES[type(command)],
        "ids": [d.executor for d in departures],
        "cause": why.cause.value,
        "facts": {"executors": len(departures), **dict(sorted(why.facts.items()))},
        "causes": [d.why.cause.value for d in departures],
    }


def report_record(report: Report) -> dict[str, Any]:
    """A report: ``at_ms``, ``report``, and for a bound ``phase``, ``bound``, ``profile``, ``ids``, ``facts``."""
    match report:
        case Held():
            return {
                "at_ms": report.at,
                "report": "held",
                "phase": report.phase.value,
                "bound": report.bound.value,
                "profile": report.profile,
                "ids": list(report.executors),
                "facts": dict(sorted(report.facts.items())),
            }
        case ScheduleThrew():
            return {"at_ms": report.at, "report": "schedule threw", "what": report.what, "repeated": report.repeated}
        case Threw():
            return {
                "at_ms": report.at,
                "report": "round threw",
                "machine": report.machine,
                "what": report.what,
                "fatal": report.fatal,
            }
        case Remark():
            facts = dict(sorted(report.facts.items()))
            return {
                "at_ms": report.at,
                "report": "remark",
                "machine": report.machine,
                "topic": report.topic,
                "facts": facts,
            }
        case _:
            assert_never(report)
