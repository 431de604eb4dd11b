"""Build the wheel and the source distribution, install both in empty environments, replay a log and simulate there.

``python scripts/release.py --out dist`` (``make release``) does that with every supported Python, which it looks for on PATH
and beside this one (pyenv); ``--python`` names others. A version that is missing is an error: a release is tried on all,
unless ``--only`` names some.
``--check`` (``make wheel``, part of ``make test``) tries the wheel with this Python alone and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("podtide/domain/", "podtide/adapters/", "podtide/entrypoints/")
FACE: Final = ("podtide/__init__.py", "podtide/__main__.py", "podtide/py.typed")
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
DEMO_PEAK: Final = 5
PODS: Final = 3
TOP: Final = ("LICENSE", "PKG-INFO", "README.md", "pyproject.toml")
"""What a source distribution has beside the package."""


class Broken(Exception):
    """The distribution is not as it has to be; one line says what is wrong."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, install, run; says what is wrong and returns 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="the wheel with this Python alone; keep nothing")
    parser.add_argument("--out", type=Path, default=PROJECT / "dist", help="where the files go (default: dist)")
    parser.add_argument("--python", action="append", default=[], metavar="PROGRAM", help="a Python to try as well")
    parser.add_argument("--only", action="append", choices=VERSIONS, metavar="VERSION", help="try this version alone")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            if options.check:
                _try(_built(Path(folder), "--wheel")[0], sys.executable)
            else:
                _release(Path(folder), options.out, options.python, options.only or VERSIONS)
    except (Broken, subprocess.CalledProcessError) as problem:
        print(f"release: {problem}", file=sys.stderr)
        return 1
    return 0


def _release(folder: Path, out: Path, named: Sequence[str], versions: Sequence[str]) -> None:
    pythons = dict(_pythons(named))
    missing = [version for version in versions if version not in pythons]
    if missing:
        raise Broken(f"no Python {', '.join(missing)} is found: install it, or name it with --python")
    built = _built(folder, "--wheel", "--sdist")
    for version in versions:
        for file in built:
            _try(file, pythons[version])
    out.mkdir(parents=True, exist_ok=True)
    for file in built:
        shutil.copy2(file, out / file.name)
    print(f"release: {', '.join(file.name for file in built)} in {out}")


def _pythons(named: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The version and the program of each Python that runs; those that were named last, so that they count."""
    beside = Path(sys.base_prefix).parent
    found = [f"python{version}" for version in VERSIONS] + [str(path) for path in beside.glob("*/bin/python3")]
    for program in (*found, *named):
        asked = (program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        try:
            answer = subprocess.run(asked, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError):
            if program in named:
                raise Broken(f"{program} does not run") from None
            continue
        yield answer.stdout.strip(), program


def _built(folder: Path, *kinds: str) -> list[Path]:
    """The files, their contents looked at."""
    # setuptools keeps there what it packed before, and packs it again: modules that have gone since would come back.
    shutil.rmtree(PROJECT / "build", ignore_errors=True)
    _run(sys.executable, "-m", "build", "--quiet", *kinds, "--outdir", str(folder), str(PROJECT))
    (wheel,) = folder.glob("podtide-*.whl")
    with zipfile.ZipFile(wheel) as zipped:
        _look_at(wheel, zipped.namelist(), lambda name: ".dist-info/" in name)
    sources = list(folder.glob("podtide-*.tar.gz"))
    for source in sources:
        with tarfile.open(source) as packed:
            names = [member.name.partition("/")[2] for member in packed if member.isfile()]
        inner = [name.removeprefix(".typing/") for name in names]
        _look_at(source, inner, lambda name: name in TOP or name == "setup.cfg" or ".egg-info/" in name)
    return [wheel, *sources]


def _look_at(file: Path, names: Sequence[str], usual: Callable[[str], bool]) -> None:
    wanted = {f"podtide/{m.relative_to(PROJECT)}" for p in PACKAGES for m in _files(PROJECT / Path(p).name)} | {*FACE}
    strays = [name for name in names if name not in wanted and not usual(name)]
    if strays or (missing := sorted(wanted - set(names))):
        raise Broken(f"{file.name}: stray files {strays[:10]}, missing files {[] if strays else missing[:10]}")


def _try(file: Path, program: str) -> None:
    """Install a file in an empty environment of a Python, replay the demo's log and simulate."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        _run(program, "-m", "venv", str(environment))
        python = str(environment / "bin" / "python")
        _run(python, "-m", "pip", "install", "--quiet", str(file))
        podtide = str(environment / "bin" / "podtide")
        (log,) = (PROJECT / "demo").glob("eventlog_v2_*")
        replayed = json.loads(_run(podtide, "replay", str(log), "--json", folder=folder))
        if replayed["replayed"]["peak_target"] != DEMO_PEAK:
            raise Broken(f"{file.name}: the installed podtide replays the demo's log differently")
        cluster = str(PROJECT / "demo" / "spot-cluster.yaml")
        simulated = json.loads(
            _run(podtide, "simulate", "--schedule", f"0:{PODS}", "--cluster", cluster, "--json", folder=folder)
        )
        if simulated["pods"]["created"] != PODS:
            raise Broken(f"{file.name}: the installed podtide does not simulate")
        version = _run(python, "-c", "import sys; print(sys.version.split()[0])").strip()
    print(
        f"{file.name}: installed into an empty environment of Python {version}, replays a log and simulates", flush=True
    )


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def _run(*command: str, folder: str | None = None) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder).stdout


if __name__ == "__main__":
    sys.exit(main())
