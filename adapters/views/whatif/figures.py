"""Figures of a what-if in words: times, shares, money, ranges, and what causes and limits mean.

One wording for one figure, whether it stands in the HTML report, in a notebook or in a terminal. Everything here is a pure
function of numbers and returns plain text; names from a log do not come here, and a currency is escaped. Times are
``text.format.lasting`` without the blank inside (``12m04s``), so that a figure is one word in a sentence and in a column.
A minus is a minus sign, a range has an en dash, and what is not known is a dash of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from podtide.adapters.text.format import clock, lasting
from podtide.adapters.text.safe import escaped
from podtide.adapters.views.whatif.model import FaultsEntry
from podtide.domain.rerun.ledger.causes import Limit, SpendCause

UNKNOWN: Final = "–"
"""Stands where a figure is not known."""

SAME: Final = 0.0005
"""A relative difference that is shown as none."""

LONG: Final = 59.95
"""Seconds from which a time is told in minutes."""

_SYMBOLS: Final = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "$": "$", "€": "€", "£": "£", "¥": "¥"}


MEASURES: Final = {"cost": "cost", "executor_seconds": "executor-seconds", "core_hours": "core-hours"}
"""What a tune minimises besides time, in words."""


def took(seconds: float | None) -> str:
    """A length of time: ``300 ms``, ``4.3 s``, ``12m04s``, ``3h07m12s``, ``31h07m``, ``12d4h``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        return f"−{took(-seconds)}"
    if seconds < LONG:
        return lasting(seconds * 1000)
    if 3600 <= round(seconds) < 36_000:
        hours, rest = divmod(round(seconds), 3600)
        return f"{hours}h{rest // 60:02}m{rest % 60:02}s"
    return lasting(max(60.0, seconds) * 1000).replace(" ", "")


def at(seconds: float) -> str:
    """A time since the application's start: ``0:04.3``, ``12:05``, ``1:02:03``; tenths in the first ten minutes."""
    return clock(round(seconds * 1000), tenths=seconds < 600)


def number(value: float | None) -> str:
    """A count or a sum: ``2,310``, ``0.42``, ``13.5``; means of several runs may have a fraction, up to a hundred."""
    if value is None:
        return UNKNOWN
    if value < 0:
        return f"−{number(-value)}"
    if value == round(value) or value >= 99.95:
        return f"{round(value):,}"
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}".removesuffix(".0")


def whole(value: float | None) -> str:
    """A sum without its fraction: ``2,310``."""
    return number(None if value is None else round(value))


def executors(value: float) -> str:
    """``40 executors``."""
    return f"{number(value)} {'executor' if value == 1 else 'executors'}"


def executor_seconds(value: float) -> str:
    """``2,310 executor-seconds``."""
    return f"{whole(value)} executor-{'second' if round(value) == 1 else 'seconds'}"


def percent(share: float | None) -> str:
    """A share of a whole: ``38%``, ``4.2%``, ``<0.1%``, ``0%``."""
    if share is None:
        return UNKNOWN
    value = 100 * share
    if value < 0:
        return f"−{percent(-share)}"
    if 0 < value < 0.05:
        return "<0.1%"
    return f"{value:.1f}".removesuffix(".0") + "%" if value < 9.95 else f"{value:,.0f}%"


def change(share: float | None) -> str:
    """A difference in percent, with its sign: ``+12%``, ``−3.4%``, ``±0%``."""
    if share is None:
        return UNKNOWN
    if abs(share) < SAME:
        return "±0%"
    return f"{'+' if share > 0 else '−'}{percent(abs(share))}"


def signed(value: float) -> str:
    """A difference in number: ``+3``, ``−1``, ``±0``."""
    if not value:
        return "±0"
    return f"+{number(value)}" if value > 0 else number(value)


def difference(value: float | None, base: float | None) -> float | None:
    """How much more ``value`` is than ``base``, as a share of it; None where that says nothing."""
    if value is None or base is None or base <= 0:
        return None
    return (value - base) / base


def money(value: float | None, currency: str | None = None, *, scale: float | None = None) -> str:
    """A sum of money: ``$1.23``, ``0.0042 CHF``, ``1,234``; as many decimals as it needs, or as ``scale`` would need."""
    if value is None:
        return UNKNOWN
    if value < 0:
        return f"−{money(-value, currency, scale=scale)}"
    text = f"{value:,.{decimals(scale if scale is not None else value)}f}"
    if not currency:
        return text
    symbol = _SYMBOLS.get(currency)
    return f"{symbol}{text}" if symbol else f"{text} {escaped(currency, 12)}"


def decimals(value: float) -> int:
    """How many decimals a sum of money needs: two figures that count below one, cents up to a thousand."""
    value = abs(value)
    if value >= 1000:
        return 0
    if value >= 1 or value == 0:
        return 2
    return min(8, 1 - math.floor(math.log10(value)))


def span(low: str, high: str) -> str:
    """A range of two texts: ``11m20s–12m40s``; one text where they are the same."""
    return low if low == high else f"{low}–{high}"


def share_of(amount: float, whole: float) -> float | None:
    """A share, None of nothing."""
    return amount / whole if whole > 0 else None


WORK: Final = SpendCause.RUNNING.value

