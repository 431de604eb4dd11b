"""Where the project and the material beside it are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = PROJECT / "docs"
SHARED: Final = PROJECT.parent / "shared"
"""Specifications, recorded answers and logs that are no part of the project; tests use them where they are."""

TRUTH: Final = SHARED / "data" / "truth"
"""Logs of real runs."""

DEMO: Final = next((PROJECT / "demo").glob("eventlog_v2_*"))
"""The event log that comes with the project."""

TYPING: Final = PROJECT / ".typing"
"""The folder under which ``podtide`` is found in a checkout."""


def environment(**changes: str) -> dict[str, str]:
    """The environment of a program under test: this process's, with the checkout's podtide first."""
    return {**os.environ, "PYTHONPATH": str(TYPING), **changes}
