"""Whatever the weather: the same story to the byte, no pod lost or there twice, room never exceeded, a calm end.

Clusters are drawn at random with every fault that there is, and a driver that asks for and lets go of pods at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, reject, strategies as st

from podtide.adapters.files import cluster as world_file
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.checks import problems
from podtide.domain.fakes.kubernetes.cluster import KubernetesCluster
from podtide.domain.fakes.kubernetes.description import (
    STAGES,
    STEPS,
    Api,
    Description,
    Executors,
    Fault,
    Image,
    Life,
    Lost,
    NodeEvent,
    NodeGroup,
    NodeHappening,
    PodShape,
    PodStage,
    Verb,
    Watch,
)
from podtide.domain.protocol import executor_commands, pod_commands
from podtide.domain.protocol.executor_stimuli import RegisterExecutor
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId, Outcome, PodStimulus
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Why
from tests.properties.fake_clusters import S, delays, names, rates, windows

WHY = Why(Cause.BELOW_TARGET)
CALM = 400 * S

shares = st.sampled_from([0.0, 0.0, 0.02, 0.2, 1.0])
bounded = windows.filter(lambda w: w.until_ms is not None)


@st.composite
def stages(draw: st.DrawFn) -> tuple[PodStage, ...]:
    """The usual stages, some of them at another pace, and up to four faults."""
    kept = [replace(s, delay=draw(delays)) if draw(st.booleans()) else s for s in STAGES]
    for number in range(draw(st.integers(0, 4))):
        source = draw(st.sampled_from([life for life in STEPS if life is not Life.STUCK]))
        to = draw(st.sampled_from(sorted(STEPS[source], key=lambda life: life.value)))
        kept.append(
            PodStage(
                f"fault {number}", source, to, draw(delays), draw(st.integers(0, 900)), draw(st.sampled_from([0.1, 1, 5])),
                draw(st.sampled_from([None, None, 30.0, 600.0])), draw(st.sampled_from(Image)),
                draw(st.sampled_from([(), (), (0,), (1,)])), draw(st.sampled_from([(), (), ("spot",)])),
                draw(st.sampled_from([(), ((1, 1.0),), ((52, 3.0), (137, 1.0))])), draw(st.none() | names),
                draw(st.none() | names), draw(windows),
            )
        )  # fmt: skip
    return tuple(kept)


groups = st.tuples(
    st.builds(
        NodeGroup, st.just("base"), st.integers(0, 3), st.sampled_from([2_000, 16_000]), pods=st.sampled_from([2, 110]),
        arrives=delays, replaced=st.booleans(), interruptions_per_hour=rates, notice_ms=st.sampled_from([0, 5_000]),
        drained=st.booleans(), image_present=st.booleans(),
    ),
    st.builds(
        NodeGroup, st.just("spot"), st.integers(0, 1), st.just(4_000), maximum=st.sampled_from([1, 4, 9]),
        arrives=delays, idle_ms=st.sampled_from([0, 60_000]), interruptions_per_hour=rates, during=windows,
    ),
)  # fmt: skip
events = st.lists(
    st.builds(
        NodeEvent, st.integers(0, 300_000), st.sampled_from(NodeHappening), st.sampled_from(["base", "spot"]),
        st.integers(1, 3),
    ),
    max_size=3,
).map(tuple)  # fmt: skip
some_faults = st.lists(
    st.one_of(
        st.builds(
            Fault, st.sampled_from([403, 409, 422, 429, 500]), probability=shares,
            verbs=st.sampled_from([(), (Verb.CREATE,), (Verb.DELETE, Verb.PATCH)]),
            resources=st.sampled_from([(), ("pods",)]), retry_after_ms=st.sampled_from([None, 1_000]),
            message=st.none() | names, during=windows,
        ),
        st.builds(Fault, st.none(), st.sampled_from(Lost), shares, during=windows),
    ),
    max_size=3,
).map(tuple)  # fmt: skip
descriptions = st.builds(
    Description,
    groups=groups,
    node_events=events,
    orphaned_ms=st.sampled_from([0, 40_000]),
    scan_ms=st.sampled_from([1, 10_000]),
    executors=st.builds(
        Executors, profiles=st.sampled_from([(), ((1, PodShape(3_000, 4_096)),)]), grace_ms=st.sampled_from([0, 5_000]),
        decommission=st.booleans(), rpc=delays, silence_ms=st.sampled_from([0, 30_000]), stages=stages(),
    ),
    api=st.builds(
        Api, delays, st.booleans(), st.integers(0, 2), quota_pods=st.sampled_from([None, None, 0, 4]), stale=shares,
        stale_age=delays, faults=some_faults,
    ),
    watch=st.builds(
        Watch, delays, shares, shares, shares, delays, rates, delays, shares, st.booleans(),
        st.lists(bounded, max_size=2).map(tuple), windows,
    ),
    controllers=delays,
    seed=st.integers(0, 3),
    calm_ms=st.just(CALM),
)  # fmt: skip

numbers = st.integers(1, 12).map(PodNumber)
wishes = st.lists(
    st.tuples(
        st.integers(0, 60_000),
        st.one_of(
            st.tuples(st.just("create"), st.integers(1, 5)),
            st.tuples(st.just("other"), st.integers(1, 4)),
            st.tuples(st.just("delete"), numbers),
            st.tuples(st.just("delete pending"), st.just(0)),
            st.tuples(st.just("kill"), numbers),
            st.tuples(st.just("decommission"), numbers),
            st.tuples(st.just("list"), st.just(0)),
            st.tuples(st.just("inactive"), numbers),
            st.tuples(st.just("mark"), numbers),
            st.tuples(st.sampled_from(["stateful", "deployed"]), st.integers(0, 4)),
        ),
    ),
    max_size=14,
)


MOMENTS_MAX = 20_000
"""A world in which nodes come and go every few milliseconds for hours says no more than its first minutes."""


class Run:
    """A driver that does what it was told to, when it was told to."""

    def __init__(self, world: KubernetesCluster) -> None:
        self.world = world
        self.now: Millis = world.now
        self.heard: list[PodStimulus] = []
        self.asked: list[int] = []
        self.created = 0
        self.named = 0
        self.sets: set[str] = set()
        self.moments = 0

    def ask(self, command: pod_commands.PodCommand) -> None:
        if hasattr(command, "serial"):
            self.asked.append(command.serial)
        self.world = worlds.apply(self.world, command, self.now)

    def serial(self) -> int:
        return len(self.asked) + 1

    def live(self, until: Millis) -> None:
        while (at := worlds.due(self.world)) <= until:
            self.now = at
            self.moments += 1
            if self.moments > MOMENTS_MAX:
                reject()
            self.world, heard = worlds.advance(self.world, at)
            check(self.world)
            self.heard.extend(heard)
            for one in heard:
                assert one.at == at
                if isinstance(one, RegisterExecutor):
                    self.ask(executor_commands.AnswerRegistration(at, one.executor, one.executor != "3", WHY))
                elif isinstance(one, GenerateExecutorId):
                    self.named += 1
                    name = ExecutorId(f"{1_000 + self.named}")
                    self.ask(pod_commands.AssignExecutorId(at, self.serial(), one.pod, name, WHY))
        self.now = until

    def wish(self, what: str, which: int) -> None:
        now, executor, number = self.now, ExecutorId(str(which)), PodNumber(which)
        match what:
            case "create" | "other":
                for _ in range(which):
                    self.created += 1
                    profile = ProfileId(int(what == "other"))
                    self.ask(pod_commands.CreatePod(now, self.serial(), PodNumber(self.created), profile, WHY))
            case "delete":
                self.ask(pod_commands.DeletePods(now, self.serial(), (number,), None, WHY))
            case "delete pending":
                self.ask(pod_commands.DeletePods(now, self.serial(), None, "Pending", WHY))
            case "kill":
                self.ask(
                    executor_commands.RemoveExecutor(
                        now, executor, executor_commands.ExitReason("ExecutorKilled", ""), WHY
                    )
                )
            case "decommission":
                self.ask(executor_commands.DecommissionExecutors(now, (executor,), "", True, WHY))
            case "list":
                self.ask(pod_commands.ListPods(now, self.serial(), WHY))
            case "inactive":
                self.ask(pod_commands.MarkInactive(now, self.serial(), number, f"exec-exec-{which}", WHY))
            case "mark":
                self.ask(pod_commands.MarkPods(now, self.serial(), (executor, ExecutorId("1")), "label", "k", "v", WHY))
            case _:
                kind = "statefulset" if what == "stateful" else "deployment"
                made = pod_commands.ScaleSet if what in self.sets else pod_commands.CreateSet
                self.sets.add(what)
                self.ask(made(now, self.serial(), kind, what, DEFAULT_PROFILE, which, WHY))  # type: ignore[arg-type]


def check(world: KubernetesCluster) -> None:
    """What holds at every moment."""
    books = world._tables
    description = books.plan.description
    manifests = worlds.pods(world)
    tally = worlds.tally(world)
    # Nobody is there twice, nobody is lost.
    assert len({p.name for p in manifests}) == len(manifests)
    assert len({p.uid for p in manifests}) == len(manifests)
    assert tally.get("pods.created", 0) - tally.get("pods.gone", 0) == len(manifests)
    assert sum(worlds.census(world).lives.values()) == len(manifests)
    unfinished = sum(p.phase not in {"Succeeded", "Failed"} for p in manifests)
    assert worlds.census(world).unfinished == unfinished
    assert worlds.census(world).waiting == sum(bool(row.ticket) for row in books.pods.values())
    # Versions are unique and none is ahead of the cluster's.
    held = [int(p.version) for p in manifests]
    assert len(set(held)) == len(held)
    assert max(held, default=0) <= books.versions.last
    # What is taken and what is free is what there is.
    for node in books.nodes.values():
        group = description.groups[node.group]
        held_here = [row for row in books.pods.values() if row.node == node.number and row.held]
        shapes = [books.plan.shape(row.profile) for row in held_here]
        assert node.pods + len(shapes) == group.pods
        assert node.cpu + sum(s.cpu_millis for s in shapes) == group.cpu_millis
        assert node.memory + sum(s.memory_mib for s in shapes) == group.memory_mib
        assert min(node.cpu, node.memory, node.pods) >= 0
        assert (node.empty_since >= 0) == (not shapes)
    # Everything that will go on has one thing ahead of it, and it is really there.
    for row in books.pods.values():
        assert not row.timer or row.timer in books.agenda


def begin(description: Description) -> Run:
    return Run(worlds.begin(description, description.seed, 0, polls=True))


def play(description: Description, plan: Sequence[tuple[Millis, tuple[str, int]]], extra: Millis = 0) -> Run:
    run = begin(description)
    for wait, wish in plan:
        run.live(run.now + wait)
        run.wish(*wish)
    run.live(max(run.now, CALM) + extra)
    return run


@given(descriptions, wishes)
def test_the_same_seed_gives_the_same_story_to_the_byte(
    description: Description, plan: list[tuple[Millis, tuple[str, int]]]
) -> None:
    one, other = play(description, plan), play(description, plan)
    assert "\n".join(map(repr, one.heard)).encode() == "\n".join(map(repr, other.heard)).encode()
    assert repr(worlds.pods(one.world)) == repr(worlds.pods(other.world))
    assert worlds.tally(one.world) == worlds.tally(other.world)


@given(descriptions, wishes)
def test_every_call_is_answered_once_and_time_never_goes_back(
    description: Description, plan: list[tuple[Millis, tuple[str, int]]]
) -> None:
    run = play(description, plan, extra=3_600 * S)
    answered = Counter(one.serial for one in run.heard if isinstance(one, Outcome))
    assert answered == Counter(run.asked)
    times = [one.at for one in run.heard]
    assert times == sorted(times)


@given(descriptions, wishes)
def test_after_the_storm_it_is_calm(description: Description, plan: list[tuple[Millis, tuple[str, int]]]) -> None:
    """Nothing hangs or is stuck for ever, and what is asked for then is done."""
    run = play(description, plan, extra=60 * S)
    assert not {life for (_, life) in worlds.census(run.world).lives} & {Life.HUNG, Life.STUCK}
    run.live(run.now + 3_600 * S)
    failures = {name: n for name, n in worlds.tally(run.world).items() if name.startswith("faults.")}
    run.ask(pod_commands.DeletePods(run.now, run.serial(), None, None, WHY))
    for kind in list(run.sets):
        run.wish(kind, 0)
    run.live(run.now + 3_600 * S)
    assert worlds.pods(run.world) == ()
    assert failures == {name: n for name, n in worlds.tally(run.world).items() if name.startswith("faults.")}


@given(descriptions, wishes, st.lists(st.integers(0, 200), max_size=4))
def test_forks_are_not_disturbed(
    description: Description, plan: list[tuple[Millis, tuple[str, int]]], back: list[int]
) -> None:
    """Any moment can be gone on from again, in any order, and tells what it told then."""
    run = begin(description)
    moments: list[tuple[KubernetesCluster, tuple[PodStimulus, ...], str]] = []
    for wait, wish in plan:
        end = run.now + wait
        while (at := worlds.due(run.world)) <= end:
            before = run.world.fork()
            there = repr(worlds.pods(run.world))
            run.live(at)
            _after, heard = worlds.advance(before.fork(), at)
            moments.append((before, heard, there))
        run.live(end)
        run.wish(*wish)
    for place in back:
        if moments:
            old, heard, there = moments[place % len(moments)]
            assert repr(worlds.pods(old)) == there
            assert worlds.advance(old.fork(), worlds.due(old))[1] == heard
            check(old)


@given(descriptions)
def test_a_description_survives_its_file(description: Description) -> None:
    assert problems(description) == ()
    text = world_file.write(description, {"api": "a note", "nodes.groups[1]": "another"}, "a heading")
    assert world_file.understand(text) == description
    assert world_file.write(world_file.understand(text)) == world_file.write(description)
