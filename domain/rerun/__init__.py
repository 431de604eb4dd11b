"""One recorded application, run again under a plan: production decisions, tasks scheduled here, a ledger of costs.

``plan`` is what is run, ``rerun`` the clockwork, ``dag_scheduler`` and ``task_scheduler`` place the recorded tasks;
executors come from ``plain_manager``, ``on_kubernetes`` or ``on_yarn``, which run the engine; ``ledger`` gives every
executor-second one cause.
"""
