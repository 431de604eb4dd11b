"""The judge: real Spark 4.3.0 deciding scripted scenarios, as a Python object.

The judge is a small Java program beside this file (``src/``), compiled against the jars that the ``pyspark``
package brings. Nothing of Spark's decision code is replaced in it; see README.md for what is. This module finds
the jars and a JDK, compiles the program when its sources are newer than its classes, starts one JVM and speaks
its line protocol::

    with Judge() as judge:
        answers = judge.send({"conf": {"spark.shuffle.service.enabled": "true"}})   # opens a scenario
        answers += judge.send({"at": 100, "tick": True})

A judge answers scenarios of one kind (``KINDS``): dynamic allocation unless told otherwise.

The jars come from ``$SPARK_JARS``, else from ``$SPARK_HOME/jars``, else from the pyspark of the virtual
environment ``.venv-spark`` at the top of the project (``make conformance`` makes it), else from a pyspark that
this interpreter can import. ``$JAVA_HOME`` names the JDK, else ``java`` and ``javac`` of the PATH.

From the command line the same program answers files::

    python tests/oracle/judge.py [--kind K] [--out DIR] PATH...      X.jsonl(.gz) -> X.out.jsonl(.gz)
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Final

HERE: Final = Path(__file__).resolve().parent
PROJECT: Final = HERE.parent.parent
SOURCES: Final = HERE / "src"
CLASSES: Final = HERE / "build"
SPARK_VERSION: Final = "4.3.0"
KINDS: Final = ("eam", "pods", "lifecycle", "store", "poll", "podstates", "yarn")
"""Kinds of scenarios, each for one of Spark's classes: see README.md."""
JAVA_OLDEST: Final = 17
"""Spark 4 runs on Java 17 and later."""
TRAP_OFFERED: Final = range(18, 24)
"""Java versions that have a security manager, which traps an exit of Spark's, but must be told to allow one."""

# Spark reaches into these packages of the JDK; its own launcher opens them the same way.
_OPENED: Final = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
)


class JudgeUnavailableError(RuntimeError):
    """Real Spark cannot be asked here; the message says what is missing and how to get it."""


class JudgeDiedError(RuntimeError):
    """The judge's JVM ended in the middle of a conversation."""


def find_jars() -> Path:
    """Return the folder of Spark's jars; JudgeUnavailableError when there is none or it is another version."""
    for jars in _jar_folders():
        found = sorted(jars.glob("spark-core_*.jar"))
        if not found:
            continue
        if not found[0].name.endswith(f"-{SPARK_VERSION}.jar"):
            raise JudgeUnavailableError(f"{jars} holds {found[0].name}; the judge needs Spark {SPARK_VERSION}")
        return jars
    raise JudgeUnavailableError(
        f"no Spark jars found: run `make conformance`, or `pip install pyspark=={SPARK_VERSION}` into "
        f"{PROJECT / '.venv-spark'}, or set SPARK_JARS to a folder of jars"
    )


def _jar_folders() -> list[Path]:
    """Where jars may be, most explicit first. A folder that was named but is wrong is an error, not skipped."""
    if named := os.environ.get("SPARK_JARS"):
        if not list(Path(named).glob("spark-core_*.jar")):
            raise JudgeUnavailableError(f"SPARK_JARS={named}: no spark-core jar in this folder")
        return [Path(named)]
    folders = []
    if home := os.environ.get("SPARK_HOME"):
        folders.append(Path(home) / "jars")
    folders += sorted((PROJECT / ".venv-spark").glob("lib/python3*/site-packages/pyspark/jars"))
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.submodule_search_locations:
        folders.append(Path(next(iter(spec.submodule_search_locations))) / "jars")
    return folders


