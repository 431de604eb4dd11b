"""Decision records: every command and report has one, and the schema knows it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st
from pyrsistent import pmap

from podtide.adapters.recording.records.commands import command_record, pod_command_forms
from podtide.adapters.recording.records.decisions import report_record
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.commands import Departure, Kill, RequestTotal, TargetChange
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Remark, Threw, Why
from tests.properties.pod_happenings import COMMANDS, POD_COMMANDS, REPORTS, YARN_COMMANDS, anything_once
from tests.support.project import DOCS

SCHEMA = json.loads((DOCS / "schema" / "record.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
ABOVE = Why(Cause.ABOVE_TARGET, {"target": 3, "pods": 5})
TOLD = {"cause": "above target", "facts": {"pods": 5, "target": 3}}


@pytest.mark.parametrize(
    ("command", "record"),
    [
        (
            pc.CreatePod(7, 1, PodNumber(3), ProfileId(0), ABOVE),
            {"at_ms": 7, "command": "createPod", "serial": 1, "executor": 3, "profile": 0, **TOLD},
        ),
        (
            pc.CreatePod(7, 1, PodNumber(3), ProfileId(1), ABOVE, ("a", "b"), ("b",), True),
            {"at_ms": 7, "command": "createPod", "serial": 1, "executor": 3, "profile": 1, "claims": ["a", "b"],
             "reused": ["b"], "single_task": True, **TOLD},
        ),
        (
            pc.CreateClaim(7, 2, PodNumber(3), pc.ClaimSpec("c", "fast", "10Gi"), True, ABOVE),
            {"at_ms": 7, "command": "createClaim", "serial": 2, "executor": 3,
             "claim": {"name": "c", "storage_class": "fast", "size": "10Gi"}, "owned_by_driver": True, **TOLD},
        ),
        (
            pc.DeletePods(7, 3, (PodNumber(4), PodNumber(5)), "Pending", ABOVE),
            {"at_ms": 7, "command": "deletePods", "serial": 3, "ids": [4, 5], "phase": "Pending", **TOLD},
        ),
        (
            pc.DeletePods(7, 3, (ExecutorId("4"),), None, ABOVE, list_first=True),
            {"at_ms": 7, "command": "deletePods", "serial": 3, "ids": ["4"], "list_first": True, **TOLD},
        ),
        (pc.DeletePods(7, 3, None, None, ABOVE), {"at_ms": 7, "command": "deletePods", "serial": 3, **TOLD}),
        (
            ec.RemoveExecutor(7, ExecutorId("4"), ec.ExitReason("ExecutorExited", "gone", -1), ABOVE, active=False),
            {"at_ms": 7, "command": "removeExecutor", "executor": "4",
             "reason": {"kind": "ExecutorExited", "message": "gone", "exit_code": -1}, "active": False, **TOLD},
        ),
        (
            ec.DecommissionExecutors(7, (ExecutorId("4"),), "bye", False, ABOVE),
            {"at_ms": 7, "command": "announceDecommission", "ids": ["4"], "message": "bye", "notify_executors": False,
             **TOLD},
        ),
        (ec.StopApplication(7, 11, ABOVE), {"at_ms": 7, "command": "stopApplication", "exit_code": 11, **TOLD}),
    ],
)  # fmt: skip
def test_a_command_about_pods_says_all_that_is_not_usual(command: pc.PodCommand, record: dict[str, Any]) -> None:
    written = command_record(command)
    assert written == record
    assert list(written) == list(record)


def test_the_records_of_dynamic_allocation_are_as_they_were() -> None:
    backlog, idle = Why(Cause.BACKLOG, {"need": 9, "bound": "ramp"}), Why(Cause.IDLE, {"timeout_ms": 60_000})
    change = TargetChange(ProfileId(0), 1, 2, backlog)
    request = RequestTotal(5, 1, pmap({ProfileId(0): 2}), {}, {}, (change,), backlog)
    assert json.dumps(command_record(request)) == (
        '{"at_ms": 5, "command": "requestTotalExecutors", "targets": {"0": 2}, "cause": "backlog", '
        '"facts": {"profile": 0, "before": 1, "after": 2, "bound": "ramp", "need": 9}}'
    )
    kill = Kill(6, 2, (Departure(ExecutorId("3"), ProfileId(0), idle),))
    assert json.dumps(command_record(kill)) == (
        '{"at_ms": 6, "command": "killExecutors", "ids": ["3"], "cause": "idle", '
        '"facts": {"executors": 1, "timeout_ms": 60000}, "causes": ["idle"]}'
    )


@pytest.mark.parametrize(
    ("report", "record"),
    [
        (
            Held(5, Phase.BEGAN, Bound.PENDING_LIMIT, ProfileId(1), (), {"slots": 0, "pending": 9}),
            {"at_ms": 5, "report": "held", "phase": "began", "bound": "pending limit", "profile": 1, "ids": [],
             "facts": {"pending": 9, "slots": 0}},
        ),
        (
            Threw(5, "ExecutorPodsAllocator", "java.lang.Exception: x"),
            {"at_ms": 5, "report": "round threw", "machine": "ExecutorPodsAllocator", "what": "java.lang.Exception: x",
             "fatal": False},
        ),
        (
            Remark(5, "ExecutorPodsAllocator", "topic", {"n": 1}),
            {"at_ms": 5, "report": "remark", "machine": "ExecutorPodsAllocator", "topic": "topic", "facts": {"n": 1}},
        ),
    ],
)  # fmt: skip
def test_a_report_says_what_it_is(report: Any, record: dict[str, Any]) -> None:
    assert report_record(report) == record


@pytest.mark.parametrize("kind", [*COMMANDS, *REPORTS])
@settings(max_examples=10)
@given(st.data())
def test_every_record_is_in_the_schema(kind: type, data: st.DataObject) -> None:
    value = data.draw(anything_once(kind))
    record = report_record(value) if kind in REPORTS else command_record(value)
    plain = json.loads(json.dumps(record, allow_nan=True).replace("Infinity", "null").replace("-null", "null"))
    if kind in (*POD_COMMANDS, *YARN_COMMANDS, *REPORTS):  # dynamic allocation gives few of the causes
        VALIDATOR.validate(plain)
    assert next(iter(plain)) == "at_ms"


def test_every_command_about_pods_and_containers_has_a_name_of_its_own() -> None:
    forms = pod_command_forms()
    assert set(forms) == {*POD_COMMANDS, *YARN_COMMANDS}
    names = [form.tag[1] for form in forms.values() if form.tag]
    assert len(set(names)) == len(forms)
    assert not {"killExecutors", "decommissionExecutors", "requestTotalExecutors"} & set(names)


def test_the_schema_names_every_field_cause_and_bound() -> None:
    branches = {branch["properties"].get("command", {}).get("const"): branch for branch in SCHEMA["oneOf"]}
    for form in pod_command_forms().values():
        assert form.tag is not None
        assert set(branches[form.tag[1]]["properties"]) == set(form.keys) - {"at_ms"}
    assert SCHEMA["$defs"]["cause"]["enum"] == [cause.value for cause in Cause]
    # These two say how far a target moved; nothing is held by them.
    assert set(SCHEMA["$defs"]["bound"]["enum"]) == {bound.value for bound in Bound} - {"need", "ramp"}


def test_every_command_cause_and_bound_is_documented() -> None:
    text = (DOCS / "reference" / "formats.md").read_text()
    names = [form.tag[1] for form in pod_command_forms().values() if form.tag]
    for name in (*names, *(cause.value for cause in Cause), *(bound.value for bound in Bound)):
        assert f"`{name}`" in text, name
