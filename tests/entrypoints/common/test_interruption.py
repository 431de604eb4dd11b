"""After a signal no answer is begun, even where its exception was swallowed; the next command begins anew."""

from __future__ import annotations

import signal
from contextlib import suppress

import click
import pytest

from podtide.entrypoints import cli
from podtide.entrypoints.common.output import printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_swallowed_signal_prints_nothing(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def deaf() -> None:
        with suppress(BaseException):
            signal.raise_signal(number)
        with printed():
            print("an answer")

    @click.command()
    def well() -> None:
        with printed():
            print("well")

    commands = {"replay": deaf, "conf": well}
    monkeypatch.setattr(cli.LazyGroup, "get_command", lambda _group, _context, name: commands[name])
    assert cli.run(["replay"]) == 128 + number
    assert cli.run(["conf"]) == 0
    assert capsys.readouterr().out == "well\n"
