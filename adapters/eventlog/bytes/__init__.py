"""The bytes of a log: where it lies (file, folder, ZIP, object store, pipe), which codec, which lines."""
