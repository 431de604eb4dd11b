"""The history of many runs: kept in SQLite, filled from folders, stores and History Servers, and told to others."""
