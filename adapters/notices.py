"""A notice: what an adapter of a live run has to say to people, as one record that is printed, counted and drawn.

Decisions are no notices: the observers of the loop see those. A notice is about the way there and back: a watch that
broke and was repaired, a call that was refused, a lease that was lost, a driver that does not answer. ``topic`` is one of
the closed list below, so that it can be counted; ``text`` is a sentence, without secrets and without a line break.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, TypeAlias

from podtide.adapters.text.redactor import Redactor
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis
from podtide.domain.protocol.reasons import Fact


class Level(Enum):
    """How much it matters: to know, to look at, to act upon."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Topic(Enum):
    """What a notice is about."""

    STARTED = "started"
    STOPPING = "stopping"
    STOPPED = "stopped"
    STATUS = "status"
    LISTED = "listed"
    WATCHING = "watching"
    WATCH_BROKEN = "watch broken"
    WATCH_REPAIRED = "watch repaired"
    API_UNREACHABLE = "api unreachable"
    API_BACK = "api back"
    CALL_REFUSED = "call refused"
    CALL_RETRIED = "call retried"
    THROTTLED = "throttled"
    LEASE_TAKEN = "lease taken"
    LEASE_RENEWED_LATE = "lease renewed late"
    LEASE_LOST = "lease lost"
    DRIVER_UNREACHABLE = "driver unreachable"
    DRIVER_BACK = "driver back"
    DIFFERENCE = "difference"
    STALL = "stall"
    STALL_ENDED = "stall ended"
    INPUT_REFUSED = "input refused"
    LEFT_BEHIND = "left behind"
    CLEANED_UP = "cleaned up"


class Notice(NamedTuple):
    """One notice. ``at``: epoch milliseconds. ``facts``: its numbers, by name."""

    at: Millis
    level: Level
    topic: Topic
    text: str
    facts: tuple[tuple[str, Fact], ...] = ()

    def redacted(self, redactor: Redactor) -> Notice:
        """The notice without secrets."""
        facts = tuple((key, redactor.value(key, value)) for key, value in self.facts)
        return self._replace(text=redactor.text(self.text), facts=facts)


Notify: TypeAlias = Callable[[Notice], None]
"""Takes each notice. May be called from any thread; must not block for long and must not raise."""


def say(notice: Notice) -> None:
    """A ``Notify`` that tells people on stderr."""
    mark = "" if notice.level is Level.INFO else f"{notice.level.value}: "
    print(f"podtide: {mark}{escaped(notice.text, 2_000)}", file=sys.stderr, flush=True)
