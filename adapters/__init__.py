"""podtide.adapters: bytes in, stimuli out; commands in, calls out."""
