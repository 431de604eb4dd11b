"""Two runs of one application compared: the change of run time and of money, cause by cause, without remainder.

``account`` is what is kept of a run, small enough for a history; ``task_accounts`` hears the tasks of a log for it,
``assembly`` makes it of them. ``compare`` sets two accounts against each other: ``matching`` pairs their stages,
``stage_change`` divides the change of a pair among causes, ``causes`` is the closed list of these. ``baseline`` picks the
run that stands for many, and says how far these are apart.

*Run time.* The chain of stages that ended last (``chain``), with the driver's time between them, fills the run from its
first millisecond to its last. So the difference of two runs is the sum of the differences of their pieces. The time of a
stage is its work over its slots, and what these stood idle meanwhile; a change of the first is divided by logarithmic
means (Ang, "LMDI decomposition approach", 2015), which leave no remainder. *Money.* The bill is divided by the causes of the
ledger (``recorded_bill``), every executor-second once.
"""
