"""A random resource manager and driver around the YARN allocator, in closed loop with the judge.

The resource manager serves what waits: partly, late, on other hosts than were named, sometimes more than was asked for or a
container of the wrong size. Nodes go away with all that they hold, containers end in every way, some ends are told twice or
of containers that nobody knows. The driver moves its targets, hints at hosts, excludes some, kills and asks why executors
are gone. Where launches are queued they end later, in any order, or fail.

Which profile Spark looks at first is an accident of hashing above four of them, and the log shows it: scenarios that show
the log have four at most.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from tests.oracle.world import Answers, Line, Sink

EXITS: Final = (
    0, 1, 1, 1, 2, 50, 52, 53, 56, 57, 58, 137, 143, -1, -100, -101, -102, -103, -104, -105, -106, -107, -108, -1000,
)  # fmt: skip
PREEMPTED: Final = -102
VMEM: Final = -103
PMEM: Final = -104
RELEASED: Final = (-105, -105, -106, -100, 0, 143)
BEYOND_VIRTUAL: Final = (
    "",
    "Container is running beyond virtual memory limits. Current usage: 1.5 GB of 3 GB physical memory used; 6.6 GB of 6.3 "
    "GB virtual memory used. Killing container.",
)
BEYOND_PHYSICAL: Final = (
    "",
    "Container is running beyond physical memory limits. Current usage: 2.1 MB of 2 GB physical memory used; 5.8 GB of 4.2 "
    "GB virtual memory used. Killing container.",
)
DIAGNOSTICS: Final = ("", "boom", "Container released on a *lost* node", "a\nb", "ünïcode")
STATES: Final = ("DECOMMISSIONING", "DECOMMISSIONING", "DECOMMISSIONING", "RUNNING", "LOST")
EXCLUDE: Final = "spark.yarn.executor.launch.excludeOnFailure.enabled"
STRANGER: Final = 9999
"""A container that was never given."""
HUGE_MIB: Final = 65_536
TINY_MIB: Final = 100
UNKNOWN_PROFILE: Final = 99
SERVED_MAX: Final = 30


@dataclass(frozen=True)
class YarnSetting:
    """A scenario's header, and what of it the world and the coverage need."""

    header: Line
    hosts: tuple[str, ...]
    profiles: tuple[int, ...]

    @property
    def conf(self) -> dict[str, str]:
        """Spark's settings."""
        conf: dict[str, str] = self.header["conf"]
        return conf

    @property
    def options(self) -> Line:
        """How the scenario is played."""
        options: Line = self.header["options"]
        return options


def draw_setting(r: random.Random) -> YarnSetting:
    """Draw a conf, hosts on racks, and how launches go."""
    hosts = tuple(f"h{number}" for number in range(1, r.choice((3, 4, 6, 9, 14)) + 1))
    log = r.random() < 0.3
    profiles = r.choice(((0,), (0,), (0,), (0, 1), (0, 1), (0, 1, 2, 5), (0, 1, 2, 3, 4, 7)))
    if log:
        profiles = profiles[:4]
    options: Line = {"clusterNodes": len(hosts), "sets": r.choice(("sorted", "sorted", "raw"))}
    if log:
        options["log"] = True
    if r.random() < 0.3:
        options["asks"] = True
    if r.random() < 0.5:
        options["launch"] = "queued"
    if r.random() < 0.8:
        racks = r.choice((1, 2, 3, 6))
        options["racks"] = {host: f"/r{place % racks}" for place, host in enumerate(hosts) if r.random() < 0.95}
    if r.random() < 0.15:
        options["lastExecutorId"] = r.randint(1, 50)
    if r.random() < 0.4:
        options["profiles"] = {
            str(profile): {"cores": r.choice((1, 2, 6)), "memory": r.choice(("1g", "4g")), "cpus": 1}
            for profile in profiles
            if profile
        }
    return YarnSetting({"conf": _conf(r, hosts), "options": options}, hosts, profiles)


