"""The cleaner of a node with a disk and an API server of podtide's own. Ids S9 to S14: scenarios of the shuffle service's
specification (auxiliary, 4.1); its decisions alone are in tests/domain/shuffle_service."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podtide.adapters.clock import SystemClock
from podtide.adapters.notices import Notice, Topic
from podtide.adapters.shuffle_service.application_pods import ApplicationPods
from podtide.adapters.shuffle_service.cleaning import DirectoryCleaner
from podtide.adapters.shuffle_service.directories import MEMORY, REMOVING, ApplicationDirectories, RootUnusable
from podtide.domain.shuffle_service.applications import (
    ApplicationFound,
    ApplicationId,
    ApplicationUnknown,
    CleanerConfig,
    DriverName,
    FindApplication,
)
from tests.adapters.staging.stage import SwitchedApi, api_server, delete

APP, OTHER = ApplicationId("spark-1"), ApplicationId("spark-2")
DRIVER = DriverName("default", "job-driver", "uid-1")
PODS = "/api/v1/namespaces/default/pods"
AT_ONCE = CleanerConfig(frozenset({"default"}), scan_ms=20, ended_ms=20)
WAIT_S = 20.0


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchedApi]:
    with api_server(tmp_path_factory.mktemp("cluster")) as served:
        yield served


@pytest.fixture(autouse=True)
def nothing_left(api: SwitchedApi) -> Iterator[None]:
    yield
    api.fault = None
    delete(api, PODS)


def driver(api: SwitchedApi, app: str, name: str = "job-driver") -> None:
    labels = {"spark-role": "driver", "spark-app-selector": app}
    metadata = {"name": name, "labels": labels}
    spec = {"containers": [{"name": "main", "image": "i"}]}
    body = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()
    assert api.call("create", "pods", PODS, body=body).ok


def patch(api: SwitchedApi, path: str, change: object) -> None:
    kind = "application/merge-patch+json"
    assert api.call("patch", "pods", PODS + path, body=json.dumps(change).encode(), content_type=kind).ok


def written(root: Path, app: str) -> Path:
    """What an executor leaves: DiskBlockManager's directories, and a file of a shuffle."""
    folder = root / app / "blockmgr-1" / "0c"
    folder.mkdir(parents=True)
    (folder / "shuffle_0_0_0.data").write_bytes(b"data")
    return root / app


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Running:
    """A cleaner at work."""

    def __init__(self, cleaner: DirectoryCleaner, notices: list[Notice]) -> None:
        self.cleaner, self.notices = cleaner, notices

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition."""
        waiting = threading.Event()
        for _ in range(int(WAIT_S / 0.02)):
            if condition():
                return
            waiting.wait(0.02)
        raise AssertionError(self.texts())

    def texts(self) -> list[str]:
        return [notice.text for notice in self.notices if notice.topic is Topic.CLEANED_UP]


@contextmanager
def running(api: SwitchedApi, *roots: Path, config: CleanerConfig = AT_ONCE) -> Iterator[Running]:
    notices: list[Notice] = []
    cleaner = DirectoryCleaner(api, ApplicationDirectories(roots), config, SystemClock(), notices.append)
    thread = threading.Thread(target=cleaner.run)
    thread.start()
    try:
        yield Running(cleaner, notices)
    finally:
        cleaner.end()
        thread.join(WAIT_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("kept", [False, True])
def test_s11_a_driver_that_is_deleted_or_ended_takes_its_files_along(
    tmp_path: Path, api: SwitchedApi, kept: bool
) -> None:
    """On every disk of the node; files of others stay."""
    disks = [tmp_path / "one", tmp_path / "two"]
    for disk in disks:
        written(disk, APP)
        written(disk, OTHER)
    driver(api, APP)
    driver(api, OTHER, "other-driver")
    with running(api, *disks) as run:
        run.until(lambda: all((disk / app / MEMORY).exists() for disk in disks for app in (APP, OTHER)))
        if kept:
            patch(api, "/job-driver/status", {"status": {"phase": "Succeeded"}})
        else:
            delete(api, f"{PODS}/job-driver")
        run.until(lambda: sum(run.cleaner.figures.removed.values()) == 1)
    assert [names(disk) for disk in disks] == [[OTHER], [OTHER]]
    assert run.texts() == ["cleaning is on", f"{APP} is removed: its driver {'ended' if kept else 'is gone'}"]


@pytest.mark.parametrize("labels", [{"spark-role": "me"}, {"spark-role": None, "spark-app-selector": None}])
def test_s9_a_driver_that_lost_its_labels_keeps_its_files(
    tmp_path: Path, api: SwitchedApi, labels: dict[str, str | None]
) -> None:
    folder = written(tmp_path, APP)
    driver(api, APP)
    with running(api, tmp_path) as run:
        run.until((folder / MEMORY).exists)
        before = api.calls
        patch(api, "/job-driver", {"metadata": {"labels": labels}})
        run.until(lambda: api.calls > before + 3)  # it was asked about: the watch says that it is gone
        assert folder.exists()
        delete(api, f"{PODS}/job-driver")
        run.until(lambda: not folder.exists())


def test_s12_a_driver_that_dies_while_the_cleaner_is_away_is_missed(tmp_path: Path, api: SwitchedApi) -> None:
    folder = written(tmp_path, APP)
    driver(api, APP)
    with running(api, tmp_path) as run:
        run.until((folder / MEMORY).exists)
    delete(api, f"{PODS}/job-driver")
    stranger = written(tmp_path, OTHER)  # nobody knows its driver: it may be one in client mode
    with running(api, tmp_path) as run:
        run.until(lambda: not folder.exists())
    assert stranger.exists()


@pytest.mark.parametrize(("fault", "why"), [(403, "no pods for you"), (0, "")])
def test_s13_s14_nothing_goes_while_the_api_server_refuses_or_is_away(
    tmp_path: Path, api: SwitchedApi, fault: int, why: str
) -> None:
    folder = written(tmp_path, APP)
    ApplicationDirectories([tmp_path]).remember(APP, DRIVER)
    api.fault = fault
    with running(api, tmp_path) as run:
        before = api.calls
        run.until(lambda: api.calls > before + 3)
        assert not run.cleaner.figures.on
        assert len(run.texts()) == bool(why)
        assert all(text.startswith("cleaning is off, no files are removed: ") and why in text for text in run.texts())
        assert folder.exists()
        api.fault = None
        run.until(lambda: not folder.exists())
    assert run.texts()[-2:] == ["cleaning is on", f"{APP} is removed: its driver is gone"]


def test_what_an_api_server_says_that_is_no_answer_is_none(tmp_path: Path, api: SwitchedApi) -> None:
    """A list without pods is believed; a driver of another uid is another one; no answer is not a no."""
    pods = ApplicationPods(api, ["default"], SystemClock(), lambda _: None)
    driver(api, "another-id")
    ask = FindApplication(APP, DRIVER)
    assert pods.find(ask, lambda _: 7) == ApplicationFound(APP, 0, 7)
    pods.end()  # no more repeats
    api.fault = 500
    assert pods.find(ask, lambda _: 7) == ApplicationUnknown(APP)
    api.fault = None
    driver(api, APP, "second-driver")
    assert pods.find(ask._replace(driver=None), lambda _: 7) == ApplicationFound(APP, 1, 7)


def test_once(tmp_path: Path, api: SwitchedApi) -> None:
    folder = written(tmp_path, APP)
    ApplicationDirectories([tmp_path]).remember(APP, DRIVER)
    config = AT_ONCE.__class__(frozenset({"default"}), ended_ms=0)
    cleaner = DirectoryCleaner(api, ApplicationDirectories([tmp_path]), config, SystemClock(), lambda _: None)
    assert cleaner.run_once(WAIT_S)
    assert not folder.exists()
    assert cleaner.figures.applications == 0


# ------------------------------------------------------------------------------------------------------------- the disk


def test_no_link_is_followed_and_no_strange_name_counts(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("!")
    root.mkdir()
    (root / "linked").symlink_to(outside)
    (root / "file").write_text("")
    (root / ".hidden").mkdir()
    (root / "two words").mkdir()
    folder = written(root, APP)
    (folder / "blockmgr-1" / "link").symlink_to(outside)
    (folder / MEMORY).symlink_to(outside / "precious")
    (root / f"{REMOVING}linked").symlink_to(outside)
    directories = ApplicationDirectories([root])
    found = dict(directories.find().directories)
    assert list(found) == [APP]
    assert found[APP].driver is None
    assert not (root / f"{REMOVING}linked").is_symlink()
    directories.remember(APP, DRIVER)
    assert dict(directories.find().directories)[APP].driver == DRIVER
    directories.remove(APP)
    directories.remove(APP)
    directories.remove(ApplicationId("linked"))
    assert (outside / "precious").read_text() == "!"
    assert names(root) == [".hidden", "file", "two words"]
    assert directories.problems == []


def test_a_memory_that_is_none_is_none(tmp_path: Path) -> None:
    folder = written(tmp_path, APP)
    directories = ApplicationDirectories([tmp_path])
    for text in (b"", b"ns\nname\n", b"ns\n../name\nuid\n", b"ns\nname\nuid\nmore\n", b"\xff\n\n\n", b"x" * 10_000):
        (folder / MEMORY).write_bytes(text)
        assert dict(directories.find().directories)[APP].driver is None
    (folder / MEMORY).unlink()
    os.mkfifo(folder / MEMORY)
    assert dict(directories.find().directories)[APP].driver is None
    assert stat.S_ISFIFO((folder / MEMORY).stat().st_mode)


def test_files_change_down_to_where_they_are(tmp_path: Path) -> None:
    folder = written(tmp_path, APP)
    deep = folder / "blockmgr-1" / "0c" / "deeper"
    deep.mkdir()
    for age, path in enumerate((deep, deep.parent, deep.parent.parent, folder)):
        os.utime(path, (10_000 - age, 10_000 - age))
    directories = ApplicationDirectories([tmp_path / "..", tmp_path])
    assert directories.modified_at(APP) == 9_999_000
    assert dict(directories.find().directories)[APP].modified_at == 9_997_000


def test_what_cannot_be_deleted_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, APP)
    directories = ApplicationDirectories([tmp_path])
    with monkeypatch.context() as broken:
        broken.setattr(os, "rmdir", _refuse)
        directories.remove(APP)
    assert len(directories.problems) == 1
    assert directories.problems[0].endswith("cannot be deleted: Device or resource busy")
    assert directories.find().directories == ()
    assert names(tmp_path) == []


def _refuse(*_: object, **__: object) -> None:
    raise OSError(16, "Device or resource busy")


@pytest.mark.parametrize("root", ["/", "relative", "/nobody/has/this"])
def test_a_root_that_is_none_is_refused(root: str) -> None:
    with pytest.raises(RootUnusable, match=root):
        ApplicationDirectories([Path(root)])
