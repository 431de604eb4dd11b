"""What driver and application master say of one another in Spark's log, line by line."""

from __future__ import annotations

from podtide.adapters.views.sparklog.log import spark_lines
from podtide.domain.base.units import ExecutorId
from podtide.domain.protocol.pod_stimuli import KillRequested, Stopping
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.yarn_messages import EndApplication, MasterLost
from tests.support.yarn_side_play import S, YarnPlay, config

ENDPOINT = "YarnSchedulerBackend$YarnSchedulerEndpoint"


def said(play: YarnPlay) -> list[tuple[str, str, str]]:
    """What is logged of a play, without what the allocator says."""
    found = [line for report in play.reports for line in spark_lines(report)]
    return [(line.level, line.logger, line.text) for line in found if not line.logger.startswith("YarnAllocator")]


def test_a_life() -> None:
    play = YarnPlay(config(remarks=True, dynamic=True), master=False)
    play.disconnects(1)
    play.registers(9)
    play.disconnects(9)
    assert said(play) == [
        ("WARN", ENDPOINT, "Attempted to request executors before the AM has registered!"),
        (
            "INFO",
            "YarnSchedulerBackend$YarnDriverEndpoint",
            "Registered executor NettyRpcEndpointRef(spark-client://Executor) (h1:9) with ID 9, ResourceProfileId 0",
        ),
        ("INFO", "YarnSchedulerBackend$YarnDriverEndpoint", "Disabling executor 9."),
        ("WARN", ENDPOINT, "Attempted to check for an executor loss reason before the AM has registered!"),
    ]


def test_a_master_that_is_lost() -> None:
    play = YarnPlay(config(remarks=True))
    play.reports.clear()
    play.feed(MasterLost(play.now, "h7:4040"))
    assert said(play) == [("WARN", ENDPOINT, "ApplicationMaster has disassociated: h7:4040")]


def test_a_kill_and_a_loss() -> None:
    play = YarnPlay(config(remarks=True)).offer("h1", "h2").until(S)
    play.registers(1, 2)
    play.reports.clear()
    play.feed(KillRequested(play.now, (ExecutorId("1"), ExecutorId("7"))))
    play.disconnects(2)
    play.wait(119 * S)
    play.reports, lost = [], play.reports
    play.wait(2 * S)
    assert said(play)[0] == (
        "WARN",
        ENDPOINT,
        "Attempted to get executor loss reason for executor id 2 at RPC address h1:2, but got no response. "
        "Marking as agent lost.",
    )
    play.reports = lost
    backend = "YarnClusterSchedulerBackend"
    assert said(play)[:5] == [
        ("INFO", backend, "Requesting to kill executor(s) 1, 7"),
        ("WARN", backend, "Executor to kill 7 does not exist!"),
        ("INFO", backend, "Actual list of executor(s) to be killed is 1"),
        ("INFO", "ApplicationMaster$AMEndpoint", "Driver requested to kill executor(s) 1."),
        ("INFO", "YarnSchedulerBackend$YarnDriverEndpoint", "Disabling executor 2."),
    ]


def test_the_reporter_and_the_end() -> None:
    play = YarnPlay(config(remarks=True))
    assert said(play)[-1] == (
        "INFO",
        "ApplicationMaster",
        "Started progress reporter thread with (heartbeat: 3000, initial allocation: 200) intervals",
    )
    play.manager.refusal = ("java.io.IOException: x", False)
    play.wait(1)
    play.wait(200)
    assert ("WARN", "ApplicationMaster", "Reporter thread fails 1 time(s) in a row.") in said(play)
    end = EndApplication(0, "FAILED", 11, "enough", Why(Cause.TOO_MANY_FAILURES))
    (line,) = spark_lines(end)
    assert (line.level, line.text) == ("INFO", "Final app status: FAILED, exitCode: 11, (reason: enough)")


def test_without_a_master_the_end_is_a_warning() -> None:
    play = YarnPlay(config(remarks=True), master=False)
    play.feed(Stopping(0))
    assert ("WARN", ENDPOINT, "Attempted to send shutdown message before the AM has registered!") in said(play)
