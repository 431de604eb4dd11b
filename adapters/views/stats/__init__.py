"""An application counted as it runs, in bounded memory: the figures below a simulation and a recording."""
