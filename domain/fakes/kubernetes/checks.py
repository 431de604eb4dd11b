"""What a description must be like to be played."""

from __future__ import annotations

from podtide.domain.base.randomness import HOUR_MS
from podtide.domain.fakes.checks import NODES_MAX, RATE, Expect, Problems, check_delay, check_window
from podtide.domain.fakes.kubernetes.description import STEPS, Description


def problems(description: Description) -> tuple[tuple[str, str], ...]:
    """What cannot be in a description: (where, what was expected); () when it can be played.

    ``where`` is the path of the key in a cluster file, as ``api.faults[2].status``. What single values must be is said
    here too, so that a description made in code is held to the same rules as one from a file.
    """
    found = Problems()
    expect = found.expect
    names = [g.name for g in description.groups]
    expect(len(set(names)) == len(names), "nodes.groups", "every group has a name of its own")
    for i, group in enumerate(description.groups):
        where = f"nodes.groups[{i}]"
        expect(bool(group.name), f"{where}.name", "a name")
        expect(0 <= group.count <= NODES_MAX, f"{where}.count", f"0 to {NODES_MAX} nodes")
        upper = group.maximum
        expect(upper is None or group.count <= upper <= NODES_MAX, f"{where}.maximum", f"count to {NODES_MAX} nodes")
        expect(group.cpu_millis > 0, f"{where}.cpu", "more than 0")
        expect(group.memory_mib > 0, f"{where}.memory", "more than 0")
        expect(group.pods > 0, f"{where}.pods", "1 or more")
        expect(0 <= group.interruptions_per_hour <= HOUR_MS, f"{where}.interruptions-per-hour", RATE)
        check_delay(group.arrives, f"{where}.arrives", expect)
        check_window(group.during, f"{where}.during", expect)
    for i, event in enumerate(description.node_events):
        expect(event.group in names, f"nodes.events[{i}].group", f"one of the groups: {', '.join(names)}")
        expect(0 < event.count <= NODES_MAX, f"nodes.events[{i}].count", f"1 to {NODES_MAX} nodes")
    executors = description.executors
    for profile, shape in ((None, executors.shape), *executors.profiles):
        where = "executors" if profile is None else f"executors.profiles.{profile}"
        expect(shape.cpu_millis > 0, f"{where}.cpu", "more than 0")
        expect(shape.memory_mib > 0, f"{where}.memory", "more than 0")
    profiles = [profile for profile, _ in executors.profiles]
    expect(len(set(profiles)) == len(profiles), "executors.profiles", "every profile once")
    check_delay(executors.rpc, "executors.rpc", expect)
    check_delay(description.controllers, "controllers", expect)
    expect(description.scan_ms > 0, "nodes.scan", "more than 0")
    _stages(description, names, expect)
    for i, fault in enumerate(description.api.faults):
        where = f"api.faults[{i}]"
        expect((fault.status is None) != (fault.lost is None), where, "either a status or what is lost")
        expect(fault.status is None or 400 <= fault.status <= 599, f"{where}.status", "an HTTP status, 400 to 599")
        expect(0 <= fault.probability <= 1, f"{where}.probability", "a share, 0 to 1")
        check_window(fault.during, f"{where}.during", expect)
    check_delay(description.api.latency, "api.latency", expect)
    check_delay(description.api.stale_age, "api.stale-age", expect)
    expect(0 <= description.api.stale <= 1, "api.stale", "a share, 0 to 1")
    expect(0 <= description.api.retries <= 100, "api.retries", "0 to 100")
    expect(description.api.quota_pods is None or description.api.quota_pods >= 0, "api.quota", "0 or more pods")
    watch = description.watch
    for key in ("loss", "duplicates", "reordered", "expired"):
        expect(0 <= getattr(watch, key) <= 1, f"watch.{key}", "a share, 0 to 1")
    expect(0 <= watch.breaks_per_hour <= HOUR_MS, "watch.breaks-per-hour", RATE)
    for key in ("delay", "late", "broken"):
        check_delay(getattr(watch, key), f"watch.{key}", expect)
    check_window(watch.during, "watch.during", expect)
    for i, outage in enumerate(watch.outages):
        expect(outage.until_ms is not None, f"watch.outages[{i}].until", "a time at which the outage ends")
        check_window(outage, f"watch.outages[{i}]", expect)
    return tuple(found)


def _stages(description: Description, groups: list[str], expect: Expect) -> None:
    stages = description.executors.stages
    names = [s.name for s in stages]
    expect(len(set(names)) == len(names), "stages", "every stage has a name of its own")
    for stage in stages:
        where = f"stages.{stage.name}"
        allowed = STEPS.get(stage.source)
        expect(allowed is not None, f"{where}.from", f"one of {', '.join(s.value for s in STEPS)}")
        if allowed is not None:
            ways = ", ".join(sorted(s.value for s in allowed))
            expect(stage.next in allowed, f"{where}.next", f"one of {ways} (from {stage.source.value})")
        expect(stage.weight >= 0, f"{where}.weight", "0 or more")
        expect(stage.per_hour is None or 0 < stage.per_hour <= HOUR_MS, f"{where}.per-hour", RATE)
        check_delay(stage.delay, f"{where}.delay", expect)
        expect(all(0 <= code <= 255 for code, _ in stage.exits), f"{where}.exits", "exit codes from 0 to 255")
        expect(all(weight >= 0 for _, weight in stage.exits), f"{where}.exits", "weights of 0 or more")
        unknown = [g for g in stage.groups if g not in groups]
        expect(not unknown, f"{where}.groups", f"groups of nodes: {', '.join(groups)}")
        check_window(stage.during, f"{where}.during", expect)
