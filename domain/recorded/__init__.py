"""An application as its event log tells it: its jobs, stages, tasks and executors, and what the log does not tell.

``reading`` folds events into an ``application``; ``job_dependencies`` and ``request_times`` infer what the log leaves out,
``unknowns`` lists what cannot be known.
"""
