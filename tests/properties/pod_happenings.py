"""Whatever may happen to the Kubernetes side, and whatever it may say: strategies for every stimulus, command and report.

The universe is small, so that things meet: eight pods with few states, four executors, three profiles. ``manifests`` are
pods as clusters show them, damaged ones included. ``anything(kind)`` is a value of a class of the domain with every field
drawn by its annotation, so that a new field is drawn without a word here; the vocabulary (ids, names, texts) stays small.

``stories`` are runs of steps as an engine would take them: time that never falls, stimuli, and something decided.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import accumulate
from typing import Any, Literal, NamedTuple, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from pyrsistent import PMap, pmap

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Departure, Report
from podtide.domain.protocol.container_requests import Layout
from podtide.domain.protocol.pod_commands import PodCommand
from podtide.domain.protocol.pod_stimuli import (
    CreationFailed,
    KnownExecutors,
    Outcome,
    PodsReplaced,
    PodStimulus,
    PodsUpdated,
)
from podtide.domain.protocol.pods import (
    APP_LABEL,
    EXECUTOR_LABEL,
    EXECUTOR_ROLE,
    INACTIVE_LABEL,
    PROFILE_LABEL,
    ROLE_LABEL,
    RUNNING,
    SPARK_CONTAINER,
    TERMINATED,
    UNNAMED_EXECUTOR,
    WAITING,
    ContainerState,
    PodContainer,
    PodManifest,
    PodNumber,
)
from podtide.domain.protocol.reasons import Bound, Fact, Why
from podtide.domain.protocol.stimuli import Move, Stimulus
from podtide.domain.protocol.yarn_messages import YarnCommand, YarnStimulus

T = TypeVar("T")

NUMBERS = range(1, 9)
"""The executors of the pods that there can be."""

numbers = st.sampled_from(NUMBERS).map(PodNumber)
executors = st.sampled_from(["1", "2", "10", "driver"]).map(ExecutorId)
profiles = st.sampled_from([0, 0, 0, 1, 2]).map(ProfileId)
texts = st.one_of(
    st.sampled_from(["", "a", "exec-1", "ONDEMAND", "2026-01-01T00:00:00Z", "NaN", "10Gi"]),
    st.text(max_size=8),
)
wholes = st.one_of(st.integers(0, 5), st.sampled_from([-1, 100, 1_000, 2**31 - 1, NEVER]))
doubles = st.one_of(st.floats(0, 1), st.sampled_from([float("inf"), -float("inf"), 2.0**32]))
facts: st.SearchStrategy[Mapping[str, Fact]] = st.dictionaries(
    st.sampled_from(["pods", "target", "limit", "name"]), wholes | doubles | texts | st.none(), max_size=3
).map(pmap)

# ------------------------------------------------------------------------------------------------------------------ pods

times = st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"])
states = st.one_of(
    st.just(ContainerState(RUNNING)),
    st.builds(ContainerState, st.just(RUNNING), started_at=times),
    st.builds(ContainerState, st.just(WAITING), reason=st.sampled_from([None, "ContainerCreating", "ErrImagePull"])),
    st.builds(
        ContainerState,
        st.just(TERMINATED),
        st.sampled_from([None, 0, 1, 137, 143]),
        st.sampled_from([None, "Error", "OOMKilled"]),
        times,
        times,
    ),
    st.just(ContainerState()),
    st.none(),
)
containers = st.builds(
    PodContainer,
    st.sampled_from([SPARK_CONTAINER, SPARK_CONTAINER, "sidecar"]),
    st.sampled_from([None, "spark"]),
    states,
)


def labels(number: str | None, profile: str | None, *, inactive: bool = False) -> dict[str, str]:
    """An executor pod's labels; None leaves one out."""
    found = {APP_LABEL: "app", ROLE_LABEL: EXECUTOR_ROLE}
    if number is not None:
        found[EXECUTOR_LABEL] = number
    if profile is not None:
        found[PROFILE_LABEL] = profile
    if inactive:
        found[INACTIVE_LABEL] = "true"
    return found


