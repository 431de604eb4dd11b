"""YARN's rounding: the container that the resource manager gives for what Spark asks for.

Source: ``normalize`` of Hadoop's DefaultResourceCalculator and DominantResourceCalculator (3.x), which the schedulers
call with the minimum allocation (yarn.scheduler.minimum-allocation-mb, -vcores) and the increment: the capacity
scheduler's is the minimum itself, the fair scheduler has keys for it.

    DefaultResourceCalculator    memory = roundUp(max(memory, minimum), increment)
    DominantResourceCalculator   the same, and vcores = roundUp(max(vcores, minimum), increment)

Under the DefaultResourceCalculator YARN neither counts nor limits vcores, so the cores are those that Spark asked
for: its tasks use them. The maximum allocation is left out: YARN refuses what is larger, and no executor comes.
"""

from __future__ import annotations

from podtide.domain.whatif.bill.rules import ContainerRounding, ResourceCalculator


def rounded(cores: int, memory_mib: int, rounding: ContainerRounding) -> tuple[int, int]:
    """Cores and MiB of the container that is given for this request; never less than either."""
    minimum, step = rounding.minimum_mib, rounding.increment_mib
    memory = _up(max(memory_mib, minimum), minimum if step is None else step)
    if rounding.calculator is ResourceCalculator.DEFAULT:
        return cores, memory
    minimum, step = rounding.minimum_cores, rounding.increment_cores
    return _up(max(cores, minimum), minimum if step is None else step), memory


def _up(amount: int, step: int) -> int:
    return -(-amount // step) * step
