"""podtide as a library for scripts and notebooks: ``podtide.open(log)``, and results with a table and a picture."""
