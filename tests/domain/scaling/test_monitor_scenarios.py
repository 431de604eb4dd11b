"""What Spark's own suite asks of ExecutorMonitor, scenario by scenario (M1 to M15).

Idle timeout 60 s, cached 120 s, shuffle 240 s. ``at_idle``, ``at_cached`` and ``at_shuffle`` ask who would be timed
out just after that timeout, counted from now: a look at a later time from a state that itself stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from podtide.domain.base.units import NEVER, UNKNOWN_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.protocol import stimuli
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.scaling import executor_monitor
from podtide.domain.scaling.executor_trackers import Tracker
from tests.support.state_contents import idleness_contents

SECOND = 1_000
IDLE, CACHED, SHUFFLE = 60 * SECOND, 120 * SECOND, 240 * SECOND
CONFIG = ScalingConfig(
    idle_timeout_ms=IDLE, cached_idle_timeout_ms=CACHED, shuffle_timeout_ms=SHUFFLE, shuffle_tracking=False
)
TRACKING = replace(CONFIG, shuffle_tracking=True)


class Monitor:
    """An ExecutorMonitor by itself, with a clock that the test sets."""

    def __init__(self, config: ScalingConfig = CONFIG) -> None:
        self.config = config
        self.now: Millis = 0
        self.idleness = executor_monitor.empty(config)

    def feed(self, *events: stimuli.Stimulus) -> None:
        self.idleness = executor_monitor.fold(self.idleness, events, self.config)

    def added(self, *executors: str, profile: int = 0) -> None:
        self.feed(*(stimuli.ExecutorAdded(self.now, ExecutorId(e), ProfileId(profile)) for e in executors))

    def removed(self, executor: str) -> None:
        self.feed(stimuli.ExecutorRemoved(self.now, ExecutorId(executor)))

    def started(self, executor: str, stage: int = 1) -> None:
        self.feed(stimuli.TaskStart(self.now, stage, 0, 1, ExecutorId(executor)))

    def ended(self, executor: str, stage: int = 1, outcome: stimuli.TaskOutcome = stimuli.TaskOutcome.SUCCESS) -> None:
        self.feed(stimuli.TaskEnd(self.now, stage, 0, 1, ExecutorId(executor), outcome=outcome))

    def ran(self, executor: str, stage: int, outcome: stimuli.TaskOutcome = stimuli.TaskOutcome.SUCCESS) -> None:
        self.started(executor, stage)
        self.ended(executor, stage, outcome)

    def block(self, executor: str, rdd: int, split: int, *, valid: bool = True, on_disk: bool = False) -> None:
        self.feed(stimuli.BlockUpdated(self.now, ExecutorId(executor), stimuli.RddBlock(rdd, split), valid, on_disk))

    def job(self, job: int, *stages: tuple[int, int | None]) -> None:
        self.feed(stimuli.JobStart(self.now, job, tuple(stimuli.JobStage(stage, shuffle) for stage, shuffle in stages)))

    def job_ended(self, job: int) -> None:
        self.feed(stimuli.JobEnd(self.now, job))

    def cleaned(self, shuffle: int) -> None:
        self.feed(stimuli.ShuffleCleaned(self.now, shuffle))

    def killed(self, *executors: str) -> None:
        self.idleness = executor_monitor.mark(self.idleness, tuple(map(ExecutorId, executors)), decommissioned=False)

    def look(self) -> list[str]:
        """timedOutExecutors() now, for good."""
        self.idleness, _ = executor_monitor.look(self.idleness, self.now)
        return listed(self.idleness)

    def would_list(self, at: Millis) -> list[str]:
        """timedOutExecutors(at), asked and forgotten."""
        return listed(executor_monitor.look(self.idleness, at)[0])

    def at_idle(self) -> list[str]:
        return self.would_list(self.now + IDLE + 1)

    def at_cached(self) -> list[str]:
        return self.would_list(self.now + CACHED + 1)

    def at_shuffle(self) -> list[str]:
        return self.would_list(self.now + SHUFFLE + 1)

    def count(self, profile: int = 0) -> int:
        return self.idleness.roster(ProfileId(profile)).count

    def pending_removal(self) -> int:
        return sum(t.pending_removal for t in self.idleness.trackers().values())

    def is_idle(self, executor: str) -> bool:
        tracker: Tracker | None = self.idleness.tracker(ExecutorId(executor))
        assert tracker is not None
        return tracker.idle_start >= 0 and not tracker.active_shuffle


def listed(idleness: executor_monitor.Idleness) -> list[str]:
    return sorted(e for ids in idleness.timed_out().values() for e in ids)


def known(config: ScalingConfig, executors: Sequence[str]) -> Monitor:
    """A monitor whose scheduler backend holds these executors for active."""
    monitor = Monitor(config)
    monitor.feed(stimuli.ExecutorsActive(0, tuple(map(ExecutorId, executors))))
    return monitor


def test_m1_an_executor_is_idle_from_its_first_moment() -> None:
    monitor = Monitor()
    monitor.added("1")
    assert monitor.idleness.total() == 1
    assert monitor.is_idle("1")
    assert monitor.at_idle() == ["1"]
    assert monitor.idleness.timed_out() == {}  # a question about the future changes nothing
    assert monitor.count() == 1
    tracker = monitor.idleness.tracker(ExecutorId("1"))
    assert tracker is not None
    assert tracker.profile == 0


def test_m2_a_task_may_start_before_its_executor_is_heard_of() -> None:
    monitor = known(CONFIG, ["1", "2"])
    monitor.started("1")
    assert monitor.idleness.total() == 1
    assert monitor.count(UNKNOWN_PROFILE) == 1
    monitor.added("1")
    assert monitor.idleness.total() == 1
    assert monitor.count(UNKNOWN_PROFILE) == 0
    assert monitor.count() == 1
    monitor.added("2")
    assert monitor.idleness.total() == 2
    assert monitor.count() == 2
    monitor.removed("2")
    assert monitor.idleness.total() == 1
    assert monitor.count() == 1
    monitor.feed(stimuli.ExecutorsInactive(0, (ExecutorId("2"),)))
    monitor.started("2")
    assert monitor.idleness.total() == 1
    assert monitor.count() == 1
    monitor.removed("1")
    assert monitor.idleness.total() == 0
    assert monitor.count() == 0


def test_m3_an_executor_with_any_task_is_busy() -> None:
    monitor = Monitor()
    monitor.added("1")
    monitor.started("1")
    assert not monitor.is_idle("1")
    for stage in range(2, 11):
        monitor.started("1", stage)
        assert not monitor.is_idle("1")
        monitor.ended("1", stage)
        assert not monitor.is_idle("1")
    monitor.ended("1")
    assert monitor.is_idle("1")
    assert monitor.would_list(monitor.now) == []
    assert monitor.at_idle() == ["1"]


def test_m4_a_cached_block_sets_the_longer_timeout() -> None:
    monitor = Monitor()
    monitor.added("1")
    assert monitor.at_idle() == ["1"]
    monitor.block("1", 1, 0)
    assert monitor.is_idle("1")
    assert monitor.at_idle() == []
    assert monitor.at_cached() == ["1"]
    monitor.block("1", 1, 0, valid=False)
    assert monitor.is_idle("1")
    assert monitor.at_idle() == ["1"]
    monitor.started("1")
    for valid in (True, False):
        monitor.block("1", 1, 0, valid=valid)
        assert not monitor.is_idle("1")


def test_m5_blocks_are_counted_by_rdd_and_split() -> None:
    monitor = Monitor()
    monitor.added("1")
    for rdd, split in ((1, 0), (1, 1), (2, 0)):
        monitor.block("1", rdd, split)
        assert monitor.at_idle() == []
        assert monitor.at_cached() == ["1"]
    monitor.block("1", 1, 1, valid=False)
    assert monitor.at_idle() == []
    assert monitor.at_cached() == ["1"]
    monitor.feed(stimuli.UnpersistRDD(monitor.now, 1))
    assert monitor.at_idle() == []
    assert monitor.at_cached() == ["1"]
    # The last block goes late: the timeout counts from when the executor fell idle.
    monitor.now = IDLE + 1
    monitor.feed(stimuli.UnpersistRDD(monitor.now, 2))
    assert monitor.look() == ["1"]


def test_m6_every_executor_has_its_own_deadline() -> None:
    monitor = Monitor()
    monitor.added("1")
    monitor.now = 30 * SECOND
    monitor.added("2")
    monitor.block("2", 1, 0)
    assert monitor.is_idle("2")
    assert "2" not in monitor.at_idle()
    monitor.now = 60 * SECOND
    monitor.added("3")
    assert monitor.look() == ["1"]
    monitor.block("3", 1, 0)
    assert monitor.is_idle("3")
    assert "3" not in monitor.at_idle()
    monitor.now = 140 * SECOND
    monitor.block("3", 1, 0, valid=False)
    assert monitor.look() == ["1", "3"]
    monitor.now = 150 * SECOND
    assert monitor.look() == ["1", "2", "3"]


def test_m7_the_list_is_sorted_by_id() -> None:
    monitor = Monitor()
    monitor.added("3", "1", "2")
    monitor.now = IDLE
    monitor.look()
    assert monitor.idleness.timed_out() == {0: ("1", "2", "3")}


def test_m8_blocks_on_disk_hold_nobody_whose_blocks_the_shuffle_service_serves() -> None:
    monitor = Monitor()
    monitor.added("1")
    monitor.block("1", 1, 0, on_disk=True)
    assert monitor.at_idle() == []
    assert monitor.at_cached() == ["1"]

    monitor = Monitor(replace(CONFIG, rdd_from_service=True))
    monitor.added("1")
    monitor.block("1", 1, 0)
    monitor.block("1", 1, 1)
    assert monitor.at_idle() == []
    assert monitor.at_cached() == ["1"]
    monitor.block("1", 1, 0, on_disk=True)
    assert monitor.at_idle() == []
    assert monitor.at_cached() == ["1"]
    monitor.block("1", 1, 1, on_disk=True)
    assert monitor.at_idle() == ["1"]
    monitor.block("1", 1, 1, on_disk=True)  # in memory as well: on disk is what counts
    assert monitor.at_idle() == ["1"]


def test_m9_executors_on_their_way_out_are_offered_no_more() -> None:
    monitor = Monitor()
    monitor.added("1", "2")
    monitor.added("3", profile=1)
    monitor.now = IDLE + 1
    assert monitor.look() == ["1", "2", "3"]
    assert monitor.idleness.timed_out() == {0: ("1", "2"), 1: ("3",)}
    assert monitor.pending_removal() == 0
    monitor.killed("1")
    for _ in range(2):
        assert monitor.look() == ["2", "3"]
        assert monitor.pending_removal() == 1
    monitor.started("2")
    assert monitor.look() == ["3"]
    monitor.killed("3")
    assert monitor.pending_removal() == 2
    monitor.ended("2")
    assert monitor.look() == []
    monitor.now += IDLE
    assert monitor.look() == ["2"]
    assert monitor.idleness.timed_out() == {0: ("2",)}


def test_m10_shuffle_data_holds_an_executor_while_a_job_may_need_it() -> None:
    monitor = Monitor(TRACKING)
    monitor.job(1, (1, 0), (2, None))
    monitor.job(2, (3, 1), (4, None))
    monitor.added("1")
    assert monitor.at_idle() == ["1"]
    monitor.ran("1", 1, stimuli.TaskOutcome.FAILED)
    assert monitor.at_idle() == ["1"]
    monitor.ran("1", 1)
    assert monitor.at_idle() == []
    monitor.ran("1", 3)
    assert monitor.at_idle() == []
    monitor.job_ended(1)
    assert not monitor.is_idle("1")
    monitor.job_ended(2)
    assert monitor.is_idle("1")
    assert monitor.at_idle() == []
    assert monitor.at_cached() == []
    assert monitor.at_shuffle() == ["1"]
    monitor.job(3, (5, 1), (6, None))  # uses the second shuffle again, before any task runs
    assert not monitor.is_idle("1")
    assert monitor.at_shuffle() == []
    monitor.job_ended(3)
    assert monitor.at_idle() == []
    assert monitor.at_shuffle() == ["1"]
    monitor.cleaned(0)
    assert monitor.at_idle() == []
    monitor.cleaned(1)
    assert monitor.at_idle() == ["1"]


def test_m11_a_cleaned_shuffle_says_nothing_under_a_shuffle_service() -> None:
    monitor = Monitor(CONFIG)  # shuffle tracking asked for and a service on: effectively off
    monitor.added("1")
    before = idleness_contents(monitor.idleness)
    monitor.cleaned(0)
    assert idleness_contents(monitor.idleness) == before


def test_m12_a_job_holds_only_the_executors_that_ran_for_it() -> None:
    monitor = Monitor(TRACKING)
    monitor.added("1", "2")
    monitor.job(1, (1, 0), (2, None))
    monitor.job(2, (3, 1), (4, None))
    monitor.ran("1", 1)
    assert monitor.at_idle() == ["2"]
    monitor.ran("2", 3)
    assert monitor.at_idle() == []
    monitor.job_ended(1)
    assert monitor.is_idle("1")
    assert not monitor.is_idle("2")
    monitor.job_ended(2)
    assert monitor.is_idle("2")
    assert monitor.at_idle() == []
    monitor.cleaned(0)
    monitor.cleaned(1)
    assert monitor.at_idle() == ["1", "2"]


def test_m13_the_longest_timeout_never_comes() -> None:
    monitor = Monitor(replace(TRACKING, shuffle_timeout_ms=NEVER))
    monitor.job(1, (1, 0))
    monitor.now = 1 * SECOND
    monitor.added("1")
    monitor.ran("1", 1)
    monitor.job_ended(1)
    assert monitor.is_idle("1")
    assert monitor.at_idle() == []
    assert monitor.would_list(NEVER - 1) == []
    tracker = monitor.idleness.tracker(ExecutorId("1"))
    assert tracker is not None
    assert tracker.timeout_at == NEVER


def test_m14_a_block_of_a_removed_executor_brings_nobody_back() -> None:
    monitor = Monitor()
    monitor.added("1")
    monitor.removed("1")
    monitor.block("1", 1, 0)
    assert monitor.idleness.total() == 0


def test_m15_the_longest_timeout_with_a_reason_applies() -> None:
    deadlines = {}
    for name, config in (("tracked", TRACKING), ("untracked", CONFIG)):
        monitor = Monitor(config)
        monitor.job(1, (1, 0), (2, None))
        monitor.added("1")
        monitor.block("1", 1, 0)
        monitor.ran("1", 1)
        monitor.job_ended(1)
        tracker = monitor.idleness.tracker(ExecutorId("1"))
        assert tracker is not None
        deadlines[name] = tracker.timeout_at
    assert deadlines == {"tracked": SHUFFLE, "untracked": CACHED}
