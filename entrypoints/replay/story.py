"""The story of an executor or of a moment, from a recording, as plain data.

The recording is read once, from its beginning; kept is only what belongs to the executor or the moment. Its steps are
decided again on the way, because what the driver's books said is nowhere recorded: it is the state that the steps lead to.
Should a step be decided otherwise than recorded (another podtide wrote the recording), the story goes on with what was
recorded, and nothing more is said of the books.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from podtide.adapters.recording.reader import RecordedStep, Recording
from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.format import moment
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.explain.container import ContainerHistory
from podtide.adapters.views.explain.executor import ExecutorHistory
from podtide.adapters.views.explain.moment import MomentHistory
from podtide.domain.base.units import Millis
from podtide.domain.engine import EngineState
from podtide.entrypoints.common.output import Misused, UnreadableInput
from podtide.entrypoints.replay.overrides import ReplayTerms
from podtide.entrypoints.replay.redecide import Redecider

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_SECONDS: Final = re.compile(r"\+([0-9]{1,12})(?:\.([0-9]{1,3}))?s?", re.ASCII)


class RecordingStory:
    """One recording under way."""

    def __init__(self, recording: Recording, terms: ReplayTerms) -> None:
        self.recording = recording
        self.terms = terms
        self.first: Millis | None = None
        self.last: Millis = recording.header.started_at
        self.books_told = True
        self._redecider = Redecider(recording, terms)
        self._disagrees: int | None = None

    def executor(self, executor: str) -> dict[str, Any]:
        """The story of an executor. Raises Misused where there is none."""
        config = self.terms.settings.config
        on_yarn = config.yarn is not None
        history = ContainerHistory(executor) if on_yarn else ExecutorHistory(executor, config.kubernetes.pods)
        for step, state in self._steps():
            history.step(step, state)
        history.finish(self.last)
        if not history.found:
            known = f"it {history.made} no executors"
            if history.known is not None:
                first, last = history.known
                many = f"executor {first}" if first == last else f"executors {first} to {last}"
                known = f"it {history.made} {many}"
            raise Misused(f"{self.recording.name}: nothing is recorded of an executor {escaped(executor, 60)}; {known}")
        return {**self._document("executor"), "story": history.document()}

    def moment(self, text: str) -> dict[str, Any]:
        """A moment. Raises Misused where the recording does not have it."""
        steps = self._steps()
        config = self.terms.settings.config
        history: MomentHistory | None = None
        before: tuple[RecordedStep, EngineState | None] | None = None
        for step, state in steps:
            if history is None:
                history = MomentHistory(moment_of(text, step.at))
                if history.at < step.at:
                    raise self._outside(text, step.at, None)
            if step.at <= history.at:
                history.step(step)
                before = step, state
                continue
            if not history.passed and before is not None:
                # The state of the step before: an older version of the books still answers.
                history.settle(*before, config)
            history.after(step)
            if history.complete:
                break
        if history is None or before is None:
            raise UnreadableInput(f"{self.recording.name}: no step is recorded; there is nothing to tell")
        if not history.passed:
            if history.at > self.last:
                raise self._outside(text, self.first, self.last)
            history.settle(*before, config)
        return {**self._document("moment"), "moment": history.document()}

    def _steps(self) -> Iterator[tuple[RecordedStep, EngineState | None]]:
        """Every recorded step and the state after it; None from the first that is decided otherwise on."""
        for entry in self.recording.entries():
            self.last = max(self.last, entry.at)
            if not isinstance(entry, RecordedStep):
                continue
            if self.first is None:
                self.first = entry.at
            if not self.books_told:
                yield entry, None
                continue
            taken = self._redecider.take(entry)
            if self._redecider.agreement.divergence is not None:
                self.books_told = False
                self._disagrees = entry.line
                yield entry, None
            else:
                yield entry, taken.state

    def _document(self, kind: str) -> dict[str, Any]:
        header = self.recording.header
        notes = list(self.terms.notes)
        if self._disagrees is not None:
            notes.append(
                f"The step of line {self._disagrees} is decided otherwise here than it was: from there on nothing is said "
                "of the books (podtide replay --check shows the difference)."
            )
        if self.recording.cut is not None:
            notes.append(f"The recording is {self.recording.cut}.")
        return {
            "schema": schema_name(f"explain-{kind}"),
            "app": {"id": header.app_id, "first_ms": self.first, "last_ms": self.last},
            "recording": {"name": self.recording.name, "source": header.source, "cut": self.recording.cut},
            "books_told": self.books_told,
            "notes": notes,
        }

    def _outside(self, text: str, first: Millis | None, last: Millis | None) -> Misused:
        span = f"it begins {_when(first)}" if last is None else f"it goes from {_when(first)} to {_when(last)}"
        return Misused(f"{self.recording.name}: --at {escaped(text, 60)} is not in the recording; {span}")


def moment_of(text: str, start: Millis) -> Millis:
    """A time from the command line: milliseconds since the epoch, an ISO time (UTC unless it says), or +SECONDS."""
    text = text.strip()
    if _MILLIS.fullmatch(text):
        return int(text)
    seconds = _SECONDS.fullmatch(text)
    if seconds is not None:
        return start + int(seconds[1]) * 1000 + int((seconds[2] or "").ljust(3, "0"))
    try:
        given = datetime.fromisoformat(text)
        at = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        return (at - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        expected = "milliseconds since 1970, a time such as 2026-01-31T12:00:00Z, or +SECONDS since the start"
        raise Misused(f"--at {escaped(text, 60)}: expected {expected}") from None


def _when(at: Millis | None) -> str:
    return "nowhere" if at is None else f"{at} ({moment(at)})"
