"""Recorded scenarios with real Spark's answers, decided again: what ``podtide conform`` runs.

``detect`` tells the kind of a scenario, ``runner`` runs it, and each kind has a module that drives its machine.
"""
