"""What the tables of a run say, and how sure it is: contrasts, means, correlations, regressions.

Tables in, tables out: every function takes a pandas DataFrame such as `run.tokens` and gives one, a row per comparison.
Tokens of one document are not independent; name the column of documents as `cluster` and intervals and tests go by it.
"""

from whence.stats.contrast import contrasts
from whence.stats.correct import corrected
from whence.stats.correlate import correlations
from whence.stats.mean import means
from whence.stats.regress import regressions

__all__ = ["contrasts", "corrected", "correlations", "means", "regressions"]
