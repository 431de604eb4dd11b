"""Targets stay within their bounds but where Spark lets them out, and reports tell a whole story."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given

from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol.commands import Report, RequestTotal
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Bound, Held, Phase
from tests.properties.happenings import Happening, Run, configs, happenings


@given(configs(), happenings)
def test_targets_stay_within_their_bounds(config: ScalingConfig, story: list[Happening]) -> None:
    """Spark lets a target out in one case: the first target lies above the maximum.

    ExecutorAllocationManager does not compare the two (a scheduler backend does when it starts). Such a target is
    what every profile begins with: at the start, with its first stage, after a reset. From there it goes down as the
    need does, possibly in steps that still lie above the maximum, and never up again except by a reset or by a
    request that was not acknowledged, which restores what was before.

    Below the minimum no target ever is: the first one is at least the minimum, lowering stops there, and so does
    growing when the need is smaller. Need, executors and increments, whatever they are, overflows included, move a
    target only within these bounds.
    """
    low, high, first = config.executors_min, config.executors_max, config.executors_initial
    assert low <= first
    run = Run(config)
    for happening in story:
        before = run.state.scaling.targets
        said = len(run.said)
        run.happen(happening)
        for profile, target in run.state.scaling.targets.items():
            assert low <= target <= max(high, first)
            if target > high and profile in before:
                assert target in (before[profile], first) or target < before[profile] or restored(run, said, profile)
        for command in run.said[said:]:
            if isinstance(command, RequestTotal):
                for change in command.changes:
                    if change.after > high:
                        assert change.after == first or change.after < change.before
                    assert low <= change.after


def restored(run: Run, since: int, profile: ProfileId) -> bool:
    """Whether the target is one that an unacknowledged request had been about to change."""
    target = run.state.scaling.targets[profile]
    return any(
        change.profile == profile and change.before == target
        for command in run.said[since:]
        if isinstance(command, RequestTotal)
        for change in command.changes
    )


class Ledger:
    """The bounds that are open according to the reports: those of a profile, and the one that keeps an executor."""

    def __init__(self) -> None:
        self.profiles: dict[tuple[Bound, ProfileId], object] = {}
        self.executors: dict[ExecutorId, tuple[Bound, ProfileId]] = {}

    def read(self, reports: Iterable[Report]) -> None:
        for report in reports:
            if not isinstance(report, Held):
                continue
            assert report.facts
            key = (report.bound, report.profile)
            if report.executors:
                assert report.facts["executors"] == len(report.executors)
                assert list(report.executors) == sorted(report.executors)
                for executor in report.executors:
                    self._executor(executor, report.phase, key)
            else:
                self._profile(report.phase, key, report.facts)

    def _executor(self, executor: ExecutorId, phase: Phase, key: tuple[Bound, ProfileId]) -> None:
        match phase:
            case Phase.BEGAN:
                assert executor not in self.executors
                self.executors[executor] = key
            case Phase.CHANGED:
                assert self.executors[executor] != key
                self.executors[executor] = key
            case Phase.ENDED:
                assert self.executors.pop(executor) == key

    def _profile(self, phase: Phase, key: tuple[Bound, ProfileId], facts: object) -> None:
        match phase:
            case Phase.BEGAN:
                assert key not in self.profiles
                self.profiles[key] = facts
            case Phase.CHANGED:
                assert self.profiles[key] != facts
                self.profiles[key] = facts
            case Phase.ENDED:
                del self.profiles[key]


@given(configs(), happenings)
def test_every_report_that_began_ends_or_is_open(config: ScalingConfig, story: list[Happening]) -> None:
    run, ledger = Run(config), Ledger()
    told = 0
    for happening in [*story, *[(5_000, happening[1]) for happening in story[:1]]]:
        run.happen(happening)
        ledger.read(report for report in run.said[told:] if isinstance(report, Report))
        told = len(run.said)
        scaling = run.state.scaling
        assert ledger.profiles.keys() == scaling.bounds.keys()
        assert ledger.executors == scaling.idleness._tables.kept


@given(configs(), happenings)
def test_serials_are_never_given_twice(config: ScalingConfig, story: list[Happening]) -> None:
    run = Run(config).live(story)
    serials = [command.serial for command in run.said if not isinstance(command, Report)]
    assert serials == sorted(set(serials))
