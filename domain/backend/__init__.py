"""CoarseGrainedSchedulerBackend: which executors are registered, killed, decommissioned and lost.

``scheduler_backend`` decides (``begin``, ``manage``, ``due``) over ``state`` and ``registry``; ``registration`` lets
executors in, ``executor_removals`` lets them go, ``answers`` answers who asked. What a cluster manager does in its own way
is a ``ClusterManager`` (``turn``): ``kubernetes_manager`` here, YARN's in its own room. ``failure_tracker`` is
ExecutorFailureTracker, which counts failures in a window of time.
"""
