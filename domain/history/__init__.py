"""The runs of one application over time: what is normal for it, and when a run is not."""
