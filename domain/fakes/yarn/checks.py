"""What a description of a YARN cluster must be like to be played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from podtide.domain.base.randomness import HOUR_MS
from podtide.domain.fakes.checks import NODES_MAX, RATE, Expect, Problems, check_delay, check_window
from podtide.domain.fakes.yarn.description import Death, Nodes, YarnDescription, YarnNodeHappening, places

_SHARE: Final = "a share, 0 to 1"
_STATUS_MIN: Final = -1_000
_MEMORY_MAX: Final = 2**62


def problems(description: YarnDescription) -> tuple[tuple[str, str], ...]:
    """What cannot be in a description: (where, what was expected); () when it can be played.

    ``where`` is the path of the key in a cluster file, as ``manager.faults[2].probability``. What single values must
    be is said here too, so that a description made in code is held to the same rules as one from a file.
    """
    found = Problems()
    expect = found.expect
    names = [row.name for row in description.nodes]
    expect(len(set(names)) == len(names), "nodes.groups", "every group has a name of its own")
    for i, row in enumerate(description.nodes):
        _row(row, f"nodes.groups[{i}]", expect)
    _events(description, names, expect)
    total = sum(row.count for row in description.nodes) + sum(
        event.count for event in description.node_events if event.what is YarnNodeHappening.JOIN
    )
    expect(total <= NODES_MAX, "nodes.groups", f"at most {NODES_MAX} nodes")
    if not found:
        hosts = Counter(description.nodes[number].host(place) for number, place, _ in places(description))
        twice = [host for host, count in hosts.items() if count > 1]
        expect(not twice, "nodes.groups", f"every host once ({', '.join(twice[:3])} is there again)")
    _queue(description, expect)
    _manager(description, expect)
    _executors(description, names, expect)
    expect(all(at >= 0 for at in description.master.restarts), "master.restarts", "times from the beginning")
    check_delay(description.master.back, "master.back", expect)
    check_delay(description.master.registers, "master.registers", expect)
    return tuple(found)


def _row(row: Nodes, where: str, expect: Expect) -> None:
    expect(bool(row.name), f"{where}.name", "a name")
    expect(0 <= row.count <= NODES_MAX, f"{where}.count", f"0 to {NODES_MAX} nodes")
    expect(0 < row.memory_mib <= _MEMORY_MAX, f"{where}.memory", "more than 0")
    expect(0 < row.vcores <= NODES_MAX, f"{where}.vcores", f"1 to {NODES_MAX}")
    expect(all(name and amount >= 0 for name, amount in row.custom), f"{where}.resources", "amounts of 0 or more")
    named = [name for name, _ in row.custom]
    expect(sorted(set(named)) == named, f"{where}.resources", "every resource once, sorted by name")
    expect(bool(row.racks) and all(row.racks), f"{where}.racks", "one rack or more")
    expect(all(row.hosts), f"{where}.hosts", "names")
    for rate, key in (
        (row.lost_per_hour, "lost-per-hour"), (row.decommissioned_per_hour, "decommissioned-per-hour"),
    ):  # fmt: skip
        expect(0 <= rate <= HOUR_MS, f"{where}.{key}", RATE)
    if row.back is not None:
        check_delay(row.back, f"{where}.back", expect)
    check_window(row.during, f"{where}.during", expect)


def _events(description: YarnDescription, names: Sequence[str], expect: Expect) -> None:
    rows = {row.name: row for row in description.nodes}
    for i, event in enumerate(description.node_events):
        where = f"nodes.events[{i}]"
        expect(event.group in rows, f"{where}.group", f"one of the groups: {', '.join(names)}")
        expect(event.at_ms >= 0, f"{where}.at", "a time from the beginning")
        expect(0 < event.count <= NODES_MAX, f"{where}.count", f"1 to {NODES_MAX} nodes")
        if event.host is not None and event.group in rows:
            expect(event.what is not YarnNodeHappening.JOIN, f"{where}.host", "no host where nodes join")
            row = rows[event.group]
            known = any(row.host(place) == event.host for place in range(min(row.count, NODES_MAX)))
            expect(known, f"{where}.host", f"a host of {event.group}")
        if event.back is not None:
            check_delay(event.back, f"{where}.back", expect)


def _queue(description: YarnDescription, expect: Expect) -> None:
    queue = description.queue
    expect(queue.memory_mib is None or queue.memory_mib >= 0, "queue.memory", "0 or more")
    expect(queue.vcores is None or queue.vcores >= 0, "queue.vcores", "0 or more")
    expect(0 < queue.share <= 1, "queue.preempt-share", "more than 0, up to 1")
    expect(queue.round_ms > 0, "queue.preempt-every", "more than 0")
    for i, tenant in enumerate(queue.tenants):
        where = f"queue.tenants[{i}]"
        expect(tenant.memory_mib >= 0, f"{where}.memory", "0 or more")
        expect(tenant.vcores >= 0, f"{where}.vcores", "0 or more")
        check_window(tenant.during, f"{where}.during", expect)


def _manager(description: YarnDescription, expect: Expect) -> None:
    manager = description.manager
    check_delay(manager.latency, "manager.latency", expect)
    expect(manager.heartbeat_ms > 0, "nodes.heartbeat", "more than 0")
    expect(manager.node_delay >= -1, "manager.node-delay", "-1 or more nodes")
    expect(manager.rack_delay >= -1, "manager.rack-delay", "-1 or more nodes")
    expect(manager.anywhere_per_heartbeat > 0, "manager.anywhere-per-heartbeat", "1 or more containers")
    expect(manager.minimum_mib > 0, "manager.minimum-memory", "more than 0")
    expect(manager.minimum_vcores > 0, "manager.minimum-vcores", "1 or more")
    for lowest, most, key in (
        (manager.minimum_mib, manager.maximum_mib, "memory"), (manager.minimum_vcores, manager.maximum_vcores, "vcores"),
    ):  # fmt: skip
        expect(most is None or most >= lowest, f"manager.maximum-{key}", "no less than the minimum")
    for i, fault in enumerate(manager.faults):
        where = f"manager.faults[{i}]"
        expect(0 <= fault.probability <= 1, f"{where}.probability", _SHARE)
        if fault.slow is not None:
            check_delay(fault.slow, f"{where}.slow", expect)
        check_window(fault.during, f"{where}.during", expect)
    for key in ("surplus", "unknown", "small", "partial", "repeated"):
        # Something of which another one always follows would never end.
        expect(0 <= getattr(manager.mistakes, key) <= 0.9, f"manager.mistakes.{key}", "a share, 0 to 0.9")
    check_window(manager.mistakes.during, "manager.mistakes.during", expect)


def _executors(description: YarnDescription, names: Sequence[str], expect: Expect) -> None:
    executors = description.executors
    for key in ("launch", "localize", "localized", "start", "drain", "exit", "rpc"):
        check_delay(getattr(executors, key), f"executors.{key}", expect)
    for i, fault in enumerate(executors.launch_faults):
        where = f"executors.launch-faults[{i}]"
        expect(0 <= fault.probability <= 1, f"{where}.probability", _SHARE)
        expect(set(fault.groups) <= set(names), f"{where}.groups", f"groups of nodes: {', '.join(names)}")
        check_window(fault.during, f"{where}.during", expect)
    for i, death in enumerate(executors.deaths):
        _death(death, f"executors.deaths[{i}]", names, expect)


def _death(death: Death, where: str, names: Sequence[str], expect: Expect) -> None:
    expect(0 <= death.share <= 1, f"{where}.share", _SHARE)
    expect(0 <= death.per_hour <= HOUR_MS, f"{where}.per-hour", RATE)
    expect(not (death.share and death.per_hour), where, "either a share or a rate per hour")
    check_delay(death.delay, f"{where}.delay", expect)
    statuses = death.statuses
    expect(bool(statuses), f"{where}.statuses", "one exit status or more")
    fine = all(_STATUS_MIN <= status <= 255 for status, _ in statuses)
    expect(fine, f"{where}.statuses", "exit statuses from -1000 to 255")
    expect(all(weight >= 0 for _, weight in statuses), f"{where}.statuses", "weights of 0 or more")
    expect(set(death.groups) <= set(names), f"{where}.groups", f"groups of nodes: {', '.join(names)}")
    check_window(death.during, f"{where}.during", expect)
