"""The offline HTML report and the notebook view of a what-if document: one file, no network."""
