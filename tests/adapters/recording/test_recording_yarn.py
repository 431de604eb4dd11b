"""Recordings of an application on YARN: what was recorded decides the same again; what no run holds is refused."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest

from podtide.adapters.recording.codec import UnreadableLine, decided_record, decided_value
from podtide.adapters.recording.header import RecordingHeader
from podtide.adapters.recording.reader import Recording
from podtide.adapters.recording.writer import RecordingWriter
from podtide.domain import engine
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol import yarn_messages as ym
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.container_requests import Layout
from podtide.domain.protocol.containers import NodeReport, Resource
from podtide.domain.protocol.executor_stimuli import KillRequested, Stopping
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.stimuli import ResourceProfileAdded, StageSubmitted
from tests.support.yarn_side_play import S, YarnPlay, config

HEADER = RecordingHeader("app", 0, "fake", {"spark.master": "yarn"}, racks={"h1": "/r1"})
CONFIG = config(
    dynamic=True, initial=1, remarks=True, allocator={"decommission": True, "failures_max": 3, "racks": {"h1": "/r1"}}
)


class RecordedPlay(YarnPlay):
    """A play that writes a recording while it runs."""

    def __init__(self, writer: RecordingWriter) -> None:
        self.writer = writer
        writer.step(0, (), *engine.launch(CONFIG, 0)[1:])
        super().__init__(CONFIG)

    def feed(self, *stimuli: AnyStimulus) -> list[Command]:
        """Take stimuli in one step, and write it down."""
        step = engine.advance(self.state, stimuli, self.config, self.now)
        self.writer.step(self.now, stimuli, step.commands, step.reports)
        return super().feed(*stimuli)


def recorded() -> bytes:
    file = io.BytesIO()
    with RecordingWriter(file, HEADER) as writer:
        play = RecordedPlay(writer)
        play.offer("h1").until(2 * S)
        play.registers(1)
        play.feed(
            ResourceProfileAdded(play.now, ProfileId(1), (("cores", 2.0), ("gpu", 1.0)), (("cpus", 1.0),)),
            StageSubmitted(play.now, 0, 0, 6, ProfileId(0), (("h1",), ("h1", "h2"), ("h3",), (), (), ())),
            StageSubmitted(play.now, 1, 0, 2, ProfileId(1)),
        )
        play.offer("h2", "h9").wait(5 * S)
        play.registers(2, host="h2")
        play.feed(KillRequested(play.now, (ExecutorId("1"),)))
        play.disconnects(1)
        play.ends(1, status=143).wait(5 * S)
        play.manager.updated.append(NodeReport("h2", "DECOMMISSIONING"))
        play.wait(5 * S)
        play.feed(ym.MasterLost(play.now, "h1:4040"))
        play.wait(S)
        play.feed(ym.MasterRegistered(play.now))
        play.wait(5 * S)
        play.manager.refusal = ("org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException: gone", False)
        play.wait(5 * S)
        play.feed(Stopping(play.now))
    return file.getvalue()


def test_a_run_on_yarn_decides_the_same_again() -> None:
    with Recording("-", stdin=io.BytesIO(recorded())) as recording:
        steps = list(recording)
        assert recording.header.racks == {"h1": "/r1"}
    begun = engine.launch(CONFIG, 0)
    state = begun.state
    assert (steps[0].commands, steps[0].reports) == (begun.commands, begun.reports)
    kinds: set[str] = set()
    for step in steps[1:]:
        stimuli = cast(tuple[AnyStimulus, ...], step.stimuli)
        again = engine.advance(state, stimuli, CONFIG, step.at)
        assert again.commands == step.commands
        assert again.reports == step.reports
        state = again.state
        kinds |= {type(command).__name__ for command in step.commands}
        kinds |= {type(stimulus).__name__ for stimulus in step.stimuli}
    assert kinds >= {
        "RequestContainers", "CallResourceManager", "TakeRequests", "LaunchExecutor", "ReleaseContainers",
        "TellLossReason", "RemoveExecutor", "DecommissionHost", "DecommissionExecutors", "EndApplication", "StopSource",
        "RequestTotal", "ResourcesAnswered", "ResourcesRefused", "LaunchEnded", "MasterRegistered", "RegisterExecutor",
        "ExecutorDisconnected", "MasterLost",
    }  # fmt: skip


LAYOUT = {"hosts": ["h1", "h2"], "racks": ["/r1", "/default-rack"], "lengths": [2, 1], "ends": [3, 5]}


def request(**layout: Any) -> dict[str, Any]:
    return {
        "at_ms": 1, "command": "requestContainers", "profile": 0, "first": 1, "layout": {**LAYOUT, **layout},
        "anywhere": 2, "resource": {"memory_mib": 1_408, "vcores": 1, "custom": [["yarn.io/gpu", 1]]},
        "cause": "below target", "facts": {"missing": 7},
    }  # fmt: skip


def test_a_layout_is_written_as_its_columns() -> None:
    value = decided_value(request())
    assert isinstance(value, ym.RequestContainers)
    assert value.layout == Layout(("h1", "h2"), ("/r1", "/default-rack"), (2, 1), (3, 5))
    assert value.layout.places == {"h1": 0, "h2": 1}
    assert (value.resource, value.count) == (Resource(1_408, 1, (("yarn.io/gpu", 1),)), 7)
    assert decided_record(value) == request()


@pytest.mark.parametrize(
    "layout",
    [
        {"racks": ["/r1"]},
        {"lengths": [2]},
        {"lengths": [1, 2]},
        {"lengths": [3, 1]},
        {"lengths": [2, 0]},
        {"ends": [5, 3]},
        {"ends": [0, 3]},
        {"hosts": [], "racks": [], "lengths": [], "ends": []},
        {"places": {"h1": 0}},
        {"hosts": "h1"},
    ],
)
def test_a_layout_that_no_placement_makes_is_refused(layout: dict[str, Any]) -> None:
    with pytest.raises(UnreadableLine):
        decided_value(request(**layout))


@pytest.mark.parametrize(
    ("command", "record"),
    [
        (
            ym.EndApplication(1, "FAILED", 11, "too many", Why(Cause.TOO_MANY_FAILURES, {"failures": 3})),
            {"at_ms": 1, "command": "endApplication", "status": "FAILED", "exit_code": 11, "message": "too many",
             "cause": "too many failures", "facts": {"failures": 3}},
        ),
        (
            ym.TellLossReason(1, ExecutorId("7"), None, Why(Cause.LOSS_ASKED), "Fail to find"),
            {"at_ms": 1, "command": "tellLossReason", "executor": "7", "failure": "Fail to find",
             "cause": "loss reason asked", "facts": {}},
        ),
    ],
)  # fmt: skip
def test_records_of_commands(command: Command, record: dict[str, Any]) -> None:
    assert decided_record(command) == record
