"""What an application on YARN took, as figures with remarks: containers, executors' time, heartbeats and launches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.adapters.text.format import count, lasting
from podtide.adapters.views.simulation__figure_words import Cost, listed_words, removed_words

ALWAYS_OF_YARN: Final = ("containers launched", "executors registered", "executor time")
"""Figures that are shown also where they are 0."""

_NEAR: Final = {"host": "on a wished host", "rack": "on a wished rack", "anywhere": "anywhere"}


def container_costs(document: Mapping[str, Any]) -> list[Cost]:
    """The figures of ``yarn_story.YarnStory.document``."""
    boxes = document["containers"]
    cancelled = f"{boxes['cancelled']:,} cancelled" if boxes["cancelled"] else ""
    pending = f"{boxes['pending']:,} still waiting" if boxes["pending"] else ""
    localized = f"{boxes['localized']:,} near their data" if boxes["localized"] else ""
    near = [f"{number:,} {_NEAR[how]}" for how, number in boxes["matched"].items() if number]
    way = f"{boxes['on_the_way']:,} still on the way" if boxes["on_the_way"] else ""
    failed = f"{count(boxes['launches_failed'], 'launch', 'launches')} failed" if boxes["launches_failed"] else ""
    # An exception may be what ended the application: outside the reporter thread, or as one too many in a row.
    told_of_throws = "the reporter thread logs these and goes on" if document["exit_code"] is None else ""
    hosts = document["hosts"]
    excluded, included = hosts["excluded"], hosts["included"]
    return [
        ("containers requested", f"{boxes['requested']:,}", [localized, cancelled, pending]),
        ("containers given", f"{boxes['allocated']:,}", near if localized else []),
        ("given too many", f"{boxes['surplus']:,}", ["given back: no request wanted them"]),
        ("left over", f"{_left_over(boxes):,}", ["neither launched nor given back: an exception came between"]),
        ("containers launched", f"{boxes['launched']:,}", [failed, way]),
        ("executors registered", f"{boxes['registered']:,}", [removed_words(boxes["removed"], document["removals"])]),
        ("containers ended", f"{sum(boxes['exits'].values()):,}", listed_words(boxes["exits"])),
        (
            "containers wasted",
            f"{boxes['wasted']:,}",
            ["gone before they registered", *listed_words(document["wasted_by"])],
        ),
        ("hosts excluded", f"{excluded:,}", [f"{included:,} taken back in"] if included else []),
        ("nodes leaving", f"{hosts['decommissioning']:,}", ["decommissioned by the resource manager"]),
        ("executor time", lasting(boxes["executor_seconds"] * 1000), ["of registered executors, added up"]),
        (
            "waiting time",
            lasting(boxes["waiting_seconds"] * 1000),
            ["of containers asked for and not registered, added up"],
        ),
        ("calls", f"{sum(document['calls'].values()):,}", listed_words(document["calls"])),
        ("calls that failed", f"{sum(document['calls_failed'].values()):,}", listed_words(document["calls_failed"])),
        ("rounds that threw", f"{document['rounds_threw']:,}", [told_of_throws]),
    ]


def _left_over(boxes: Mapping[str, Any]) -> int:
    """Containers that were given, and of which the heartbeat made nothing, because it ended in an exception."""
    left: int = boxes["allocated"] - boxes["launched"] - boxes["surplus"]
    return max(0, left)
