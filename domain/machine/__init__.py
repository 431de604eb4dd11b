"""What every machine of a cluster manager's side is written with: one call of a decision, and messages between machines.

``turn`` is one call of a machine's decision under way, ``router`` carries what machines tell one another within a step, and
``holds`` remembers which bounds are in force, so that each is reported once.
"""
