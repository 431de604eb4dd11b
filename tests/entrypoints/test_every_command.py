"""What every command promises: help, safe texts, terminals of any kind, readers that leave, disks that are full, Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from podtide.adapters.recording.reader import Recording
from podtide.entrypoints import cli
from tests.support.commands import answer, program, ran
from tests.support.project import DEMO, environment
from tests.support.recordings import calm, rewritten, stormy
from tests.support.whatif_log import STATIC, write_log

HOSTILE = "\x1b[31m[bold]x[/bold]\x07\u202eevil\nsecond line\U0001f600\u0301"

needs_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the arguments below name: a log, recordings, and each with names that would steer a terminal."""
    folder = tmp_path_factory.mktemp("files")
    made = {"LOG": write_log(folder / "log"), "DEMO": DEMO}
    made["RECORDING"] = stormy(folder / "stormy.jsonl")
    made["EVIL"] = write_log(folder / "evil", {**STATIC, "spark.x": HOSTILE}, name=HOSTILE)
    text = made["EVIL"].read_text().replace('"Executor ID": "2"', f'"Executor ID": {json.dumps(HOSTILE)}')
    made["EVIL"].write_text(text)
    made["EVIL-RECORDING"] = rewritten(calm(folder / "evil.jsonl"), _spoil)
    return made


def _spoil(listed: list[Any]) -> None:
    listed[0]["app_id"] = HOSTILE
    listed[0]["conf"][f"spark.executor.x{HOSTILE}"] = HOSTILE
    for line in listed:
        for one in line.get("stimuli", ()):
            for pod in one.get("pods", ()):
                if isinstance(pod, dict) and "node" in pod:
                    pod["node"] = HOSTILE
            if one["stimulus"] == "RegisterExecutor":
                one["host"] = HOSTILE


def call(text: str, files: dict[str, Path]) -> list[str]:
    """Arguments in one text; words in capitals are files."""
    return [str(files.get(word, word)) for word in text.split()]


# ----------------------------------------------------------------------------------------------------------- the usage


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_names_every_option(name: str) -> None:
    command = cli.podtide.get_command(click.Context(cli.podtide), name)
    assert command is not None
    shown = answer(name, "--help")
    assert shown.code == 0
    for option in (opt for param in command.params if isinstance(param, click.Option) for opt in param.opts):
        assert option in shown.out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_an_unknown_option_is_refused_with_2(name: str) -> None:
    given = answer(name, "--no-such-option")
    assert (given.code, given.out) == (2, "")
    assert "No such option '--no-such-option'" in given.err


CONFIGURED = [
    "replay LOG", "replay RECORDING --check", "whatif LOG", "tune LOG --budget 1 --seeds 1", "simulate --duration 1s",
    "conf --all", "pod --conf spark.kubernetes.container.image=i",
]  # fmt: skip


@pytest.mark.parametrize("text", [*CONFIGURED, "conf --json --all", "simulate --duration 1s --json"])
def test_secrets_are_not_shown(files: dict[str, Path], text: str) -> None:
    secret = ("--conf", "spark.my.password=hunter2", "--conf", "spark.my.url=jdbc:x?password=hunter2")
    given = answer(*call(text, files), *secret)
    assert given.code in (0, 2)
    assert "hunter2" not in given.out + given.err


@pytest.mark.parametrize("text", CONFIGURED)
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--conf", "nonsense"), "nonsense"),
        (("--properties-file", "/nowhere/my.conf"), "/nowhere/my.conf"),
    ],
    ids=["no setting", "no file"],
)
def test_a_configuration_that_cannot_be_used_is_named(
    files: dict[str, Path], text: str, arguments: tuple[str, ...], told: str
) -> None:
    given = answer(*call(text, files), *arguments)
    assert given.code in (2, 3)
    assert told in given.err
    assert "Traceback" not in given.err


