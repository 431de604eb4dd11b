"""Commands as calls to the API server, in an order that keeps what belongs together, safe to repeat."""
