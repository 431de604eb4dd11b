"""podtide.entrypoints: everything wired together."""
