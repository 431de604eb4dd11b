"""The history of one executor, or the state at one moment, from a recording."""
