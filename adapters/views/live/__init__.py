"""A live run seen from outside: a status value, and what draws, counts or serves it."""
