"""``podtide pod``: the executor pod that a configuration stands for, before any executor is asked for.

The manifest goes to standard output, everything else to standard error. What Spark 4.3.0 would throw over, at every pod, is
told at once with the keys to blame. Random parts (the application's id, the config map, the local directory) have fixed
values unless they are given, so that two runs can be compared.

What Spark redacts is not shown unless ``--show-secrets`` is given; a dry run sends the whole manifest either way.

Exit codes: 0 done; 2 the command line or the configuration cannot be used; 3 an input cannot be read; 4 the API server
refuses or cannot be reached (docs/reference/formats.md).
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click
from pyrsistent import pmap
from returns.pipeline import is_successful

from podtide.adapters.files.spark_conf import read_properties_file
from podtide.adapters.kubernetes.api import ConnectionRefused, Unreachable, connect
from podtide.adapters.kubernetes.executor_pod.profile import ProfileFileError, read_profile
from podtide.adapters.kubernetes.executor_pod.render import json_text, yaml_text
from podtide.adapters.kubernetes.executor_pod.spark_conf_dir import SIZE_MAX, ConfDirError, ConfFiles, read_conf_dir
from podtide.adapters.kubernetes.executor_pod.template import PodTemplate, PodTemplateError, read_template
from podtide.adapters.kubernetes.status import message_of
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.kubernetes_sections import PREFIX, REPLICA_KINDS, derived_prefix
from podtide.domain.conf.redaction import redaction_of
from podtide.domain.conf.settings import ConfNotice
from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_arguments, from_mapping, layered
from podtide.domain.executor_pod.builder import CannotBuild, DriverPod, ExecutorPods, PodFacts, executor_pods
from podtide.domain.executor_pod.driver import as_driver_has_it
from podtide.domain.executor_pod.redaction import redacted
from podtide.domain.executor_pod.settings import DRIVER_HOST_KEY, TEMPLATE_KEY
from podtide.domain.jvm.values import parse_long
from podtide.domain.kubernetes.allocator.replicas_allocator import claim_specs
from podtide.domain.protocol.pod_commands import CreateSet
from podtide.domain.protocol.pods import STATEFULSET
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.resource_profiles import ResourceProfile
from podtide.entrypoints.common.option_groups import ExpertOption, SectionedCommand
from podtide.entrypoints.common.output import (
    ClusterRefused,
    Misused,
    UnreadableInput,
    check_streams,
    printed,
    refused_as,
    usable,
)
from podtide.entrypoints.common.platform import kubernetes_only

NO_APP_ID: Final = f"spark-{'0' * 32}"
NO_CONFIG_MAP: Final = f"spark-exec-{'0' * 16}-conf-map"
NO_HOST: Final = "driver"
CONFIG_MAP_SIZE_KEY: Final = "spark.kubernetes.configMap.maxSize"
PATHS: Final = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}


@dataclass(frozen=True, slots=True)
class PodRequest:
    """What is to be printed."""

    executor: str
    replicas: int
    claims: bool
    config_map: bool
    conf_files: ConfFiles
    profile: ProfileId


@click.command(cls=SectionedCommand)
@click.option("--conf", "pairs", multiple=True, metavar="KEY=VALUE", help="A Spark setting; may be repeated.")
@click.option(
    "--properties-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings in the form of spark-defaults.conf.",
)
@click.option("--executor", default="1", show_default=True, metavar="ID", help="The executor's id.")
@click.option("--template", metavar="FILE", help="The pod template, instead of the one in the conf.")
@click.option("--profile-file", type=click.Path(path_type=Path), metavar="FILE", help="A resource profile in YAML.")
@click.option("--driver-pod", metavar="NAME", help="The driver's pod, which owns the executor's pod.")
@click.option("--driver-uid", metavar="UID", help="The uid of --driver-pod.")
@click.option("--app-id", metavar="ID", help="The application's id, if the conf has none.")
@click.option("--spark-user", cls=ExpertOption, metavar="NAME", help="The user who runs the driver. [default: you]")
@click.option("--config-map-name", cls=ExpertOption, metavar="NAME", help="The executors' config map; random in Spark.")
@click.option(
    "--local-dir-id", cls=ExpertOption, metavar="UUID", help="The end of /var/data/spark-<uuid>; random in Spark."
)
@click.option("--conf-dir", type=click.Path(path_type=Path), metavar="DIR", help="The driver's SPARK_CONF_DIR.")
@click.option(
    "--as-driver",
    cls=ExpertOption,
    is_flag=True,
    help="Add what a driver adds to its conf, such as Java's module options.",
)
@click.option(
    "--replicas",
    cls=ExpertOption,
    default=1,
    show_default=True,
    type=click.IntRange(0),
    help="Replicas of a StatefulSet or Deployment.",
)
@click.option("--claims", is_flag=True, help="Also print the volume claims that are created with the pod.")
@click.option("--config-map", is_flag=True, help="Also print the executors' config map.")
@click.option("--format", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
@click.option(
    "--show-secrets",
    cls=ExpertOption,
    is_flag=True,
    help="Also print what Spark redacts, and the config map's files.",
)
@click.option("--dry-run", type=click.Choice(["server"]), help="Let an API server check it; nothing is created.")
@click.option("--kubeconfig", metavar="FILE", help="The cluster of --dry-run.")
@click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
@click.option(
    "--namespace", "-n", metavar="NS", help="The namespace of --dry-run. [default: spark.kubernetes.namespace]"
)
def pod(
    pairs: tuple[str, ...],
    properties_file: Path | None,
    executor: str,
    template: str | None,
    profile_file: Path | None,
    driver_pod: str | None,
    driver_uid: str | None,
    app_id: str | None,
    spark_user: str | None,
    config_map_name: str | None,
    local_dir_id: str | None,
    conf_dir: Path | None,
    as_driver: bool,
    replicas: int,
    claims: bool,
    config_map: bool,
    form: str,
    show_secrets: bool,
    dry_run: str | None,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
) -> int:
    """Print the executor pod that a configuration stands for, as Spark 4.3.0 builds it.

    With the statefulset or deployment allocator it is the StatefulSet or Deployment of the profile, which needs
    --driver-pod. Exit code 2 if Spark could not build it (the keys are named), 3 if an input cannot be read, 4 if the
    API server of a dry run refuses.
    """
    check_streams()
    if (driver_pod is None) != (driver_uid is None):
        raise Misused("--driver-pod and --driver-uid go together: an owner has a name and a uid")
    if not executor or not all(sign.isascii() and (sign.isalnum() or sign in "-_.") for sign in executor):
        raise Misused(f"--executor {executor!r} is no executor's id: expected a number")
    conf = _conf(properties_file, pairs)
    kubernetes_only(conf, "there are no pods on YARN; what its containers are asked for, podtide simulate shows")
    conf, template_read = _template(conf, template)
    files = _conf_files(conf, conf_dir)
    profiles, vendors, profile = _profile(profile_file)
    facts = PodFacts(
        app_id=_app_id(conf, app_id),
        spark_user=spark_user or _user(),
        driver=None if driver_pod is None or driver_uid is None else DriverPod(driver_pod, driver_uid),
        config_map=config_map_name or NO_CONFIG_MAP,
        config_items=tuple(files.texts),
        template=None if template_read is None else template_read.tree,
        driver_host=NO_HOST,
        vendors=vendors,
    )
    if local_dir_id is not None:
        facts = replace(facts, local_dirs_id=local_dir_id)
    _assumed(conf, facts, app_id)
    if as_driver:
        conf = as_driver_has_it(conf, facts.app_id, derived_prefix(conf, facts.app_id))
    pods = _pods(conf, facts, profiles)
    _say_notices(pods.notices)
    wish = PodRequest(executor, replicas, claims, config_map, files, profile)
    with refused_as(Misused, CannotBuild, prefix="Spark cannot build this: "):
        documents = _documents(pods, wish)
    redaction = redaction_of(conf)
    shown = documents if show_secrets else [redacted(document, redaction) for document in documents]
    with printed():
        click.echo((yaml_text if form == "yaml" else json_text)(shown), nl=form == "json")
        sys.stdout.flush()
    if dry_run is not None:
        _dry_run(documents, namespace or pods.namespace, kubeconfig, context)
    return 0


# ---------------------------------------------------------------------------------------------------------- inputs


def _conf(file: Path | None, pairs: Sequence[str]) -> SparkConf:
    layers = [from_mapping({}, "")]
    if file is not None:
        from_file = usable(read_properties_file(file), UnreadableInput)
        layers.append(from_file.conf)
        for remark in from_file.remarks:
            _warn(remark)
    given = from_arguments(pairs)
    if not is_successful(given):
        raise Misused(*(_error_line(error, layers[0]) for error in given.failure()))
    return layered(*layers, given.unwrap())


def _template(conf: SparkConf, override: str | None) -> tuple[SparkConf, PodTemplate | None]:
    if override is not None:
        conf = layered(conf, from_mapping({TEMPLATE_KEY: override}, "--template"))
    setting = conf.setting(TEMPLATE_KEY)
    if setting is None:
        return conf, None
    with refused_as(UnreadableInput, PodTemplateError):
        found = read_template(setting.value)
    for remark in found.remarks:
        _warn(remark)
    return conf, found


def _conf_files(conf: SparkConf, folder: Path | None) -> ConfFiles:
    """The files of --conf-dir, or of spark.home/conf; this process' own SPARK_CONF_DIR is nobody's here."""
    home = conf.setting("spark.home")
    if folder is None and home is None:
        return ConfFiles({})
    try:
        size = conf.setting(CONFIG_MAP_SIZE_KEY)
        most = SIZE_MAX if size is None else parse_long(size.value.strip())
    except ValueError:
        raise Misused(f"{CONFIG_MAP_SIZE_KEY}: expected a whole number of characters") from None
    with refused_as(UnreadableInput, ConfDirError):
        found = read_conf_dir(folder or Path(home.value if home else "") / "conf", most)
    for remark in found.remarks:
        _warn(remark)
    return found


def _profile(
    file: Path | None,
) -> tuple[Mapping[ProfileId, ResourceProfile], Mapping[ProfileId, Mapping[str, str]], ProfileId]:
    if file is None:
        return {}, {}, DEFAULT_PROFILE
    with refused_as(UnreadableInput, ProfileFileError):
        found = read_profile(file)
    identifier = found.profile.id
    return {identifier: found.profile}, {identifier: found.vendors}, identifier


def _app_id(conf: SparkConf, given: str | None) -> str:
    setting = conf.setting("spark.app.id")
    return given or (setting.value if setting else NO_APP_ID)


def _user() -> str:
    try:
        return os.environ.get("SPARK_USER") or getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "spark"


# --------------------------------------------------------------------------------------------------------- answers


def _pods(conf: SparkConf, facts: PodFacts, profiles: Mapping[ProfileId, ResourceProfile]) -> ExecutorPods:
    made = executor_pods(conf, facts, profiles)
    if is_successful(made):
        return made.unwrap()
    raise Misused(*(_error_line(error, conf) for error in made.failure()))


def _error_line(error: ConfError, conf: SparkConf) -> str:
    """An error without the secret that its value may be."""
    value = redaction_of(conf).shown(error.key, error.value)
    setting = f"{error.key} = {value}" if error.value else error.key
    return f"{setting} ({error.origin}): expected {error.expected}"


def _documents(pods: ExecutorPods, wish: PodRequest) -> list[dict[str, Any]]:
    documents = []
    if pods.allocator in REPLICA_KINDS:
        kind: Any = pods.allocator
        name = f"spark-{'s' if kind == STATEFULSET else 'd'}-{pods.app_id}-{wish.profile}"
        why = Why(Cause.NEW_PROFILE, pmap({"target": wish.replicas}))
        command = CreateSet(0, 0, kind, name, wish.profile, wish.replicas, why, claim_specs(pods.claims))
        documents.append(pods.replica_set(command))
    else:
        documents.append(pods.pod(wish.executor, wish.profile))
        if wish.claims:
            owner = None if pods.driver is None else pods.driver.owner
            documents += [pods.claim(claim, wish.executor, owner) for claim in pods.own_claims(wish.executor)]
    if wish.config_map:
        documents.append(pods.config_map(wish.conf_files.texts))
    return documents


def _dry_run(
    documents: Sequence[Mapping[str, Any]], namespace: str, kubeconfig: str | None, context: str | None
) -> None:
    """Have an API server look at each manifest; all refusals are told."""
    with refused_as(Misused, ConnectionRefused):
        api = connect(kubeconfig, context)
    refusals = []
    with refused_as(ClusterRefused, Unreachable), contextlib.closing(api):
        for document in documents:
            kind = document["kind"]
            name = f"{kind} {document['metadata'].get('name', '')}".strip()
            body = dict(document)
            if "namespace" in body["metadata"]:
                body["metadata"] = {**body["metadata"], "namespace": namespace}
            path = PATHS[kind].format(quote(namespace, safe=""))
            answer = api.call(
                "create",
                path.rpartition("/")[2],
                path,
                query=(("dryRun", "All"),),
                body=json.dumps(body).encode(),
            )
            if answer.ok:
                click.echo(f"{name} would be created in {escaped(namespace)} (dry run)", err=True)
            else:
                refusals.append(f"{name}: the API server refuses it with status {answer.status}: {message_of(answer)}")
    if refusals:
        raise ClusterRefused(*refusals)


def _assumed(conf: SparkConf, facts: PodFacts, app_id: str | None) -> None:
    """Say what stands in for what nobody gave."""
    assumed = []
    if app_id is None and conf.setting("spark.app.id") is None:
        assumed.append(f"the application's id ({facts.app_id})")
    if conf.setting(DRIVER_HOST_KEY) is None:
        assumed.append(f"{DRIVER_HOST_KEY} ({NO_HOST})")
    if conf.setting(PREFIX) is None:
        assumed.append(f"{PREFIX} (of the application's name and id; Spark takes a random one)")
    if assumed:
        click.echo(f"note: assumed: {escaped(', '.join(assumed), 1_000)}", err=True)


def _say_notices(notices: Sequence[ConfNotice]) -> None:
    for notice in notices:
        speaker = "Spark: " if notice.spark else ""
        click.echo(f"{notice.level.value}: {speaker}{escaped(notice.text, 2_000)}", err=True)


def _warn(remark: str) -> None:
    click.echo(f"warning: {escaped(remark, 2_000)}", err=True)
