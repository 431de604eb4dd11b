"""The answer of a what-if, for whoever asks: the command line, the library, an assistant.

The log was read; what is asked of it stands in the terms. Its own config is run again first, and where that is too far from
what happened the document says so and has no variants. Without a variant it tells counts of executors and settings instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from returns.pipeline import is_successful

from podtide.adapters.text.format import count
from podtide.adapters.text.safe import display, escaped
from podtide.adapters.views.whatif.document import WhatIfRequest, document
from podtide.adapters.views.whatif.model import Document
from podtide.domain.fakes.yarn.description import YarnDescription
from podtide.domain.recorded.unknowns import nothing_to_run
from podtide.domain.rerun.plan import AnyCluster, Variant
from podtide.domain.rerun.rerun import rerun as run_again
from podtide.domain.whatif.planning import plan, recorded_conf
from podtide.domain.whatif.prices import Prices
from podtide.domain.whatif.summary import SEEDS, VariantAnswer
from podtide.entrypoints.common.output import Misused, ModelRefused, refused_as, usable
from podtide.entrypoints.whatif.ground import Ground
from podtide.entrypoints.whatif.logs import grounded, shown_error
from podtide.entrypoints.whatif.overview import overview
from podtide.entrypoints.whatif.recorded_log import Loaded
from podtide.entrypoints.whatif.run import Announced, RerunFunction, answered, planned, refusal
from podtide.entrypoints.whatif.workers import BenchError

OWN_GROUND: Final = Ground(seeds=SEEDS)


@dataclass(frozen=True, slots=True)
class WhatIfTerms:
    """What is asked.

    ``ground``: what the log is studied with; ``remarks``: what is to be said of what was given; ``processes``: that simulate
    counts of executors and settings, None: as many as are worth it.
    """

    variants: tuple[Variant, ...] = ()
    prices: Prices | None = None
    ground: Ground = OWN_GROUND
    remarks: tuple[str, ...] = ()
    processes: int | None = None


def whatif_document(
    log: str,
    loaded: Loaded,
    terms: WhatIfTerms,
    *,
    rerun: RerunFunction = run_again,
    say: Callable[[str], None] = lambda _line: None,
) -> Document:
    """The document of a what-if; ``refused`` in it says why the model does not fit, if it does not.

    ``log``: as it was named; ``say``: is told what is under way, in words that are safe to print. Raises Misused for
    variants that cannot be, ModelRefused where there is nothing to run.
    """
    application, ground = loaded.application, terms.ground
    conf = usable(recorded_conf(application, ground.overrides, ground.spark_version)).conf
    wrong: list[str] = []
    masters = [conf.master]
    for variant in terms.variants:
        checked = plan(application, conf, variant, cluster=ground.cluster, pools=ground.pools)
        if is_successful(checked):
            masters.append(checked.unwrap().conf.master)
        else:
            wrong.extend(shown_error(error, conf) for error in checked.failure())
    if wrong:
        raise Misused(*dict.fromkeys(wrong))
    if ground.cluster is not None:
        _check_cluster(ground.cluster, masters)
    if (nothing := nothing_to_run(application)) is not None:
        raise ModelRefused(f"{display(log)}: {nothing}")
    runs = Announced(rerun, say)
    runs.begin("simulating its own config")
    made = grounded(application, ground, runs)
    if not is_successful(made):
        raise Misused(*(shown_error(error, conf) for error in made.failure()))
    found = made.unwrap()
    refused = refusal(found, ground.max_error)
    answers: list[VariantAnswer] = []
    for place, variant in enumerate(() if refused else terms.variants):
        runs.begin(f"simulating {escaped(variant.name, 60)}, {place + 1} of {len(terms.variants)}")
        answers.append(answered(found, variant, planned(found, variant).unwrap(), rerun=runs))
    general = None
    if not refused and not terms.variants:

        def went_on(simulations: int) -> None:
            say(f"simulating counts of executors and settings, {count(simulations, 'simulation')}")

        with refused_as(Misused, BenchError):
            general = overview(found, terms.prices, rerun=rerun, processes=terms.processes, progress=went_on)
    notes = tuple(dict.fromkeys((*terms.remarks, *found.conf.notes, *loaded.notes)))
    request = WhatIfRequest(log, terms.prices, ground.max_error, ground.seeds, notes=notes, refused=refused)
    return document(application, conf, found.replay, found.error, answers, request, general)


def _check_cluster(cluster: AnyCluster, masters: Sequence[str]) -> None:
    """A cluster on which nothing runs is a mistake. Raises Misused."""
    if isinstance(cluster, YarnDescription):
        if not any(master.startswith("yarn") for master in masters):
            raise Misused(
                "--cluster describes a YARN cluster, and neither the log nor a variant runs on YARN: set spark.master=yarn"
            )
    elif not any(master.startswith("k8s://") for master in masters):
        raise Misused(
            "--cluster describes a Kubernetes cluster, and neither the log nor a variant runs on one: add --kubernetes"
        )
