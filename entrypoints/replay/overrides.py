"""Under which configuration and policies a recording is decided again: its own, unless the user says otherwise.

A recording says what it was decided under: the conf (without the values that Spark redacts, which are left unset), the
Spark whose defaults fill it, and the policies by name. Whatever of it the user changes - ``--conf``, ``--properties-file``,
``--spark-version``, ``--fix``, ``--policy`` - is listed, because decisions may differ from then on.

Policies of the user's own are named in the recording and never imported from there. ``--policy split=my_module:my_split``
imports one because the user asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from podtide.adapters.recording.header import RecordingHeader, policy_words
from podtide.adapters.text.safe import escaped
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.spark_conf import SparkConf, from_mapping, layered
from podtide.domain.conf.spark_versions import parse_version
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Policies
from podtide.domain.protocol.application import EngineConfig
from podtide.entrypoints.common.app_config import FIXES, AppSettings, app_settings, policies_with
from podtide.entrypoints.common.platform import on_yarn, side_name
from podtide.entrypoints.common.policies import PolicyError, own_policies

ORIGIN: Final = "recording"
NONE: Final = "none"


class TermsError(Exception):
    """What the user asked for cannot be used; the message says why and what was expected."""


@dataclass(frozen=True)
class ReplayTerms:
    """What a recording is decided under.

    ``talkative``: the same configuration, under which the machines also remark what only Spark's log says. ``changed``:
    what is not as recorded, in words; empty: nothing.
    """

    settings: AppSettings
    talkative: EngineConfig
    changed: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def own(self) -> bool:
        """Whether it is decided as it was."""
        return not self.changed


@dataclass(frozen=True)
class ReplayWishes:
    """What the user wants otherwise: settings in rising precedence, a version, fixes, policies as CHOICE=WORD."""

    overrides: Sequence[SparkConf] = ()
    spark_version: str | None = None
    fixes: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()


def terms_of(header: RecordingHeader, wishes: ReplayWishes) -> ReplayTerms:
    """The terms for a recording. Raises TermsError, UnknownPolicy, or SettingsError where the conf cannot be used."""
    version = parse_version(header.spark if wishes.spark_version is None else wishes.spark_version)
    conf = layered(from_mapping(dict(header.conf), ORIGIN, version), *wishes.overrides)
    try:
        own, chosen = own_policies(wishes.policies)
    except PolicyError as problem:
        raise TermsError(str(problem)) from None
    words = {**header.policies, **chosen}
    policies = _fixed(replace(header, policies=words).policies_used(own), wishes.fixes)
    recorded, yarn = on_yarn(header.spark_conf()), on_yarn(conf)
    if recorded != yarn:
        raise TermsError(
            f"spark.master chooses {side_name(yarn=yarn)}, and the recording is of an application on "
            f"{side_name(yarn=recorded)}: what one of them said the other would not have said (podtide simulate runs an "
            "application on either)"
        )
    settings = app_settings(conf, policies, racks=header.racks)
    changed: list[str] = []
    if wishes.spark_version is not None and version.name != parse_version(header.spark).name:
        changed.append(f"defaults of Spark {version.name}")
    redaction = redaction_of(conf)
    for layer in wishes.overrides:
        for key, setting in sorted(layer.settings.items()):
            if header.conf.get(key) != setting.value:
                changed.append(f"{key}={redaction.shown(key, setting.value)}")
    # Functions of the user's own are compared by the name under which they were recorded.
    now_words = {**policy_words(policies), **{choice: word for choice, word in words.items() if choice in chosen}}
    for choice, word in now_words.items():
        before = header.policies.get(choice, policy_words(SPARK_POLICIES).get(choice))
        if word != before:
            changed.append(f"policy {choice}: {_shown(word)}, recorded {_shown(before)}")
    talkative = app_settings(conf, policies, remarks=True, racks=header.racks).config
    return ReplayTerms(settings, talkative, tuple(dict.fromkeys(changed)), _notes(header))


def _notes(header: RecordingHeader) -> tuple[str, ...]:
    if not header.redacted:
        return ()
    named = ", ".join(escaped(key, 60) for key in header.redacted[:5])
    return (f"Left unset, because Spark would not show their values: {named}.",)


def _fixed(policies: Policies, fixes: tuple[str, ...]) -> Policies:
    """The policies with these fixes on besides; "none" turns all of them off first."""
    if NONE in fixes:
        off = SPARK_POLICIES
        policies = replace(
            policies,
            back_off=off.back_off,
            forget_ghosts=off.forget_ghosts,
            delete_excess_running=off.delete_excess_running,
            repair_pending=off.repair_pending,
        )
    wanted = tuple(fix for fix in fixes if fix != NONE)
    if not wanted:
        return policies
    try:
        with_fixes = policies_with(wanted)
    except ValueError:
        unknown = next(fix for fix in wanted if fix != "all" and fix not in FIXES)
        expected = f"all, none or one of {', '.join(FIXES)}"
        raise TermsError(f"--fix {escaped(unknown)}: expected {expected}") from None
    return replace(
        policies,
        back_off=policies.back_off or with_fixes.back_off,
        forget_ghosts=policies.forget_ghosts or with_fixes.forget_ghosts,
        delete_excess_running=policies.delete_excess_running or with_fixes.delete_excess_running,
        repair_pending=policies.repair_pending or with_fixes.repair_pending,
    )


def _shown(word: object) -> str:
    if word is None or isinstance(word, bool):
        return "on" if word else "off"
    return escaped(str(word))
