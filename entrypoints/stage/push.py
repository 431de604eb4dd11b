"""``podtide stage push`` and ``gc`` from their options to what they print."""

from __future__ import annotations

import secrets
import shlex
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from podtide.adapters.kubernetes.executor_pod.render import yaml_text
from podtide.adapters.kubernetes.executor_pod.template import PodTemplateError, read_template
from podtide.adapters.staging.archive import FilesRefused, staged_files, write_archive
from podtide.adapters.staging.pod_template import (
    LABEL,
    SECRET,
    TEMPLATE,
    BundleSource,
    Pasted,
    TemplateConflict,
    in_secret,
    of_bundle,
    path_of,
)
from podtide.adapters.staging.staging_client import PushFailed, StagingAddress, ask_for_pass, check_url, push_bundle
from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.format import count, size
from podtide.adapters.text.safe import cause, escaped
from podtide.entrypoints.common.output import (
    ClusterRefused,
    Misused,
    UnreadableInput,
    print_object,
    printed,
    refused_as,
    write_files,
)
from podtide.entrypoints.common.serving import given_token

VARIABLE: Final = "PODTIDE_STAGE_TOKEN"
"""Holds the token of uploads."""

OWNER_BYTES: Final = 8
PEM_MAX: Final = 64 * 1024


@dataclass(frozen=True)
class PushOptions:
    """What the command line says. Times in seconds."""

    files: tuple[Path, ...]
    server: str | None
    pod_server: str | None
    token_file: Path | None
    ca: Path | None
    pod_ca: Path | None
    namespace: str
    image: str | None
    template: Path | None
    out: Path | None
    timeout: float
    pod_timeout: float


@dataclass(frozen=True)
class CollectOptions:
    """What the command line of ``gc`` says."""

    server: str
    token_file: Path | None
    ca: Path | None
    timeout: float
    as_json: bool


def run_push(options: PushOptions) -> int:
    """Push, and print or write what to submit with. Raises a Refusal."""
    place = (options.out or Path.cwd()).absolute() / TEMPLATE
    with (
        refused_as(UnreadableInput, FilesRefused, PodTemplateError, TemplateConflict),
        refused_as(ClusterRefused, PushFailed),
    ):
        given = {} if options.template is None else read_template(str(options.template)).tree
        owner = secrets.token_hex(OWNER_BYTES)
        if options.server is None:
            pasted = in_secret(staged_files(options.files), owner, options.namespace, given, place)
        else:
            pasted = _pushed(options, options.server, owner, given, place)
    texts = {SECRET: yaml_text([pasted.secret]), TEMPLATE: yaml_text([pasted.template])}
    submit = _submission(options, pasted)
    with printed():
        if options.out is None:
            print("".join(f"# --- {name}\n{text}\n" for name, text in texts.items()) + f"# ---\n{submit}")
        else:
            write_files(options.out, texts, private=True)
            print(f"kubectl apply -f {shlex.quote(str(options.out / SECRET))}\n{submit}")
    return 0


def _submission(options: PushOptions, pasted: Pasted) -> str:
    """The command: settings on the command line, because a --properties-file would replace spark-defaults.conf."""
    lines = ["spark-submit --deploy-mode cluster"]
    lines += [f"  --conf {shlex.quote(f'{key}={value}')}" for key, value in pasted.conf.items()]
    programs = [file for file in staged_files(options.files) if file.name.endswith((".py", ".jar"))]
    return " \\\n".join([*lines, f"  {path_of(programs[-1])}" if programs else "  ..."])


def _pushed(options: PushOptions, server: str, owner: str, template: Mapping[str, Any], place: Path) -> Pasted:
    """Leave the files on the server."""
    if options.image is None:
        raise Misused("which --image has the init container? Any with python3 does, such as your Spark image")
    address = StagingAddress(check_url(server), _token(options.token_file), options.ca)
    pods = check_url(options.pod_server or server)
    ca = _pem(options.pod_ca or options.ca) if pods.startswith("https:") else None
    files = staged_files(options.files)
    # Whether the template can be used is known before anything is pushed.
    of_bundle(files, BundleSource("", "", "", 0, options.image, 0.0), owner, options.namespace, template, place)
    with tempfile.TemporaryDirectory(prefix="podtide-push-") as folder:
        archive = Path(folder) / "bundle.tgz"
        with archive.open("w+b") as out:
            made = write_archive(files, out)
        labels = ((LABEL, owner),)
        bundle = push_bundle(address, archive, made, options.namespace, labels, options.timeout)
    print(f"podtide: {count(len(files), 'file')}, {size(made.size)}, are bundle {bundle.id}", file=sys.stderr)
    source = BundleSource(
        f"{pods}/v1/bundles/{bundle.id}",
        bundle.secret,
        made.sha256,
        made.unpacked,
        options.image,
        options.pod_timeout,
        ca,
    )
    return of_bundle(files, source, owner, options.namespace, template, place)


def _token(file: Path | None) -> str:
    token = given_token(file, VARIABLE)
    if token is None:
        raise Misused(f"which token? Name --token-file, or set ${VARIABLE}")
    return token


def _pem(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        with file.open(encoding="ascii") as stream:
            return stream.read(PEM_MAX)
    except (OSError, UnicodeDecodeError) as problem:
        raise Misused(f"{escaped(str(file))} is no certificate: {cause(problem)}") from None


def run_collection(options: CollectOptions) -> int:
    """Have a server make a pass, and print what came of it. Raises a Refusal."""
    with refused_as(ClusterRefused, PushFailed):
        address = StagingAddress(check_url(options.server), _token(options.token_file), options.ca)
        answer = ask_for_pass(address, options.timeout)
    with printed():
        if options.as_json:
            print_object({"schema": schema_name("stage-gc"), **msgspec.to_builtins(answer)})
        else:
            for removal in answer.removed:
                print(f"{escaped(removal.id)} is removed: {escaped(removal.why)}")
            for unknown in answer.unknown:
                print(f"namespace {escaped(unknown.namespace)}: nothing is removed: {escaped(unknown.why)}")
            kept = answer.bundles - len(answer.removed)
            doubted = f", {answer.doubted} of them without pods" if answer.doubted else ""
            print(f"{count(len(answer.removed), 'bundle')} removed, {kept} kept{doubted}")
    return ClusterRefused.exit_code if answer.unknown else 0
