"""Whatever happens in a YARN cluster: the same story to the byte, one life for every container, room never exceeded.

Clusters are drawn at random with every fault that there is; the application is Spark's own allocator with targets, locality
hints and kills at random. And what the resource manager believes is held against a model that counts every request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, reject, strategies as st
from pyrsistent import pmap

from podtide.adapters.files import yarn_cluster as yarn_world_file
from podtide.domain.base.randomness import Constant, stream
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.fakes.yarn import cluster as worlds
from podtide.domain.fakes.yarn.checks import problems
from podtide.domain.fakes.yarn.cluster import ClusterStimulus, YarnCluster
from podtide.domain.fakes.yarn.description import (
    CallFault,
    ContainerPhase,
    Death,
    LaunchFault,
    Manager,
    Master,
    Mistakes,
    Nodes,
    Queue,
    Tenant,
    YarnDescription,
    YarnExecutors,
    YarnNodeEvent,
    YarnNodeHappening,
    racks,
)
from podtide.domain.fakes.yarn.resource_requests import arrive, cancel, give, parcel, request, restore, take, wanted
from podtide.domain.fakes.yarn.rows import AskRow, NodeState
from podtide.domain.fakes.yarn.tables import YarnPlan, YarnShape, YarnTables
from podtide.domain.protocol.cluster_config import NegotiationConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.container_requests import Layout, Span
from podtide.domain.protocol.containers import ContainerId, ContainerSpec, Resource
from podtide.domain.protocol.executor_commands import AnswerRegistration, DecommissionExecutors
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.yarn_messages import (
    Beat,
    CancelRequests,
    ContainersWanted,
    KillExecutors,
    LaunchEnded,
    MasterRegistered,
    Match,
    ProfilesDefined,
    RequestContainers,
    ResourcesAnswered,
    ResourcesRefused,
    TakeRequests,
    YarnInput,
)
from podtide.domain.yarn import allocator as yarn
from podtide.domain.yarn.allocator_state import YarnState
from tests.properties.fake_clusters import S, delays, names, rates, windows

WHY = Why(Cause.BELOW_TARGET)
CALM = 400 * S

shares = st.sampled_from([0.0, 0.0, 0.02, 0.2, 0.9])
rows = st.tuples(
    st.builds(
        Nodes, st.just("base"), st.integers(0, 6), st.sampled_from([4_096, 16_384]), st.sampled_from([2, 16]),
        st.sampled_from([(), (("yarn.io/gpu", 1),)]), st.sampled_from([("/default-rack",), ("/a", "/b")]),
        st.just(""), st.sampled_from([(), ("node one", "h2")]), rates, rates, st.none() | delays, windows,
    ),
    st.builds(
        Nodes, st.just("more"), st.integers(0, 3), st.just(8_192), st.just(4), label=st.sampled_from(["", "gold"]),
        lost_per_hour=rates, back=delays,
    ),
)  # fmt: skip
events = st.lists(
    st.builds(
        YarnNodeEvent, st.integers(0, 300_000), st.sampled_from(YarnNodeHappening), st.sampled_from(["base", "more"]),
        st.integers(1, 3), st.none(), st.none() | delays, st.booleans(),
    ),
    max_size=4,
).map(tuple)  # fmt: skip
deaths = st.lists(
    st.builds(
        Death, st.sampled_from(ContainerPhase), shares, delay=delays, profiles=st.sampled_from([(), (1,)]),
        statuses=st.sampled_from([((1, 1.0),), ((-102, 1.0),), ((0, 1.0), (-104, 2.0)), ((-1000, 1.0), (-100, 0.5))]),
        groups=st.sampled_from([(), ("base",)]), diagnostics=st.none() | names.filter(bool), during=windows,
    )
    | st.builds(Death, per_hour=st.sampled_from([30.0, 600.0]), statuses=st.just(((137, 1.0), (-102, 1.0)))),
    max_size=3,
).map(tuple)  # fmt: skip
descriptions = st.builds(
    YarnDescription,
    nodes=rows,
    node_events=events,
    queue=st.builds(
        Queue, st.sampled_from([None, None, 6_000, 30_000]), st.sampled_from([None, 9]),
        st.lists(st.builds(Tenant, st.integers(0, 20_000), st.integers(0, 8), names, windows), max_size=2).map(tuple),
        st.booleans(), st.sampled_from([0, 15_000]), st.sampled_from([1, 3_000]), st.sampled_from([0.1, 1.0]),
    ),
    manager=st.builds(
        Manager, delays, st.sampled_from([1, 1_000]).map(lambda s: s * 1_000 // 4 + 1), st.sampled_from([0, 3, 40]),
        st.sampled_from([-1, 5]), st.sampled_from([1, 3]), st.sampled_from([1, 1_024]), st.just(1),
        st.sampled_from([None, None, 4_096]), st.none(), st.booleans(), st.sampled_from([5_000, 600_000]),
        st.sampled_from([5_000, 60_000]), st.sampled_from([0, 60_000]),
        st.lists(
            st.builds(CallFault, names, shares, st.booleans(), st.none() | delays, windows), max_size=2
        ).map(tuple),
        st.builds(Mistakes, shares, shares, shares, shares, shares, windows),
    ),
    executors=st.builds(
        YarnExecutors, delays, delays, delays, delays, delays, delays, delays, st.sampled_from([0, 30_000]),
        st.sampled_from([0, 30_000]),
        st.lists(
            st.builds(LaunchFault, names.filter(bool), shares, st.just(False), during=windows), max_size=2
        ).map(tuple),
        deaths,
    ),
    master=st.builds(
        Master, st.sampled_from([Constant(0), Constant(700)]), st.lists(st.integers(0, 300_000), max_size=1).map(tuple),
        delays,
    ),
    seed=st.integers(0, 3),
    calm_ms=st.just(CALM),
)  # fmt: skip

hosts = st.sampled_from(["base-1", "base-2", "base-3", "more-1", "h2", "node one", "elsewhere"])
wishes = st.lists(
    st.tuples(
        st.integers(0, 60_000),
        st.one_of(
            st.tuples(
                st.just("target"), st.integers(0, 9), st.integers(0, 4),
                st.dictionaries(hosts, st.integers(0, 5), max_size=3),
            ),
            st.tuples(st.just("kill"), st.integers(1, 20)),
            st.tuples(st.just("decommission"), st.integers(1, 20)),
            st.tuples(st.just("exclude"), hosts),
        ),
    ),
    max_size=10,
)  # fmt: skip
SPECS = (
    (ProfileId(0), ContainerSpec(Resource(1_408, 1), 1_024, 1)),
    (ProfileId(1), ContainerSpec(Resource(3_000, 2), 2_048, 2, 2)),
)
MOMENTS_MAX = 6_000
"""A cluster in which something happens every few milliseconds for hours says no more than its first minutes."""


class Run:
    """Spark's allocator and a driver against a cluster; it beats once a second."""

    def __init__(self, description: YarnDescription, *, checked: bool = True) -> None:
        self.checked = checked
        self.config = NegotiationConfig(racks=pmap(racks(description)), decommission=True, executors_initial=0)
        self.world = worlds.begin(description, description.seed, 0)
        self.now: Millis = 0
        self.beat_at: Millis = S
        self.state: YarnState | None = None
        self.heard: list[ClusterStimulus] = []
        self.asked: list[int] = []
        self.moments = 0
        self.serial = 0

    def take(self, *items: YarnInput) -> None:
        if self.state is not None:
            self.adopt(yarn.negotiate(self.state, items, self.config, self.now))

    def adopt(self, step: Step[YarnState, Any]) -> None:
        self.state = step.state
        for command in step.commands:
            if type(command).__name__ == "CallResourceManager":
                self.asked.append(command.serial)
            if type(command).__name__ != "TargetsTaken":
                self.world = worlds.apply(self.world, command, self.now)

    def live(self, until: Millis) -> None:
        while (at := min(worlds.due(self.world), self.beat_at)) <= until:
            self.now = at
            self.moments += 1
            if self.moments > MOMENTS_MAX:
                reject()
            self.world, heard = worlds.advance(self.world, at)
            if self.checked:
                check(self.world)
            self.heard.extend(heard)
            for one in heard:
                assert one.at == at
                self.hear(one)
            if at == self.beat_at:
                self.beat_at += S
                if self.state is not None and self.state.waiting is None:
                    self.take(Beat(at))
        self.now = until

    def hear(self, one: ClusterStimulus) -> None:
        if isinstance(one, RegisterExecutor):
            answer = AnswerRegistration(self.now, one.executor, not one.executor.endswith("3"), WHY)
            self.world = worlds.apply(self.world, answer, self.now)
        elif isinstance(one, MasterRegistered):
            before = self.state
            last = 0 if before is None else before.last_id
            self.adopt(yarn.begin(self.config, self.now, last_id=last))
            assert self.state is not None
            if before is not None:
                self.state = yarn.negotiate(self.state, (), self.config, self.now).state
            self.take(ProfilesDefined(self.now, SPECS))
        elif isinstance(one, ResourcesAnswered | ResourcesRefused | LaunchEnded):
            self.take(one)

    def wish(self, wish: tuple[Any, ...]) -> None:
        match wish:
            case ("target", zero, one, hints):
                tasks = {ProfileId(0): sum(hints.values())}
                targets = ((ProfileId(0), zero), (ProfileId(1), one))
                self.take(ContainersWanted(self.now, targets, tasks, {ProfileId(0): hints}))
            case ("kill", number):
                self.take(KillExecutors(self.now, (ExecutorId(str(number)),)))
            case ("decommission", number):
                told = DecommissionExecutors(self.now, (ExecutorId(str(number)),), "", True, WHY)
                self.world = worlds.apply(self.world, told, self.now)
            case ("exclude", host):
                wanted_now = ((ProfileId(0), 5 + len(self.heard) % 3),)
                self.take(ContainersWanted(self.now, wanted_now, {}, {}, (host,)))


