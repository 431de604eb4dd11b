"""A history in a browser: pages of HTML and SVG without a script, made for each request from the history's file."""
