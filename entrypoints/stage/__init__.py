"""``podtide stage``: local files for the pods of an application, without storage that they share."""
