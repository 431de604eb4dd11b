"""When the files of an application go. Ids S9 to S14: scenarios of the shuffle service's specification (auxiliary, 4.1); the
same with a disk and an API server are in tests/adapters/shuffle_service."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.base.units import Millis
from podtide.domain.shuffle_service.applications import (
    ApplicationDirectory,
    ApplicationFound,
    ApplicationId,
    ApplicationUnknown,
    CleanerCommand,
    CleanerConfig,
    CleanerStimulus,
    CleanerTick,
    CleaningCause,
    DirectoriesFound,
    DirectoryKept,
    DirectoryRemoved,
    DriverName,
    DriversHidden,
    DriverShown,
    DriversListed,
    DriverVanished,
    FindApplication,
    FindDirectories,
    RememberDriver,
    RemoveDirectory,
    TellCleaning,
    WatchedDriver,
    application_id,
    driver_name,
)
from podtide.domain.shuffle_service.cleaner import CleanerState, advance, begin, due

CONFIG = CleanerConfig(frozenset({"ns"}), scan_ms=30_000, ended_ms=60_000, orphan_ms=1_000_000)
APP = ApplicationId("spark-1")
OTHER = ApplicationId("spark-2")
DRIVER = DriverName("ns", "job-driver", "uid-1")
OTHER_DRIVER = DriverName("ns", "other-driver", "uid-2")
ALIVE = WatchedDriver(APP, DRIVER, ended=False)
ENDED = WatchedDriver(APP, DRIVER, ended=True)
OTHER_ALIVE = WatchedDriver(OTHER, OTHER_DRIVER, ended=False)


class Play:
    """A cleaner with a disk and an API server that are what the test says. ``alive``: living pods by application; None: the
    API server does not answer. ``disk``: the directories.
    """

    def __init__(self, *directories: ApplicationId, config: CleanerConfig = CONFIG) -> None:
        self.config = config
        self.now: Millis = 10_000_000
        self.disk = {app: ApplicationDirectory(self.now) for app in directories}
        self.alive: dict[ApplicationId, int] | None = {}
        self.state: CleanerState = begin(self.now)
        self.commands: list[CleanerCommand] = []

    def restart(self) -> None:
        self.state = begin(self.now)

    def hear(self, *stimuli: CleanerStimulus) -> None:
        for stimulus in stimuli:
            step = advance(self.state, stimulus, self.config, self.now)
            self.state = step.state
            for command in step.commands:
                self.commands.append(command)
                self._carry_out(command)

    def _carry_out(self, command: CleanerCommand) -> None:
        match command:
            case FindDirectories():
                self.hear(DirectoriesFound(tuple(self.disk.items())))
            case RememberDriver(app, driver):
                self.disk[app] = self.disk[app]._replace(driver=driver)
            case FindApplication(app, _):
                if self.alive is None:
                    self.hear(ApplicationUnknown(app))
                else:
                    self.hear(ApplicationFound(app, self.alive.get(app, 0), self.disk[app].modified_at))
            case RemoveDirectory(app, _, _):
                del self.disk[app]
                self.hear(DirectoryRemoved(app))
            case TellCleaning():
                pass

    def wait(self, millis: Millis) -> None:
        """Let time pass; ticks come when they are due."""
        end = self.now + millis
        while (at := due(self.state, self.config)) <= end:
            self.now = max(self.now, at)
            self.hear(CleanerTick())
        self.now = end

    def removals(self) -> list[tuple[ApplicationId, CleaningCause]]:
        return [(one.app, one.cause) for one in self.commands if isinstance(one, RemoveDirectory)]

    def asked(self) -> list[FindApplication]:
        return [one for one in self.commands if isinstance(one, FindApplication)]

    def told(self) -> list[TellCleaning]:
        return [one for one in self.commands if isinstance(one, TellCleaning)]


@pytest.mark.parametrize(
    ("end", "cause"),
    [(DriverVanished(APP, DRIVER), CleaningCause.DRIVER_GONE), (DriverShown(ENDED), CleaningCause.DRIVER_ENDED)],
)
def test_s11_files_go_within_the_set_time_and_others_stay(end: CleanerStimulus, cause: CleaningCause) -> None:
    play = Play(APP, OTHER)
    play.hear(DriversListed("ns", (ALIVE, OTHER_ALIVE)))
    play.wait(500_000)
    assert play.asked() == []
    play.alive = {OTHER: 3}
    play.hear(end)
    play.wait(CONFIG.ended_ms - 1)
    assert play.removals() == []
    play.wait(1)
    assert play.removals() == [(APP, cause)]
    assert list(play.disk) == [OTHER]
    play.wait(500_000)
    assert len(play.removals()) == 1


def test_s9_a_driver_that_only_lost_a_label_keeps_its_files() -> None:
    """A filtered watch reports that as a deletion; the API server, asked by the driver's name, knows better."""
    play = Play(APP)
    play.hear(CleanerTick(), DriversListed("ns", (ALIVE,)), DriverVanished(APP, DRIVER))
    play.alive = {APP: 1}
    play.wait(10 * CONFIG.ended_ms)
    assert len(play.asked()) > 5, "it is looked after further"
    assert set(play.asked()) == {FindApplication(APP, DRIVER)}
    assert play.removals() == []
    play.alive = {}
    play.wait(CONFIG.ended_ms)
    assert play.removals() == [(APP, CleaningCause.DRIVER_GONE)]


