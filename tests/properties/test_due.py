"""Ticking only when due decides exactly what ticking every 100 ms decides."""

from __future__ import annotations

from hypothesis import given

from podtide.adapters.conformance.scaling import state_line
from podtide.domain.protocol.config import ScalingConfig
from tests.properties.happenings import Happening, Run, configs, happenings, news

LONG_ENOUGH = 12_000  # every timeout of the configurations that ever comes has come by then


@given(configs(), happenings)
def test_skipped_ticks_would_have_changed_nothing(config: ScalingConfig, story: list[Happening]) -> None:
    eager, lazy = Run(config, eager=True), Run(config)
    for happening in story:
        eager.happen(happening)
        lazy.happen(happening)
        assert news(lazy.said) == news(eager.said)
    eager.pass_time(LONG_ENOUGH)
    lazy.pass_time(LONG_ENOUGH)
    assert news(lazy.said) == news(eager.said)
    assert state_line(lazy.state, config) == state_line(eager.state, config)
    assert lazy.ticks <= eager.ticks


@given(configs(), configs(), happenings, happenings)
def test_ticks_stay_skippable_under_another_config(
    first: ScalingConfig, second: ScalingConfig, story: list[Happening], sequel: list[Happening]
) -> None:
    """A what-if goes on from a state under another configuration; nothing waits for the next event to be noticed."""
    eager, lazy = Run(first, eager=True).live(story), Run(first).live(story)
    eager.config = lazy.config = second
    eager.pass_time(LONG_ENOUGH)
    lazy.pass_time(LONG_ENOUGH)
    assert news(lazy.said) == news(eager.said)
    for happening in sequel:
        eager.happen(happening)
        lazy.happen(happening)
    assert news(lazy.said) == news(eager.said)
    assert state_line(lazy.state, second) == state_line(eager.state, second)
