"""The explorer: the views of whence.report, live, on this machine."""
