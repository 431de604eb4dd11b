"""``podtide explain RECORDING --executor ID | --at TIME``: the whole story of an executor, or of a moment.

The recording is opened here; the story is told by ``replay.story``.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Final

import click

from podtide.adapters.recording.header import RecordingError
from podtide.adapters.recording.reader import Recording
from podtide.entrypoints.common.option_groups import in_json
from podtide.entrypoints.common.output import UnreadableInput, check_streams, print_object, printed, refused_as
from podtide.entrypoints.replay.overrides import ReplayWishes
from podtide.entrypoints.replay.recording import settled_terms
from podtide.entrypoints.replay.story import RecordingStory

_ID_MAX: Final = 1_000


@click.command()
@click.argument("recording")
@click.option(
    "--executor", metavar="ID", help="The executor to explain, by its id (on YARN also by its container's id)."
)
@click.option(
    "--at", "at", metavar="TIME", help="Tell how things stood: milliseconds since 1970, an ISO time, or +SECONDS."
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="CHOICE=MODULE:NAME",
    help="A policy of your own that the recording was made with.",
)
@in_json
def explain(recording: str, executor: str | None, at: str | None, policies: tuple[str, ...], as_json: bool) -> int:
    """Explain an executor, or a moment, from a recording.

    RECORDING is what podtide simulate --record wrote, compressed or not, cut or not; - for standard input. With --executor:
    when and why it was asked for, what held it back, every call and its outcome, every state of its pod, how and by
    which rule it went, and how long it waited in between. With --at: targets and pods at that moment, what was held by
    which bound, calls under way, the last and the next decisions. For an application on YARN it shows the same of its
    containers: why and where they were asked for, how they were given and matched, launched, and why they ended.

    \b
    Exit codes: 0 done, 2 usage (also an executor or a time that the recording does not have),
    3 the recording cannot be read, 130 interrupted.
    """
    if (executor is None) == (at is None):
        raise click.UsageError("Give one of --executor and --at.")
    if executor is not None and not 0 < len(executor) <= _ID_MAX:
        raise click.UsageError("--executor takes the id of an executor, such as 17.")
    check_streams(stdin=recording == "-")
    with refused_as(UnreadableInput, RecordingError), contextlib.closing(Recording(recording)) as opened:
        terms = settled_terms(opened, ReplayWishes(policies=policies))
        telling = RecordingStory(opened, terms)
        document = telling.executor(executor) if executor is not None else telling.moment(str(at))
    with printed():
        _print(document, as_json=as_json)
        sys.stdout.flush()
    return 0


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_object(document)
        return
    from podtide.adapters.text.page import Page  # noqa: PLC0415 - the same
    from podtide.adapters.views.explain.view import ExplainView  # noqa: PLC0415 - rich costs a tenth of a second

    ExplainView(Page(sys.stdout), document).report()
