"""Entropy of attention as a measure of whence, and a reader of XML."""
