"""Text for people, and text from strangers made safe: numbers, times, pages, plots, progress lines."""
