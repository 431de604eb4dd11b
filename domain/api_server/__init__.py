"""A Kubernetes API server as a value: ``server.step(state, request, now)`` gives the next state, the answer, watch events.

No input and output: a front end hands parsed JSON in and writes what comes out. All objects are persistent and frozen, so an
old state answers as before, and a list at an old version is a look at the tables of then. What the garbage collector and the
namespace controller would do happens in the same step, at the same ``now``. What this server does not know it refuses.
"""
