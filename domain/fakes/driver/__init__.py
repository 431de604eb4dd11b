"""A Spark driver as a value: jobs, stages and tasks of a script, scheduled on the executors that there are.

``driver`` is the face (``begin``, ``hear``, ``advance``, ``due``, ``done``, ``summary``); ``script`` is the workload that
a user describes, ``dag_scheduler`` and ``task_scheduler`` run it on Spark's rules (``domain.scheduler``).
"""
