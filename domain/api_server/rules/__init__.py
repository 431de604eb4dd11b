"""What objects have to be like: types of fields, defaults, what has to hold and what may not change, for every kind."""
