"""``podtide run``: the same decisions against a real cluster, in shadow beside Spark or in charge of its executors.

In shadow nothing is written: Spark's pods are watched, the same core decides beside Spark, and where the two part is told.
Acting, podtide creates and deletes the executor pods itself, behind a lease that one instance at a time holds. What is
wanted comes from one of: a number, a schedule, lines on standard input, the REST API of the Spark driver (dynamic allocation
then decides here), or, in shadow, the pods that Spark made.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from typing import Any, Final

import click

from podtide.entrypoints.common.app_config import FIXES
from podtide.entrypoints.common.cluster_options import namespace_of, reached
from podtide.entrypoints.common.option_groups import ExpertOption, SectionedCommand, configured, decided
from podtide.entrypoints.common.output import check_streams, needing_kubernetes
from podtide.entrypoints.common.types import SECOND, YEARS, DurationType
from podtide.entrypoints.live.options import ACT, SHADOW, RunOptions

APP_ID_MAX: Final = 63

_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def app_id_of(context: click.Context, option: click.Parameter, value: str) -> str:
    """An application id that can be a label's value, which it is on every pod."""
    if not _LABEL.fullmatch(value) or len(value) > APP_ID_MAX:
        why = f"{value!r} cannot be a label: expected letters, digits, '-', '_' and '.', at most {APP_ID_MAX}"
        raise click.BadParameter(why, context, option)
    return value


