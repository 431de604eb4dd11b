"""What podtide's HTTP servers share: a thread with an event loop, bounds on what clients can hold of it, and TLS.

aiohttp does the protocol; it is imported with ``listener`` alone.
"""
