"""Build the wheel, install it into an empty environment, replay a log and simulate with it: part of ``make test``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("podtide/domain/", "podtide/adapters/", "podtide/entrypoints/")
FACE: Final = ("podtide/__init__.py", "podtide/__main__.py", "podtide/py.typed")


def main() -> int:
    """Build, install, run; says what was wrong and returns 1 otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _run(sys.executable, "-m", "build", "--quiet", "--wheel", "--outdir", folder, str(PROJECT))
        (wheel,) = place.glob("podtide-*.whl")
        with zipfile.ZipFile(wheel) as zipped:
            names = zipped.namelist()
        files = {f"podtide/{m.relative_to(PROJECT)}" for p in PACKAGES for m in _files(PROJECT / Path(p).name)}
        strays = [n for n in names if not n.startswith(PACKAGES) and n not in FACE and ".dist-info/" not in n]
        missing = sorted({*files, *FACE} - set(names))
        if strays or missing:
            print(f"{wheel.name}: stray files {strays}, missing files {missing}", file=sys.stderr)
            return 1
        environment = place / "venv"
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        _run(str(python), "-m", "pip", "install", "--quiet", str(wheel))
        (log,) = (PROJECT / "demo").glob("eventlog_v2_*")
        shown = _run(str(environment / "bin" / "podtide"), "replay", str(log), "--json", folder=place)
        if '"peak_target":5' not in shown.replace(" ", ""):
            print(f"{wheel.name}: the installed podtide replays the demo's log differently", file=sys.stderr)
            return 1
        cluster = str(PROJECT / "demo" / "spot-cluster.yaml")
        simulated = _run(
            str(environment / "bin" / "podtide"), "simulate", "--schedule", "0:3", "--cluster", cluster, "--json"
        )
        if '"created":3' not in simulated.replace(" ", ""):
            print(f"{wheel.name}: the installed podtide does not simulate", file=sys.stderr)
            return 1
        print(f"{wheel.name}: {len(names)} files, installed into an empty environment, replays a log and simulates")
    return 0


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def _run(*command: str, folder: Path | None = None) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder).stdout


if __name__ == "__main__":
    sys.exit(main())
