"""A real browser for the tests that show pages in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import COMMANDS, VARIABLE, Browser, find


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    path = find()
    if path is None:
        pytest.skip(
            f"NOT TESTED IN A BROWSER: no Chromium found ({VARIABLE}, {', '.join(COMMANDS)}, Playwright's cache)"
        )
    with Browser(path, tmp_path_factory.mktemp("chromium")) as found:
        yield found
