"""Ask real Spark: fresh random scenarios through the judge and through podtide, compared line by line.

``python scripts/conformance.py`` (``make conformance``) makes a virtual environment .venv-spark with pyspark
4.3.0 if no Spark is found otherwise, compiles the judge, and then for each kind of scenario (dynamic allocation, the
classes of the Kubernetes side, and YARN's allocator) draws scenarios with a seed of its own (printed; give it back with
SEED= to see the same again), lets ``podtide conform`` re-decide them, and prints which rules they reached.

Environment, all optional: KINDS (of eam, pods, lifecycle, store, poll, podstates, yarn, parted by commas or blanks; all), N
(scenarios of each kind, 300), STEPS (steps in each; 300 ticks of dynamic allocation, 30 to 100 rounds or rows of the
others), SEED, OUT (folder to keep the scenarios in, one folder a kind; else those of kinds that agree are thrown away and
the others stay in out/conformance), SPARK_JARS and JAVA_HOME (see tests/oracle/judge.py).

Exit code: 0 no divergence, 1 some scenario diverges, 2 Spark cannot be asked here.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parent.parent
SPARK_ENVIRONMENT: Final = PROJECT / ".venv-spark"
CONFORM: Final = "import sys; from podtide.entrypoints.cli import run; sys.exit(run(['conform', *sys.argv[1:]]))"
DIVERGED: Final = 1
UNAVAILABLE: Final = 2

sys.path.insert(0, str(PROJECT))

from tests.oracle.judge import KINDS, SPARK_VERSION, JudgeUnavailableError, find_jars, find_tool  # noqa: E402


def provide_spark() -> None:
    """Find Spark's jars, or install pyspark into a virtual environment of its own."""
    for tool in ("java", "javac"):
        find_tool(tool)  # before a download of 400 MB
    try:
        find_jars()
    except JudgeUnavailableError:
        if os.environ.get("SPARK_JARS"):
            raise
        print(f"installing pyspark {SPARK_VERSION} into {SPARK_ENVIRONMENT.name} (400 MB, once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", SPARK_ENVIRONMENT], check=True)
        pip = [str(SPARK_ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"pyspark=={SPARK_VERSION}"], check=True)
        find_jars()


def chosen_kinds() -> list[str]:
    """Which kinds to draw; JudgeUnavailableError names one that there is none of."""
    named = os.environ.get("KINDS", "").replace(",", " ").split() or list(KINDS)
    for kind in named:
        if kind not in KINDS:
            raise JudgeUnavailableError(f"KINDS={os.environ['KINDS']}: no kind {kind!r}, there are {', '.join(KINDS)}")
    return named


def generate(kind: str, seed: str, out: Path) -> subprocess.CompletedProcess[str]:
    """Draw the scenarios of a kind; the coverage table is the output."""
    numbers = ["--n", os.environ.get("N", "300")]
    if steps := os.environ.get("STEPS"):
        numbers += ["--steps", steps]
    generator = str(PROJECT / "tests" / "oracle" / "generate.py")
    command = [sys.executable, generator, "--kind", kind, "--seed", seed, *numbers, "--out", str(out)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


def conform(out: Path) -> int:
    """Let podtide re-decide the scenarios; its exit code."""
    path = os.pathsep.join(filter(None, (str(PROJECT / ".typing"), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-c", CONFORM, str(out)]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, check=False).returncode


def ask(kind: str, seed: str, out: Path, *, keep: bool) -> int:
    """Draw, compare and report one kind; the exit code for it."""
    if not keep:
        shutil.rmtree(out, ignore_errors=True)
    print(f"{kind}, seed {seed}: asking Spark {SPARK_VERSION}", flush=True)
    begun = time.monotonic()
    drawn = generate(kind, seed, out)
    print(drawn.stdout, flush=True)
    if drawn.returncode:
        return UNAVAILABLE
    print(f"drawn in {time.monotonic() - begun:.0f} s; asking podtide", flush=True)
    begun = time.monotonic()
    code = conform(out)
    print(f"re-decided in {time.monotonic() - begun:.0f} s; again with: make conformance KINDS={kind} SEED={seed}\n")
    if code:
        print(f"the scenarios are in {out}\n")
    elif not keep:
        shutil.rmtree(out)
    return DIVERGED if code else 0


def main() -> int:
    """Ask about every kind."""
    seed = os.environ.get("SEED") or secrets.token_hex(4)
    kept = os.environ.get("OUT")
    out = Path(kept) if kept else PROJECT / "out" / "conformance" / seed
    try:
        kinds = chosen_kinds()
        provide_spark()
    except (JudgeUnavailableError, subprocess.CalledProcessError) as missing:
        print(f"conformance: {missing}", file=sys.stderr)
        return UNAVAILABLE
    codes = {kind: ask(kind, seed, out / kind, keep=bool(kept)) for kind in kinds}
    says = {0: "no divergence", DIVERGED: "divergences", UNAVAILABLE: "not asked"}
    print("\n".join(f"{kind}: {says[code]}" for kind, code in codes.items()))
    if not kept and not any(codes.values()):
        shutil.rmtree(out, ignore_errors=True)
    return DIVERGED if DIVERGED in codes.values() else max(codes.values())


if __name__ == "__main__":
    sys.exit(main())
