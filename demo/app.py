"""The application behind the demo's event log: sleeping tasks that make dynamic allocation do all it can.

Started by scripts/make_demo_log.py, which sets the configuration. Every phase exists for one thing that a reader
of the log should be able to find again:

1. a wide stage: backlog, sustained backlog, the ramp 1, 2, 4, ... and the maximum;
2. think time: executors go idle and are let go, the minimum keeps one;
3. a shuffle: map and reduce; afterwards executors with shuffle data outlive the others;
4. a cached RDD: its executors are held beyond the idle timeout, until it is unpersisted;
5. two jobs at once, the maximum again, and the end.
"""

import threading
import time

from pyspark import RDD, SparkContext


def sleeping(seconds: float):
    """Return a function that takes its time and gives back what it got."""

    def nap(value: int) -> int:
        time.sleep(seconds)
        return value

    return nap


def main() -> None:
    """Run the five phases."""
    sc = SparkContext()

    def tasks(count: int, seconds: float) -> RDD:
        return sc.parallelize(range(count), count).map(sleeping(seconds))

    def job(name: str, action) -> None:
        sc.setJobDescription(name)
        action()

    job("wide", lambda: tasks(44, 1.2).count())
    time.sleep(10)

    def shuffle() -> None:
        pairs = tasks(15, 1.0).map(lambda value: (value % 5, value))
        pairs.groupByKey(5).mapValues(lambda values: (time.sleep(1.5), sum(values))).count()

    job("map and reduce", shuffle)
    time.sleep(9)

    def cache() -> None:
        cached.count()
        cached.count()

    cached = tasks(6, 1.5).persist()
    job("fill and read the cache", cache)
    time.sleep(15)
    cached.unpersist()
    time.sleep(3)

    together = [
        threading.Thread(target=job, args=("two at once: many short", lambda: tasks(24, 0.8).count())),
        threading.Thread(target=job, args=("two at once: few long", lambda: tasks(8, 2.0).count())),
    ]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    time.sleep(8)
    sc.stop()


if __name__ == "__main__":
    main()
