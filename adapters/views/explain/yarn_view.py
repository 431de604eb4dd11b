"""What happened to an executor's container, and how the YARN side stood at a moment, in rows for people.

The part of ``views.explain.view`` that speaks of containers; made of the documents that ``podtide explain --json`` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from podtide.adapters.text.format import count, lasting, some
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.stats.yarn import status_words
from podtide.adapters.views.timeline.decisions import decided_rows, hold_words
from podtide.adapters.views.timeline.scaling_rows import TimelineRow
from podtide.adapters.views.timeline.yarn_decisions import location_words, named, short, text
from podtide.domain.base.units import Millis
from podtide.domain.protocol.cluster_config import INT_MAX

Clock = Callable[[Millis], str]
"""A time since the start, as the page shows it."""

EXCLUDED_SHOWN: Final = 8


def entry_rows(entry: Mapping[str, Any], clock: Clock) -> list[TimelineRow] | None:
    """An entry of a container's history; None for what histories of pods have, too."""
    at = entry["at_ms"]
    match entry["what"]:
        case "requested":
            return _requested(entry, clock)
        case "given":
            size = f"{entry['memory_mib']:,} MiB, {count(entry['vcores'], 'core')}"
            others = [f"with {count(entry['others'], 'other')}"] if entry["others"] else []
            why = [f"on {text(entry['host'])}", size, *others]
            return [TimelineRow(at, "raised", f"given {short(entry['container'])}", why)]
        case "matched":
            return [TimelineRow(at, "quiet", f"takes request {entry['request']:,}", _matched(entry))]
        case "launch ended":
            after = f"after {lasting(entry['took_ms'])}"
            if entry["failure"] is None:
                return [TimelineRow(at, "raised", "launched", [after])]
            fatal = ["which ends the application"] if entry["fatal"] else []
            return [TimelineRow(at, "threw", "launch failed", [text(entry["failure"]), after, *fatal])]
        case "completed":
            return [TimelineRow(at, "killed", "container completed", _completed(entry))]
        case "master registered":
            why = ["it registered anew: its allocator knows nothing of before"]
            return [TimelineRow(at, "threw", "a new application master", why)]
        case "decided" if entry.get("command") == "releaseContainers":
            (row,) = decided_rows({key: value for key, value in entry.items() if key not in ("line", "what", "others")})
            others = [f"with {count(entry['others'], 'other')}"] if entry.get("others") else []
            return [row._replace(what="given back", why=[*row.why[:-1], *others])]
        case "decided" if entry.get("command") == "removeExecutor" and "said" in entry:
            reason = entry["reason"]
            code = reason.get("exit_code")
            status = status_words(code) if isinstance(code, int) else escaped(str(reason.get("kind", "")))
            cause = [] if entry["cause"] == "container completed" else [escaped(entry["cause"])]
            message = [] if entry["said"] or not reason.get("message") else [text(reason["message"])]
            return [TimelineRow(at, "killed", "the driver removes it", [status, *cause, *message])]
        case "decided" if entry.get("command") == "updateExclusions":
            return [TimelineRow(at, "held", "its host is excluded", [named(entry["added"])])]
        case _:
            return None


def _requested(entry: Mapping[str, Any], clock: Clock) -> list[TimelineRow]:
    """Why it was asked for, with how many others, where, and what had held it back."""
    at, facts, number = entry["at_ms"], entry["facts"], entry["requests"]
    missing, target = facts.get("missing"), facts.get("target")
    known = isinstance(missing, int) and isinstance(target, int)
    why = f"{missing:,} missing of {target:,}" if known else "below target"
    others = [f"one of {number:,} containers"] if number > 1 else []
    near = number - entry["anywhere"]
    where = "anywhere"
    if near:
        whose = "near its data" if number == 1 else f"{near:,} near their data"
        more = f" ({count(entry['hosts_total'], 'host')} in all)" if entry["hosts_total"] > len(entry["hosts"]) else ""
        where = f"{whose} on {named(entry['hosts'])}{more}"
    requested = TimelineRow(at, "raised", "requested", [why, *others, where, f"profile {entry['profile']}"])
    return [requested, *target_rows(entry, clock), *hold_rows(entry, clock, "waiting at that time")]


