"""``podtide watch`` and ``podtide serve``: the history of many runs, kept and shown."""
