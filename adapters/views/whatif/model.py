"""The document of a what-if or a tune: one description, which the commands build, print as JSON and show to people.

``podtide whatif --json`` and ``podtide tune --json`` print a ``Document`` (``builtins``): its fields are the keys, in their
order, and docs/schema/whatif.json is generated from it; docs/how-to/whatif.md and docs/how-to/tune.md explain the keys.
The views - the HTML report, the notebook, the terminal - take a ``Document``, so that none of them looks up a key twice
or meets a number that is none. ``read`` makes one of the JSON object: unknown keys are ignored, what may be missing is
empty, and what is wrong is named by its path in the document. Numbers are finite and lists are bounded; texts are kept
as they are, and every view escapes them.

Times are seconds since the application's start unless their names say milliseconds; shares and errors are fractions. With
several runs of a tune every figure is a mean, so counts are numbers that may have a fraction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from podtide.adapters.text.documents import WORDED, schema_name, snake_case
from podtide.adapters.views.whatif.overview_entries import IdealEntry, OverviewEntry, TroublesEntry
from podtide.domain.rerun.ledger.causes import Limit, SpendCause

CAUSES_MAX: Final = 100
RUNS_MAX: Final = 2_000
"""Variants of one document."""

ROWS_MAX: Final = 1_000_000
"""Points of a curve, decisions, or stages of one run."""

DEPTH_MAX: Final = 12

_WORDS: Final = {snake_case(one.value): one.value for kind in (SpendCause, Limit) for one in kind}
"""The causes and limits as a printed document has them."""

Seconds: TypeAlias = float
Share: TypeAlias = float
CurvePoint: TypeAlias = tuple[float, float, float, float, float, float]
"""(time, needed, target, pending, running, busy); holds until the next."""

Rows: TypeAlias = Annotated[int, Meta(ge=0)]
Range: TypeAlias = tuple[float, float]
Amounts: TypeAlias = Annotated[dict[str, float], Meta(max_length=CAUSES_MAX)]


class DocumentError(ValueError):
    """Not a document that can be shown; the message is one line that names the path of what is wrong."""


class AppEntry(Struct, frozen=True):
    """The application and its log."""

    id: str = ""
    name: str = ""
    spark_version: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    log: str = ""
    jobs: Rows = 0
    stages: Rows = 0
    tasks: Rows = 0
    executors: Rows = 0


class BillPartsEntry(Struct, frozen=True):
    """What the cost is made of where it is more than the executors': as large as they are given, what whole nodes have
    beside them, the driver."""

    executors: float
    unused: float
    driver: float


class RecordedEntry(Struct, frozen=True, kw_only=True):
    """What really happened. ``curve``: (time, registered executors)."""

    runtime_s: Seconds
    executor_seconds: float
    billed_seconds: float | None = None
    peak_executors: float
    curve: Annotated[tuple[tuple[float, float], ...], Meta(max_length=ROWS_MAX)] = ()
    core_hours: float | None = None
    gb_hours: float | None = None
    cost: float | None = None
    bill: BillPartsEntry | None = None


class FaultsEntry(Struct, frozen=True):
    """What goes wrong in a variant besides what did."""

    spot_per_hour: float | None = None
    start_extra_s: Seconds | None = None
    quota: int | None = None


class StageEntry(Struct, frozen=True):
    """A stage of a simulated run."""

    stage: int
    name: str = ""
    tasks: Rows = 0
    submitted_s: Seconds = 0.0
    completed_s: Seconds = 0.0

    @property
    def took_s(self) -> Seconds:
        """From submission to completion."""
        return max(0.0, self.completed_s - self.submitted_s)


class DecisionEntry(Struct, frozen=True):
    """A decision of the core: a ``target`` that moved, or a ``release`` of executors."""

    at_s: Seconds
    kind: str
    cause: str = ""
    facts: dict[str, Any] = {}
    profile: int = 0
    before: int = 0
    after: int = 0
    executors: tuple[str, ...] = ()

    @property
    def moved(self) -> int:
        """How many executors more are wanted, or fewer (negative)."""
        return -len(self.executors) if self.kind == "release" else self.after - self.before


class RunEntry(Struct, frozen=True, kw_only=True):
    """A config, simulated. Ranges are 90% prediction intervals, None where there is but a point; ``conf`` is what differs
    from the log's, and ``changes`` says what kind of change that is, by which the intervals are calibrated.

    ``filled_seconds``: what tasks whose result counted fill of the bill, a slot being its share of its executor.
    ``runtime_s`` and its range are None where it does not come to its end (``unfinished``): it has no run time then."""

    name: str
    conf: dict[str, str | None] = {}
    changes: str | None = None
    static: int | None = None
    faults: FaultsEntry | None = None
    runtime_s: Seconds | None
    runtime_range_s: Range | None = None
    executor_seconds: float
    executor_seconds_range: Range | None = None
    billed_seconds: float = 0.0
    billed_seconds_range: Range | None = None
    filled_seconds: float | None = None
    peak_executors: float = 0
    executors_started: float = 0
    executors_lost: float = 0
    core_hours: float | None = None
    gb_hours: float | None = None
    cost: float | None = None
    cost_range: Range | None = None
    bill: BillPartsEntry | None = None
    idle_share: Share | None = None
    requests: float = 0
    waited_s: Seconds = 0.0
    ledger: Amounts = {}
    waiting: Amounts = {}
    tasks_again: float = 0
    unfinished: str | None = None
    notes: tuple[str, ...] = ()
    curve: Annotated[tuple[CurvePoint, ...], Meta(max_length=ROWS_MAX)] = ()
    stages: Annotated[tuple[StageEntry, ...], Meta(max_length=ROWS_MAX)] = ()
    decisions: Annotated[tuple[DecisionEntry, ...], Meta(max_length=ROWS_MAX)] = ()
    decisions_left_out: Rows | UnsetType = UNSET

    @property
    def decided(self) -> int:
        """How many decisions there were, those that the document leaves out among them."""
        more = 0 if isinstance(self.decisions_left_out, UnsetType) else self.decisions_left_out
        return len(self.decisions) + more

    @property
    def billed(self) -> float:
        """Executor-seconds of the bill, from request to end: what the causes of the ledger sum to."""
        return math.fsum(self.ledger.values()) or self.billed_seconds

    @property
    def span_s(self) -> Seconds:
        """The time that its curve, its stages and its decisions are spread over."""
        if self.runtime_s is not None:
            return self.runtime_s
        return self.curve[-1][0] if self.curve else 0.0

    @property
    def filled(self) -> float:
        """Executor-seconds of the bill that tasks fill; where slots are not known, those in which any task ran."""
        return self.ledger.get(SpendCause.RUNNING.value, 0.0) if self.filled_seconds is None else self.filled_seconds

    @property
    def filled_share(self) -> Share | None:
        """The same as a share of the bill; None of nothing."""
        return self.filled / self.billed if self.billed > 0 else None


class OwnErrorEntry(Struct, frozen=True):
    """Simulated against recorded under the recorded config; ``peak_executors`` is a count, the others are fractions."""

    runtime: Share = 0.0
    executor_seconds: Share = 0.0
    peak_executors: float = 0.0
    curve: Share | None = None

    @property
    def worst(self) -> Share:
        """The larger of the errors in run time and in executor-seconds."""
        return max(abs(self.runtime), abs(self.executor_seconds))


class SelfReplay(RunEntry, frozen=True, kw_only=True):
    """The recorded config, simulated, and how far that is from what happened."""

    error: OwnErrorEntry


class NodeEntry(Struct, frozen=True):
    """The node that whole nodes are."""

    cores: int
    memory_mib: int
    reserved_cores: float = 0.0
    reserved_mib: int = 0


class ContainersEntry(Struct, frozen=True):
    """How YARN rounds containers. ``calculator``: "default" or "dominant"."""

    minimum_mib: int
    increment_mib: int | None = None
    minimum_cores: int = 1
    increment_cores: int | None = None
    calculator: str = "default"


class BillRulesEntry(Struct, frozen=True):
    """What the money is for besides executors (docs/how-to/prices.md)."""

    driver: bool = False
    node: NodeEntry | None = None
    containers: ContainersEntry | None = None


class PricesEntry(Struct, frozen=True):
    """What was paid for. ``bill``: None where it is the executors alone."""

    core_hour: float | None = None
    gb_hour: float | None = None
    spot_share: Share | None = None
    spot_discount: Share | None = None
    currency: str | None = None
    bill: BillRulesEntry | None = None


class UnknownEntry(Struct, frozen=True):
    """What the log does not tell, and what that does to the answers."""

    what: str
    effect: str = ""


class MemoryStageEntry(Struct, frozen=True, kw_only=True):
    """A stage that spilled. Bytes; MiB of a task and of an executor; ``partitions``: how many times as many."""

    stage: int
    name: str = ""
    tasks: Rows = 0
    spilling: Rows = 0
    memory_spilled: int = 0
    disk_spilled: int = 0
    need_mib: float = 0.0
    heap_mib: int | None = None
    partitions: int | None = None
    exchanged: bool = False
    uneven: bool = False
    in_python: bool = False
    run_share: Share = 0.0


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """What the log says of executors' memory (MiB of one), and what is recommended: ``changes``, with their ``risk``."""

    cores: int
    slots: int
    heap_mib: int
    overhead_mib: int
    off_heap_mib: int = 0
    total_mib: int
    pool_mib: float
    needed_pool_mib: float
    used_heap_mib: float = 0.0
    storage_mib: float = 0.0
    resident_mib: float = 0.0
    polled_share: Share = 0.0
    gc_share: Share = 0.0
    memory_spilled: int = 0
    disk_spilled: int = 0
    spill_share: Share = 0.0
    stages: tuple[MemoryStageEntry, ...] = ()
    losses: dict[str, int] = {}
    enough_mib: int | None = None
    enough_cores: int | None = None
    overhead_needed_mib: int | None = None
    of_node: bool = False
    changes: dict[str, str] = {}
    total_after_mib: int
    risk: str | None = None
    gb_hours_change: float | None = None
    cost_change: float | None = None