def check(world: YarnCluster) -> None:
    """What holds at every moment."""
    books = world._tables
    plan = books.plan
    there = worlds.containers(world)
    live = [row for row in there if not row.ended]
    # Every container has one life.
    assert len({row.id for row in there}) == len(there)
    tally = worlds.tally(world)
    ended = sum(count for name, count in tally.items() if name.startswith("completed."))
    assert tally.get("containers.allocated", 0) == ended + len(live)
    for row in there:
        assert not row.timer or row.timer in books.agenda
    # What is taken and what is free is what there is.
    assert books.used_mib == sum(row.resource.memory_mib for row in live)
    assert books.used_vcores == sum(row.resource.vcores for row in live)
    for slot, node in books.nodes.items():
        here = [row for row in live if row.slot == slot]
        assert sorted(row.number for row in there if row.slot == slot) == sorted(books.aboard.get(slot, ()))
        if node.state is NodeState.ABSENT:
            assert here == []
        taken = Resource(0, 0)
        for row in here:
            taken = taken.plus(row.resource)
        capacity = plan.nodes[slot].capacity
        assert node.room.plus(taken) == capacity.plus(Resource(0, 0, tuple((n, 0) for n, _ in taken.custom)))
        assert node.room.memory_mib >= 0
        if plan.description.manager.dominant:
            assert node.room.vcores >= 0
    # The indexes say what the tables say.
    for shape, slots in books.fitting.items():
        assert slots == sum(1 << node.slot for node in books.nodes.values() if books.has_room(node, shape))
    # Whom the resource manager owes something, hears of it.
    assert set(books.fresh) <= {row.number for row in live}


