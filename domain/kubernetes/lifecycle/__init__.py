"""ExecutorPodsLifecycleManager: which executors are removed because their pods ended, and for what reason.

``lifecycle_manager`` is the face (``empty``, ``reap``, ``due``, ``busy``), ``books`` what it remembers, ``exit_reasons``
what an exit code means. Rules: spec/snapshots.md.
"""
