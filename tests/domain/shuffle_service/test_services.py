"""Which service serves whom. Ids S1 to S13: scenarios of the shuffle service's specification (auxiliary, 4.1). What real
Spark makes of them is in tests/live."""

from __future__ import annotations

from podtide.domain.shuffle_service.services import (
    NodeVerdict,
    PlacedExecutor,
    ServicePod,
    ServicesConfig,
    ServicesSeen,
    ServicesState,
    ServicesStimulus,
    ServicesUnseen,
    ShuffleNews,
    ShuffleReport,
    advance,
    served_nodes,
    service_of,
)

CONFIG = ServicesConfig(register_ms=60_000, hold_ms=15_000)
A = ServicePod("shuffle-a", "a", "10.0.0.1", ready=True)
B = ServicePod("shuffle-b", "b", "10.0.0.2", ready=True)


def executor(number: int, node: str = "a", app: str = "app") -> PlacedExecutor:
    return PlacedExecutor(f"exec-{number}", app, node, {"a": "10.0.0.1", "b": "10.0.0.2"}[node])


class Play:
    """Looks at a cluster, and what comes of them."""

    def __init__(self) -> None:
        self.state = ServicesState()
        self.now = 1_000_000
        self.executors: tuple[PlacedExecutor, ...] = ()

    def hear(self, stimulus: ServicesStimulus) -> tuple[ShuffleReport, ...]:
        step = advance(self.state, stimulus, CONFIG, self.now)
        self.state = step.state
        return step.reports

    def look(
        self, *services: ServicePod, apps: frozenset[str] = frozenset({"app"})
    ) -> list[tuple[ShuffleNews, str, int]]:
        reports = self.hear(ServicesSeen(services, self.executors, apps))
        return [(report.news, report.node, len(report.executors)) for report in reports]

    def wait(self, millis: int, *services: ServicePod) -> tuple[ShuffleReport, ...]:
        """Look when so much time is over, and no news just before."""
        self.now += millis - 1
        assert self.look(*services) == []
        self.now += 1
        return self.hear(ServicesSeen(services, self.executors, frozenset({"app"})))


def test_s1_each_executor_registers_at_the_service_of_its_own_node() -> None:
    play = Play()
    play.executors = (executor(1), executor(2, "b"), executor(3, "b"))
    assert play.look(A, B) == [(ShuffleNews.REGISTERED, "a", 1), (ShuffleNews.REGISTERED, "b", 2)]
    assert [service_of(play.state, one) for one in play.executors] == [A, B, B]


def test_s2_files_of_executors_that_went_are_served_on_until_their_application_ends() -> None:
    play = Play()
    play.executors = (executor(1), executor(2))
    play.look(A)
    play.executors = ()
    assert play.look(A) == []
    assert play.look() == [(ShuffleNews.HELD, "a", 2)]
    assert play.look(A) == [(ShuffleNews.BACK, "a", 2)]
    assert play.look(A, apps=frozenset()) == []
    assert play.state.registrations == {}


def test_s5_two_services_on_a_node_are_an_error_with_both_names_and_other_nodes_go_on() -> None:
    play = Play()
    play.executors = (executor(1), executor(2, "b"))
    assert play.look(A, A._replace(name="shuffle-x"), B) == [(ShuffleNews.REGISTERED, "b", 1)]
    (report,) = play.wait(CONFIG.register_ms, A, A._replace(name="shuffle-x"), B)
    assert (report.news, report.executors) == (ShuffleNews.REFUSED, ("exec-1",))
    assert report.why == "node a: several services; there has to be one (shuffle-a, shuffle-x)"
    assert play.look(A, B) == [], "Spark has replaced it"


def test_s6_an_executor_on_a_node_without_a_service_fails_in_time_and_the_node_is_named() -> None:
    play = Play()
    play.executors = (executor(1), executor(2, "b"))
    assert play.look(A) == [(ShuffleNews.REGISTERED, "a", 1)]
    (report,) = play.wait(CONFIG.register_ms, A)
    assert (report.news, report.node, report.executors) == (ShuffleNews.REFUSED, "b", ("exec-2",))
    assert report.why == "node b: no service"
    play.executors += (executor(3, "b"),)
    assert play.look(A, B) == [(ShuffleNews.REGISTERED, "b", 1)], "the one that is tried again, when there is a service"


