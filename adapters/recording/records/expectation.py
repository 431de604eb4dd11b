"""Is what is decided what was decided before? A stream of decisions against a file of them, to the first difference.

Decisions are compared in order, each with the next line of the file. A line is an expectation: every key that it has
must hold, and every fact that it names; what it does not mention is not asked for, so a file of an older version that
knew fewer facts, or one that somebody wrote by hand, still says what it meant. The first decision that differs, that
nobody expected or that did not come is an ``Unexpected``, with its story: what led up to it, what was held back at
that moment and what follows on either side. Nothing is compared after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from podtide.adapters.recording.records.decision_file import DecisionReader, Numbered

BEFORE: Final = 5
"""Decisions before the difference that belong to its story."""

AFTER: Final = 3
"""Decisions after it, on either side."""

HOLDS_MAX: Final = 20
"""Bounds in force that are remembered."""


class Departing(NamedTuple):
    """A value that differs: where in the record, what was expected, what was decided; ABSENT if there is none."""

    path: str
    expected: Any
    decided: Any


ABSENT: Final = "(absent)"


@dataclass
class Unexpected:
    """The first difference. ``expected`` None: the decision was not expected. ``decided`` None: it did not come."""

    line: int | None
    expected: dict[str, Any] | None
    decided: dict[str, Any] | None
    departing: list[Departing]
    before: list[dict[str, Any]]
    holds: list[dict[str, Any]]
    next_expected: list[dict[str, Any]] = field(default_factory=list)
    next_decided: list[dict[str, Any]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The difference as plain data."""
        return {
            "line": self.line,
            "expected": self.expected,
            "decided": self.decided,
            "differs": [{"path": d.path, "expected": d.expected, "decided": d.decided} for d in self.departing],
            "before": self.before,
            "held": self.holds,
            "next_expected": self.next_expected,
            "next_decided": self.next_decided,
        }


class Expectation:
    """Takes the records of a replay as they come; ``difference`` is set from the first that differs on."""

    def __init__(self, reader: DecisionReader) -> None:
        """Read the first line. Raises DecisionFileError."""
        self.name = reader.name
        self.compared = 0
        self.difference: Unexpected | None = None
        self._lines = reader.decisions()
        self._next: Numbered | None = next(self._lines, None)
        self._before: deque[dict[str, Any]] = deque(maxlen=BEFORE)
        self._holds: dict[tuple[str, int], dict[str, Any]] = {}

    def take(self, record: dict[str, Any]) -> None:
        """Compare the next decision. Raises DecisionFileError if the file is damaged where it is read."""
        if self.difference is not None:
            if "command" in record and len(self.difference.next_decided) < AFTER:
                self.difference.next_decided.append(record)
            return
        if "command" not in record:
            self._note(record)
            return
        due = self._next
        departing = [] if due is None else departures(due.record, record)
        if due is None or departing:
            self._differs(due, record, departing)
            return
        self.compared += 1
        self._before.append(record)
        self._next = next(self._lines, None)

    def finish(self) -> None:
        """No more decisions come. Raises DecisionFileError."""
        if self.difference is None and self._next is not None:
            self._differs(self._next, None, [])

    def document(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return {
            "file": self.name,
            "agrees": self.difference is None,
            "compared": self.compared,
            "difference": None if self.difference is None else self.difference.document(),
        }

    def _differs(self, due: Numbered | None, record: dict[str, Any] | None, departing: list[Departing]) -> None:
        self.difference = Unexpected(
            None if due is None else due.line,
            None if due is None else due.record,
            record,
            departing,
            list(self._before),
            list(self._holds.values()),
        )
        while due is not None and len(self.difference.next_expected) < AFTER:
            following = next(self._lines, None)
            if following is None:
                break
            self.difference.next_expected.append(following.record)

    def _note(self, record: dict[str, Any]) -> None:
        """Remember which bounds hold; those of single executors come and go by the hundred and are left out."""
        if record["report"] != "held" or record["ids"]:
            return
        key = (record["bound"], record["profile"])
        if record["phase"] == "ended":
            self._holds.pop(key, None)
        elif key in self._holds or len(self._holds) < HOLDS_MAX:
            self._holds[key] = record


def departures(expected: Mapping[str, Any], decided: Mapping[str, Any]) -> list[Departing]:
    """Where a decision is not what was expected, in the order of the expectation's keys."""
    found = []
    for key, wanted in expected.items():
        got = decided.get(key, ABSENT)
        if wanted == got:
            continue
        if key in ("facts", "targets") and isinstance(wanted, dict) and isinstance(got, dict):
            inner = wanted if key == "facts" else {**wanted, **got}
            found += [
                Departing(f"{key}.{name}", wanted.get(name, ABSENT), got.get(name, ABSENT))
                for name in inner
                if wanted.get(name, ABSENT) != got.get(name, ABSENT)
            ]
        else:
            found.append(Departing(key, wanted, got))
    return found
