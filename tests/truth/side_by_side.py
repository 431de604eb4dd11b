"""An application of the truth: two threads, each with jobs of its own in a pool of its own, and a cache that both read.

Started by scripts/make_truth_logs.py. Tasks sleep, so what they take does not depend on the machine.
"""

import threading
import time
from collections.abc import Callable

from pyspark import SparkContext


def main() -> None:
    """Run both threads to their end."""
    sc = SparkContext()

    def nap(seconds: float) -> Callable[[int], int]:
        def asleep(value: int) -> int:
            time.sleep(seconds)
            return value

        return asleep

    def loads() -> None:
        sc.setLocalProperty("spark.scheduler.pool", "loads")
        for _ in range(3):
            sc.parallelize(range(24), 24).map(nap(0.9)).count()
            time.sleep(2.5)

    def scores() -> None:
        sc.setLocalProperty("spark.scheduler.pool", "scores")
        sc.parallelize(range(10), 10).map(nap(2.2)).count()
        time.sleep(6)
        sc.parallelize(range(14), 14).map(nap(1.4)).count()

    threads = [threading.Thread(target=loads), threading.Thread(target=scores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sc.stop()


if __name__ == "__main__":
    main()
