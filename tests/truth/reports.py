"""An application of the truth: a nightly report. Three queries one after the other, each wide, then narrow, with think time.

Started by scripts/make_truth_logs.py. Tasks sleep, so what they take does not depend on the machine.
"""

import time

from pyspark import SparkContext


def main() -> None:
    """Run the three queries."""
    sc = SparkContext()
    for name, tasks, seconds, reducers in (("sales", 40, 0.7, 6), ("stock", 18, 1.6, 3), ("returns", 30, 0.5, 4)):
        sc.setJobDescription(name)

        def nap(value: int, seconds: float = seconds) -> tuple[int, int]:
            # Every ninth task is a straggler.
            time.sleep(seconds * (3 if value % 9 == 0 else 1))
            return value % 4, value

        def sum_up(values: list[int]) -> int:
            time.sleep(0.8)
            return sum(values)

        sc.parallelize(range(tasks), tasks).map(nap).groupByKey(reducers).mapValues(sum_up).count()
        time.sleep(4)
    sc.stop()


if __name__ == "__main__":
    main()
