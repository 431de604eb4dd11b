"""Scenarios of the pods allocator: real Spark's ExecutorPodsAllocator was driven by them, and so is the core.

A line sets targets, tells which executors the driver knows, delivers snapshots, and says how many of the next calls will
fail; the answers are the calls in order and the allocator's books after every line. Here a small API server plays the
cluster: it keeps claims and pods and fails as told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never

from podtide.adapters.conformance.manifests import ShapeError, manifest
from podtide.adapters.conformance.scenario_configs import kubernetes_scenario
from podtide.adapters.conformance.scripted import Line, Scripted, constructed, played, thrown
from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.instants import format_instant, parse_instant
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.allocator import allocator as allocation, state as allocation_state
from podtide.domain.protocol import executor_stimuli as es, pod_commands as pc, pod_stimuli as ps
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.pods import PodNumber, PodRules, Snapshot

SERVER: Final = "http://127.0.0.1:1"
PODS: Final = "/api/v1/namespaces/default/pods"
CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
CREATES: Final = "failCreates"
CREATES_OF_CLAIMS: Final = "failPvcs"
DELETES: Final = "failDeletes"
"""Kinds of calls, by the keys of a line that say how many of the next ones fail."""
WALL_CLOCK_MS: Final[Millis] = parse_instant("2026-01-01T00:00:00Z") or 0
"""The time at which the judge ran, about: Spark takes the age of a claim from the wall clock, not from the scenario's."""

RULES: Final = PodRules(check_all_containers=False)
"""The judge of the allocator never sets them: it runs with the initial values of ExecutorPodsSnapshot."""


@dataclass
class AllocatorApi:
    """The API server as the scenario scripts it."""

    claims_created_at: str
    driver_pod: bool
    claims: dict[str, ps.Claim] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)  # calls of each kind that are still to fail
    fail_code: int = 403

    def apply(self, line: Line) -> None:
        """Take what a line says about the next calls."""
        self.left |= {kind: line[kind] for kind in (CREATES, CREATES_OF_CLAIMS, DELETES) if kind in line}
        self.fail_code = line.get("failCode", self.fail_code)

    def failure(self, method: str, path: str, code: int, reason: str) -> ps.CallFailure:
        """What fabric8 throws for an answer of this code."""
        status = (
            f"Status(apiVersion=v1, code={code}, details=null, kind=Status, message=oracle: {reason}, metadata=null, "
            f"reason={reason}, status=Failure, additionalProperties={{}})"
        )
        text = f"Failure executing: {method} at: {SERVER}{path}. Message: oracle: {reason}. Received status: {status}."
        return ps.CallFailure(code, text)

    def call(self, kind: str, method: str, path: str) -> ps.CallFailure | None:
        """The next call of a kind: it fails as often as the scenario says."""
        if not self.left.get(kind):
            return None
        self.left[kind] -= 1
        return self.failure(method, path, self.fail_code, "Forbidden")

    def create_claim(self, claim: pc.ClaimSpec) -> ps.CallFailure | None:
        """POST a claim."""
        failure = self.call(CREATES_OF_CLAIMS, "POST", CLAIMS)
        if failure is None:
            self.claims[claim.name] = ps.Claim(claim.name, claim.storage_class, claim.size, self.claims_created_at)
        return failure


