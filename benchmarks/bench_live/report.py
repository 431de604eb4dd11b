"""The figures as Markdown tables, for RESULTS.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from .rivals import Podtide, Spark
from .rounds import Crowd, Round, Steady

OURS, THEIRS = Podtide.name, Spark.name
GOAL_CREATES = 5.0
GOAL_NOTICED_S = 2.0
MIB = 1024 * 1024


def tables(rounds: Sequence[Round], steady: Steady | None, crowds: Sequence[Crowd]) -> str:
    """All that was measured."""
    parts = []
    if rounds:
        parts.append("\n".join(_rounds(rounds)))
    if steady is not None:
        parts.append("\n".join(_steady(steady)))
    if crowds:
        parts.append("\n".join(_crowds(crowds)))
    return "\n\n".join(parts)


def _rounds(rounds: Sequence[Round]) -> Iterator[str]:
    ours, theirs = ([one for one in rounds if one.rival == name] for name in (OURS, THEIRS))
    pods = rounds[0].creates.pods
    yield f"| {pods} pods, {len(ours)} alternating rounds | podtide | Spark | |"
    yield "|---|---|---|---|"

    def row(what: str, value: Callable[[Round], float], text: Callable[[float], str]) -> str:
        mine, other = [value(one) for one in ours], [value(one) for one in theirs]
        ratio = _ratio(mine, other) if mine and other else ""
        return f"| {what} | {_listed(mine, text)} | {_listed(other, text)} | {ratio} |"

    yield row("pods created a second, first call to last answer", lambda one: one.creates.per_second, _whole)
    yield row("pods asked for beyond the target", lambda one: one.creates.more, _whole)
    yield row("CPU seconds until all were created, start of the process included", lambda one: one.usage.cpu_s, _tenth)
    yield row("seconds for stop", lambda one: one.stop_s, _tenth)
    yield f"| pods there when stop came back | {_lefts(ours, False)} | {_lefts(theirs, False)} | |"
    yield f"| pods left behind: nobody has asked them to go | {_lefts(ours, True)} | {_lefts(theirs, True)} | |"
    if ours and theirs:
        times = statistics.median(one.creates.per_second for one in ours) / statistics.median(
            one.creates.per_second for one in theirs
        )
        yield ""
        reached = "reached" if times >= GOAL_CREATES else "NOT REACHED"
        yield f"Creates per second, median against median: {times:.1f} times Spark's (goal {GOAL_CREATES:g}: {reached})."


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    other = statistics.median(theirs)
    return f"{statistics.median(ours) / other:.2g} x" if other else ""


def _listed(values: Sequence[float], text: Callable[[float], str]) -> str:
    return ", ".join(map(text, values))


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _tenth(value: float) -> str:
    return f"{value:.1f}"


def _lefts(rounds: Sequence[Round], later: bool) -> str:
    return ", ".join(str(one.later.abandoned if later else one.at_stop.pods) for one in rounds)


def _steady(steady: Steady) -> Iterator[str]:
    yield f"| {steady.pods} running pods each, side by side for {steady.seconds:g} s | podtide | Spark |"
    yield "|---|---|---|"
    ours, theirs = steady.traffic[OURS], steady.traffic[THEIRS]
    yield f"| requests a minute | {ours.calls:.1f} | {theirs.calls:.1f} |"
    kinds = sorted({*ours.kinds, *theirs.kinds})
    for verb, resource in kinds:
        counts = " | ".join(str(side.kinds[verb, resource]) for side in (ours, theirs))
        yield f"| of which {verb} {resource}, in all | {counts} |"
    yield f"| KB sent a minute, TLS included | {ours.sent / 1000:.1f} | {theirs.sent / 1000:.1f} |"
    yield f"| KB received a minute | {ours.received / 1000:.1f} | {theirs.received / 1000:.1f} |"
    per = 60 / steady.seconds
    yield f"| CPU seconds a minute | {steady.cpu_s[OURS] * per:.2f} | {steady.cpu_s[THEIRS] * per:.2f} |"
    memory = " | ".join(f"{steady.usage[name].rss / MIB:.0f}" for name in (OURS, THEIRS))
    yield f"| resident memory, MiB | {memory} |"
    seen = steady.noticed
    waits = " | ".join(_waits(seen[name]) for name in (OURS, THEIRS))
    counts = ", ".join(str(len(seen[name])) for name in (OURS, THEIRS))
    yield f"| a vanished running pod, until its replacement is asked for: median, longest (n = {counts}) | {waits} |"
    yield (
        f"| its driver killed at {steady.killed.pods} pods, then `podtide stop` | | "
        f"{steady.swept.abandoned} left after {steady.swept_s:.1f} s |"
    )
    yield ""
    fewer = "reached" if ours.calls < theirs.calls else "NOT REACHED"
    soon = "reached" if max(seen[OURS], default=0) < GOAL_NOTICED_S else "NOT REACHED"
    yield f"Fewer requests than Spark: {fewer}. Noticed in under {GOAL_NOTICED_S:g} s: {soon}."


def _waits(waits: Sequence[float]) -> str:
    return f"{statistics.median(waits):.2f} s, {max(waits):.2f} s" if waits else "never"


def _crowds(crowds: Sequence[Crowd]) -> Iterator[str]:
    yield f"| {crowds[0].pods} pods | {' | '.join(one.rival for one in crowds)} |"
    yield "|---|" + "---|" * len(crowds)

    def row(what: str, text: Callable[[Crowd], str]) -> str:
        return f"| {what} | {' | '.join(map(text, crowds))} |"

    yield row("pods created a second", lambda one: f"{one.creates.per_second:.0f}")
    yield row("seconds until all ran", lambda one: f"{one.up_s:.0f}")
    yield row("CPU seconds until then, start included", lambda one: f"{one.up.cpu_s:.1f}")
    yield row("CPU seconds a minute in the steady state", lambda one: f"{one.cpu_s * 60 / one.seconds:.2f}")
    yield row(
        "resident memory then, at most so far, MiB",
        lambda one: f"{one.steady.rss / MIB:.0f}, {one.steady.peak / MIB:.0f}",
    )
    yield row("seconds for stop; pods left behind", lambda one: f"{one.stop_s:.0f}; {one.later.abandoned}")


def goals_missed(rounds: Sequence[Round], steady: Steady | None, crowds: Sequence[Crowd]) -> list[str]:
    """The goals that were measured and not reached, in words."""
    missed = []
    ours, theirs = ([one.creates.per_second for one in rounds if one.rival == name] for name in (OURS, THEIRS))
    if ours and theirs and (times := statistics.median(ours) / statistics.median(theirs)) < GOAL_CREATES:
        missed.append(f"creates per second: {times:.1f} times Spark's instead of {GOAL_CREATES:g}")
    ends = [(one.rival, one.later.abandoned) for one in rounds] + [(one.rival, one.later.abandoned) for one in crowds]
    behind = [pods for rival, pods in ends if rival == OURS and pods]
    if behind:
        missed.append(f"pods left behind: {behind}")
    if steady is not None:
        mine, other = steady.traffic[OURS].calls, steady.traffic[THEIRS].calls
        if mine >= other:
            missed.append(f"requests a minute: {mine:.1f}, Spark {other:.1f}")
        if (longest := max(steady.noticed[OURS], default=0.0)) >= GOAL_NOTICED_S:
            missed.append(f"a vanished pod was noticed after {longest:.1f} s")
        if steady.swept.abandoned:
            missed.append(f"podtide stop left {steady.swept.abandoned} pods")
    return missed
