"""podtide.domain: the decisions."""
