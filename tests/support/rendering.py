"""What ``kubectl kustomize`` makes of the folders of deploy/; where there is no kubectl, tests that ask are skipped."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

HASHED = re.compile(r"(podtide-(?:application|spark)(?:-nightly)?)-[a-z0-9]{10}\b")
"""Names of config maps end in a hash of what is in them."""


def render(folder: Path) -> list[dict[str, Any]]:
    """The objects that a folder stands for, config maps without the hash in their names."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    return list(yaml.safe_load_all(_rendered(folder)))


@cache
def _rendered(folder: Path) -> str:
    command = ["kubectl", "kustomize", str(folder)]
    return HASHED.sub(r"\1", subprocess.run(command, capture_output=True, text=True, check=True).stdout)
