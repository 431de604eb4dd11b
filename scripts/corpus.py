"""Record what many podtide commands print and write, and compare two such records byte for byte.

A change that moves or renames code and changes no behaviour has to leave every output as it was. Tests look at chosen
parts of outputs; this program looks at all of them, of about 1,100 command lines::

    python scripts/corpus.py record --checkout OLD --out before --shared ../shared
    python scripts/corpus.py record --checkout NEW --out after --shared ../shared
    python scripts/corpus.py compare before after

``record`` runs each command line of the corpus with ``podtide`` of the checkout's own virtual environment. It stores
the command line, standard output, standard error, the exit code and every file that the command wrote: one folder for
each command, named after its command line. ``compare`` prints one line for each command that differs, with the first
line that is not the same, and a count; its exit code is 1 if anything differs. Both take ``--only`` with a part of a
command line or of a name. The program needs podtide's development environment (pyarrow, zstandard).

Two records of the same code must be equal wherever they are made. So outputs must not depend on:

- *Places.* Each command runs in a new, empty folder of its own. Links in it lead to the inputs under fixed names:
  ``demo`` and ``scenarios`` (of the checkout), ``public``, ``truth`` and ``spark`` (of the shared material), ``made``
  (files that this program writes) and ``recorded`` (files that earlier commands of the corpus wrote). So every path on
  a command line is relative and always the same, and lines wrap alike. Inputs that move within a checkout keep their
  names here. Whatever else is in the folder afterwards was written by the command. Absolute paths that are printed all
  the same are replaced.
- *The environment.* A command gets the variables of ``environment`` and no others; they fix hash order, time zone,
  terminal and user. Standard input is empty unless the command names a file for it.
- *Compression.* Compressed files are stored as what they hold, Parquet as its columns and rows.
- *Clocks.* ``NORMALISED`` is the whole list of what is replaced, each with its reason.

A command that reads what another one wrote (a recording, decisions, a fitted cluster) names that file under
``recorded/``; the other one runs before it, also with ``--only``.

Left out, because two runs of the same code differ: a live ``run`` (clock, thread order, random back-off; its refusals
are in), ``fleet --progress`` (a line every ten seconds), interrupts and closed pipes. Left out, because they need more
than this machine: ``fleet --engine spark`` (Java), and what needs an API server (``run``, ``stop`` that deletes,
``pod --dry-run server`` that succeeds). The tests hold these.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import zstandard
from corpus_commands import CHECKOUT_INPUTS, SHARED_INPUTS, Command, corpus
from corpus_inputs import digest, make_inputs, unpacked, write

TIMEOUT_S: Final = 600


def environment(checkout: Path, home: Path) -> dict[str, str]:
    """The variables that a command gets: nothing of the caller's but the search path."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SPARK_USER": "somebody",
        "PYTHONPATH": str(checkout / ".typing"),
        "PYTHONHASHSEED": "0",
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }


# ------------------------------------------------------------------------------------------------------- normalisations


class Normalised(NamedTuple):
    """What is replaced in outputs, and why. ``commands``, ``parts``: patterns of command lines and of parts' names."""

    commands: str
    parts: str
    pattern: str
    replacement: str
    why: str


NORMALISED: Final = (
    Normalised(
        r"fleet", r"stdout", r'(?m)^"took_s": [0-9.]+,$', r'"took_s": $SECONDS,', "how long the whole fleet took"
    ),
    Normalised(
        r"fleet",
        r".*\.csv",
        r"(?m),[0-9.]+(,[^,\n]*,[0-9]*,[^,\n]*,[^,\n]*)$",
        r",$SECONDS\1",
        "the column seconds: how long the row took",
    ),
    Normalised(r"run", r"stdout", r"(?m)^[0-9-]+T[0-9:.]+Z ", r"$TIME ", "the clock at the beginning of a live line"),
    Normalised(r"run", r"stdout", r"(got no answer), .*", r"\1, $AGO", "how long ago that was"),
)
"""Besides these: the column ``seconds`` of a Parquet table, and the paths of the checkout, of the shared material and
of the command's own folder, wherever they stand."""


# ------------------------------------------------------------------------------------------------------------ recording


@dataclass(frozen=True)
class Surroundings:
    """Where a record is made: the checkout, the shared material, a temporary folder, and where outputs go."""

    checkout: Path
    shared: Path
    work: Path
    out: Path

    def links(self) -> dict[str, Path]:
        """What every command finds in its folder."""
        return {
            **{name: self.checkout / place for name, place in CHECKOUT_INPUTS.items()},
            **{name: self.shared / place for name, place in SHARED_INPUTS.items()},
            **{name: self.work / name for name in ("made", "recorded")},
        }