class Recommendation(Struct, frozen=True):
    """What to change; no ``name``: nothing is worth changing. ``lines``: text to paste, by where it goes; ``caveats``: what
    is to be known before it is pasted."""

    name: str | None = None
    reason: str = ""
    text: str = ""
    conf: dict[str, str | None] = {}
    static: int | None = None
    saving: dict[str, str | float] = {}
    lines: dict[str, str] = {}
    caveats: tuple[str, ...] = ()


class Searched(Struct, frozen=True):
    """What a tune looked at. ``grid``: configs of the whole space; ``whole_grid``: all of them were candidates."""

    space: dict[str, Any] = {}
    grid: Rows = 0
    whole_grid: bool = False
    candidates: Rows = 0
    simulations: Rows = 0
    full_simulations: Rows = 0
    pruned: Rows = 0
    pruned_by: dict[str, Rows] = {}
    seed: Rows = 0


class Advised(Struct, frozen=True, kw_only=True):
    """What a recommendation does to one run, as shares of what it took as simulated."""

    runtime_share: Share
    runtime_share_worst: Share | None = None
    price_share: Share


class OneRun(Struct, frozen=True, kw_only=True):
    """One of the runs that a tune looked at."""

    id: str = ""
    log: str = ""
    runtime_s: Seconds
    executor_seconds: float
    peak_executors: float = 0
    error: OwnErrorEntry = OwnErrorEntry()
    recommended: Advised | None = None


