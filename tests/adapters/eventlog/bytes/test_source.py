"""What a path may mean: files, pipes, folders, ZIPs and URLs, and one clear line for everything that is no log."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import json
import os
import socket
import struct
import sys
import tempfile
import threading
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest
import zstandard

from podtide.adapters.eventlog.bytes import errors, zip_store
from podtide.adapters.eventlog.bytes.codecs import Codec
from podtide.adapters.eventlog.bytes.lines import Chunk, FaultKind, LineFault
from podtide.adapters.eventlog.bytes.reader import LogSource
from podtide.adapters.eventlog.bytes.rolled import Entry, rolled
from podtide.adapters.eventlog.bytes.source import open_log
from podtide.adapters.text import safe as log_errors
from tests.support.project import SHARED

APP = "app-20240101-0001"


def event(number: int) -> bytes:
    return b'{"Event":"SparkListenerTaskEnd","n":%d}\n' % number


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def write(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def text_of(source: LogSource) -> bytes:
    with source:
        return b"".join(piece.data for piece in source.pieces() if isinstance(piece, Chunk))


def faults_of(source: LogSource) -> list[LineFault]:
    with source:
        return [piece for piece in source.pieces() if isinstance(piece, LineFault)]


def message_of(path: str) -> str:
    """What reading the log ends with: nothing, or the error's line."""
    try:
        text_of(open_log(path))
    except errors.LogError as refused:
        return str(refused)
    return ""


def roll(folder: Path, *names: str, status: str | None = f"appstatus_{APP}") -> str:
    """A rolled log whose file ``events_<n>`` holds event n (a compact one n + 100)."""
    for name in names:
        number = int(name.split("_")[1])
        data = event(number + 100 if name.endswith(".compact") else number)
        write(folder / name, zstd(data) if ".zstd" in name else data)
    if status:
        write(folder / status, b"")
    return str(folder)


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> str:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return str(path)


def zip_bytes(members: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


# --- files and pipes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "codec"),
    [
        (APP, event(1) + event(2), Codec.PLAIN),
        (f"{APP}.zstd", zstd(event(1)) + zstd(event(2)), Codec.ZSTD),
        ("log.json.gz", gzip.compress(event(1) + event(2), mtime=0), Codec.GZIP),
        ("misnamed.lz4", zstd(event(1) + event(2)), Codec.ZSTD),
        ("no suffix", gzip.compress(event(1) + event(2), mtime=0), Codec.GZIP),
        ("with!mark.zip!x", event(1) + event(2), Codec.PLAIN),
    ],
)
def test_a_file(tmp_path: Path, name: str, data: bytes, codec: Codec) -> None:
    path = write(tmp_path / name, data)
    source = open_log(path)
    assert (source.size, source.bytes_read, source.codecs) == (len(data), 0, ())
    assert text_of(source) == event(1) + event(2)
    assert (source.bytes_read, source.codecs, source.in_progress) == (len(data), (codec,), None)
    assert [file.name for file in source.files] == [path]
    assert text_of(source) == event(1) + event(2)  # once more from the start
    assert source.bytes_read == len(data)


@pytest.mark.parametrize("prefix", ["file:", "file://"])
def test_a_file_url_is_a_path(tmp_path: Path, prefix: str) -> None:
    assert text_of(open_log(prefix + write(tmp_path / "log", event(1)))) == event(1)


def test_an_unfinished_log_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / f"{APP}.inprogress", event(1) + event(2)[:9])
    source = open_log(path)
    first, last = source.pieces()
    assert source.in_progress is True
    assert first == Chunk(event(1), path, 1, 1)
    assert last == Chunk(event(2)[:9], path, 2, 1, unterminated=True)


def test_a_cut_frame_is_read_up_to_the_cut_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / f"{APP}.zstd", zstd(event(1)) + zstd(event(2))[:-3])
    assert list(open_log(path).pieces()) == [
        Chunk(event(1), path, 1, 1),
        LineFault(path, 1, FaultKind.CUT, "a zstd frame is cut off"),
    ]


