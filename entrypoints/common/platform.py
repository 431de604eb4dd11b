"""Which side ``spark.master`` chooses: YARN, or Kubernetes for everything else.

``yarn-client`` and ``yarn-cluster``, as Sparks before 2.0 had it and old logs have it still, are YARN, too.
"""

from __future__ import annotations

from typing import Final

from podtide.adapters.text.safe import escaped
from podtide.domain.conf.spark_conf import SparkConf
from podtide.entrypoints.common.output import Misused

MASTER_KEY: Final = "spark.master"
YARN: Final = "yarn"
KUBERNETES_PREFIX: Final = "k8s://"
YARN_MASTERS: Final = (YARN, "yarn-client", "yarn-cluster")


def on_yarn(conf: SparkConf) -> bool:
    """Whether the conf's master is YARN."""
    setting = conf.setting(MASTER_KEY)
    return setting is not None and setting.value.strip() in YARN_MASTERS


def of_no_side(conf: SparkConf) -> str | None:
    """What to say of a master that is neither YARN nor Kubernetes, and so is taken for Kubernetes; None if it is either."""
    setting = conf.setting(MASTER_KEY)
    if setting is None or on_yarn(conf) or setting.value.strip().startswith(KUBERNETES_PREFIX):
        return None
    shown = escaped(setting.value.strip(), 80)
    return f"{MASTER_KEY} = {shown} ({setting.origin}) is neither {YARN} nor {KUBERNETES_PREFIX}...: as on Kubernetes."


def side_name(*, yarn: bool) -> str:
    """The side as people call it."""
    return "YARN" if yarn else "Kubernetes"


def kubernetes_only(conf: SparkConf, why: str) -> None:
    """Refuse a conf for YARN where only Kubernetes will do; ``why`` says what is missing. Raises Misused."""
    if on_yarn(conf):
        setting = conf.setting(MASTER_KEY)
        assert setting is not None
        raise Misused(f"{MASTER_KEY}={setting.value.strip()} ({setting.origin}): {why}")