class _Runner(Scripted):
    """One scenario under way."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self.notified = 0
        self.view = snapshots.empty()
        self._full_ts = 0
        self._known: frozenset[PodNumber] = frozenset()
        self._creates: list[Line] | None = None
        self._calls: list[Line] = []
        created_at = str(self.options.get("pvcCreationTimestamp", "1970-01-01T00:00:00Z"))
        self.api = AllocatorApi(created_at, bool(self.options.get("driverPod", True)))
        self.config = constructed(kubernetes_scenario("pods", header["conf"], self.options)).allocation
        self.state: allocation_state.AllocatorState = allocation.begin(self.config)
        self.take(es.Starting(self.now))
        self._flush()

    def step(self, line: Line) -> None:
        self.now = line.get("at", self.now)
        self.api.apply(line)
        if "knownIds" in line:
            self._know(frozenset(PodNumber(int(number)) for number in line["knownIds"]))
        if "targets" in line:
            before = self.notified
            self.take(es.TargetsSet(self.now, tuple((ProfileId(int(p)), n) for p, n in line["targets"].items())))
            if self.notified > before and line.get("deliverOnNotify", True):
                self.take(pc.Deliver(self.now, "allocator", ()))
        if "snapshots" in line:
            self.take(pc.Deliver(self.now, "allocator", tuple(self._snapshot(pods) for pods in line["snapshots"])))
        if "isDeleted" in line:
            answers = {str(n): allocation.is_deleted(self.state, PodNumber(int(n))) for n in line["isDeleted"]}
            self.say({"isDeleted": answers})  # the judge says this before the calls
        if line.get("stop"):
            self.take(es.Stopping(self.now))
        self._call_line({"state": self._state_line()})
        self._flush()

    def _know(self, known: frozenset[PodNumber]) -> None:
        added = tuple((number, self.now) for number in sorted(known - self._known))
        removed = tuple(sorted(self._known - known))
        self._known = known
        self.take(ps.KnownExecutors(self.now, added, removed))

    def _snapshot(self, pods: list[Line]) -> Snapshot:
        manifests = [manifest(pod, self.app_id) for pod in pods]
        replaced = snapshots.replace(self.view, manifests, RULES, self._full_ts)
        self._full_ts += 1
        if isinstance(replaced, SparkFault):
            raise ShapeError(f"a pod that Spark cannot read: {replaced}")
        self.view, snapshot = replaced[0], replaced[1]
        return snapshot

    def take(self, item: allocation_state.AllocatorInput) -> None:
        """Hand one input to the core and carry out what it says, depth first."""
        self._carry_out(allocation.allocate(self.state, (item,), self.config, self.now))

    def _carry_out(self, step: Step[allocation_state.AllocatorState, allocation_state.AllocatorCommand]) -> None:
        self.state = step.state
        for command in step.commands:
            outcome = self._call(command)
            if outcome is not None:
                self.take(outcome)
        for fault in thrown(step.reports):
            self._call_line({"threw": fault})
            self._flush()

    def _call(self, command: allocation_state.AllocatorCommand) -> ps.Outcome | None:
        api = self.api
        match command:
            case pc.CreatePod():
                failure = api.call(CREATES, "POST", PODS)
                entry: Line = {"id": command.executor, "rp": command.profile, **_failed(failure)}
                if command.claims:
                    entry["pvcs"] = list(command.claims)
                if self._creates is None:
                    self._creates = []
                self._creates.append(entry)
                return ps.Outcome(self.now, command.serial, failure)
            case pc.CreateClaim():
                failure = api.create_claim(command.claim)
                owner = self.config.driver_pod if command.owned_by_driver else f"exec-exec-{command.executor}"
                self._call_line({"pvcCreate": command.claim.name, "owner": owner, **_failed(failure)})
                return ps.Outcome(self.now, command.serial, failure)
            case pc.ListClaims():
                self._call_line({"pvcGet": "persistentvolumeclaims"})
                return ps.Outcome(self.now, command.serial, claims=tuple(map(self._aged, api.claims.values())))
            case pc.DeletePods():
                failure = api.call(DELETES, "DELETE", PODS)
                numbers = [int(n) for n in command.executors or ()]
                self._call_line({"delete": numbers, "phaseSelector": command.phase, **_failed(failure)})
                return ps.Outcome(self.now, command.serial, failure)
            case pc.DeletePod():
                path = f"{PODS}/{command.name}"
                failure = api.call(DELETES, "DELETE", path)
                self._http("DELETE", path, failure)
                return ps.Outcome(self.now, command.serial, failure)
            case pc.GetDriverPod():
                path = f"{PODS}/{command.name}"
                failure = None if api.driver_pod else api.failure("GET", path, 404, "NotFound")
                self._http("GET", path, failure)
                return ps.Outcome(self.now, command.serial, failure)
            case pc.AwaitDriverReady():
                by_name = f"fieldSelector=metadata.name={command.name}"
                self._http("GET", f"{PODS}?{{{by_name}}}", None)
                watch = f"allowWatchBookmarks=true, {by_name}, resourceVersion=1, timeoutSeconds=600, watch=true"
                for _ in range(2):  # the client of the judge asks twice: the fake stream ends at once
                    self._http("GET", f"{PODS}?{{{watch}}}", None)
                return ps.Outcome(self.now, command.serial)
            case pc.NotifySubscribers():
                self.notified += 1
                return None
            case pc.CountFailure() | allocation_state.Subscribed() | allocation_state.DeletionsChanged():
                return None
            case _:
                assert_never(command)

    def _aged(self, claim: ps.Claim) -> ps.Claim:
        """The claim with its age by the wall clock, put on the scenario's clock."""
        created = parse_instant(claim.created_at or "")
        if created is None:
            return claim
        return claim._replace(created_at=format_instant(self.now - (WALL_CLOCK_MS - created)))

    def _http(self, method: str, path: str, failure: ps.CallFailure | None) -> None:
        code = 200 if failure is None else failure.status
        self._call_line({"http": f"{method} {path}", "code": code})

    def _call_line(self, line: Line) -> None:
        self._settle()
        self._calls.append({"at": self.now, **line})

    def _settle(self) -> None:
        """Creations that follow one another share a line."""
        creates, self._creates = self._creates, None
        if creates is not None:
            self._calls.append({"at": self.now, "create": creates})

    def _flush(self) -> None:
        """Print the calls so far."""
        self._settle()
        self.lines.extend(self._calls)
        self._calls = []

    def _state_line(self) -> Line:
        state = self.state
        return {
            "newlyCreatedExecutors": [[number, made.profile, made.at] for number, made in state.fleet.created()],
            "schedulerKnownNewlyCreatedExecs": [list(pair) for pair in state.fleet.joined()],
            "deletedExecutorIds": sorted(state.fleet.deleted_numbers()),
            "numOutstandingPods": state.outstanding,
            "nextId": state.executors,
            "pvcCounter": state.claims,
            "failedCreations": state.failures,
            "notified": self.notified,
        }


def _failed(failure: ps.CallFailure | None) -> Line:
    return {} if failure is None else {"failed": failure.status}


answers: Final = partial(played, _Runner)
"""Everything that Spark would have said to a scenario. Raises ShapeError."""
