"""One process in charge: a Lease with the mark of executor ids on it, and the identity of its holder."""
