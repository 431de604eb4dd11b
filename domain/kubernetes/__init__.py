"""Executors as pods: everything below dynamic allocation on Kubernetes, and how its machines reach each other.

``side`` holds their states (``begin``, ``due``, ``wants``) and ``router`` carries what they say. ``snapshots_store`` and
``polling_source`` say what pods there are, ``allocator`` creates and deletes them, ``lifecycle`` removes executors whose
pods ended, ``roll_plugin`` and ``resize_plugins`` are Spark's plugins. The machines do not import one another.
"""
