"""What a running driver has put into its conf before it builds a pod: SparkContext and KubernetesClusterManager 4.3.0.

KubernetesExecutorBuilder takes the conf of the driver, which is more than the user wrote. A conf that was read from the
driver has all of it; one from a properties file lacks it, and the executors of Java 17 do not start without the module
options. ``as_driver_has_it`` adds what can be known:

- the application's id, the driver's own executor id, its host and port (7078, which spark-submit sets in cluster mode)
  where nobody set them;
- in front of the executors' Java options those that open modules, and whether IPv6 addresses are preferred;
- the prefix of the pods' names, fixed once for all executors.

What it cannot know are start times and what plugins and listeners set besides; they show in a pod at most by the order
of its Java options.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.conf.kubernetes_sections import PREFIX
from podtide.domain.conf.spark_conf import Setting, SparkConf
from podtide.domain.executor_pod.settings import DEFAULT_DRIVER_PORT

ORIGIN: Final = "set by the driver"
OPTIONS_KEY: Final = "spark.executor.extraJavaOptions"

MODULE_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
            "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
            "sun.security.action", "sun.util.calendar",
        )
    ),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)  # fmt: skip
"""JavaModuleOptions.defaultModuleOptions."""


def as_driver_has_it(
    conf: SparkConf, app_id: str, prefix: str, *, driver_host: str | None = None, prefer_ipv6: bool = False
) -> SparkConf:
    """The conf with what the driver adds. Nothing is added twice: a conf of a driver comes back with nothing new.

    ``prefix``: of the pods' names, where the conf has none. ``driver_host``: where the conf has none.
    """
    settings = conf.settings.evolver()

    def missing(key: str, value: str) -> None:
        if key not in conf.settings:
            settings[key] = Setting(value, ORIGIN)

    missing("spark.app.id", app_id)
    missing("spark.executor.id", "driver")
    missing("spark.driver.port", str(DEFAULT_DRIVER_PORT))
    missing(PREFIX, prefix)
    if driver_host is not None:
        missing("spark.driver.host", driver_host)
    written = conf.settings.get(OPTIONS_KEY, Setting("", ORIGIN))
    if MODULE_OPTIONS[2] not in written.value:
        preferred = f"-Djava.net.preferIPv6Addresses={str(prefer_ipv6).lower()}"
        text = " ".join((preferred, *MODULE_OPTIONS, written.value)).strip()
        settings[OPTIONS_KEY] = Setting(text, written.origin)
    return SparkConf(settings.persistent(), conf.version)
