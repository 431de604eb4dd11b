"""What podtide's HTTP servers share: a thread that listens, bounds on what clients can hold of it, and TLS.

``listener`` is an event loop with aiohttp, imported with it alone; ``small_server`` needs the standard library only.
"""