def play(
    description: YarnDescription,
    plan: Sequence[tuple[Millis, tuple[Any, ...]]],
    extra: Millis = 0,
    *,
    checked: bool = False,
) -> Run:
    run = Run(description, checked=checked)
    for wait, wish in plan:
        run.live(run.now + wait)
        run.wish(wish)
    run.live(max(run.now, CALM) + extra)
    return run


@given(descriptions, wishes)
def test_the_same_seed_gives_the_same_story_to_the_byte(
    description: YarnDescription, plan: list[tuple[Millis, tuple[Any, ...]]]
) -> None:
    one, other = play(description, plan), play(description, plan)
    assert "\n".join(map(repr, one.heard)).encode() == "\n".join(map(repr, other.heard)).encode()
    assert repr(worlds.containers(one.world)) == repr(worlds.containers(other.world))
    assert worlds.tally(one.world) == worlds.tally(other.world)
    times = [said.at for said in one.heard]
    assert times == sorted(times)


@given(descriptions, wishes)
def test_every_call_is_answered_once_and_every_end_told_once(
    description: YarnDescription, plan: list[tuple[Millis, tuple[Any, ...]]]
) -> None:
    run = play(description, plan, extra=60 * S, checked=True)
    run.beat_at = 10**12
    while worlds.census(run.world).calls_open:  # some take long
        run.live(worlds.due(run.world))
    answers = [one for one in run.heard if isinstance(one, ResourcesAnswered | ResourcesRefused)]
    if not description.master.restarts:
        assert len(answers) == len(run.asked)
    completions = Counter(c.container for a in answers if isinstance(a, ResourcesAnswered) for c in a.completed)
    again = worlds.tally(run.world).get("mistakes.told again", 0)
    assert completions.total() - len(completions) <= again
    given_ids = [c.id for a in answers if isinstance(a, ResourcesAnswered) for c in a.allocated]
    assert len(set(given_ids)) == len(given_ids)
    # Nobody is lost twice, and nobody who was never there.
    known = {one.address for one in run.heard if isinstance(one, RegisterExecutor)}
    lost = [one.address for one in run.heard if isinstance(one, ExecutorDisconnected)]
    assert len(set(lost)) == len(lost)
    assert set(lost) <= known


