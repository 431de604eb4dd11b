"""``podtide compare``: why one run took longer, or cost more, than another."""
