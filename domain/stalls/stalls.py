"""The watch over stalls: facts in, stalls that begin and end out.

``watch`` folds what happened (``facts``): per profile its last success, the executors that came and died since, the stages
that wait and since when; and, of moments, why nothing moves (``rules``). It begins in the past: when the last task ended
well, or when the oldest attempt that waits was submitted, whichever came later. It ends with the next success, or
when nothing waits any more. Of each profile one stall is open at a time; another cause is another stall, which begins where
the first one ended. Executors that old shuffles keep are watched beside: there nothing waits, and nothing leaves.

A success costs one entry of a table, a stage or an executor two; a moment costs its profiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, assert_never

from pyrsistent import PMap, pmap

from podtide.domain.base.units import AttemptKey, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.reasons import Fact, Phase
from podtide.domain.protocol.stimuli import StageCompleted, StageSubmitted
from podtide.domain.stalls.causes import LEAST_MS, ROWS, StallCause
from podtide.domain.stalls.facts import (
    NAMED_MAX,
    ExecutorCame,
    ExecutorWent,
    KeptMoment,
    PodMade,
    PodRefused,
    ProfileMoment,
    StallConfig,
    StallInput,
    StallMoment,
    TasksDone,
)
from podtide.domain.stalls.rules import Since, verdict

SUSPECTS_MAX: Final = 100
"""Executors of short life that are remembered per profile."""


class Stall(NamedTuple):
    """Nothing moves since ``since``. ``until``: None as long as it lasts.

    ``blocked``: an alarm; else tasks run, and others wait for a limit. ``facts``: the numbers behind the cause, as they were
    last; ``executors``: some of the executors or pods that it is about; ``attempts``: some stage attempts that wait.
    """

    cause: StallCause
    profile: ProfileId
    since: Millis
    blocked: bool
    facts: Mapping[str, Fact]
    executors: tuple[str, ...] = ()
    attempts: tuple[AttemptKey, ...] = ()
    until: Millis | None = None


class StallNews(NamedTuple):
    """A stall began or ended. ``at``: when that became known."""

    at: Millis
    phase: Phase
    stall: Stall


class Deaths(NamedTuple):
    """Executors that came since the last success and failed: how many, the last ones, and when and why the last one."""

    number: int = 0
    last: tuple[ExecutorId, ...] = ()
    at: Millis = 0
    reason: str = ""


class StallState(NamedTuple):
    """What the watch remembers. By profile: ``progress`` (last success), ``waiting`` (stage attempts that are submitted),
    ``deaths``, ``suspects`` (executors of short life), ``short_since`` (where no tasks are seen), ``open`` and ``kept``,
    ``last_ends`` (until when the last stall lasted that ended without a success: what comes next begins there or later).

    ``stages``: submitted attempts, since when and of which profile; ``born``: live executors, likewise.
    """

    progress: PMap[ProfileId, Millis] = pmap()
    stages: PMap[AttemptKey, tuple[Millis, ProfileId]] = pmap()
    waiting: PMap[ProfileId, int] = pmap()
    born: PMap[ExecutorId, tuple[Millis, ProfileId]] = pmap()
    deaths: PMap[ProfileId, Deaths] = pmap()
    suspects: PMap[ProfileId, tuple[ExecutorId, ...]] = pmap()
    short_since: PMap[ProfileId, Millis] = pmap()
    refused: PodRefused | None = None
    refusals: int = 0
    open: PMap[ProfileId, Stall] = pmap()
    kept: PMap[ProfileId, Stall] = pmap()
    last_ends: PMap[ProfileId, Millis] = pmap()

    def stalls(self) -> tuple[Stall, ...]:
        """The stalls that last, the alarms first, then the oldest first."""
        return tuple(sorted((*self.open.values(), *self.kept.values()), key=lambda one: (not one.blocked, one.since)))


def watch(
    state: StallState, facts: Sequence[StallInput], config: StallConfig, now: Millis
) -> Step[StallState, StallNews]:
    """Fold facts in order; the commands are the stalls that began and ended. ``now``: not before the last of them."""
    news: list[StallNews] = []
    for fact in facts:
        assert fact.at <= now, fact
        match fact:
            case TasksDone():
                state = _done(state, fact, news)
            case StageSubmitted():
                state = _submitted(state, fact)
            case StageCompleted():
                state = _completed(state, fact)
            case ExecutorCame():
                born = state.born.set(fact.executor, (fact.at, fact.profile))
                state = state._replace(born=born, refused=None, refusals=0)
            case ExecutorWent():
                state = _went(state, fact, config)
            case PodRefused():
                state = state._replace(refused=fact, refusals=state.refusals + 1)
            case PodMade():
                state = state._replace(refused=None, refusals=0)
            case StallMoment():
                state = _judged(state, fact, config, news)
            case KeptMoment():
                state = _kept(state, fact, news)
            case _:
                assert_never(fact)
    return Step(state, tuple(news))


# ------------------------------------------------------------------------------------------------------ what happens


def _done(state: StallState, done: TasksDone, news: list[StallNews]) -> StallState:
    profile = done.profile
    opened = _closed(state.open, profile, done.at, done.at, news)
    return state._replace(
        progress=state.progress.set(profile, done.at), deaths=state.deaths.discard(profile), open=opened
    )


def _submitted(state: StallState, stage: StageSubmitted) -> StallState:
    key, profile = (stage.stage, stage.attempt), stage.profile
    before = state.waiting.get(profile, 0)
    died = state.deaths.get(profile)
    # What died long before, while nothing waited, is not why this stage waits; but a stage is tried again at once.
    stale = not before and died is not None and stage.at - died.at > LEAST_MS
    deaths = state.deaths.discard(profile) if stale else state.deaths
    waiting = state.waiting if key in state.stages else state.waiting.set(profile, before + 1)
    return state._replace(stages=state.stages.set(key, (stage.at, profile)), waiting=waiting, deaths=deaths)


def _completed(state: StallState, stage: StageCompleted) -> StallState:
    key = (stage.stage, stage.attempt)
    known = state.stages.get(key)
    if known is None:
        return state
    left = state.waiting.get(known[1], 0) - 1
    waiting = state.waiting.set(known[1], left) if left > 0 else state.waiting.discard(known[1])
    return state._replace(stages=state.stages.remove(key), waiting=waiting)


def _went(state: StallState, went: ExecutorWent, config: StallConfig) -> StallState:
    """An executor that came after the last success and failed is a death; one of short life may have become a ghost."""
    at, profile = state.born.get(went.executor, (went.at, went.profile))
    registered = went.executor in state.born
    state = state._replace(born=state.born.discard(went.executor))
    known = state.deaths.get(profile, Deaths())
    if went.failed and at >= state.progress.get(profile, at) and went.executor not in known.last:
        last = (*known.last, went.executor)[-NAMED_MAX:]
        died = Deaths(known.number + 1, last, went.at, went.reason)
        state = state._replace(deaths=state.deaths.set(profile, died))
    if registered and config.poll_ms is not None and went.at - at < config.poll_ms:
        last = (*state.suspects.get(profile, ()), went.executor)[-SUSPECTS_MAX:]
        state = state._replace(suspects=state.suspects.set(profile, last))
    return state


# ------------------------------------------------------------------------------------------------------- what stands


def _judged(state: StallState, moment: StallMoment, config: StallConfig, news: list[StallNews]) -> StallState:
    opened, short_since, deaths, known = state.open, state.short_since, state.deaths, len(news)
    there = {one.profile for one in moment.profiles if one.waits}
    for profile in [profile for profile in opened if profile not in there]:
        opened = _closed(opened, profile, moment.since, moment.at, news)
    for profile in [profile for profile in short_since if profile not in there]:
        short_since = short_since.remove(profile)
    for one in moment.profiles:
        profile = one.profile
        if not one.waits:
            died = deaths.get(profile)
            if not one.tasks_known and died is not None and moment.at - died.at > LEAST_MS:
                deaths = deaths.remove(profile)  # where no tasks are seen, executors that stay are the success
            continue
        if not one.tasks_known and profile not in short_since:
            short_since = short_since.set(profile, moment.since)
        stalled = _stall(state, one, short_since, moment.at, config)
        before = opened.get(profile)
        if stalled is None:
            opened = _closed(opened, profile, moment.since, moment.at, news)
        elif before is None:
            opened = opened.set(profile, stalled)
            news.append(StallNews(moment.at, Phase.BEGAN, stalled))
        elif (before.cause, before.blocked) == (stalled.cause, stalled.blocked):
            opened = opened.set(profile, stalled._replace(since=before.since))
        else:
            _closed(opened, profile, moment.since, moment.at, news)
            stalled = stalled._replace(since=max(before.since, moment.since))
            opened = opened.set(profile, stalled)
            news.append(StallNews(moment.at, Phase.BEGAN, stalled))
    last_ends = state.last_ends
    for ended in (one.stall for one in news[known:]):
        if ended.until is not None:
            last_ends = last_ends.set(ended.profile, ended.until)
    return state._replace(open=opened, short_since=short_since, deaths=deaths, last_ends=last_ends)


def _stall(
    state: StallState, one: ProfileMoment, short_since: Mapping[ProfileId, Millis], at: Millis, config: StallConfig
) -> Stall | None:
    profile = one.profile
    if one.tasks_known:
        submitted = [state.stages[key][0] for key in one.attempts if key in state.stages]
        begun = min(submitted, default=config.start)
    else:
        begun = short_since[profile]
    since = max(begun, state.progress.get(profile, config.start))
    dead = state.deaths.get(profile, Deaths())
    happened = Since(
        at - since, dead.number, dead.last, dead.reason, state.suspects.get(profile, ()), state.refused, state.refusals
    )
    found = verdict(one, happened)
    if found is None:
        return None
    since = max(since, state.last_ends.get(profile, since))
    return Stall(found.cause, profile, since, found.blocked, found.facts, found.executors, one.attempts)


def _kept(state: StallState, kept: KeptMoment, news: list[StallNews]) -> StallState:
    """Executors that old shuffles keep: a stall of its own, whatever else the profile does."""
    opened = state.kept
    ripe = {one.profile: one for one in kept.profiles if kept.at - one.since >= ROWS[StallCause.SHUFFLES].patience_ms}
    for profile in [profile for profile in opened if profile not in ripe]:
        opened = _closed(opened, profile, kept.since, kept.at, news)
    for profile, one in ripe.items():
        facts = {"executors": one.number}
        stalled = Stall(StallCause.SHUFFLES, profile, one.since, True, facts, one.executors[:NAMED_MAX])
        before = opened.get(profile)
        if before is None:
            news.append(StallNews(kept.at, Phase.BEGAN, stalled))
        opened = opened.set(profile, stalled if before is None else stalled._replace(since=before.since))
    return state._replace(kept=opened)


def _closed(
    opened: PMap[ProfileId, Stall], profile: ProfileId, until: Millis, at: Millis, news: list[StallNews]
) -> PMap[ProfileId, Stall]:
    """The table without a profile's stall, which ended; the same table where there is none."""
    stall = opened.get(profile)
    if stall is None:
        return opened
    news.append(StallNews(at, Phase.ENDED, stall._replace(until=max(stall.since, until))))
    return opened.remove(profile)
