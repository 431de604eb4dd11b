"""Decisions about pods and containers, and what entered a step, in words: one row each, for people who read in a terminal.

A row is a time, a mark for the view to colour, what was decided in a few words, and why in parts with the numbers - the
same ``TimelineRow`` that the timeline of an event log is made of. Decisions of dynamic allocation are rows of that
timeline. Rows are made of records (``recording.records.decisions``), so that decisions read from a file and decisions just
taken read alike.

Names of pods, claims, nodes and the API's messages come from a stranger and are escaped and cut; the page escapes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from podtide.adapters.recording.codec import RecordedStimulus, decided_record
from podtide.adapters.text.format import count, ids, lasting, some
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.timeline import scaling as timeline
from podtide.adapters.views.timeline.reasons import BOUNDS, one_line, profile_words
from podtide.adapters.views.timeline.scaling_rows import Rows, TimelineRow, Words
from podtide.adapters.views.timeline.yarn_decisions import CONTAINER_BOUNDS, container_words, heard_containers
from podtide.domain.base.units import Millis
from podtide.domain.protocol import executor_stimuli as es, pod_stimuli as ps, stimuli as st
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.pods import EXECUTOR_LABEL, PodManifest

TEXT_MAX: Final = 160
"""Characters of one text of a stranger that are shown."""

_text: Final = partial(one_line, shown_max=TEXT_MAX)

PODS_SHOWN: Final = 4
"""Pods of one stimulus that are named."""

UNLIMITED: Final = 10**9
_ROOM: Final = ("share", "slots")
"""Facts that say how much room there was; what is left of Spark's Int.MaxValue is no news."""

_OF_SCALING: Final = frozenset({"requestTotalExecutors", "killExecutors", "decommissionExecutors"})

POD_BOUNDS: Final = {
    "batch size": "allocation.batch.size",
    "pending limit": "allocation.maxPendingPods",
    "pending limit of the profile": "allocation.maxPendingPodsPerRp",
    "unacknowledged pods": "pods asked for and not seen yet",
    "waiting for a volume claim": "volume claims in use",
    "allocation maximum": "allocation.maximum",
    "back-off": "back-off after failed starts",
    "round aborted": "an aborted round",
    "executor idle timeout": "excess pods younger than executorIdleTimeout",
    "known to the scheduler": "executors that the scheduler knows",
}
"""Bounds of the pods allocator as people name them."""

SIDE_BOUNDS: Final = {**POD_BOUNDS, **CONTAINER_BOUNDS}
"""Bounds of what lies below dynamic allocation, on Kubernetes or on YARN."""

_CALLS: Final = {
    "createClaim": "create a volume claim",
    "listClaims": "list volume claims",
    "createSet": "create a set",
    "scaleSet": "scale a set",
    "deleteSet": "delete a set",
    "getDriverPod": "look up the driver pod",
    "awaitDriverReady": "wait for the driver pod",
    "createConfigMap": "create the config map",
    "deleteOwned": "delete what is left",
    "listPods": "list pods",
    "resizePod": "resize a pod",
    "resizeClaim": "resize a volume claim",
    "stopSource": "stop",
}
"""Commands that are told by their name and their fields."""

_QUIET_FIELDS: Final = frozenset({"at_ms", "command", "serial", "cause", "facts", "executor", "profile"})


def bound_words(bound: str) -> str:
    """A bound as people name it."""
    return SIDE_BOUNDS.get(bound) or BOUNDS.get(bound) or escaped(bound)


def side_size(bound: str, facts: Mapping[str, Any]) -> Any:
    """How many pods or containers such a bound holds, where it says so."""
    return facts.get("pending") if bound in CONTAINER_BOUNDS else facts.get("missing", facts.get("excess"))


def _sizes_of(bound: str) -> tuple[str, ...]:
    """The facts that say how much a bound holds."""
    return ("missing", "excess", "pending") if bound in CONTAINER_BOUNDS else ("missing", "excess")