@st.composite
def manifests(draw: st.DrawFn, *, damaged: bool = True) -> PodManifest:
    """A pod of one of the eight executors. ``damaged``: some have labels or parts that Spark's do not have."""
    number = draw(numbers)
    label: str | None = str(number)
    profile: str | None = str(draw(profiles))
    if damaged and draw(st.integers(0, 9)) == 0:
        label = draw(st.sampled_from([None, UNNAMED_EXECUTOR, "x", "007"]))
        profile = draw(st.sampled_from([None, "x", "0"]))
    return PodManifest(
        name=f"exec-{number}" if not damaged or draw(st.integers(0, 19)) else "",
        labels=labels(label, profile, inactive=draw(st.integers(0, 9)) == 0),
        created_at=draw(times),
        deleted_at=draw(st.sampled_from([None, None, None, "2026-01-01T00:02:00Z"])),
        restart_policy=draw(st.sampled_from(["Never", "Never", None, "Always"])),
        claims=draw(st.sampled_from([(), (), ("claim-1",), ("claim-1", "claim-2")])),
        phase=draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown", None])),
        reason=draw(st.sampled_from([None, None, "Evicted"])),
        message=draw(st.sampled_from([None, None, "the node was low on memory", "\x1b[2J é \U0001f600"])),
        containers=tuple(draw(st.lists(containers, max_size=2))),
        has_spec=not damaged or draw(st.integers(0, 9)) > 0,
        has_status=not damaged or draw(st.integers(0, 9)) > 0,
        version=draw(st.sampled_from(["", "1", "2"])),
        uid=draw(st.sampled_from(["", f"uid-{number}"])),
        node=draw(st.sampled_from([None, "node-1"])),
    )


@st.composite
def lists_of_pods(draw: st.DrawFn) -> tuple[PodManifest, ...]:
    """Pods as a list shows them: mostly each once and by name, now and then in any order and twice."""
    pods = draw(st.lists(manifests(), max_size=6))
    if draw(st.integers(0, 4)):
        return _by_name(pods)
    return tuple(pods)


def _by_name(pods: Sequence[PodManifest]) -> tuple[PodManifest, ...]:
    each = {pod.name: pod for pod in pods}
    return tuple(each[name] for name in sorted(each))


# -------------------------------------------------------------------------------------------------------------- anything