def test_s9_a_driver_that_comes_back_is_not_asked_about() -> None:
    play = Play(APP)
    play.hear(CleanerTick(), DriversListed("ns", (ALIVE,)), DriverVanished(APP, DRIVER))
    play.wait(CONFIG.ended_ms - 1)
    play.hear(DriverShown(ALIVE))
    play.wait(500_000)
    assert play.asked() == []


def test_a_deletion_of_the_pod_before_says_nothing_about_the_one_of_now() -> None:
    play = Play(APP)
    again = ALIVE._replace(driver=DRIVER._replace(uid="uid-9"))
    play.hear(CleanerTick(), DriversListed("ns", (ALIVE,)), DriverShown(again), DriverVanished(APP, DRIVER))
    play.wait(500_000)
    assert play.asked() == []
    assert play.disk[APP].driver == again.driver


@pytest.mark.parametrize("dies_first", [True, False])
def test_s12_a_restart_forgets_nothing(dies_first: bool) -> None:
    play = Play(APP)
    play.hear(CleanerTick(), DriversListed("ns", (ALIVE,)))
    assert play.disk[APP].driver == DRIVER
    play.restart()
    play.hear(CleanerTick())
    if dies_first:
        play.hear(DriversListed("ns", ()))
    else:
        play.hear(DriversListed("ns", (ALIVE,)))
        play.wait(500_000)
        play.hear(DriverVanished(APP, DRIVER))
    play.wait(CONFIG.ended_ms)
    assert play.removals() == [(APP, CleaningCause.DRIVER_GONE)]


def test_s13_what_happened_while_the_watch_was_broken_is_in_the_list_after_it() -> None:
    play = Play(APP, OTHER)
    play.hear(CleanerTick(), DriversListed("ns", (ALIVE, OTHER_ALIVE)))
    play.wait(500_000)
    play.hear(DriversListed("ns", (OTHER_ALIVE,)), DriversListed("elsewhere", ()))
    play.wait(CONFIG.ended_ms)
    assert play.removals() == [(APP, CleaningCause.DRIVER_GONE)]


def test_s14_without_rights_nothing_goes_and_it_is_told_once() -> None:
    play = Play(APP)
    play.hear(CleanerTick(), DriversHidden("ns", "you may not list pods"))
    play.wait(5_000_000)
    play.hear(DriversHidden("ns", "you may not watch pods"))
    assert play.told() == [TellCleaning(False, "you may not list pods")]
    assert play.asked() == []
    play.hear(DriversListed("ns", ()), DriversHidden("ns", None))
    assert play.told()[1:] == [TellCleaning(True, "")]
    play.wait(1)
    assert play.removals() == [(APP, CleaningCause.NO_DRIVER)]


