"""``podtide stage serve | push | gc``: files for driver and executors, from a submitter without shared storage.

The token that uploads need is in a file, or in $PODTIDE_STAGE_TOKEN. Exit codes: 0; 2 usage, or an output that cannot be
written; 3 files, a template or a store that cannot be used; 4 the cluster or the staging server refuses or is not there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from podtide.entrypoints.common.duration import duration_of
from podtide.entrypoints.common.namespace import namespace_of
from podtide.entrypoints.common.output import Misused, check_streams

MIB: Final = 1024 * 1024
SIZE: Final = click.IntRange(1, 2**40)
FILE: Final = click.Path(path_type=Path)


@click.group()
def stage() -> None:
    """Leave local jars, Python files and files for the pods of an application, without storage that they share.

    A server takes bundles of files and hands them to whoever has their secret; an init container fetches them. A bundle goes
    when its pods are gone, or when nobody fetched it in time.
    """


@stage.command()
@click.option("--store", type=FILE, required=True, metavar="FOLDER", help="Where bundles are; outlives the server.")
@click.option("--address", default="127.0.0.1", show_default=True, metavar="ADDR", help="0.0.0.0: for other machines.")
@click.option("--port", type=click.IntRange(0, 65_535), default=10_000, show_default=True, help="0: a free one.")
@click.option("--tls-cert", type=FILE, metavar="FILE", help="HTTPS with this certificate (PEM), and --tls-key.")
@click.option("--tls-key", type=FILE, metavar="FILE", help="Its key (PEM).")
@click.option("--plain", is_flag=True, help="Let other machines in without TLS: secrets travel in clear.")
@click.option(
    "--token-file", type=FILE, metavar="FILE", help="Holds the token of uploads; is made where there is none."
)
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster ($KUBECONFIG, the pod's own, ~/.kube).")
@click.option("--context", "context_name", metavar="NAME", help="A context of the kubeconfig (the current one).")
@click.option("--bundle-max", type=SIZE, default=2_048, show_default=True, metavar="MIB", help="Of one bundle.")
@click.option("--store-max", type=SIZE, default=20_480, show_default=True, metavar="MIB", help="Of all bundles.")
@click.option("--free-min", type=SIZE, default=256, show_default=True, metavar="MIB", help="What the disk keeps free.")
@click.option(
    "--unused", default="30m", show_default=True, callback=duration_of, help="How long an unused bundle stays."
)
@click.option(
    "--ended", default="1h", show_default=True, callback=duration_of, help="And one whose pods have all ended."
)
@click.option("--absent", default="0s", show_default=True, callback=duration_of, help="And one whose pods are gone.")
@click.option("--every", default="30s", show_default=True, callback=duration_of, help="How often pods are looked for.")
def serve(bundle_max: int, store_max: int, free_min: int, **given: Any) -> int:
    """Run a staging server until it is told to end.

    It needs to list pods in the namespaces of its users. Where the API server refuses or is away, no bundle is removed, and
    this says so. What is in the store survives the server, however it ends.
    """
    check_streams()
    try:
        from podtide.entrypoints.stage.serve import ServeOptions, run_server  # noqa: PLC0415 - usage errors need none
    except ModuleNotFoundError as missing:
        raise Misused(f"the package {missing.name} is not installed; install podtide[kubernetes]") from None
    sizes = (bundle_max * MIB, store_max * MIB, free_min * MIB)
    return run_server(ServeOptions(*sizes, **given))


@stage.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--server", metavar="URL", help="The staging server. Without: small files alone, in a Secret.")
@click.option("--pod-server", metavar="URL", help="The same as pods reach it (--server).")
@click.option("--token-file", type=FILE, metavar="FILE", help="Holds the token of uploads.")
@click.option("--ca", type=FILE, metavar="FILE", help="The certificate to trust (PEM), also for pods.")
@click.option("--pod-ca", type=FILE, metavar="FILE", help="The one for pods, where it is another.")
@click.option(
    "--namespace", "-n", callback=namespace_of, default="default", show_default=True, metavar="NS", help="Of the pods."
)
@click.option("--image", metavar="IMAGE", help="Of the init container: any with python3, such as your Spark image.")
@click.option("--template", type=FILE, metavar="FILE", help="A pod template of your own, which is kept.")
@click.option("--out", type=FILE, metavar="FOLDER", help="Write the files there instead of printing them.")
@click.option("--timeout", default="10m", show_default=True, callback=duration_of, help="For the upload.")
@click.option("--pod-timeout", default="5m", show_default=True, callback=duration_of, help="For the fetch in each pod.")
def push(files: tuple[Path, ...], **given: Any) -> int:
    """Leave files for the pods of one application, and print what to submit it with.

    That is a Secret, a pod template with an init container, and the command with its settings. In each pod the files are in
    /var/podtide/stage: jars on the class path, Python modules on PYTHONPATH. The secret is shown once.
    """
    check_streams()
    try:
        from podtide.entrypoints.stage.push import PushOptions, run_push  # noqa: PLC0415 - usage errors need none
    except ModuleNotFoundError as missing:
        raise Misused(f"the package {missing.name} is not installed; install podtide[kubernetes]") from None
    return run_push(PushOptions(files=files, **given))


@stage.command()
@click.option("--server", required=True, metavar="URL", help="The staging server.")
@click.option("--token-file", type=FILE, metavar="FILE", help="Holds the token of uploads.")
@click.option("--ca", type=FILE, metavar="FILE", help="The certificate to trust (PEM).")
@click.option("--timeout", default="2m", show_default=True, callback=duration_of, help="Give up after this.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def gc(**given: Any) -> int:
    """Have a server look now for bundles that can go.

    A bundle whose pods are gone goes with the second pass that sees none. Exit code 4 where the API server did not answer
    for all bundles.
    """
    check_streams()
    try:
        from podtide.entrypoints.stage.push import CollectOptions, run_collection  # noqa: PLC0415 - usage errors need none
    except ModuleNotFoundError as missing:
        raise Misused(f"the package {missing.name} is not installed; install podtide[kubernetes]") from None
    return run_collection(CollectOptions(**given))