def facts_words(facts: Mapping[str, Any], leave_out: Iterable[str] = ()) -> list[str]:
    """Numbers by their names: ``missing 20``, ``age 10 s``."""
    parts = []
    for key, value in sorted(facts.items()):
        if key in leave_out or value is None or (isinstance(value, int) and key in _ROOM and value >= UNLIMITED):
            continue
        if key.endswith("_ms") and isinstance(value, int) and not key.startswith(("since", "idle_since", "until")):
            parts.append(f"{_name(key[:-3])} {lasting(value)}")
        else:
            parts.append(f"{_name(key)} {_value(value)}")
    return parts


def decided_rows(record: Mapping[str, Any]) -> list[TimelineRow]:
    """A decision or a report as rows; a request that moves several targets has several."""
    at = record["at_ms"]
    if "report" in record:
        return _report_rows(record)
    if record["command"] in _OF_SCALING:
        rows = Rows({}, profiles_of(record))
        return [row for moment in timeline.single(record) for row in rows.of(moment, steps=True)]
    of_yarn = container_words(record)
    return [TimelineRow(at, *words) for words in ([_words(record)] if of_yarn is None else of_yarn)]


def _words(record: Mapping[str, Any]) -> Words:
    """What a command of the Kubernetes side or of the backend says."""
    facts, cause = record.get("facts", {}), record.get("cause", "")
    why = [cause, *facts_words(facts)]
    match record:
        case {"command": "createPod", "executor": executor, "profile": profile}:
            return "raised", f"create pod {executor}", [_missing(facts), *_claims(record), *profile_words(profile)]
        case {"command": "deletePods"}:
            executors = record.get("executors", record.get("ids"))
            whom = "all pods" if executors is None else f"pod {ids(_texts(executors))}"
            phase = record.get("phase")
            return "killed", f"delete {whom}", [*why, *([f"only {phase} ones"] if phase else [])]
        case {"command": "deletePod", "name": name}:
            return "killed", f"delete pod {_text(name)}", [cause, *facts_words(facts, ("snapshot",))]
        case {"command": "removeExecutor", "executor": executor, "reason": reason}:
            rest = facts_words(facts, ("exit_code", "pod", "snapshot", "container", "host", "released", "status"))
            return "killed", f"executor {_text(executor)} is gone", [exit_words(reason), cause, *rest]
        case {"command": "announceDecommission"}:
            parts = [_text(record["message"]), *why] if record.get("message") else why
            return "killed", f"decommission {ids(_texts(record.get('ids', ())))}", parts
        case {"command": "answerRegistration", "executor": executor, "accepted": accepted}:
            verb = "accept" if accepted else "refuse"
            message = [_text(record["message"])] if record.get("message") else []
            return "quiet" if accepted else "killed", f"{verb} executor {_text(executor)}", [*message, *why]
        case {"command": "assignExecutorId", "executor": executor, "pod": pod}:
            return "quiet", f"pod {_text(pod)} becomes {_text(executor)}", why
        case {"command": "markInactive", "name": name}:
            return "quiet", f"label {_text(name)} inactive", why
        case {"command": "markPods", "key": key, "value": value}:
            whom = ids(_texts(record.get("ids", ())))
            return "quiet", f"mark pods {whom}", [f"{_text(key)}={_text(value)}", *why]
        case {"command": "stopApplication", "exit_code": code}:
            return "threw", f"end with exit code {code}", why
        case _:
            fields = [f"{_name(key)} {_value(value)}" for key, value in record.items() if key not in _QUIET_FIELDS]
            return "quiet", _CALLS.get(record["command"], escaped(str(record["command"]))), [*fields, *why]


def exit_words(reason: Mapping[str, Any]) -> str:
    """Spark's ExecutorLossReason: its class, exit code and text."""
    code = reason.get("exit_code")
    words = escaped(str(reason.get("kind", "")))
    if code is not None:
        words += f", exit code {code}"
    message = _text(reason.get("message", "")).strip()
    return f"{words}: {message}" if message else words


