"""How hard the properties are tried: the same examples every time, unless asked for more.

``--hypothesis-profile=search`` draws fresh examples, many of them, for a night (``make search``); ``quick`` looks at a few,
where the same properties were tried properly already.

Ctrl-C reaches the programs that tests start, although a shell that runs all this in the background ignores it for them.
"""

from __future__ import annotations

import signal

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
