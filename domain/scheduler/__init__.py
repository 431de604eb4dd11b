"""Spark's rules of who computes what where: TaskSchedulerImpl with its TaskSetManagers, and the DAGScheduler.

Both the rerun of a recorded application and the fake driver of a script run on them: ``task_scheduler`` and ``task_ends``
place tasks and take their ends, ``dag_scheduler`` and ``map_output`` see to stages and to what they read, ``listener_news``
says it. How long a task takes, which jobs there are and what else takes time is the caller's, in methods that it
overrides. Mutable, and fast: nobody but its owner sees it.
"""
