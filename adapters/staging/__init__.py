"""The resource staging server over HTTP, with its store and its view of pods; and what submitters and pods do with it.

Server: ``serving`` puts ``store``, ``owner_pods`` and ``front`` together. Submitter: ``archive``, ``staging_client`` and
``pod_template``. Pod: ``fetch_bundle``, a program of its own for any Python 3.8, which imports nothing of podtide.
"""
