"""``podtide simulate`` and ``fit``: fake clusters in virtual time."""
