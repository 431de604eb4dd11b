"""How hard the properties are tried: the same examples every time, unless asked for more.

``--hypothesis-profile=search`` draws fresh examples, many of them, for a night (``make search``); ``quick`` looks at a few,
where the same properties were tried properly already.

A test marked ``uncounted`` goes thousands of times over lines that others reach: counting its lines takes ten times as long
as the test. (pytest-cov's own ``no_cover`` stops one of the two counters of a worker.)

Ctrl-C reaches the programs that tests start, although a shell that runs all this in the background ignores it for them.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "steady", derandomize=True, max_examples=50, deadline=None, database=None, suppress_health_check=_SLOW
)
settings.register_profile(
    "quick", derandomize=True, max_examples=25, deadline=None, database=None, suppress_health_check=_SLOW
)
settings.register_profile(
    "search", max_examples=1_500, deadline=None, database=None, suppress_health_check=_SLOW, print_blob=True
)
settings.load_profile("steady")

# What is ignored here is ignored in every child: a shell ignores SIGINT for what it starts with "&".
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "uncounted: coverage does not count its lines")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    counter = sys.gettrace()
    if item.get_closest_marker("uncounted"):
        sys.settrace(None)
    yield
    sys.settrace(counter)
