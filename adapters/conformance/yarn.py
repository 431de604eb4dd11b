"""Scenarios of YARN: Spark's YarnAllocator was driven by them, over Hadoop's own table of requests.

Lines bring the driver's targets with locality hints, kills and questions, what the resource manager answers to a heartbeat,
and how launches end. The answers are the requests made and cancelled, which container took which, what was released,
launched, excluded and told to the driver, and after every line the allocator's whole state. Played here are the resource
manager, the AM client as far as it shows, and the pool that launches.

Everything goes to the allocator one at a time, as callers would wait for its lock; where launches are synchronous each ends
before the next begins. Neighbouring events of one kind share a line until something else is said or the call is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, assert_never

import msgspec

from podtide.adapters.conformance.detect import YarnAnswer, YarnGiven, YarnOptions
from podtide.adapters.conformance.manifests import ShapeError, java_bool, java_int, java_text
from podtide.adapters.conformance.scenario_configs import yarn_scenario
from podtide.adapters.conformance.scripted import ConstructionRefused, Line, Scripted, played, thrown
from podtide.adapters.conformance.yarn_client import AmClient, places
from podtide.adapters.views.sparklog import machines
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.conf.yarn_sections import NO_DECOMMISSION
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.hash_order import SMALL, immutable_map_order
from podtide.domain.jvm.values import parse_size, to_int
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.containers import DEFAULT_RACK, Completion, Container, ContainerId, NodeReport, Resource
from podtide.domain.protocol.executor_commands import ExitReason, RemoveExecutor
from podtide.domain.protocol.reasons import Remark
from podtide.domain.protocol.resource_profiles import CPUS, ResourceProfile
from podtide.domain.yarn import allocator as yarn
from podtide.domain.yarn.allocator_state import MACHINE, TRACKER, NegotiationCommand, YarnState
from podtide.domain.yarn.container_specs import container_spec

LAUNCH_FAILED: Final = "java.lang.RuntimeException: scripted: launch failed"
LAUNCH_FATAL: Final = "java.lang.InterruptedException: scripted: fatal"
REFUSED: Final = "org.apache.hadoop.yarn.exceptions.YarnException: "
MEBIBYTE: Final = 1_024**2

S = TypeVar("S", YarnAnswer, YarnOptions)

Outcome = tuple[str | None, bool]
"""What a launch throws (None: nothing), and whether that is fatal."""


class _Runner(Scripted):
    """One scenario under way."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self.script = _read(self.options, YarnOptions, "options: ")
        self.open: tuple[str, int | None] | None = None  # the line that neighbours may join
        self.client = AmClient()
        self.log: list[str] = []
        self.numbers: dict[ContainerId, int] = {}
        self.queue: dict[str, ExecutorId] = {}
        self.nodes = self.script.cluster_nodes
        self.fail_launches = 0
        self.reply = YarnAnswer()
        self.acting = ""
        self.raw = self.script.sets == "raw"
        self.requests_made: list[tuple[int, NegotiationCommand]] = []
        queued = self.script.launch == "queued"
        answer = yarn_scenario(header["conf"], self.script.racks, awaited=not queued, remarks=self.script.log)
        if isinstance(answer, SparkFault):
            raise ConstructionRefused(f"construct: {answer if answer.message else answer.exception_class}")
        self.config = answer.config
        step = yarn.begin(self.config, self.now, last_id=self.script.last_executor_id)
        self.state: YarnState = step.state
        self.carry_out(step.commands)
        for report in step.reports:
            if isinstance(report, Remark) and report.machine == MACHINE and self.script.log:
                self.log += [f"WARN {notice.text}" for notice in answer.notices if notice.text == NO_DECOMMISSION]
            self.report(report)
        self.show_state()

    def say(self, line: Line) -> None:
        """Answer a line of its own."""
        self.open = None
        super().say(line)

    def join(self, key: str, items: Iterable[object], profile: ProfileId | None = None) -> None:
        """Answer items of a kind: more of the line before, or a new one."""
        listed = list(items)
        if not listed:
            return
        if self.open == (key, profile):
            self.lines[-1][key] += listed
            return
        self.say({**({} if profile is None else {"rp": profile}), key: listed})
        self.open = key, profile

    # ------------------------------------------------------------------------------------------------------- one line

    def step(self, line: Line) -> None:
        if "at" in line:
            self.now = java_int(line["at"])
        if "shutdown" in line:
            self.take(ym.MasterEnding(self.now))
            self.state = replace(self.state, ending=java_bool(line["shutdown"]))
        if "failLaunches" in line:
            self.fail_launches = java_int(line["failLaunches"])
        self.end_launches(line)
        if "targets" in line:
            self.act("targets", *self.wanted(line))
        for executor in line.get("kill", ()):
            self.act("kill", ym.KillExecutors(self.now, (ExecutorId(java_text(executor)),)))
        for executor in line.get("enqueueLoss", ()):
            self.act("enqueueLoss", ym.LossReasonsAsked(self.now, (ExecutorId(java_text(executor)),)))
        if "allocate" in line:
            self.reply = _read(line["allocate"], YarnAnswer)
            self.act("allocate", ym.Beat(self.now))
        if "handle" in line:
            given = _read(line["handle"], YarnAnswer)
            for part in ((self.given(given), ()), ((), self.completed(given))):
                if any(part):
                    self.act("handle", ym.ContainersGiven(self.now, *part))
        if line.get("stop"):
            self.say({"stopped": True})
        self.show_state()

    def end_launches(self, line: Line) -> None:
        ends: tuple[tuple[str, Outcome], ...] = (
            ("launched", (None, False)),
            ("launchFailed", (LAUNCH_FAILED, False)),
            ("launchFatal", (LAUNCH_FATAL, True)),
        )
        for key, (failure, fatal) in ends:
            ids = line.get(key, ())
            for number in list(self.queue) if ids == "all" else [java_text(one) or "" for one in ids]:
                executor = self.queue.pop(number, None)
                if executor is None:
                    self.say({"error": f"no queued launch of executor {number}"})
                else:
                    self.act("launch", ym.LaunchEnded(self.now, executor, failure, fatal))

    def wanted(self, line: Line) -> Iterator[ym.YarnInput]:
        """The driver's request; profiles are made known as it names them."""
        targets = tuple((ProfileId(int(profile)), count) for profile, count in line["targets"].items())
        rules = self.config.rules
        known = self.state.specs
        specs = tuple((rp, container_spec(self.profile(rp), rules)) for rp, _ in targets if rp not in known)
        if specs:
            yield ym.ProfilesDefined(self.now, specs)
        tasks = {ProfileId(int(rp)): count for rp, count in line.get("localityAwareTasks", {}).items()}
        hosts = {ProfileId(int(rp)): dict(hints) for rp, hints in line.get("hostToLocalTaskCount", {}).items()}
        excluded = tuple(dict.fromkeys(line.get("excludedNodes", ())))
        yield ym.ContainersWanted(self.now, targets, tasks, hosts, excluded)

    def profile(self, rp: ProfileId) -> ResourceProfile:
        """The profile that a number stands for."""
        if rp == DEFAULT_PROFILE:
            return ResourceProfile(rp)
        given = self.script.profiles.get(str(rp), None)
        cores = 1 + rp % 4 if given is None or given.cores is None else given.cores
        memory, cpus = ("1g", 1) if given is None else (given.memory, given.cpus)
        try:
            mebibytes = parse_size(memory, "b") // MEBIBYTE
        except ValueError as fault:
            raise ShapeError(f"expected a size for the memory of profile {rp}, got {memory!r:.60}") from fault
        return ResourceProfile(rp, (("cores", cores), ("memory", mebibytes)), ((CPUS, float(cpus)),))

    # -------------------------------------------------------------------------------------------- the resource manager

    def container_id(self, number: int) -> ContainerId:
        name = ContainerId(f"container_1_0001_01_{number:06}")
        self.numbers[name] = number
        return name

    def given(self, answer: YarnAnswer) -> tuple[Container, ...]:
        """The containers of an answer, each as large as its profile wants it unless the scenario says otherwise."""
        return tuple(self.container(one) for one in answer.allocated)

    def container(self, one: YarnGiven) -> Container:
        profile = ProfileId(one.rp)
        own = self.state.specs[profile].resource if profile in self.state.rows.requests else Resource(1_024, 1)
        memory = own.memory_mib if one.memory is None else one.memory
        cores = own.vcores if one.vcores is None else one.vcores
        return Container(self.container_id(one.id), one.host, profile, Resource(memory, cores))

    def completed(self, answer: YarnAnswer) -> tuple[Completion, ...]:
        return tuple(Completion(self.container_id(one.id), one.exit, one.diagnostics) for one in answer.completed)

    def answer(self, command: ym.CallResourceManager) -> ym.YarnInput:
        """One heartbeat: what was scripted for it."""
        reply = self.reply
        if self.script.asks:
            self.say({"heartbeat": self.client.call(fails=reply.throw is not None)})
        if reply.throw is not None:
            return ym.ResourcesRefused(self.now, command.serial, REFUSED + reply.throw)
        if reply.cluster_nodes is not None:
            self.nodes = reply.cluster_nodes
        updated = tuple(NodeReport(node.host, node.state) for node in reply.updated_nodes)
        left = reply.available
        return ym.ResourcesAnswered(
            self.now,
            command.serial,
            self.given(reply),
            self.completed(reply),
            updated,
            self.nodes,
            None if left is None else Resource(left.memory, left.vcores),
        )

    # ------------------------------------------------------------------------------------------------- what comes of it

    def act(self, name: str, *items: ym.YarnInput) -> None:
        """One call of Spark's."""
        self.acting = name
        for item in items:
            self.take(item)
        self.flush()
        self.open = None

    def take(self, item: ym.YarnInput) -> None:
        """Hand one input to the allocator and carry out what it says."""
        step = yarn.negotiate(self.state, (item,), self.config, self.now)
        self.state = step.state
        for report in step.reports:
            self.report(report)
        self.carry_out(step.commands)
        for fault in thrown(step.reports):
            self.flush()
            self.say({"threw": fault, "in": self.acting})

    def report(self, report: Report) -> None:
        """Keep the lines of Spark's log, from INFO on."""
        if self.script.log:
            self.log += [f"{line.level} {line.text}" for line in machines.lines(report) if line.level != "DEBUG"]

    def carry_out(self, commands: Sequence[NegotiationCommand]) -> None:
        for command in commands:
            answer = self.perform(command)
            if answer is not None:
                self.take(answer)

    def perform(self, command: NegotiationCommand) -> ym.YarnInput | None:
        """Do what the allocator asks for and show it; what comes back at once is the answer."""
        match command:
            case ym.CancelRequests():
                self.client.cancel(command)
                self.requests_made.append((command.profile, command))
            case ym.RequestContainers():
                self.client.request(command)
                self.requests_made.append((command.profile, command))
            case _:
                self.flush()
                return self.show(command)
        return None

    def flush(self) -> None:
        """Requests made and cancelled are shown when the round goes on, by profile if the scenario wants them sorted."""
        made, self.requests_made = self.requests_made, []
        for profile, command in made if self.raw else sorted(made, key=lambda one: one[0]):
            if isinstance(command, ym.CancelRequests):
                numbers = (number for span in command.spans for number in range(span.first, span.last + 1))
                self.join("cancel", (f"{profile}.{number}" for number in numbers), command.profile)
            elif isinstance(command, ym.RequestContainers):
                self.join("request", self.requests(command), command.profile)

    def requests(self, command: ym.RequestContainers) -> Iterator[Line]:
        number = command.first
        for count, hosts, racks in places(command):
            names, on = self.in_order(command.profile, hosts, racks)
            yield {
                "first": f"{command.profile}.{number}",
                "n": count,
                "hosts": names,
                "racks": on,
                "relaxLocality": True,
                "priority": command.profile,
                "label": command.label,
                "memory": command.resource.memory_mib,
                "vcores": command.resource.vcores,
            }
            number += count

    def in_order(
        self, profile: ProfileId, hosts: tuple[str, ...], racks: tuple[str, ...]
    ) -> tuple[list[str] | None, list[str] | None]:
        """Hosts and racks sorted, or as Spark walks them; None for a request without."""
        if not hosts:
            return None, None
        if not self.raw:
            return list(hosts), list(racks)
        wished = list(self.state.host_tasks.get(profile, {}))
        there = frozenset(hosts)
        names = [host for host in wished if host in there] if len(wished) <= SMALL else immutable_map_order(hosts)
        on = list(dict.fromkeys(self.config.racks.get(host, DEFAULT_RACK) for host in names))
        return names, on if len(on) <= SMALL else immutable_map_order(on)

    def show(self, command: NegotiationCommand) -> ym.YarnInput | None:
        match command:
            case ym.TakeRequests():
                self.client.take(command)
                matches = (
                    {"container": self.numbers[one.container], "request": f"{command.profile}.{one.request}"}
                    | {"at": one.location}
                    for one in command.matches
                )
                self.join("match", matches)
            case ym.ReleaseContainers():
                numbers = [self.numbers[container] for container in command.containers]
                self.client.release(numbers)
                self.join("release", numbers)
            case ym.LaunchExecutor():
                return self.launch(command)
            case ym.CallResourceManager():
                self.open = None
                return self.answer(command)
            case ym.UpdateExclusions():
                self.client.exclude(command)
                exclusions = {"add": list(command.added), "remove": list(command.removed)}
                self.say({"blacklist": exclusions})
            case RemoveExecutor():
                self.say({"removeExecutor": {"id": command.executor, **_reason(command.reason)}})
            case ym.DecommissionHost():
                self.say({"decommissionExecutorsOnHost": command.host})
            case ym.TellLossReason(reason=None):
                self.say({"lossReasonFailed": command.executor, "what": command.failure})
            case ym.TellLossReason(reason=reason):
                assert reason is not None
                self.say({"lossReason": {"id": command.executor, **_reason(reason)}})
            case ym.TargetsTaken():
                self.say({"changed": command.changed})
            case ym.CancelRequests() | ym.RequestContainers() | ym.EndApplication():
                raise AssertionError("the allocator alone ends no application, and requests were shown")
            case _:
                assert_never(command)
        return None

    def launch(self, command: ym.LaunchExecutor) -> ym.LaunchEnded | None:
        """A launch begins; where launches are synchronous it ends at once."""
        shown = {
            "id": command.executor,
            "container": self.numbers[command.container],
            "host": command.host,
            "rp": command.profile,
            "memory": command.heap_mib,
            "cores": command.cores,
        }
        self.join("launch", (shown,))
        if self.script.launch == "queued":
            self.queue[command.executor] = command.executor
            return None
        failure = None
        if self.fail_launches > 0:
            self.fail_launches -= 1
            failure = LAUNCH_FAILED
        return ym.LaunchEnded(self.now, command.executor, failure)

    # --------------------------------------------------------------------------------------------------------- the state

    def show_state(self) -> None:
        """The allocator's state, and before it what was logged."""
        if self.log:
            self.say({"log": self.log})
            self.log = []
        state, config = self.state, self.config
        health = replace(state.health, failures=state.health.failures.within(config.exclusion.window_ms, self.now))
        self.state = replace(state, health=health)  # counting failures forgets those that count no longer
        rows = state.rows
        shown: Line = {
            "target": _by_profile(state.targets, int),
            "running": _by_profile(rows.running_by_profile(), _sorted),
            "starting": _by_profile(rows.starting, int),
            "pending": {
                rp: [f"{rp}.{number}" for number in table.numbers()]
                for rp, table in _by_profile(rows.requests, lambda table: table).items()
            },
            "hosts": _by_profile(rows.containers_by_host(), self.hosts),
            "executors": {
                str(executor): self.numbers[container]
                for executor, container in sorted(rows.container_of.items(), key=lambda pair: int(pair[0]))
            },
            "launching": sorted(self.numbers[container] for container in rows.launching),
            "released": sorted(self.numbers[container] for container in rows.released),
            "lossPending": {str(one): rows.loss_asked[ExecutorId(str(one))] for one in _sorted(rows.loss_asked)},
            "lossStored": _sorted(rows.loss_stored),
            "unexpected": state.unexpected,
            "lastId": state.last_id,
            "localityAware": to_int(sum(state.locality_tasks.values())),
            "failed": health.failures_at(config.exclusion, self.now),
            "maxFailures": config.failures_max,
            "excluded": sorted(health.sent),
            "ownExcluded": dict(sorted(health.own.items())),
            "schedulerExcluded": sorted(health.scheduler),
            "clusterNodes": health.nodes,
            "allExcluded": health.all_excluded,
            "decommissioning": list(state.decommissioning),
        }
        self.say({"state": shown})
        if health.nodes <= 0:  # the judge asks whether all are excluded, and Spark warns; seen after the next line
            self.report(Remark(self.now, TRACKER, "no nodes"))

    def hosts(self, hosts: Mapping[str, Iterable[ContainerId]]) -> Line:
        return {host: sorted(self.numbers[one] for one in containers) for host, containers in sorted(hosts.items())}


answers: Final = partial(played, _Runner)
"""Everything that Spark would have said to a scenario. Raises ShapeError."""


def _reason(reason: ExitReason) -> Line:
    return {"exit": reason.exit_code, "byApp": reason.caused_by_app, "reason": reason.message}


def _by_profile(books: Mapping[ProfileId, Any], shown: Callable[[Any], object]) -> Line:
    return {str(profile): shown(books[profile]) for profile in sorted(books)}


def _sorted(executors: Iterable[ExecutorId]) -> list[int]:
    return sorted(map(int, executors))


def _read(value: Mapping[str, Any], shape: type[S], what: str = "") -> S:
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as fault:
        raise ShapeError(f"{what}{fault}") from fault
