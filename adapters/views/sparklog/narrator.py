"""A replay in Spark's words: what the driver's log would hold beside what was decided.

``Narrator`` stands between the loop and the world of its main lane. Commands and reports pass through it and are said as
they come, with the answers they got; events pass through it and are said where ExecutorMonitor and the listener say
something; and ``passed`` tells it that time went by, for what Spark says at every round again.

schedule() runs every 100 ms. The loop skips the rounds that change nothing, but Spark's log does not: an idle executor that
the minimum keeps is named ten times a second. So the narrator says the skipped rounds too, as the state stands, on the
loop's own grid. Nothing of that costs anything where the log's threshold is above what would be said.

A log from strangers may hold a hundred thousand executors that are kept for a thousand years. What rounds say is
therefore bounded: once they have filled ``ROUNDS_BYTES_MAX``, later rounds are no longer said, and ``cut_at`` has the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from podtide.adapters.views.sparklog import scaling
from podtide.adapters.views.sparklog.log import SparkLog
from podtide.adapters.views.sparklog.scaling import TimedLine
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.commands import Decommission, Kill, Report, RequestTotal, ScalingCommand, ScheduleThrew
from podtide.domain.protocol.config import TICK_INTERVAL_MS, ScalingConfig
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import Answer, ExecutorAdded, ExecutorRemoved, StageSubmitted, Stimulus
from podtide.domain.scaling.load import Load
from podtide.domain.scaling.state import ScalingState

ROUNDS_BYTES_MAX: Final = 256 * 1024 * 1024
"""What rounds may fill of the log: half an hour of a thousand kept executors, days of a dozen."""

_LOGGED_EVENTS: Final = frozenset({ExecutorAdded, ExecutorRemoved, StageSubmitted})


class NarratedWorld(Protocol):
    """What the loop hands its commands and events to."""

    def watch(self, batch: Sequence[Stimulus]) -> Sequence[Stimulus]:
        """The batch as the world sees it."""
        ...

    def apply(self, command: ScalingCommand, now: Millis) -> Sequence[Stimulus]:
        """Carry a command out and answer."""
        ...

    def report(self, report: Report) -> None:
        """Take note of a report."""
        ...


class Narrator:
    """Says in ``log`` what happens in ``world`` from ``start`` on; a world itself.

    ``now``: the scaling state and the load of the lane, as they stand whenever the loop calls; set it as soon as there is a
    lane (the very first request comes before).
    """

    def __init__(self, world: NarratedWorld, log: SparkLog, config: ScalingConfig, start: Millis) -> None:
        self.now: Callable[[], tuple[ScalingState, Load]] | None = None
        self.cut_at: Millis | None = None
        self._world = world
        self._log = log
        self._config = config
        self._round = start  # the first round that nothing was said of yet
        self._executors: tuple[ExecutorId, ...] = ()
        self._removed: tuple[ExecutorId, ...] = ()
        self._left = ROUNDS_BYTES_MAX
        self._debug = log.enabled("DEBUG")
        log.say(start, scaling.start_lines(config))

    # ------------------------------------------------------------------------------------------------------- a world

    def watch(self, batch: Sequence[Stimulus]) -> Sequence[Stimulus]:
        """The batch as the world sees it; what is said of it is said now, in the order of its times."""
        seen = self._world.watch(batch)
        if self.now is None:
            return seen
        state, load = self.now()
        lines: list[TimedLine] = []
        if self._debug and load.signals:
            lines += scaling.signal_lines(state, load.signals, self._config)
        events = [event for event in seen if type(event) in _LOGGED_EVENTS]
        if events:
            if self._debug:
                for event in events:
                    lines += [TimedLine(event[0], line) for line in scaling.lines(event)]
            lines += scaling.monitor_lines(state.idleness, events)
        for at, line in sorted(lines, key=lambda timed: timed.at):  # stable: the timer before the stage that starts it
            self._log.say(at, (line,))
        return seen

    def apply(self, command: ScalingCommand, now: Millis) -> Sequence[Stimulus]:
        """Say what is said before the call, make it, say what its answer leads to."""
        log, at = self._log, command.at
        if isinstance(command, Kill | Decommission):
            self._say_round(at)
            answers = self._world.apply(command, now)
            self._executors = command.executors
            self._removed = _accepted(answers, command)
            return answers
        log.say(at, scaling.asked_lines(command))
        answers = self._world.apply(command, now)
        if command.why.cause is Cause.RESYNC:
            log.say(at, scaling.removal_lines(self._executors, self._removed))
        else:
            self._say_answer(command, answers)
        return answers

    def report(self, report: Report) -> None:
        """Say a round that threw; what is held back is said round by round."""
        self._world.report(report)
        if isinstance(report, ScheduleThrew):
            self._log.tell(report.at, report)
            self._round = max(self._round, report.at + TICK_INTERVAL_MS)

    # ---------------------------------------------------------------------------------------------------- the rounds

    def passed(self, state: ScalingState, now: Millis) -> None:
        """Rounds before ``now`` changed nothing more than ``state`` shows: say what they say."""
        if self._round >= now:
            return
        rounds = -(-(now - self._round) // TICK_INTERVAL_MS)
        first, self._round = self._round, self._round + rounds * TICK_INTERVAL_MS
        if state.idleness.stale() or state.awaiting is not None:
            return
        level = scaling.round_says(state)
        if state.thrown is not None and not state.stopped:
            level = "ERROR"
        if level is None or not self._log.enabled(level) or self._full(first):
            return
        if state.thrown is not None:
            again = ScheduleThrew(first, state.thrown, repeated=True)
            lines, exception = scaling.lines(again), state.thrown
        else:
            lines, exception = tuple(scaling.round_lines(state, self._config)), None
        for number in range(rounds):
            at = first + number * TICK_INTERVAL_MS
            written = 0 if self._full(at) else self._log.say(at, lines, exception)
            if not written:
                return
            self._left -= written

    def _say_round(self, at: Millis) -> None:
        """The round that lets executors go: what it says before it does."""
        self._round = max(self._round, at + TICK_INTERVAL_MS)
        if self.now is None:
            return
        state = self.now()[0]
        level = scaling.round_says(state)
        if level is not None and self._log.enabled(level) and not self._full(at):
            self._left -= self._log.say(at, scaling.round_lines(state, self._config))

    def _full(self, at: Millis) -> bool:
        if self._left <= 0 and self.cut_at is None:
            self.cut_at = at
        return self._left <= 0

    def _say_answer(self, command: RequestTotal, answers: Sequence[Stimulus]) -> None:
        answer = next((a for a in answers if isinstance(a, Answer) and a.serial == command.serial), None)
        threw = answer is not None and answer.threw is not None
        acknowledged = answer is None or answer.acked is not False
        lines = scaling.request_lines(command, acknowledged=acknowledged, threw=threw, config=self._config)
        self._log.say(command.at, lines, answer.threw if answer is not None else None)


def _accepted(answers: Sequence[Stimulus], command: Kill | Decommission) -> tuple[ExecutorId, ...]:
    for answer in answers:
        if isinstance(answer, Answer) and answer.serial == command.serial:
            if isinstance(answer.acked, tuple):
                return answer.acked
            return command.executors if answer.acked else ()
    return ()
