"""``podtide replay RECORDING``: what an application on a cluster decided, decided again from all that entered it.

Without ``--check`` the recording is shown like an event log: whose it is and under which conf, the pods against the target,
what happened, what it took, what held pods back. With ``--check`` every decision is compared with the recorded one, and the
first that differs is shown with its story (exit code 1). Another conf, version, fix or policy is taken only where the
command line says so; then decisions may differ, and what differs is told.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from podtide.adapters.recording.app_stalls import AppStalls
from podtide.adapters.recording.codec import decided_record
from podtide.adapters.recording.header import RecordingError, UnknownPolicy, policy_words
from podtide.adapters.recording.reader import Recording
from podtide.adapters.recording.records.jsonl import RecordSpool
from podtide.adapters.recording.run_stalls import stall_document
from podtide.adapters.text.documents import schema_name
from podtide.adapters.text.format import count
from podtide.adapters.views.sparklog.log import SparkLogObserver
from podtide.adapters.views.stats.kubernetes import KubernetesStats
from podtide.adapters.views.stats.yarn import YarnStats
from podtide.adapters.views.timeline.kubernetes import PodTimeline
from podtide.adapters.views.timeline.yarn import YarnTimeline
from podtide.domain.base.units import Millis
from podtide.domain.conf.entries import KEYS
from podtide.domain.conf.entry_types import Use
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.settings import NoticeLevel
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.engine import EngineState
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Policies
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.reasons import Remark
from podtide.entrypoints.common.app_loop import Observer, Stuck
from podtide.entrypoints.common.conf_options import given_conf
from podtide.entrypoints.common.interruption import silence
from podtide.entrypoints.common.log_config import SettingsError
from podtide.entrypoints.common.output import Misused, UnreadableInput, print_object, printed, refused_as, unreadable
from podtide.entrypoints.common.policies import CHOICES
from podtide.entrypoints.replay.outputs import DIFFERS, ReplayOptions, ReplayOutputs, Sink
from podtide.entrypoints.replay.overrides import ReplayTerms, ReplayWishes, TermsError, terms_of
from podtide.entrypoints.replay.redecide import Redecision

if TYPE_CHECKING:
    from podtide.adapters.text.page import Page

BEHAVIOUR: Final = "4.3.0"

NOT_THEN: Final = "calls that were not made then are taken to succeed, and show no pod"
NOT_THEN_ON_YARN: Final = "the resource manager gives what it gave then, and no container besides"

FIRST: Final = ("schema", "app", "recording", "conf", "policies", "behaviour", "defaults")
"""Keys of the document that are printed before the decisions."""


def replay_recording(options: ReplayOptions) -> int:
    """Decide a recording again and print the answer. Returns the exit code; raises Refusal."""
    try:
        with refused_as(UnreadableInput, RecordingError), contextlib.ExitStack() as resources:
            return _Run(options, resources).done()
    except BrokenPipeError:  # of --decisions - or --spark-log -, while the recording is read
        silence()
        return 0


def settled_terms(recording: Recording, wishes: ReplayWishes) -> ReplayTerms:
    """The terms for a recording, or why they cannot be used. Raises Misused."""
    try:
        with refused_as(Misused, SettingsError, TermsError):
            return terms_of(recording.header, wishes)
    except UnknownPolicy as unknown:
        hint = f"; --policy {unknown.choice}=MODULE:NAME gives it" if unknown.choice in CHOICES else ""
        raise Misused(f"{recording.name}: {unknown}{hint}") from None


class _Records:
    """An observer that hands every decision and report on as a record, remarks left out."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """Hand on what one step decided."""
        del now, stimuli
        for item in (*taken.commands, *taken.reports):
            if not isinstance(item, Remark):
                record = decided_record(item)
                for sink in self._sinks:
                    sink(record)


class _Run:
    """One run of the command: who gets the records, and what is printed in the end."""

    def __init__(self, options: ReplayOptions, resources: contextlib.ExitStack) -> None:
        self.options = options
        self.given = given_conf(options.conf, options.properties_file, options.spark_version)
        # A pipe may not say for an hour what it is a recording of; outputs are refused at once.
        self.outputs = ReplayOutputs(options, resources)
        self.outputs.open()
        self.all: RecordSpool | None = None
        if options.as_json and not options.check:
            self.outputs.keep_lists(repeated=True)
        elif options.whole:
            self.all = self.outputs.keep_all()
        self.recording = resources.enter_context(Recording(options.log))
        wishes = ReplayWishes(self.given.layers, options.spark_version, options.fixes, options.policies)
        self.terms = settled_terms(self.recording, wishes)
        self.on_yarn = self.terms.settings.config.yarn is not None
        began = self.recording.header.started_at
        self.stats: KubernetesStats | YarnStats = YarnStats(began) if self.on_yarn else KubernetesStats(began)
        self.timeline = YarnTimeline() if self.on_yarn else PodTimeline()
        self._observers: list[Observer] = []
        if self.outputs.spark_log is not None:
            self._observers.append(SparkLogObserver(self.outputs.spark_log))
        self.stalls: AppStalls | None = None
        if not options.check:
            self._observers += [self.stats, self.timeline]
            if not self.on_yarn:
                self.stalls = AppStalls(self.terms.settings.config, began)
                self._observers.append(self.stalls)
        if self.outputs.sinks:
            self._observers.append(_Records(self.outputs.sinks))

    def done(self) -> int:
        """Decide, then print. Returns the exit code."""
        options, outputs, recording = self.options, self.outputs, self.recording
        remarks = outputs.spark_log is not None
        rerun = Redecision(
            recording,
            self.terms,
            self._observers,
            remarks=remarks,
            stop_at_divergence=options.check,
            passed=_nothing if self.stalls is None else self.stalls.passed,
        )
        with unreadable(), refused_as(Misused, Stuck, prefix="decided under these settings, time stands still: "):
            rerun.run()
            outputs.finish()
        if not rerun.recorded_steps:
            raise UnreadableInput(f"{recording.name}: no step is recorded; there is nothing to decide")
        if self.stalls is not None:
            self.stalls.passed(rerun.last, last=True)
        self.stats.finish(rerun.last)
        self.timeline.finish(rerun.last)
        outputs.commit()
        with printed():
            self._answer(rerun)
            sys.stdout.flush()
        return DIFFERS if options.check and rerun.agreement.divergence is not None else outputs.exit_code

    def _answer(self, rerun: Redecision) -> None:
        options, recording = self.options, self.recording
        taken = options.as_json or options.to_stdout
        if options.as_json:
            self._print_json(rerun)
        if options.check and not options.as_json:
            from podtide.adapters.views.recording import verdict  # noqa: PLC0415 - rich costs a tenth of a second

            page = _page(taken=taken)
            verdict(page, rerun.agreement, recording.name, rerun.first, self.terms.changed, recording.cut)
        if self.outputs.expectation is not None:
            from podtide.adapters.views.recording import expected  # noqa: PLC0415 - the same

            expected(_page(taken=taken), self.outputs.expectation, rerun.first)
        elif not options.check and not taken:
            from podtide.adapters.views.recording import RecordingView  # noqa: PLC0415 - the same

            view = RecordingView(_page(taken=False), self._document(rerun))
            view.report(self.timeline, None if self.all is None else self.all.records())

    def _print_json(self, rerun: Redecision) -> None:
        if self.options.check:
            print_object(self._checked(rerun))
        else:
            self.outputs.print_json(self._document(rerun), FIRST)

    def _checked(self, rerun: Redecision) -> dict[str, Any]:
        """The outcome of a check as plain data."""
        return {
            "schema": schema_name("recording-check"),
            "app": self._app(rerun),
            "recording": self._recording(rerun),
            "changed": list(self.terms.changed),
            "check": rerun.agreement.document(),
        }

    def _document(self, rerun: Redecision) -> dict[str, Any]:
        terms = self.terms
        return {
            "schema": schema_name("recording-replay"),
            "app": self._app(rerun),
            "recording": self._recording(rerun),
            "conf": _shown(terms.settings.conf),
            "policies": _otherwise(terms.settings.policies),
            "behaviour": BEHAVIOUR,
            "defaults": f"Spark {terms.settings.conf.version.name}",
            "changed": list(terms.changed),
            "check": rerun.agreement.document(),
            "summary": self.stats.document(),
            "stalls": [] if self.stalls is None else [stall_document(stall) for stall in self.stalls.run.all()],
            "stalls_left_out": 0 if self.stalls is None else self.stalls.run.left_out,
            "notes": [*self.given.remarks, *terms.notes, *self._notes(rerun)],
        }

    def _app(self, rerun: Redecision) -> dict[str, Any]:
        return {"id": self.recording.header.app_id, "first_ms": rerun.first, "last_ms": rerun.last}

    def _recording(self, rerun: Redecision) -> dict[str, Any]:
        header = self.recording.header
        return {
            "name": self.recording.name,
            "source": header.source,
            "seed": header.seed,
            "steps": rerun.recorded_steps,
            "cut": self.recording.cut,
            "reason": rerun.reason,
        }

    def _notes(self, rerun: Redecision) -> list[str]:
        """What is to be known of this replay: what is not as recorded, from when on, and where the recording is cut."""
        settings = self.terms.settings
        warnings = [notice.text for notice in settings.notices if notice.level is NoticeLevel.WARNING]
        # What Spark would say of dynamic allocation is of no interest where it is off.
        notes = [text for text in warnings if settings.config.dynamic or "spark.dynamicAllocation" not in text]
        changed, divergence = self.terms.changed, rerun.agreement.divergence
        if changed:
            notes.append(f"Not as recorded, because it was asked for: {'; '.join(changed)}.")
        if divergence is not None:
            notes.append(
                f"From line {divergence.step.line} on it is decided otherwise than recorded, after "
                f"{count(rerun.agreement.decisions, 'decision')} as recorded; --check shows the difference. What was seen "
                f"of the cluster is heard as recorded; {NOT_THEN_ON_YARN if self.on_yarn else NOT_THEN}."
            )
        elif changed:
            notes.append(f"All {count(rerun.agreement.decisions, 'decision')} are as recorded all the same.")
        if self.recording.cut is not None:
            notes.append(f"The recording is {self.recording.cut}.")
        return notes


def _nothing(_now: Millis) -> None:
    """Nobody watches the time."""


def _otherwise(policies: Policies) -> dict[str, Any]:
    """The choices that are not Spark's, by their names."""
    spark = policy_words(SPARK_POLICIES)
    return {choice: word for choice, word in policy_words(policies).items() if word != spark[choice]}


def _shown(conf: SparkConf) -> dict[str, dict[str, Any]]:
    """The settings that decide something, as they may be shown, with where they come from."""
    redaction = redaction_of(conf)
    return {
        key: {"value": redaction.shown(key, setting.value), "origin": setting.origin}
        for key, setting in sorted(conf.settings.items())
        if (key in KEYS and KEYS[key].use is Use.DECIDES) or not setting.origin.startswith("recording")
    }


def _page(*, taken: bool) -> Page:
    from podtide.adapters.text.page import Page  # noqa: PLC0415 - rich costs a tenth of a second

    return Page(sys.stderr if taken else sys.stdout)
