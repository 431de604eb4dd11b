"""What the user set on the command line: ``--properties-file``, and ``--conf`` over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from returns.pipeline import is_successful

from podtide.adapters.conf_files import read_properties_file
from podtide.domain.sparkconf import SparkConf, from_arguments
from podtide.entrypoints.command_output import Misused


class Given(NamedTuple):
    """The settings in rising precedence, and what is odd about the file."""

    layers: list[SparkConf]
    remarks: list[str]


def given_conf(conf: Sequence[str], properties_file: str | None) -> Given:
    """Read what was given. Raises Misused."""
    given = Given([], [])
    if properties_file is not None:
        read = read_properties_file(properties_file)
        if not is_successful(read):
            raise Misused(str(read.failure()))
        given.layers.append(read.unwrap().conf)
        given.remarks.extend(read.unwrap().remarks)
    if conf:
        asked = from_arguments(conf)
        if not is_successful(asked):
            raise Misused(*map(str, asked.failure()))
        given.layers.append(asked.unwrap())
    return given
