"""From a recorded application and a change to an answer: what it would have cost, how long it would have run.

``planning*`` turns a variant into a plan, ``fit_*`` learns from the log how executors start and behave, ``summary``,
``misfit``, ``comparison`` and ``gates`` judge the outcome, ``prices`` turns it into money; ``search`` looks for the best
config.
"""
