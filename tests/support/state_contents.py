"""The contents of a load and of an idleness as plain values, so that tests can compare two of them whole.

A state has read-only views of its own tables; with this module imported, ``pickle`` knows them.
"""

from __future__ import annotations

import copyreg
from types import MappingProxyType
from typing import Any

from podtide.domain.base.units import ExecutorId
from podtide.domain.scaling.executor_monitor import Idleness
from podtide.domain.scaling.load import Load


def _view(table: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(table)


copyreg.pickle(MappingProxyType, lambda view: (_view, (dict(view),)))


def load_contents(load: Load) -> dict[str, Any]:
    """All of a load but its signals and recent stimuli, which are of the past."""
    tables = load.tables()
    return {
        "attempts": [
            (*a.key, a.tasks, a.running, _sorted(a.started), _sorted(a.spec_started), _sorted(a.spec_pending),
             list(a.profiles), a.unschedulable)
            for a in tables.attempts.values()
        ],
        "hints": [(*key, hint.tasks, list(hint.hosts), hint.profile) for key, hint in tables.hints.items()],
        "hinted": tables.hinted,
        "seen": sorted(tables.seen),
        "profiles": [
            (profile.id, list(profile.executor), list(profile.task))
            for announced in tables.profiles.values()
            for profile in announced
        ],
    }  # fmt: skip


def _sorted(indices: set[int] | None) -> list[int] | None:
    return None if indices is None else sorted(indices)


def idleness_contents(idleness: Idleness) -> dict[str, Any]:
    """All of an idleness: its trackers, shuffles and jobs, and the cached list."""
    tables = idleness.tables()
    shuffles: dict[ExecutorId, list[int]] = {executor: [] for executor in tables.trackers}
    for shuffle in sorted(tables.holders):
        for tracker in tables.holders_of(shuffle):
            shuffles[tracker.id].append(shuffle)
    return {
        "limits": tables.limits,
        "trackers": [
            (t.id, t.profile, t.running, t.idle_start, t.timeout_at, t.timed_out, t.pending_removal, t.decommissioning,
             t.active_shuffle, [(rdd, sorted(splits)) for rdd, splits in t.cached.items()], shuffles[t.id])
            for t in tables.trackers.values()
        ],
        "active": sorted(tables.active),
        "next_timeout": tables.next_timeout,
        "listed": list(tables.listed.items()),
        "shuffle_jobs": [(shuffle, list(jobs)) for shuffle, jobs in tables.shuffle_jobs.items()],
        "stage_shuffle": list(tables.stage_shuffle.items()),
        "job_stages": [(job, list(stages)) for job, stages in tables.job_stages.items()],
        "removals": tables.removals,
        "kept": [(executor, bound, profile) for executor, (bound, profile) in tables.kept.items()],
    }  # fmt: skip
