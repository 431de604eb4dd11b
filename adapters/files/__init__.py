"""Files that users write: Spark configurations, clusters, workloads, prices. YAML with line numbers in every error."""
