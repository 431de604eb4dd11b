"""ExecutorPodsAllocator: from targets per resource profile and snapshots of pods to creations and deletions.

``allocator`` is the face (``begin``, ``allocate``, ``due``, ``busy``, ``is_deleted``), ``round`` one onNewSnapshots,
which may stand still at a call, ``executor_index`` the executors as the allocator counts them, ``volume_claims`` reuse,
``back_off`` a fix that is off by default; ``replicas_allocator`` serves StatefulSets and Deployments. Rules:
spec/allocation.md.
"""
