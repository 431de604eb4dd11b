"""``podtide stop``: delete what an application left behind on a cluster, whoever started it, until a list shows nothing.

Exit codes: 0, nothing is left; 2, the command line or the kubeconfig cannot be used, or the application is in use and
``--force`` was not given; 4, the API server refuses or cannot be reached, or something is left at the time-out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any, Final, TypedDict

import click

from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.api import ConnectionRefused, connect
from podtide.adapters.kubernetes.cleanup import DRIVERS, KINDS, USUAL, Left, Leftovers, UseUnknown, leftovers_of
from podtide.adapters.notices import Level, Notice, Topic
from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.format import count, some
from podtide.adapters.text.safe import escaped
from podtide.entrypoints.common.cluster_options import namespace_of, reached
from podtide.entrypoints.common.output import ClusterRefused, Misused, print_object, printed, refused_as
from podtide.entrypoints.common.types import SecondsType

CLAIMS: Final = "persistentvolumeclaims"
WORDS: Final = {
    DRIVERS: "driver pods",
    "pods": "executor pods",
    "configmaps": "config maps",
    CLAIMS: "volume claims",
    "statefulsets": "stateful sets",
}

_APP_ID: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NOTIFIED: Final = frozenset({Topic.THROTTLED, Topic.API_UNREACHABLE, Topic.API_BACK})


def _app_id(context: click.Context, option: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("it is empty; every pod of the namespace would be meant", context, option)
    if _APP_ID.fullmatch(value) is None:
        why = f"{escaped(value)!r} is no application id: expected what a label may hold, such as spark-0a1b2c"
        raise click.BadParameter(why, context, option)
    return value


def _kinds(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return USUAL
    kinds = [one.strip() for one in value.split(",") if one.strip()]
    known = [kind for kind in KINDS if kind != DRIVERS]
    strange = [one for one in kinds if one not in known]
    if strange or not kinds:
        why = f"{escaped(', '.join(strange))!r} is none; expected some of {', '.join(known)}"
        raise click.BadParameter(why, context, option)
    return tuple(kinds)


@click.command()
@click.option("--app-id", required=True, callback=_app_id, metavar="ID", help="The application (spark-app-selector).")
@click.option("--namespace", "-n", callback=namespace_of, metavar="NS", help="Its namespace (the context's).")
@reached
@click.option(
    "--timeout",
    default="2m",
    type=SecondsType(),
    show_default=True,
    metavar="DURATION",
    help="Give up after this time.",
)
@click.option("--kinds", callback=_kinds, metavar="KIND,...", help=f"What to delete ({', '.join(USUAL)}).")
@click.option("--include-claims", is_flag=True, help="Also delete the volume claims, with the data on their volumes.")
@click.option("--include-driver", is_flag=True, help="Also delete the driver pod.")
@click.option("--force", is_flag=True, help="Delete although the application is running.")
@click.option("--no-wait", is_flag=True, help="Do not wait for pods that are terminating.")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stop(
    app_id: str,
    namespace: str | None,
    kubeconfig: str | None,
    context_name: str | None,
    timeout: float,
    kinds: tuple[str, ...],
    include_claims: bool,
    include_driver: bool,
    force: bool,
    no_wait: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Delete what an application left behind on Kubernetes.

    The command deletes the executor pods, StatefulSets, Deployments, services, config maps and podtide's Lease of one
    application, also those of Spark itself, until a list shows none. It deletes volume claims only with --include-claims and
    the driver pod only with --include-driver. It never touches other pods. A running application (a driver pod that has not
    ended, a Lease that is renewed) needs --force; without it the exit code is 2. Exit code 4: the cluster refuses, or
    something is left at the time-out.
    """
    chosen = (*kinds, *((CLAIMS,) if include_claims else ()), *((DRIVERS,) if include_driver else ()))
    with refused_as(Misused, ConnectionRefused):
        api = connect(kubeconfig, context_name)
    place = namespace or api.namespace
    if place is None:
        raise Misused("which namespace? The context names none; say --namespace")
    try:
        leftovers = leftovers_of(api, place, app_id, timeout, SystemClock(), _notify, "calls")
        if not (force or dry_run):
            _check_use(leftovers, app_id, chosen)
        quiet = as_json or not sys.stderr.isatty()
        lefts = leftovers.look(chosen) if dry_run else leftovers.delete(chosen, _progress(quiet), gone=not no_wait)
    finally:
        api.close()
    with printed():
        if as_json:
            print_object(document(app_id, place, lefts, dry_run=dry_run))
        else:
            click.echo("\n".join(report(app_id, place, lefts, dry_run=dry_run)))
    complaints = [f"{_word(left.kind)}: {left.refusal}" for left in lefts if left.refusal is not None]
    if not as_json:
        for line in complaints:
            click.echo(f"podtide: {escaped(line, 2_000)}", err=True)
    refused = bool(complaints)
    return ClusterRefused.exit_code if refused or not (dry_run or all(left.clean for left in lefts)) else 0


