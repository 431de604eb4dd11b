"""``podtide whatif``, ``tune`` and ``diff``: recorded applications under other configurations."""
