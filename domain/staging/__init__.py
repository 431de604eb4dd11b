"""The resource staging server as a value: bundles of files that a submitter leaves for its driver and executors.

``bundles`` holds the values and whose a bundle is, ``staging`` the decisions: who may leave and fetch a bundle,
and when it goes. After ResourceStagingServer of apache-spark-on-k8s (spec: auxiliary, sections 2 and 4.2).
"""
