"""A YARN cluster as a value: resource manager, capacity scheduler, nodes, application masters, and their faults.

``cluster`` is the face (``begin``, ``apply``, ``advance``, ``due``); ``description`` is what a user describes, ``checks``
what is wrong with it, ``fit`` describes a recorded cluster.
"""
