"""``podtide shuffle-service``: what executors need of Spark's external shuffle service on a cluster, and its cleaner."""
