"""The driver behind ``--driver-url`` before the run begins: its conf, and what is said while it does not answer."""

from __future__ import annotations

import json

import pytest

from podtide.adapters.driver.driver_client import DriverReply, NoAnswer
from podtide.adapters.driver.driver_sensor import DriverSilent
from podtide.adapters.notices import Notice, Topic
from podtide.adapters.views.live.status import About
from podtide.adapters.views.live.tracker import LiveTracker
from podtide.domain.base.units import Millis
from podtide.entrypoints.live.audience import Audience
from podtide.entrypoints.live.driver_link import DRIVER_WITHIN_S, conf_of


class Waiting:
    """A driver that is ready after so many seconds, and a clock that only pauses move."""

    def __init__(self, ready_after_s: float) -> None:
        self.seconds = 0.0
        self.ready_after_s = ready_after_s
        self.notices: list[Notice] = []
        self.tracker = LiveTracker(About("app", "ns", "act", "0", driver=True), self)
        self.audience = Audience(self, self.tracker, (), (self.tracker.notify, self.notices.append))

    def now(self) -> Millis:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds += seconds

    def get(self, path: str) -> DriverReply:
        if self.seconds < self.ready_after_s:
            raise NoAnswer("connection refused", refused=True)
        assert path == "applications/app/environment"
        hidden = ["spark.secret", "*********(redacted)"]
        return DriverReply(200, json.dumps({"sparkProperties": [["spark.a", "b"], hidden]}).encode())


def conf(driver: Waiting) -> tuple[dict[str, str], list[str]]:
    hidden: list[str] = []
    return conf_of(driver.get, "app", hidden, driver, driver.audience, driver.pause), hidden


def test_a_driver_that_is_ready() -> None:
    driver = Waiting(0)
    assert conf(driver) == ({"spark.a": "b"}, ["spark.secret"])
    assert not driver.notices


def test_a_driver_that_is_not_ready_at_the_start_is_called_unreachable_until_it_answers() -> None:
    driver = Waiting(7)
    assert conf(driver) == ({"spark.a": "b"}, ["spark.secret"])
    assert [one.topic for one in driver.notices] == [Topic.DRIVER_UNREACHABLE, Topic.DRIVER_BACK]
    assert driver.notices[1].text == "the driver answers, after 7.0 s"
    assert driver.tracker.snapshot().driver is True


def test_a_driver_that_never_answers_is_given_up() -> None:
    driver = Waiting(10 * DRIVER_WITHIN_S)
    with pytest.raises(DriverSilent, match="connection refused"):
        conf(driver)
    assert driver.seconds == DRIVER_WITHIN_S
    assert driver.tracker.snapshot().driver is False
