"""Pods as they are seen: lists and watches that resume, back off, and never go back in time."""
