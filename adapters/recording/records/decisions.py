"""Decisions as records: the one form in which they are printed, stored and compared (docs/formats.md).

A record is a flat JSON object that opens with ``at_ms``. Commands of dynamic allocation carry Spark's own call name,
commands about pods the name of what is asked of the cluster or of the driver, and all their fields; reports carry
``report``. Facts are numbers under fixed names. Everything here is plain data: no value of the log is in it but
executor ids, names of pods and claims, and what the API said of a pod that ended.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any, Final, assert_never, get_args

from msgspec import Struct

from podtide.adapters.recording.records.codec import Form, Record
from podtide.domain.protocol.commands import Command, Decommission, Kill, Report, RequestTotal, ScheduleThrew
from podtide.domain.protocol.container_requests import Layout
from podtide.domain.protocol.pod_commands import DecommissionExecutors, PodCommand
from podtide.domain.protocol.reasons import Held, Remark, Threw
from podtide.domain.protocol.yarn_messages import YarnCommand

SCHEMA_VERSION: Final = 1
"""The version of the records, named in every document that holds them."""


@cache
def pod_command_forms() -> dict[type, Record]:
    """The plain form of every command about pods and containers; a command is called by its class, ``createPod``.

    Only DecommissionExecutors is called otherwise: decommissionExecutors is what dynamic allocation asks for.
    """
    kinds = [kind for family in get_args(PodCommand | YarnCommand) for kind in (get_args(family) or (family,))]
    forms = {Layout: layout_form()}
    return {
        kind: Record(kind, tag=("command", command_name(kind)), names={"executors": "ids"}, forms=forms)
        for kind in kinds
    }


class LayoutWire(Struct, frozen=True, forbid_unknown_fields=True):
    """The hosts of localized requests: what of a ``Layout`` the rest follows from."""

    hosts: list[str]
    racks: list[str]
    lengths: list[int]
    ends: list[int]


def layout_form() -> Form:
    """A layout as its four columns. One that no placement makes is refused: groups in order, each with hosts."""

    def plain(layout: Layout) -> dict[str, Any]:
        return {
            "hosts": list(layout.hosts),
            "racks": list(layout.racks),
            "lengths": list(layout.lengths),
            "ends": list(layout.ends),
        }

    def value(wire: LayoutWire) -> Layout:
        falling = all(before > after for before, after in pairwise((len(wire.hosts) + 1, *wire.lengths, 0)))
        rising = all(before < after for before, after in pairwise((0, *wire.ends)))
        if len(wire.hosts) != len(wire.racks) or len(wire.lengths) != len(wire.ends) or not (falling and rising):
            raise ValueError("a layout: a rack for each host, lengths that fall and ends that rise were expected")
        if not wire.ends:
            raise ValueError("a layout of no request")
        return Layout(tuple(wire.hosts), tuple(wire.racks), tuple(wire.lengths), tuple(wire.ends))

    return Form(LayoutWire, plain, value)


_NAMES: Final[dict[type, str]] = {
    RequestTotal: "requestTotalExecutors",
    Kill: "killExecutors",
    Decommission: "decommissionExecutors",
    DecommissionExecutors: "announceDecommission",
}


def command_name(kind: type) -> str:
    """The name of a class of commands in records: ``createPod``, ``requestTotalExecutors``."""
    return _NAMES.get(kind) or kind.__name__[0].lower() + kind.__name__[1:]


def command_record(command: Command) -> dict[str, Any]:
    """A command: ``at_ms``, ``command``, its fields (``targets``, ``ids``, ``executor``, ...), ``cause``, ``facts``.

    Of a command about pods every field is there, ``serial`` included, but those that have their usual value.
    """
    match command:
        case RequestTotal():
            facts = dict(sorted(command.why.facts.items()))
            if len(command.changes) == 1:
                change = command.changes[0]
                facts = {"profile": change.profile, "before": change.before, "after": change.after, **facts}
            record = {
                "at_ms": command.at,
                "command": command_name(RequestTotal),
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
            return {"at_ms": command.at, **pod_command_forms()[type(command)].plain(command)}


def _departure_record(command: Kill | Decommission) -> dict[str, Any]:
    departures, why = command.departures, command.departures[0].why
    return {
        "at_ms": command.at,
        "command": command_name(type(command)),
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
