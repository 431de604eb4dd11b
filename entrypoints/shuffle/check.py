"""``podtide shuffle-service check`` from its options to its end."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.api import ConnectionRefused, connect
from podtide.adapters.notices import say
from podtide.adapters.shuffle_service.pods import ServicePods
from podtide.adapters.text.format import count, some
from podtide.adapters.text.safe import escaped
from podtide.domain.shuffle_service.services import (
    NodeVerdict,
    ServedNode,
    ServicesConfig,
    ServicesSeen,
    ServicesState,
    ShuffleReport,
    advance,
    served_nodes,
)
from podtide.entrypoints.common.output import ClusterRefused, printed, refused_as
from podtide.entrypoints.shuffle.labels import given_labels

NAMES_SHOWN: Final = 5
FAILED: Final = 1


@dataclass(frozen=True)
class CheckOptions:
    """What the command line says. ``every`` in seconds."""

    labels: str
    services_namespace: str | None
    namespace: str | None
    kubeconfig: str | None
    context_name: str | None
    follow: bool
    every: float


def run_check(options: CheckOptions) -> int:
    """Look once, or until a signal's exception; returns the exit code. Raises a Refusal."""
    labels = given_labels(options.labels)
    clock, config = SystemClock(), ServicesConfig()
    with (
        refused_as(ClusterRefused, ConnectionRefused),
        closing(connect(options.kubeconfig, options.context_name, clock=clock)) as api,
    ):
        namespace = options.namespace or api.namespace or "default"
        pods = ServicePods(api, labels, options.services_namespace or namespace, namespace, clock, say)
        seen = pods.look()
        if not isinstance(seen, ServicesSeen):
            raise ClusterRefused("the API server did not say which pods there are")
        step = advance(ServicesState(), seen, config, clock.now())
        lines = served_nodes(step.state, seen.executors)
        with printed():
            _show(lines)
        wait = threading.Event().wait
        while options.follow:
            wait(options.every)
            step = advance(step.state, pods.look(), config, clock.now())
            with printed():
                for report in step.reports:
                    print(_news(report), flush=True)
    wrong = any(line.waiting or line.verdict is NodeVerdict.AMBIGUOUS for line in lines)
    return FAILED if wrong else 0


def _show(lines: tuple[ServedNode, ...]) -> None:
    if not lines:
        print("there is no shuffle service and no executor")
    for line in lines:
        services = ", ".join(f"{pod.name} at {pod.address or 'no address'}" for pod in line.services)
        served = f"; {count(len(line.served), 'executor')} served" if line.served else ""
        print(f"{escaped(line.node)}: {line.verdict.value}{f' ({escaped(services)})' if services else ''}{served}")
        for why in sorted(set(line.waiting.values())):
            names = [name for name, reason in line.waiting.items() if reason == why]
            print(f"  {_names(names)}: no service: {escaped(why)}")


def _news(report: ShuffleReport) -> str:
    why = f": {escaped(report.why)}" if report.why else ""
    return f"{escaped(report.node)}: {_names(report.executors)}: {report.news.value}{why}"


def _names(names: tuple[str, ...] | list[str]) -> str:
    return some([escaped(name) for name in names], NAMES_SHOWN)
