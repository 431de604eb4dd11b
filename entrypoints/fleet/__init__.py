"""``podtide fleet``: a table over very many logs."""