def _check_use(leftovers: Leftovers, app_id: str, kinds: Sequence[str]) -> None:
    use = leftovers.in_use(kinds)
    if isinstance(use, UseUnknown):
        raise ClusterRefused(
            f"whether {app_id} is running cannot be told: {use.why}", "nothing was deleted; --force does not ask"
        )
    if use:
        raise Misused(f"{app_id} is running: {'; '.join(use)}", "nothing was deleted; --force deletes all the same")


def _notify(notice: Notice) -> None:
    """Refusals are said at the end, with their kind; what makes it slow is said at once."""
    if notice.topic in _NOTIFIED and notice.level is not Level.INFO:
        click.echo(f"podtide: {escaped(notice.text, 2_000)}", err=True)


def _progress(quiet: bool) -> Any:
    def show(kind: str, deleted: int) -> None:
        if not quiet:
            click.echo(f"podtide: {deleted:,} {_word(kind)} deleted", err=True)

    return show


def report(app_id: str, namespace: str, lefts: Sequence[Left], *, dry_run: bool) -> list[str]:
    """What was found, deleted and left, in lines for people; kinds of which there was nothing take no line."""
    lines = []
    for left in lefts:
        swept = left.swept
        if not (swept.found or swept.left):
            continue
        line = f"{_word(left.kind):<14} {swept.found:>6,} found"
        if dry_run:
            line += f", such as {_some(left)}" if swept.found > len(swept.names) else f": {_some(left)}"
        else:
            line += f", {swept.deleted:,} deleted"
        if not dry_run and swept.left:
            line += f", {swept.left:,} left: {_some(left)}"
        if swept.terminating:
            line += f" ({swept.terminating:,} terminating)"
        lines.append(line)
    unread = [_word(left.kind) for left in lefts if left.refusal is not None]
    remaining = sum(left.swept.left for left in lefts)
    where = f"{escaped(app_id)} in namespace {namespace}"
    if dry_run:
        lines.append(f"nothing was deleted: a dry run ({count(remaining, 'object')} of {where})")
    elif remaining or unread:
        what = count(remaining, "object") if remaining else "perhaps something"
        lines.append(f"{what} of {where} is left" if not remaining or remaining == 1 else f"{what} of {where} are left")
    else:
        lines.append(f"nothing is left of {where}")
    return lines


class StoppedKind(TypedDict):
    """What was found of a kind of object, and what is left. ``names``: some of those; ``refusal``: the API server's."""

    kind: str
    found: int
    deleted: int
    left: int
    terminating: int
    names: list[str]
    refusal: str | None


class StopDocument(TypedDict):
    """The outcome for an application's objects. ``clean``: nothing is left."""

    schema: str
    app_id: str
    namespace: str
    dry_run: bool
    clean: bool
    kinds: list[StoppedKind]


def document(app_id: str, namespace: str, lefts: Sequence[Left], *, dry_run: bool) -> StopDocument:
    """The same for machines."""
    return {
        "schema": schema_name("stop"),
        "app_id": app_id,
        "namespace": namespace,
        "dry_run": dry_run,
        "clean": all(left.clean for left in lefts),
        "kinds": [
            {
                "kind": left.kind,
                "found": left.swept.found,
                "deleted": left.swept.deleted,
                "left": left.swept.left,
                "terminating": left.swept.terminating,
                "names": list(left.swept.names if left.swept.left else ()),
                "refusal": left.refusal,
            }
            for left in lefts
        ],
    }


def _some(left: Left) -> str:
    names = [escaped(name) for name in left.swept.names[:5]]
    return some(names, len(names), left.swept.left)


def _word(kind: str) -> str:
    return WORDS.get(kind, kind)
