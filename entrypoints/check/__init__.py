"""``podtide conf``, ``pod`` and ``conform``: answers without running an application."""