def target_rows(entry: Mapping[str, Any], clock: Clock) -> list[TimelineRow]:
    """For which target something was asked for, and how long that had been set."""
    target = entry["target"]
    if target is None:
        return []
    since = f"set at {clock(target['at_ms'])}, {lasting(entry['waited_ms'])} before"
    return [TimelineRow(entry["at_ms"], "quiet", f"for target {target['target']:,}", [since, escaped(target["cause"])])]


def hold_rows(entry: Mapping[str, Any], clock: Clock, what: str) -> list[TimelineRow]:
    """What was holding back when something was asked for."""
    at = entry["at_ms"]
    holds = ((hold, clock(hold["since_ms"])) for hold in entry["held"])
    return [TimelineRow(at, "held", what, [hold_words(hold, at, since)]) for hold, since in holds]


def _matched(entry: Mapping[str, Any]) -> list[str]:
    """How near to its wish it is."""
    where = {
        "host": f"on a wished host ({text(entry['location'])})",
        "rack": f"on the rack of a wished host ({text(entry['location'])})",
        "anywhere": "anywhere: it is on no host and no rack of a request that waits",
    }[entry["near"]]
    if entry["near"] == "anywhere" and not entry["wished_total"]:
        return ["the request had no wish"]
    if not entry["wished_total"]:
        return [location_words(entry["location"])]
    wished = list(map(text, entry["wished"]))
    return [where, f"wished for {some(wished, len(wished), entry['wished_total'])}"]


def _completed(entry: Mapping[str, Any]) -> list[str]:
    """With which status, whose fault, and what YARN said."""
    if entry["given_back"]:
        parts = [f"exit status {entry['status']}", "it was given back before, so this is no failure"]
    else:
        parts = [status_words(entry["status"])]
        parts.append("the application's fault" if entry["by_app"] else "not the application's fault")
        counts = "counts as a failure" if entry["counts"] else "does not count as a failure"
        if entry["counts"] and entry["host_excluded"]:
            counts += ", unless failures of excluded hosts are passed over (excludeOnFailure)"
        parts.append(counts)
    if entry["diagnostics"]:
        parts.append(text(entry["diagnostics"]))
    return parts


HEADS: Final = ("profile", "target", "running", "starting", "requested", "on hosts", "stale", "anywhere")
KEYS: Final = ("target", "running", "starting", "pending", "local", "stale", "anywhere")
"""Columns of the table of a moment, and where they stand in its document."""


def standing_words(document: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """How the rest of the YARN side stands: labels, and what there is to say."""
    rows: list[tuple[str, list[str]]] = []
    hosts = [f"{entry['containers']:,} on {text(entry['host'])}" for entry in document["hosts"]]
    more = document["hosts_total"] - len(hosts)
    rows.append(("containers", [*hosts, *([f"and {count(more, 'more host')}"] if more > 0 else [])] or ["none"]))
    executors = [f"{number:,} {name.replace('_', ' ')}" for name, number in document["executors"].items() if number]
    rows.append(("executors", executors or ["none registered"]))
    failures = document["failures"]
    if failures["counted"]:
        counted, maximum = failures["counted"], failures["maximum"]
        endless = maximum >= INT_MAX
        ends = "no number of them ends the application" if endless else f"at {maximum:,} the application ends"
        rows.append(("failures", [f"{counted:,} that {'counts' if counted == 1 else 'count'}", ends]))
    if document["excluded"]:
        shown = [text(host) for host in document["excluded"][:EXCLUDED_SHOWN]]
        left = document["excluded_total"] - len(shown)
        rows.append(("excluded", [*shown, *([f"and {left:,} more"] if left > 0 else [])]))
    if document["released"]:
        rows.append(("given back", [f"{count(document['released'], 'container')} whose end is not reported yet"]))
    return rows
