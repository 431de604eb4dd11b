"""A run that is cut anywhere, its state stored and read again, ends as if nobody had cut it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

from hypothesis import given, settings, strategies as st

from podtide.adapters.conformance.scaling import state_line
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.scaling.dynamic_allocation import State
from tests.properties import resume
from tests.properties.happenings import Happening, Run, configs, happenings, news
from tests.support.project import PROJECT
from tests.support.state_contents import idleness_contents, load_contents

STORIES = 60


def contents(state: State) -> dict[str, Any]:
    """Every field of a state as plain values."""
    scaling = state.scaling
    fields = scaling._asdict()
    fields["idleness"] = idleness_contents(scaling.idleness)
    # Executors and shuffles are kept in the order in which they came, which nothing depends on.
    for table, rows in fields["idleness"].items():
        if isinstance(rows, list) and table not in ("limits", "removals"):
            fields["idleness"][table] = sorted(rows, key=repr)
    load = load_contents(state.load)
    return {"load": {k: sorted(v, key=repr) if isinstance(v, list) else v for k, v in load.items()}, **fields}


def decisive(state: State) -> dict[str, Any]:
    """The same without what is only worked out once: tasks per executor, which a tick notes down."""
    return {name: value for name, value in contents(state).items() if name != "slots"}


@given(configs(), happenings, st.data())
def test_a_state_comes_back_from_bytes_whole(
    config: ScalingConfig, story: list[Happening], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(story)))
    run = Run(config).live(story[:cut])
    again = pickle.loads(pickle.dumps(run.state))
    assert contents(again) == contents(run.state)
    assert state_line(again, config) == state_line(run.state, config)


@given(configs(), happenings, st.data())
def test_a_run_goes_on_from_bytes(config: ScalingConfig, story: list[Happening], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(story)))
    run = Run(config).live(story[:cut])
    said = len(run.said)
    resumed = Run.resumed(pickle.loads(pickle.dumps(run.state)), run.moment())
    for happening in story[cut:]:
        run.happen(happening)
        resumed.happen(happening)
    run.pass_time(5_000)
    resumed.pass_time(5_000)
    assert news(resumed.said) == news(run.said[said:])
    assert decisive(resumed.state) == decisive(run.state)


def drawn() -> list[tuple[ScalingConfig, list[Happening], int]]:
    """The same stories every time, each with a place to cut it."""
    found: list[tuple[ScalingConfig, list[Happening], int]] = []

    @settings(max_examples=STORIES)
    @given(configs(), happenings, st.integers(0, 60))
    def collect(config: ScalingConfig, story: list[Happening], cut: int) -> None:
        found.append((config, story, min(cut, len(story))))

    collect()
    return found


def test_a_run_goes_on_in_a_fresh_process() -> None:
    interrupted, expected = [], []
    for config, story, cut in drawn():
        run = Run(config).live(story[:cut])
        said = len(run.said)
        interrupted.append((pickle.dumps(run.state), run.moment(), story[cut:]))
        run.live(story[cut:])
        expected.append((run.said[said:], state_line(run.state, config), decisive(run.state)))
    assert len(interrupted) >= STORIES
    # Another seed for str.__hash__, so that nothing may hang on the order of a set.
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / '.typing'}", "PYTHONHASHSEED": "4242"}
    child = subprocess.run(
        [sys.executable, resume.__file__],
        input=pickle.dumps(interrupted),
        capture_output=True,
        check=True,
        cwd=PROJECT,
        env=environment,
    )
    endings = pickle.loads(child.stdout)
    assert len(endings) == len(expected)
    for (said_there, line_there, stored), (said_here, line_here, state_here) in zip(endings, expected, strict=True):
        assert news(said_there) == news(said_here)
        assert line_there == line_here
        assert decisive(stored) == state_here
