"""What the library raises: errors with one printable line each, and no exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.files.prices import PriceError
from podtide.adapters.recording.header import RecordingError
from podtide.adapters.views.log_story import NotInLog
from podtide.entrypoints.common.log_config import NothingToReplay, SettingsError
from podtide.entrypoints.common.output import ModelRefused, Refusal, UnreadableInput
from podtide.entrypoints.whatif.tune_space import SpaceError


class PodtideError(Exception):
    """A question that podtide cannot answer; its text says why."""


class UnreadableLog(PodtideError):
    """The log is not there, cannot be read, or holds nothing to answer from."""


class ModelMisfit(PodtideError):
    """The model does not fit the application: its own config, run again, is too far from what happened."""


class WrongQuestion(PodtideError, ValueError):
    """A setting, price, executor, moment or other argument that cannot be used."""


class MissingExtra(PodtideError, ImportError):
    """A package is not installed that the answer needs; the text has the line that installs it."""


@contextmanager
def answering(log: str) -> Iterator[None]:
    """Errors of the log and of the question, as the library's own. ``log``: as it may be shown."""
    try:
        yield
    except (LogError, RecordingError) as problem:
        raise UnreadableLog(str(problem)) from None
    except NothingToReplay as nothing:
        raise UnreadableLog(f"{log}: {nothing}") from None
    except ModelRefused as refused:
        raise ModelMisfit("\n".join(refused.lines)) from None
    except UnreadableInput as unreadable:
        raise UnreadableLog("\n".join(unreadable.lines)) from None
    except Refusal as misused:
        raise WrongQuestion("\n".join(misused.lines)) from None
    except (SettingsError, NotInLog, PriceError, SpaceError) as wrong:
        raise WrongQuestion(str(wrong)) from None