@pytest.mark.parametrize(
    "content", [None, b"", b"hello\n", b'{"podtide":1,"kind":"simulation"}\n', b'{"podtide":1,"ki'], ids=repr
)
@pytest.mark.parametrize("text", ["replay FILE --check", "explain FILE --executor 1", "fit FILE --out OUT"])
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, text: str, content: bytes | None) -> None:
    path, out = tmp_path / "some\x1b[31mfile", tmp_path / "out"
    if content is not None:
        path.write_bytes(content)
    given = answer(*call(text, {"FILE": path, "OUT": out}))
    assert (given.code, given.out) == (3, "")
    assert given.err.startswith(f"podtide: {tmp_path}/some\\x1b[31mfile")
    assert len(given.err.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("text", ["replay FILE --check", "explain FILE --executor 1", "fit FILE"])
def test_a_damaged_line_of_a_recording_is_named(files: dict[str, Path], tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.jsonl"
    lines = files["RECORDING"].read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:30], b"{broken\n", *lines[31:]]))
    given = answer(*call(text, {"FILE": path}))
    assert (given.code, given.out) == (3, "")
    assert f"{path}:31: " in given.err


# ----------------------------------------------------------------------------------------------- terminals and screens

PAGES = [
    "replay DEMO", "replay DEMO --all", "replay RECORDING", "replay RECORDING --all",
    "replay RECORDING --check --conf spark.kubernetes.allocation.batch.size=2", "explain RECORDING --executor 1",
    "explain RECORDING --at +0.9", "whatif LOG --static 4 --seeds 1", "diff LOG --candidate spark.executor.instances=4",
    "simulate --schedule 0:30,60:33 --conf spark.kubernetes.allocation.batch.size=1",
    "simulate --schedule 0:5,60:2 --conf spark.master=yarn",
]  # fmt: skip


@pytest.mark.parametrize("columns", [20, 45, 80, 200])
@pytest.mark.parametrize("text", PAGES)
def test_no_line_is_wider_than_the_terminal(files: dict[str, Path], text: str, columns: int) -> None:
    shown = answer(*call(text, files), columns=columns).out.splitlines()
    assert max(map(len, shown)) <= columns
    assert not [line for line in shown if line != line.rstrip()]


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("replay DEMO", "target 1 -> 2"),
        ("replay RECORDING", "target 0 -> 20"),
        ("explain RECORDING --executor 1", ""),
        ("whatif LOG --static 4 --seeds 1", ""),
        ("simulate --schedule 0:30,60:2", "0 -> 30"),
    ],
)
def test_a_terminal_without_unicode_gets_ascii(files: dict[str, Path], text: str, sign: str) -> None:
    given = ran(*call(text, files), env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert given.code == 0
    assert given.out.isascii()
    assert sign in given.out


def test_a_pipe_gets_neither_colours_nor_progress() -> None:
    given = ran("replay", DEMO)
    assert given.err == ""
    assert "\x1b" not in given.out
    assert given.out == answer("replay", DEMO).out


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=str)
def test_colours_come_and_go_as_the_environment_asks(environment: dict[str, str], coloured: bool) -> None:
    given = ran("replay", DEMO, env={"FORCE_COLOR": "1", "TERM": "xterm", **environment})
    assert ("\x1b[32m" in given.out) is coloured


@pytest.mark.parametrize(
    "text",
    [
        "replay EVIL", "replay EVIL --all", "replay EVIL --decisions -", "replay EVIL-RECORDING",
        "replay EVIL-RECORDING --check", "explain EVIL-RECORDING --executor 1", "explain EVIL-RECORDING --executor EVIL-ID",
        "whatif EVIL --static 3 --seeds 1", "diff EVIL --candidate spark.executor.instances=3 --seeds 1",
        "tune EVIL --budget 2 --seeds 1", "conf --all --conf EVIL-PAIR", "simulate --duration 5s --conf EVIL-PAIR",
        "pod --conf spark.kubernetes.container.image=i --conf EVIL-PAIR",
        "pod --conf spark.kubernetes.container.image=i --conf EVIL-PAIR --format json", "replay EVIL-ID",
    ],
)  # fmt: skip
def test_no_text_of_a_stranger_steers_the_terminal(files: dict[str, Path], text: str) -> None:
    evil: dict[str, Any] = {"EVIL-PAIR": f"spark.executorEnv.X{HOSTILE}={HOSTILE}", "EVIL-ID": HOSTILE}
    given = answer(*call(text, files | evil))
    signs = set(given.out + given.err) - {"\n", "\t"}
    assert sorted(sign for sign in signs if not sign.isprintable()) == []


# ------------------------------------------------------------------------------------- readers, disks and interruptions

