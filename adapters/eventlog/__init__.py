"""Spark's event logs: from bytes to stimuli, and to the application as the log tells it.

``bytes`` opens a log wherever it lies and cuts it into lines, ``events`` decodes a line, ``sensor`` yields stimuli,
``application`` reads the whole application, ``decoder_process`` decodes in a second process.
"""
