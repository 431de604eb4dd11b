"""What is inferred where a driver cannot be asked: pure machines between what was seen and the engine.

``headless`` (no driver at all), ``shadow`` and ``observed_targets`` (beside a real driver, from its pods),
``driver_view`` with ``driver_snapshot``, ``driver_tasks`` and ``driver_shuffles`` (from its REST API). ``filters`` puts them
between the inbox of a live run and the engine.
"""
