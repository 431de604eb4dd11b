"""``podtide shuffle-service template | check | clean``: Spark's external shuffle service on a real cluster.

Exit codes: 0; 1 executors without a service; 2 usage; 3 a folder or template that cannot be read or used; 4 the cluster
refuses or is not there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from podtide.entrypoints.common.cluster_options import namespace_of, reached
from podtide.entrypoints.common.output import check_streams, needing_kubernetes
from podtide.entrypoints.common.types import SecondsType

FOLDER: Final = click.Path(path_type=Path)
LABELS: Final = "app.kubernetes.io/name=spark-shuffle-service"


def _namespaces(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name for value in values if (name := namespace_of(context, option, value)) is not None)


@click.group("shuffle-service")
def shuffle_service() -> None:
    """Spark's external shuffle service on a Kubernetes cluster: executors go, and their shuffle files stay."""


@shuffle_service.command()
@click.option(
    "--root",
    "roots",
    multiple=True,
    default=("/var/lib/spark-shuffle",),
    show_default=True,
    metavar="FOLDER",
    help="A folder of the node, at the same path in the service's pod. Repeatable.",
)
@click.option(
    "--labels",
    default=LABELS,
    show_default=True,
    metavar="KEY=VALUE,...",
    help="Those of the service's pods.",
)
@click.option(
    "--namespace", metavar="NS", callback=namespace_of, help="That of the service's pods. [default: the executors']"
)
@click.option("--port", type=click.IntRange(1, 65_535), default=7337, show_default=True, help="The service's.")
@click.option(
    "--template", type=FOLDER, metavar="FILE", help="The executors' pod template so far; what is in it is kept."
)
@click.option("--out", type=FOLDER, metavar="FOLDER", help="Write the files there.")
def template(**given: Any) -> int:
    """Print what an application needs to use the shuffle service of its nodes: settings, and a pod template for executors.

    Executors run on the network of the node, where the service is, and only on nodes that have one.
    """
    check_streams()
    from podtide.entrypoints.shuffle.template import TemplateOptions, run_template  # noqa: PLC0415 - usage errors need none

    return run_template(TemplateOptions(**given))


@shuffle_service.command()
@click.option(
    "--labels", default=LABELS, show_default=True, metavar="KEY=VALUE,...", help="Those of the service's pods."
)
@click.option("--services-namespace", metavar="NS", callback=namespace_of, help="Theirs. [default: the executors']")
@click.option("--namespace", metavar="NS", callback=namespace_of, help="The executors'. [default: the context's]")
@reached
@click.option("--follow", is_flag=True, help="Repeat the check, and print what changes, until stopped.")
@click.option(
    "--every",
    default="5s",
    show_default=True,
    type=SecondsType(1),
    metavar="DURATION",
    help="With --follow: how often to look.",
)
def check(**given: Any) -> int:
    """Show which shuffle service serves the executors of each node, and who has none, and why.

    An executor looks for the service at its own address, so one pod on its node has to be Ready there. Exit code 1 if an
    executor has no service, or a node has several. It needs to list pods in both namespaces.
    """
    check_streams()
    with needing_kubernetes():
        from podtide.entrypoints.shuffle.check import CheckOptions, run_check  # noqa: PLC0415 - usage errors need none
    return run_check(CheckOptions(**given))


@shuffle_service.command()
@click.option(
    "--root",
    "roots",
    type=FOLDER,
    multiple=True,
    required=True,
    metavar="FOLDER",
    help="Where executors have a folder for each application, named by its id. Repeatable.",
)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NS",
    callback=_namespaces,
    help="Whose driver pods are watched. Repeatable. [default: the context's, or the pod's own]",
)
@reached
@click.option(
    "--ended",
    default="1m",
    show_default=True,
    type=SecondsType(),
    metavar="DURATION",
    help="Remove files this long after their driver ended.",
)
@click.option(
    "--orphans",
    default="24h",
    show_default=True,
    type=SecondsType(),
    metavar="DURATION",
    help="Remove files that are not written to and whose driver pod is unknown after this time; 0: never.",
)
@click.option(
    "--every",
    default="30s",
    show_default=True,
    type=SecondsType(1),
    metavar="DURATION",
    help="Time between two looks for folders.",
)
@click.option("--once", is_flag=True, help="Look once, remove what can go now, and end.")
@click.option("--metrics-port", type=click.IntRange(0, 65_535), metavar="PORT", help="Serve /metrics. 0: a free port.")
@click.option("--metrics-address", default="127.0.0.1", show_default=True, metavar="ADDR", help="And where.")
def clean(**given: Any) -> int:
    """Remove the shuffle files of ended applications from this node, until stopped.

    Spark's shuffle service never learns on Kubernetes that an application ended. This watches driver pods; when one has
    ended or is gone, the API server itself is asked, and the files go only if no pod of the application is alive. Where it
    does not answer, or refuses, they stay. It needs to get, list and watch pods in each namespace.
    """  # fmt: skip
    check_streams()
    with needing_kubernetes():
        from podtide.entrypoints.shuffle.clean import CleanOptions, run_cleaner  # noqa: PLC0415 - usage errors need none
    return run_cleaner(CleanOptions(**given))
