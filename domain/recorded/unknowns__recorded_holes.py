"""Whether a log tells enough to run its application again, whatever the model makes of the rest.

A stage that completed well has had an end of each of its tasks. Where those are not in the log (it was sampled, or edited),
what is left can be run again and may even fit, because what is missing looks like the driver's own time: but then nothing
depends on executors any more, and no answer about them would be worth anything. So the share of such tasks is bounded.

A log without an environment is another matter: Spark's defaults are assumed, and the own error says how well that goes. If
it goes badly, that is the first thing to look at.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.recorded.application import Application

HOLES: Final = "tasks not in the log"
"""In ``Application.counts``: tasks of stages that completed well, without an end of theirs."""

HOLES_MAX: Final = 0.25
"""The share of an application's tasks that may be missing from its log."""


def holes(application: Application) -> str | None:
    """Why too little is left of the application in its log; None where enough is."""
    missing, tasks = application.counts.get(HOLES, 0), application.tasks
    if missing <= HOLES_MAX * tasks:
        return None
    return (
        f"{missing:,} of {tasks:,} tasks are not in the log, although their stages completed: what they took, and where, is "
        "not known, so nothing can be said about other executors"
    )


def unknown_conf(application: Application) -> str | None:
    """What to say of a misfit where the log does not tell under which conf the application ran."""
    if application.properties:
        return None
    return (
        "the log has no environment (SparkListenerEnvironmentUpdate), so it is not known under which config the application "
        "ran, and Spark's defaults were assumed: --conf or --properties-file can say what it was"
    )
