"""The shapes of scenario lines: which kinds there are, what tells them apart, and what each key takes.

Scenarios do not say of what kind they are; the keys of their lines do, and the header's options where these leave a choice.
The shapes are records that msgspec checks a line against, so that a wrong line is refused at the edge, by its number and the
place in it, and runners read the lines without checks of their own. Pods are looked into as deep as they go, Spark's
events only by those who decode them.

Times keep to 53 bits, which any JSON reader holds, and no clock of Spark's is near them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

Time = Annotated[int, Meta(ge=-(2**53), le=2**53)]
Interval = Annotated[int, Meta(ge=1, le=2**53)]
Count = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Id = int | str
"""An executor's: the judge takes its text."""
Executors = Annotated[int, Meta(ge=-(2**31), le=100_000)]
"""Executors wanted where every one of them is a request with a number of its own."""
Rack = Annotated[str, Meta(pattern="^/.*[^/]$")]
"""Hadoop takes no other: it begins with a slash; one at the end would be dropped."""
ContainerNumber = Annotated[int, Meta(ge=0, le=2**40 - 1)]
ProfileNumber = Annotated[str, Meta(pattern="^[0-9]{1,9}$")]
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
NodeState = Literal["NEW", "RUNNING", "UNHEALTHY", "DECOMMISSIONED", "LOST", "REBOOTED", "DECOMMISSIONING", "SHUTDOWN"]
Scalar = str | int | float | bool | None
Moment = int | str | None
"""Milliseconds or the API's text."""


class _Shape(Struct, rename="camel", forbid_unknown_fields=True):
    """A line whose keys are all known."""


class ScenarioContainer(Struct, rename="camel"):
    """A container status; other keys are ignored."""

    name: str | None = None
    image: str | None = None
    state: str | None = None
    exit_code: Count | None = None
    reason: str | None = None
    message: str | None = None
    started_at: Scalar = None
    finished_at: Scalar = None


class ScenarioPod(Struct, rename="camel"):
    """A pod, of both dialects; other keys are ignored."""

    id: Id | None = None
    phase: str | None = None
    rp: Id | None = None
    name: str | None = None
    created_at: Moment = None
    deletion_timestamp: Moment = None
    pvcs: list[str] = []
    exit_code: Count = 0
    labels: dict[str, Scalar] = {}
    inactive: bool = False
    restart_policy: str | None = None
    reason: str | None = None
    message: str | None = None
    containers: list[ScenarioContainer] = []
    init_containers: list[ScenarioContainer] = []
    no_status: bool = False
    no_spec: bool = False
    app: str = ""


class Header(Struct, rename="camel"):
    """What every scenario begins with."""

    conf: dict[str, Scalar]
    app_id: str = "app-1"
    start_at: Time = 0
    options: dict[str, Any] = {}
    client: dict[str, Any] = {}


class Client(Struct, rename="camel"):
    """What the scheduler backend will answer to dynamic allocation."""

    ack_requests: bool = True
    throw_on_request: bool = False
    throw_on_kill: bool = False
    refuse_kills: bool | list[str] = False
    active: list[str] = []
    inactive: list[str] = []


class EamLine(_Shape):
    """Dynamic allocation."""

    at: Time = 0
    event: dict[str, Any] = {}
    tick: bool = False
    client: Client | None = None
    shuffle_cleaned: Count = 0
    reset: bool = False
    state: bool = False


class PodsLine(_Shape):
    """The pods allocator."""

    at: Time = 0
    targets: dict[str, Count] = {}
    deliver_on_notify: bool = True
    known_ids: list[Id] = []
    snapshots: list[list[ScenarioPod]] = []
    fail_creates: Count = 0
    fail_pvcs: Count = 0
    fail_deletes: Count = 0
    fail_code: Count = 403
    is_deleted: list[Id] = []
    stop: bool = False


class LifecycleSnapshot(Struct):
    """A snapshot of a lifecycle round: a full list at a time, or updates."""

    full: Time | None = None
    pods: list[ScenarioPod] = []


class LifecycleLine(_Shape):
    """The lifecycle manager."""

    at: Time = 0
    registered: dict[str, Time] = {}
    active: list[Id] = []
    register_failures: Annotated[int, Meta(ge=-(2**31), le=1_000_000)] = 0
    fail_gets: list[Id] = []
    fail_deletes: list[Id] = []
    fail_patches: list[Id] = []
    fail_code: Count = 403
    api: dict[str, str] = {}
    snapshots: list[LifecycleSnapshot] = []


