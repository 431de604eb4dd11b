"""Apache Spark's executor allocation as pure functions.

``podtide.domain`` is the library, ``podtide.adapters`` reads and carries out, ``podtide.entrypoints`` is the command line.
"""

__version__ = "0.1.0"
