"""The command line. Commands are imported when they are called: ``podtide --help`` loads click and nothing else.

Exit codes: 0 done; 1 the check that was asked for failed; 2 usage or config; 3 input cannot be read; 4 the cluster; 5
refused: the model does not fit; 130 interrupted (docs/reference/formats.md).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Final, NoReturn

import click

from podtide import __version__
from podtide.entrypoints.common.interruption import SIGNALS, silence
from podtide.entrypoints.common.old_names import COMPLETION, renamed

GROUPS: Final = {
    "Analyse logs": {
        "replay": ("podtide.entrypoints.replay.command", "Every decision that Spark would take over a log or recording."),
        "whatif": ("podtide.entrypoints.whatif.command", "What an application would cost under another config."),
        "tune": ("podtide.entrypoints.whatif.tune_command", "The cheapest settings within a time limit, over several runs."),
        "diff": ("podtide.entrypoints.whatif.diff_command", "What a change of config does to each of many applications."),
        "compare": ("podtide.entrypoints.compare.command", "Why the last run took longer, or cost more, than before."),
        "fleet": ("podtide.entrypoints.fleet.command", "A table over very many logs: waste by cause, the best setting."),
        "watch": ("podtide.entrypoints.watch.command", "Keep a history of finished runs; report slower and dearer ones."),
        "serve": ("podtide.entrypoints.watch.serve_command", "Show a history, its runs and their reports in a browser."),
        "mcp": ("podtide.entrypoints.mcp.command", "Answer an assistant's questions about logs (Model Context Protocol)."),
    },
    "Simulate": {
        "simulate": ("podtide.entrypoints.simulate.command", "Run executor allocation against a fake cluster."),
        "fit": ("podtide.entrypoints.simulate.fit_command", "Write a cluster file that behaves like a recorded cluster."),
        "explain": ("podtide.entrypoints.replay.explain_command", "The history of an executor or a moment in a recording."),
        "cluster": ("podtide.entrypoints.cluster.command", "Run Spark on a Kubernetes of its own, on this machine."),
    },
    "Operate": {
        "run": ("podtide.entrypoints.live.command", "Decide on a real cluster: in shadow beside Spark, or in charge."),
        "stop": ("podtide.entrypoints.live.stop_command", "Delete what an application left behind on a cluster."),
        "shuffle-service": ("podtide.entrypoints.shuffle.command", "Spark's external shuffle service on a cluster."),
        "stage": ("podtide.entrypoints.stage.command", "Give local files to the pods of an application."),
    },
    "Verify": {
        "conf": ("podtide.entrypoints.check.conf_command", "Check a configuration; show what is in force, and why."),
        "pod": ("podtide.entrypoints.check.pod_command", "The executor pod that a configuration leads to."),
        "conform": ("podtide.entrypoints.check.conform_command", "Decide recorded scenarios again, compare with Spark."),
    },
    "Shell": {
        "completion": ("podtide.entrypoints.check.completion_command", "Completion of commands and options in a shell."),
    },
}  # fmt: skip
"""Command name to module and one line of help, in the groups of ``--help``. The module holds the command, with ``_``
for ``-``."""

COMMANDS: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}

COLLECTED_AFTER: Final = 100_000
"""Objects made and not released until cycles are looked for: batches of events and tables are large and have none."""

RAISED_AGAIN_S: Final = 0.001
"""After a signal's exception was dropped, the time until it is raised again: the finalizer must have returned."""

CANNOT_WRITE: Final = 2
INTERRUPTED: Final = 130


class Terminated(BaseException):
    """SIGTERM or SIGHUP: temporary files are removed and the child is ended on the way out, as on Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """SIGINT, SIGTERM and SIGHUP as exceptions of the main thread, none of which gets lost; a context manager.

    Python drops an exception that strikes in a finalizer or in the callback of a weak reference, and goes on; each import
    has such a callback. ``sys.unraisablehook`` is told of it and may not raise itself, so it has a timer raise the signal
    again: that ends a read that waits, too. Whatever else swallows the exception, ``SIGNALS`` has the number.
    """

    def __init__(self) -> None:
        self._over = False  # nobody is left to be interrupted

    def __enter__(self) -> None:
        SIGNALS.clear()
        self._restored = contextlib.ExitStack()
        restore = self._restored.callback
        with contextlib.suppress(ValueError):  # only the main thread may
            for number in (signal.SIGTERM, signal.SIGHUP):
                restore(signal.signal, number, signal.signal(number, self._raise))
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup has it ignored
                restore(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, self._raise))
            self._hook = sys.unraisablehook
            restore(setattr, sys, "unraisablehook", self._hook)
            sys.unraisablehook = self._dropped

    def __exit__(self, *_exception: object) -> None:
        self._over = True
        self._restored.close()

    def _raise(self, number: int, _frame: FrameType | None) -> None:
        SIGNALS.append(number)
        if not self._over:
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)

    def _dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        if not SIGNALS or not issubclass(dropped.exc_type, KeyboardInterrupt | Terminated):
            self._hook(dropped)
            return
        self._restored.callback(signal.signal, signal.SIGALRM, signal.getsignal(signal.SIGALRM))
        self._restored.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, lambda _number, frame: self._raise(SIGNALS[0], frame))
        signal.setitimer(signal.ITIMER_REAL, RAISED_AGAIN_S)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by group from the table, without importing them."""
        del ctx
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", help_line) for name, (_, help_line) in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments, with today's names of options."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if name is None else renamed(name, rest)


def _show_version(context: click.Context, _option: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    click.echo(f"podtide {__version__}, decides as Spark 4.3.0")
    context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def podtide() -> None:
    """Apache Spark's executor allocation as pure functions: replay it, simulate it, run it."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; ends the process with one of the documented exit codes."""
    gc.set_threshold(COLLECTED_AFTER)
    code = run(arguments)
    try:
        sys.stdout.flush()
    except OSError:  # what could not be written has been told; the interpreter would fail over it again
        silence()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; nothing but the code tells success."""
    interrupted = False
    with _Signals():
        try:
            code = _run(list(sys.argv[1:] if arguments is None else arguments))
        except (click.Abort, KeyboardInterrupt):
            code, interrupted = INTERRUPTED, True
        except Terminated as end:
            code = 128 + end.number
    if SIGNALS:  # even if the exception was swallowed and the command has come to its end
        code, interrupted = 128 + SIGNALS[0], SIGNALS[0] == signal.SIGINT
    if interrupted:
        click.echo("interrupted", err=True)
    return code


def _run(arguments: list[str]) -> int:
    """Run the command line; what refuses or cannot be written becomes an exit code, signals go through."""
    try:
        if COMPLETION in os.environ:
            from click.shell_completion import shell_complete  # noqa: PLC0415 - only where a shell asks

            return shell_complete(podtide, {}, "podtide", COMPLETION, os.environ[COMPLETION])
        # Not ``podtide.main``: it turns a closed pipe into exit code 1 by itself.
        with podtide.make_context("podtide", arguments) as context:
            code = podtide.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as refusal:
        refusal.show()
        return refusal.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (``| head``): nobody is left to tell, and flushing would fail again.
        silence()
        return 0
    except OSError as refusal:  # a full disk under standard output
        silence()
        click.echo(f"podtide: the output cannot be written: {refusal.strerror or refusal}", err=True)
        return CANNOT_WRITE
    return code if isinstance(code, int) else 0