few = st.integers(0, 6)
moves = st.builds(
    lambda stage, attempt, first, more, ended: Move(stage, attempt, first, first + more, ended), few, few, few, few, few
)
"""A move costs what it names: a few tasks are enough."""


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Hosts as a placement nests them: each group has fewer of them than the one before."""
    count = draw(st.integers(1, 4))
    hosts = draw(st.permutations(("h1", "h2", "h3", "h4")))[:count]
    racks = draw(st.lists(st.sampled_from(["/default-rack", "/r1"]), min_size=count, max_size=count))
    lengths = sorted({*draw(st.sets(st.integers(1, count))), count}, reverse=True)
    steps = draw(st.lists(st.integers(1, 100), min_size=len(lengths), max_size=len(lengths)))
    return Layout(tuple(hosts), tuple(racks), tuple(lengths), tuple(accumulate(steps)))


def anything(kind: type[T]) -> st.SearchStrategy[T]:
    """Any value of a class of the domain, every field drawn."""
    return st.builds(kind, **{name: _of(hint) for name, hint in get_type_hints(kind).items()})


def _of(hint: Any) -> st.SearchStrategy[Any]:  # one line for each kind of annotation
    known = {
        Mapping[str, Fact]: facts,
        Mapping[str, str]: st.dictionaries(texts, texts, max_size=2),
        tuple[PodManifest, ...]: lists_of_pods(),
        PodManifest: manifests(),
        Move: moves,
        Layout: layouts(),
        Bound: st.sampled_from(
            [bound for bound in Bound if bound not in (Bound.NEED, Bound.RAMP)]
        ),  # these hold nothing
        ExecutorId: executors,
        PodNumber: numbers,
        ProfileId: profiles,
        int: wholes,
        float: doubles,
        str: texts,
        bool: st.booleans(),
        type(None): st.none(),
    }
    if hint in known:
        return known[hint]
    if hint == tuple[Departure, ...]:  # of nobody would be no command
        return st.lists(anything_once(Departure), min_size=1, max_size=3).map(tuple)
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, NewType):
        return _of(hint.__supertype__)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of([_of(argument) for argument in arguments])
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return st.lists(_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(_of, arguments))
    if origin in (Mapping, PMap):
        return st.dictionaries(_of(arguments[0]), _of(arguments[1]), max_size=3).map(pmap)
    if issubclass(hint, Enum):
        return st.sampled_from(hint)
    assert dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"), hint
    return anything_once(hint)


_DRAWN: dict[type, st.SearchStrategy[Any]] = {}


def anything_once(kind: type[T]) -> st.SearchStrategy[T]:
    """The same, made once for a class."""
    if kind not in _DRAWN:
        _DRAWN[kind] = anything(kind)
    return _DRAWN[kind]


def kinds_of(union: Any) -> tuple[type, ...]:
    """The classes of a union, of unions in it too."""
    parts = get_args(union)
    return tuple(kind for part in parts for kind in kinds_of(part)) if parts else (union,)


POD_STIMULI = (*kinds_of(PodStimulus), KnownExecutors, CreationFailed)
YARN_STIMULI = kinds_of(YarnStimulus)
STIMULI = kinds_of(Stimulus)
POD_COMMANDS = kinds_of(PodCommand)
YARN_COMMANDS = tuple(kind for kind in kinds_of(YarnCommand) if kind not in POD_COMMANDS)
COMMANDS = kinds_of(Command)
REPORTS = kinds_of(Report)

whys = anything_once(Why)
pod_stimuli: st.SearchStrategy[Any] = st.one_of(
    st.builds(PodsUpdated, st.just(0), st.lists(manifests(), max_size=3).map(tuple)),
    st.builds(PodsUpdated, st.just(0), st.lists(manifests(), max_size=3).map(tuple)),
    st.builds(PodsReplaced, st.just(0), lists_of_pods()),
    anything_once(Outcome),
    st.one_of([anything_once(kind) for kind in POD_STIMULI]),
)
yarn_stimuli: st.SearchStrategy[Any] = st.one_of([anything_once(kind) for kind in YARN_STIMULI])
stimuli: st.SearchStrategy[Any] = st.one_of([anything_once(kind) for kind in STIMULI])
pod_commands: st.SearchStrategy[Any] = st.one_of([anything_once(kind) for kind in POD_COMMANDS])
commands: st.SearchStrategy[Any] = st.one_of([anything_once(kind) for kind in COMMANDS])
reports: st.SearchStrategy[Any] = st.one_of([anything_once(kind) for kind in REPORTS])


class Taken(NamedTuple):
    """A step of an engine: when, what it took, what it decided; ``full``: a full snapshot is taken after it."""

    at: Millis
    stimuli: tuple[Any, ...]
    commands: tuple[Any, ...] = ()
    reports: tuple[Any, ...] = ()
    full: bool = False


@st.composite
def stories(draw: st.DrawFn, *, steps_max: int = 12) -> list[Taken]:
    """Steps in the order of time; a stimulus carries the time of its step, or now and then an earlier one."""
    now = draw(st.sampled_from([0, 1_000, 1_700_000_000_000]))
    taken = []
    for _ in range(draw(st.integers(0, steps_max))):
        now += draw(st.sampled_from([0, 0, 1, 100, 1_000]))
        drawn = draw(st.lists(st.one_of(pod_stimuli, pod_stimuli, stimuli, yarn_stimuli), max_size=3))
        timed = tuple(one._replace(at=now if draw(st.integers(0, 9)) else min(one.at, now)) for one in drawn)
        said = tuple(draw(st.lists(commands, max_size=2))), tuple(draw(st.lists(reports, max_size=2)))
        taken.append(Taken(now, timed, *said, full=draw(st.integers(0, 7)) == 0))
    return taken


__all__ = [
    "COMMANDS",
    "NUMBERS",
    "POD_COMMANDS",
    "POD_STIMULI",
    "REPORTS",
    "STIMULI",
    "YARN_COMMANDS",
    "YARN_STIMULI",
    "Taken",
    "anything",
    "anything_once",
    "commands",
    "containers",
    "executors",
    "facts",
    "kinds_of",
    "labels",
    "layouts",
    "lists_of_pods",
    "manifests",
    "numbers",
    "pod_commands",
    "pod_stimuli",
    "profiles",
    "reports",
    "stimuli",
    "stories",
    "whys",
    "yarn_stimuli",
]
