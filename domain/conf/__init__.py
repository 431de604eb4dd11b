"""SparkConf: Spark's keys with their types, defaults and versions, and from them the config of each machine.

``spark_conf`` holds settings, ``entries*`` is the table of keys, ``reader`` reads one as Spark does; ``scaling_config``,
``kubernetes_config``, ``yarn_config`` and ``backend_config`` make the records of ``protocol.config``; ``review`` says
what is in force and why. Machines know records, never text.
"""
