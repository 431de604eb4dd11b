"""Oddities of the YARN allocator: see quirks.py.

Only what no other recorded scenario shows; the well-known ones are in the generator's scenarios.
"""

from __future__ import annotations

from typing import Any, Final

from tests.oracle.quirk_lines import Line
from tests.oracle.yarn_world import EXCLUDE

SCENARIOS: Final[dict[str, list[Line]]] = {}
MOST: Final = 2**31 - 1
OVERHEAD: Final = "spark.executor.memoryOverhead"
PER_NODE: Final = "spark.excludeOnFailure.application.maxFailedExecutorsPerNode"
TIMEOUT: Final = "spark.excludeOnFailure.timeout"
LABEL: Final = "spark.yarn.executor.nodeLabelExpression"
RESOURCE: Final = "spark.yarn.executor.resource.q"


def scenario(name: str, conf: dict[str, str], *lines: Line, executors: int | None = None, **options: Any) -> None:
    """Register a scenario; a line a millisecond, from 1. ``executors``: spark.executor.instances."""
    head: Line = {"conf": conf if executors is None else {"spark.executor.instances": str(executors), **conf}}
    if options:
        head["options"] = options
    SCENARIOS[f"quirk-{name}"] = [head, *({"at": at, **line} for at, line in enumerate(lines, start=1))]


def beat(*allocated: Line, **answer: Any) -> Line:
    """A heartbeat, and what it is answered."""
    return {"allocate": {"allocated": list(allocated), **answer} if allocated else answer}


def given(number: int, host: str, profile: int = 0, **more: Any) -> Line:
    """A container."""
    return {"id": number, "host": host, "rp": profile, **more}


def ended(*ends: tuple[int, int]) -> list[Line]:
    """Containers and their exit statuses."""
    return [{"id": number, "exit": status} for number, status in ends]


def wanted(count: int, tasks: int, hosts: dict[str, int]) -> Line:
    """So many executors of the default profile, and where their data is."""
    return {"targets": {"0": count}, "localityAwareTasks": {"0": tasks}, "hostToLocalTaskCount": {"0": hosts}}


def define_requests() -> None:
    """What is asked for."""
    # A label that is two: the client refuses the first request, the heartbeat ends, the second profile is never reached.
    scenario("label-either", {LABEL: "a||b"}, beat(), {"targets": {"0": 3, "1": 2}}, beat(), log=True, asks=True)
    # What is stale is cancelled before the refusal, and stays so.
    scenario("label-both", {LABEL: "a&&b"}, wanted(2, 2, {"h1": 2}), beat(), wanted(4, 2, {"h2": 2}), beat(), log=True)
    # An empty label is one.
    scenario("label-empty", {LABEL: ""}, beat(), asks=True)
    # Targets below 0 are taken as they are; what runs stays.
    scenario(
        "targets-negative",
        {},
        {"targets": {"0": -3, "1": -1}},
        beat(),
        {"targets": {"0": 2, "1": 1}},
        beat(),
        beat(given(1, "h1")),
        {"targets": {"0": -2, "1": 1}},
        beat(),
    )
    # Hints below 0, sums beyond an int (which wrap around), tasks below 0: the arithmetic goes on.
    scenario(
        "hints-beyond",
        {"spark.executor.cores": "2"},
        wanted(5, 7, {"h1": -3, "h2": 10, "h3": 0}),
        beat(),
        wanted(9, -7, {"h1": 3, "h2": 10, "h4": 1}),
        beat(),
        wanted(12, MOST, {"h1": MOST, "h2": MOST, "h4": 1}),
        beat(),
        wanted(15, MOST, {"h1": 1, "h2": 1, "h4": 1, "h5": 2, "h6": 1}),
        beat(),
        wanted(20, 3, {"h1": 1, "h2": -1}),
        beat(),
        racks={"h1": "/r1"},
        log=True,
    )
    # Above four hosts and racks their order is that of a hash, in the requests and in the log.
    hosts = [f"host{number}" for number in range(8)]
    scenario(
        "order-of-hosts",
        {},
        wanted(9, 9, {host: 9 - place for place, host in enumerate(hosts)}),
        beat(),
        beat(*(given(place, host) for place, host in enumerate(hosts, start=1))),
        sets="raw",
        log=True,
        asks=True,
        racks={host: f"/rack{place}" for place, host in enumerate(hosts)},
    )
    # Profiles are looked at in the order of a hash, too: of a mutable map up to four, of an immutable one above.
    scenario(
        "order-of-profiles",
        {},
        {"targets": {"16": 1, "1": 1}},
        beat(),
        {"targets": {"32": 1, "1": 2, "16": 2, "100000": 2}},
        beat(),
        {"targets": {"0": 3, "1": 4, "16": 4, "32": 4, "100000": 4}},
        beat(),
        executors=1,
        sets="raw",
    )


