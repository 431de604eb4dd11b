"""``podtide mcp``: a server of the Model Context Protocol on standard input and output, for an assistant that starts it."""

from __future__ import annotations

from typing import Final

import click

from podtide.entrypoints.common.option_groups import ExpertOption, SectionedCommand
from podtide.entrypoints.common.output import Misused, check_streams, refused_as
from podtide.entrypoints.common.types import DAY, SecondsType, SizeType
from podtide.entrypoints.fleet.options import JOBS_MAX, MEMORY_MIN, memory_bytes

TIMEOUT: Final = "2m"
SIZE: Final = "4g"
JOBS: Final = 2


@click.command(cls=SectionedCommand)
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    required=True,
    metavar="PLACE",
    help="A file, a folder or a URL that may be read, and what lies in it; may be repeated.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=SecondsType(1, DAY, endless=True),
    default=TIMEOUT,
    show_default=True,
    metavar="DURATION",
    help="Time limit for one question, and for each log of a fleet; 0: no limit.",
)
@click.option(
    "--max-size",
    type=SizeType(endless=True),
    default=SIZE,
    show_default=True,
    metavar="SIZE",
    help="The largest log that is read, as stored; 0: no limit.",
)
@click.option(
    "--memory",
    cls=ExpertOption,
    type=SizeType(MEMORY_MIN, endless=True),
    metavar="SIZE",
    help="Memory limit for one question (if not given, the machine's, divided); 0: no limit.",
)
@click.option(
    "--jobs",
    cls=ExpertOption,
    type=click.IntRange(1, JOBS_MAX),
    default=JOBS,
    show_default=True,
    metavar="N",
    help="Parallel processes for the logs of a fleet.",
)
def mcp(allowed: tuple[str, ...], timeout_s: float | None, max_size: int, memory: int | None, jobs: int) -> int:
    """Answer an assistant's questions about logs, by the Model Context Protocol over standard input and output.

    An assistant's program starts this command (docs/how-to/assistants.md); by hand there is nothing to see. It offers
    replay, explain, whatif, tune, compare and fleet as tools with short answers, and a list of the logs. Only what lies in
    an allowed PLACE is read, links and .. followed first; nothing is written.

    \b
    Exit codes: 0 the input ended, 2 usage, or the extra mcp is not installed, 130 interrupted.
    """
    check_streams(stdin=True)
    from podtide.adapters.process_pool import Workers  # noqa: PLC0415 - help goes without it
    from podtide.entrypoints.mcp.places import NotAllowed, Places  # noqa: PLC0415 - the same

    with refused_as(Misused, NotAllowed):
        places = Places.of(allowed)
    try:
        from podtide.entrypoints.mcp.server import serve  # noqa: PLC0415 - the SDK is an extra
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        raise Misused("the SDK of the Model Context Protocol is not installed: pip install 'podtide[mcp]'") from None
    from podtide.entrypoints.mcp.work import Clerk, Desk  # noqa: PLC0415 - the same

    with Workers(
        Clerk(places, max_size or None), jobs, limit_s=timeout_s, memory_bytes=memory_bytes(memory, jobs)
    ) as workers:
        serve(Desk(workers))
    return 0
