"""``podtide fit``: a cluster file out of a recording, so that a fake cluster behaves like the one that was recorded.

Latencies become the quantiles that were seen, failures and refusals their shares; each number says on how many observations
it rests, and what was not seen stays at its default and is named. The recording is read once, in bounded memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, get_args

import click

from podtide.adapters.eventlog.bytes.errors import LogError
from podtide.adapters.files import yarn_cluster
from podtide.adapters.files.cluster import write_fitted
from podtide.adapters.recording.reader import Recording
from podtide.adapters.recording.records.decision_file import STDOUT, put_file
from podtide.adapters.text.safe import display
from podtide.domain.fakes.kubernetes import fit as fitting
from podtide.domain.fakes.yarn import fit as yarn_fitting
from podtide.domain.protocol.pod_commands import PodCommand
from podtide.domain.protocol.pod_stimuli import PodStimulus
from podtide.entrypoints.common.output import (
    UnreadableInput,
    check_replaceable,
    check_streams,
    misused,
    printed,
    refused_as,
)
from podtide.entrypoints.common.platform import on_yarn

_OBSERVED_ON_YARN: Final[tuple[type[Any], ...]] = get_args(yarn_fitting.Observation)
_OBSERVED: Final[tuple[type[Any], ...]] = (*get_args(PodStimulus), *get_args(PodCommand))


@click.command()
@click.argument("recording")
@click.option("--out", default=STDOUT, metavar="FILE", help="Where to write the cluster file; - for standard output.")
@click.option("--overwrite", is_flag=True, help="Let --out replace a file.")
def fit(recording: str, out: str, overwrite: bool) -> int:
    """Write a cluster file that behaves like the cluster of a recording.

    RECORDING is what --record wrote, of an application on Kubernetes or on YARN. The file can be given to podtide simulate
    --cluster as it is, or changed. Exit code 2 if the file cannot be written, 3 if the recording cannot be read.
    """
    check_streams()
    check_replaceable("--out", out, overwrite=overwrite)
    stdin = None if sys.stdin is None else sys.stdin.buffer
    with refused_as(UnreadableInput, LogError), Recording(recording, stdin=stdin) as opened:
        if on_yarn(opened.header.spark_conf()):
            header = opened.header
            yarn = yarn_fitting.fit(_observed(opened, _OBSERVED_ON_YARN), header.racks, header.started_at)
            text_under = partial(yarn_cluster.write_fitted, yarn)
        else:
            text_under = partial(write_fitted, fitting.fit(_observed(opened, _OBSERVED)))
        name, cut = opened.name, opened.cut
    heading = f"Fitted by podtide fit from {display(name)}."
    if cut:
        heading += "\nThe recording ends in the middle; all whole steps of it count."
    with misused(), printed():
        put_file(text_under(heading).encode(), out)
    return 0


def _observed(recording: Recording, kinds: tuple[type[Any], ...]) -> Iterator[Any]:
    """What of these kinds reached the driver, and what it asked for, step by step, in order."""
    for step in recording:
        for item in (*step.stimuli, *step.commands):
            if isinstance(item, kinds):
                yield item
