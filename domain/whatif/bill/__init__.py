"""What is paid for beside the executors' own cores and memory, where the prices ask for it.

``rules`` says what may be asked for; ``driver``, ``containers`` and ``nodes`` hold one rule each, with its source;
``run_bill`` puts them together for a simulated run, a recorded one, and the account of one. Without rules a bill is
that of the executors alone (``whatif.prices``), and no rule makes a bill smaller.
"""
