"""The README's example is a program: it runs, and prints what the README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.support.project import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")
LINES_MAX = 20


def _block(pattern: str) -> str:
    found = re.search(pattern, README, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_is_short_and_prints_what_it_says() -> None:
    program = _block(r"```python\n(from podtide\.domain.*?)```")
    expected = _block(r"maximum holds it:\n\n```\n(.*?)```")
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / ".typing")}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert ran.stderr == ""
    assert ran.stdout == expected
    assert len(program.strip().splitlines()) < LINES_MAX


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for page in (PROJECT / "README.md", PROJECT / "ARCHITECTURE.md", *(PROJECT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
