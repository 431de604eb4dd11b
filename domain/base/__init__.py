"""What everything else is built of: units, versions of large values, tables of rows, samples, chance as arithmetic.

``units`` (Millis, ExecutorId, ProfileId, NEVER), ``versioned`` and ``versioned_map`` (a mutable inside that hands itself
on and can be taken back), ``tables``, ``samples``, ``randomness`` (distributions and streams that split). Imports nothing
of podtide.
"""
