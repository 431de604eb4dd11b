"""``podtide shuffle-service template`` from its options to what it prints."""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podtide.adapters.kubernetes.executor_pod.render import yaml_text
from podtide.adapters.kubernetes.executor_pod.template import PodTemplateError, read_template
from podtide.adapters.text.safe import escaped
from podtide.domain.executor_pod.shuffle_service import (
    ShuffleWishes,
    TemplateRefused,
    shuffle_settings,
    shuffle_template,
)
from podtide.entrypoints.common.output import Misused, UnreadableInput, printed, refused_as, write_files
from podtide.entrypoints.shuffle.labels import given_labels

TEMPLATE: Final = "executor-template.yaml"
CONF: Final = "spark-shuffle.conf"


@dataclass(frozen=True)
class TemplateOptions:
    """What the command line says."""

    roots: tuple[str, ...]
    labels: str
    namespace: str | None
    port: int
    template: Path | None
    out: Path | None


def run_template(options: TemplateOptions) -> int:
    """Print or write the files. Raises a Refusal."""
    labels = given_labels(options.labels)
    for root in options.roots:
        if not posixpath.isabs(root) or posixpath.normpath(root) == "/" or any(sign in root for sign in ":, $"):
            raise Misused(
                f"--root {escaped(root)}: expected an absolute path below /, without ':', ',', '$' and blanks"
            )
    wishes = ShuffleWishes(tuple(map(posixpath.normpath, options.roots)), labels, options.namespace, options.port)
    place = (options.out or Path.cwd()).absolute() / TEMPLATE
    with refused_as(UnreadableInput, PodTemplateError, TemplateRefused):
        given = {} if options.template is None else read_template(str(options.template)).tree
        template = yaml_text([shuffle_template(given, wishes)])
    settings = shuffle_settings(wishes, str(place))
    width = max(map(len, settings))
    conf = "".join(f"{key:{width}} {value}\n" for key, value in settings.items())
    with printed():
        if options.out is None:
            print(f"# --- {TEMPLATE}\n{template}\n# --- {CONF}\n{conf}", end="")
        else:
            write_files(options.out, {TEMPLATE: template, CONF: conf})
            print(f"# add {shlex.quote(str(options.out / CONF))} to your spark-defaults.conf")
    return 0
