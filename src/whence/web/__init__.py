"""The explorer: the views of whence.page, live, on this machine."""
