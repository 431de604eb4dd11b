"""What the tasks of a rerun leave behind on executors: map output, and what becomes of it when they go."""
