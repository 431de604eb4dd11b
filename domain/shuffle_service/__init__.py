"""Spark's external shuffle service on a real Kubernetes cluster, as values and decisions.

``applications`` holds what the cleaner knows, hears and does, ``cleaner`` decides when the files of an application go,
``services`` which service serves the executors of a node. After KubernetesExternalShuffleService of apache-spark-on-k8s
(spec: auxiliary, sections 1 and 4.1).
"""
