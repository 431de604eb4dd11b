"""The books behind the bill: every executor-second under one cause, every second of waiting under the limits that bound.

A ``Ledger`` receives, in the order of time, each change of an executor and of the application's tasks, and at the close
says what the executors' time was spent on. It is mutable and belongs to one simulation alone. All times are
integer milliseconds, and the identity is exact: the causes sum to the time from each executor's request to its end, where
the end is its removal or the close. It holds by construction: an executor's life is cut into spells that touch, and each
spell is booked once.

What a millisecond of an executor's life is booked as; where two apply, the first:

- at least one task runs: RUNNING. When the books close, the share of its task time that came to nothing, or repeated
  something, moves from RUNNING to LOST_WORK. Even if it was told to go: a decommissioned executor that still finishes its
  tasks is doing what it is paid for, and if they come to nothing LOST_WORK says so.
- it was told to go: LEAVING.
- it never ran a task, from its request to its end: OVER_REQUESTED. This is hindsight, known at its end.
- it has not registered, or cannot be given tasks yet: STARTING.
- it is idle. A spell of idleness has two parts. *Up to the plain idle timeout* it depends on how the spell ends: with the
  executor let go, IDLE_TIMEOUT; with a task, the executor's loss or the close, by what the application did meanwhile:
  tasks waited, OTHER; tasks ran and none waited, LAST_TASK where a stage of theirs has skew, SERIAL where each of their
  stages has one task, else FEW_TASKS; neither, DRIVER. *Beyond it*, by what keeps the executor:
  CACHED or SHUFFLE while its data does, else MINIMUM. Without a timeout (a static count) all of it is the first part.

What the application did is kept as sums over time up to each change, so that a spell is divided by two differences; only
the sums at a timeout that has passed are looked up, by bisection. Every call costs O(1), or O(log changes) for those.

Waiting: while executors are missing, time is shared among the limits by how many each keeps away, in units of 2**-20 ms of
which none is lost, so the limits sum to the wait.

docs/reference/ledger.md says the same with an example.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.ledger.executor_life import BUSY, CAUSES, GONE, IDLE, REQUESTED, STATES, ExecutorLife

Key: TypeAlias = int | str
"""What an executor is known by; one key, one life."""

LIMITS: Final = tuple(Limit)
"""The order of the counts that ``Ledger.shortage`` takes as a tuple."""

_DRIVER, _LAST_TASK, _SERIAL, _FEW_TASKS, _WAITING = range(5)
_SUMMED: Final = 4
"""Phases of the application whose time is summed; the last one is what remains."""

_PHASES: Final = {
    SpendCause.LAST_TASK: _LAST_TASK,
    SpendCause.SERIAL: _SERIAL,
    SpendCause.FEW_TASKS: _FEW_TASKS,
}

_FINE: Final = 20
"""Waiting is divided in units of 2**-20 ms: 99 days of it are exact as a float."""

_CLOSED: Final = float("inf")


class Bill(NamedTuple):
    """One executor's part. ``registered``: None if it never did; ``causes``: ms in the order of ``CAUSES``."""

    requested: Millis
    registered: Millis | None
    ended: Millis
    lost: bool
    causes: tuple[Millis, ...]


@dataclass(frozen=True, slots=True)
class Sums:
    """The closed books.

    ``ledger``: every cause, in ms; sums to ``billed_ms``, the time from request to end. ``executor_ms``: from registration
    to end. ``waiting``: every limit, in ms; sums to ``waited_ms``. ``filled_ms``: what tasks whose result counted fill of
    RUNNING, a slot being its share of its executor. ``by_executor``: if asked for, in the order of requests.
    """

    ledger: dict[SpendCause, Millis]
    billed_ms: Millis
    executor_ms: Millis
    waiting: dict[Limit, float]
    waited_ms: Millis
    filled_ms: Millis = 0
    by_executor: Mapping[Key, Bill] = field(default_factory=dict)


