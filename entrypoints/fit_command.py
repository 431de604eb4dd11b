"""``podtide fit``: a cluster file out of a recording, so that a fake cluster behaves like the one that was recorded.

Latencies become the quantiles that were seen, failures and refusals their shares; each number says on how many observations
it rests, and what was not seen stays at its default and is named. The recording is read once, in bounded memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import click

from podtide.adapters.decision_file import STDOUT, DecisionWriter
from podtide.adapters.log_errors import LogError, display
from podtide.adapters.recording import Recording, open_recording
from podtide.adapters.world_file import write_fitted
from podtide.domain import fitting
from podtide.domain.fitting import Observation
from podtide.domain.pod_commands import PodCommand
from podtide.domain.pod_stimuli import PodStimulus
from podtide.entrypoints.command_output import Misused, Unreadable, misused, printed

_OBSERVED: Final[tuple[type[Any], ...]] = (*get_args(PodStimulus), *get_args(PodCommand))


@click.command()
@click.argument("recording")
@click.option("--out", default=STDOUT, metavar="FILE", help="Where to write the cluster file; - for standard output.")
@click.option("--overwrite", is_flag=True, help="Let --out replace a file.")
def fit(recording: str, out: str, overwrite: bool) -> int:
    """Write a cluster file that behaves like the cluster of a recording.

    RECORDING is what --record wrote. The file can be given to podtide simulate --cluster as it is, or changed. Exit code
    2 if the file cannot be written, 3 if the recording cannot be read.
    """
    if sys.stdout is None:
        raise Misused("standard output is closed")
    if out != STDOUT and Path(out).is_file() and not overwrite:
        raise Misused(
            f"{display(out)}: exists already; choose another name, or say that it may be replaced (--overwrite)"
        )
    try:
        with open_recording(recording, stdin=None if sys.stdin is None else sys.stdin.buffer) as opened:
            fitted = fitting.fit(_observed(opened))
            name, cut = opened.name, opened.cut
    except LogError as unreadable:
        raise Unreadable(str(unreadable)) from None
    heading = f"Fitted by podtide fit from {display(name)}."
    if cut:
        heading += "\nThe recording ends in the middle; all whole steps of it count."
    with misused(), printed(), DecisionWriter(out) as writer:  # whole or not at all
        writer.write(write_fitted(fitted, heading).encode())
        writer.commit()
    return 0


def _observed(recording: Recording) -> Iterator[Observation]:
    """What reached the driver and what it asked for, step by step, in order."""
    for step in recording:
        for stimulus in step.stimuli:
            if isinstance(stimulus, _OBSERVED):
                yield stimulus
        for command in step.commands:
            if isinstance(command, _OBSERVED):
                yield command