def test_nothing_is_asked_before_every_namespace_is_known() -> None:
    play = Play(APP, config=replace(CONFIG, namespaces=frozenset({"ns", "other"})))
    play.hear(CleanerTick(), DriversListed("ns", ()))
    play.wait(5_000_000)
    assert (play.asked(), play.told()) == ([], [])
    play.hear(DriversListed("other", ()))
    assert play.told() == [TellCleaning(True, "")]
    assert play.removals() == [(APP, CleaningCause.NO_DRIVER)]


def test_without_an_answer_files_stay_and_it_is_asked_again() -> None:
    play = Play(APP)
    play.alive = None
    play.hear(CleanerTick(), DriversListed("ns", (ENDED,)))
    play.wait(CONFIG.ended_ms + 5 * CONFIG.scan_ms)
    assert (len(play.asked()), play.removals()) == (6, [])
    play.alive = {}
    play.wait(CONFIG.scan_ms)
    assert play.removals() == [(APP, CleaningCause.DRIVER_ENDED)]


def test_an_application_without_a_driver_pod_keeps_its_files_while_somebody_writes() -> None:
    """Client mode: the driver may be anywhere. Executors come to a directory, or write into it deeper down."""
    play = Play(APP)
    began = play.now
    play.hear(CleanerTick(), DriversListed("ns", ()))
    play.wait(CONFIG.orphan_ms - 1)
    play.disk[APP] = ApplicationDirectory(began + 700_000)  # deeper down, so no scan has seen it
    play.wait(1)
    assert (len(play.asked()), play.removals()) == (1, [])
    play.wait(699_999)
    assert play.removals() == []
    play.wait(1)
    assert play.removals() == [(APP, CleaningCause.NO_DRIVER)]


def test_such_files_can_stay_for_ever() -> None:
    play = Play(APP, config=replace(CONFIG, orphan_ms=0))
    play.hear(CleanerTick(), DriversListed("ns", ()))
    play.wait(10_000_000)
    assert play.asked() == []


def test_a_disk_that_refuses_is_asked_again() -> None:
    state = begin(0)
    config = replace(CONFIG, ended_ms=0)
    removals = 0
    for now in range(0, 120_000, 30_000):
        stimuli: list[CleanerStimulus] = [
            DriversListed("ns", (ENDED,)),
            DirectoriesFound(((APP, ApplicationDirectory(0, DRIVER)),)),
            CleanerTick(),
            ApplicationFound(APP, 0, 0),
        ]
        for stimulus in stimuli:
            step = advance(state, stimulus, config, now)
            state = step.state
            if any(isinstance(command, RemoveDirectory) for command in step.commands):
                removals += 1
                state = advance(state, DirectoryKept(APP), config, now).state
    assert removals == 4


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from(
            [DriversListed("ns", (ALIVE,)), DriversListed("ns", ()), DriverShown(ALIVE), DriverShown(ENDED),
             DriverVanished(APP, DRIVER), DriversHidden("ns", "no"), DriversHidden("ns", None), "wait", "restart"]
        ),
        max_size=30,
    )
)  # fmt: skip
def test_whatever_a_watch_says_files_of_a_living_application_stay(happenings: list[CleanerStimulus | str]) -> None:
    """And they go once it is dead and the watch is right again."""
    play = Play(APP)
    play.alive = {APP: 1}
    for one in happenings:
        if one == "wait":
            play.wait(200_000)
        elif one == "restart":
            play.restart()
        else:
            assert not isinstance(one, str)
            play.hear(one)
    assert play.removals() == []
    play.alive = {}
    play.hear(DriversListed("ns", ()), DriversHidden("ns", None))
    play.wait(CONFIG.orphan_ms + CONFIG.ended_ms)
    assert list(play.disk) == []


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "../a", ".hidden", "a" * 64, "a\n", "-a", "a.", "ä"])
def test_what_no_label_can_hold_is_no_application(text: str) -> None:
    assert application_id(text) is None
    assert driver_name("ns", text.upper() or "", "u") is None


def test_ids_of_spark_are_applications() -> None:
    ids = ("spark-0123456789abcdef0123456789abcdef", "spark-application-1700000000000", "Nightly_1.0")
    assert [application_id(text) for text in ids] == list(ids)
    assert driver_name("ns", "job-1.x-driver", "0-a") == ("ns", "job-1.x-driver", "0-a")
