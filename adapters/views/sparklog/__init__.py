"""What Spark's own log would say of each decision, line by line, in Spark's words."""
