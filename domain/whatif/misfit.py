"""Why the model does not fit: where the log's own config, run again, leaves what the log says, and what that points to.

The own error says how much. This says where: which stage took another time than it did, how many executors there were
while it ran, when the first of them came, how many there were at most. None of it is certain; each sentence gives the two
numbers that it compares, so that a reader can disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import Application, RecordedStage
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.whatif.summary import OwnError

FEWER: Final = 0.8
MORE: Final = 1.25
"""Ratios of executors that are called fewer, or more."""

LATE_MS: Final[Millis] = 5_000
"""A difference in when the first executor came that is worth a word, if it is a tenth of the run as well."""

NAME_CHARS_MAX: Final = 80


class Deviation(NamedTuple):
    """A stage that took another time: ``recorded_ms`` in the log, ``simulated_ms`` run again."""

    stage: RecordedStage
    recorded_ms: Millis
    simulated_ms: Millis
    recorded_executors: float
    simulated_executors: float

    @property
    def ms(self) -> Millis:
        """How much longer it was simulated."""
        return self.simulated_ms - self.recorded_ms


def misfit(application: Application, outcome: RerunOutcome, error: OwnError, max_error: float) -> tuple[str, ...]:
    """Why an application is refused, the main thing first; () where the model fits.

    ``outcome``: the log's own config run again, watched (``curve`` and ``stages`` are filled).
    """
    if outcome.unfinished is not None:
        return (f"run again under its own config, the application does not end: {outcome.unfinished}",)
    if error.worst <= max_error:
        return ()
    lines = [
        f"the model does not fit: {_percent(error.runtime)} in run time and {_percent(error.executor_seconds)} in "
        f"executor-seconds against the log, and {max_error:.0%} is allowed (--max-error)",
        f"run time {_seconds(application.runtime_ms)} in the log, {_seconds(outcome.runtime_ms)} simulated; "
        f"executor-seconds {application.executor_ms / 1000:,.0f} and {outcome.executor_ms / 1000:,.0f}; at most "
        f"{application.peak_executors:,} executors in the log, {outcome.peak_executors:,} simulated",
    ]
    worst = deviations(application, outcome)
    if worst and abs(error.runtime) > max_error:
        lines.append(_deviation_line(worst[0], outcome.runtime_ms - application.runtime_ms))
        lines.append(f"likely: {_likely(worst[0])}")
    elif abs(error.executor_seconds) > max_error:
        lines.append(f"likely: {_executors_likely(application, outcome, error)}")
    first, simulated = _first_executor(application), _first_running(outcome)
    if (
        first is not None
        and simulated is not None
        and abs(first - simulated) >= max(LATE_MS, application.runtime_ms // 10)
    ):
        lines.append(
            f"the first executor came after {_seconds(first)} in the log, after {_seconds(simulated)} simulated"
        )
    if not application.end_known:
        lines.append("the log has no end: its last event is taken for it")
    return tuple(lines)


def deviations(application: Application, outcome: RerunOutcome) -> list[Deviation]:
    """The stages in the order of how far their times are apart, the farthest first."""
    start = application.started_ms
    again = {one.stage: one for one in outcome.stages}
    recorded = application.executors_over_time()
    simulated = tuple((point.at_ms, point.running) for point in outcome.curve)
    found = []
    for stage in application.stages:
        times = again.get(stage.stage)
        if times is not None:
            was = stage.completed_ms - stage.submitted_ms
            now = times.completed_ms - times.submitted_ms
            found.append((abs(now - was), stage, was, now, times))
    found.sort(key=lambda one: -one[0])
    return [
        Deviation(
            stage,
            was,
            now,
            _mean(recorded, stage.submitted_ms - start, stage.completed_ms - start),
            _mean(simulated, times.submitted_ms, times.completed_ms),
        )
        for _, stage, was, now, times in found[:3]
    ]


def _deviation_line(worst: Deviation, total_ms: Millis) -> str:
    name = worst.stage.name[:NAME_CHARS_MAX]
    share = f", {min(1.0, worst.ms / total_ms):.0%} of the difference" if total_ms and worst.ms / total_ms > 0 else ""
    return (
        f"stage {worst.stage.stage} ({name}) is farthest off: {_seconds(worst.recorded_ms)} in the log, "
        f"{_seconds(worst.simulated_ms)} simulated{share}"
    )


def _likely(worst: Deviation) -> str:
    was, now = worst.recorded_executors, worst.simulated_executors
    had = f"{was:.1f} executors on average while it ran, {now:.1f} simulated"
    if was < now * FEWER:
        return f"the cluster gave fewer executors than were asked for, or they came later ({had})"
    if was > now * MORE:
        return f"something besides this config brought executors: a platform's own scaling, another profile ({had})"
    if worst.ms < 0:
        return f"its tasks waited for something that a log does not show, such as locality or a slow driver ({had})"
    return f"its tasks ran side by side with more than their slots allow, or their times are not what they took ({had})"


def _executors_likely(application: Application, outcome: RerunOutcome, error: OwnError) -> str:
    peaks = f"at most {application.peak_executors:,} in the log, {outcome.peak_executors:,} simulated"
    if error.executor_seconds > 0:
        if outcome.peak_executors * FEWER > application.peak_executors:
            return f"the cluster gave fewer executors than this config asks for ({peaks})"
        return f"executors were taken away or let go earlier than this config says ({peaks})"
    if application.peak_executors * FEWER > outcome.peak_executors:
        return f"something besides this config brought executors, such as a platform's own scaling ({peaks})"
    return f"executors were kept longer than this config says: cached or shuffle data, or a slow removal ({peaks})"


def _mean(curve: Sequence[tuple[Millis, int]], begin: Millis, end: Millis) -> float:
    """The mean of a step curve over a time."""
    if end <= begin:
        return float(next((count for at, count in reversed(curve) if at <= begin), 0))
    total, count, at = 0, 0, begin
    for moment, after in curve:
        if moment >= end:
            break
        if moment > at:
            total += count * (moment - at)
            at = moment
        count = after
    return (total + count * (end - at)) / (end - begin)


def _first_executor(application: Application) -> Millis | None:
    return min((one.added_ms - application.started_ms for one in application.executors), default=None)


def _first_running(outcome: RerunOutcome) -> Millis | None:
    return next((point.at_ms for point in outcome.curve if point.running), None)


def _percent(share: float) -> str:
    return f"{share:+.0%}"


def _seconds(ms: Millis) -> str:
    return f"{ms / 1000:,.1f} s"
