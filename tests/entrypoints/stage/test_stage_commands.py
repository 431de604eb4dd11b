"""``podtide stage`` as people call it: a server as a process of its own, killed and started again; push and gc; refusals."""

from __future__ import annotations

import base64
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtide.adapters.staging.fetch_bundle import fetch
from podtide.adapters.staging.pod_template import FOLDER
from tests.adapters.staging.stage import SwitchedApi, pod
from tests.support.commands import PROGRAM, answer
from tests.support.project import environment

TOKEN = "0123456789abcdef"


@contextmanager
def served(kubeconfig: Path, folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server and its URL."""
    command = [*PROGRAM, "stage", "serve", "--store", str(folder / "store"), "--port", "0", "--free-min", "1m"]
    command += ["--kubeconfig", str(kubeconfig), "--token-file", str(folder / "token"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            line = ""
            while "http" not in line:
                line = process.stdout.readline()
                assert line, "the server has ended"
            found = re.search(r"https?://\S+(?=;)", line)
            assert found is not None
            yield process, found[0]
        finally:
            process.kill()


def pushed(url: str, folder: Path, *files: Path) -> dict[str, Any]:
    """The documents that a push leaves, by file."""
    out = folder / "out"
    options = ("--server", url, "--token-file", folder / "token", "--image", "spark", "--out", out)
    given = answer("stage", "push", *files, *options)
    assert given.code == 0, given.err
    assert f"kubectl apply -f {out}/secret.yaml" in given.out
    assert all((out / name).stat().st_mode & 0o077 == 0 for name in ("secret.yaml", "pod-template.yaml"))
    assert f"--conf spark.kubernetes.driver.podTemplateFile={out}/pod-template.yaml" in given.out
    documents: dict[str, Any] = {path.stem: yaml.safe_load(path.read_text()) for path in out.glob("*.yaml")}
    return documents


def run_init(documents: dict[str, Any], folder: Path) -> list[str]:
    """Do what the init container of a template does; the names of the files that it leaves."""
    (container,) = documents["pod-template"]["spec"]["initContainers"]
    env = {one["name"]: one.get("value", "") for one in container["env"]}
    env["PODTIDE_STAGE_SECRET"] = base64.b64decode(documents["secret"]["data"]["secret"]).decode()
    assert env["PODTIDE_STAGE_FOLDER"] == FOLDER
    folder.mkdir()
    fetch(env | {"PODTIDE_STAGE_FOLDER": str(folder), "PODTIDE_STAGE_TIMEOUT_S": "5"})
    return sorted(path.name for path in folder.iterdir())


def files_of(folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    made = [folder / "app.jar", folder / "module.py"]
    for path in made:
        path.write_text(path.name)
    return made


def test_r10_a_server_that_was_killed_goes_on_and_its_bundles_are_served(
    cluster: tuple[SwitchedApi, Path], tmp_path: Path
) -> None:
    api, kubeconfig = cluster
    files = files_of(tmp_path / "in")
    with served(kubeconfig, tmp_path) as (process, url):
        assert (tmp_path / "token").stat().st_mode & 0o077 == 0
        documents = pushed(url, tmp_path, *files)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with served(kubeconfig, tmp_path, "--port", url.rpartition(":")[2]) as (process, again):
        assert again == url
        assert run_init(documents, tmp_path / "driver") == ["app.jar", "module.py"]
        gc = ("stage", "gc", "--server", url, "--token-file", tmp_path / "token")
        assert answer(*gc).out == "0 bundles removed, 1 kept, 1 of them without pods\n"
        assert answer(*gc).out.endswith("is removed: its pods are gone\n1 bundle removed, 0 kept\n")
        assert answer(*gc, "--json").document["bundles"] == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 128 + signal.SIGTERM
    assert api.fault is None


def test_a_bundle_of_pods_that_run_is_kept_by_their_label(cluster: tuple[SwitchedApi, Path], tmp_path: Path) -> None:
    api, kubeconfig = cluster
    with served(kubeconfig, tmp_path, "--unused", "0s") as (_, url):
        documents = pushed(url, tmp_path, *files_of(tmp_path / "in"))
        labels = documents["pod-template"]["metadata"]["labels"]
        pod(api, "driver", labels=labels)
        gc = ("stage", "gc", "--server", url, "--token-file", tmp_path / "token")
        assert answer(*gc).out == "0 bundles removed, 1 kept\n"
        other = pushed(url, tmp_path, *files_of(tmp_path / "in"))
        assert other["pod-template"]["metadata"]["labels"] != labels
        assert answer(*gc).out.endswith("nobody fetched it in time\n1 bundle removed, 1 kept\n")


def test_r14_without_a_server_small_files_are_printed_as_a_secret(tmp_path: Path) -> None:
    jar, module = files_of(tmp_path)
    given = answer("stage", "push", module)
    secret, template = (yaml.safe_load(text) for text in re.split("# ---.*\n", given.out)[1:3])
    assert base64.b64decode(secret["data"]["module.py"]) == b"module.py"
    assert template["spec"]["volumes"][0]["secret"]["secretName"] == secret["metadata"]["name"]
    refused = answer("stage", "push", jar)
    assert (refused.code, refused.out) == (3, "")
    assert "app.jar is a jar: without --server only small files can be pushed" in refused.err


SERVE = "stage serve --store STORE --port 0 --kubeconfig KUBECONFIG"
PUSH = "stage push FILE --server http://127.0.0.1:1 --image i"


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (f"{SERVE} --address 0.0.0.0", 2, "secrets would travel in clear"),
        (f"{SERVE} --tls-cert FILE", 2, "go together"),
        (f"{SERVE} --tls-cert FILE --tls-key FILE", 4, "127.0.0.1:0"),
        (f"{SERVE} --token-file FILE", 2, "holds no token"),
        (f"{SERVE} --every 0s", 2, "expected 1ms to 1d"),
        ("stage serve --store FOLDER --port 0 --kubeconfig KUBECONFIG", 3, "is not empty and no store"),
        ("stage serve --store STORE --kubeconfig FILE", 4, "kubeconfig"),
        ("stage push FILE --server http://127.0.0.1:1", 2, "which --image"),
        (PUSH, 2, "which token?"),
        (f"{PUSH} --token-file TOKEN --timeout 100ms", 4, "nothing within 0.1 s"),
        ("stage push FILE --server ftp://x --image i --token-file TOKEN", 4, "no address of a staging server"),
        ("stage push FILE --server http://me@x --image i --token-file TOKEN", 4, "no address of a staging server"),
        (f"{PUSH} --token-file TOKEN --template FILE", 3, "FILE"),
        ("stage push FOLDER", 3, "is no file"),
        ("stage push FILE --namespace ../etc", 2, "is no namespace"),
        ("stage gc --server http://127.0.0.1:1 --token-file TOKEN --timeout 100ms", 4, "nothing within 0.1 s"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_line(
    cluster: tuple[SwitchedApi, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    code: int,
    told: str,
) -> None:
    monkeypatch.delenv("PODTIDE_STAGE_TOKEN", raising=False)
    places = {
        "STORE": tmp_path / "store",
        "FOLDER": tmp_path,
        "FILE": tmp_path / "file.py",
        "TOKEN": tmp_path / "token",
    }
    places["KUBECONFIG"] = cluster[1]
    places["FILE"].write_text("x = 1\n")
    places["TOKEN"].write_text(TOKEN)
    given = answer(*(places.get(word, word) for word in text.split()))
    assert (given.code, given.out) == (code, ""), given.err
    assert told.replace("FILE", str(places["FILE"])) in given.err
    assert "Traceback" not in given.err
