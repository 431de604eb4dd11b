"""What executor pods are made from besides the conf: templates, profile files, SPARK_CONF_DIR; and pods as YAML."""
