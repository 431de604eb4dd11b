"""Text for people, and untrusted text made safe: numbers, times, pages, plots, progress lines."""
