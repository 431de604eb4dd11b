"""Any run that is recorded reads back as it was, and a recording cut anywhere reads up to the cut."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from podtide.adapters.recording.codec import decided_record, decided_value
from podtide.adapters.recording.header import RecordingError, RecordingHeader
from podtide.adapters.recording.pods import FORM, PodTable, PodWire
from podtide.adapters.recording.reader import RecordedPods, RecordedStep, Recording
from podtide.adapters.recording.writer import RecordingWriter
from tests.properties.pod_happenings import COMMANDS, REPORTS, Taken, anything_once, lists_of_pods, manifests, stories

HEADER = RecordingHeader("app", 0, "fake", {"spark.executor.cores": "4"}, seed=7)


def recorded(story: Sequence[Taken], *, compress: bool = False, flush_steps: int = 1, whole: bool = True) -> bytes:
    file = io.BytesIO()
    writer = RecordingWriter(file, HEADER, compress=compress, flush_steps=flush_steps)
    for step in story:
        writer.step(step.at, step.stimuli, step.commands, step.reports)
        if step.full:
            writer.full(step.at)
    if whole:
        writer.close()
    else:
        writer.flush()
    return file.getvalue()


def read(data: bytes) -> tuple[list[RecordedStep], str | None]:
    with Recording("-", stdin=io.BytesIO(data)) as recording:
        return list(recording), recording.cut


def taken(steps: Iterable[RecordedStep]) -> list[Taken]:
    return [Taken(step.at, step.stimuli, step.commands, step.reports) for step in steps]


def plain(story: Iterable[Taken]) -> list[Taken]:
    return [step._replace(full=False) for step in story]


@given(stories(), st.booleans())
def test_what_is_recorded_is_read(story: list[Taken], compress: bool) -> None:
    data = recorded(story, compress=compress)
    steps, cut = read(data)
    assert cut is None
    assert taken(steps) == plain(story)
    assert all(step.complete for step in steps)
    types = [list(map(type, step.stimuli)) for step in steps]
    assert types == [list(map(type, step.stimuli)) for step in story]
    if not compress:
        assert data.isascii()
        assert data.count(b"\n") == len(data.splitlines())


@pytest.mark.parametrize("kind", [*COMMANDS, *REPORTS])
@settings(max_examples=40)
@given(st.data())
def test_every_decision_comes_back_from_its_record(kind: type, data: st.DataObject) -> None:
    value = data.draw(anything_once(kind))
    record = json.loads(json.dumps(decided_record(value)))
    again = decided_value(record)
    assert type(again) is kind
    assert again == value
    assert decided_record(again) == decided_record(value)


@given(stories(steps_max=6), st.booleans(), st.data())
def test_cut_anywhere_it_reads_up_to_the_cut(story: list[Taken], compress: bool, data: st.DataObject) -> None:
    whole = recorded(story, compress=compress)
    at = data.draw(st.integers(0, len(whole) - 1))
    header = len(recorded((), compress=compress, whole=False))
    if at < header - (not compress):  # a header that lacks only its newline is whole
        with pytest.raises(RecordingError, match=r"the header of a recording was expected|is empty"):
            read(whole[:at])
        return
    steps, cut = read(whole[:at])
    lines = None if compress else whole[:at].splitlines(keepends=True)
    stimuli = plain(story)[: len(steps)]
    assert [step.stimuli for step in steps] == [step.stimuli for step in stimuli]
    # All but perhaps the last one are complete, and what is complete is whole.
    assert all(step.complete for step in steps[:-1])
    assert [one for one, step in zip(taken(steps), steps, strict=True) if step.complete] == [
        one for one, step in zip(stimuli, steps, strict=True) if step.complete
    ]
    if lines is not None:
        last = lines[-1]
        # A line that lacks nothing but its newline is whole too.
        found = [line for line in lines if line.endswith(b"}\n") or (line is last and _is_json(line))]
        assert len(steps) == sum(b'"stimuli":' in line[:40] for line in found)
        if b'"end":' not in found[-1]:
            assert cut is not None
            assert "cut off" in cut


@settings(max_examples=6)
@given(stories(steps_max=4), st.booleans())
def test_cut_everywhere_it_never_fails_behind_the_header(story: list[Taken], compress: bool) -> None:
    whole = recorded(story, compress=compress)
    header = len(recorded((), compress=compress, whole=False))
    found = 0
    for at in range(header, len(whole)):
        steps, _ = read(whole[:at])
        assert len(steps) >= found
        found = len(steps)
    assert found == len(story)


@given(stories(), st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_damage_is_told_or_harmless(story: list[Taken], place: int, junk: bytes) -> None:
    data = recorded(story)
    at = place % len(data)
    damaged = data[:at] + junk + data[at + len(junk) :]
    try:
        read(damaged)
    except RecordingError as problem:
        text = str(problem)
        assert text.isprintable()
        assert "\n" not in text


@given(st.lists(st.tuples(st.booleans(), lists_of_pods() | st.lists(manifests(), max_size=3).map(tuple)), max_size=8))
def test_writer_and_reader_keep_the_same_table(story: list[tuple[bool, tuple[Any, ...]]]) -> None:
    import msgspec  # noqa: PLC0415 - for this test alone

    there, here = PodTable(), PodTable()
    for listing, pods in story:
        parts = there.list_written(pods) if listing else there.written(pods)
        wires = msgspec.convert(json.loads(json.dumps(parts)), list[PodWire | int])
        assert (here.list_read(wires) if listing else here.read(wires)) == pods
        assert here.pods == there.pods
    assert FORM.keys[0] == "name"


@given(stories(), st.data())
def test_looking_from_the_middle_shows_the_same_steps(
    tmp_path_factory: pytest.TempPathFactory, story: list[Taken], data: st.DataObject
) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "middle"
    path.write_bytes(recorded(story))
    times = [step.at for step in story] or [0]
    at = data.draw(st.sampled_from(times))
    with Recording(str(path)) as recording:
        entries = list(recording.since(at))
        steps = [entry for entry in entries if isinstance(entry, RecordedStep)]
        rest = plain(story)[len(story) - len(steps) :]
        assert taken(steps) == rest
        snapshots = [place for place, step in enumerate(story) if step.full and step.at <= at]
        if snapshots:
            assert isinstance(entries[0], RecordedPods)
            assert len(steps) == len(story) - snapshots[-1] - 1


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
