"""Draw the README's picture, ``python -m scripts.make_picture``: what podtide prints of the demo's log, in its colours."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import Final

from rich.console import Console
from rich.text import Text

from scripts.make_demo_log import PROJECT

PICTURE: Final = PROJECT / "docs" / "images" / "replay.svg"
COLUMNS: Final = 100
LINES: Final = (0, 2), (14, 42)
"""Lines of the answer that are shown: the application, the curve and the beginning of the timeline."""

_FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>podtide replay</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def drawn() -> str:
    """The picture."""
    (log,) = (PROJECT / "demo").glob("eventlog_v2_*")
    environment = {
        **os.environ,
        "COLUMNS": str(COLUMNS),
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "PYTHONUTF8": "1",
    }
    command = [sys.executable, "-m", "podtide", "replay", str(log)]
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("$ podtide replay eventlog_v2_app-20261121094425-0000"))
    for begin, end in LINES:
        for line in lines[begin:end]:
            console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    return console.export_svg(title="podtide replay", code_format=_FORMAT, unique_id="podtide")


def main() -> None:
    """Write the file."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