OUTPUTS = [
    "replay DEMO", "replay DEMO --json", "replay DEMO --all", "replay DEMO --decisions -", "replay RECORDING --json",
    "replay RECORDING --all", "replay RECORDING --decisions -", "explain RECORDING --executor 1", "fit RECORDING",
    "whatif LOG --static 2 --seeds 1", "conf --all", "simulate --schedule 0:100 --duration 3m",
    "simulate --schedule 0:100 --json", "simulate --schedule 0:100 --record -", "simulate --schedule 0:100 --spark-log -",
]  # fmt: skip


@pytest.mark.parametrize("text", OUTPUTS)
def test_a_reader_that_has_gone_is_no_error(files: dict[str, Path], text: str) -> None:
    with program(call(text, files), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (0, b"")


@needs_full_device
@pytest.mark.parametrize("text", [*OUTPUTS, "simulate --schedule 0:5 --record /dev/full --overwrite"])
def test_a_full_disk_is_told_in_one_line(files: dict[str, Path], text: str) -> None:
    with (
        Path("/dev/full").open("wb") as full,
        program(call(text, files), stdout=full, stderr=subprocess.PIPE) as process,
    ):
        assert process.stderr is not None
        complaint = process.stderr.read().decode()
    assert process.returncode == 2
    assert len(complaint.splitlines()) == 1
    assert "No space left on device" in complaint


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("replay - --decisions OUT --overwrite", "LOG"),
        ("replay - --decisions OUT --overwrite", "RECORDING"),
        ("simulate --schedule 0:100000 --record OUT --overwrite --spark-log LINES", None),
    ],
    ids=["log", "recording", "simulation"],
)
def test_an_interrupt_leaves_nothing_half_written(
    files: dict[str, Path], tmp_path: Path, text: str, source: str | None, number: signal.Signals
) -> None:
    kept = tmp_path / "kept.jsonl"
    kept.write_text("as it was")
    arguments = call(text, {"OUT": kept, "LINES": tmp_path / "lines"})
    with program(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(files[source].read_bytes()[:20_000] if source else b"")
        process.stdin.flush()
        while len(list(tmp_path.iterdir())) < 2:  # what is being written stands beside its place
            assert process.poll() is None
        process.send_signal(number)
        told, complaint = process.communicate(timeout=60)
    assert (process.returncode, told) == (128 + number, b"")
    assert b"Traceback" not in complaint
    assert list(tmp_path.iterdir()) == [kept]
    assert kept.read_text() == "as it was"


SWALLOWED = """
import click, signal, sys, types
from contextlib import suppress
from podtide.adapters.recording.records.decision_file import DecisionWriter
from podtide.entrypoints import cli

path, number, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]

class Finalized:
    def __del__(self):
        signal.raise_signal(number)  # the handler runs here, and Python drops what it raises

@click.command()
def writing():
    with DecisionWriter(path) as writer:
        if place == "finalizer":
            Finalized()
            sys.stdin.buffer.read()  # nobody writes
        else:
            with suppress(BaseException):
                signal.raise_signal(number)
        writer.commit()

sys.modules["writing"] = types.SimpleNamespace(writing=writing)
cli.COMMANDS["writing"] = ("writing", "")
cli.main(["writing"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["finalizer", "suppress"])
def test_an_interrupt_whose_exception_is_swallowed_ends_the_command_all_the_same(
    tmp_path: Path, place: str, number: signal.Signals
) -> None:
    kept, pipe = tmp_path / "kept.jsonl", subprocess.PIPE
    kept.write_text("as it was")
    arguments = [sys.executable, "-c", SWALLOWED, str(kept), str(int(number)), place]
    with subprocess.Popen(arguments, env=environment(), stdin=pipe, stderr=pipe) as process:
        assert process.stderr is not None
        complaint = process.stderr.read()  # standard input stays open meanwhile
    assert process.returncode == 128 + number
    assert complaint == (b"interrupted\n" if number == signal.SIGINT else b"")
    assert list(tmp_path.iterdir()) == [kept]
    assert (kept.read_text() == "as it was") is (place == "finalizer")  # otherwise it was finished: never half of it


def test_a_reader_that_has_gone_costs_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    arguments = ["simulate", "--schedule", "0:5", "--record", str(path)]
    with program(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=60)
    with Recording(str(path)) as recording:
        assert sum(1 for _ in recording) > 10
        assert recording.cut is None
