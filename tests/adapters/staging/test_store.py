"""A store after a crash at any moment: what was promised is there and whole, what was not leaves nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.staging.store import LOCK, BundleStore, StoreUnusable
from podtide.domain.staging.bundles import Bundle, BundleId, BundleOwner

ONE = BundleId("1" * 32)
TWO = BundleId("2" * 32)
CONTENT = b"content " * 1_000
CRASHES_MAX = 100


def bundle(name: BundleId = ONE) -> Bundle:
    return Bundle(name, BundleOwner("ns", (("app", "a"),)), b"s" * 32, b"d" * 32, len(CONTENT), 5)


def life(store: BundleStore, say: Callable[[bytes], object]) -> None:
    """All that a store does with a bundle; each promise is said once it holds."""
    for name in (ONE, TWO):
        incoming = store.receive(name)
        incoming.write(CONTENT)
        incoming.finish()
        store.publish(bundle(name))
        say(b"published ")
    store.record(bundle()._replace(used=True))
    say(b"used ")
    store.remove(ONE)
    say(b"removed ")


def crashed(folder: Path, steps: int) -> tuple[bytes, bool]:
    """Live in a process that dies before its step ``steps`` on the disk: what it promised, and whether it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def die(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal count
            if event in {"open", "os.rename", "os.remove"} and str(folder) in str(arguments[0]):
                count += 1
                if count > steps:
                    os._exit(9)

        store = BundleStore(folder)
        store.open()
        sys.addaudithook(die)
        life(store, lambda text: os.write(writing, text))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as promises:
        said = promises.read()
    return said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def test_r10_a_store_survives_a_kill_before_any_of_its_steps(tmp_path: Path) -> None:
    seen = set[bytes]()
    for steps in range(CRASHES_MAX):
        folder = tmp_path / str(steps)
        said, died = crashed(folder, steps)
        seen.add(said)
        store = BundleStore(folder)
        opened = store.open()
        there = {one.id: one for one in opened.bundles}
        assert opened.damaged == ()
        promised = said.count(b"published")
        if promised >= 1 and b"removed" not in said:
            assert ONE in there or b"used" in said  # or its removal has begun
        if b"used" in said and ONE in there:
            assert there[ONE].used
        assert (TWO in there) or promised < 2
        assert (ONE in there) <= (b"removed" not in said)
        for one in there:
            with store.reader(one) as file:
                assert file.read() == CONTENT
        files = {path.name for path in folder.rglob("*") if path.is_file()}
        assert files == {LOCK} | {f"{one}.{kind}" for one in there for kind in ("json", "tgz")}
        store.close()
        if not died:
            break
    assert steps > 10
    assert len(seen) == 5


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry, _: entry.write_bytes(entry.read_bytes()[:-5]),
        lambda entry, _: entry.write_bytes(b"\xff\xfe"),
        lambda entry, _: entry.write_bytes(entry.read_bytes().replace(b'"ns"', b'"../.."')),
        lambda entry, _: entry.write_bytes(entry.read_bytes().replace(b'"format":1', b'"format":2')),
        lambda _, archive: archive.write_bytes(CONTENT[:-1]),
        lambda _, archive: archive.unlink(),
    ],
)
def test_a_bundle_that_somebody_damaged_is_told_of_and_left_alone(
    tmp_path: Path, damage: Callable[[Path, Path], object]
) -> None:
    store = BundleStore(tmp_path / "store")
    store.open()
    life(store, len)
    folder = tmp_path / "store" / "bundles"
    damage(folder / f"{TWO}.json", folder / f"{TWO}.tgz")
    opened = store.open()
    assert opened.bundles == ()
    assert len(opened.damaged) == 1
    assert TWO in opened.damaged[0]
    assert (folder / f"{TWO}.json").exists()


def test_a_folder_with_other_things_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "mine.tgz").write_text("mine")
    with pytest.raises(StoreUnusable, match="is not empty and no store"):
        BundleStore(tmp_path)
    assert (tmp_path / "bundles" / "mine.tgz").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable):
        BundleStore(tmp_path / "file")