def _conf(r: random.Random, hosts: tuple[str, ...]) -> dict[str, str]:
    conf: dict[str, str] = {}
    cores = r.choice((1, 1, 2, 4, 5))
    conf["spark.executor.cores"] = str(cores)
    if cores > 1 and r.random() < 0.3:
        conf["spark.task.cpus"] = r.choice(("2", "0.5"))
    _memory(r, conf)
    match r.randrange(4):
        case 0:
            conf["spark.executor.instances"] = str(r.choice((0, 1, 3, 7)))
        case 1 | 2:
            conf["spark.dynamicAllocation.enabled"] = "true"
            if r.random() < 0.5:
                conf["spark.dynamicAllocation.initialExecutors"] = str(r.choice((0, 1, 4)))
            if r.random() < 0.3:
                conf["spark.dynamicAllocation.minExecutors"] = "1"
            if r.random() < 0.4:
                conf["spark.dynamicAllocation.maxExecutors"] = str(r.choice((5, 8, 40, 1_073_741_824)))
    if r.random() < 0.55:
        conf[EXCLUDE] = "true"
        if r.random() < 0.9:
            most = str(r.choice((0, 1, 1, 2, 3)))
            conf["spark.excludeOnFailure.application.maxFailedExecutorsPerNode"] = most
        key = "spark.excludeOnFailure.timeout"
        if r.random() < 0.1:
            key = "spark.scheduler.executorTaskExcludeOnFailureTime"
        if r.random() < 0.95:
            conf[key] = f"{r.choice((0, 3, 10, 10, 30))}s"
    if r.random() < 0.25:
        conf["spark.yarn.exclude.nodes"] = ",".join(r.sample((*hosts, "elsewhere"), r.randint(1, 2)))
    if r.random() < 0.4:
        conf["spark.executor.failuresValidityInterval"] = f"{r.choice((2, 5, 20))}s"
    if r.random() < 0.2:
        conf["spark.executor.maxNumFailures"] = str(r.choice((2, 5, 20)))
    if r.random() < 0.5:
        conf["spark.decommission.enabled"] = "true"
    if r.random() < 0.2:
        conf["spark.shuffle.service.enabled"] = "true"
    if r.random() < 0.2:
        conf["spark.yarn.executor.nodeLabelExpression"] = r.choice(("gpu", "gpu", "gpu", "", "a&&b"))
    return conf


def _memory(r: random.Random, conf: dict[str, str]) -> None:
    draws: tuple[tuple[float, str, tuple[str, ...]], ...] = (
        (0.5, "memory", ("512m", "1g", "3g", "8g")),
        (0.2, "memoryOverhead", ("500m", "1g")),
        (0.2, "memoryOverheadFactor", ("0.2", "0.4")),
        (0.1, "minMemoryOverhead", ("100m", "1g")),
        (0.1, "pyspark.memory", ("300m",)),
    )
    for chance, name, values in draws:
        if r.random() < chance:
            conf[f"spark.executor.{name}"] = r.choice(values)
    if r.random() < 0.15:
        conf["spark.yarn.isPython"] = "true"
    if r.random() < 0.1:
        conf |= {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "700m"}


