"""Decisions about containers, and what entered a step on YARN, in words: a row each, as in ``views.timeline.decisions``.

What is told here is made of records, so that decisions read from a file and decisions just taken read alike. Names of hosts,
containers and what YARN said of an end come from a stranger and are escaped and cut; the page escapes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from podtide.adapters.text.format import count, ids, joined, some
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.stats.yarn import status_words
from podtide.adapters.views.timeline.reasons import one_line, profile_words
from podtide.adapters.views.timeline.scaling_rows import Words
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.containers import ANY_HOST, Completion, Container, NodeReport

TEXT_MAX: Final = 240
"""Characters of one text of a stranger that are shown."""

text: Final = partial(one_line, shown_max=TEXT_MAX)

SHOWN: Final = 4
"""Hosts and containers of one row that are named."""

T = TypeVar("T")

CONTAINER_BOUNDS: Final = {
    "waiting for the resource manager": "the resource manager",
    "all nodes excluded": "the exclusion of every node",
}
"""Bounds of the YARN side as people name them."""


def container_words(record: Mapping[str, Any]) -> list[Words] | None:
    """What a command of the YARN side says, row by row; None for any other."""
    facts, cause = record.get("facts", {}), str(record.get("cause", ""))
    of = profile_words(record.get("profile"))
    match record:
        case {"command": "requestContainers"}:
            number = requested(record)
            first = record.get("first")
            numbers = [f"requests {first:,} to {first + number - 1:,}"] if isinstance(first, int) and number > 1 else []
            parts = [_missing(facts), wished(record.get("layout"), number, record.get("anywhere", 0))]
            return [("raised", f"request {count(number, 'container')}", [*parts, *numbers, *sized(record), *of])]
        case {"command": "cancelRequests", "spans": spans}:
            why = {"locality": "to ask anew where the data is", "above target": _above(facts)}.get(cause, cause)
            return [("lowered", f"cancel {count(_size(spans), 'request')}", [why, *of])]
        case {"command": "callResourceManager"}:
            pending = facts.get("pending")
            waiting = [f"{count(pending, 'request')} waiting"] if isinstance(pending, int) and pending else []
            return [("quiet", "heartbeat", waiting)]
        case {"command": "takeRequests", "matches": matches}:
            return [("quiet", f"match {count(len(matches), 'container')}", [*_matches(matches), *of])]
        case {"command": "releaseContainers", "containers": containers}:
            parts = [*released(cause, facts), shorts(containers)]
            return [("killed", f"release {count(len(containers), 'container')}", parts)]
        case {"command": "launchExecutor", "executor": executor, "host": host}:
            running, target = facts.get("running"), facts.get("target")
            why = f"{running:,} of {target:,} run" if isinstance(running, int) and isinstance(target, int) else cause
            parts = [f"on {text(host)}", f"in {short(record['container'])}", why, *of]
            return [("raised", f"launch executor {text(executor)}", parts)]
        case {"command": "updateExclusions"}:
            changes = (("held", "exclude", record.get("added")), ("quiet", "include", record.get("removed")))
            rows: list[Words] = [
                (mark, f"{verb} {count(len(hosts), 'host')}", [named(hosts), _excluded(facts)])
                for mark, verb, hosts in changes
                if hosts
            ]
            return rows or [("quiet", "exclude nothing", [])]
        case {"command": "decommissionHost", "host": host}:
            return [("killed", f"decommission {text(host)}", ["its node is being decommissioned"])]
        case {"command": "tellLossReason", "executor": executor}:
            return [("quiet", f"why executor {text(executor)} is gone", [loss_words(record)])]
        case {"command": "endApplication", "status": status, "exit_code": code}:
            parts = [text(record.get("message", "")), f"exit code {code}", cause]
            return [("threw", f"end: {text(status)}", parts)]
        case _:
            return None


def heard_containers(stimulus: object) -> str | None:
    """A stimulus of the YARN side in a line; None for any other."""
    match stimulus:
        case ym.ResourcesAnswered():
            return f"the resource manager {answer_words(stimulus)}"
        case ym.ResourcesRefused(what=what, fatal=fatal):
            return f"the heartbeat failed{', for good' if fatal else ''}: {text(what)}"
        case ym.LaunchEnded(executor=executor, failure=None):
            return f"the launch of executor {text(executor)} is through"
        case ym.LaunchEnded(executor=executor, failure=failure):
            return f"the launch of executor {text(executor)} failed: {text(failure)}"
        case ym.MasterRegistered():
            return "an application master registers"
        case ym.MasterLost():
            return "the application master is lost"
        case ym.ProfilesDefined(specs=specs):
            profiles = ", ".join(
                f"profile {profile}: {resource_words(spec.resource)}" for profile, spec in specs[:SHOWN]
            )
            return f"profiles defined: {profiles}"
        case _:
            return None


def answer_words(answer: ym.ResourcesAnswered) -> str:
    """What a heartbeat brought: ``gives 3 on h1, h2; ended: 2 preempted; 10 nodes``."""
    parts: list[str] = []
    if answer.allocated:
        parts.append(f"gives {count(len(answer.allocated), 'container')} on {_hosts(answer.allocated)}")
    if answer.completed:
        parts.append(f"says ended: {_ends(answer.completed)}")
    if answer.updated:
        parts.append(f"reports {_nodes(answer.updated)}")
    if not parts:
        parts.append("gives nothing")
    if answer.available is not None:
        parts.append(f"has {resource_words(answer.available)} left for the queue")
    return "; ".join(parts)


def requested(record: Mapping[str, Any]) -> int:
    """How many containers a record of requests asks for."""
    layout = record.get("layout")
    ends = layout.get("ends", ()) if isinstance(layout, Mapping) else ()
    return int(record.get("anywhere", 0)) + (int(ends[-1]) if ends else 0)


def wished(layout: object, number: int, anywhere: int) -> str:
    """Where they are wished: ``anywhere``, or ``12 on h3, h4, h5, 3 anywhere``."""
    if not isinstance(layout, Mapping) or not layout.get("hosts"):
        return "anywhere"
    near = f"{number - anywhere:,} on {named(layout['hosts'])}"
    return f"{near}, {anywhere:,} anywhere" if anywhere else near


def sized(record: Mapping[str, Any]) -> list[str]:
    """What each of them is to have."""
    resource = record.get("resource")
    label = record.get("label")
    parts = []
    if isinstance(resource, Mapping):
        custom = [f"{text(name)} {amount:,}" for name, amount in resource.get("custom", ())]
        cores = count(resource.get("vcores", 0), "core")
        parts.append(joined([f"{resource.get('memory_mib', 0):,} MiB", cores, *custom], ", "))
    return [*parts, f"nodes labelled {text(label)}"] if label else parts


def resource_words(resource: Any) -> str:
    """A resource: ``1,408 MiB, 1 core``."""
    custom = [f"{text(name)} {amount:,}" for name, amount in resource.custom]
    return joined([f"{resource.memory_mib:,} MiB", count(resource.vcores, "core"), *custom], ", ")


def released(cause: str, facts: Mapping[str, Any]) -> list[str]:
    """Why containers are given back; ``facts`` may be empty, where several reasons are told as one."""
    match cause:
        case "surplus":
            received, used = facts.get("received"), facts.get("used")
            known = isinstance(received, int) and isinstance(used, int)
            return ["no request wants them" + (f": {used:,} of {received:,} were wanted" if known else "")]
        case "above target":
            running, target = facts.get("running"), facts.get("target")
            known = isinstance(running, int) and isinstance(target, int)
            return ["not launched" + (f": {running:,} run, the target is {target:,}" if known else "")]
        case "launch failed":
            return ["the launch failed", *([text(facts["what"])] if facts.get("what") else [])]
        case "killed by the driver":
            who = f"executor {text(facts['executor'])} is " if "executor" in facts else ""
            return [f"{who}let go by the driver"]
        case _:
            return [escaped(cause)]


def loss_words(record: Mapping[str, Any]) -> str:
    """The answer to why an executor is gone."""
    reason = record.get("reason")
    if not isinstance(reason, Mapping):
        return text(record.get("failure", "nobody knows"))
    code = reason.get("exit_code")
    lead = "" if not isinstance(code, int) else f"{status_words(code)}: "
    return lead + text(reason.get("message", ""))


def short(container: object) -> str:
    """A container by what tells it from its neighbours: ``container 000007`` of container_1700000000000_0001_01_000007."""
    head, _, tail = str(container).rpartition("_")
    return f"container {text(tail)}" if head and tail.isdigit() else f"container {text(container)}"


def named(names: Iterable[object]) -> str:
    """The first few of some names: ``h1, h2, h3, h4 and 12 more``."""
    listed = [str(name) for name in names]
    return ids(listed, SHOWN) if listed else ""


def shorts(containers: Sequence[object]) -> str:
    """The first few of some containers: ``container 000007``, ``containers 000007, 000009 and 3 more``."""
    if len(containers) == 1:
        return short(containers[0])
    return "containers " + named(str(one).rpartition("_")[2] for one in containers)


def location_words(location: str) -> str:
    """Where a container met its request."""
    return "anywhere" if location == ANY_HOST else f"at {text(location)}"


def _matches(matches: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = [
        f"{short(one['container'])} takes request {one['request']} {location_words(one['location'])}"
        for one in matches[:SHOWN]
    ]
    more = len(matches) - SHOWN
    return [*shown, f"and {more:,} more"] if more > 0 else shown


def _missing(facts: Mapping[str, Any]) -> str:
    missing, target = facts.get("missing"), facts.get("target")
    if not (isinstance(missing, int) and isinstance(target, int)):
        return "below target"
    there = [
        f"{facts[key]:,} {key}"
        for key in ("running", "starting", "pending")
        if isinstance(facts.get(key), int) and facts[key]
    ]
    return f"{missing:,} missing of {target:,}" + (f" ({', '.join(there)})" if there else "")


def _above(facts: Mapping[str, Any]) -> str:
    target, pending, running = facts.get("target"), facts.get("pending"), facts.get("running")
    if not (isinstance(target, int) and isinstance(pending, int) and isinstance(running, int)):
        return "above target"
    return f"target {target:,}, {pending:,} waited, {running:,} run"


def _excluded(facts: Mapping[str, Any]) -> str:
    number = facts.get("excluded")
    return f"{number:,} excluded now" if isinstance(number, int) else ""


def _size(spans: Iterable[Mapping[str, Any]]) -> int:
    return sum(span["last"] - span["first"] + 1 for span in spans)


def _hosts(containers: Sequence[Container]) -> str:
    hosts = dict.fromkeys(container.host for container in containers)
    return named(hosts)


def _ends(completed: Sequence[Completion]) -> str:
    return _some(completed, lambda one: f"{short(one.container)} {status_words(one.status)}")


def _nodes(updated: Sequence[NodeReport]) -> str:
    return _some(updated, lambda node: f"{text(node.host)} {text(node.state)}")


def _some(items: Sequence[T], words: Callable[[T], str]) -> str:
    """The first few of some items, and how many there are more."""
    return some(list(map(words, items[:SHOWN])), SHOWN, len(items))
