"""The whole story of one executor or one moment, from a recording."""
