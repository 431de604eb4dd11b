"""What the user set on the command line: ``--properties-file``, and ``--conf`` over it; and whose defaults apply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from podtide.adapters.files.spark_conf import read_properties_file
from podtide.adapters.text.safe import escaped
from podtide.domain.conf.spark_conf import COMMAND_LINE, SparkConf, from_arguments
from podtide.entrypoints.common.output import Misused, usable

_VERSION: Final = re.compile(r"\s*v?[0-9]{1,4}\.[0-9]{1,4}")


class GivenConf(NamedTuple):
    """The settings in rising precedence, and what is odd about the file."""

    layers: list[SparkConf]
    remarks: list[str]


def given_conf(
    conf: Sequence[str], properties_file: str | None, spark_version: str | None = None, option: str = COMMAND_LINE
) -> GivenConf:
    """Read what was given, and see that ``--spark-version`` is one. ``option``: where ``conf`` stood. Raises Misused."""
    given = GivenConf([], [])
    if properties_file is not None:
        read = usable(read_properties_file(properties_file))
        given.layers.append(read.conf)
        given.remarks.extend(read.remarks)
    if conf:
        given.layers.append(usable(from_arguments(conf, option)))
    if spark_version is not None and not _VERSION.match(spark_version):
        raise Misused(f"--spark-version {escaped(spark_version)}: a version such as 3.5 or 4.3.0 was expected")
    return given