class StoreAct(Struct, rename="camel"):
    """What a thread does to the snapshot store."""

    subscribe: str = ""
    interval: Interval = 1000
    throw_next: dict[str, str] = {}
    during: dict[str, list[StoreAct]] = {}
    replace: list[ScenarioPod] = []
    update: list[ScenarioPod] = []
    notify: bool = False
    run: bool = False
    stop: bool = False


class StoreLine(StoreAct, forbid_unknown_fields=True):
    """The snapshot store."""

    at: Time = 0
    ops: list[StoreAct] = []
    hold: bool = False


class PollLine(_Shape):
    """The polling source."""

    at: Time = 0
    pods: list[ScenarioPod] = []
    resource_version: str | int | None = None
    fail: dict[str, list[str]] = {}
    start: bool = False
    stop: bool = False


class ScaleLine(_Shape):
    """The StatefulSet and Deployment allocators."""

    at: Time = 0
    targets: dict[str, Count] = {}
    fail: dict[str, list[str]] = {}
    fail_code: Count = 403
    is_deleted: list[Id] = []
    stop: bool = False


class Removal(Struct, rename="camel"):
    """An executor to remove."""

    id: Id
    message: str = "m"
    exit_code: Count = 1


class BackendLine(_Shape):
    """The Kubernetes scheduler backend."""

    at: Time = 0
    pods: list[ScenarioPod] = []
    fail: dict[str, list[str]] = {}
    fail_code: Count = 403
    deleted_ids: list[Id] = []
    stop_throws: list[str] = []
    kill: list[Id] = []
    decommission: list[Id] = []
    adjust: bool = False
    by_executor: bool = False
    remove: list[Removal] = []
    excluded: list[Id] = []
    hold: bool = False
    stop: bool = False
    later: bool = False


class YarnGiven(Struct, rename="camel"):
    """A container that the resource manager gives; memory and vcores are its profile's own unless it says others."""

    id: ContainerNumber
    host: str
    rp: Priority = 0
    memory: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    vcores: Count | None = None


class YarnCompleted(Struct, rename="camel"):
    """A container that has completed."""

    id: ContainerNumber
    exit: Count = 0
    diagnostics: str = ""


class YarnNode(Struct, rename="camel"):
    """A node whose state changed."""

    host: str
    state: NodeState = "DECOMMISSIONING"


class YarnAvailable(Struct, rename="camel"):
    """What the queue has left."""

    memory: Time = 0
    vcores: Count = 0


class YarnAnswer(Struct, rename="camel"):
    """What the resource manager answers to a heartbeat."""

    throw: str | None = None
    allocated: list[YarnGiven] = []
    completed: list[YarnCompleted] = []
    updated_nodes: list[YarnNode] = []
    cluster_nodes: Count | None = None
    available: YarnAvailable | None = None


class YarnLine(_Shape):
    """YarnAllocator."""

    at: Time | None = None
    shutdown: bool | None = None
    fail_launches: Count | None = None
    launched: list[Id] | Literal["all"] = []
    launch_failed: list[Id] | Literal["all"] = []
    launch_fatal: list[Id] | Literal["all"] = []
    targets: dict[ProfileNumber, Executors] | None = None
    locality_aware_tasks: dict[ProfileNumber, Count] = {}
    host_to_local_task_count: dict[ProfileNumber, dict[str, Count]] = {}
    excluded_nodes: list[str] = []
    kill: list[Id] = []
    enqueue_loss: list[Id] = []
    allocate: YarnAnswer | None = None
    handle: YarnAnswer | None = None
    stop: bool = False


class YarnProfile(Struct, rename="camel"):
    """A resource profile of a scenario: cores, memory and cpus per task."""

    cores: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    memory: str = "1g"
    cpus: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1


class YarnOptions(Struct, rename="camel"):
    """The options of a header."""

    launch: Literal["sync", "queued"] = "sync"
    sets: Literal["sorted", "raw"] = "sorted"
    racks: dict[str, Rack] = {}
    profiles: dict[ProfileNumber, YarnProfile] = {}
    cluster_nodes: Count = 10
    last_executor_id: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1_000_000)] = 0
    asks: bool = False
    log: bool = False