def define_containers() -> None:
    """What is given and ends."""
    # One container given three times: three executors, the last one known by it; a kill of an older one then throws.
    scenario(
        "container-thrice",
        {},
        beat(),
        beat(given(1, "h1"), given(1, "h2"), given(1, "h1")),
        beat(completed=ended((1, 1))),
        beat(completed=ended((1, 1))),
        {"kill": ["1", "2", "3"]},
        beat(),
        executors=4,
    )
    # An unknown priority behind a match: the matched request is gone, nothing is launched or released.
    scenario(
        "priority-unknown",
        {},
        beat(),
        beat(given(1, "h1"), given(2, "h1", 9), given(3, "h1")),
        wanted(5, 2, {"h1": 2}),
        beat(given(4, "h1"), given(5, "h1", -1)),
        beat(),
        executors=5,
    )
    # A profile is known from its first target on, not before; and stays known when nothing is wanted any more.
    scenario(
        "profile-before-target",
        {},
        beat(given(1, "h1", 2)),
        {"targets": {"2": 1}},
        beat(given(2, "h1", 2)),
        {"targets": {}},
        {"targets": {"3": 1}},
        beat(),
        {"targets": {}},
        beat(given(3, "h1", 2)),
        executors=1,
        profiles={"2": {"cores": 2, "memory": "2g", "cpus": 1}},
    )
    # The two handlers alone: what ends the first does not keep the second from its work.
    both = {"allocated": [given(1, "h1", memory=5), given(2, "h1")], "completed": ended((1, 0))}
    scenario(
        "handlers-alone",
        {},
        beat(),
        {"handle": both},
        {"handle": {}},
        {"handle": {"allocated": [given(5, "h1", 7)], "completed": ended((9, 5))}},
        executors=2,
        log=True,
    )
    # A shutdown can be taken back.
    scenario(
        "shutdown-undone",
        {},
        beat(),
        beat(given(1, "h1"), given(2, "h1")),
        {"shutdown": True, "allocate": {"completed": ended((1, 1))}},
        {"shutdown": False, "allocate": {"completed": ended((2, 1))}},
        executors=2,
    )
    # Every exit status and what Spark makes of it.
    lines: list[Line] = []
    for number, status in enumerate((*range(-110, -98), *range(-2, 301), MOST, -MOST - 1), start=1):
        lines += [beat(given(number, "h")), beat(completed=ended((number, status)))]
    scenario("exit-statuses", {"spark.executor.maxNumFailures": str(MOST)}, beat(), *lines, executors=1)
    # What counts as an amount of memory in the diagnostics.
    texts = (
        "1..2 GB of 3 MB physical memory used",
        "x1 KB of 2 KB virtual memory usedx",
        "1 TB of 2 TB virtual memory used",
        "1 GB of 2 GB virtual memory used 3 GB of 4 GB physical memory used",
        "1 GB of 2 GB of 3 GB virtual memory used",
        "...12 GB of 1 GB virtual memory used\n9 GB of 9 GB physical memory used",
        "1 GB of 1 GB physical memory used",
    )
    ends = [
        {"id": number, "exit": status, "diagnostics": text}
        for number, (status, text) in enumerate(((status, text) for status in (-103, -104) for text in texts), start=1)
    ]
    scenario("exit-diagnostics", {}, beat(completed=ends), executors=1, log=True)
    # Nodes: only those that are being decommissioned count, and one that came back does not count again.
    states = [{"host": "h1", "state": "LOST"}, {"host": "h2"}, {"host": "h2"}, {"host": "h2", "state": "RUNNING"}]
    scenario(
        "nodes-updated",
        {"spark.decommission.enabled": "true"},
        beat(updatedNodes=states),
        beat(updatedNodes=[{"host": "h2"}, {"host": "h1"}]),
    )
    # Decommissioning and an external shuffle service: Spark warns, after its exclusions and before its first profile.
    scenario(
        "decommission-and-service",
        {
            "spark.decommission.enabled": "true",
            "spark.shuffle.service.enabled": "true",
            "spark.yarn.exclude.nodes": "z",
        },
        beat(updatedNodes=[{"host": "h1"}]),
        log=True,
    )


