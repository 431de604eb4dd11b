"""What paths, folders, patterns, ZIPs, lists and URLs mean to a fleet."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.eventlog.bytes.store import is_url
from podtide.adapters.fleet.discovery import Finder, FoundLog, ListError, begins_like_log, paths_in
from podtide.adapters.fleet.rows import Stamp, shown_place, stamp_of_all

EVENT = b'{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n'


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in (
        "logs/app-1", "logs/app-2.zstd", "logs/day=1/app-3", "logs/day=2/app-4", "logs/.hidden/x", "logs/_tmp/x",
        "logs/eventlog_v2_app-5/events_1_app-5", "logs/eventlog_v2_app-5/events_2_app-5",
        "logs/eventlog_v2_app-5/appstatus_app-5", "logs/renamed/events_1_app-6", "logs/.app-1.crc", "logs/appstatus_x",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(EVENT)
    (tmp_path / "logs" / "eventlog_v2_empty").mkdir()
    with zipfile.ZipFile(tmp_path / "logs" / "both.zip", "w") as archive:
        for member in ("eventlog_v2_a/events_1_a", "eventlog_v2_a/appstatus_a", "b", "__MACOSX/b", ".c"):
            archive.writestr(member, EVENT)
    with zipfile.ZipFile(tmp_path / "logs" / "one.zip", "w") as archive:
        archive.writestr("single", EVENT)
    (tmp_path / "logs" / "round").symlink_to(tmp_path / "logs")
    os.mkfifo(tmp_path / "logs" / "pipe")
    return tmp_path


def places(*found: FoundLog) -> list[str]:
    return sorted(one.place for one in found)


def test_a_folder_is_every_log_in_it(tree: Path) -> None:
    finder = Finder()
    found = list(finder.argument("logs"))
    assert places(*found) == [
        "logs/app-1", "logs/app-2.zstd", "logs/both.zip!b", "logs/both.zip!eventlog_v2_a", "logs/day=1/app-3",
        "logs/day=2/app-4", "logs/eventlog_v2_app-5", "logs/eventlog_v2_empty", "logs/one.zip", "logs/renamed",
    ]  # fmt: skip
    assert finder.passed_over == 4  # .hidden, _tmp, the checksum, the status file
    assert finder.links == 2  # the folder that is linked, and the pipe
    named = {one.place for one in found if one.named}
    assert named == {"logs/eventlog_v2_app-5", "logs/eventlog_v2_empty", "logs/renamed"}
    rolled = next(one for one in found if one.place == "logs/eventlog_v2_app-5")
    assert rolled.stamp.size == 3 * len(EVENT)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("logs/app-*", ["logs/app-1", "logs/app-2.zstd"]),
        ("logs/day=[12]", ["logs/day=1/app-3", "logs/day=2/app-4"]),
        ("logs/day=?/app-4", ["logs/day=2/app-4"]),
        ("logs/**/app-3", ["logs/day=1/app-3"]),
        ("**/eventlog_v2_app*", ["logs/eventlog_v2_app-5"]),
        ("l*/day=1/**", ["logs/day=1/app-3"]),
        ("logs/one.z*", ["logs/one.zip"]),
        ("logs/one.zip", ["logs/one.zip"]),
        ("logs/both.zip!b", ["logs/both.zip!b"]),
        ("logs/eventlog_v2_app-5/", ["logs/eventlog_v2_app-5/"]),
        ("logs/renamed", ["logs/renamed"]),
    ],
)
def test_patterns_and_single_places(tree: Path, given: str, expected: list[str]) -> None:
    assert places(*Finder().argument(given)) == expected


def test_a_name_with_signs_of_a_pattern_is_that_name(tree: Path) -> None:
    (tree / "a[1]*").write_bytes(EVENT)
    assert places(*Finder().argument("a[1]*")) == ["a[1]*"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "the path is empty"),
        ("none", "none: there is no such file or folder"),
        ("none/*", "nothing matches this pattern"),
        ("none.zip!b", "there is no such file"),
        ("a\0b", "cannot be read"),
        ("nosuch://bucket/x", "cannot be opened|needs a client"),
    ],
)
def test_what_leads_nowhere(tree: Path, given: str, words: str) -> None:
    with pytest.raises(LogError, match=words):
        list(Finder().argument(given))


def test_a_list_has_something_for_every_line(tree: Path) -> None:
    found = list(Finder().listed(["logs/day=1", "none", "logs/pipe", "memory://nothing/here"]))
    assert [(one.place, one.problem) for one in found] == [
        ("logs/day=1/app-3", None),
        ("none", "there is no such file or folder"),
        ("logs/pipe", "is no regular file; a file, a folder or a URL was expected"),
        ("memory://nothing/here", "there is no such file or folder"),
    ]


PARTS = ("eventlog-2026-11-23--09-00.gz", "eventlog-2026-11-23--10-00.gz", "eventlog")


def test_the_parts_of_a_delivered_log_are_one_and_what_lies_beside_them_is_not_lost(tmp_path: Path) -> None:
    for name in (*PARTS, "app-1", "deeper/eventlog", "deeper/app-2"):
        path = tmp_path / "ctx" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(EVENT)
    with zipfile.ZipFile(tmp_path / "ctx.zip", "w") as archive:
        for name in (*(f"ctx/{part}" for part in PARTS), "ctx/app-1", "b/eventlog"):
            archive.writestr(name, EVENT)
    found = {one.place.removeprefix(f"{tmp_path}/"): one for one in Finder().argument(str(tmp_path))}
    assert sorted(found) == [
        "ctx", "ctx.zip!b/eventlog", "ctx.zip!ctx", "ctx.zip!ctx/app-1", "ctx/app-1", "ctx/deeper/app-2",
        "ctx/deeper/eventlog",
    ]  # fmt: skip
    assert found["ctx"].stamp.size == 3 * len(EVENT)
    whole, alone = f"{tmp_path}/ctx", f"{tmp_path}/ctx/deeper"
    matched = places(*Finder().argument(f"{whole}/*"))
    assert matched == [whole, f"{whole}/app-1", f"{whole}/deeper/app-2", f"{whole}/deeper/eventlog"]
    assert places(*Finder().listed([f"{whole}/eventlog", f"{alone}/eventlog"])) == [whole, f"{alone}/eventlog"]


@pytest.fixture
def store() -> Iterator[None]:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.pipe({f"/bucket/{name}": EVENT for name in ("app-1", "day=1/app-2", "eventlog_v2_3/events_1_3", "_SUCCESS")})
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("x", EVENT)
        zipped.writestr("y", EVENT)
    files.pipe("/bucket/two.zip", archive.getvalue())
    yield
    files.rm("/bucket", recursive=True)


@pytest.mark.usefixtures("store")
def test_a_remote_store_is_walked_like_a_folder() -> None:
    finder = Finder()
    found = list(finder.argument("memory://bucket"))
    assert places(*found) == [
        "memory:///bucket/app-1", "memory:///bucket/day=1/app-2", "memory:///bucket/eventlog_v2_3",
        "memory:///bucket/two.zip!x", "memory:///bucket/two.zip!y",
    ]  # fmt: skip
    assert finder.passed_over == 1
    assert all(one.stamp.size is not None and one.stamp.modified_ms is not None for one in found)
    assert places(*Finder().argument("memory://bucket/*/app-?")) == ["memory:///bucket/day=1/app-2"]
    assert begins_like_log("memory:///bucket/two.zip!x")


@pytest.mark.parametrize(
    ("content", "is_log"),
    [
        (EVENT, True),
        (b"\n  " + EVENT, True),
        (b'{"no":"thing"}\n', False),
        (b"plain words", False),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), False),
        (b"PAR1" + bytes(50), False),
    ],
)
def test_what_begins_like_a_log(tmp_path: Path, content: bytes, is_log: bool) -> None:
    (tmp_path / "x").write_bytes(content)
    assert begins_like_log(str(tmp_path / "x")) is is_log


def test_a_folder_that_may_not_be_listed_is_a_row(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("day=1"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = {one.place: one.problem for one in Finder().argument("logs")}
    assert found["logs/day=1"] == "reading it is not permitted"
    assert "logs/day=2/app-4" in found


def test_lists_are_bounded_and_name_the_line() -> None:
    assert list(paths_in(io.BytesIO(b"a\n\r\n b \r\n\xff"), "list")) == ["a", " b ", "\udcff"]
    with pytest.raises(ListError, match=r"list:2: a path of at most 32,768 bytes was expected"):
        list(paths_in(io.BytesIO(b"a\n" + b"x" * 40_000), "list"))


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("a/b", False),
        ("s3://b/k", True),
        ("file:///x", False),
        ("file:/x", False),
        ("C:x", False),
        ("zip::s3://a", True),
    ],
)
def test_what_is_a_url(place: str, url: bool) -> None:
    assert is_url(place) is url


def test_no_secret_of_a_url_is_shown() -> None:
    assert shown_place("https://me:pass@host/log?X-Amz-Signature=abc") == "https://…@host/log?…"
    assert shown_place("s3://bucket/" + "k" * 900) == "s3://bucket/" + "k" * 900


def test_a_stamp_of_several_files_does_not_depend_on_their_order() -> None:
    one, two = Stamp(1, 5), Stamp(2, 3, "x")
    both = stamp_of_all({"a": one, "b": two})
    assert both == stamp_of_all({"b": two, "a": one})
    assert (both.size, both.modified_ms) == (3, 5)
    assert both.etag != stamp_of_all({"a": two, "b": one}).etag
    assert stamp_of_all({"a": Stamp()}).size is None
