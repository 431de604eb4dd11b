"""A Kubernetes cluster as a value: API server, watch, nodes, kubelets, controllers, and faults of all of them.

``cluster`` is the face (``begin``, ``apply``, ``advance``, ``due``); ``description`` is what a user describes, ``checks``
what is wrong with it, ``fit`` describes a recorded cluster.
"""
