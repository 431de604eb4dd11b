"""A submitter on a cluster without shared storage: ``python stage_submit.py FOLDER ANSWER``, under ``podtide cluster --``.

FOLDER/in has the application, its module and its jar. They go to a staging server with TLS, and the originals are deleted
before spark-submit runs the command that ``podtide stage push`` printed. Prints JSON: what became of the bundle.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import yaml

from podtide.adapters.http_server.certificate import self_signed
from podtide.adapters.kubernetes.api import connect

PODTIDE = (sys.executable, "-m", "podtide", "stage")
SMALL = ("spark.executor.instances=1", "spark.executor.memory=512m", "spark.driver.memory=512m")
PODS = "/api/v1/namespaces/default/pods"


def ran(*command: str) -> str:
    """Standard output of a command that succeeds; what it complains of is this program's."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def main(folder: Path, answer: str) -> None:
    """Submit, and look what is left."""
    made = self_signed(folder, "127.0.0.1")
    token = ("--token-file", str(folder / "token"), "--ca", str(made.certificate))
    serve = [*PODTIDE, "serve", "--store", str(folder / "store"), "--port", "0", "--token-file", token[1]]
    serve += ["--free-min", "1m", "--every", "1h", "--tls-cert", str(made.certificate), "--tls-key", str(made.key)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = next(filter(None, (re.search(r"https://\S+(?=;)", line) for line in server.stdout)))
            submit(folder, answer, found[0], token)
        finally:
            server.terminate()


def submit(folder: Path, answer: str, url: str, token: tuple[str, ...]) -> None:
    """Push, submit, and have the server collect."""
    files = [str(folder / "in" / name) for name in ("twice.jar", "only_here.py", "main.py")]
    options = ("--server", url, *token, "--image", "podtide.local/spark", "--out", str(folder / "out"))
    printed = ran(*PODTIDE, "push", *files, *options)
    shutil.rmtree(folder / "in")
    with closing(connect()) as api:
        secret = yaml.safe_load((folder / "out" / "secret.yaml").read_text())
        body = json.dumps(secret).encode()
        assert api.call("create", "secrets", "/api/v1/namespaces/default/secrets", body=body).ok
        small = " ".join(f"--conf {setting}" for setting in SMALL)
        command = printed.partition("\n")[2].strip().replace("spark-submit", f"spark-submit {small}", 1)
        subprocess.run(["bash", "-c", f"{command} {answer}"], check=True)  # as it is pasted
        gc = (*PODTIDE, "gc", "--server", url, *token)
        ended = ran(*gc)
        for pod in json.loads(api.call("list", "pods", PODS).body)["items"]:
            assert api.call("delete", "pods", f"{PODS}/{pod['metadata']['name']}").ok
        removed = [ran(*gc), ran(*gc)]
    left = sorted(path.name for path in (folder / "store" / "bundles").iterdir())
    print(json.dumps({"ended": ended, "removed": removed, "left": left}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
