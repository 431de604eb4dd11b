"""Executors as YARN containers: everything below dynamic allocation on YARN, and how its machines reach each other.

``side`` holds their states (``begin``, ``due``) and ``router`` carries what they say. ``allocator`` is YarnAllocator with
``allocate_response`` (what a heartbeat's answer does), ``locality`` and ``node_health``; ``reporter`` is the application
master's thread; ``scheduler_backend`` is YarnSchedulerBackend. Rules: spec/yarn.md.
"""