class StatesRow(Struct, rename="camel"):
    """A row of a table of pods and their states."""

    pod: ScenarioPod | None = None
    pods: list[ScenarioPod] = []
    check_all_containers: bool = True
    spark_container_name: str = ""


class _Kind(NamedTuple):
    """A kind: the shape of its lines, and options of the header that only its scenarios have."""

    line: type[Struct]
    options: dict[str, frozenset[object] | None] = {}  # noqa: RUF012 - never written to

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.line.__struct_encode_fields__)

    def owns(self, header: dict[str, Any]) -> bool:
        """Whether the header says that it is of this kind."""
        options = header.get("options")
        if not isinstance(options, dict):
            return False
        for key, values in self.options.items():
            value = options.get(key)
            if key in options and (values is None or (isinstance(value, str) and value in values)):
                return True
        return False


TABLE: Final = "podstates"
KINDS: Final[dict[str, _Kind]] = {
    "eam": _Kind(EamLine, {"active": None, "reliableShuffleStorage": None}),
    "pods": _Kind(PodsLine, {"pvcCreationTimestamp": None}),
    "lifecycle": _Kind(LifecycleLine),
    "store": _Kind(StoreLine),
    "poll": _Kind(PollLine),
    "scale": _Kind(ScaleLine, {"allocator": frozenset({"statefulset", "deployment"}), "driverMissing": None}),
    "backend": _Kind(BackendLine, {"allocator": frozenset({"recorded", "direct"})}),
    "yarn": _Kind(YarnLine, dict.fromkeys(YarnOptions.__struct_encode_fields__)),
}
"""By name, in the order in which they are tried where lines fit several."""

Rows = Sequence[tuple[int, dict[str, Any]]]
"""Lines with their numbers in the file."""


class Misfit(NamedTuple):
    """A line that is not of its scenario's kind: its number, and what was expected where."""

    line: int
    what: str


class UnknownLines(NamedTuple):
    """Why lines are of no kind that is known here."""

    what: str


def kind_of(rows: Rows, hint: Iterable[str] = ()) -> str | Misfit | UnknownLines:
    """The kind of a scenario, by its lines; every line fits the shape of that kind.

    Where lines fit several kinds the header's options decide, then ``hint`` (names that the file goes by), then the
    order of ``KINDS``.
    """
    if not rows:
        return UnknownLines("no header line with a conf object: not a scenario of dynamic allocation or of pods")
    header = rows[0][1]
    if "conf" not in header and ("pod" in header or "pods" in header):
        return _misfit(rows, StatesRow) or TABLE
    if not isinstance(header.get("conf"), dict):
        return UnknownLines("no header line with a conf object: not a scenario of dynamic allocation or of pods")
    fault = _misfit(rows[:1], Header)
    if fault is not None:
        return fault
    hints = tuple(hint)
    candidates = [name for name, kind in KINDS.items() if all(line.keys() <= kind.keys for _, line in rows[1:])]
    if not candidates:
        return _strange(rows[1:])
    candidates.sort(key=lambda name: (not KINDS[name].owns(header), name not in hints))
    faults = []
    for name in candidates:
        fault = _misfit(rows[1:], KINDS[name].line)
        if fault is None:
            return name
        faults.append(fault)
    return faults[0]


def _misfit(rows: Rows, shape: type[Struct]) -> Misfit | None:
    for number, line in rows:
        try:
            msgspec.convert(line, shape)
            if shape is Header and "client" in line:
                msgspec.convert(line["client"], Client)
        except msgspec.ValidationError as fault:
            return Misfit(number, str(fault))
        except UnicodeEncodeError:
            return Misfit(number, "a text holds half a surrogate pair")
        except RecursionError:
            return Misfit(number, "nested too deep")
    return None


def _strange(rows: Rows) -> UnknownLines:
    """Name the line after which no kind knows all keys, and the keys that are unknown or of different kinds."""
    left = set(KINDS)
    for number, line in rows:
        fitting = {name for name in left if line.keys() <= KINDS[name].keys}
        if not fitting:
            known = frozenset().union(*(KINDS[name].keys for name in left))
            strange = sorted(map(repr, line.keys() - known)) or sorted(map(repr, line.keys()))
            shown = ", ".join(name[:60] for name in strange[:10])
            return UnknownLines(f"line {number} has {shown}: a kind of scenario not known here")
        left = fitting
    raise AssertionError("some kind knows all keys")
