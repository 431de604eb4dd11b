"""Delay scheduling: by hand, and against TaskSetManager and resourceOffers written down as Spark has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import given, strategies as st

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.scheduler.locality import LocalityLevel, LocalityWaits, PendingTasks

WAITS = LocalityWaits(3_000, 2_000)
HOSTS = (0, 0, 1, 2)
"""Of four executors: the first two share one."""


def pending(tasks: int, wants: dict[int, int]) -> PendingTasks:
    return PendingTasks(tasks, wants, HOSTS.__getitem__, WAITS, 0)


def offered(tasks: PendingTasks, executor: int, at: Millis) -> int | None:
    """One slot of one executor."""
    tasks.begin_offer()
    given = tasks.take(executor, at) if tasks.has(executor, at) else None
    tasks.end_offer(at, everybody=False)
    return given


def everybody(tasks: PendingTasks, slots: Sequence[int], at: Millis) -> list[tuple[int, int]]:
    """All free slots, by executor, level by level; who is given which task."""
    free = dict(enumerate(slots))
    given: list[tuple[int, int]] = []

    def takes(executor: int, level: LocalityLevel) -> bool:
        if not free[executor] or not tasks.has(executor, at, level):
            return False
        given.append((executor, tasks.take(executor, at)))
        free[executor] -= 1
        return True

    tasks.begin_offer()
    for level in tasks.levels:
        turn = [executor for executor, some in free.items() if some]
        while turn:
            turn = [executor for executor in turn if takes(executor, level)]
    tasks.end_offer(at, everybody=True)
    return given


def test_tasks_wait_for_their_executor_then_for_its_host() -> None:
    tasks = pending(4, dict.fromkeys(range(4), 0))
    assert offered(tasks, 0, 0) == 0
    assert offered(tasks, 2, 10) is None
    assert tasks.looks_again_at == 3_000
    assert offered(tasks, 1, 2_999) is None
    assert offered(tasks, 1, 3_000) == 1, "it has the host of the executor that is preferred"
    assert offered(tasks, 2, 4_999) is None
    assert offered(tasks, 2, 5_000) == 2, "both waits, since the first launch"
    assert len(tasks) == 1


def test_the_wait_begins_anew_with_a_launch_while_nobody_is_turned_away() -> None:
    tasks = pending(5, dict.fromkeys(range(5), 0))
    assert offered(tasks, 0, 1_000) == 0
    assert offered(tasks, 2, 3_999) is None, "its wait began at 1,000"
    assert offered(tasks, 0, 3_999) == 1, "somebody was turned away: it goes on"
    assert offered(tasks, 1, 4_000) == 2
    assert everybody(tasks, (1, 0, 0, 0), 4_100) == [(0, 3)], "all were offered, and nobody turned away: anew"
    assert offered(tasks, 1, 7_000) is None
    assert offered(tasks, 1, 7_100) == 4


def test_tasks_that_prefer_nobody_go_anywhere_and_open_the_door_of_the_host() -> None:
    tasks = pending(3, {0: 0, 1: 0})
    assert offered(tasks, 2, 0) == 2
    assert offered(tasks, 1, 0) == 0
    assert offered(tasks, 2, 0) is None


def test_a_task_that_failed_is_the_next_and_keeps_its_place() -> None:
    tasks = pending(3, dict.fromkeys(range(3), 0))
    assert [offered(tasks, 0, 0), offered(tasks, 0, 0)] == [0, 1]
    tasks.append(0)
    tasks.remove(2)
    assert offered(tasks, 3, 0) is None
    assert offered(tasks, 0, 0) == 0
    assert (len(tasks), tasks.places) == (0, {0: 0, 1: 1})


class TaskSetManager:
    """As in Spark: lists of tasks, looked through from the end; nothing is remembered but where a task runs."""

    def __init__(self, tasks: int, wants: dict[int, int]) -> None:
        self.executors: dict[int, list[int]] = {}
        self.hosts: dict[int, list[int]] = {}
        self.anyone: list[int] = []
        self.all: list[int] = []
        self.launched: set[int] = set()
        for index in reversed(range(tasks)):
            executor = wants.get(index)
            if executor is None:
                self.anyone.append(index)
            else:
                self.executors.setdefault(executor, []).append(index)
                self.hosts.setdefault(HOSTS[executor], []).append(index)
            self.all.append(index)
        self.levels = [
            level
            for level, there in zip(LocalityLevel, (self.executors, self.hosts, self.anyone, True), strict=True)
            if there
        ]
        self.index, self.last_reset = 0, 0
        self.no_rejects = True

    def waits(self, lists: list[list[int]]) -> bool:
        return any(task not in self.launched for one in lists for task in one)

    def allowed(self, at: Millis) -> LocalityLevel:
        while self.index < len(self.levels) - 1:
            level = self.levels[self.index]
            lists = {0: list(self.executors.values()), 1: list(self.hosts.values()), 2: [self.anyone]}[level]
            wait = (*WAITS, 0)[level]
            if not self.waits(lists):
                self.last_reset = at
            elif at - self.last_reset >= wait:
                self.last_reset += wait
            else:
                break
            self.index += 1
        return self.levels[self.index]

    def dequeue(self, executor: int, most: LocalityLevel) -> tuple[int, LocalityLevel] | None:
        at = LocalityLevel
        for needed, tasks, level in (
            (at.PROCESS_LOCAL, self.executors.get(executor, []), at.PROCESS_LOCAL),
            (at.NODE_LOCAL, self.hosts.get(HOSTS[executor], []), at.NODE_LOCAL),
            (at.NO_PREF, self.anyone, at.PROCESS_LOCAL),
            (at.ANY, self.all, at.ANY),
        ):
            found = next((task for task in reversed(tasks) if task not in self.launched), None)
            if most >= needed and found is not None:
                self.launched.add(found)
                return found, level
        return None

    def offers(self, slots: dict[int, int], at: Millis, *, all_free: bool) -> Iterator[tuple[int, int]]:
        """TaskSchedulerImpl.resourceOffers with one task set."""
        rejected, least = False, None
        for most in self.levels:
            again = True
            while again:
                again = False
                for executor in [one for one, free in slots.items() if free]:
                    level = most if most is LocalityLevel.NO_PREF else min(self.allowed(at), most)
                    found = self.dequeue(executor, level)
                    if found is None:
                        rejected |= most is LocalityLevel.ANY and self.waits([self.all])
                        continue
                    slots[executor] -= 1
                    again = True
                    least = found[1] if least is None else min(least, found[1])
                    yield executor, found[0]
        if rejected:
            self.no_rejects = False
        elif least is not None and (all_free or self.no_rejects):
            self.last_reset, self.no_rejects = at, True
            self.index = next((place for place, level in enumerate(self.levels) if level >= least), 0)


OFFERS = st.tuples(
    st.sampled_from([0, 1, 500, 1_999, 2_000, 3_000, 5_000]),
    st.sampled_from([None, 0, 1, 2, 3]),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
)


@given(st.lists(st.sampled_from([None, 0, 0, 1, 2]), max_size=12), st.lists(OFFERS, max_size=30))
def test_who_is_given_which_task_and_when(
    prefer: list[int | None], offers: list[tuple[int, int | None, list[int]]]
) -> None:
    wants = {index: executor for index, executor in enumerate(prefer) if executor is not None}
    ours, spark = pending(len(prefer), wants), TaskSetManager(len(prefer), wants)
    at: Millis = 0
    for after, executor, slots in offers:
        at += after
        if executor is None:
            expected = list(spark.offers(dict(enumerate(slots)), at, all_free=True))
            assert everybody(ours, slots, at) == expected
        else:
            expected = list(spark.offers({executor: 1}, at, all_free=False))
            given = offered(ours, executor, at)
            assert ([] if given is None else [(executor, given)]) == expected
    assert ours.looks_again_at == NEVER or len(ours)
