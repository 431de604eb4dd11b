"""When full lists are asked for and which are taken. Spark's own scenarios carry their ids (F1 to F3, F6)."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.domain.base.units import NEVER
from podtide.domain.jvm.exceptions import NULL_POINTER, NUMBER_FORMAT, SparkFault
from podtide.domain.kubernetes import polling_source as polling
from podtide.domain.kubernetes.polling_source import PollingConfig, PollingInput, Start, StopPolling
from podtide.domain.protocol.cluster_config import SourcesConfig
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import ListPods
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome, PodsReplaced
from podtide.domain.protocol.pods import PodManifest
from podtide.domain.protocol.reasons import Cause, Remark, Threw

PODS = (PodManifest("exec-1"), PodManifest("exec-2"))


class Play:
    """A source and an API server that answers when it is told to."""

    def __init__(self, *, remarks: bool = False, **sources: Any) -> None:
        self.now = 0
        self.state = polling.start()
        self.config = PollingConfig(SourcesConfig(**sources), remarks)
        self.asked: list[ListPods] = []
        self.replaced: list[PodsReplaced] = []
        self.reports: list[Any] = []

    def take(self, *happenings: PollingInput) -> None:
        step = polling.poll(self.state, happenings, self.config, self.now)
        self.state = step.state
        self.reports += step.reports
        for command in step.commands:
            if isinstance(command, ListPods):
                self.asked.append(command)
            else:
                self.replaced.append(command)

    def start(self) -> None:
        self.take(Start(self.now))

    def at(self, moment: int) -> None:
        self.now = moment
        self.take(Wake(moment))

    def answer(self, version: str | None = None, failure: CallFailure | None = None) -> None:
        self.take(Outcome(self.now, self.asked[-1].serial, failure, version=version, pods=PODS))


def started(**sources: Any) -> Play:
    play = Play(**sources)
    play.start()
    return play


def test_f1_a_list_after_one_interval_replaces_the_snapshot() -> None:
    play = started()
    play.at(29_999)
    assert play.asked == []
    play.at(30_000)
    play.answer()
    assert [(listing.at, listing.why.cause) for listing in play.asked] == [(30_000, Cause.RESYNCHRONIZE)]
    assert play.replaced == [PodsReplaced(30_000, PODS)]


def test_f2_polling_that_is_off_never_asks() -> None:
    play = started(poll=False)
    assert polling.due(play.state) == NEVER
    play.at(10**9)
    assert play.asked == []


@pytest.mark.parametrize(("with_version", "version"), [(False, None), (True, "0")], ids=["F3-plain", "F3-cached"])
def test_f3_what_is_asked_for(with_version: bool, version: str | None) -> None:
    play = started(poll_with_version=with_version)
    play.at(30_000)
    assert play.asked[0].resource_version == version


def test_why_a_list_is_asked_for_names_the_last_version() -> None:
    play = started(poll_with_version=True)
    play.at(30_000)
    play.answer("7")
    play.at(60_000)
    assert [dict(listing.why.facts).get("last_version") for listing in play.asked] == [None, "7"]


@pytest.mark.parametrize(
    ("versions", "taken"),
    [
        pytest.param(["10", "9", "10"], [True, False, True], id="F6"),
        (["10", "11", "10"], [True, True, False]),
        (["18446744073709551615", "9223372036854775808"], [True, False]),  # unsigned
        (["9", "10"], [True, True]),  # numbers, not texts
        (["0000000000000000000000000000000000009", "8"], [True, False]),
        (["10", None, "9"], [True, False, False]),
        (["x", "5"], [False, True]),
        (["10", "-1", "", "+12", "18446744073709551616", "12"], [True, False, False, False, False, True]),
    ],
)
def test_versions_never_go_back(versions: list[str | None], taken: list[bool]) -> None:
    play = started(poll_with_version=True)
    story = []
    for round_number, version in enumerate(versions, start=1):
        play.at(30_000 * round_number)
        before = len(play.replaced)
        play.answer(version)
        story.append(len(play.replaced) > before)
    assert story == taken


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0", 0),
        ("007", 7),
        ("0" * 100_000, 0),
        ("18446744073709551615", 2**64 - 1),
        ("٣", 3),
        (None, SparkFault(NULL_POINTER, "null")),
        ("", SparkFault(NUMBER_FORMAT, "empty string")),
        ("-1", SparkFault(NUMBER_FORMAT, "-1")),
        ("+1", SparkFault(NUMBER_FORMAT, "+1")),
        ("𝟓", SparkFault(NUMBER_FORMAT, "𝟓")),
        ("1.0", SparkFault(NUMBER_FORMAT, "1.0")),
        ("9" * 30, SparkFault(NUMBER_FORMAT, f"Too large for unsigned long: {'9' * 30}")),
    ],
)
def test_versions_as_guava_reads_them(text: str | None, version: int | SparkFault) -> None:
    assert polling.parse_version(text) == version


def test_the_next_list_comes_an_interval_after_the_answer() -> None:
    play = started()
    play.at(30_000)
    assert polling.due(play.state) == NEVER
    play.at(45_000)
    play.answer()
    assert polling.due(play.state) == 75_000
    assert len(play.asked) == 1


def test_a_failed_list_changes_nothing_and_the_next_one_comes() -> None:
    play = started()
    play.at(30_000)
    play.answer(failure=CallFailure(403, "Forbidden"))
    assert play.replaced == []
    assert play.reports == [
        Threw(
            30_000,
            "ExecutorPodsPollingSnapshotSource",
            "io.fabric8.kubernetes.client.KubernetesClientException: Forbidden",
        )
    ]
    assert polling.due(play.state) == 60_000


@pytest.mark.parametrize("asked", [False, True])
def test_starting_twice_throws(asked: bool) -> None:
    play = started()
    if asked:
        play.at(30_000)
    play.start()
    (threw,) = play.reports
    assert threw.what == (
        "java.lang.IllegalArgumentException: requirement failed: Cannot start polling more than once."
    )


def test_after_the_stop_nothing_is_asked_and_answers_are_of_no_interest() -> None:
    play = started()
    play.at(30_000)
    play.take(StopPolling(30_000))
    play.answer()
    play.at(10**9)
    assert (len(play.asked), play.replaced) == (1, [])
    play.start()
    assert play.reports[-1].what == str(polling.REJECTED)
    assert polling.due(play.state) == NEVER


def test_an_answer_to_somebody_else_is_passed_over() -> None:
    play = started()
    play.at(30_000)
    play.take(Outcome(30_000, 77, pods=PODS))
    assert play.replaced == []


def test_the_start_is_remarked_where_asked() -> None:
    play = Play(remarks=True)
    play.start()
    assert play.reports == [Remark(0, polling.POLLING, "started", {"interval_ms": 30_000})]


def test_an_older_source_still_answers_as_before() -> None:
    play = started(poll_with_version=True)
    play.at(30_000)
    before = play.state
    for version, taken in (("10", 1), ("9", 2)):
        play.state = before
        play.answer(version)
        assert len(play.replaced) == taken
