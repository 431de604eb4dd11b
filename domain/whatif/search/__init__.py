"""The config that costs least within a time, over several runs: a grid, sampled evenly, pruned by bounds.

``search`` is the face; ``space`` says what may be chosen, ``bounds`` what cannot win, ``pareto`` and ``recommendation``
what is worth showing, ``defaults`` what is tried unless told otherwise.
"""
