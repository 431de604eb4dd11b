"""What everything else is built of: units, versions of large values, tables of rows, samples, chance as arithmetic.

``units`` (Millis, ExecutorId, ProfileId, NEVER), ``versioned`` and ``tables`` (a mutable inside that hands itself on and
can be taken back), ``samples``, ``randomness`` (distributions and streams that split). Imports nothing of podtide.
"""
