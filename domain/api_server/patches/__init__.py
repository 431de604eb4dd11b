"""How a change is written down: the patches of RFC 6902 and 7386, strategic merge, and server-side apply."""
