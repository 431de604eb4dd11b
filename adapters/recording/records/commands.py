"""Every command of an application as a record: those of dynamic allocation, of pods and of containers
(docs/reference/formats.md).

What dynamic allocation alone decides stands in ``records.decisions``, so that the replay of an event log loads no machine of
a cluster manager.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any, Final, get_args

from msgspec import Struct

from podtide.adapters.recording.records.codec import Form, Record
from podtide.adapters.recording.records.decisions import SCALING_NAMES, scaling_record
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.container_requests import Layout
from podtide.domain.protocol.executor_commands import DecommissionExecutors
from podtide.domain.protocol.pod_commands import PodCommand
from podtide.domain.protocol.yarn_messages import YarnCommand


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
    **SCALING_NAMES,
    DecommissionExecutors: "announceDecommission",
}


def command_name(kind: type) -> str:
    """The name of a class of commands in records: ``createPod``, ``requestTotalExecutors``."""
    return _NAMES.get(kind) or kind.__name__[0].lower() + kind.__name__[1:]


def command_record(command: Command) -> dict[str, Any]:
    """A command: ``at_ms``, ``command``, its fields (``targets``, ``ids``, ``executor``, ...), ``cause``, ``facts``.

    Of a command about pods every field is there, ``serial`` included, but those that have their usual value.
    """
    if isinstance(command, RequestTotal | Kill | Decommission):
        return scaling_record(command)
    return {"at_ms": command.at, **pod_command_forms()[type(command)].plain(command)}
