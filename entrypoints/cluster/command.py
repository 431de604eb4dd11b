"""``podtide cluster``: a Kubernetes of one's own on this machine, for one command or until it is told to end.

An API server and kubelets in this process, on loopback. With process kubelets executors are real: each pod is a process of
the local Spark. Hollow ones only tell what a pod's life would look like. No cluster, no containers, no root.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from podtide.entrypoints.common.cluster_options import namespace_of
from podtide.entrypoints.common.output import Misused, check_streams, needing_kubernetes


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--hollow", is_flag=True, help="Pods run nothing and only have a status; without, executors are local processes."
)
@click.option(
    "--cluster",
    type=click.Path(),
    metavar="FILE",
    help="What the cluster is like and what goes wrong, as YAML (docs/reference/fake-cluster.md); without, nothing does.",
)
@click.option(
    "--record",
    type=click.Path(),
    metavar="FILE",
    help="Write calls, changes and watch events, as JSON lines; FILE must not be there yet.",
)
@click.option(
    "--shuffle-service",
    is_flag=True,
    help="An external shuffle service: executors that go leave their shuffle files behind.",
)
@click.option("--view/--no-view", default=None, help="Without COMMAND, a live view; the default on a terminal.")
@click.option("--nodes", type=click.IntRange(1, 5_000), metavar="N", help="How many nodes (1; hollow: 10).")
@click.option(
    "--pods-per-node",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Pods that run at once on each (4; hollow: 100).",
)
@click.option(
    "--namespace", callback=namespace_of, default="default", show_default=True, metavar="NS", help="Where pods run."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, metavar="PORT", help="Of the API server; 0: a free one."
)
@click.option(
    "--tls/--no-tls", default=True, show_default=True, help="HTTPS; kubectl sends its token over HTTPS alone."
)
def cluster(command: tuple[str, ...], hollow: bool, view: bool | None, **given: Any) -> int:
    """Run a command on a Kubernetes of its own: podtide cluster -- python job.py

    The command runs as it is: KUBECONFIG, and SPARK_CONF_DIR with your own conf and spark.master, say where the cluster is.
    Executors are processes of the Spark that the command runs with. At the end nothing is left, and a summary says what
    happened. Without a command it stays, and prints what to paste. Exit code: the command's; 2 usage, 3 a conf or a
    cluster file that cannot be read, 4 no server or no Spark, 127 no such command, 130 interrupted.
    """
    if view and command:
        raise Misused("a live view is for a cluster without a command: the command has the terminal")
    check_streams()
    if hollow and given["shuffle_service"]:
        raise Misused("--shuffle-service: hollow pods shuffle nothing")
    with needing_kubernetes():
        from podtide.entrypoints.cluster.run import ClusterOptions, run_cluster  # noqa: PLC0415 - usage errors need none

    view = sys.stdout.isatty() if view is None else view
    return run_cluster(ClusterOptions(command=command, hollow=hollow, view=view, **given))
