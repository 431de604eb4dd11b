"""The document of a what-if, tune or diff: its model, its findings in sentences, its terminal pages."""