def test_s6_a_service_that_comes_in_time_is_registered_at() -> None:
    play = Play()
    play.executors = (executor(1),)
    play.look()
    play.now += CONFIG.register_ms - 1
    assert play.look(A) == [(ShuffleNews.REGISTERED, "a", 1)]


def test_s7_a_service_at_another_address_does_not_have_the_files() -> None:
    """New executors, on the network of the node, have that address, too; the files of the others are lost and told."""
    play = Play()
    play.executors = (executor(1),)
    play.look(A)
    moved = A._replace(name="shuffle-2", address="10.0.0.9")
    play.executors += (executor(2)._replace(address="10.0.0.9"),)
    reports = play.hear(ServicesSeen((moved,), play.executors, frozenset({"app"})))
    assert [(report.news, report.executors) for report in reports] == [
        (ShuffleNews.LOST, ("exec-1",)),
        (ShuffleNews.REGISTERED, ("exec-2",)),
    ]
    assert reports[0].why == "the service was at 10.0.0.1; now there is shuffle-2 at 10.0.0.9"
    assert play.look(moved) == []


def test_s7_a_service_that_stays_away_loses_the_files_once() -> None:
    play = Play()
    play.executors = (executor(1),)
    play.look(A)
    assert play.look() == [(ShuffleNews.HELD, "a", 1)]
    (report,) = play.wait(CONFIG.hold_ms)
    assert (report.news, report.why) == (ShuffleNews.LOST, "the service was at 10.0.0.1")
    assert play.look(A) == []


def test_s8_s12_a_service_that_is_changed_or_made_anew_at_its_address_serves_on() -> None:
    play = Play()
    play.executors = (executor(1),)
    play.look(A)
    assert play.look(A) == []
    assert play.look(A._replace(name="shuffle-new")) == []
    assert play.look(A._replace(name="shuffle-newer", ready=False)) == []


def test_s9_a_service_whose_label_does_not_match_any_more_is_none() -> None:
    """It is not listed, as if it were gone: the executors after that have the error of S6."""
    play = Play()
    play.look(A)
    play.executors = (executor(1),)
    assert play.look() == []
    assert service_of(play.state, executor(1)) == "node a: no service"


def test_s10_a_service_is_not_handed_out_while_it_is_not_ready() -> None:
    play = Play()
    play.executors = (executor(1),)
    play.look(A)
    play.executors += (executor(2),)
    assert play.look(A._replace(ready=False)) == [], "who registered stays, who comes waits"
    assert service_of(play.state, executor(2)) == "node a: its service is not Ready (shuffle-a)"
    assert play.look(A) == [(ShuffleNews.REGISTERED, "a", 1)]
    assert play.look(A._replace(ready=True, address="")) == [(ShuffleNews.HELD, "a", 2)]


def test_s13_what_happened_between_two_looks_is_in_the_second_and_a_failed_one_changes_nothing() -> None:
    play = Play()
    play.executors = (executor(1), executor(2, "b"))
    play.look(A)
    before = play.state
    assert play.hear(ServicesUnseen()) == ()
    assert play.state == before
    play.executors = (executor(2, "b"), executor(3, "b"))
    assert play.look(B) == [(ShuffleNews.HELD, "a", 1), (ShuffleNews.REGISTERED, "b", 2)]


def test_an_executor_with_an_address_of_its_own_finds_no_service() -> None:
    play = Play()
    own = executor(1)._replace(address="10.244.0.7")
    play.executors = (own,)
    play.look(A)
    (report,) = play.wait(CONFIG.register_ms, A)
    assert report.news is ShuffleNews.REFUSED
    assert "the service is at 10.0.0.1" in report.why
    assert "both need hostNetwork" in report.why


def test_nodes_as_people_see_them() -> None:
    play = Play()
    play.executors = (executor(1), executor(2, "b"))
    play.look(A, ServicePod("shuffle-c", "c", "10.0.0.3", ready=False))
    lines = served_nodes(play.state, play.executors)
    assert [(line.node, line.verdict, line.served, dict(line.waiting)) for line in lines] == [
        ("a", NodeVerdict.SERVED, ("exec-1",), {}),
        ("b", NodeVerdict.MISSING, (), {"exec-2": "node b: no service"}),
        ("c", NodeVerdict.NOT_READY, (), {}),
    ]
