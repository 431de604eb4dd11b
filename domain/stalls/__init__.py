"""Stalls: tasks wait and nothing moves; since when, and why."""
