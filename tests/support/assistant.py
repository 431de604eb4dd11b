"""An assistant's program: the SDK's own client, which starts ``podtide mcp`` as a user's configuration does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent, Tool

from tests.support.project import environment


class Assistant:
    """A client that is connected."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def tools(self) -> list[Tool]:
        return self._portal.call(self._client.list_tools).tools

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        found: CallToolResult = self._portal.call(self._client.call_tool, tool, arguments)
        return found

    def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        found = self.call(tool, **arguments)
        assert not found.is_error, words(found)
        answer: dict[str, Any] = found.structured_content
        return answer

    def error(self, tool: str, **arguments: Any) -> str:
        found = self.call(tool, **arguments)
        assert found.is_error
        assert found.structured_content is None
        return words(found)


def words(found: CallToolResult) -> str:
    (content,) = found.content
    assert isinstance(content, TextContent)
    return content.text


@contextmanager
def assistant(*places: str | Path, options: tuple[str, ...] = (), folder: Path | None = None) -> Iterator[Assistant]:
    """A client of ``podtide mcp --allow PLACE...``, started in ``folder``."""
    allowed = [part for place in places for part in ("--allow", str(place))]
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "podtide", "mcp", *allowed, *options],
        env=dict(environment()),
        cwd=folder,
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(command)) as client:
        yield Assistant(portal, client)
