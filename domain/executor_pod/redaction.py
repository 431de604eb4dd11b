"""A manifest as it may be shown: without what Spark would not show of the conf that it comes from.

What a pod carries of a conf is its environment, its labels and annotations, and the arguments of containers. A variable
is hidden by its name or its value, a Java option by the key of its -D, a label or an annotation by its key or value, an
argument by itself. The contents of a config map are files of somebody's, of which nothing is known: they are counted, not
shown. References to secrets (secretKeyRef, mounted ones) name a secret and hold none; they stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from podtide.domain.conf.redaction import Redaction
from podtide.domain.executor_pod.settings import ANNOTATION_PREFIX, ENV_PREFIX, LABEL_PREFIX

_OPTION: Final = re.compile(r"(-D([^=]+)=)(.*)", re.DOTALL)
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


def redacted(manifest: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    """A copy of a manifest (a pod, a claim, a set, a config map) to show."""
    shown = dict(manifest)
    if "metadata" in shown:
        shown["metadata"] = _metadata(shown["metadata"], redaction)
    if "data" in shown:
        shown["data"] = {name: f"({len(text)} characters, not shown)" for name, text in shown["data"].items()}
    spec = shown.get("spec")
    if isinstance(spec, Mapping):
        shown["spec"] = _spec(spec, redaction)
    return shown


def _spec(spec: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    shown = dict(spec)
    for key in _CONTAINERS:
        if key in shown:
            shown[key] = [_container(container, redaction) for container in shown[key]]
    if "template" in shown:
        shown["template"] = redacted(shown["template"], redaction)
    if "volumeClaimTemplates" in shown:
        shown["volumeClaimTemplates"] = [redacted(claim, redaction) for claim in shown["volumeClaimTemplates"]]
    return shown


def _metadata(metadata: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    shown = dict(metadata)
    for key, prefix in (("labels", LABEL_PREFIX), ("annotations", ANNOTATION_PREFIX)):
        if key in shown:
            shown[key] = {name: _text(redaction, prefix + name, text) for name, text in shown[key].items()}
    return shown


def _container(container: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    shown = dict(container)
    if "env" in shown:
        shown["env"] = [_variable(variable, redaction) for variable in shown["env"]]
    for key in ("args", "command"):
        if key in shown:
            shown[key] = [_option(text, lambda text: _text(redaction, "", text), redaction) for text in shown[key]]
    return shown


def _variable(variable: Mapping[str, Any], redaction: Redaction) -> dict[str, Any]:
    text = variable.get("value")
    if not isinstance(text, str):
        return dict(variable)
    name = str(variable.get("name", ""))
    shown = _option(text, lambda text: _text(redaction, ENV_PREFIX + name, text), redaction)
    return {**variable, "value": shown}


def _option(text: Any, otherwise: Callable[[str], str], redaction: Redaction) -> str:
    """A Java option with its value hidden, if it is one."""
    found = _OPTION.fullmatch(str(text))
    return otherwise(str(text)) if found is None else found[1] + _text(redaction, found[2], found[3])


def _text(redaction: Redaction, key: str, text: Any) -> Any:
    return redaction.shown(key, text) if isinstance(text, str) else text
