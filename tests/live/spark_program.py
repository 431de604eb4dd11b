"""A Spark application that does what standard input tells it; run by the Python that has pyspark, not by podtide's.

Its only argument is a JSON file with the configuration. Each line is one command, each answer one JSON line:

``job N TASKS SECONDS``       N jobs in sequence, of TASKS tasks that take SECONDS each; the answer is the sum of 1..TASKS
``start N TASKS SECONDS``     the same in the background; ``wait`` waits for all that were started
``sql QUERY``                 one query; the answer is its rows
``cancel``                    cancel every job; those in the background end with an error
``executors``                 the registered executors
``quit``                      stop the context and end
"""

import importlib
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any


def main(path: str) -> None:
    conf = json.loads(Path(path).read_text(encoding="utf-8"))
    builder = importlib.import_module("pyspark.sql").SparkSession.builder  # only its own Python has it
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    context = session.sparkContext
    say(event="up", app=context.applicationId, ui=context.uiWebUrl, version=context.version)
    waiting: list[threading.Thread] = []
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["job"]:
            jobs(context, *words[1:])
        elif words[:1] == ["start"]:
            thread = threading.Thread(target=jobs, args=(context, *words[1:]), daemon=True)
            thread.start()
            waiting.append(thread)
        elif words[:1] == ["sql"]:
            say(event="sql", rows=[list(row) for row in session.sql(line.partition(" ")[2]).collect()])
        elif words[:1] == ["wait"]:
            for thread in waiting:
                thread.join()
            waiting.clear()
            say(event="waited")
        elif words[:1] == ["cancel"]:
            context.cancelAllJobs()
        elif words[:1] == ["executors"]:
            ids = context._jsc.sc().getExecutorIds().mkString(",")
            say(event="executors", ids=[one for one in ids.split(",") if one])
        elif words[:1] == ["quit"]:
            break
    session.stop()
    say(event="stopped")


def jobs(context: Any, count: str, tasks: str, seconds: str) -> None:
    """Run jobs one after the other. Their tasks only wait, so that two cores are enough for any number of them."""
    pause, size = float(seconds), int(tasks)

    def task(number: int) -> int:
        time.sleep(pause)
        return number

    for _ in range(int(count)):
        began = time.time()
        try:
            answer = context.parallelize(range(1, size + 1), size).map(task).sum()
        except Exception as problem:
            say(event="job", error=str(problem)[:2000])
            return
        say(event="job", answer=answer, seconds=round(time.time() - began, 3))


LOCK = threading.Lock()


def say(**answer: object) -> None:
    """One line of JSON."""
    with LOCK:
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
