"""``podtide stage serve | push | gc``: files for driver and executors, from a submitter without shared storage.

The token that uploads need is in a file, or in $PODTIDE_STAGE_TOKEN. Exit codes: 0; 2 usage, or an output that cannot be
written; 3 files, a template or a store that cannot be used; 4 the cluster or the staging server refuses or is not there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from podtide.entrypoints.common.cluster_options import namespace_of, reached
from podtide.entrypoints.common.output import check_streams, needing_kubernetes
from podtide.entrypoints.common.serving import FILE, listening
from podtide.entrypoints.common.types import SecondsType, SizeType

SIZE: Final = SizeType()
TIME: Final = SecondsType()


@click.group()
def stage() -> None:
    """Give local jars, Python files and files to the pods of an application, without storage that they share.

    A server takes bundles of files. An init container in each pod fetches its bundle with the bundle's secret. The server
    removes a bundle when its pods are gone, or when no pod fetched it in time.
    """


@stage.command()
@click.option(
    "--store", type=FILE, required=True, metavar="FOLDER", help="The folder of the bundles; it survives the server."
)
@listening(10_000, in_clear="secrets are", purpose="for uploads")
@reached
@click.option("--bundle-max", type=SIZE, default="2g", show_default=True, metavar="SIZE", help="Limit of one bundle.")
@click.option("--store-max", type=SIZE, default="20g", show_default=True, metavar="SIZE", help="Limit of all bundles.")
@click.option(
    "--free-min", type=SIZE, default="256m", show_default=True, metavar="SIZE", help="Disk space to keep free."
)
@click.option(
    "--unused", default="30m", show_default=True, type=TIME, metavar="DURATION",
    help="Remove a bundle that no pod fetched after this time.",
)  # fmt: skip
@click.option(
    "--ended", default="1h", show_default=True, type=TIME, metavar="DURATION",
    help="Remove a bundle this long after all of its pods ended.",
)  # fmt: skip
@click.option(
    "--absent", default="0s", show_default=True, type=TIME, metavar="DURATION",
    help="Remove a bundle this long after all of its pods were deleted.",
)  # fmt: skip
@click.option(
    "--every", default="30s", show_default=True, type=SecondsType(1), metavar="DURATION",
    help="Time between two looks for pods.",
)  # fmt: skip
def serve(**given: Any) -> int:
    """Run a staging server until it is stopped.

    It needs to list pods in the namespaces of its users. Where the API server refuses or cannot be reached, no bundle is
    removed, and a message says so. The store survives the server, also if the server is killed.
    """
    check_streams()
    with needing_kubernetes():
        from podtide.entrypoints.stage.serve import ServeOptions, run_server  # noqa: PLC0415 - usage errors need none
    return run_server(ServeOptions(**given))


@stage.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option(
    "--server", metavar="URL", help="The staging server. Without it only small files are possible, in a Secret."
)
@click.option("--pod-server", metavar="URL", help="The address of the server for pods (--server).")
@click.option("--token-file", type=FILE, metavar="FILE", help="File with the token for uploads.")
@click.option("--ca", type=FILE, metavar="FILE", help="The CA certificate to trust (PEM), also for pods.")
@click.option("--pod-ca", type=FILE, metavar="FILE", help="The CA certificate for pods, if it differs.")
@click.option(
    "--namespace",
    "-n",
    callback=namespace_of,
    default="default",
    show_default=True,
    metavar="NS",
    help="Namespace of the pods.",
)
@click.option(
    "--image", metavar="IMAGE", help="Image of the init container: any with python3, such as your Spark image."
)
@click.option("--template", type=FILE, metavar="FILE", help="Your own pod template; the init container is added to it.")
@click.option("--out", type=FILE, metavar="FOLDER", help="Write the files there instead of printing them.")
@click.option(
    "--timeout", default="10m", show_default=True, type=TIME, metavar="DURATION", help="Time limit of the upload."
)
@click.option(
    "--pod-timeout", default="5m", show_default=True, type=TIME, metavar="DURATION",
    help="Time limit of the fetch in each pod.",
)  # fmt: skip
def push(files: tuple[Path, ...], **given: Any) -> int:
    """Upload files for the pods of one application, and print how to submit it.

    That is a Secret, a pod template with an init container, and the command with its settings. In each pod the files are in
    /var/podtide/stage: jars on the class path, Python modules on PYTHONPATH. The secret is shown once.
    """
    check_streams()
    with needing_kubernetes():
        from podtide.entrypoints.stage.push import PushOptions, run_push  # noqa: PLC0415 - usage errors need none
    return run_push(PushOptions(files=files, **given))


@stage.command()
@click.option("--server", required=True, metavar="URL", help="The staging server.")
@click.option("--token-file", type=FILE, metavar="FILE", help="File with the token for uploads.")
@click.option("--ca", type=FILE, metavar="FILE", help="The CA certificate to trust (PEM).")
@click.option(
    "--timeout", default="2m", show_default=True, type=TIME, metavar="DURATION", help="Give up after this time."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def gc(**given: Any) -> int:
    """Make a server look now for bundles to remove.

    A bundle whose pods are gone is removed by the second look that finds none. Exit code 4 if the API server did not answer
    for all bundles.
    """
    check_streams()
    with needing_kubernetes():
        from podtide.entrypoints.stage.push import CollectOptions, run_collection  # noqa: PLC0415 - usage errors need none
    return run_collection(CollectOptions(**given))
