"""Two runs compared, for people and programs: the document of ``podtide compare``, its terminal page, its HTML page."""
