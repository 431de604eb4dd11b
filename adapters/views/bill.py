"""What a bill counts besides executors, in words: every answer with money says it where the prices ask for more."""

from __future__ import annotations

from podtide.adapters.text.format import count
from podtide.domain.whatif.bill.rules import BillRules, ContainerRounding, NodeShape, ResourceCalculator
from podtide.domain.whatif.prices import Prices


def bill_notes(prices: Prices | None) -> tuple[str, ...]:
    """The remark; () where the bill is that of the executors alone."""
    return () if prices is None or not prices.rules.asked else (f"The bill counts {bill_words(prices.rules)}.",)


def bill_words(rules: BillRules) -> str:
    """What is paid for."""
    parts = ["executors"]
    if rules.containers is not None:
        parts.append(f"on YARN rounded up to {_rounding(rules.containers)}")
    if rules.node is not None:
        parts.append(f"in whole nodes of {_node(rules.node)}")
    if rules.driver:
        parts.append("and the driver where it runs in the cluster")
    return ", ".join(parts)


def _rounding(rounding: ContainerRounding) -> str:
    step = rounding.minimum_mib if rounding.increment_mib is None else rounding.increment_mib
    words = f"multiples of {step:,} MiB, at least {rounding.minimum_mib:,} MiB"
    if rounding.calculator is ResourceCalculator.DOMINANT:
        cores = rounding.minimum_cores if rounding.increment_cores is None else rounding.increment_cores
        words += f", and of {count(cores, 'vcore')}, at least {rounding.minimum_cores:,}"
    return words


def _node(node: NodeShape) -> str:
    words = f"{count(node.cores, 'core')} and {_memory(node.memory_mib)}"
    if node.reserved_cores or node.reserved_mib:
        words += f" ({node.reserved_cores:g} cores and {_memory(node.reserved_mib)} of it reserved)"
    return words


def _memory(mib: int) -> str:
    return f"{mib:,} MiB" if mib % 1024 else f"{mib // 1024:,} GiB"
