"""What dynamic allocation says in Spark's log: ExecutorAllocationManager, its listener and ExecutorMonitor, word by word.

``lines`` takes one command or report of the scaling core and gives what Spark 4.3.0 logs for it, as far as the item tells.
It takes the backend's consent for granted: a request was acknowledged, every executor of a kill was let go. Who knows the
answer says so (``request_lines``, ``removal_lines``).

The rest hangs on more than one item. ``round_lines`` gives what one round of ``schedule()`` says of the timed-out executors,
again at every round for as long as they are held; ``signal_lines`` what the backlog timer and a new stage say;
``monitor_lines`` who came and went. They read the scaling state and say what Spark would have said in that state.

Texts, levels and the order of the lines are those of the classes of spark-core 4.3.0. Where a text shows a Scala map, its
order is Scala's (``map_order``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from podtide.adapters.views.sparklog.templates import Level, SparkLine
from podtide.domain.base.units import NEVER, UNKNOWN_PROFILE, ExecutorId, Millis, ProfileId, java_order
from podtide.domain.jvm.hash_order import BUCKETS, SMALL, grown, trie_order, walk_order
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal, ScheduleThrew, TargetChange
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved, ShuffleCleaned, StageSubmitted, Stimulus
from podtide.domain.scaling.executor_monitor import DECOMMISSION_FINISHED, DECOMMISSION_PREFIX, Idleness
from podtide.domain.scaling.executor_trackers import Tracker
from podtide.domain.scaling.load import Backlogged, QueueEmptied, Signal, StageCame
from podtide.domain.scaling.state import ScalingState

MANAGER: Final = "ExecutorAllocationManager"
MONITOR: Final = "ExecutorMonitor"
UTILS: Final = "Utils"

THREAD: Final = "spark-dynamic-executor-allocation"
"""The thread that schedule() runs in."""

INITIAL_KEYS: Final = (
    "spark.dynamicAllocation.initialExecutors,spark.dynamicAllocation.minExecutors and spark.executor.instances"
)

_MOVES: Final = frozenset({Cause.BACKLOG, Cause.SUSTAINED_BACKLOG, Cause.LOWERED_NEED, Cause.MINIMUM})


class TimedLine(NamedTuple):
    """A line and the millisecond at which it is said."""

    at: Millis
    line: SparkLine


def _manager(level: Level, text: str) -> SparkLine:
    return SparkLine(level, MANAGER, text)


# --------------------------------------------------------------------------------------------- one item by itself


def lines(item: object) -> tuple[SparkLine, ...]:
    """What Spark logs for one command, report or stimulus of dynamic allocation; () for everything else.

    What was held back has no line of its own: Spark says it executor by executor, at every round (``round_lines``).
    """
    match item:
        case RequestTotal():
            return (*asked_lines(item), *request_lines(item))
        case Kill() | Decommission():
            return removal_lines(item.executors, item.executors)
        case ScheduleThrew():
            return (SparkLine("ERROR", UTILS, f"Uncaught exception in thread {THREAD}"),)
        case StageSubmitted():
            return (_manager("DEBUG", f"Stage resource profile id is: {item.profile} with numTasks: {item.tasks}"),)
        case ShuffleCleaned():
            return (SparkLine("DEBUG", MONITOR, f"Cleaning up state related to shuffle {item.shuffle}."),)
        case _:
            return ()


def asked_lines(request: RequestTotal) -> tuple[SparkLine, ...]:
    """What is said before the backend is asked for new totals."""
    cause, changes = request.why.cause, request.changes
    if cause is Cause.INITIAL:
        text = "".join(f"Using initial executors = {change.after}, max of {INITIAL_KEYS}" for change in changes[:1])
        return (SparkLine("INFO", UTILS, text),) if text else ()
    if cause is Cause.NEW_PROFILE:
        return tuple(
            _manager("DEBUG", f"requesting executors, rpId: {c.profile}, initial number is {c.after}") for c in changes
        )
    if cause not in _MOVES or not changes:
        return ()
    name = "Map" if len(changes) <= SMALL else "HashMap"
    shown = ", ".join(
        f"{c.profile} -> TargetNumUpdates({_int32(c.after - c.before)},{c.before})" for c in _as_walked(changes)
    )
    return (_manager("DEBUG", f"requesting updates: {name}({shown})"),)


def request_lines(
    request: RequestTotal, *, acknowledged: bool = True, threw: bool = False, config: ScalingConfig | None = None
) -> tuple[SparkLine, ...]:
    """What is said when the backend has answered a request that moves targets; () for every other request.

    ``threw``: the call ended in an exception. With a ``config`` the sustained timer's start is said too.
    """
    if request.why.cause not in _MOVES:
        return ()
    logged: list[SparkLine] = []
    if threw:
        logged.append(_manager("INFO", "Error reaching cluster manager."))
    for change in _as_walked(request.changes):
        if threw or not acknowledged:
            logged.append(_manager("WARN", "Unable to reach the cluster manager to request more executors!"))
        elif (delta := _int32(change.after - change.before)) > 0:
            text = (
                f"Requesting {delta} new executor{'s' if delta > 1 else ''} because tasks are backlogged "
                f"(new desired total will be {change.after} for resource profile id: {change.profile})"
            )
            logged.append(_manager("INFO", text))
            if config is not None:
                seconds = config.sustained_backlog_timeout_ms // 1000
                logged.append(
                    _manager("DEBUG", f"Starting timer to add more executors (to expire in {seconds} seconds)")
                )
        else:
            text = (
                f"Lowering target number of executors to {change.after} (previously {change.before} for resource profile "
                f"id: {change.profile}) because not all requested executors are actually needed"
            )
            logged.append(_manager("DEBUG", text))
    return tuple(logged)


def removal_lines(executors: Sequence[ExecutorId], removed: Sequence[ExecutorId]) -> tuple[SparkLine, ...]:
    """What is said once the backend has answered a kill or a decommission and the totals are repeated."""
    if removed:
        return (_manager("INFO", f"Executors {','.join(removed)} removed due to idle timeout."),)
    text = (
        f"Unable to reach the cluster manager to kill executor/s {','.join(executors)} or no executor eligible to kill!"
    )
    return (_manager("WARN", text),)


# --------------------------------------------------------------------------------------------- what a state says


def start_lines(config: ScalingConfig) -> tuple[SparkLine, ...]:
    """What the manager says as it is made, under a conf that it accepts."""
    if not config.shuffle_tracking:
        return ()
    return (_manager("INFO", "Dynamic allocation is enabled without a shuffle service."),)


def round_says(state: ScalingState) -> Level | None:
    """The highest level at which a round in this state speaks of timed-out executors; None if it does not.

    Costs one look, whatever the fleet.
    """
    if state.stopped or state.initializing or state.thrown is not None:
        return None
    listed = state.idleness.timed_out()
    return None if not listed else "WARN" if UNKNOWN_PROFILE in listed else "DEBUG"


def round_lines(state: ScalingState, config: ScalingConfig) -> Iterator[SparkLine]:
    """What one round says of the timed-out executors, in Spark's order: all of them, then who stays and why.

    ``state``: as of the round, after its targets moved and before its kill was answered. The number of lines is that of
    the executors that stay, and one.
    """
    if round_says(state) is None:
        return
    profile_of = {e: profile for profile, ids in state.idleness.timed_out().items() for e in ids}
    listed = sorted(profile_of, key=java_order)
    yield _manager("DEBUG", f"Request to remove executorIds: {', '.join(f'({e},{profile_of[e]})' for e in listed)}")
    minimum = config.executors_min
    left: dict[ProfileId, int] = {}
    for executor in listed:
        profile = profile_of[executor]
        if profile == UNKNOWN_PROFILE:
            yield _manager("WARN", f"Not removing executor {executor} because the ResourceProfile was UNKNOWN!")
            continue
        remaining = left.get(profile)
        if remaining is None:
            remaining = left[profile] = state.idleness.roster(profile).remaining
        stays = f"Not removing idle executor {executor} because there are only {remaining} executor(s) left"
        target = state.targets.get(profile)
        if remaining - 1 < minimum:
            yield _manager("DEBUG", f"{stays} (minimum number of executor limit {minimum})")
        elif target is None:
            return  # numExecutorsTargetPerResourceProfileId has no such key: the round ends in that exception
        elif remaining - 1 < target:
            yield _manager("DEBUG", f"{stays} (number of executor target {target})")
        else:
            left[profile] = remaining - 1


def signal_lines(state: ScalingState, signals: Iterable[Signal], config: ScalingConfig) -> Iterator[TimedLine]:
    """What the backlog timer says of signals that ``state`` has not heard yet, in their order."""
    running = state.add_time != NEVER
    for signal in signals:
        match signal:
            case Backlogged() | StageCame():
                if not running:
                    seconds = config.backlog_timeout_ms // 1000
                    text = (
                        "Starting timer to add executors because pending tasks are building up "
                        f"(to expire in {seconds} seconds)"
                    )
                    yield TimedLine(signal.at, _manager("DEBUG", text))
                running = True
            case QueueEmptied():
                text = "Clearing timer to add executors because there are no more pending tasks"
                yield TimedLine(signal.at, _manager("DEBUG", text))
                running = False
            case _:
                continue


def monitor_lines(idleness: Idleness, events: Iterable[Stimulus]) -> Iterator[TimedLine]:
    """What ExecutorMonitor says of executors that come and go, in events that ``idleness`` has not heard yet.

    Executors that it first hears of through a task or a block of the same events count from the next call on.
    """
    total, counts = idleness.total(), _Counts(lambda profile: idleness.roster(profile).count)
    came: dict[ExecutorId, ProfileId] = {}
    gone: set[ExecutorId] = set()
    removals = idleness.removals()
    for event in events:
        if isinstance(event, ExecutorAdded):
            executor, profile, at = event.executor, event.profile, event.at
            tracker = None if executor in gone else idleness.tracker(executor)
            before = came.get(executor, None if tracker is None else tracker.profile)
            if before is None:
                total += 1
                counts.add(profile, 1)
                yield _monitor(
                    at, "DEBUG", f"Executor added with ResourceProfile id: {profile} count is now {counts(profile)}"
                )
            elif before == UNKNOWN_PROFILE != profile:
                counts.add(profile, 1)
                counts.add(UNKNOWN_PROFILE, -1)
                text = f"Executor: {executor}, resource profile id was unknown, setting it to {profile}"
                yield _monitor(at, "DEBUG", text)
            came[executor] = profile if before in {None, UNKNOWN_PROFILE} else before
            yield _monitor(at, "INFO", f"New executor {executor} has registered (new total is {total})")
        elif isinstance(event, ExecutorRemoved):
            executor = event.executor
            tracker = None if executor in gone else idleness.tracker(executor)
            if executor not in came and tracker is None:
                continue
            profile = came.pop(executor, UNKNOWN_PROFILE if tracker is None else tracker.profile)
            gone.add(executor)
            total -= 1
            counts.add(profile, -1)
            field = _way_out(event.reason, tracker)
            removals = removals._replace(**{field: getattr(removals, field) + 1})
            text = (
                f"Executor {executor} is removed. Remove reason statistics: "
                f"(gracefully decommissioned: {removals.gracefully_decommissioned}, "
                f"decommission unfinished: {removals.decommission_unfinished}, "
                f"driver killed: {removals.killed_by_driver}, unexpectedly exited: {removals.exited_unexpectedly})."
            )
            yield _monitor(event.at, "INFO", text)


def _monitor(at: Millis, level: Level, text: str) -> TimedLine:
    return TimedLine(at, SparkLine(level, MONITOR, text))


class _Counts:
    """Executors per profile, from a point on."""

    def __init__(self, known: Callable[[ProfileId], int]) -> None:
        self._known = known
        self._since: dict[ProfileId, int] = {}

    def add(self, profile: ProfileId, count: int) -> None:
        self._since[profile] = self._since.get(profile, 0) + count

    def __call__(self, profile: ProfileId) -> int:
        return self._known(profile) + self._since.get(profile, 0)


def _way_out(reason: str, tracker: Tracker | None) -> str:
    """The counter of Removals that a removal goes to (ExecutorMonitor.onExecutorRemoved)."""
    if reason == DECOMMISSION_FINISHED or reason.startswith(DECOMMISSION_PREFIX):
        return "gracefully_decommissioned"
    if tracker is not None and tracker.decommissioning:
        return "decommission_unfinished"
    if tracker is not None and tracker.pending_removal:
        return "killed_by_driver"
    return "exited_unexpectedly"


# --------------------------------------------------------------------------------------------------- Scala's maps


def map_order(profiles: Iterable[ProfileId]) -> tuple[ProfileId, ...]:
    """The order in which ``mutable.HashMap(...).toMap`` walks Int keys: of the table up to four, of the trie beyond."""
    keys = tuple(dict.fromkeys(profiles))
    if len(keys) > SMALL:
        return tuple(trie_order([(key, key) for key in keys]))
    buckets = BUCKETS
    for count in range(len(keys)):
        buckets = grown(count, buckets)
    return walk_order(keys, buckets)


def _as_walked(changes: Sequence[TargetChange]) -> tuple[TargetChange, ...]:
    if len(changes) == 1:
        return tuple(changes)
    by_profile: Mapping[ProfileId, TargetChange] = {change.profile: change for change in changes}
    return tuple(by_profile[profile] for profile in map_order(by_profile))


def _int32(value: int) -> int:
    """Scala's Int: 32 bits that wrap around."""
    return (value + 2**31) % 2**32 - 2**31
