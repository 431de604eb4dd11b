"""Dynamic allocation: how many executors an application should have, and which idle ones it can let go.

``dynamic_allocation`` puts the parts together (``start``, ``step``, ``due``). ``manager`` is ExecutorAllocationManager
(``start``, ``scale``), ``load`` its listener (tasks pending and running by profile), ``executor_monitor`` with
``executor_trackers`` is ExecutorMonitor (since when an executor is idle, what holds it), ``metrics`` is
ExecutorAllocationManagerSource. Rules: spec/dynamic-allocation.md.
"""