class YarnWorld:
    """One scenario being made."""

    def __init__(self, r: random.Random, sink: Sink, setting: YarnSetting) -> None:
        self.r = r
        self.now = 0
        self._sink = sink
        self._setting = setting
        self._queued = setting.options.get("launch") == "queued"
        self._hints = r.random() < 0.75
        self._most = r.choice((3, 8, 8, 20, 60))
        self._speed = r.choice((0.3, 0.8, 1.0))
        self._near = r.choice((0.3, 0.7, 1.0))
        self._deaths = r.choice((0, 0.01, 0.01, 0.05, 0.15))
        self._containers = 0
        self._living: dict[int, str] = {}
        self._ending: list[tuple[int, int, int]] = []
        self._wanted: dict[str, list[str] | None] = {}
        self._launches: list[str] = []
        self._state: dict[str, Any] = {}

    def run(self, steps: int) -> None:
        """Play the scenario."""
        r = self.r
        self._ask(self._setting.header)
        for step in range(steps):
            if not self._state:
                return  # Spark would not start
            self.now += r.choice((200, 200, 400, 800, 1600, 3000, r.randint(1, 3000)))
            if r.random() < (0.7 if step == 0 else 0.25):
                self._targets()
            self._end_launches()
            self._driver()
            if not self._queued and r.random() < 0.03:
                self._put({"failLaunches": r.choice((1, 2))})
            if r.random() < 0.02:
                self._handlers_alone()
            else:
                self._put({"allocate": self._answer()})
        if r.random() < 0.3:
            self._put({"shutdown": True})
            for _ in range(3):
                self.now += 200
                self._put({"allocate": self._answer()})
        if r.random() < 0.2:
            self._put({"stop": True})

    def _put(self, line: Line) -> Answers:
        return self._ask({"at": self.now, **line})

    def _ask(self, line: Line) -> Answers:
        """Send a line and take what it brought: requests made, containers released, launches, the state."""
        self._sink.put(line)
        ((_, answers),) = self._sink.settle()
        for answer in answers:
            for group in answer.get("request", ()):
                profile, number = map(int, group["first"].split("."))
                for place in range(group["n"]):
                    self._wanted[f"{profile}.{number + place}"] = group["hosts"]
            for container in answer.get("release", ()):
                if self.r.random() < 0.95:
                    at = self.now + self.r.choice((0, 200, 1000, 5000))
                    self._ending.append((at, container, self.r.choice(RELEASED)))
            self._launches += [launch["id"] for launch in answer.get("launch", ())]
            self._state = answer.get("state", self._state)
        return answers

    # ---- the driver

    def _targets(self, lower: int | None = None) -> None:
        """Move the targets of most profiles, with hints and exclusions or without."""
        r, targets = self.r, {}
        for profile in self._setting.profiles if r.random() > 0.015 else ():
            if profile and r.random() < 0.15:
                continue
            now = self._state["target"].get(str(profile), 0)
            if lower is not None:
                then = now - lower
            elif r.random() < 0.25:
                then = now
            elif r.random() < 0.6:
                then = now + r.randint(-4, 5)
            else:
                then = int(r.random() ** 2 * self._most)
            targets[str(profile)] = max(-1 if r.random() < 0.02 else 0, then)
        line: Line = {"targets": targets, **self._locality()}
        if r.random() < 0.3:
            line["excludedNodes"] = r.sample(self._setting.hosts, r.choice((0, 1, 1, 2)))
        self._put(line)

    def _locality(self) -> Line:
        r = self.r
        if not self._hints or r.random() < 0.1:
            return {}
        tasks: dict[str, int] = {}
        hosts: dict[str, dict[str, int]] = {}
        known = (*self._setting.hosts, "far1", "far2")
        for profile in self._setting.profiles:
            if r.random() < 0.2:
                continue
            named = r.sample(known, r.randint(1, min(len(known), r.choice((2, 4, 12)))))
            zero = r.random() < 0.05
            counts = {host: 0 if zero else r.choice((1, 2, 5, 10, 15, r.choice((0, 3)))) for host in named}
            hosts[str(profile)] = counts
            tasks[str(profile)] = r.choice((0, 1, 3, 10, 15, 40, 100)) if r.random() < 0.5 else sum(counts.values())
        return {"localityAwareTasks": tasks, "hostToLocalTaskCount": hosts}

    def _driver(self) -> None:
        """Kill some, ask after some."""
        r = self.r
        running = [executor for executors in self._state["running"].values() for executor in executors]
        if running and r.random() < 0.12:
            killed = r.sample(running, min(len(running), r.choice((1, 1, 2, 4))))
            if r.random() < 0.7:
                self._targets(lower=len(killed))
            self._put({"kill": [str(executor) for executor in killed]})
        last = self._state["lastId"]
        if r.random() < 0.03:
            self._put({"kill": [str(r.randint(1, last + 2)) for _ in range(r.choice((1, 2)))]})
        if r.random() < 0.1:
            known = [*self._state["executors"], *map(str, self._state["lossStored"])] or ["1"]
            asked = [
                r.choice(known) if r.random() < 0.85 else str(r.randint(1, last + 2))
                for _ in range(r.choice((1, 1, 2)))
            ]
            self._put({"enqueueLoss": asked})

    def _end_launches(self) -> None:
        """Some of the launches under way end, in any order."""
        r, launches = self.r, self._launches
        self._launches = []
        if not self._queued:
            return
        ended: dict[str, list[str]] = {"launched": [], "launchFailed": [], "launchFatal": []}
        for executor in launches:
            how = r.random()
            if how < 0.35:
                self._launches.append(executor)
            else:
                ended["launched" if how < 0.94 else "launchFailed" if how < 0.99 else "launchFatal"].append(executor)
        r.shuffle(ended["launched"])
        line: Line = {key: executors for key, executors in ended.items() if executors}
        if line:
            self._put(line)

    # ---- the resource manager

    def _answer(self) -> Line:
        """What the resource manager says to a heartbeat."""
        r = self.r
        allocated = self._given()
        completed = self._completed(allocated)
        if r.random() < 0.008:
            for container in allocated:
                self._living.pop(container["id"], None)
            return {"throw": "scripted: no answer"}
        answer: Line = {}
        if allocated:
            answer["allocated"] = allocated
        if completed:
            answer["completed"] = completed
        if r.random() < 0.06:
            nodes = r.choices(self._setting.hosts, k=r.randint(1, 3))
            answer["updatedNodes"] = [{"host": host, "state": r.choice(STATES)} for host in nodes]
        if r.random() < 0.04:
            answer["clusterNodes"] = r.choice((0, 1, 2, len(self._setting.hosts)))
        return answer

    def _given(self) -> list[Line]:
        r, state = self.r, self._state
        given: list[Line] = []
        for profile, waiting in state["pending"].items():
            # The heartbeat asks for what is missing before it is answered; that may be served at once.
            running = len(state["running"].get(profile, ())) + state["starting"].get(profile, 0)
            missing = state["target"].get(profile, 0) - running
            count = 0
            if r.random() < self._speed:
                count = r.choice((0, 0, missing, missing // 2, max(0, missing - 1), 1 if missing > 0 else 0))
            if r.random() < 0.06:
                count += r.choice((1, 1, 2, 5))
            for place in range(max(0, min(count, SERVED_MAX))):
                wanted = self._wanted.get(waiting[place]) if place < len(waiting) else None
                given.append(self._container(profile, wanted))
        r.shuffle(given)
        return given

    def _container(self, profile: str, wanted: list[str] | None) -> Line:
        r, hosts = self.r, self._setting.hosts
        host = r.choice(wanted) if wanted and r.random() < self._near else r.choice(hosts)
        if host in self._state["excluded"] and r.random() < 0.9:
            host = r.choice([other for other in hosts if other not in self._state["excluded"]] or [host])
        self._containers += 1
        container: Line = {"id": self._containers, "host": host}
        if profile != "0":
            container["rp"] = int(profile)
        odd = r.random()
        if odd < 0.05:
            container |= {"memory": HUGE_MIB, "vcores": 1}
        elif odd < 0.053:
            container["memory"] = TINY_MIB
        elif odd < 0.055:
            container["rp"] = UNKNOWN_PROFILE
        self._living[container["id"]] = host
        return container

    def _completed(self, allocated: list[Line]) -> list[Line]:
        r = self.r
        done = [self._end(one["id"], r.choice(EXITS)) for one in allocated if r.random() < 0.01]
        done += [self._end(number, r.choice(EXITS)) for number in list(self._living) if r.random() < self._deaths]
        if r.random() < 0.02:
            lost = r.choice(self._setting.hosts)  # a node goes away with all that it holds
            done += [self._end(number, -100) for number, host in list(self._living.items()) if host == lost]
        for at, number, status in [end for end in self._ending if end[0] <= self.now]:
            self._ending.remove((at, number, status))
            if number in self._living:
                done.append(self._end(number, status))
        if done and r.random() < 0.04:
            done.append(dict(r.choice(done)))
        if r.random() < 0.015:
            done.append(self._end(r.choice((STRANGER, max(1, self._containers - 3))), r.choice(EXITS)))
        if r.random() < 0.3:
            r.shuffle(done)
        return done

    def _end(self, number: int, status: int) -> Line:
        texts = BEYOND_VIRTUAL if status == VMEM else BEYOND_PHYSICAL if status == PMEM else DIAGNOSTICS
        diagnostics = self.r.choice(texts)
        self._living.pop(number, None)
        end: Line = {"id": number, "exit": status}
        return end | {"diagnostics": diagnostics} if diagnostics else end

    def _handlers_alone(self) -> None:
        """Containers and completions without a heartbeat before them, perhaps after a target was lowered."""
        if self.r.random() < 0.6:
            self._targets(lower=self.r.randint(1, 5))
        allocated = self._given()
        self._put({"handle": {"allocated": allocated, "completed": self._completed(allocated)}})
