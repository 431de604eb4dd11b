"""The acceptance scenarios R1 to R13 of the staging server (spec: auxiliary, section 4.2), over real sockets and disks.

R14 and R15, which need no server, are in test_pod_template.py, R6 in test_fetch_bundle.py; when what is removed, in
tests/domain/staging.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import resource
import socket
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest

from podtide.adapters.clock import SystemClock
from podtide.adapters.http_server.certificate import self_signed
from podtide.adapters.http_server.settings import HttpBounds, NotServed
from podtide.adapters.notices import Topic
from podtide.adapters.staging.archive import BundleArchive
from podtide.adapters.staging.fetch_bundle import FetchError, fetch
from podtide.adapters.staging.pod_template import program
from podtide.adapters.staging.staging_client import PushFailed, StagedBundle, StagingAddress, push_bundle
from podtide.adapters.staging.store import StoreUnusable
from podtide.domain.staging.bundles import StagingConfig
from tests.adapters.staging.stage import LABELS, TOKEN, Stage, SwitchedApi, api_server, delete, pod, stage
from tests.live.waiting import until

MIB = 1024 * 1024
PAIR = {"app.jar": b"PK jar", "data.csv": b"a,b\n1,2\n"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwitchedApi]:
    with api_server(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def server(tmp_path: Path, api: SwitchedApi) -> Iterator[Stage]:
    with stage(tmp_path, api) as made:
        yield made


def written(folder: Path, files: dict[str, bytes]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = [folder / name for name in files]
    for path, content in zip(paths, files.values(), strict=True):
        path.write_bytes(content)
    return paths


def large(folder: Path, size: int) -> Path:
    return written(folder, {"large.bin": random.Random(size).randbytes(size)})[0]


def upload_head(server: Stage, size: int | None, namespace: str = "default", more: str = "") -> bytes:
    query = urlencode([("namespace", namespace), *(("label", f"{key}={value}") for key, value in LABELS)])
    length = "" if size is None else f"Content-Length: {size}\r\n"
    return (
        f"POST /v1/bundles?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{length}{more}\r\n"
    ).encode()


def sent(server: Stage, data: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=20)
    made.sendall(data)
    return made


def status_of(connection: socket.socket) -> int:
    with closing(connection):
        return int(connection.recv(65536).split()[1])


# R1: both ways


def test_r1_driver_and_executors_have_what_was_pushed(server: Stage, tmp_path: Path) -> None:
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    for pod_folder in ("driver", "executor"):
        assert server.fetch(bundle, made, tmp_path / pod_folder) == PAIR
    # The note that a pod has fetched it is written beside its entry after the answer.
    until(lambda: server.files() == [f"bundles/{bundle.id}.json", f"bundles/{bundle.id}.tgz"])
    for path in (server.folder, *server.folder.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    entry = (server.folder / "bundles" / f"{bundle.id}.json").read_text()
    assert bundle.secret not in entry


def test_r1_the_program_of_the_init_container_needs_python_alone(server: Stage, tmp_path: Path) -> None:
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    environment = server.environment(bundle, made, tmp_path / "pod")
    command = [sys.executable, "-I", "-S", "-c", program()]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "2 files" in ran.stderr
    assert bundle.secret not in ran.stderr
    assert sorted(path.name for path in (tmp_path / "pod").iterdir()) == sorted(PAIR)
    assert "$" not in program()  # a kubelet would replace $(NAME) and $$


def test_r6_an_archive_with_a_path_ends_the_init_container_which_names_it(server: Stage, tmp_path: Path) -> None:
    """Somebody with the token pushes what no podtide would: the pod is told the digest of just that."""
    hostile = tmp_path / "hostile.tgz"
    with tarfile.open(hostile, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("good.py"))
        archive.addfile(tarfile.TarInfo("../escaped.py"))
    made = BundleArchive(hostile.stat().st_size, hashlib.sha256(hostile.read_bytes()).hexdigest(), 0)
    bundle = push_bundle(server.address, hostile, made, "default", LABELS, 10)
    environment = server.environment(bundle, made, tmp_path / "pod")
    command = [sys.executable, "-I", "-S", "-c", program()]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "podtide: entry '../escaped.py' is no plain name\n")
    assert list((tmp_path / "pod").iterdir()) == []
    assert not (tmp_path / "escaped.py").exists()


# R2: who is let in


def test_r2_a_wrong_secret_gets_no_byte_and_the_bundle_stays_unused(server: Stage, tmp_path: Path) -> None:
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    other, _ = server.push(*written(tmp_path / "in", PAIR))
    path = f"/v1/bundles/{bundle.id}"
    wrong = ["", bundle.secret, "Bearer", "Bearer ", f"Basic {bundle.secret}", f"Bearer {bundle.secret[:-1]}"]
    wrong += [f"Bearer {other.secret}", f"Bearer {TOKEN}", f"Bearer {bundle.secret}x"]
    for given in wrong:
        answer = server.ask("GET", path, Authorization=given)
        assert (answer.status, b"secret" in answer.data) == (401, True), given
    assert server.ask("GET", path).status == 401
    for unknown in ("0" * 32, "..%2f..%2fetc%2fpasswd", bundle.id.upper() + "a", f"{bundle.id}.json", "%00"):
        assert server.ask("GET", f"/v1/bundles/{unknown}", Authorization=f"Bearer {bundle.secret}").status == 404
    with pytest.raises(FetchError, match="401"):
        server.fetch(bundle, made, tmp_path / "pod", SECRET=other.secret)
    assert list((tmp_path / "pod").iterdir()) == []
    server.clock.at += 1_800_000
    assert len(server.collect()["removed"]) == 2


@pytest.mark.parametrize("token", ["", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"bearer{TOKEN}"])
def test_nobody_uploads_or_collects_without_the_token(server: Stage, token: str) -> None:
    query = urlencode({"namespace": "default", "label": "a=b"})
    for path in (f"/v1/bundles?{query}", "/v1/passes"):
        assert server.ask("POST", path, Authorization=token).status == 401
    assert server.files() == []


def test_what_is_not_served(server: Stage) -> None:
    given = {"Authorization": f"Bearer {TOKEN}"}
    table = [("GET", "/v1/bundles", 405), ("DELETE", f"/v1/bundles/{'0' * 32}", 405), ("GET", "/", 404)]
    for method, path, status in [*table, ("GET", "/v1/../etc/passwd", 404), ("GET", "/v1/ping", 200)]:
        assert server.ask(method, path, **given).status == status, path


# R3 to R5: how long a bundle stays


def test_r3_what_nobody_fetches_goes_when_its_time_is_over(server: Stage, tmp_path: Path) -> None:
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    server.clock.at += 1_799_999
    assert server.collect()["removed"] == []
    server.clock.at += 1
    assert [removal["id"] for removal in server.collect()["removed"]] == [bundle.id]
    assert until(lambda: not server.files())
    with pytest.raises(FetchError, match="404 no such bundle"):
        server.fetch(bundle, made, tmp_path / "pod")


def test_a_disk_that_keeps_a_bundle_is_told_of_and_asked_again(server: Stage, tmp_path: Path) -> None:
    bundle, _ = server.push(*written(tmp_path / "in", PAIR))
    entry = server.folder / "bundles" / f"{bundle.id}.json"
    content = entry.read_bytes()
    entry.unlink()
    entry.mkdir()  # which no unlink removes
    server.clock.at += 1_800_000
    server.collect()
    until(lambda: any("cannot be removed" in notice.text for notice in server.notices))
    entry.rmdir()
    entry.write_bytes(content)
    assert len(server.collect()["removed"]) == 1
    until(lambda: not server.files())


@pytest.mark.parametrize("what", ["pod", "namespace"])
def test_r4_a_bundle_goes_within_two_passes_after_its_pods(server: Stage, tmp_path: Path, what: str) -> None:
    home = "/api/v1/namespaces"
    body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}).encode()
    assert server.api.call("create", "namespaces", home, body=body).status in {201, 409}
    pod(server.api, "driver", "team")
    bundle, made = server.push(*written(tmp_path / "in", PAIR), namespace="team")
    server.fetch(bundle, made, tmp_path / "pod")
    server.clock.at += 10 * 1_800_000
    for _ in range(3):
        assert server.collect()["removed"] == []
    delete(server.api, f"{home}/team/pods/driver" if what == "pod" else f"{home}/team")
    removed = server.collect()["removed"] + server.collect()["removed"]
    assert removed == [{"id": bundle.id, "why": "its pods are gone"}]
    assert until(lambda: not server.files())
    assert server.status(bundle) == 404


def test_r5_a_late_executor_is_served(server: Stage, tmp_path: Path) -> None:
    pod(server.api, "r5")
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    server.fetch(bundle, made, tmp_path / "driver")
    for _ in range(10):
        server.clock.at += 30_000
        assert server.collect()["removed"] == []
    assert server.fetch(bundle, made, tmp_path / "executor") == PAIR
    delete(server.api, "/api/v1/namespaces/default/pods/r5")


# R7 to R9: what an upload may be


@pytest.mark.parametrize("namespace", ["../../etc", "", "Team", "a/b", "x" * 64])
def test_r7_a_namespace_that_is_none_is_refused(server: Stage, tmp_path: Path, namespace: str) -> None:
    with pytest.raises(PushFailed, match="answers 400"):
        server.push(*written(tmp_path / "in", PAIR), namespace=namespace)
    assert server.files() == []
    assert not (tmp_path / "etc").exists()


def test_r8_what_is_too_large_is_refused_before_it_comes(tmp_path: Path, api: SwitchedApi) -> None:
    with stage(tmp_path, api, StagingConfig(bundle_max=MIB, total_max=2 * MIB, free_min=0)) as server:
        with pytest.raises(PushFailed, match="answers 413: a bundle has at most 1048576 bytes"):
            server.push(large(tmp_path / "in", MIB))
        for _ in range(2):
            server.push(large(tmp_path / "in", MIB - 10_000))
        with pytest.raises(PushFailed, match="answers 507: the store"):
            server.push(large(tmp_path / "in", MIB - 10_000))
        assert len(server.files()) == 4
        assert status_of(sent(server, upload_head(server, None))) == 400  # a POST without a body: it is empty
        assert (
            status_of(sent(server, upload_head(server, None, more="Transfer-Encoding: chunked\r\n") + b"1\r\nx")) == 411
        )
    free = StagingConfig(free_min=2**62)
    with stage(tmp_path / "full", api, free) as server, pytest.raises(PushFailed, match="answers 507: the disk"):
        server.push(large(tmp_path / "in", 1_000))


def test_r8_a_disk_that_fills_up_keeps_nothing_of_the_upload(server: Stage, tmp_path: Path) -> None:
    kept, made = server.push(*written(tmp_path / "in", PAIR))
    place, too_large = server.archive([large(tmp_path / "in", 3 * MIB)])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, hard))  # the kernel refuses what a full disk would
    try:
        with pytest.raises(PushFailed, match="answers 507"):
            push_bundle(server.address, place, too_large, "default", LABELS, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert server.files() == [f"bundles/{kept.id}.json", f"bundles/{kept.id}.tgz"]
    assert server.fetch(kept, made, tmp_path / "pod") == PAIR
    server.push(tmp_path / "in" / "large.bin")


def test_r8_memory_does_not_depend_on_sizes(server: Stage, tmp_path: Path) -> None:
    path = large(tmp_path / "in", 48 * MIB)
    place, made = server.archive([path])
    tracemalloc.start()
    bundle = push_bundle(server.address, place, made, "default", LABELS, 60)
    fetch(server.environment(bundle, made, tmp_path / "pod", TIMEOUT_S="60"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "pod" / "large.bin").stat().st_size == 48 * MIB
    assert peak < 8 * MIB


def test_r9_an_upload_that_breaks_off_was_never_there(server: Stage, tmp_path: Path) -> None:
    connection = sent(server, upload_head(server, 100_000) + b"x" * 50_000)
    until(lambda: [file for file in server.files() if file.startswith("incoming/")])
    connection.close()
    until(lambda: not server.files())
    assert server.collect()["bundles"] == 0
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    assert server.fetch(bundle, made, tmp_path / "pod") == PAIR


def test_an_upload_that_stands_still_is_ended(tmp_path: Path, api: SwitchedApi) -> None:
    with stage(tmp_path, api, bounds=HttpBounds(transfer_s=0.2)) as server:
        assert status_of(sent(server, upload_head(server, 100) + b"x")) == 408
        until(lambda: not server.files())


def test_r9_a_submitter_tries_again_and_ends_in_time(server: Stage, tmp_path: Path) -> None:
    """A proxy that hangs up in the middle of the first upload."""
    place, made = server.archive([large(tmp_path / "in", MIB)])

    async def relay() -> StagedBundle:
        calls = 0

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal calls
            calls += 1
            there = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
            first = calls == 1

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, limit: int) -> None:
                while limit > 0 and (piece := await source.read(min(limit, 65_536))):
                    limit -= len(piece)
                    sink.write(piece)
                    await sink.drain()
                writer.close()
                there[1].close()

            await asyncio.gather(
                pump(reader, there[1], 300_000 if first else 2**62),
                pump(there[0], writer, 2**62),
                return_exceptions=True,
            )

        proxy = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        address = StagingAddress(f"http://127.0.0.1:{port}", TOKEN)
        async with proxy:
            made_bundle = await asyncio.to_thread(push_bundle, address, place, made, "default", LABELS, 20)
        assert calls == 2
        return made_bundle

    bundle = asyncio.run(relay())
    assert set(server.fetch(bundle, made, tmp_path / "pod")) == {"large.bin"}
    until(lambda: len(server.files()) == 2)


def test_no_server_ends_a_push_in_time(server: Stage, tmp_path: Path) -> None:
    place, made = server.archive(written(tmp_path / "in", PAIR))
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = StagingAddress(f"http://127.0.0.1:{other.getsockname()[1]}", TOKEN)
    with pytest.raises(PushFailed, match=r"nothing within 0\.3 s"):
        push_bundle(address, place, made, "default", LABELS, 0.3)


# R10: restarts


def test_r10_another_server_goes_on_with_the_store(tmp_path: Path, api: SwitchedApi) -> None:
    with stage(tmp_path, api) as server:
        bundle, made = server.push(*written(tmp_path / "in", PAIR))
        used, _ = server.push(*written(tmp_path / "in", PAIR))
        server.fetch(used, made, tmp_path / "driver")
        with pytest.raises(StoreUnusable, match="of a server that runs"), stage(tmp_path, api):
            pass
    with stage(tmp_path, api) as server:
        assert server.found == 2
        assert server.fetch(bundle, made, tmp_path / "executor") == PAIR
        server.clock.at += 10**9
        assert server.collect()["doubted"] == 2  # both are known to be used: neither merely expired
        assert server.ask("GET", f"/v1/bundles/{bundle.id}", Authorization="Bearer x").status == 401


# R11: the API server


@pytest.mark.parametrize("fault", [403, 0, -1])
def test_r11_without_an_api_server_nothing_goes_and_the_schedule_goes_on(
    tmp_path: Path, api: SwitchedApi, fault: int
) -> None:
    config = StagingConfig(free_min=0, pass_ms=20, unused_ms=0)
    api.fault = fault
    try:
        with stage(tmp_path, api, config, SystemClock()) as server:
            bundle, _ = server.push(*written(tmp_path / "in", PAIR))
            calls = api.calls
            until(lambda: api.calls > calls + 3)
            assert len(server.files()) == 2
            until(lambda: any(notice.topic is Topic.API_UNREACHABLE for notice in server.notices))
            if fault:  # an API server that is away is asked for a while before the pass ends without an answer
                assert any("no bundle of theirs is removed" in notice.text for notice in server.notices)
            api.fault = None
            until(lambda: not server.files())
            until(lambda: any(notice.topic is Topic.CLEANED_UP for notice in server.notices))
            assert server.status(bundle) == 404
    finally:
        api.fault = None


# R12, R13: the way to the server


def test_r12_the_init_container_ends_in_time_and_says_where_it_looked(server: Stage, tmp_path: Path) -> None:
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}/v1/bundles/{bundle.id}"
    with pytest.raises(FetchError, match=rf"{url} was not fetched within 0\.3 s: .*refused"):
        server.fetch(bundle, made, tmp_path / "pod", URL=url, TIMEOUT_S="0.3")


def test_r12_a_server_that_says_nothing_is_left_in_time(server: Stage, tmp_path: Path) -> None:
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1/bundles/{bundle.id}"
        with pytest.raises(FetchError, match=r"within 0\.3 s: .*timed out"):
            server.fetch(bundle, made, tmp_path / "pod", URL=url, TIMEOUT_S="0.3")


def test_what_is_not_what_was_pushed_is_not_unpacked(server: Stage, tmp_path: Path) -> None:
    bundle, made = server.push(*written(tmp_path / "in", PAIR))
    archive = server.folder / "bundles" / f"{bundle.id}.tgz"
    damaged = bytearray(archive.read_bytes())
    damaged[-1] ^= 1
    archive.write_bytes(damaged)
    with pytest.raises(FetchError, match="not what was pushed"):
        server.fetch(bundle, made, tmp_path / "pod")
    archive.write_bytes(damaged[:-10])
    with pytest.raises(FetchError, match=r"within 0\.5 s: "):
        server.fetch(bundle, made, tmp_path / "pod", TIMEOUT_S="0.5")
    assert list((tmp_path / "pod").iterdir()) == []


def test_r13_both_sides_verify(tmp_path: Path, api: SwitchedApi) -> None:
    for name in ("ours", "others"):
        (tmp_path / name).mkdir()
    other = self_signed(tmp_path / "others", "127.0.0.1").certificate
    with stage(tmp_path, api, certificate=self_signed(tmp_path / "ours", "127.0.0.1")) as server:
        assert server.url.startswith("https:")
        paths = written(tmp_path / "in", PAIR)
        bundle, made = server.push(*paths)
        assert server.fetch(bundle, made, tmp_path / "pod") == PAIR
        place, _ = server.archive(paths)
        for ca in (None, other):
            with pytest.raises(PushFailed, match="cannot be trusted"):
                push_bundle(server.address._replace(ca=ca), place, made, "default", LABELS, 10)
            with pytest.raises(FetchError, match="cannot be trusted"):
                server.fetch(bundle, made, tmp_path / "pod", CA="" if ca is None else ca.read_text())
        plain = server.url.replace("https", "http")
        with pytest.raises(PushFailed, match=r"nothing within 0\.5 s"):
            push_bundle(StagingAddress(plain, TOKEN), place, made, "default", LABELS, 0.5)
        with pytest.raises(FetchError, match=r"within 0\.5 s"):
            server.fetch(bundle, made, tmp_path / "pod", URL=f"{plain}/v1/bundles/{bundle.id}", TIMEOUT_S="0.5")
        assert len(server.files()) == 2


def test_other_machines_reach_it_only_when_that_is_said() -> None:
    with pytest.raises(NotServed, match="other machines"):
        HttpBounds(address="0.0.0.0")