def record(where: Surroundings, commands: Sequence[Command], jobs: int) -> None:
    """Run the commands, those first that others need, and store what they print and write."""
    for name in ("made", "recorded"):
        (where.work / name).mkdir()
    make_inputs(where.work / "made", where.checkout, where.shared)
    inputs = digest(where.work / "made")
    begun, taken = time.monotonic(), list[tuple[float, str]]()
    with ThreadPoolExecutor(jobs) as pool:
        for wave in waves(commands):
            for command, seconds in zip(wave, pool.map(lambda one: run(one, where), wave), strict=True):
                taken.append((seconds, command.described))
                if len(taken) % 50 == 0:
                    so_far = time.monotonic() - begun
                    print(f"{len(taken)} of {len(commands)} commands, {so_far:.0f} s", file=sys.stderr)
    assert digest(where.work / "made") == inputs, "a command changed the inputs of the others"
    print(f"{len(taken)} commands in {time.monotonic() - begun:.0f} s; those that took longest:", file=sys.stderr)
    for seconds, line in sorted(taken, reverse=True)[:8]:
        print(f"{seconds:6.1f} s  {line[:110]}", file=sys.stderr)


def waves(commands: Sequence[Command]) -> Iterator[list[Command]]:
    """The commands in groups, each of which needs only what those before it wrote."""
    ready, left = set[str](), list(commands)
    while left:
        wave = [command for command in left if command.needs <= ready]
        assert wave, f"nothing writes what these read: {[command.line for command in left]}"
        yield wave
        ready |= {kept.name for command in wave for kept in command.kept}
        left = [command for command in left if command not in wave]


def chosen(commands: Sequence[Command], part: str) -> list[Command]:
    """The commands whose line or name has this part, and those that write what they need."""
    writers = {kept.name: command for command in commands for kept in command.kept}
    wanted = {command for command in commands if part in command.described or part in command.name}
    while missing := {writers[name] for command in wanted for name in command.needs} - wanted:
        wanted |= missing
    return [command for command in commands if command in wanted]


def run(command: Command, where: Surroundings) -> float:
    """Run a command in a folder of its own and store everything; how long it took, in seconds."""
    folder = where.work / "at" / command.name
    folder.mkdir(parents=True)
    links = where.links()
    for name, target in links.items():
        (folder / name).symlink_to(target)
    program = [str(where.checkout / ".venv" / "bin" / "podtide"), *shlex.split(command.line)]
    variables = {**environment(where.checkout, folder), **dict(command.env)}
    given = folder / command.stdin
    begun = time.monotonic()
    # A file is missing where the command that should have written it failed; then both differ, and the record goes on.
    with (given if given.is_file() else Path(os.devnull)).open("rb") as stdin:
        try:
            ended = subprocess.run(
                program, stdin=stdin, capture_output=True, cwd=folder, env=variables, timeout=TIMEOUT_S, check=False
            )
            parts = {"stdout": ended.stdout, "stderr": ended.stderr, "exit": f"{ended.returncode}\n".encode()}
        except subprocess.TimeoutExpired:
            parts = {"exit": f"not over after {TIMEOUT_S} s\n".encode()}
    seconds = time.monotonic() - begun
    for kept in command.kept:
        if (folder / kept.file).is_file():
            (where.work / "recorded" / kept.name).write_bytes(kept.change((folder / kept.file).read_bytes()))
    written = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    for name, path in written.items():
        if name.partition("/")[0] not in links:
            stored, data = shown(name, path.read_bytes())
            parts[f"files/{stored}"] = data
    places = {folder: "$HERE", where.work: "$WORK", where.checkout: "$CHECKOUT", where.shared: "$SHARED"}
    write(where.out / command.name / "command", f"{command.described}\n".encode())
    for part, data in parts.items():
        write(where.out / command.name / part, normalised(command, part, data, places))
    shutil.rmtree(folder)
    return seconds


def shown(name: str, data: bytes) -> tuple[str, bytes]:
    """A written file as it is stored: its name and what it holds, without compression."""
    if data.startswith(zstandard.FRAME_HEADER):
        return f"{name}.unpacked", unpacked(data)
    if data.startswith(b"PAR1"):
        return f"{name}.rows", parquet_rows(data)
    return name, data


def parquet_rows(data: bytes) -> bytes:
    """A Parquet table as lines: its columns with their types, then its rows, without what the clock says."""
    import pyarrow  # noqa: PLC0415 - not everybody has it, and few commands need it
    import pyarrow.parquet  # noqa: PLC0415 - the same

    table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
    columns = [f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in table.schema]
    rows = ({**row, "seconds": "$SECONDS"} for row in table.to_pylist())
    return "\n".join([*columns, *(json.dumps(row, default=str) for row in rows), ""]).encode()