def define_failures() -> None:
    """What is counted and excluded."""
    failing = (
        beat(),
        beat(given(1, "h1"), given(2, "h1"), given(3, "h2")),
        beat(completed=ended((1, 1), (2, 1))),
        beat(completed=ended((3, 1))),
    )
    # An exclusion of no length is over as soon as it begins; every failure begins one.
    scenario("exclusion-of-no-time", {EXCLUDE: "true", TIMEOUT: "0", PER_NODE: "0"}, *failing, executors=5, log=True)
    # One that is to last longer than a long holds is over at once, too; a limit below 0 excludes at the first failure.
    overflow = {EXCLUDE: "true", TIMEOUT: f"{2**63 - 1}", PER_NODE: "-1"}
    scenario("exclusion-overflows", overflow, *failing, executors=5, log=True)
    # The key of before counts where the other one is unset.
    legacy = {EXCLUDE: "true", "spark.scheduler.executorTaskExcludeOnFailureTime": "1ms", PER_NODE: "0"}
    scenario("exclusion-by-the-old-key", legacy, *failing, {"targets": {"0": 3}}, executors=5)
    # A cluster of no nodes, or fewer: never all excluded, and a warning instead.
    scenario(
        "nodes-none",
        {"spark.yarn.exclude.nodes": "a,b"},
        beat(),
        beat(clusterNodes=-1),
        beat(clusterNodes=2),
        beat(),
        clusterNodes=0,
        log=True,
    )
    # A validity interval that is not positive is none.
    scenario("failures-for-ever", {"spark.executor.failuresValidityInterval": "-1"}, *failing, executors=5)
    # Launches that nobody waits for, that fail, and that fail fatally; all at once.
    scenario(
        "launch-ends",
        {},
        beat(),
        beat(given(1, "h1"), given(2, "h1")),
        {"launched": ["1", "1", "9"]},
        {"launchFatal": ["2"], "launchFailed": ["2"]},
        beat(given(3, "h1"), given(4, "h2")),
        {"launchFailed": "all"},
        beat(),
        executors=3,
        launch="queued",
        log=True,
    )


def define_conf() -> None:
    """What containers are made of, and what cannot be read."""
    memory = {
        "spark.executor.memory": "3g",
        "spark.executor.memoryOverheadFactor": "0.25",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "200m",
        "spark.yarn.isPython": "true",
        "spark.executor.pyspark.memory": "100m",
        "spark.executor.cores": "4",
        "spark.executor.resource.gpu.amount": "2",
        "spark.task.resource.gpu.amount": "1",
    }
    # Another profile's overhead is the share of the default profile's heap.
    scenario(
        "memory-of-everything",
        memory,
        {"targets": {"0": 3, "1": 2}},
        beat(),
        beat(given(1, "h1"), given(2, "h1", 1)),
        profiles={"1": {"cores": 3, "memory": "10g"}},
        log=True,
    )
    small = {"spark.executor.memory": "500m", "spark.executor.minMemoryOverhead": "10m", "spark.yarn.isPython": "true"}
    scenario("memory-of-little", small, beat(), log=True)
    first = "spark.dynamicAllocation.initialExecutors"
    dynamic = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "1", first: "5"}
    unreadable: tuple[tuple[str, dict[str, str]], ...] = (
        ("instances", {"spark.executor.instances": "x"}),
        ("first-executors", dynamic),
        ("memory", {"spark.executor.memory": "x"}),
        ("resource-pattern", {f"{RESOURCE}.amount": "x"}),
        ("resource-size", {f"{RESOURCE}.amount": "9" * 20}),
        ("resource-no-suffix", {RESOURCE: "1"}),
        ("resource-other-suffix", {f"{RESOURCE}.vendor": "1"}),
        ("window", {"spark.executor.failuresValidityInterval": "x"}),
        ("timeout", {TIMEOUT: "x"}),
        ("failures", {"spark.executor.maxNumFailures": "x"}),
        ("threads", {"spark.yarn.containerLauncherMaxThreads": "0"}),
        ("factor", {f"{OVERHEAD}Factor": "-1"}),
        ("off-heap", {"spark.memory.offHeap.enabled": "true"}),
    )
    for name, conf in unreadable:
        scenario(f"conf-{name}", conf, beat())
    # A resource that YARN does not know is dropped, whatever its unit.
    scenario("conf-resource-unknown", {f"{RESOURCE}.amount": "3x"}, beat())
