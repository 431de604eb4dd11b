"""What several commands share: output and refusals, the configuration they were given, the two loops."""