def normalised(command: Command, part: str, data: bytes, places: Mapping[Path, str]) -> bytes:
    """An output without places and clock times. The inner places come first."""
    for place, name in places.items():
        data = data.replace(bytes(place), name.encode())
    for rule in NORMALISED:
        if re.match(rule.commands, command.line) and re.fullmatch(rule.parts, part):
            data = re.sub(rule.pattern.encode(), rule.replacement.encode(), data)
    return data


# ------------------------------------------------------------------------------------------------------------ comparing


def compared(before: Path, after: Path, part: str) -> list[str]:
    """The names of the commands of both records whose line or name has this part."""
    lines_of = {
        place.parent.name: place.read_text(encoding="utf-8")
        for folder in (before, after)
        for place in folder.glob("*/command")
    }
    return sorted(name for name, line in lines_of.items() if part in line or part in name)


def compare(before: Path, after: Path, names: Sequence[str]) -> int:
    """Print a line for each of the commands that differs, and a count; how many they are."""
    found = 0
    for name in names:
        if different := difference(before / name, after / name):
            found += 1
            print(f"{name}: {different}")
    print(f"{found} of {len(names)} commands differ" if found else f"{len(names)} commands, no difference")
    return found


def difference(before: Path, after: Path) -> str:
    """What differs between two records of a command, and how it begins; empty if nothing does."""
    for folder in (before, after):
        if not folder.is_dir():
            return f"is not in {folder.parent}"
    parts = sorted({str(path.relative_to(folder)) for folder in (before, after) for path in _files(folder)}, key=_rank)
    told = list[str]()
    for part in parts:
        one, other = (_content(folder / part) for folder in (before, after))
        if one != other:
            told.append(f"{part} {first_difference(one, other)}" if not told else part)
    return "; also ".join([told[0], ", ".join(told[1:])]) if len(told) > 1 else "".join(told)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _rank(part: str) -> tuple[int, str]:
    """What says most comes first."""
    order = ("command", "exit", "stderr", "stdout")
    return (order.index(part) if part in order else len(order), part)


def _content(place: Path) -> bytes | None:
    return place.read_bytes() if place.is_file() else None


def first_difference(one: bytes | None, other: bytes | None, width: int = 100) -> str:
    """The first line that two texts do not share, around the place where it differs."""
    if one is None or other is None:
        return "is new" if one is None else "is missing"
    for number, (mine, yours) in enumerate(zip(one.split(b"\n"), other.split(b"\n"), strict=False), 1):
        if mine != yours:
            differ = (place for place, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b)
            at = next(differ, min(len(mine), len(yours)))
            start = max(0, at - width // 2)
            parts = (line[start : start + width].decode(errors="backslashreplace") for line in (mine, yours))
            return f"line {number}, column {at + 1}: {' -> '.join(map(repr, parts))}"
    shorter = min(one.count(b"\n"), other.count(b"\n"))
    return f"line {shorter + 1}: {'more' if len(other) > len(one) else 'fewer'} lines"


# --------------------------------------------------------------------------------------------------------- command line


def main() -> int:
    """Record or compare; 1 if something differs, 2 if that cannot be done."""
    parser = argparse.ArgumentParser(description="Record what many podtide commands print, and compare two records.")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run every command and store what it prints and writes")
    recording.add_argument("--checkout", type=Path, required=True, help="a checkout of podtide with its .venv")
    recording.add_argument("--out", type=Path, required=True, help="the folder to write; new, or empty")
    recording.add_argument("--shared", type=Path, help="the shared material (default: ../shared of the checkout)")
    recording.add_argument("--jobs", type=int, default=2, help="commands side by side (default %(default)s)")
    comparing = commands.add_parser("compare", help="print what differs between two records")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    for one in (recording, comparing):
        one.add_argument("--only", default="", metavar="SUBSTRING", help="commands with this in their line or name")
    given = parser.parse_args()
    if given.command == "compare":
        if absent := [folder for folder in (given.before, given.after) if not folder.is_dir()]:
            parser.error(f"no such folder: {absent[0]}")
        names = compared(given.before, given.after, given.only)
        if not names:
            parser.error("no command to compare")
        return 1 if compare(given.before, given.after, names) else 0
    checkout = given.checkout.resolve()
    shared = (given.shared or checkout.parent / "shared").resolve()
    if not (checkout / ".venv" / "bin" / "podtide").is_file():
        parser.error(f"{checkout} has no .venv/bin/podtide: make .venv/.installed there")
    if not (shared / SHARED_INPUTS["public"]).is_dir():
        parser.error(f"{shared} is not the shared material: give --shared")
    if given.out.exists() and any(given.out.iterdir()):
        parser.error(f"{given.out} is not empty")
    if not (wanted := chosen(corpus(shared), given.only)):
        parser.error(f"no command has {given.only!r} in its line or name")
    with tempfile.TemporaryDirectory(prefix="podtide-corpus-") as work:
        record(Surroundings(checkout, shared, Path(work).resolve(), given.out.resolve()), wanted, given.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
