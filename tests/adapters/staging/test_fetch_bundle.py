"""R6: what the init container unpacks, and what it refuses (spec: auxiliary, section 4.2)."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from podtide.adapters.staging.fetch_bundle import FILES_MAX, FetchError, unpack

SIZE_MAX = 10_000


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


def archive(*entries: tarfile.TarInfo) -> io.BytesIO:
    """A good entry, then these, then a good one."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        for one in (entry("good.py", size=4), *entries, entry("last.py", size=4)):
            made.addfile(one, io.BytesIO(b"x" * one.size))
    return out


@pytest.mark.parametrize(
    "name",
    ["../x", "/abs", "/", "a/b", "./x", "..", ".", "a/../../x", "back\\slash", "line\nbreak", ""],
)
def test_r6_a_name_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "pod" / "stage"
    folder.mkdir(parents=True)
    with pytest.raises(FetchError, match=r"^entry .* is no plain name") as refusal:
        unpack(archive(entry(name)), str(folder), SIZE_MAX)
    assert repr(name) in str(refusal.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "hostile",
    [
        entry("link", tarfile.SYMTYPE, "/etc/passwd"),
        entry("link", tarfile.LNKTYPE, "good.py"),
        entry("folder", tarfile.DIRTYPE),
        entry("folder/"),
        entry("device", tarfile.CHRTYPE),
        entry("device", tarfile.BLKTYPE),
        entry("pipe", tarfile.FIFOTYPE),
        entry("contiguous", tarfile.CONTTYPE),
        entry("strange", b"Z"),
    ],
    ids=lambda one: f"{one.name} {one.type!r}",
)
def test_r6_what_is_no_plain_file_is_refused(tmp_path: Path, hostile: tarfile.TarInfo) -> None:
    with pytest.raises(FetchError, match=f"^entry '{hostile.name}' is no plain"):
        unpack(archive(hostile), str(tmp_path), SIZE_MAX)
    assert list(tmp_path.iterdir()) == []


def bomb() -> io.BytesIO:
    return archive(entry("zeros", size=SIZE_MAX))


def crowd() -> io.BytesIO:
    return archive(*(entry(f"{number}") for number in range(FILES_MAX)))


def cut() -> io.BytesIO:
    whole = archive(entry("middle.py", size=5_000)).getvalue()
    return io.BytesIO(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (bomb, "entry 'zeros': the archive holds more than 10000 bytes"),
        (crowd, "more than"),
        (lambda: archive(entry("good.py")), "entry 'good.py' is there twice"),
        (cut, "cannot be unpacked"),
        (lambda: io.BytesIO(b"no archive"), "cannot be unpacked"),
    ],
)
def test_r6_an_archive_that_nobody_pushed_is_refused(tmp_path: Path, made: Callable[[], io.BytesIO], why: str) -> None:
    with pytest.raises(FetchError, match=why):
        unpack(made(), str(tmp_path), SIZE_MAX)
    assert list(tmp_path.iterdir()) == []


def test_a_second_attempt_replaces_the_files_of_the_first_and_follows_no_link(tmp_path: Path) -> None:
    folder, outside = tmp_path / "stage", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("mine")
    (folder / "good.py").symlink_to(outside)
    (folder / "last.py").write_text("old")
    assert unpack(archive(), str(folder), SIZE_MAX) == 2
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"good.py": "xxxx", "last.py": "xxxx"}
    assert not (folder / "good.py").is_symlink()
    assert outside.read_text() == "mine"
