"""How many executors of each resource profile there were at once: what a static count keeps where there were several.

``Application.peak_executors`` counts all profiles together, and they need not have peaked at one time. Without dynamic
allocation one profile is the application's own - the default one, or the most frequent where a log names none so - and the
executors of the others are kept as they were.
"""

from __future__ import annotations

from collections import Counter

from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.recorded.application import Application


def main_profile(application: Application) -> ProfileId:
    """The profile of the application's own executors."""
    known = Counter(one.profile for one in application.executors)
    return max(known, key=lambda one: (one == DEFAULT_PROFILE, known[one], -one), default=DEFAULT_PROFILE)


def peaks(application: Application) -> dict[ProfileId, int]:
    """The most executors of each profile that were registered at once, by profile."""
    moves: dict[ProfileId, dict[Millis, int]] = {}
    for one in application.executors:
        own = moves.setdefault(one.profile, {})
        own[one.added_ms] = own.get(one.added_ms, 0) + 1
        if one.removed_ms is not None:
            own[one.removed_ms] = own.get(one.removed_ms, 0) - 1
    found = {}
    for profile in sorted(moves):
        count = most = 0
        for at in sorted(moves[profile]):
            count += moves[profile][at]
            most = max(most, count)
        found[profile] = max(1, most)
    return found
