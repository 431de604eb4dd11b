"""The API server of the domain behind HTTP/1.1 on loopback: ``serving`` runs it in a thread of its own.

Every request is one step of the value, in one event loop, in the order in which requests were read. Watches are chunked
answers or websockets. aiohttp does the protocol; it is imported with ``serving`` alone.
"""