class Ledger:
    """The books of one simulation.

    Times are ms, the same or later from call to call; calls at one time come in causal order. A call that cannot be true
    (an executor that was never asked for, a task on one that is gone, a time that goes back, anything after the close)
    raises ValueError and leaves the books as they were: the caller is wrong about its own simulation.

    ``tick_ms``: how often dynamic allocation looks for executors to let go (Spark: 100 ms). What lies between the moment
    when nothing kept an executor any more and its being told to go, if no longer than this, is IDLE_TIMEOUT: no target
    kept it, nobody had looked. With 0 all of that is MINIMUM.
    """

    def __init__(self, started: Millis, tick_ms: Millis = 0) -> None:
        """Nothing has been asked for and no task runs or waits."""
        if tick_ms < 0:
            msg = f"tick_ms is {tick_ms}; expected 0 or more"
            raise ValueError(msg)
        self._now: float = started
        self._tick = tick_ms
        self._lives: dict[Key, ExecutorLife] = {}
        # The application's present phase, since when, and how long it had been in each phase but the last by then; that
        # is what remains. The arrays keep the same of every change.
        self._phase = _DRIVER
        self._turn = started
        self._sums: tuple[Millis, ...] = (0,) * _SUMMED
        self._turns = array("q", [started])
        self._phases = bytearray([_DRIVER])
        self._sums_then = array("q", self._sums)
        # What is missing because of each limit, the limits of which anything is, their total, and since when.
        self._missing: tuple[int, ...] = (0,) * len(LIMITS)
        self._shares: tuple[tuple[int, int], ...] = ()
        self._total = 0
        self._short_since = started
        self._waits = [0] * len(LIMITS)
        self._waited = 0

    # ----------------------------------------------------------------------------------------------------- executors

    def requested(self, key: Key, at: Millis) -> None:
        """An executor is asked for: its bill begins."""
        if key in self._lives or at < self._now:
            raise self._wrong("requested", key, at, "a key that is new")
        self._now = at
        self._lives[key] = ExecutorLife(at)

    def registered(self, key: Key, at: Millis, slots: int) -> None:
        """It registered with the driver, with room for ``slots`` tasks; idle (without a timeout, until ``idle``)."""
        life = self._lives.get(key)
        if life is None or life.state != REQUESTED or at < self._now or slots < 0:
            raise self._wrong("registered", key, at, f"an executor asked for, slots of 0 or more (got {slots})")
        self._now = at
        if life.going:
            life.leaving += at - life.since
        else:
            life.starting += at - life.since
        life.registered = at
        life.slots = slots
        self._rests(life, at, NEVER)
        life.fresh = True

    def cancelled(self, key: Key, at: Millis) -> None:
        """Its request was withdrawn, or its pod deleted, before it registered: it ends here."""
        life = self._lives.get(key)
        if life is None or life.state != REQUESTED or at < self._now:
            raise self._wrong("cancelled", key, at, "an executor that has not registered")
        self._now = at
        self._end(life, at)

    def never_was(self, key: Key) -> None:
        """Its request was refused: there was no executor, and it is in no sum."""
        life = self._lives.get(key)
        if life is None or life.state != REQUESTED:
            raise self._wrong("refused", key, None, "an executor that has not registered")
        del self._lives[key]

    def busy(self, key: Key, at: Millis) -> None:
        """Its running tasks went from none to one."""
        life = self._lives.get(key)
        if life is None or life.state != IDLE or at < self._now:
            raise self._wrong("busy", key, at, "an idle executor")
        self._now = at
        if life.going:
            life.leaving += at - life.since
        else:
            self._rested(life, at)
        life.state = BUSY
        life.ran = True
        life.fresh = False
        life.since = at

    def idle(self, key: Key, at: Millis, timeout_at: Millis) -> None:
        """Its last task ended, or it has registered and has none; ``timeout_at``: when spark.dynamicAllocation.
        executorIdleTimeout will have passed, NEVER if nothing is ever let go for being idle."""
        life = self._lives.get(key)
        if life is None or at < self._now or timeout_at < at or not (life.state == BUSY or life.fresh):
            expected = f"a busy or a just registered executor, a timeout from now on (got {timeout_at})"
            raise self._wrong("idle", key, at, expected)
        self._now = at
        if life.state == BUSY:
            life.running += at - life.since
            self._rests(life, at, timeout_at)
        else:  # idle since it registered
            life.timeout_at = timeout_at
            life.fresh = False

    def ready(self, key: Key, at: Millis) -> None:
        """It can be given tasks from now on; what it took since its registration was still its start. Said of one that ran,
        was told to go or is gone already, it changes nothing."""
        life = self._lives.get(key)
        if life is None or life.state == REQUESTED or at < self._now:
            raise self._wrong("ready", key, at, "a registered executor")
        self._now = at
        if life.state == IDLE and not life.ran and not life.going:
            life.starting += at - life.since
            life.cached = life.shuffle = life.minimum = 0  # of this spell: there was none before
            self._rests(life, at, max(at, life.timeout_at))

    def held(self, key: Key, at: Millis, by: SpendCause | None) -> None:
        """From now on its data keeps it, CACHED or SHUFFLE; or, with None, no longer does. It may be idle or busy."""
        life = self._lives.get(key)
        if life is None or life.state not in (IDLE, BUSY) or at < self._now:
            raise self._wrong("held", key, at, "a registered executor")
        if by is not None and by is not SpendCause.CACHED and by is not SpendCause.SHUFFLE:
            raise self._wrong("held", key, at, f"CACHED, SHUFFLE or None (got {by})")
        self._now = at
        if by is life.hold:
            return
        if at > life.timeout_at and life.state == IDLE and not life.going:
            life.keep(at)
        life.hold = by
        life.hold_since = at

    def worked(self, key: Key, task_ms: Millis, wasted_ms: Millis) -> None:
        """Task time that ended on it, and task time (of this or of earlier) found to have come to nothing or to repeat
        something. It may be gone already: lost shuffle output makes earlier work worthless. More waste than work counts
        as all of it."""
        life = self._lives.get(key)
        if life is None or task_ms < 0 or wasted_ms < 0 or self._now == _CLOSED:
            expected = f"an executor asked for, times of 0 or more (got {task_ms} and {wasted_ms})"
            raise self._wrong("worked", key, None, expected)
        life.task_ms += task_ms
        life.wasted_ms += wasted_ms

    def told_to_go(self, key: Key, at: Millis) -> None:
        """A kill or a decommission was accepted; a second one changes nothing."""
        life = self._lives.get(key)
        if life is None or life.state == GONE or at < self._now:
            raise self._wrong("told to go", key, at, "an executor that is not gone")
        self._now = at
        if life.going:
            return
        if life.state == IDLE:
            self._let_go(life, at)
            life.since = at
        elif life.state == REQUESTED:
            life.starting += at - life.since
            life.since = at
        life.going = True

    def removed(self, key: Key, at: Millis, lost: bool) -> None:
        """It is gone, registered or not; ``lost``: not by our will. What was idle and never told to go counts as let go
        now unless it was lost. At the application's end, do not remove: close."""
        life = self._lives.get(key)
        if life is None or life.state == GONE or at < self._now:
            raise self._wrong("removed", key, at, "an executor that is not gone")
        self._now = at
        if life.state == IDLE and not life.going and not lost:
            self._let_go(life, at)
            life.since = at
            life.going = True
        life.lost = lost
        self._end(life, at)

    # --------------------------------------------------------------------------------------------------- application

    def phase(
        self, at: Millis, running_tasks: int, waiting_tasks: int, alone: SpendCause = SpendCause.LAST_TASK
    ) -> None:
        """The application's tasks from now on; only whether there are any matters, so other changes cost next to
        nothing and need not be said. ``alone``: what executors without a task wait for where tasks run and none waits:
        LAST_TASK, SERIAL or FEW_TASKS."""
        if at < self._now:
            raise self._wrong("phase", None, at, "")
        self._now = at
        phase = _WAITING if waiting_tasks > 0 else _PHASES[alone] if running_tasks > 0 else _DRIVER
        if phase == self._phase:
            return
        if at == self._turn:  # no time passed in the phase before: it never was
            self._phases[-1] = phase
        else:
            self._sums = self._spent(at)
            self._turn = at
            self._turns.append(at)
            self._phases.append(phase)
            self._sums_then.extend(self._sums)
        self._phase = phase

    def shortage(self, at: Millis, missing: Mapping[Limit, int] | tuple[int, ...]) -> None:
        """From now on so many executors are missing because of each limit; all zero: tasks do not wait for executors.
        A tuple, in the order of ``LIMITS``, is the quicker; a limit that a mapping leaves out has zero."""
        if at < self._now:
            raise self._wrong("shortage", None, at, "")
        if not isinstance(missing, tuple):
            missing = tuple([missing.get(limit, 0) for limit in LIMITS])
        if missing == self._missing:
            self._now = at
            return
        if len(missing) != len(LIMITS) or min(missing) < 0:
            raise self._wrong("shortage", None, at, f"{len(LIMITS)} counts of 0 or more (got {missing})")
        self._now = at
        self._wait(at)
        self._missing = missing
        self._shares = tuple([pair for pair in enumerate(missing) if pair[1]])
        self._total = sum(missing)

    def close(self, at: Millis, *, each: bool = False) -> Sums:
        """The application's end; who is still there ends with it. ``each``: the bill of every executor too."""
        if at < self._now:
            raise self._wrong("close", None, at, "")
        self._wait(at)
        billed = registered = 0
        filled = 0.0
        rows = [(0,) * len(CAUSES)]
        for life in self._lives.values():
            if life.state != GONE:
                self._end(life, at)
            billed += life.ended - life.requested
            if life.registered is not None:
                registered += life.ended - life.registered
            rows.append(life.causes())
            filled += life.filled()
        totals = dict(zip(CAUSES, map(sum, zip(*rows, strict=True)), strict=True))
        ledger = {cause: totals[cause] for cause in SpendCause}
        bills: dict[Key, Bill] = {}
        if each:
            for (key, life), row in zip(self._lives.items(), rows[1:], strict=True):
                bills[key] = Bill(life.requested, life.registered, life.ended, life.lost, row)
        self._now = _CLOSED
        waiting = {limit: wait / (1 << _FINE) for limit, wait in zip(LIMITS, self._waits, strict=True)}
        return Sums(ledger, billed, registered, waiting, self._waited, round(filled), bills)

    # -------------------------------------------------------------------------------------------------------- inside

    def _spent(self, at: Millis) -> tuple[Millis, ...]:
        """How long, from the start to ``at`` (now), the application was in each phase but WAITING."""
        return _with(self._sums, self._phase, at - self._turn)

    def _spent_then(self, at: Millis) -> tuple[Millis, ...]:
        """The same up to a moment that has passed."""
        turn = bisect_right(self._turns, at) - 1
        sums = tuple(self._sums_then[turn * _SUMMED : (turn + 1) * _SUMMED])
        return _with(sums, self._phases[turn], at - self._turns[turn])

    def _rests(self, life: ExecutorLife, at: Millis, timeout_at: Millis) -> None:
        """A spell of idleness begins."""
        life.state = IDLE
        life.since = at
        life.timeout_at = timeout_at
        life.phases_at = self._spent(at)

    def _rested(self, life: ExecutorLife, at: Millis) -> None:
        """A spell of idleness ends in anything but the executor's being let go."""
        if at <= life.timeout_at:
            sums = self._spent(at)
            length = at - life.since
        else:
            sums = self._spent_then(life.timeout_at)
            length = life.timeout_at - life.since
            life.keep(at)
        driver, last, serial, few = [now - then for now, then in zip(sums, life.phases_at, strict=True)]
        life.driver += driver
        life.last_task += last
        life.serial += serial
        life.few_tasks += few
        life.other += length - driver - last - serial - few

    def _let_go(self, life: ExecutorLife, at: Millis) -> None:
        """A spell of idleness ends in the executor's being let go."""
        life.fresh = False
        if at <= life.timeout_at:
            life.idle_timeout += at - life.since
            return
        life.idle_timeout += life.timeout_at - life.since
        free_since = max(life.hold_since, life.timeout_at)
        if life.hold is None and at - free_since <= self._tick:
            life.idle_timeout += at - free_since
        else:
            life.keep(at)

    def _end(self, life: ExecutorLife, at: Millis) -> None:
        """Its last spell ends, and with it its life."""
        if life.state == BUSY:
            life.running += at - life.since
        elif life.going:
            life.leaving += at - life.since
        elif life.state == IDLE:
            self._rested(life, at)
        life.state = GONE  # what was never registered never ran: its life needs no spells
        life.ended = at

    def _wait(self, at: Millis) -> None:
        """Books the waiting up to ``at``; what division leaves over goes to the last limit of which any is missing."""
        passed = at - self._short_since
        self._short_since = at
        if not self._shares:
            return
        self._waited += passed
        whole = rest = passed << _FINE
        for limit, count in self._shares[:-1]:
            part = whole * count // self._total
            self._waits[limit] += part
            rest -= part
        self._waits[self._shares[-1][0]] += rest

    def _wrong(self, what: str, key: Key | None, at: Millis | None, expected: str) -> ValueError:
        """What is wrong with a call."""
        who = "" if key is None else f" of executor {key!r}"
        when = "" if at is None else f" at {at} ms"
        if self._now == _CLOSED:
            return ValueError(f"{what}{who}{when}: the ledger is closed")
        if at is not None and at < self._now:
            return ValueError(f"{what}{who}{when}: time goes back, it was {self._now} ms already")
        life = None if key is None else self._lives.get(key)
        state = "" if key is None else f"; it was {'never asked for' if life is None else STATES[life.state]}"
        return ValueError(f"{what}{who}{when}: expected {expected}{state}")


def _with(sums: tuple[Millis, ...], phase: int, passed: Millis) -> tuple[Millis, ...]:
    """The sums, with so much more time in a phase."""
    if phase == _WAITING or not passed:
        return sums
    return (*sums[:phase], sums[phase] + passed, *sums[phase + 1 :])
