"""podtide.adapters: what reads the world into stimuli and carries commands out: logs, recordings, clusters, files, views.

Bytes in, stimuli out; commands in, calls out. Which rooms there are, and who may import whom: ARCHITECTURE.md.
"""
