"""Does a ranking of sources tell what a prediction rests on? What is taken away, and what its loss says."""
