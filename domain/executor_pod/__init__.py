"""KubernetesExecutorBuilder: the executor pod that a conf leads to, as a manifest.

``builder`` is the face, ``feature_steps`` are Spark's steps in Spark's order, ``settings`` what they read from the conf,
``facts`` what they need besides, ``driver`` what a running driver adds to its conf, ``shuffle_service`` what an external
shuffle service needs of all that.
"""
