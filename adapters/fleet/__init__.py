"""Very many logs: discovery, a journal that survives interruption, rows and tables, Spark as the engine."""