class UnusableEntry(Struct, frozen=True):
    """A log that was left out."""

    log: str
    why: str = ""


class Document(Struct, frozen=True, kw_only=True):
    """Everything that a what-if or a tune has to say; the fields from ``frontier`` on are those of a tune alone.

    ``runs``: with several of them every figure is a mean. ``measure``: what a tune minimised besides time: cost,
    executor_seconds or core_hours. ``knee``: nearly as cheap as the recommendation, no slower than it ran, and faster.
    ``overview``: what is said where nobody asked for a variant.
    """

    schema: str = schema_name("whatif")
    app: AppEntry = AppEntry()
    recorded: RecordedEntry
    self_replay: SelfReplay
    variants: Annotated[tuple[RunEntry, ...], Meta(max_length=RUNS_MAX)] = ()
    prices: PricesEntry | None = None
    max_error: Share | None = None
    seeds: Rows = 1
    memory: MemoryEntry | None = None
    ideal: IdealEntry | None = None
    troubles: TroublesEntry | None = None
    overview: OverviewEntry | None = None
    unknowns: tuple[UnknownEntry, ...] = ()
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    frontier: tuple[str, ...] = ()
    measure: str | None = None
    within: Share | None = None
    worth: Share | None = None
    recommendation: Recommendation | None = None
    knee: Recommendation | None = None
    searched: Searched | None = None
    runs: Annotated[tuple[OneRun, ...], Meta(max_length=RUNS_MAX)] = ()
    unusable: tuple[UnusableEntry, ...] = ()

    @property
    def currency(self) -> str | None:
        """What money is counted in, if somebody said so."""
        return self.prices.currency if self.prices else None

    @property
    def recommended(self) -> RunEntry | None:
        """The variant that is recommended, if one is."""
        return self.variant(self.recommendation)

    def variant(self, advice: Recommendation | None) -> RunEntry | None:
        """The variant that an advice names, if it names one."""
        name = advice.name if advice else None
        return None if name is None else next((one for one in self.variants if one.name == name), None)