CAUSES: Final[Mapping[str, str]] = {
    SpendCause.RUNNING.value: "It ran at least one task whose result counted.",
    SpendCause.LOST_WORK.value: "It ran tasks that failed, died with an executor, or computed again what had been lost.",
    SpendCause.STARTING.value: "Asked for and not registered yet: scheduling, image, JVM.",
    SpendCause.OVER_REQUESTED.value: "It never ran a task, from its request to its end.",
    SpendCause.MINIMUM.value: (
        "Idle beyond every timeout, kept because the target (as a rule the minimum) does not let it go."
    ),
    SpendCause.CACHED.value: "Idle beyond the idle timeout, kept for the cached blocks that it holds.",
    SpendCause.SHUFFLE.value: "Idle beyond the idle timeout, kept for the shuffle data that it holds.",
    SpendCause.IDLE_TIMEOUT.value: "Idle within the idle timeout, then let go: the price of waiting to be sure.",
    SpendCause.LAST_TASK.value: "Idle while other executors ran the last tasks of a stage with skew and none waited.",
    SpendCause.SERIAL.value: "Idle while a stage of a single task ran: no executor can help it.",
    SpendCause.FEW_TASKS.value: "Idle while a stage without skew had fewer tasks, or fewer left, than there were slots.",
    SpendCause.DRIVER.value: "Idle while no stage was under way: the driver planned, collected or thought.",
    SpendCause.LEAVING.value: "Told to go and still there.",
    SpendCause.OTHER.value: "Idle while tasks waited that it could not, or was not yet offered to, take.",
}
"""What an executor-second of each cause was spent on, in the order in which they are shown: work first."""

LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    Limit.BACKLOG_TIMEOUT.value: (
        "Tasks had to wait before more was asked for.",
        "spark.dynamicAllocation.schedulerBacklogTimeout",
    ),
    Limit.RAMP.value: (
        "The target was still doubling.",
        "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout, spark.dynamicAllocation.initialExecutors",
    ),
    Limit.MAXIMUM.value: (
        "More executors were not allowed.",
        "spark.dynamicAllocation.maxExecutors, or the static count",
    ),
    Limit.RATIO.value: (
        "Fewer executors were asked for than the tasks could use.",
        "spark.dynamicAllocation.executorAllocationRatio",
    ),
    Limit.BATCH.value: (
        "Pods were created in batches with a pause between them.",
        "spark.kubernetes.allocation.batch.size, spark.kubernetes.allocation.batch.delay",
    ),
    Limit.PENDING.value: (
        "So many pods were pending that no more were created.",
        "spark.kubernetes.allocation.maxPendingPods, spark.kubernetes.allocation.maxPendingPodsPerRp",
    ),
    Limit.HEARTBEAT.value: (
        "The application master had not told the resource manager, or not heard what it gave.",
        "spark.yarn.scheduler.heartbeat.interval-ms, spark.yarn.scheduler.initial-allocation.interval",
    ),
    Limit.SCHEDULER.value: (
        "The resource manager had room and had not placed the containers yet.",
        "node heartbeats and locality delay of the resource manager's scheduler",
    ),
    Limit.EXCLUSION.value: (
        "There was room only on nodes that the application does not use.",
        "spark.yarn.exclude.nodes, spark.yarn.executor.launch.excludeOnFailure.enabled",
    ),
    Limit.START_UP.value: ("Executors were on their way: scheduling, image, JVM.", "image, node pool, minExecutors"),
    Limit.CAPACITY.value: (
        "The cluster had no room: unschedulable pods, a quota, a full queue.",
        "quota, queue, node pool",
    ),
    Limit.OTHER.value: ("None of the limits above.", ""),
}
"""What each limit means, and which settings move it."""


WAITED_WORDS: Final[Mapping[str, str]] = {
    Limit.BACKLOG_TIMEOUT.value: "until more were asked for (schedulerBacklogTimeout)",
    Limit.RAMP.value: "while the target was still doubling",
    Limit.MAXIMUM.value: "because no more were allowed (maxExecutors, or the static count)",
    Limit.RATIO.value: "because fewer were asked for than tasks could use (executorAllocationRatio)",
    Limit.BATCH.value: "while pods were created in batches",
    Limit.PENDING.value: "because so many pods were pending already",
    Limit.HEARTBEAT.value: "for the application master's next heartbeat",
    Limit.SCHEDULER.value: "until the resource manager placed the containers",
    Limit.EXCLUSION.value: "because only nodes had room that the application does not use",
    Limit.START_UP.value: "while executors started",
    Limit.CAPACITY.value: "because the cluster had no room",
    Limit.OTHER.value: "for other reasons",
}
"""How a sentence goes on that says how long tasks waited for executors."""


def parts_of(amounts: Mapping[str, float], order: Mapping[str, object]) -> list[tuple[str, float]]:
    """The amounts above nothing: those that ``order`` knows in its order, then others by name."""
    known = [(name, amounts[name]) for name in order if amounts.get(name, 0.0) > 0]
    return known + sorted((name, amount) for name, amount in amounts.items() if name not in order and amount > 0)


def largest(amounts: Mapping[str, float], *leave_out: str) -> list[tuple[str, float]]:
    """The amounts above nothing, the largest first; equal ones by name."""
    kept = [(name, amount) for name, amount in amounts.items() if amount > 0 and name not in leave_out]
    return sorted(kept, key=lambda one: (-one[1], one[0]))


def faults_words(faults: FaultsEntry | None) -> tuple[str, ...]:
    """What goes wrong in a variant besides what did, in words."""
    if faults is None:
        return ()
    words = []
    if faults.spot_per_hour:
        words.append(f"{number(faults.spot_per_hour)} interruptions of an executor an hour")
    if faults.start_extra_s:
        words.append(f"every start takes {took(faults.start_extra_s)} longer")
    if faults.quota is not None:
        words.append(f"no more than {number(faults.quota)} executors")
    return tuple(words)
