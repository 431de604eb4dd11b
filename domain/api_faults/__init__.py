"""The faults of a cluster file around the API server as a value: calls refused, late or lost, watches that break."""
