"""Who says how many executors a live run wants: a driver's REST API, a number, a schedule, lines from a pipe."""
