"""What the driver takes, by Spark 4.3.0's rules for its pod and for the application master's container."""

from __future__ import annotations

import pytest

from podtide.domain.whatif.bill.driver import DriverKind, DriverShape, driver_shape

K8S = {
    "spark.master": "k8s://https://api",
    "spark.kubernetes.submitInDriver": "true",
    "spark.submit.deployMode": "client",
}
YARN = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}


@pytest.mark.parametrize(
    ("conf", "cores", "mib"),
    [
        (K8S, 1.0, 1_024 + 384),
        ({**K8S, "spark.driver.memory": "10g"}, 1.0, 10_240 + 1_024),
        ({**K8S, "spark.driver.memory": "10g", "spark.kubernetes.memoryOverheadFactor": "0.4"}, 1.0, 10_240 + 4_096),
        (
            {
                **K8S, "spark.driver.memory": "10g", "spark.kubernetes.memoryOverheadFactor": "0.4",
                "spark.driver.memoryOverheadFactor": "0.15",
            },
            1.0,
            10_240 + 1_536,
        ),
        ({**K8S, "spark.driver.minMemoryOverhead": "500m"}, 1.0, 1_524),
        ({**K8S, "spark.driver.memoryOverhead": "2g", "spark.driver.minMemoryOverhead": "4g"}, 1.0, 3_072),
        ({**K8S, "spark.driver.cores": "4"}, 4.0, 1_408),
        ({**K8S, "spark.driver.cores": "4", "spark.kubernetes.driver.request.cores": "500m"}, 0.5, 1_408),
        (YARN, 1.0, 1_408),
        ({**YARN, "spark.driver.memory": "10g", "spark.kubernetes.memoryOverheadFactor": "0.4"}, 1.0, 11_264),
        ({**YARN, "spark.yarn.driver.memoryOverhead": "777"}, 1.0, 1_801),
        ({"spark.master": "yarn-cluster", "spark.driver.cores": "2"}, 2.0, 1_408),
        ({**YARN, "spark.driver.memory": "nonsense", "spark.driver.cores": "-3"}, 1.0, 1_408),
        ({**K8S, "spark.driver.cores": "four", "spark.driver.memoryOverheadFactor": "a tenth"}, 1.0, 1_408),
        ({"spark.master": "spark://host:7077", "spark.submit.deployMode": "cluster"}, 1.0, 1_024),
    ],
)  # fmt: skip
def test_the_driver_in_the_cluster(conf: dict[str, str], cores: float, mib: int) -> None:
    assert driver_shape(conf.get) == DriverShape(DriverKind.DRIVER, cores, mib)


def test_in_client_mode_yarn_has_the_application_master_alone() -> None:
    conf = {"spark.master": "yarn", "spark.driver.memory": "64g", "spark.driver.cores": "16"}
    assert driver_shape(conf.get) == DriverShape(DriverKind.MASTER, 1.0, 512 + 384)
    larger = {**conf, "spark.yarn.am.memory": "8g", "spark.yarn.am.cores": "2"}
    assert driver_shape(larger.get) == DriverShape(DriverKind.MASTER, 2.0, 8_192 + 819)


@pytest.mark.parametrize("master", ["k8s://https://api", "spark://host:7077", "local[4]", "", "mesos://host"])
def test_elsewhere_a_driver_outside_of_the_cluster_takes_nothing(master: str) -> None:
    assert driver_shape({"spark.master": master, "spark.driver.memory": "8g"}.get) is None