def test_a_damaged_frame_is_an_error_after_what_came_before(tmp_path: Path) -> None:
    path = write(tmp_path / "log.zstd", zstd(event(1)) + b"????" + zstd(event(2)))
    pieces = open_log(path).pieces()
    assert next(pieces) == Chunk(event(1), path, 1, 1)
    with pytest.raises(errors.LogCorrupt) as damage:
        next(pieces)
    assert str(damage.value) == f"{path}: damaged at byte {len(zstd(event(1)))}: a zstd frame was expected"
    assert damage.value.path == path


def test_a_suffix_that_lies_is_noted(tmp_path: Path) -> None:
    source = open_log(write(tmp_path / "log.zstd", event(1)))
    assert text_of(source) == event(1)
    assert source.notes == (f"{source.name} is named like zstd but does not begin like it: read as text",)


def test_a_file_without_a_newline_needs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(256 << 20)
    tracemalloc.start()
    (fault,) = faults_of(open_log(str(path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fault.why == "a line of 268,435,456 bytes; at most 16,777,216 are read"
    assert peak < 80 << 20


@pytest.mark.parametrize("data", [event(1), zstd(event(1)), gzip.compress(event(1), mtime=0)])
def test_standard_input(data: bytes) -> None:
    source = open_log("-", stdin=io.BytesIO(data))
    assert (source.path, source.size) == ("-", None)
    assert list(source.pieces()) == [Chunk(event(1), "<stdin>", 1, 1)]
    with pytest.raises(errors.LogUnreadable, match="only once"):
        list(source.pieces())


@pytest.mark.parametrize(
    "data", [zstd(event(1)) + zstd(event(2)), gzip.compress(event(1), mtime=0), event(1) + event(2)]
)
def test_standard_input_cut_anywhere(data: bytes) -> None:
    for end in range(len(data)):
        try:
            with open_log("-", stdin=io.BytesIO(data[:end])) as source:
                pieces = list(source.pieces())
        except errors.LogEmpty:
            continue
        except errors.LogUndecodable as refused:  # two bytes of gzip's magic look like nothing
            pytest.fail(str(refused))
        assert pieces


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(event(1), mtime=0),))
    writer.start()
    source = open_log(str(path))
    assert text_of(source) == event(1)
    assert source.size is None
    writer.join()


def test_closing_early_closes_the_file(tmp_path: Path) -> None:
    source = open_log(write(tmp_path / "log", event(1) * 1000))
    with source:
        pieces = source.pieces(chunk_bytes=10)
        next(pieces)
    pieces.close()
    assert text_of(source) == event(1) * 1000


# --- what is no log --------------------------------------------------------------------------------------------------


def made(tmp_path: Path, what: str) -> str:
    makers: dict[str, Callable[[], str]] = {
        "missing": lambda: str(tmp_path / "nothing"),
        "below a file": lambda: write(tmp_path / "log", event(1)) + "/log",
        "empty": lambda: write(tmp_path / "log", b""),
        "empty so far": lambda: write(tmp_path / "log.inprogress", b""),
        "status": lambda: roll(tmp_path / f"eventlog_v2_{APP}", "events_1_a") + f"/appstatus_{APP}",
        "empty zstd": lambda: write(tmp_path / "log.zstd", zstd(b"")),
        "xz": lambda: write(tmp_path / "log.xz", b"\xfd7zXZ\0\0\4"),
        "tar": lambda: write(tmp_path / "log.tar", b"log".ljust(257, b"\0") + b"ustar\x0000" + bytes(248)),
        "folder of nothing": lambda: roll(tmp_path / "empty", status=".crc"),
        "folder of markers": lambda: write(tmp_path / "f" / "_SUCCESS", b"") and str(tmp_path / "f"),
        "rolled of nothing": lambda: roll(tmp_path / f"eventlog_v2_{APP}"),
        "rolled of empty files": lambda: write(tmp_path / "f/events_1_a", b"") and str(tmp_path / "f"),
        "other files": lambda: (write(tmp_path / "f/a", b"a"), write(tmp_path / "f/b", b"b"))[0][:-2],
        "no member": lambda: zipped(tmp_path / "a.zip", {"log": event(1)}) + "!other",
        "member of a file": lambda: write(tmp_path / "a.zip", event(1)) + "!log",
        "empty path": lambda: "",
        "nul": lambda: "a\0b",
        "cut zip": lambda: write(
            tmp_path / "a.zip", Path(zipped(tmp_path / "b.zip", {"l": event(1)})).read_bytes()[:-9]
        ),
    }
    return makers[what]()


@pytest.mark.parametrize(
    ("what", "error", "says"),
    [
        ("missing", errors.LogMissing, "there is no such file or folder"),
        ("below a file", errors.LogMissing, "there is no such file or folder"),
        ("empty", errors.LogEmpty, "is empty; an event log was expected"),
        ("empty so far", errors.LogEmpty, "is empty so far: its application is still running"),
        ("status", errors.LogEmpty, "the events lie beside it, give the folder"),
        ("empty zstd", errors.LogEmpty, "is empty; an event log was expected"),
        ("xz", errors.LogUndecodable, "is an xz file; an event log was expected"),
        ("tar", errors.LogUndecodable, "is a tar archive; an event log was expected"),
        ("folder of nothing", errors.LogNotFound, "no event log lies here"),
        ("folder of markers", errors.LogNotFound, "no event log lies here"),
        ("rolled of nothing", errors.LogNotFound, "events_<n>_<application> was expected in it"),
        ("rolled of empty files", errors.LogEmpty, "is empty; an event log was expected"),
        ("other files", errors.LogNotFound, "none of the 2 files here begins like an event log"),
        ("no member", errors.LogMissing, "there is no such member in the ZIP"),
        ("member of a file", errors.LogUndecodable, "is no ZIP, so nothing in it can be chosen with !"),
        ("empty path", errors.LogMissing, "the path is empty"),
        ("nul", errors.LogUnreadable, "it cannot be read"),
        ("cut zip", errors.LogCorrupt, "no table of contents at its end: it is cut off"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(
    tmp_path: Path, what: str, error: type[errors.LogError], says: str
) -> None:
    path = made(tmp_path, what)

    def read() -> None:
        list(open_log(path).pieces())

    with pytest.raises(error) as refused:
        read()
    message = str(refused.value)
    assert says in message
    assert message.isprintable()
    assert refused.value.path in (path, "''")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(errors.LogUnreadable, match="socket"):
            open_log("s")


class Refusing:
    """A file system call that refuses with the error given."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def __call__(self, *_: object, **__: object) -> object:
        raise self.problem


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "reading it is not permitted"),
        (OSError(errno.EIO, "Input/output error"), "it cannot be read: Input/output error"),
    ],
)
def test_what_the_system_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception, says: str
) -> None:
    path = write(tmp_path / "log", event(1))
    monkeypatch.setattr(Path, "open", Refusing(problem))
    with pytest.raises(errors.LogUnreadable, match=says):
        open_log(path)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("s3://key:secret@bucket/log", "s3://…@bucket/log"),
        ("https://h/log.zip?X-Amz-Signature=abc&b", "https://h/log.zip?…"),
        ("log?x=1", "log?x=1"),
        ("x" * 1000, "x" * 149 + "…" + "x" * 149),
    ],
)
def test_what_is_shown_of_a_path(path: str, shown: str) -> None:
    assert log_errors.display(path) == shown


# --- folders ---------------------------------------------------------------------------------------------------------


def test_rolled_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    path = roll(tmp_path / f"eventlog_v2_{APP}", *(f"events_{n}_{APP}.zstd" for n in (1, 2, 9, 10, 11, *range(3, 9))))
    source = open_log(path)
    assert text_of(source) == b"".join(map(event, range(1, 12)))
    assert (source.rolled, source.compacted, source.in_progress, source.gaps) == (True, False, False, ())
    assert source.size == source.bytes_read == sum(file.stat().st_size for file in Path(path).iterdir())
    assert source.codecs == (Codec.ZSTD,)


def test_line_numbers_start_anew_in_every_file(tmp_path: Path) -> None:
    path = roll(tmp_path / "e", f"events_1_{APP}", f"events_2_{APP}")
    pieces = list(open_log(path).pieces())
    assert [(Path(piece.file).name, piece.line) for piece in pieces] == [(f"events_{n}_{APP}", 1) for n in (1, 2)]


@pytest.mark.parametrize(
    ("names", "read", "gaps", "compacted"),
    [
        (["events_1_a", "events_2_a"], [1, 2], [], False),
        (["events_1_a", "events_2_a", "events_2_a.compact", "events_3_a"], [102, 3], [], True),
        (["events_1_a.compact", "events_4_a.zstd.compact", "events_5_a.zstd", "events_6_a"], [104, 5, 6], [], True),
        (["events_1_a", "events_4_a"], [1, 4], ["events_2 to events_3"], False),
        (["events_3_a"], [3], ["events_1 to events_2"], False),
        (["events_2_a.compact", "events_4_a"], [102, 4], ["events_3"], True),
        (["events_1_a_1", "events_2_a_1"], [1, 2], [], False),
        (["events_1_a", "events_999999999999999999_a"], [1, 999999999999999999],
         ["events_2 to events_999999999999999998"], False),
    ],
)  # fmt: skip
def test_compaction_and_gaps(
    tmp_path: Path, names: list[str], read: list[int], gaps: list[str], compacted: bool
) -> None:
    source = open_log(roll(tmp_path / "eventlog_v2_a", *names, status="appstatus_a"))
    assert text_of(source) == b"".join(map(event, read))
    assert [str(gap) for gap in source.gaps] == gaps
    assert source.compacted is compacted
    assert [fault.why for fault in faults_of(source)] == [
        f"{gap} missing: what happened in between is not known" for gap in gaps
    ]


@pytest.mark.parametrize(
    ("status", "in_progress"),
    [("appstatus_a", False), ("appstatus_a.inprogress", True), (None, None)],
)
def test_the_status_file_says_whether_it_has_ended(
    tmp_path: Path, status: str | None, in_progress: bool | None
) -> None:
    source = open_log(roll(tmp_path / "eventlog_v2_a", "events_1_a", status=status))
    assert source.in_progress is in_progress
    assert bool(source.notes) is (status is None)


def test_a_status_file_that_is_just_renamed_shows_twice(tmp_path: Path) -> None:
    path = roll(tmp_path / "eventlog_v2_a", "events_1_a", status="appstatus_a")
    write(Path(path) / "appstatus_a.inprogress", b"")
    assert open_log(path).in_progress is False


@pytest.mark.parametrize(
    "names", [["events_1_a", "events_1_a.zstd"], ["events_1_a", "events_2_b"], ["events_1_a", "events_1_b"]]
)
def test_files_that_exclude_each_other_are_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(errors.LogAmbiguous, match="exclude each other") as refused:
        open_log(roll(tmp_path / "eventlog_v2_a", *names))
    assert [Path(one).name for one in refused.value.candidates] == names


def test_what_a_compact_file_replaces_cannot_clash() -> None:
    log = rolled([Entry(name, 1) for name in ("events_1_a", "events_1_a.zstd", "events_2_a.compact", "events_3_a")])
    assert log is not None
    assert not log.clashes
    assert log.replaced == ("events_1_a", "events_1_a.zstd")


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (["eventlog", "eventlog-2026-11-23--10-00.gz", "eventlog-2026-11-23--09-00.gz"], [2, 1, 0]),
        (["eventlog-2026-12-31--23-50", "eventlog-2027-01-01--00-00", "eventlog.gz"], [0, 1, 2]),
        (["eventlog-2026-11-23--10-00"], [0]),
        (["eventlog", "notes", "eventlog-2026-11-23--10-00.gz"], [2, 0]),
    ],
)
def test_what_databricks_delivers_in_one_folder_is_one_log_by_date(
    tmp_path: Path, names: list[str], read: list[int]
) -> None:
    for number, name in enumerate(names):
        write(tmp_path / "a" / name, gzip.compress(event(number), mtime=0) if name.endswith(".gz") else event(number))
    source = open_log(str(tmp_path / "a"))
    assert text_of(source) == b"".join(map(event, read))
    assert (source.rolled, source.in_progress, source.notes) == (True, None, ())
    assert text_of(open_log(zipped(tmp_path / "a.zip", {f"a/{names[0]}": event(0)}))) == event(0)


def test_two_parts_of_one_date_are_refused(tmp_path: Path) -> None:
    names = ["eventlog-2026-11-23--10-00", "eventlog-2026-11-23--10-00.gz"]
    for name in names:
        write(tmp_path / name, event(1))
    with pytest.raises(errors.LogAmbiguous, match="exclude each other") as refused:
        open_log(str(tmp_path))
    assert [Path(one).name for one in refused.value.candidates] == names


def test_an_unfinished_rolled_log_may_end_in_an_empty_file(tmp_path: Path) -> None:
    path = roll(tmp_path / "eventlog_v2_a", "events_1_a", status="appstatus_a.inprogress")
    write(Path(path) / "events_2_a", b"")
    assert text_of(open_log(path)) == event(1)


def test_a_cut_in_the_middle_of_a_rolled_log_is_named_and_the_rest_read(tmp_path: Path) -> None:
    path = roll(tmp_path / "eventlog_v2_a", "events_1_a.zstd", "events_2_a.zstd")
    write(Path(path) / "events_1_a.zstd", zstd(event(1)) + zstd(event(7))[:-1])
    pieces = list(open_log(path).pieces())
    assert [getattr(piece, "kind", None) for piece in pieces] == [None, FaultKind.CUT, None]


def test_damage_in_a_rolled_log_names_the_log_and_the_file(tmp_path: Path) -> None:
    path = roll(tmp_path / "eventlog_v2_a", "events_1_a.zstd", "events_2_a.zstd")
    write(Path(path) / "events_2_a.zstd", zstd(event(1)) + b"????")
    with pytest.raises(errors.LogCorrupt) as damage:
        list(open_log(path).pieces())
    assert damage.value.path == path
    assert damage.value.file == f"{path}/events_2_a.zstd"
    assert f"{path}: {path}/events_2_a.zstd: damaged at byte" in str(damage.value)


def test_one_file_of_a_rolled_log_is_read_and_noted(tmp_path: Path) -> None:
    path = roll(tmp_path / "eventlog_v2_a", "events_1_a", "events_2_a")
    source = open_log(f"{path}/events_2_a")
    assert text_of(source) == event(2)
    assert source.notes == ("this is one part of a log of several files; its folder holds the whole",)


def test_a_folder_around_one_log_is_that_log(tmp_path: Path) -> None:
    roll(tmp_path / "eventlog_v2_a", "events_1_a")
    write(tmp_path / ".eventlog_v2_a.crc", b"crc")
    assert text_of(open_log(str(tmp_path))) == event(1)


@pytest.mark.parametrize("data", [event(1), zstd(event(1)), b"\xef\xbb\xbf " + event(1)])
def test_of_several_files_the_one_that_begins_like_a_log_is_read(tmp_path: Path, data: bytes) -> None:
    write(tmp_path / "log", data)
    write(tmp_path / "manifest.json", b'{"conf": {}}')
    write(tmp_path / "driver.log.gz", gzip.compress(b"INFO started"))
    write(tmp_path / "notes.tar", b"n".ljust(257, b"\0") + b"ustar")
    assert text_of(open_log(str(tmp_path))).lstrip() == event(1)


def test_several_logs_are_named(tmp_path: Path) -> None:
    roll(tmp_path / "eventlog_v2_a", "events_1_a")
    for number in range(12):
        write(tmp_path / f"b{number:02}", event(number))
    with pytest.raises(errors.LogAmbiguous, match="several logs lie here, give one of them: ") as refused:
        open_log(str(tmp_path))
    assert refused.value.candidates == (
        *(str(tmp_path / f"b{number:02}") for number in range(12)),
        str(tmp_path / "eventlog_v2_a"),
    )
    assert str(refused.value).endswith(" and 3 more")


# --- ZIP -------------------------------------------------------------------------------------------------------------

ROLLED_MEMBERS = {
    "eventlog_v2_a/": b"",
    "eventlog_v2_a/events_2_a.zstd": zstd(event(2)),
    "eventlog_v2_a/events_1_a.zstd": zstd(event(1)),
    "eventlog_v2_a/appstatus_a": b"",
}


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"app-1": event(1)}, event(1)),
        ({"app-1.zstd": zstd(event(1))}, event(1)),
        (ROLLED_MEMBERS, event(1) + event(2)),
        ({"events_1_a": event(1), "appstatus_a": b""}, event(1)),
        ({"logs/deep/app-1": event(1), "__MACOSX/logs/._app-1": b"x", "logs/.crc": b"x"}, event(1)),
        ({"app-1": event(1), "README": b"read me"}, event(1)),
    ],
)
@pytest.mark.parametrize("way", ["file", "stdin", "pipe"])
def test_the_zip_of_a_history_server(
    tmp_path: Path, members: dict[str, bytes], text: bytes, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zipped(tmp_path / "eventLogs-a.zip", members)
    data = Path(path).read_bytes()
    if way == "file":
        source = open_log(path)
    else:
        stdin = io.BytesIO(data)
        monkeypatch.setattr(stdin, "seek", Refusing(io.UnsupportedOperation("seek"))) if way == "pipe" else None
        source = open_log("-", stdin=stdin)
    assert text_of(source) == text
    assert source.bytes_read == source.size


def test_a_zip_of_several_attempts_says_how_to_choose(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"app_1": event(1), "x/app_2": event(2), **ROLLED_MEMBERS})
    with pytest.raises(errors.LogAmbiguous) as refused:
        open_log(path)
    assert refused.value.candidates == (f"{path}!app_1", f"{path}!eventlog_v2_a", f"{path}!x/app_2")
    texts = [text_of(open_log(one)) for one in refused.value.candidates]
    assert texts == [event(1), event(1) + event(2), event(2)]
    assert text_of(open_log(f"{path}!app_2")) == event(2)
    assert text_of(open_log(f"{path}!eventlog_v2_a/events_2_a.zstd")) == event(2)
    assert text_of(open_log(f"{path}!eventlog_v2_a/")) == event(1) + event(2)


def test_a_zip_in_a_pipe_is_chosen_from_the_same_way() -> None:
    data = zip_bytes({"app_1": event(1), "app_2": event(2)})
    with pytest.raises(errors.LogAmbiguous) as refused:
        open_log("-", stdin=io.BytesIO(data))
    assert refused.value.candidates == ("-!app_1", "-!app_2")
    assert text_of(open_log("-!app_2", stdin=io.BytesIO(data))) == event(2)


def test_files_inside_a_zip_are_named_with_it(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", ROLLED_MEMBERS)
    assert [file.name for file in open_log(path).files] == [f"{path}!eventlog_v2_a/events_{n}_a.zstd" for n in (1, 2)]


def test_a_zip_in_a_folder_is_found(tmp_path: Path) -> None:
    zipped(tmp_path / "a.zip", {"app_1": event(1)})
    write(tmp_path / "b.txt", b"text")
    assert text_of(open_log(str(tmp_path))) == event(1)


def test_a_zip_with_a_wrong_checksum_is_damaged(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"app_1": event(1)}, zipfile.ZIP_STORED)
    data = Path(path).read_bytes()
    write(tmp_path / "a.zip", data.replace(b"TaskEnd", b"TaskEnx"))
    with pytest.raises(errors.LogCorrupt, match="the ZIP is damaged"):
        text_of(open_log(path))


@pytest.mark.parametrize(("method", "flags"), [(14, 0), (8, 1), (99, 0)])
def test_a_zip_of_other_methods_is_refused(tmp_path: Path, method: int, flags: int) -> None:
    path = zipped(tmp_path / "a.zip", {"app_1": event(1)})
    data = bytearray(Path(path).read_bytes())
    for at, step in ((0, 6), (data.index(b"PK\1\2"), 8)):
        struct.pack_into("<HH", data, at + step, flags, method)
    write(tmp_path / "a.zip", bytes(data))
    with pytest.raises(errors.LogUndecodable, match="unpack it first"):
        open_log(path)


def test_a_zip_inside_a_zip_is_refused(tmp_path: Path) -> None:
    inner = zip_bytes({"app_1": event(1)})
    with pytest.raises(errors.LogUndecodable, match="is a ZIP archive"):
        open_log(zipped(tmp_path / "a.zip", {"i.zip": inner}))


def test_a_zip_with_a_giant_table_of_contents_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {f"{number}" * 60_000: b"" for number in range(9)})
    monster = Path(path).read_bytes()
    at = monster.rindex(b"PK\5\6")
    assert struct.unpack_from("<I", monster, at + 12)[0] < zip_store.DIRECTORY_MAX
    write(tmp_path / "a.zip", monster[: at + 12] + struct.pack("<I", 0x7FFFFFFF) + monster[at + 16 :])
    with pytest.raises(errors.LogUndecodable, match="table of contents has 2,147,483,647 bytes"):
        open_log(path)


def test_a_zip_that_announces_terabytes_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"app_1": event(1)})
    data = bytearray(Path(path).read_bytes())
    struct.pack_into("<I", data, data.index(b"PK\1\2") + 24, 0xFFFFFFF0)
    write(tmp_path / "a.zip", bytes(data))
    with pytest.raises(errors.LogUndecodable, match="decompression bomb"):
        open_log(path)


def test_a_zip_bomb_streams(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"app_1": bytes(100 << 20)})
    tracemalloc.start()
    (fault,) = faults_of(open_log(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fault.kind is FaultKind.LONG_LINE
    assert peak < 80 << 20


def test_a_zip_cut_anywhere_is_a_log_error(tmp_path: Path) -> None:
    data = zip_bytes(ROLLED_MEMBERS)
    for end in range(len(data)):
        path = write(tmp_path / "cut.zip", data[:end])
        assert message_of(path).isprintable()


def test_a_zip_with_any_byte_changed_is_read_or_a_log_error(tmp_path: Path) -> None:
    data = zip_bytes(ROLLED_MEMBERS)
    for at in range(len(data)):
        path = write(tmp_path / "changed.zip", data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        assert message_of(path).isprintable()


def test_a_full_disk_under_a_piped_zip_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.BytesIO(zip_bytes({"app_1": event(1)}))
    monkeypatch.setattr(stdin, "seek", Refusing(io.UnsupportedOperation("seek")))
    monkeypatch.setattr(tempfile, "TemporaryFile", Refusing(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(errors.LogUnreadable, match="No space left on device; save it to a file first"):
        open_log("-", stdin=stdin)


# --- remote ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def memory() -> fsspec.AbstractFileSystem:
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    return store


def test_a_remote_file(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe_file("/logs/app.zstd.inprogress", zstd(event(1)))
    source = open_log("memory://logs/app.zstd.inprogress")
    assert list(source.pieces()) == [Chunk(event(1), "memory://logs/app.zstd.inprogress", 1, 1)]
    assert source.in_progress is True
    assert source.bytes_read == source.size == len(zstd(event(1)))


def test_a_remote_rolled_log(memory: fsspec.AbstractFileSystem) -> None:
    for number in (1, 2, 10):
        memory.pipe_file(f"/logs/eventlog_v2_a/events_{number}_a", event(number))
    memory.pipe_file("/logs/eventlog_v2_a/appstatus_a", b"")
    for path in ("memory://logs/eventlog_v2_a", "memory://logs/", "memory:///logs"):
        source = open_log(path)
        assert text_of(source) == event(1) + event(2) + event(10)
        assert [str(gap) for gap in source.gaps] == ["events_3 to events_9"]
        assert source.files[0].name == "memory:///logs/eventlog_v2_a/events_1_a"


def test_several_remote_logs_are_named_with_their_urls(memory: fsspec.AbstractFileSystem) -> None:
    for name in ("a", "b"):
        memory.pipe_file(f"/logs/{name}", event(1))
    with pytest.raises(errors.LogAmbiguous) as refused:
        open_log("memory://logs")
    assert refused.value.candidates == ("memory:///logs/a", "memory:///logs/b")
    assert text_of(open_log(refused.value.candidates[1])) == event(1)


def test_a_remote_zip(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe_file("/a.zip", zip_bytes({"b": event(1), "c": event(2)}))
    with pytest.raises(errors.LogAmbiguous) as refused:
        open_log("memory://a.zip")
    assert refused.value.candidates == ("memory://a.zip!b", "memory://a.zip!c")
    assert text_of(open_log("memory://a.zip!c")) == event(2)


def test_a_remote_log_that_is_not_there(memory: fsspec.AbstractFileSystem) -> None:
    with pytest.raises(errors.LogMissing, match=r"^memory://nothing: there is no such file or folder$"):
        open_log("memory://nothing")


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (RuntimeError("throttled\nmore"), errors.RemoteFailed),
        (PermissionError("no"), errors.LogUnreadable),
        (OSError(), errors.RemoteFailed),
    ],
)
def test_what_a_store_refuses_is_one_line(
    memory: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch, problem: Exception, error: type[errors.LogError]
) -> None:
    memory.pipe_file("/log", event(1))
    monkeypatch.setattr(type(memory), "_open", Refusing(problem))
    with pytest.raises(error) as refused:
        open_log("memory://log")
    assert str(refused.value).isprintable()
    assert "more" not in str(refused.value)


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(errors.RemoteFailed, match="nonsense"):
        open_log("nonsense://bucket/log")


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("s3://bucket/log", "s3fs", "podtide[s3]"),
        ("s3a://key:secret@bucket/log", "s3fs", "podtide[s3]"),
        ("gs://bucket/log", "gcsfs", "podtide[gcs]"),
        ("abfss://c@account/log", "adlfs", "podtide[azure]"),
        ("https://host/log", "fsspec.core", "podtide[remote]"),
        ("s3://bucket/log", "fsspec.core", "podtide[s3]"),
    ],
)
def test_a_missing_client_says_what_to_install(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.RemoteMissing) as missing:
        open_log(url)
    assert missing.value.extra == extra
    assert f"pip install '{extra}'" in str(missing.value)
    assert "secret" not in str(missing.value)


# --- real logs -------------------------------------------------------------------------------------------------------


def index() -> list[dict[str, str]]:
    table = SHARED / "data" / "public/index.tsv"
    if not table.exists():
        return []
    with table.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.parametrize("row", index(), ids=lambda row: row["file"])
def test_every_log_of_other_peoples_spark_has_the_lines_it_should(row: dict[str, str]) -> None:
    with open_log(str(SHARED / "data" / "public" / row["file"])) as source:
        pieces = list(source.pieces())
        chunks = [piece for piece in pieces if isinstance(piece, Chunk)]
        assert len(chunks) == len(pieces)
        assert sum(chunk.lines for chunk in chunks) == int(row["lines"])
        assert max(len(line) for chunk in chunks for line in bytes(chunk.data).split(b"\n")) == int(row["longest_line"])
        assert source.bytes_read == source.size
        assert source.codecs == (Codec({"gz": "gzip"}.get(row["codec"], row["codec"])),)


@pytest.mark.skipif(not (SHARED / "data" / "truth").exists(), reason="needs the real logs beside the project")
def test_every_log_of_real_spark_is_found_in_its_folder() -> None:
    for folder in sorted((SHARED / "data" / "truth").glob("*/*/*/log")):
        source = open_log(str(folder))
        text = text_of(source)
        assert text.endswith(b"\n")
        assert json.loads(text[: text.index(b"\n")])["Event"] == "SparkListenerLogStart"
        assert source.in_progress in (False, None)
