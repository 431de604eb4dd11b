"""CoarseGrainedSchedulerBackend: which executors are registered, killed, decommissioned and lost.

``scheduler_backend`` decides (``begin``, ``manage``, ``due``) over ``state`` and ``registry``; ``executor_removals`` is
what happens to an executor that goes; ``failure_tracker`` is ExecutorFailureTracker, which counts failures in a window of
time. YARN's backend builds on this one.
"""
