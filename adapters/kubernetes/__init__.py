"""The API server: one client, what is seen of it (``watch``), what is done to it (``apply``), who is in charge (``lease``).

``api`` alone imports the kubernetes package; ``codec`` decodes raw bytes, ``errors`` tells refusals apart, ``ratelimit``
paces calls; ``executor_pod`` holds what pods are made from; ``cleanup`` deletes what an application left behind.
"""
