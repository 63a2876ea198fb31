"""Everything a browser shows: what goes into a page, its modules and style, and how they become one file."""
