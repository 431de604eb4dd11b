"""Clusters and a driver as values, with their chance inside: what a simulation runs against. No machine imports them.

``kubernetes``, ``yarn`` and ``driver`` each have a description, ``begin``, ``apply`` or ``hear``, ``advance`` and
``due``; the clusters can be fitted to a recording. Here is what they share: ``checks``, ``windows``, ``evidence``.
"""