TUNE_KEYS: Final = frozenset(Document.__struct_fields__[Document.__struct_fields__.index("frontier") :])
"""What the document of a what-if does not have."""


def builtins(document: Document) -> dict[str, Any]:
    """The document as plain objects, keys in their order: what ``--json`` prints."""
    made: dict[str, Any] = msgspec.to_builtins(document)
    return made if document.searched is not None else {key: made[key] for key in made if key not in TUNE_KEYS}


def read(document: Mapping[str, Any] | Document) -> Document:
    """The document of a JSON object; a ``Document`` is returned as it is.

    Raises ``DocumentError`` where a key is missing, a value is of another kind than expected, a number is not finite, or a
    list is longer than anything that can be shown; it names the path.
    """
    if isinstance(document, Document):
        return document
    _refuse_infinite(document, "$", 0)
    try:
        return msgspec.convert(_in_words(document), Document)
    except msgspec.ValidationError as problem:
        raise DocumentError(f"not a document of podtide whatif or tune: {problem}") from None


def _in_words(value: Any, depth: int = 0) -> Any:
    """The printed document with the causes and limits as keys in their own words again."""
    if depth >= DEPTH_MAX:
        return value
    if isinstance(value, Mapping):
        return {
            key: {_WORDS.get(word, word): amount for word, amount in one.items()}
            if key in WORDED and isinstance(one, Mapping)
            else _in_words(one, depth + 1)
            for key, one in value.items()
        }
    return [_in_words(one, depth + 1) for one in value] if isinstance(value, list) else value


def _refuse_infinite(value: object, path: str, depth: int) -> None:
    """Numbers that are none would draw nothing and compare as nothing; say where they are."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DocumentError(f"not a document of podtide whatif or tune: {value} at `{path}`, expected a number")
    elif depth >= DEPTH_MAX:
        return
    elif isinstance(value, Mapping):
        for key, one in value.items():
            _refuse_infinite(one, f"{path}.{str(key)[:40]!a}"[:200], depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for index, one in enumerate(value):
            if isinstance(one, float | dict | list | tuple):
                _refuse_infinite(one, f"{path}[{index}]", depth + 1)
