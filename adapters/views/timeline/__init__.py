"""Decisions and what happened as rows in words: what, when, why, with the numbers."""