@given(descriptions, wishes)
def test_after_the_storm_it_is_calm(description: YarnDescription, plan: list[tuple[Millis, tuple[Any, ...]]]) -> None:
    """No fault begins any more; where there is room what is wanted comes, and what nobody wants goes."""
    run = play(description, plan, extra=60 * S)
    faults = ("mistakes", "launches", "calls.refused", "calls.slow", "nodes.crashed", "nodes.unhealthy")
    before = {name: n for name, n in worlds.tally(run.world).items() if name.startswith(faults)}
    run.wish(("target", 2, 0, {}))
    run.live(run.now + 300 * S)
    after = {name: n for name, n in worlds.tally(run.world).items() if name.startswith(faults)}
    late = {"launches.failed"}  # into containers that went just before
    oversize = description.manager.maximum_mib is not None
    assert {n: c for n, c in after.items() if n not in late and not (oversize and n == "calls.refused")} == {
        n: c for n, c in before.items() if n not in late and not (oversize and n == "calls.refused")
    }


@given(descriptions, wishes, st.lists(st.integers(0, 200), max_size=4))
def test_forks_are_not_disturbed(
    description: YarnDescription, plan: list[tuple[Millis, tuple[Any, ...]]], back: list[int]
) -> None:
    """Any moment can be gone on from again, in any order, and tells what it told then."""
    run = Run(description, checked=False)
    moments: list[tuple[YarnCluster, tuple[ClusterStimulus, ...], str]] = []
    for wait, wish in plan:
        end = run.now + wait
        while (at := min(worlds.due(run.world), run.beat_at)) <= end:
            before = run.world.fork()
            if worlds.due(before) == at:
                there = repr(worlds.containers(before))
                after, heard = worlds.advance(before.fork(), at)
                moments.append((before, heard, there + repr(worlds.containers(after))))
            run.live(at)
        run.live(end)
        run.wish(wish)
    for place in back:
        if moments:
            old, heard, there = moments[place % len(moments)]
            after, again = worlds.advance(old.fork(), worlds.due(old))
            assert repr(worlds.containers(old)) + repr(worlds.containers(after)) == there
            assert again == heard
            check(old)


@given(descriptions)
def test_a_description_survives_its_file(description: YarnDescription) -> None:
    assert problems(description) == ()
    text = yarn_world_file.write(description, "a heading")
    assert yarn_world_file.understand(text) == description
    assert yarn_world_file.write(yarn_world_file.understand(text)) == yarn_world_file.write(description)


# what the resource manager believes


class Model:
    """AMRMClientImpl and AppSchedulingInfo, request by request: numbers by location on both sides."""

    def __init__(self) -> None:
        self.made = 0
        self.requests: dict[int, tuple[str, ...]] = {}
        self.client: Counter[str] = Counter()
        self.changed: set[str] = set()
        self.manager: Counter[str] = Counter()

    def put(self, layout: Layout | None, anywhere: int) -> None:
        lists: list[tuple[str, ...]] = []
        for count, named, on in () if layout is None else layout.groups():
            lists += [(*named, *on, "*")] * count
        for where in (*lists, *[("*",)] * anywhere):
            self.made += 1
            self.requests[self.made] = where
            self.client.update(where)
            self.changed.update(where)

    def remove(self, number: int) -> None:
        where = self.requests.pop(number, ())
        self.client.subtract(where)
        self.changed.update(where)

    def tell(self) -> dict[str, int]:
        told = {where: self.client[where] for where in self.changed}
        self.changed = set()
        return told

    def arrive(self, told: dict[str, int]) -> None:
        for where, count in told.items():
            self.manager[where] = count