def _report_rows(record: Mapping[str, Any]) -> list[TimelineRow]:
    at = record["at_ms"]
    match record["report"]:
        case "held" if record["bound"] not in SIDE_BOUNDS:
            return [row for moment in timeline.single(record) for row in Rows({}, set()).of(moment, steps=True)]
        case "held":
            return [_pod_hold(record)]
        case "round threw":
            parts = [_text(record["what"]), *(["it ends the application"] if record.get("fatal") else [])]
            return [TimelineRow(at, "threw", f"{escaped(record['machine'], 40)} threw", parts)]
        case "schedule threw":
            return [TimelineRow(at, "threw", "schedule() threw", [_text(record["what"])])]
        case _:
            parts = facts_words(record.get("facts", {}))
            return [TimelineRow(at, "quiet", f"remark: {escaped(str(record.get('topic', '')), 40)}", parts)]


def _pod_hold(record: Mapping[str, Any]) -> TimelineRow:
    facts, phase = record["facts"], record["phase"]
    missing = side_size(record["bound"], facts)
    verb = "kept" if "excess" in facts else "held"
    what = verb if not isinstance(missing, int) else f"{verb} {missing:,} {'excess' if verb == 'kept' else 'back'}"
    by = f"by {bound_words(record['bound'])}"
    rest = facts_words(facts, _sizes_of(record["bound"]))
    mark = "quiet" if phase == "ended" else "held"
    return TimelineRow(record["at_ms"], mark, what, [phase, by, *rest, *profile_words(record["profile"])])


# --------------------------------------------------------------------------------------------------------- what entered


def call_words(command: Command) -> str:
    """What a call asks for: ``create pod 7``."""
    return decided_rows(decided_record(command))[0].what


def stimulus_words(stimulus: RecordedStimulus, calls: Mapping[int, str] | None = None) -> str:
    """A stimulus in a line. ``calls``: by serial, the calls that outcomes answer, in words."""
    match stimulus:
        case ps.PodsUpdated(pods=pods):
            return f"seen: {_pods(pods)}"
        case ps.PodsReplaced(pods=pods):
            return f"a full list: {count(len(pods), 'pod')}"
        case ps.Outcome(serial=serial):
            call = escaped((calls or {}).get(serial, f"call {serial}"), TEXT_MAX)
            return f"{call} {outcome_words(stimulus)}"
        case es.TargetsSet(targets=targets):
            aims = ", ".join(f"{target:,} of profile {profile}" for profile, target in targets[:PODS_SHOWN])
            return f"targets set: {aims}"
        case es.RegisterExecutor():
            return f"executor {_text(stimulus.executor)} registers from {_text(stimulus.host) or 'nowhere named'}"
        case es.KillRequested():
            return f"kill of {ids(stimulus.executors)} asked for"
        case es.DecommissionRequested():
            return f"decommission of {ids(stimulus.executors)} asked for"
        case es.ExecutorDisconnected():
            return f"the connection to {_text(stimulus.address)} is lost"
        case es.ExecutorExiting():
            return f"executor {_text(stimulus.executor)} exits: {_text(stimulus.message)}"
        case es.HeartbeatsStopped():
            return f"nothing more is heard from executor {_text(stimulus.executor)}"
        case es.Heartbeat():
            return f"executor {_text(stimulus.executor)} is heard from"
        case es.KillExecutorsOnHost():
            return f"kill of all executors on {_text(stimulus.host)} asked for"
        case es.DecommissionExecutorsOnHost():
            return f"decommission of all executors on {_text(stimulus.host)} asked for"
        case es.Starting():
            return "the application starts"
        case es.Stopping():
            return "the application stops"
        case es.Wake():
            return "time passed"
        case st.StageSubmitted():
            return f"stage {stimulus.stage} submitted, {count(stimulus.tasks, 'task')}"
        case st.StageCompleted():
            return f"stage {stimulus.stage} completed"
        case st.TaskStart():
            return f"task {stimulus.task_index} of stage {stimulus.stage} starts on {_text(stimulus.executor)}"
        case st.TaskEnd():
            return f"task {stimulus.task_index} of stage {stimulus.stage} ends on {_text(stimulus.executor)}"
        case _ if (yarn_words := heard_containers(stimulus)) is not None:
            return yarn_words
        case _:
            fields = [
                f"{_name(key)} {_value(value)}" for key, value in stimulus._asdict().items() if key != "at" and value
            ]
            return escaped(" ".join([type(stimulus).__name__, *fields]), TEXT_MAX)


