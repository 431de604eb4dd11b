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

from podtide.domain.base.units import Millis
from podtide.entrypoints.common.app_config import FIXES
from podtide.entrypoints.common.namespace import namespace_of
from podtide.entrypoints.common.output import Misused, check_streams
from podtide.entrypoints.live.options import ACT, SHADOW, RunOptions

APP_ID_MAX: Final = 63

_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)?")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, None: 1_000}


def _duration(context: click.Context, option: click.Parameter, value: str | None) -> Millis | None:
    """A length of time: 90s, 15m, 2h; bare numbers are seconds."""
    if value is None:
        return None
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        why = f"{value!r} is no duration: expected a number and ms, s, m, h or d, such as 90s"
        raise click.BadParameter(why, context, option)
    return int(match[1]) * _UNITS[match[2]]


def app_id_of(context: click.Context, option: click.Parameter, value: str) -> str:
    """An application id that can be a label's value, which it is on every pod."""
    if not _LABEL.fullmatch(value) or len(value) > APP_ID_MAX:
        why = f"{value!r} cannot be a label: expected letters, digits, '-', '_' and '.', at most {APP_ID_MAX}"
        raise click.BadParameter(why, context, option)
    return value


@click.command()
@click.option("--app-id", required=True, callback=app_id_of, metavar="ID", help="spark.app.id of the application.")
@click.option(
    "--namespace", callback=namespace_of, metavar="NS", help="Where its pods are (the context's, or default)."
)
@click.option(
    "--kubeconfig", metavar="FILE", help="How to reach the cluster; without, $KUBECONFIG or the pod's identity."
)
@click.option("--context", metavar="NAME", help="Which context of the kubeconfig.")
@click.option(
    "--cluster",
    type=click.Choice(["local"]),
    help="A cluster of its own for this run, with hollow pods (docs/how-to/cluster.md).",
)
@click.option(
    "--properties-file", metavar="FILE", help="Settings in the form of spark-defaults.conf; --conf goes over it."
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; may be repeated.")
@click.option(
    "--mode", type=click.Choice([SHADOW, ACT]), default=SHADOW, show_default=True,
    help="Watch and decide beside Spark, writing nothing; or create and delete the pods.",
)  # fmt: skip
@click.option("--target", type=click.IntRange(0, 2**31 - 1), metavar="N", help="This many executors.")
@click.option("--schedule", metavar="FILE|TIME:N,...", help="Targets over time, such as 0:10,60:50,300:0 (seconds).")
@click.option("--lines", is_flag=True, help="Targets and kills as lines on standard input (docs/reference/live.md).")
@click.option("--driver", metavar="URL", help="The driver's web interface; dynamic allocation is decided here.")
@click.option("--driver-auth", metavar="ENV", help="Environment variable with a bearer token or user:password for it.")
@click.option(
    "--driver-interval", "driver_interval_ms", callback=_duration, metavar="TIME", default="500ms", show_default=True,
    help="How often to look at the driver; less often by itself where its answers are large or slow.",
)  # fmt: skip
@click.option(
    "--clean-shuffles-after", "shuffle_linger_ms", callback=_duration, metavar="TIME",
    help="With --driver: when a shuffle that no running job names counts as cleaned (never). A later job may read it.",
)  # fmt: skip
@click.option(
    "--fix", "fixes", multiple=True, metavar="NAME", help=f"A fix that Spark lacks: {', '.join(FIXES)}, or all."
)
@click.option(
    "--record", metavar="FILE", help="Record all that happens (.zst compresses); goes on with it after a crash."
)
@click.option("--overwrite", is_flag=True, help="Begin the recording anew though there is one.")
@click.option(
    "--on-exit", type=click.Choice(["keep", "delete"]), default="keep", show_default=True,
    help="What becomes of the pods when this process is told to end.",
)  # fmt: skip
@click.option(
    "--on-eof", type=click.Choice(["go-on", "stop"]), default="go-on", show_default=True, help="At the end of --lines."
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="Lines for people or JSON lines.",
)  # fmt: skip
@click.option("--view/--no-view", default=None, help="A live view; the default on a terminal.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65_535), metavar="PORT", help="Serve /metrics, /healthz and /readyz."
)
@click.option(
    "--metrics-address", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to serve them."
)
@click.option("--one-at-a-time", is_flag=True, help="Make calls in order, as Spark does, instead of side by side.")
@click.option("--workers", type=click.IntRange(1, 64), default=16, show_default=True, help="Calls side by side.")
@click.option("--create-rate", type=click.FloatRange(0.1, 10_000), metavar="N", help="At most so many pods a second.")
@click.option("--drain/--no-drain", default=True, help="Let executors go by their pod's grace period (decommission).")
@click.option(
    "--lease",
    "lease_ms",
    callback=_duration,
    default="60s",
    show_default=True,
    help="How long the lease lasts unrenewed.",
)
@click.option(
    "--lease-wait",
    "lease_wait_ms",
    callback=_duration,
    default="0s",
    show_default=True,
    help="Wait so long for another instance.",
)
@click.option("--for", "duration_ms", callback=_duration, metavar="TIME", help="End after this time, as if told to.")
@click.option("--conf-dir", metavar="FOLDER", help="SPARK_CONF_DIR: files for the executors' config map.")
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
              "--lines": options.lines, "--driver": options.driver is not None}  # fmt: skip
    chosen = [name for name, wanted in wishes.items() if wanted]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} both say what is wanted; choose one.")
    if options.acting and not chosen:
        raise click.UsageError("--mode act needs a target: --target, --schedule, --lines or --driver.")
    if not options.acting and options.delete_on_exit:
        raise click.UsageError("--on-exit delete: a shadow deletes nothing; --mode act does.")
    if options.driver is None and options.shuffle_linger_ms is not None:
        raise click.UsageError("--clean-shuffles-after: only --driver knows of shuffles.")
    if not 100 <= options.driver_interval_ms <= 60_000:
        raise click.UsageError("--driver-interval: expected 100ms to 60s.")
    if options.lease_ms < 2_000:
        raise click.UsageError("--lease: expected at least 2s, or every hiccup would end the lease.")
    if cluster is not None and (options.kubeconfig or options.context):
        raise click.UsageError(
            "--cluster local is another cluster than that of --kubeconfig and --context; choose one."
        )
    if cluster is not None and not options.acting:
        raise click.UsageError("--cluster local begins empty, so a shadow has nothing to see; --mode act fills it.")
    if options.record == "-":
        raise click.UsageError("--record writes to a file: a live recording is gone on with after a crash.")
    check_streams()
    from podtide.entrypoints.live.run import run_live  # noqa: PLC0415 - usage errors need none of it

    if cluster is None:
        return run_live(options)
    try:
        from podtide.entrypoints.cluster.run import hollow_cluster  # noqa: PLC0415 - it brings a server
    except ModuleNotFoundError as missing:
        raise Misused(f"the package {missing.name} is not installed; install podtide[kubernetes]") from None

    with hollow_cluster(options.namespace or "default") as kubeconfig:
        return run_live(replace(options, kubeconfig=str(kubeconfig)))