def find_tool(name: str) -> str:
    """Return the path of ``java`` or ``javac``; JudgeUnavailableError when it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=str(Path(home) / "bin")) if home else shutil.which(name)
    if path is None:
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise JudgeUnavailableError(f"no {name} in {where}: the judge needs a JDK {JAVA_OLDEST} or later")
    version, said = _version(path)
    if version < JAVA_OLDEST:
        raise JudgeUnavailableError(f"{path} is too old ({said}): the judge needs JDK {JAVA_OLDEST} or later")
    return path


def _version(tool: str) -> tuple[int, list[str]]:
    """The major version of ``java`` or ``javac`` (0: it does not say), and the first line of what it says."""
    told = subprocess.run([tool, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r"(?:version \"|javac )(\d+)", told.stderr + told.stdout)
    said = (told.stderr or told.stdout).strip().splitlines()[:1]
    return (0 if version is None else int(version.group(1))), said


def build(jars: Path) -> Path:
    """Compile the judge if a source is newer than its classes, or the jars are others; return the class folder."""
    sources = sorted(SOURCES.rglob("*.java"))
    stamp = CLASSES / "built-against"
    fresh = stamp.exists() and stamp.read_text() == str(jars)
    if fresh and all(s.stat().st_mtime <= stamp.stat().st_mtime for s in sources):
        return CLASSES
    shutil.rmtree(CLASSES, ignore_errors=True)
    CLASSES.mkdir(parents=True)
    command = [find_tool("javac"), "-nowarn", "-Xlint:none", "-proc:none", "-d", str(CLASSES)]
    done = subprocess.run(
        [*command, "-cp", f"{jars}/*", *map(str, sources)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise JudgeUnavailableError(f"javac failed on the judge's sources:\n{done.stderr}")
    stamp.write_text(str(jars))
    return CLASSES


def java_command(main: str, *, heap: str = "2g", properties: tuple[str, ...] = ()) -> list[str]:
    """Return the command that runs a main class of the judge's program, built if need be.

    ``heap`` is the JVM's -Xmx; ``properties`` are further JVM arguments.
    """
    jars = find_jars()
    classes = build(jars)
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    return [
        find_tool("java"),
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        *opens,
        "-Djdk.reflect.useDirectMethodHandle=false",
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        *properties,
        "-cp",
        f"{classes}{os.pathsep}{jars}/*",
        f"podtide.judge.{main}",
    ]


def judge_command(kind: str, *, brief: bool = False) -> list[str]:
    """Return the command that runs the judge for a kind; its arguments are to follow.

    ``brief``: for a few scenarios. The JVM then compiles quickly rather than well, which takes half the CPU time.
    """
    trapped = kind == "store" and _version(find_tool("java"))[0] in TRAP_OFFERED
    properties = [
        *(["-Djava.security.manager=allow"] if trapped else []),
        *(["-XX:TieredStopAtLevel=1"] if brief else []),
    ]
    return [*java_command("Judge", properties=tuple(properties)), "--kind", kind]


class Judge:
    """One JVM with real Spark in it, for scenarios of one kind.

    A line that holds ``conf`` opens a new scenario; scenarios follow each other. In a table of pods every line is a
    row.
    """

    def __init__(self, kind: str = "eam", *, brief: bool = False) -> None:
        self._command = judge_command(kind, brief=brief)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Judge:
        self._process = subprocess.Popen(
            [*self._command, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            bufsize=1 << 16,
        )
        return self

    def __exit__(self, *exc: object) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def ask(self, line: str) -> list[str]:
        """Send one line of a scenario (without newline); return Spark's output lines (without newline)."""
        return self.ask_all([line])[0]

    def ask_all(self, lines: list[str]) -> list[list[str]]:
        """Send lines in one go and return the answers to each; some dozens at most, or the pipes fill up."""
        stdin, stdout = self._pipes()
        try:
            stdin.write("".join(line + "\n" for line in lines))
            stdin.flush()
        except BrokenPipeError as broken:
            raise JudgeDiedError("the judge's JVM ended before the line could be sent") from broken
        answered: list[list[str]] = []
        for line in lines:
            answers: list[str] = []
            while (answer := stdout.readline()) != ".\n":
                if not answer:
                    raise JudgeDiedError(f"the judge's JVM ended on the line {line[:200]}")
                answers.append(answer.rstrip("\n"))
            answered.append(answers)
        return answered

    def send(self, line: dict[str, Any]) -> list[dict[str, Any]]:
        """Send one line of a scenario as an object; return Spark's output objects."""
        return [json.loads(answer) for answer in self.ask(json.dumps(line, separators=(",", ":")))]

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise JudgeDiedError("the judge is not running: use `with Judge() as judge:`")
        return self._process.stdin, self._process.stdout


def main() -> int:
    """Answer the scenario files of the command line."""
    parser = argparse.ArgumentParser(description="What real Spark answers: X.jsonl[.gz] -> X.out.jsonl[.gz]")
    parser.add_argument("--kind", choices=KINDS, default="eam", help="kind of the scenarios (eam)")
    parser.add_argument("--out", type=Path, help="folder for the answers (else beside the scenarios)")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="scenario files, or folders of them")
    arguments = parser.parse_args()
    out = [] if arguments.out is None else ["--out", str(arguments.out)]
    try:
        return subprocess.run([*judge_command(arguments.kind), *out, *arguments.paths], check=False).returncode
    except JudgeUnavailableError as missing:
        print(f"judge: {missing}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
