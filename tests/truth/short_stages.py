"""An application of the truth: thirty short stages in a row, in three jobs of ten.

Started by scripts/make_truth_logs.py. Tasks sleep, so what they take does not depend on the machine.
"""

import time

from pyspark import SparkContext


def main() -> None:
    """Run the three jobs."""
    sc = SparkContext()
    for tasks, seconds in ((10, 0.2), (6, 0.35), (8, 0.25)):

        def nap(pair: tuple[int, int], seconds: float = seconds) -> tuple[int, int]:
            # Three stages of ten take longer for some of their tasks.
            time.sleep(seconds * (2 if pair[0] == pair[1] % 4 else 1))
            return pair[0], pair[1] + 1

        steps = sc.parallelize([(number, 0) for number in range(tasks)], tasks).map(nap)
        for _ in range(9):
            steps = steps.partitionBy(tasks).map(nap)
        steps.count()
        time.sleep(1)
    sc.stop()


if __name__ == "__main__":
    main()
