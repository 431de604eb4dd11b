"""``podtide replay`` and ``explain``: a log or a recording decided again."""
