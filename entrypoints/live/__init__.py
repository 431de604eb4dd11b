"""``podtide run`` and ``stop``: a real cluster, in shadow beside Spark or in charge."""