def a_layout(wants: list[tuple[int, int]]) -> Layout:
    """Hosts h0, h1, ... in falling order of how many requests name them; some on the same rack."""
    ordered = sorted(dict(wants).items(), key=lambda pair: -pair[1])
    lengths: list[int] = []
    ends: list[int] = []
    for place in range(len(ordered), 0, -1):
        if not ends or ordered[place - 1][1] > ends[-1]:
            lengths.append(place)
            ends.append(ordered[place - 1][1])
    named = tuple(f"h{host}" for host, _ in ordered)
    return Layout(named, tuple(f"/r{host % 3}" for host, _ in ordered), tuple(lengths), tuple(ends))


PLACES = [*(f"h{i}" for i in range(6)), "/r0", "/r1", "/r2", "*"]
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("request"),
            st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), max_size=4),
            st.integers(0, 4),
        ),
        st.tuples(st.just("cancel"), st.integers(1, 30), st.integers(0, 8)),
        st.tuples(st.just("take"), st.lists(st.integers(1, 30), min_size=1, max_size=6, unique=True)),
        st.tuples(st.sampled_from(["call", "failing call"])),
        st.tuples(st.just("give"), st.integers(0, 5), st.integers(1, 3)),
    ),
    max_size=30,
)


@given(steps)
def test_the_resource_manager_believes_what_hadoop_would_make_it_believe(plan: list[tuple[Any, ...]]) -> None:
    books = YarnTables(YarnPlan(YarnDescription(), stream(1), ""), 0)
    model, profile = Model(), ProfileId(0)
    for step in plan:
        match step:
            case ("request", wants, anywhere):
                layout = a_layout(wants) if wants else None
                request(
                    books, RequestContainers(0, profile, model.made + 1, layout, anywhere, Resource(1, 1), None, WHY)
                )
                model.put(layout, anywhere)
            case ("cancel", first, more):
                cancel(books, CancelRequests(0, profile, (Span(first, first + more),), WHY))
                for number in range(first, first + more + 1):
                    model.remove(number)
            case ("take", numbers):
                matches = tuple(Match(ContainerId("c"), number, "*") for number in numbers)
                take(books, TakeRequests(0, profile, matches, WHY))
                for number in numbers:
                    model.remove(number)
            case ("call",):
                arrive(books, parcel(books))
                model.arrive(model.tell())
            case ("failing call",):
                told: tuple[tuple[int, AskRow], ...] = parcel(books)
                restore(books, told)
                model.changed |= set(model.tell())
            case ("give", host, level):
                where = (f"h{host}", f"/r{host % 3}", "*")[3 - level :]
                need = books.needs.get(profile)
                if need is not None and all(wanted(need, place) for place in where):
                    books.needs.put(profile, give(need, where))
                    model.manager.subtract(where)
        need = books.needs.get(profile)
        believed = {place: 0 if need is None else wanted(need, place) for place in PLACES}
        assert believed == {place: model.manager[place] for place in PLACES}


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3_000)), max_size=12), st.integers(0, 5_000))
def test_the_next_heartbeat_is_the_next_one(moves: list[tuple[int, int]], now: Millis) -> None:
    """Found among bits, the next heartbeat is the one that a walk through all nodes finds."""
    description = YarnDescription((Nodes("n", 41, 4_000),))
    books = worlds.begin(description, 7, 100)._tables
    shape = YarnShape(Resource(3_000, 1), "")
    books.room_for(shape)
    for slot, memory in moves:
        node = books.nodes[slot]
        books.put_node(node._replace(room=Resource(memory, 16)))
    slots = books.room_for(shape)
    ends = [(books.beat_after(s, now + 100), s) for s in range(41) if books.nodes[s].room.memory_mib >= 3_000]
    if ends:
        assert books.next_beat(slots, now + 100) == min(ends)
    else:
        assert slots == 0
