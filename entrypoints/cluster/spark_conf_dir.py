"""A SPARK_CONF_DIR with which any Spark program finds the embedded cluster, without a change of script or command line.

It is a copy of the user's own folder, and spark-defaults.conf goes on with the lines of the cluster: in a properties file
the last line of a key counts. So the user's own settings stay, but for the few that say which cluster it is. What the user
says on spark-submit's command line or in the program goes over all of it, as always.

Keys stand for client mode (``spark.kubernetes.authenticate.*``), for spark-submit in cluster mode (``...submission.*``) and
for a driver in a pod (``spark.kubernetes.driver.master``, a URL without ``k8s://``: it is taken as it is). The driver's own
address is not among them: in cluster mode Spark refuses it (DriverServiceFeatureStep); it comes by SPARK_LOCAL_IP and
SPARK_LOCAL_HOSTNAME, which only the program's own process reads.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DEFAULTS: Final = "spark-defaults.conf"
IMAGE: Final = "podtide.local/spark"
"""No registry is asked for it: executors run from the local installation."""

LOOPBACK: Final = "127.0.0.1"
_MARK: Final = "# The embedded cluster, by podtide cluster:"


class ConfDirUnreadable(Exception):
    """The user's own SPARK_CONF_DIR cannot be copied; says why in one line."""


def own_conf_dir(environment: Mapping[str, str]) -> Path | None:
    """The user's: $SPARK_CONF_DIR, else $SPARK_HOME/conf, as Spark's launcher looks for it; None where there is none."""
    if given := environment.get("SPARK_CONF_DIR"):
        return Path(given)
    if home := environment.get("SPARK_HOME"):
        folder = Path(home) / "conf"
        return folder if folder.is_dir() else None
    return None


def cluster_settings(url: str, namespace: str, token: str, ca: Path | None) -> dict[str, str]:
    """The settings that say which cluster it is."""
    settings = {
        "spark.master": f"k8s://{url}",
        "spark.kubernetes.driver.master": url,
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": IMAGE,
    }
    for prefix in ("spark.kubernetes.authenticate", "spark.kubernetes.authenticate.submission"):
        settings[f"{prefix}.oauthToken"] = token
        if ca is not None:
            settings[f"{prefix}.caCertFile"] = str(ca)
    return settings


def write_conf_dir(folder: Path, own: Path | None, settings: Mapping[str, str]) -> Path:
    """Make the folder, which must not be there yet; only its owner can read it. Returns it. Raises ConfDirUnreadable."""
    try:
        if own is not None:
            shutil.copytree(own, folder)
        else:
            folder.mkdir()
        folder.chmod(0o700)
        defaults = folder / DEFAULTS
        text = defaults.read_text(encoding="utf-8", errors="surrogateescape") if defaults.exists() else ""
        # The user's last line may go on with a backslash, or lack its end.
        lines = [text, "", _MARK, *(f"{key} {value}" for key, value in settings.items()), ""]
        defaults.unlink(missing_ok=True)
        descriptor = os.open(defaults, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("\n".join(lines))
    except (OSError, shutil.Error) as problem:
        raise ConfDirUnreadable(f"{own or folder} cannot be copied: {problem}") from None
    return folder


def program_environment(environment: Mapping[str, str], conf_dir: Path, kubeconfig: Path) -> dict[str, str]:
    """The environment of a program that shall find the cluster."""
    return {
        **environment,
        "KUBECONFIG": str(kubeconfig),
        "SPARK_CONF_DIR": str(conf_dir),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_HOSTNAME": LOOPBACK,
    }
