"""The options of a live run as one value: the command fills it in, everything that starts reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podtide.domain.base.units import Millis

SHADOW: Final = "shadow"
ACT: Final = "act"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``podtide run``. Times in milliseconds; None: the option was not given."""

    app_id: str
    namespace: str | None
    kubeconfig: str | None
    context_name: str | None
    properties_file: str | None
    conf: tuple[str, ...]
    acting: bool
    target: int | None
    schedule: str | None
    lines: bool
    driver_url: str | None
    driver_auth: str | None
    driver_interval_ms: Millis
    shuffle_linger_ms: Millis | None
    fixes: tuple[str, ...]
    policies: tuple[str, ...]
    record: str | None
    overwrite: bool
    delete_on_exit: bool
    stop_at_end_of_input: bool
    log_format: str
    view: bool
    metrics_port: int | None
    metrics_address: str
    one_at_a_time: bool
    api_concurrency: int
    create_rate: float | None
    lease_ms: Millis
    lease_wait_ms: Millis
    duration_ms: Millis | None
    conf_dir: str | None
    drain: bool

    @property
    def follows_pods(self) -> bool:
        """Whether the target is read from the pods that Spark made."""
        return self.target is None and self.schedule is None and not self.lines and self.driver_url is None

    @property
    def only_prints(self) -> bool:
        """Whether the run does nothing but print: nobody needs it once nobody reads."""
        return not self.acting and self.record is None and self.metrics_port is None
