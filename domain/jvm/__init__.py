"""Java, Scala and fabric8 as they are, where Spark's answers follow them.

``values`` (numbers and texts as the JVM parses and prints them), ``hash_order`` (the order in which Scala's maps are
walked), ``instants``, ``quantities`` (Kubernetes quantities as fabric8 reads them), ``exceptions`` (what Spark throws, as
values).
"""
