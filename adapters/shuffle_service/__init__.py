"""The cleaner of a node with the shuffle service, and what there is of services and executors on a cluster.

``directories`` is the disk, ``application_pods`` the last word of the API server, ``cleaning`` the loop that watches driver
pods and carries out what ``domain.shuffle_service`` decides; ``pods`` lists service pods and executors.
"""