@click.command(cls=SectionedCommand)
@click.option("--app-id", required=True, callback=app_id_of, metavar="ID", help="spark.app.id of the application.")
@click.option(
    "--namespace", "-n", callback=namespace_of, metavar="NS", help="Namespace of its pods (the context's, or default)."
)
@reached
@click.option(
    "--cluster",
    type=click.Choice(["local"]),
    help="Start a cluster for this run alone, with hollow pods (docs/how-to/cluster.md).",
)
@configured("A Spark setting; may be repeated.")
@click.option(
    "--mode", type=click.Choice([SHADOW, ACT]), default=SHADOW, show_default=True,
    help="shadow: watch and decide beside Spark, write nothing. act: create and delete the pods.",
)  # fmt: skip
@click.option("--target", type=click.IntRange(0, 2**31 - 1), metavar="N", help="Keep this many executors.")
@click.option("--schedule", metavar="FILE|TIME:N,...", help="Targets over time, such as 0:10,60:50,300:0 (seconds).")
@click.option(
    "--lines", is_flag=True, help="Read targets and kills as lines from standard input (docs/reference/live.md)."
)
@click.option(
    "--driver-url", metavar="URL",
    help="Decide by what the Spark UI at this URL says; podtide runs dynamic allocation itself.",
)  # fmt: skip
@click.option(
    "--driver-auth", cls=ExpertOption, metavar="ENV",
    help="Environment variable that holds a bearer token or user:password for --driver-url.",
)  # fmt: skip
@click.option(
    "--driver-interval", "driver_interval_ms", cls=ExpertOption, type=DurationType(100, 60 * SECOND),
    metavar="DURATION", default="500ms", show_default=True,
    help="Time between two requests to the driver; podtide asks less often where answers are large or slow.",
)  # fmt: skip
@click.option(
    "--clean-shuffles-after", "shuffle_linger_ms", cls=ExpertOption, type=DurationType(most=YEARS), metavar="DURATION",
    help="With --driver-url: a shuffle that no running job names counts as cleaned after this (never).",
)  # fmt: skip
@decided(FIXES)
@click.option(
    "--record", metavar="FILE", help="Record all that happens (.zst compresses); after a crash the same file continues."
)
@click.option("--overwrite", is_flag=True, help="Let --record replace a file.")
@click.option(
    "--on-exit", type=click.Choice(["keep", "delete"]), default="keep", show_default=True,
    help="Keep or delete the pods on exit.",
)  # fmt: skip
@click.option(
    "--on-eof", cls=ExpertOption, type=click.Choice(["go-on", "stop"]), default="go-on", show_default=True,
    help="What to do at the end of --lines.",
)  # fmt: skip
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="Log lines as text or as JSON.",
)  # fmt: skip
@click.option("--view/--no-view", default=None, help="Show a live view (the default on a terminal).")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65_535), metavar="PORT", help="Serve /metrics, /healthz and /readyz."
)
@click.option(
    "--metrics-address", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="Address of --metrics-port.",
)  # fmt: skip
@click.option(
    "--one-at-a-time", cls=ExpertOption, is_flag=True,
    help="Send API calls one after the other, as Spark does, instead of concurrently.",
)  # fmt: skip
@click.option(
    "--api-concurrency", cls=ExpertOption, type=click.IntRange(1, 64), default=16, show_default=True, metavar="N",
    help="API calls at the same time.",
)  # fmt: skip
@click.option(
    "--create-rate", cls=ExpertOption, type=click.FloatRange(0.1, 10_000), metavar="N",
    help="Create at most this many pods a second.",
)  # fmt: skip
@click.option(
    "--drain/--no-drain", cls=ExpertOption, default=True,
    help="Let executors end within their pod's grace period (decommission).",
)  # fmt: skip
@click.option(
    "--lease", "lease_ms", cls=ExpertOption, type=DurationType(2 * SECOND, YEARS), default="60s", show_default=True,
    metavar="DURATION", help="The lease ends if it is not renewed for this long.",
)  # fmt: skip
@click.option(
    "--lease-wait", "lease_wait_ms", cls=ExpertOption, type=DurationType(most=YEARS), default="0s", show_default=True,
    metavar="DURATION", help="Wait this long for the lease of another instance.",
)  # fmt: skip
@click.option(
    "--duration", "duration_ms", type=DurationType(most=YEARS), metavar="DURATION", help="Stop after this time."
)
@click.option(
    "--conf-dir", cls=ExpertOption, metavar="FOLDER", help="SPARK_CONF_DIR: files for the executors' config map."
)
def run(mode: str, on_exit: str, on_eof: str, view: bool | None, cluster: str | None, **given: Any) -> int:
    """Run executor allocation against a real cluster: in shadow beside Spark, or in charge.

    In shadow nothing is written. With --mode act pods are created and deleted, by one instance at a time; the driver must
    leave them alone (docs/how-to/live.md). SIGTERM ends it cleanly. Exit code 0 at its end; 2 usage or
    configuration, 3 a file that cannot be read, 4 the cluster (unreachable, refused, the lease is held, too many failures),
    130 interrupted.
    """
    on_terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"
    options = RunOptions(
        acting=mode == ACT,
        delete_on_exit=on_exit == "delete",
        stop_at_end_of_input=on_eof == "stop",
        view=(on_terminal and given["log_format"] == "text") if view is None else view,
        **given,
    )
    wishes = {"--target": options.target is not None, "--schedule": options.schedule is not None,
              "--lines": options.lines, "--driver-url": options.driver_url is not None}  # fmt: skip
    chosen = [name for name, wanted in wishes.items() if wanted]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} both say what is wanted; choose one.")
    if options.acting and not chosen:
        raise click.UsageError("--mode act needs a target: --target, --schedule, --lines or --driver-url.")
    if not options.acting and options.delete_on_exit:
        raise click.UsageError("--on-exit delete: a shadow deletes nothing; --mode act does.")
    if options.driver_url is None and options.shuffle_linger_ms is not None:
        raise click.UsageError("--clean-shuffles-after: only --driver-url knows of shuffles.")
    if cluster is not None and (options.kubeconfig or options.context_name):
        raise click.UsageError(
            "--cluster local is another cluster than that of --kubeconfig and --context; choose one."
        )
    if cluster is not None and not options.acting:
        raise click.UsageError("--cluster local begins empty, so a shadow has nothing to see; --mode act fills it.")
    if options.record == "-":
        raise click.UsageError("--record writes to a file: a live recording continues after a crash.")
    check_streams()
    from podtide.entrypoints.live.run import run_live  # noqa: PLC0415 - usage errors need none of it

    if cluster is None:
        return run_live(options)
    with needing_kubernetes():
        from podtide.entrypoints.cluster.run import hollow_cluster  # noqa: PLC0415 - it brings a server

    with hollow_cluster(options.namespace or "default") as kubeconfig:
        return run_live(replace(options, kubeconfig=str(kubeconfig)))
