"""Everything that an executor pod takes from the conf, read once: BasicExecutorFeatureStep's constructor and its fellows.

Spark reads these settings again for every pod that it builds and throws for what it cannot use - every time, in the middle
of allocating. Here they are read once, before anything runs; each thing that Spark would throw over is a ``ConfError`` with
the key to blame, and all of them are collected in the order in which Spark would meet them. What belongs to one profile
alone (``executor_pod.resources``) is checked for each profile.

Three things differ from Spark on purpose. Quantities that only the API server would refuse are refused here. User-supplied
feature steps are Java classes and cannot be run: they are refused, with two exceptions - Spark's own VolcanoFeatureStep,
whose effect on executors is known, and a step that is excluded. And the default profile has to be one that Spark accepts,
also where only pods of others are built: no application starts without.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from returns.pipeline import is_successful

from podtide.domain.conf.kubernetes_sections import ALLOCATOR, CONTAINER_NAME, DIRECT, PREFIX, K, derived_prefix
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import DECOMMISSION
from podtide.domain.conf.settings import ConfNotice, NoticeLevel
from podtide.domain.conf.volumes import CLAIM, PREFIX as VOLUMES_PREFIX, Volume, claim_templates, executor_volumes
from podtide.domain.executor_pod.blueprint import Text, command_words, substituted
from podtide.domain.executor_pod.facts import PodFacts
from podtide.domain.executor_pod.resources import Sizes, application_sizes
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION, illegal
from podtide.domain.jvm.hash_order import map_order
from podtide.domain.jvm.quantities import compare, parse_quantity
from podtide.domain.jvm.values import trim
from podtide.domain.protocol.cluster_config import ClaimTemplate

IMAGE_KEY: Final = K + "executor.container.image"
TEMPLATE_KEY: Final = K + "executor.podTemplateFile"
REQUEST_KEY: Final = K + "executor.request.cores"
LIMIT_KEY: Final = K + "executor.limit.cores"
STEPS_KEY: Final = K + "executor.pod.featureSteps"
EXCLUDED_KEY: Final = K + "executor.pod.excludedFeatureSteps"
LABEL_PREFIX: Final = K + "executor.label."
ANNOTATION_PREFIX: Final = K + "executor.annotation."
SECRET_REF_PREFIX: Final = K + "executor.secretKeyRef."
SECRETS_PREFIX: Final = K + "executor.secrets."
ENV_PREFIX: Final = "spark.executorEnv."
SECRET_KEY: Final = "spark.authenticate.secret"  # noqa: S105 - a key of the conf
DRIVER_HOST_KEY: Final = "spark.driver.host"

_STEPS: Final = "org.apache.spark.deploy.k8s.features."
BASIC: Final = _STEPS + "BasicExecutorFeatureStep"
CREDENTIALS: Final = _STEPS + "ExecutorKubernetesCredentialsFeatureStep"
MOUNT_SECRETS: Final = _STEPS + "MountSecretsFeatureStep"
ENV_SECRETS: Final = _STEPS + "EnvSecretsFeatureStep"
MOUNT_VOLUMES: Final = _STEPS + "MountVolumesFeatureStep"
HADOOP_CONF: Final = _STEPS + "HadoopConfExecutorFeatureStep"
LOCAL_DIRS: Final = _STEPS + "LocalDirsFeatureStep"
VOLCANO: Final = _STEPS + "VolcanoFeatureStep"

RESERVED_LABELS: Final = (
    "spark-version",
    "spark-exec-id",
    "spark-app-selector",
    "spark-app-name",
    "spark-role",
    "spark-exec-resourceprofile-id",
)
APP_NAME_CHARS_MAX: Final = 63
DEFAULT_DRIVER_PORT: Final = 7078
DEFAULT_BLOCK_MANAGER_PORT: Final = 7079

_ENV_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_IPV6: Final = re.compile(r"\[?([0-9:]+?:[0-9]*)\]?")


@dataclass(frozen=True, slots=True)
class PodSettings:
    """The application's part of an executor pod. Texts with holes where they name the executor.

    ``excluded``: feature steps that are left out. ``recovering``: the conf itself has the recovery mode on, in which an
    executor announces ``single_task_cores``. ``local_dirs``: where shuffle files go when no volume is named for them.
    """

    prefix: str
    namespace: str
    allocator: str
    app_name: str
    image: str
    pull_policy: str
    pull_secrets: tuple[str, ...]
    labels: Mapping[str, Text]
    annotations: Mapping[str, Text]
    node_selector: Mapping[str, str]
    scheduler: str | None
    grace_s: int
    service_account: str | None
    privilege_escalation: bool
    block_manager_port: int
    driver_url: str
    environment: tuple[tuple[str, str], ...]
    auth_secret: str | None
    class_path: str | None
    library_path: str | None
    java_options: tuple[Text, ...]
    executor_attributes: bool
    cores_request: str | None
    cores_limit: str | None
    config_map: bool
    decommission_script: str | None
    secrets: tuple[tuple[str, str], ...]
    secret_refs: tuple[tuple[str, str, str], ...]
    volumes: tuple[Volume, ...]
    claims: tuple[ClaimTemplate, ...]
    access_mode: str
    hadoop_config_map: str | None
    local_dirs: tuple[str, ...]
    local_dirs_in_memory: bool
    container: str | None
    excluded: frozenset[str]
    volcano: bool
    recovering: bool
    single_task_cores: int
    sizes: Sizes
    notices: tuple[ConfNotice, ...]


def pod_settings(reads: Reads, facts: PodFacts) -> PodSettings:
    """Read all of it; ``reads.errors`` says what cannot be used."""
    conf = reads.conf
    notices: list[ConfNotice] = []
    prefix = reads.text(PREFIX) or facts.pod_name_prefix or derived_prefix(conf, facts.app_id)
    if conf.raw(TEMPLATE_KEY) is not None and facts.template is None:
        reads.refuse_setting(TEMPLATE_KEY, "a file whose contents are given")
    excluded = frozenset(reads.texts(EXCLUDED_KEY))
    volcano = _user_steps(reads, excluded)
    image = _image(reads, facts)
    port = _block_manager_port(reads)
    driver_url = _driver_url(reads, facts)
    sizes = application_sizes(reads)
    request, limit = _cpu_texts(reads, sizes) if BASIC not in excluded else (None, None)
    secret = _auth_secret(reads, facts) if BASIC not in excluded else None
    options = reads.prepended("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions", " ")
    words = command_words("" if options is None else _with_app_id(options, facts.app_id))
    startup = conf.walked(filter(is_startup_setting, conf.settings))
    volumes = _volumes(reads) if MOUNT_VOLUMES not in excluded else ()
    app_name = conf.raw("spark.app.name")
    local_dirs = _first(facts.local_dirs, conf.raw("spark.local.dir"), f"/var/data/spark-{facts.local_dirs_id}")
    return PodSettings(
        prefix=prefix,
        namespace=reads.text(K + "namespace") or "",
        allocator=reads.text(ALLOCATOR) or DIRECT,
        app_name=app_name_label("spark" if app_name is None else app_name),
        image=image,
        pull_policy=reads.text(K + "container.image.pullPolicy") or "",
        pull_secrets=reads.texts(K + "container.image.pullSecrets"),
        labels=_labels(reads, facts.app_id, checked=BASIC not in excluded),
        annotations=_marked(reads, ANNOTATION_PREFIX, facts.app_id),
        node_selector={
            name: setting.value
            for whose in (K + "node.selector.", K + "executor.node.selector.")
            for name, setting in conf.family(whose).items()
        },
        scheduler=_first(reads.text(K + "executor.scheduler.name"), reads.text(K + "scheduler.name")),
        grace_s=reads.int(K + "executor.terminationGracePeriodSeconds"),
        service_account=_first(
            reads.text(K + "authenticate.executor.serviceAccountName"),
            reads.text(K + "authenticate.driver.serviceAccountName"),
        ),
        privilege_escalation=reads.flag(K + "executor.securityContext.allowPrivilegeEscalation"),
        block_manager_port=port,
        driver_url=driver_url,
        environment=_environment(reads, notices),
        auth_secret=secret,
        class_path=reads.prepended("spark.executor.defaultExtraClassPath", "spark.executor.extraClassPath", ":"),
        library_path=reads.text("spark.executor.extraLibraryPath"),
        java_options=(*words, *(f"-D{name}={conf.settings[name].value}" for name in startup)),
        executor_attributes=conf.raw("spark.ui.custom.executor.log.url") is not None,
        cores_request=request,
        cores_limit=limit,
        config_map=not reads.flag(K + "executor.disableConfigMap") and facts.config_map is not None,
        decommission_script=reads.text(K + "decommission.script") if reads.flag(DECOMMISSION) else None,
        secrets=tuple((name, setting.value) for name, setting in conf.family(SECRETS_PREFIX).items()),
        secret_refs=_secret_refs(reads) if ENV_SECRETS not in excluded else (),
        volumes=volumes,
        claims=claim_templates(volumes),
        access_mode=("ReadWriteOnce" if reads.flag(K + "legacy.useReadWriteOnceAccessMode") else "ReadWriteOncePod"),
        hadoop_config_map=conf.raw(K + "executor.hadoopConfigMapName"),
        local_dirs=java_split(local_dirs or "", ","),
        local_dirs_in_memory=reads.flag(K + "local.dirs.tmpfs"),
        container=reads.text(CONTAINER_NAME),
        excluded=excluded,
        volcano=volcano,
        recovering=reads.value(K + "allocation.recoveryMode.enabled") is True,
        single_task_cores=max(1, math.ceil(reads.decimal("spark.task.cpus"))),
        sizes=sizes,
        notices=tuple(notices),
    )


# ------------------------------------------------------------------------------------------------------- one by one


def _first(*texts: str | None) -> str | None:
    return next((text for text in texts if text is not None), None)


def _with_app_id(text: str, app_id: str) -> str:
    return text.replace("{{APP_ID}}", app_id)


def _user_steps(reads: Reads, excluded: frozenset[str]) -> bool:
    """Whether VolcanoFeatureStep is asked for; any other step cannot be run."""
    volcano = False
    for step in reads.texts(STEPS_KEY):
        if step == VOLCANO:
            volcano = step not in excluded
        elif step not in excluded:
            expected = f"no feature steps of your own: {step} is a Java class, which cannot be run here"
            reads.refuse_setting(STEPS_KEY, f"{expected} (or exclude it by {EXCLUDED_KEY})")
    return volcano


def _image(reads: Reads, facts: PodFacts) -> str:
    image = reads.text(IMAGE_KEY)
    if image is None:
        reads.refuse(IMAGE_KEY, "an image", SPARK_EXCEPTION, "Must specify the executor container image")
        return ""
    return image.replace("{{SPARK_VERSION}}", facts.spark_version)


def _block_manager_port(reads: Reads) -> int:
    name = "spark.blockManager.port"
    port = reads.raw_int(name, DEFAULT_BLOCK_MANAGER_PORT)
    if port != 0 and not 1024 <= port < 65536:
        fault = illegal("requirement failed: port number must be 0 or in [1024, 65535]")
        reads.refuse_setting(name, "0, or 1024 to 65535", fault)
    return port


def _driver_url(reads: Reads, facts: PodFacts) -> str:
    """RpcEndpointAddress of the scheduler backend."""
    bind = reads.expanded("spark.driver.bindAddress") if reads.flag(K + "executor.useDriverPodIP") else None
    host = _first(bind, reads.expanded(DRIVER_HOST_KEY), facts.driver_host)
    if host is None:
        expected = (
            "the address at which executors reach the driver; Spark takes the host's own, which is not known here"
        )
        reads.refuse_setting(DRIVER_HOST_KEY, expected)
        host = ""
    if found := _IPV6.fullmatch(host):
        try:
            host = f"[{ipaddress.ip_address(found[1])}]"
        except ValueError:
            fault = illegal(f"'{found[1]}' is not an IP string literal.")
            reads.refuse_setting(DRIVER_HOST_KEY, "a host name or an IP address", fault)
    return f"spark://CoarseGrainedScheduler@{host}:{reads.raw_int('spark.driver.port', DEFAULT_DRIVER_PORT)}"


def _cpu_texts(reads: Reads, sizes: Sizes) -> tuple[str | None, str | None]:
    """The requested cpus of the default profile as they were written, and their limit."""
    request, limit = reads.text(REQUEST_KEY), reads.text(LIMIT_KEY)
    usable = [_quantity(reads, key, text, "2 or 1500m") for key, text in ((REQUEST_KEY, request), (LIMIT_KEY, limit))]
    request_cpus = str(sizes.cores) if request is None else request
    if limit is not None and all(usable) and (compare(limit, request_cpus) or 0) < 0:
        text = f"The executor cpu request ({request_cpus}) should be less than or equal to cpu limit ({limit})"
        reads.refuse_setting(LIMIT_KEY, f"at least the requested cpus ({request_cpus})", illegal(text))
    return request, limit


def _quantity(reads: Reads, key: str, text: str | None, example: str) -> bool:
    """Whether a text is a quantity. Some that are none pass Spark, and fail at the API server: they have no fault."""
    if text is None or parse_quantity(text) is not None:
        return True
    suffix = text[next((at for at, sign in enumerate(text) if sign in "EGKMPTeikmnu"), len(text)) :]
    fault = None
    if not text:
        fault = illegal("Invalid quantity string format passed.")
    elif any(map(str.isdecimal, suffix)) and suffix[-1].isalpha():
        fault = illegal("Invalid quantity string format passed")
    reads.refuse_setting(key, f"a quantity such as {example}", fault)
    return False


def _auth_secret(reads: Reads, facts: PodFacts) -> str | None:
    """What goes into the environment as _SPARK_AUTH_SECRET: SecurityManager.getSecretKey, unless executors read a file."""
    if not _authenticates(reads):
        return None
    file = reads.expanded("spark.authenticate.secret.executor.file")
    if file is not None or reads.expanded("spark.authenticate.secret.file") is not None:
        return None
    secret = _first(facts.auth_secret, reads.conf.raw(SECRET_KEY))
    if secret is None:
        expected = "the secret of the driver: spark.authenticate is on, and nothing says where executors have it from"
        fault = illegal(f"A secret key must be specified via the {SECRET_KEY} config")
        reads.refuse_setting(SECRET_KEY, expected, fault)
    return secret


def _authenticates(reads: Reads) -> bool:
    """spark.authenticate, a switch that the table of keys lacks."""
    name = "spark.authenticate"
    text = reads.expanded(name)
    if text is None:
        return False
    word = text.strip().lower()
    if word not in ("true", "false"):
        message = (
            f"[INVALID_CONF_VALUE.TYPE_MISMATCH] The value '{text}' in the config \"{name}\" is invalid. It should be "
            "a/an 'boolean' value. SQLSTATE: 22022"
        )
        reads.refuse(name, "true or false", "org.apache.spark.SparkIllegalArgumentException", message)
    return word == "true"


def is_startup_setting(name: str) -> bool:
    """SparkConf.isExecutorStartupConf: what executors need before they can ask the driver for the rest."""
    return (
        (name.startswith("spark.auth") and name != SECRET_KEY)
        or name.startswith(("spark.rpc", "spark.network"))
        or (name.startswith("spark.ssl") and "Password" not in name)
        or (name.startswith("spark.") and name.endswith(".port"))
        or name.startswith("spark.port.")
    )


def _volumes(reads: Reads) -> tuple[Volume, ...]:
    found = executor_volumes(reads.conf)
    if not is_successful(found):
        reads.errors.append(found.failure())
        return ()
    volumes = found.unwrap()
    for volume in volumes:
        size = volume.details[1] if volume.kind == "emptyDir" else None
        if volume.kind == CLAIM and volume.details[1] is not None:  # of a claim that is created
            size = volume.details[2]
        if isinstance(size, str):
            _quantity(reads, f"{VOLUMES_PREFIX}{volume.kind}.{volume.name}.options.sizeLimit", size, "10Gi")
    return volumes


def app_name_label(name: str) -> str:
    """KubernetesConf.getAppNameLabel."""
    text = re.sub("-+", "-", re.sub(r"[^a-z0-9-]", "-", trim(name).lower()))
    return text[:APP_NAME_CHARS_MAX].removeprefix("-").removesuffix("-")


def _labels(reads: Reads, app_id: str, *, checked: bool) -> Mapping[str, Text]:
    labels = _marked(reads, LABEL_PREFIX, app_id)
    taken = next((name for name in map_order(RESERVED_LABELS) if name in labels), None)
    if checked and taken is not None:
        text = f"requirement failed: Custom executor labels cannot contain {taken} as it is reserved for Spark."
        expected = "a label that is not Spark's own"
        reads.refuse_setting(LABEL_PREFIX + taken, expected, illegal(text))
    return labels


def _marked(reads: Reads, prefix: str, app_id: str) -> Mapping[str, Text]:
    return {name: substituted(setting.value, app_id) for name, setting in reads.conf.family(prefix).items()}


def _environment(reads: Reads, notices: list[ConfNotice]) -> tuple[tuple[str, str], ...]:
    """spark.executorEnv.*: names that cannot be are dropped with a warning."""
    kept = reads.conf.family(ENV_PREFIX, lambda name: _ENV_NAME.fullmatch(name) is not None)
    for name in reads.conf.family(ENV_PREFIX, lambda name: name not in kept):
        text = (
            f"Invalid key: {name}, a valid environment variable name must consist of alphabetic characters, digits, "
            "'_', '-', or '.', and must not start with a digit. Regex used for validation is "
            f"'{_ENV_NAME.pattern}'"
        )
        notices.append(ConfNotice(NoticeLevel.WARNING, text, spark=True))
    return tuple((name, setting.value) for name, setting in kept.items())


def _secret_refs(reads: Reads) -> tuple[tuple[str, str, str], ...]:
    found = []
    for name, setting in reads.conf.family(SECRET_REF_PREFIX).items():
        parts = java_split(setting.value, ":")
        if len(parts) != 2:
            fault = illegal("requirement failed: SecretKeyRef must be in the form name:key.")
            reads.refuse_setting(SECRET_REF_PREFIX + name, "name:key", fault)
        else:
            found.append((name, parts[0], parts[1]))
    return tuple(found)


def java_split(text: str, separator: str) -> tuple[str, ...]:
    """String.split: empty parts at the end do not count; a text without the separator is one part, be it empty."""
    if separator not in text:
        return (text,)
    return tuple(text.rstrip(separator).split(separator)) if text.strip(separator) else ()