def outcome_words(outcome: ps.Outcome) -> str:
    """How a call went: ``succeeded``, ``failed: 403 quota exceeded``."""
    failure = outcome.failure
    if failure is None:
        return f"succeeded, {count(outcome.found, 'pod')}" if outcome.found > 1 or outcome.pods else "succeeded"
    return f"failed: {failure_words(failure.status, failure.message)}"


def failure_words(status: int | None, message: str) -> str:
    """How a call failed: its status, and of the client's long text what the API itself said."""
    _, marker, rest = message.partition("Message: ")
    text = _text(rest.partition(" Received status:")[0] if marker else message)
    return f"{'no answer' if status is None else status} {text}".rstrip()


def pod_words(pod: PodManifest) -> str:
    """What a manifest shows, in a few words: phase, node, containers that do not run."""
    parts = [_text(pod.phase or "no phase")]
    if pod.deleted_at is not None:
        parts.append("being deleted")
    if pod.reason:
        parts.append(_text(pod.reason))
    for container in pod.containers[:PODS_SHOWN]:
        state = container.state
        if state is None or state.kind in (None, "running"):
            continue
        code = "" if state.exit_code is None else f" with {state.exit_code}"
        reason = f" ({_text(state.reason)})" if state.reason else ""
        verb = "ended" if state.kind == "terminated" else "waits"
        parts.append(f"{_text(container.name)} {verb}{code}{reason}")
    if pod.node:
        parts.append(f"on {_text(pod.node)}")
    return ", ".join(parts)


def _pods(pods: Sequence[PodManifest]) -> str:
    shown = [f"{_text(pod.labels.get(EXECUTOR_LABEL, pod.name))} {pod_words(pod)}" for pod in pods[:PODS_SHOWN]]
    return some(shown, PODS_SHOWN, len(pods), "; ")


def _missing(facts: Mapping[str, Any]) -> str:
    missing, target, counted = facts.get("missing"), facts.get("target"), facts.get("counted")
    if not (isinstance(missing, int) and isinstance(target, int) and isinstance(counted, int)):
        return ", ".join(facts_words(facts))
    return f"{missing:,} missing: target {target:,}, {counted:,} counted"


def _claims(record: Mapping[str, Any]) -> list[str]:
    claims, reused = record.get("claims", ()), record.get("reused", ())
    parts = []
    if claims:
        parts.append(f"claims {ids(_texts(claims), 2)}")
    if reused:
        parts.append(f"reused {ids(_texts(reused), 2)}")
    if record.get("single_task"):
        parts.append("for one task at a time (recovery mode)")
    return parts


def profiles_of(record: Mapping[str, Any]) -> set[int]:
    """The profiles of which a record has targets, as far as it can be trusted."""
    return {int(name) for name in record.get("targets", {}) if str(name).lstrip("-").isdigit()}


def _texts(values: Iterable[Any]) -> list[str]:
    return [str(value) for value in values]


def _name(key: str) -> str:
    return escaped(key.replace("_", " "), 40)


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return _text(value)
    return f"{value:,}"


def hold_words(hold: Mapping[str, Any], now: Millis, since: str) -> str:
    """A bound in force: by what, how much, since when, its numbers."""
    facts = hold["facts"]
    size = facts.get("missing", facts.get("excess", facts.get("executors", facts.get("need"))))
    if hold["bound"] in CONTAINER_BOUNDS:
        size = facts.get("pending")
    lead = f"{size:,} " if isinstance(size, int) else ""
    profile = f", profile {hold['profile']}" if hold["profile"] else ""
    numbers = ", ".join(facts_words(facts, _sizes_of(hold["bound"])))
    held = f"since {since} ({lasting(now - hold['since_ms'])})"
    return f"{lead}by {bound_words(hold['bound'])} {held}{profile}: {numbers}"
