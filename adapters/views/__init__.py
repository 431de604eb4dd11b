"""Everything that people read: terminal pages, stories of executors, the HTML report, a live run, Spark's own log lines.

``replay``, ``recording``, ``simulation`` and ``expectation`` are pages of commands; the sub-packages are larger views.
Views are functions of documents and records; nothing here decides.
"""
